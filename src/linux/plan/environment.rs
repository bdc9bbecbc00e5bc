//! The environment of the command: what the policy keeps of the caller's, and what we set.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{HTTP_PORT, SOCKS_PORT};
use crate::error::{Error, Kind, Result};
use crate::policy::environment::{Environment, Proxies};

/// Variables that name the HTTP proxy; most programs read one case only.
const HTTP_PROXY: [&str; 10] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "GRPC_PROXY",
    "grpc_proxy",
    "DOCKER_HTTP_PROXY",
    "DOCKER_HTTPS_PROXY",
];

/// Variables that name the SOCKS proxy, where there is one.
const SOCKS_PROXY: [&str; 2] = ["FTP_PROXY", "ftp_proxy"];

/// What must never be asked of a proxy: the sandbox's own loopback. Private ranges are not in
/// it, since a listed intranet host is reached through the proxy alone. Clients read `::1` in
/// one of two spellings.
const LOOPBACK: &str = "localhost,127.0.0.1,::1,[::1]";

/// More directories than this become `*`: git reads each as two variables of every process.
const MOST_SAFE_DIRECTORIES: usize = 8;

type Variable = (OsString, OsString);

/// Builds the environment, `NAME=value` each; what is kept passes byte for byte.
pub(super) fn plan(environment: &Environment, tmpdir: &Path) -> Result<Vec<CString>> {
    let set = &environment.set;
    let mut ours = ours(environment, tmpdir);
    ours.retain(|(name, _)| !set.iter().any(|(own, _)| own == name));
    let git = safe_directories(environment);
    // Git's are numbered on from the others, so they replace whatever is there.
    let replaced = |name: &OsString, by: &[Variable]| by.iter().any(|(own, _)| own == name);
    let kept = environment.kept.iter().chain(set);
    let kept = kept.filter(|(name, _)| !replaced(name, &ours) && !replaced(name, &git));
    let all = kept.chain(&ours).chain(&git);
    all.map(|(name, value)| variable(name, value)).collect()
}

fn ours(environment: &Environment, tmpdir: &Path) -> Vec<Variable> {
    let mut ours = match environment.proxies {
        Proxies::Ours => proxies(environment),
        Proxies::Nobodys | Proxies::Callers => Vec::new(),
    };
    ours.push(("SANDBOX_RUNTIME".into(), "1".into()));
    ours.push(("TMPDIR".into(), tmpdir.into()));
    ours
}

fn proxies(environment: &Environment) -> Vec<Variable> {
    let http = format!("http://127.0.0.1:{HTTP_PORT}");
    let socks = format!("socks5h://127.0.0.1:{SOCKS_PORT}");
    let other = if cfg!(feature = "socks") {
        &socks
    } else {
        &http
    };
    let mut ours: Vec<(&str, OsString)> = Vec::new();
    ours.extend(HTTP_PROXY.map(|name| (name, http.clone().into())));
    ours.extend(SOCKS_PROXY.map(|name| (name, other.clone().into())));
    ours.push(("RSYNC_PROXY", format!("127.0.0.1:{HTTP_PORT}").into()));
    ours.extend(["NO_PROXY", "no_proxy"].map(|name| (name, no_proxy(environment, name))));
    ours.push(("CLOUDSDK_PROXY_TYPE", "http".into()));
    ours.push(("CLOUDSDK_PROXY_ADDRESS", "127.0.0.1".into()));
    ours.push(("CLOUDSDK_PROXY_PORT", HTTP_PORT.to_string().into()));
    ours.push(("NODE_USE_ENV_PROXY", "1".into()));
    let ours = ours.into_iter();
    ours.map(|(name, value)| (name.into(), value)).collect()
}

/// Keeps the caller's own entries: inside, an entry only makes a program try a direct
/// connection, which leads nowhere.
fn no_proxy(environment: &Environment, name: &str) -> OsString {
    let other = if name == "NO_PROXY" {
        "no_proxy"
    } else {
        "NO_PROXY"
    };
    let own = |name| environment.var(name).filter(|value| !value.is_empty());
    let mut value = OsString::from(LOOPBACK);
    if let Some(own) = own(name).or_else(|| own(other)) {
        value.push(",");
        value.push(own);
    }
    value
}

/// Has git trust directories whoever owns them, by variables numbered on from those that are
/// there; see git-config(1), "GIT_CONFIG_COUNT" and "safe.directory".
fn safe_directories(environment: &Environment) -> Vec<Variable> {
    let Some(first) = first_free(environment.var("GIT_CONFIG_COUNT")) else {
        return Vec::new();
    };
    let directories = &environment.safe_directories;
    let any = Path::new("*");
    let values: Vec<OsString> = match directories.len() {
        0 => return Vec::new(),
        len if len > MOST_SAFE_DIRECTORIES => vec![any.into()],
        _ if directories.iter().any(|directory| directory == any) => vec![any.into()],
        _ => {
            let both = directories.iter().map(|dir| [dir.clone(), dir.join("*")]);
            both.flatten().map(OsString::from).collect()
        }
    };
    let mut variables = Vec::new();
    let mut number = first;
    for value in values {
        variables.push((
            format!("GIT_CONFIG_KEY_{number}").into(),
            "safe.directory".into(),
        ));
        variables.push((format!("GIT_CONFIG_VALUE_{number}").into(), value));
        number += 1;
    }
    variables.push(("GIT_CONFIG_COUNT".into(), number.to_string().into()));
    variables
}

/// Returns the first number that is free; none where nothing is to be added: a caller's 0
/// says so, and what git would refuse is left for it to refuse.
fn first_free(count: Option<&OsStr>) -> Option<i64> {
    let Some(count) = count.filter(|count| !count.is_empty()) else {
        return Some(0);
    };
    let count: i32 = count.to_str()?.parse().ok()?;
    (count > 0).then_some(count.into())
}

fn variable(name: &OsStr, value: &OsStr) -> Result<CString> {
    let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
    CString::new(bytes).map_err(|_| {
        Error::new(
            Kind::Usage,
            format!("the variable {} holds a NUL byte", name.display()),
        )
    })
}

#[cfg(test)]
mod tests;
