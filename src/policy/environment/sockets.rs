//! Which socket of the host a variable leads to, and whether that one is granted.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::Caller;
use crate::error::Result;
use crate::policy::{Host, path};
use crate::settings::Network;

/// The host's sockets the command may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Granted {
    /// `network.allowAllUnixSockets`.
    All,
    /// Those at or below these paths, which are absolute: `network.allowUnixSockets`.
    Below(Vec<PathBuf>),
}

impl Granted {
    /// Reads `network.allowUnixSockets` and `network.allowAllUnixSockets`.
    ///
    /// # Errors
    /// An entry is no path.
    pub(super) fn from_settings(network: &Network, host: &Host) -> Result<Self> {
        if network.allow_all_unix_sockets {
            return Ok(Self::All);
        }
        let entries = network.allow_unix_sockets.iter();
        let paths = entries.map(|entry| path::absolute(entry, host));
        paths.collect::<Result<_>>().map(Self::Below)
    }

    /// Tells whether `named` is granted, or is a directory with a granted socket in it. A path
    /// is compared as written and with its links followed: `/var/run` is often `/run`.
    fn covers(&self, named: &Path) -> bool {
        let granted = match self {
            Self::All => return true,
            Self::Below(granted) => granted,
        };
        let spellings = |path: &Path| [path.to_owned(), path::way(path).end];
        granted.iter().any(|granted| {
            let granted = spellings(granted);
            let meets = |named: &PathBuf| {
                let mut granted = granted.iter();
                granted.any(|granted| named.starts_with(granted) || granted.starts_with(named))
            };
            spellings(named).iter().any(meets)
        })
    }
}

/// How the value of a variable names a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// A path, of a socket or a directory of sockets; `unix:` may stand before it.
    Path,
    /// The same, before the first byte of this kind.
    PathBefore(u8),
    /// A path, or a name in this directory below `XDG_RUNTIME_DIR`.
    Runtime(&'static str),
    /// A path or `unix:` address; `scheme://…` and `host:port` are no local sockets.
    Address,
    /// Servers, separated by blanks: what is no path and no `unix:` address is a host.
    Server,
    /// `:0`, which is `/tmp/.X11-unix/X0`; with a host before the colon it is no local socket.
    X11,
    /// Addresses of the D-Bus specification, separated by `;`.
    DBus,
    /// Addresses of an X session manager, separated by `,`.
    Xsmp,
    /// This socket, whatever the value is.
    At(&'static str),
    /// A socket whose place the value does not tell.
    Unnamed,
    /// A descriptor of the caller's, which the command does not inherit.
    Descriptor,
    /// What another variable leads to: both stay or both go.
    With(&'static str),
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path => f.write_str("path"),
            Self::PathBefore(end) => write!(f, "path before `{}`", char::from(*end)),
            Self::Runtime("") => f.write_str("path, or name in `XDG_RUNTIME_DIR`"),
            Self::Runtime(dir) => write!(f, "path, or name in `XDG_RUNTIME_DIR/{dir}`"),
            Self::Address => f.write_str("path or `unix:`; `host:port` is passed"),
            Self::Server => f.write_str("path or `unix:`; other servers are passed"),
            Self::X11 => f.write_str("`:0` is `/tmp/.X11-unix/X0`; `host:0` is passed"),
            Self::DBus => f.write_str("D-Bus addresses; `tcp:` is passed"),
            Self::Xsmp => f.write_str("`local/` and `unix/` addresses; `tcp/` is passed"),
            Self::At(path) => write!(f, "`{path}`"),
            Self::Unnamed => f.write_str("by `allowAllUnixSockets` alone"),
            Self::Descriptor => f.write_str("never"),
            Self::With(leader) => write!(f, "with `{leader}`"),
        }
    }
}

/// What a value leads to.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    /// No local socket.
    Elsewhere,
    /// A local socket, by one of these paths; none if it has no path.
    Local(Vec<PathBuf>),
}

impl Names {
    /// Tells whether the value leads to nothing that is out of reach. `With` is the caller's
    /// to decide.
    pub(super) fn admits(self, value: &OsStr, caller: &Caller<'_>, granted: &Granted) -> bool {
        if value.is_empty() {
            return true;
        }
        if self == Self::Descriptor {
            return false;
        }
        match (self.target(value.as_bytes(), caller), granted) {
            (Target::Elsewhere, _) | (Target::Local(_), Granted::All) => true,
            (Target::Local(paths), granted) => paths.iter().any(|path| granted.covers(path)),
        }
    }

