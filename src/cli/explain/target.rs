//! What `srt ctl explain` is asked about, as it is typed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::usage;
use crate::error::{Error, Result};
use crate::policy::{Host, hostname};
use crate::settings::{nearest_word, quoted, shown};

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A path, absolute, links not followed.
    Path(PathBuf),
    /// A host and a port.
    Host {
        /// Where a connection would go.
        target: hostname::Target,
        /// No port was given.
        port_assumed: bool,
    },
    /// The path of a Unix socket, absolute, links not followed.
    Socket(PathBuf),
}

/// What can be written.
pub(super) const FORMS: &str = "write path:/x, host:example.org:443 or socket:/x";

const KINDS: [&str; 3] = ["path", "host", "socket"];

/// The port of a host that is named without one.
const HTTPS: u16 = 443;

/// Parses `path:/x`, `host:name:port` or `socket:/x`; `~` is the home directory.
///
/// # Errors
/// The kind is missing or unknown, the path is not absolute, or the host is none.
pub(super) fn parse(text: &OsStr, host: &Host) -> Result<Target> {
    let bytes = text.as_bytes();
    let colon = bytes.iter().position(|byte| *byte == b':');
    let Some(colon) = colon else {
        return Err(no_kind(text));
    };
    let (kind, rest) = (&bytes[..colon], OsStr::from_bytes(&bytes[colon + 1..]));
    match kind {
        b"path" => absolute("path", rest, host).map(Target::Path),
        b"socket" => absolute("socket", rest, host).map(Target::Socket),
        b"host" => destination(rest),
        _ => Err(unknown_kind(text, &String::from_utf8_lossy(kind))),
    }
}

fn no_kind(text: &OsStr) -> Error {
    let said = text.to_string_lossy();
    let hint = match () {
        () if said.is_empty() => FORMS.to_owned(),
        () if said.starts_with(['/', '~', '.']) => format!("write path:{}", shown(Path::new(text))),
        () => format!("write host:{}:{HTTPS}", shown(Path::new(text))),
    };
    usage(format!("the target {} names no kind", quoted(&said))).with_hint(hint)
}

fn unknown_kind(text: &OsStr, kind: &str) -> Error {
    let advice = match nearest_word(KINDS.into_iter().map(|kind| (kind, kind)), kind) {
        Some(near) => format!("; did you mean `{near}:`?"),
        None => String::new(),
    };
    let is_host = hostname::Target::parse(&text.to_string_lossy(), None).is_ok();
    let hint = match is_host && advice.is_empty() {
        true => format!("for a host: host:{}", shown(Path::new(text))),
        false => FORMS.to_owned(),
    };
    let goal = format!("there is no kind of target {}{advice}", quoted(kind));
    usage(goal).with_hint(hint)
}

fn absolute(kind: &str, text: &OsStr, host: &Host) -> Result<PathBuf> {
    let path = Path::new(text);
    if text.is_empty() {
        return Err(
            usage(format!("the path of {kind}: is empty")).with_hint(format!("write {kind}:/x"))
        );
    }
    if text.as_bytes().contains(&0) {
        return Err(usage(format!("the path of {kind}: holds a NUL byte")));
    }
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let below_home = match text.as_bytes().strip_prefix(b"~") {
        Some([]) => Some(Path::new("")),
        Some([b'/', rest @ ..]) => Some(Path::new(OsStr::from_bytes(rest))),
        _ => None,
    };
    match (below_home, &host.home) {
        (Some(below), Some(home)) => Ok(home.join(below)),
        (Some(_), None) => Err(
            usage("`~` needs HOME to be an absolute path, and it is not")
                .with_hint("set HOME, or write the path out"),
        ),
        (None, _) => {
            let goal = format!(
                "the path {} is not absolute",
                quoted(&text.to_string_lossy())
            );
            let here = host.cwd.join(path);
            Err(usage(goal).with_hint(format!("write {kind}:{}", shown(&here))))
        }
    }
}

