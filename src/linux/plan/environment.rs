//! The environment of the command: the caller's, with the proxies and TMPDIR in it.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{HTTP_PORT, SOCKS_PORT};
use crate::error::{Error, Kind, Result};
use crate::policy::Host;

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

/// Builds the environment, `NAME=value` each; everything else passes byte for byte.
pub(super) fn plan(host: &Host, tmpdir: &Path) -> Result<Vec<CString>> {
    let ours = ours(host, tmpdir);
    let kept = host
        .env
        .iter()
        .filter(|(name, _)| !ours.iter().any(|(own, _)| own == name));
    let all = kept.map(|(name, value)| (name.as_os_str(), value.as_os_str()));
    let ours = ours
        .iter()
        .map(|(name, value)| (OsStr::new(name), value.as_os_str()));
    all.chain(ours)
        .map(|(name, value)| variable(name, value))
        .collect()
}

fn ours(host: &Host, tmpdir: &Path) -> Vec<(&'static str, OsString)> {
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
    ours.extend(["NO_PROXY", "no_proxy"].map(|name| (name, no_proxy(host, name))));
    ours.push(("CLOUDSDK_PROXY_TYPE", "http".into()));
    ours.push(("CLOUDSDK_PROXY_ADDRESS", "127.0.0.1".into()));
    ours.push(("CLOUDSDK_PROXY_PORT", HTTP_PORT.to_string().into()));
    ours.push(("NODE_USE_ENV_PROXY", "1".into()));
    ours.push(("SANDBOX_RUNTIME", "1".into()));
    ours.push(("TMPDIR", tmpdir.into()));
    ours
}

/// Keeps the caller's own entries: inside, an entry only makes a program try a direct
/// connection, which leads nowhere.
fn no_proxy(host: &Host, name: &str) -> OsString {
    let other = if name == "NO_PROXY" {
        "no_proxy"
    } else {
        "NO_PROXY"
    };
    let mut value = OsString::from(LOOPBACK);
    if let Some(own) = host.var(name).or_else(|| host.var(other)) {
        value.push(",");
        value.push(own);
    }
    value
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
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn planned(env: &[(&str, &[u8])]) -> Vec<Vec<u8>> {
        let pair = |(name, value): &(&str, &[u8])| {
            (OsString::from(name), OsString::from_vec(value.to_vec()))
        };
        let host = Host {
            cwd: "/".into(),
            home: None,
            env: env.iter().map(pair).collect(),
            uid: 1000,
            gid: 1000,
        };
        let env = plan(&host, Path::new("/tmp/private")).expect("no NUL byte");
        env.into_iter().map(CString::into_bytes).collect()
    }

    #[test]
    fn variables_of_the_caller_pass_byte_for_byte() {
        let env = planned(&[("A", b"\xff\n="), ("EMPTY", b""), ("A", b"again")]);
        assert_eq!(
            env[..3],
            [
                b"A=\xff\n=".to_vec(),
                b"EMPTY=".to_vec(),
                b"A=again".to_vec()
            ]
        );
    }

    #[test]
    fn tmpdir_and_proxies_are_ours_and_stand_once() {
        let env = planned(&[("TMPDIR", b"/elsewhere"), ("HTTPS_PROXY", b"http://other")]);
        for (name, value) in [
            ("TMPDIR=", "/tmp/private"),
            ("HTTPS_PROXY=", "http://127.0.0.1:3128"),
            ("SANDBOX_RUNTIME=", "1"),
        ] {
            let found: Vec<_> = env
                .iter()
                .filter(|entry| entry.starts_with(name.as_bytes()))
                .collect();
            assert_eq!(found, [&[name, value].concat().into_bytes()]);
        }
    }

    #[test]
    fn entries_of_the_callers_no_proxy_follow_the_loopback() {
        let env = planned(&[("no_proxy", b"intranet")]);
        for name in ["NO_PROXY", "no_proxy"] {
            let wanted = format!("{name}=localhost,127.0.0.1,::1,[::1],intranet").into_bytes();
            assert!(env.contains(&wanted));
        }
    }
}