    fn target(self, value: &[u8], caller: &Caller<'_>) -> Target {
        match self {
            Self::Path => local(value, caller),
            Self::PathBefore(end) => local(before(value, end), caller),
            Self::Runtime(dir) => runtime(value, dir, caller),
            Self::Address if leads_to_a_host(value) => Target::Elsewhere,
            Self::Address => local(value, caller),
            Self::Server => {
                let servers = value.split(u8::is_ascii_whitespace);
                any(servers.map(|server| server_target(server, caller)))
            }
            Self::X11 => x11(value),
            Self::DBus => any(value
                .split(|&byte| byte == b';')
                .map(|one| dbus(one, caller))),
            Self::Xsmp => any(value.split(|&byte| byte == b',').map(xsmp)),
            Self::At(path) => Target::Local(vec![path.into()]),
            Self::Unnamed | Self::Descriptor | Self::With(_) => Target::Local(Vec::new()),
        }
    }
}

/// Joins alternatives: a program tries one after the other, so one local socket makes the
/// whole local, and one that is granted is enough.
fn any(targets: impl Iterator<Item = Target>) -> Target {
    let mut paths = None;
    for target in targets {
        if let Target::Local(more) = target {
            paths.get_or_insert_with(Vec::new).extend(more);
        }
    }
    paths.map_or(Target::Elsewhere, Target::Local)
}

/// Reads a path, from the working directory on; an abstract name and a descriptor have none.
fn local(value: &[u8], caller: &Caller<'_>) -> Target {
    let path = value.strip_prefix(b"unix:").unwrap_or(value);
    let path = path.strip_prefix(b"//").map_or(path, |rest| {
        // `unix:///run/x` and `unix://run/x` are both written.
        if rest.starts_with(b"/") { rest } else { path }
    });
    let has_path = !matches!(path.first(), None | Some(b'@' | 0)) && !path.starts_with(b"fd:");
    let paths = has_path.then(|| caller.cwd.join(OsStr::from_bytes(path)));
    Target::Local(paths.into_iter().collect())
}

fn runtime(value: &[u8], dir: &str, caller: &Caller<'_>) -> Target {
    if value.starts_with(b"/") {
        return local(value, caller);
    }
    let base = caller.var("XDG_RUNTIME_DIR");
    let paths = base.map(|base| Path::new(base).join(dir).join(OsStr::from_bytes(value)));
    Target::Local(paths.into_iter().collect())
}

/// Tells a URL of another scheme and `host:port` from a path.
fn leads_to_a_host(value: &[u8]) -> bool {
    if value.starts_with(b"unix:") || value.starts_with(b"fd:") || value.starts_with(b"/") {
        return false;
    }
    let port = value.rsplit(|&byte| byte == b':').next();
    let has_port = value.contains(&b':')
        && port.is_some_and(|port| !port.is_empty() && port.iter().all(u8::is_ascii_digit));
    has_port || value.windows(3).any(|three| three == b"://") || value.starts_with(b"tcp:")
}

fn server_target(server: &[u8], caller: &Caller<'_>) -> Target {
    // The machine a PulseAudio server is meant for, and the password of an MPD one.
    let server = match server.first() {
        Some(b'{') => server
            .splitn(2, |&byte| byte == b'}')
            .last()
            .unwrap_or(server),
        _ => server,
    };
    let at = server.windows(2).position(|two| two == b"@/");
    let server = at.map_or(server, |at| &server[at + 1..]);
    match server.first() {
        Some(b'/' | b'@') => local(server, caller),
        _ if server.starts_with(b"unix:") || server.starts_with(b"fd:") => local(server, caller),
        _ => Target::Elsewhere,
    }
}