fn destination(text: &OsStr) -> Result<Target> {
    let said = text.to_string_lossy();
    let target = hostname::Target::parse(&said, Some(HTTPS)).map_err(|malformed| {
        let goal = format!("cannot take {} for a host: {malformed}", quoted(&said));
        let example = of_url(&said).unwrap_or_else(|| "example.org:443".to_owned());
        usage(goal).with_hint(format!("write host:{example}"))
    })?;
    let port_assumed = hostname::Target::parse(&said, None).is_err();
    Ok(Target::Host {
        target,
        port_assumed,
    })
}

/// Returns the host and port that a URL leads to.
fn of_url(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let default = match scheme {
        "http" | "ws" => 80,
        _ => HTTPS,
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let target = hostname::Target::parse(host, Some(default)).ok()?;
    Some(target.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(home: Option<&str>) -> Host {
        Host {
            cwd: "/w".into(),
            home: home.map(PathBuf::from),
            env: Vec::new(),
            uid: 1000,
            gid: 1000,
            program: None,
        }
    }

    fn parsed(text: &str) -> Result<Target> {
        parse(OsStr::new(text), &host(Some("/home/ada")))
    }

    fn refusal(text: &str) -> (String, String) {
        let error = parsed(text).expect_err(text);
        (
            error.to_string(),
            error.hint().unwrap_or_default().to_owned(),
        )
    }

    #[test]
    fn targets_are_read_with_and_without_a_port_and_below_home() {
        let paths = [
            ("path:/a/b", Target::Path("/a/b".into())),
            ("path:~", Target::Path("/home/ada".into())),
            ("path:~/.ssh", Target::Path("/home/ada/.ssh".into())),
            ("path:/a:b", Target::Path("/a:b".into())),
            ("socket:/run/x", Target::Socket("/run/x".into())),
        ];
        for (text, expected) in paths {
            assert_eq!(parsed(text).unwrap(), expected, "{text}");
        }
        let hosts = [
            ("host:A.Example", "a.example:443", true),
            ("host:a.example:80", "a.example:80", false),
            ("host:[::1]", "[::1]:443", true),
            ("host:0x7f.1:22", "127.0.0.1:22", false),
        ];
        for (text, expected, assumed) in hosts {
            let Target::Host {
                target,
                port_assumed,
            } = parsed(text).unwrap()
            else {
                panic!("{text} is a host");
            };
            assert_eq!(
                (target.to_string(), port_assumed),
                (expected.into(), assumed)
            );
        }
    }

    #[test]
    fn what_is_no_target_is_refused_with_what_to_write() {
        let table = [
            ("", "names no kind", "path:/x, host:example.org:443"),
            ("/etc/passwd", "names no kind", "write path:/etc/passwd"),
            ("a.example", "names no kind", "write host:a.example:443"),
            (
                "a.example:80",
                "no kind of target `a.example`",
                "host:a.example:80",
            ),
            ("paths:/x", "did you mean `path:`?", "write path:/x"),
            ("file:/x", "no kind of target `file`", "write path:/x"),
            ("path:", "is empty", "write path:/x"),
            ("socket:", "is empty", "write socket:/x"),
            ("path:src/../x", "is not absolute", "write path:/w/src/../x"),
            ("path:~bob/x", "is not absolute", "write path:/w/~bob/x"),
            ("socket:x", "is not absolute", "write socket:/w/x"),
            ("host:", "the host is empty", "write host:example.org:443"),
            (
                "host:a.example:0",
                "port is not a number",
                "example.org:443",
            ),
            (
                "host:a.example:99999",
                "port is not a number",
                "example.org:443",
            ),
            ("host:a..example", "empty label", "example.org:443"),
            ("host:::1", "needs brackets", "example.org:443"),
            (
                "host:https://u@a.example/x?y",
                "host",
                "write host:a.example:443",
            ),
            (
                "host:http://a.example:8080",
                "host",
                "write host:a.example:8080",
            ),
        ];
        for (text, goal, hint) in table {
            let (said, remedy) = refusal(text);
            assert!(said.contains(goal), "{text}: {said}");
            assert!(remedy.contains(hint), "{text}: {remedy}");
        }
    }

    #[test]
    fn a_tilde_without_a_home_is_refused() {
        let error = parse(OsStr::new("path:~/x"), &host(None)).expect_err("no HOME");
        assert!(error.to_string().contains("HOME"), "{error}");
    }
}