/// Reads `[unix][:D[.S]]` and `/path[:D[.S]]`, as libxcb does.
fn x11(value: &[u8]) -> Target {
    let Some(colon) = value.iter().rposition(|&byte| byte == b':') else {
        return Target::Local(Vec::new());
    };
    let (host, display) = (&value[..colon], before(&value[colon + 1..], b'.'));
    if host.first() == Some(&b'/') {
        let bytes = [host, value].map(|path| PathBuf::from(OsString::from_vec(path.to_vec())));
        return Target::Local(bytes.into());
    }
    let host = host.strip_suffix(b"/").unwrap_or(host);
    if !matches!(host, b"" | b"unix") {
        return Target::Elsewhere;
    }
    let mut socket = OsString::from("/tmp/.X11-unix/X");
    socket.push(OsStr::from_bytes(display));
    Target::Local(vec![socket.into()])
}

/// Reads one `transport:key=value,…`; see the D-Bus specification, "Server Addresses".
fn dbus(address: &[u8], caller: &Caller<'_>) -> Target {
    let (transport, pairs) = match address.iter().position(|&byte| byte == b':') {
        Some(colon) => (&address[..colon], &address[colon + 1..]),
        None => (address, &b""[..]),
    };
    match transport {
        b"" | b"tcp" | b"nonce-tcp" => return Target::Elsewhere,
        b"unix" => {}
        _ => return Target::Local(Vec::new()),
    }
    let paths = pairs.split(|&byte| byte == b',').filter_map(|pair| {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        let value = unescaped(&pair[equals + 1..]);
        match &pair[..equals] {
            b"path" => Some(PathBuf::from(OsString::from_vec(value))),
            b"runtime" => Some(Path::new(caller.var("XDG_RUNTIME_DIR")?).join("bus")),
            _ => None,
        }
    });
    Target::Local(paths.collect())
}

/// Undoes `%20`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = (byte == b'%').then(|| tail.get(..2)).flatten();
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) => {
                bytes.push(code);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

/// Reads one `network/host:place`. The abstract socket of `local/` has the name of a path.
fn xsmp(address: &[u8]) -> Target {
    let place = address.iter().position(|&byte| byte == b':');
    let place = place.map_or(&b""[..], |colon| &address[colon + 1..]);
    if address.starts_with(b"tcp/") || address.starts_with(b"inet") || address.is_empty() {
        return Target::Elsewhere;
    }
    let path = place.strip_prefix(b"@").unwrap_or(place);
    let path = PathBuf::from(OsStr::from_bytes(path));
    Target::Local(
        Some(path)
            .filter(|path| path.is_absolute())
            .into_iter()
            .collect(),
    )
}

fn before(value: &[u8], end: u8) -> &[u8] {
    value.split(|&byte| byte == end).next().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(names: Names, value: &str) -> Target {
        let env = [(
            OsString::from("XDG_RUNTIME_DIR"),
            OsString::from("/run/user/7"),
        )];
        let caller = Caller::new(&env, Path::new("/work"));
        names.target(value.as_bytes(), &caller)
    }

    #[track_caller]
    fn leads_to(names: Names, value: &str, path: &str) {
        assert_eq!(
            target(names, value),
            Target::Local(vec![path.into()]),
            "{value}"
        );
    }

    #[track_caller]
    fn has_no_path(names: Names, value: &str) {
        assert_eq!(target(names, value), Target::Local(Vec::new()), "{value}");
    }

    #[track_caller]
    fn is_elsewhere(names: Names, value: &str) {
        assert_eq!(target(names, value), Target::Elsewhere, "{value}");
    }

    #[test]
    fn paths_are_read_as_their_programs_read_them() {
        leads_to(Names::Path, "/run/agent", "/run/agent");
        leads_to(Names::Path, "agent", "/work/agent");
        leads_to(Names::Path, "unix:///run/agent", "/run/agent");
        has_no_path(Names::Path, "@abstract");
        leads_to(
            Names::PathBefore(b','),
            "/tmp/tmux-7/default,12,0",
            "/tmp/tmux-7/default",
        );
        leads_to(Names::PathBefore(b':'), "/run/gpg:12:1", "/run/gpg");
        leads_to(Names::Runtime(""), "wayland-0", "/run/user/7/wayland-0");
        leads_to(Names::Runtime(""), "/run/w", "/run/w");
        leads_to(
            Names::Runtime("emacs"),
            "server",
            "/run/user/7/emacs/server",
        );
        leads_to(Names::At("/run/log"), "8:1234", "/run/log");
        has_no_path(Names::Unnamed, "12.pts-0.host");
    }

    #[test]
    fn addresses_of_other_machines_are_no_local_sockets() {
        for value in [
            "tcp://127.0.0.1:2375",
            "ssh://me@host",
            "host:1234",
            "[::1]:6666",
        ] {
            is_elsewhere(Names::Address, value);
            is_elsewhere(Names::Server, value);
        }
        is_elsewhere(Names::Server, "host");
        is_elsewhere(Names::Server, "tcp:host tcp:other");
        leads_to(Names::Address, "/run/nvim.7.0", "/run/nvim.7.0");
        leads_to(Names::Address, "./a:b", "/work/./a:b");
        leads_to(Names::Address, "name", "/work/name");
        leads_to(Names::Address, "unix:/tmp/kitty-1", "/tmp/kitty-1");
        leads_to(Names::Address, "/tmp/a:1", "/tmp/a:1");
        has_no_path(Names::Address, "unix:@kitty");
        has_no_path(Names::Address, "fd:7");
        leads_to(Names::Server, "unix:///run/docker.sock", "/run/docker.sock");
        leads_to(Names::Server, "{0123}unix:/run/pulse", "/run/pulse");
        leads_to(Names::Server, "host /run/pulse", "/run/pulse");
        leads_to(Names::Server, "secret@/run/mpd", "/run/mpd");
    }

    #[test]
    fn displays_are_read_as_libxcb_reads_them() {
        leads_to(Names::X11, ":0", "/tmp/.X11-unix/X0");
        leads_to(Names::X11, ":10.1", "/tmp/.X11-unix/X10");
        leads_to(Names::X11, "unix:3", "/tmp/.X11-unix/X3");
        is_elsewhere(Names::X11, "localhost:10.0");
        has_no_path(Names::X11, "nonsense");
        let Target::Local(paths) = target(Names::X11, "/private/tmp/x:0") else {
            panic!("a path is local");
        };
        assert!(paths.contains(&"/private/tmp/x".into()));
    }

    #[test]
    fn buses_are_read_as_their_specification_says() {
        leads_to(
            Names::DBus,
            "unix:path=/run/user/7/bus,guid=1",
            "/run/user/7/bus",
        );
        leads_to(Names::DBus, "unix:path=/tmp/a%20b%2", "/tmp/a b%2");
        leads_to(Names::DBus, "unix:runtime=yes", "/run/user/7/bus");
        leads_to(Names::DBus, "tcp:host=a,port=1;unix:path=/b", "/b");
        for value in [
            "unix:abstract=/tmp/x",
            "autolaunch:",
            "unixexec:path=/bin/x",
            "odd",
        ] {
            has_no_path(Names::DBus, value);
        }
        is_elsewhere(Names::DBus, "tcp:host=a,port=1;");
        let both = "local/h:@/tmp/.ICE-unix/1,unix/h:/tmp/.ICE-unix/1";
        let path = PathBuf::from("/tmp/.ICE-unix/1");
        assert_eq!(
            target(Names::Xsmp, both),
            Target::Local(vec![path.clone(), path])
        );
        is_elsewhere(Names::Xsmp, "tcp/host:1234");
        has_no_path(Names::Xsmp, "odd");
    }

    #[test]
    fn a_grant_covers_itself_what_lies_below_and_the_directories_above() {
        let granted = Granted::Below(vec!["/no/such/dir".into()]);
        for path in ["/no/such/dir", "/no/such/dir/socket", "/no/such"] {
            assert!(granted.covers(Path::new(path)), "{path}");
        }
        for path in ["/no/such/directory", "/no/other"] {
            assert!(!granted.covers(Path::new(path)), "{path}");
        }
        assert!(Granted::All.covers(Path::new("/anything")));
        assert!(!Granted::Below(Vec::new()).covers(Path::new("/anything")));
    }

    #[test]
    fn a_grant_is_compared_with_links_followed_too() {
        let dir = PathBuf::from(format!("/tmp/srt-granted-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("the name is ours");
        std::os::unix::fs::symlink("run", dir.join("link")).expect("the directory is new");
        let granted = Granted::Below(vec![dir.join("link/socket")]);
        let (same, other) = (dir.join("run/socket"), dir.join("run/other"));
        let covers = [granted.covers(&same), granted.covers(&other)];
        std::fs::remove_dir_all(&dir).expect("the name is ours");
        assert_eq!(covers, [true, false]);
    }
}
