//! A plan as text: a line for each thing the kernel is asked, in the order of the launch. `{:#}`
//! shows the arguments of the command too, which may be secrets.

use std::ffi::{CStr, OsStr};
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use super::filter::Filter;
use super::ids::{Ids, Map};
use super::{CAPTURE_PORT, HostSockets, Observed, Place, Plan, RESOLVER_PORT, Role};
use crate::backend::{Bound, Limit, Means};
use crate::policy::Nesting;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ids: {}", self.ids)?;
        for op in &self.mounts {
            writeln!(f, "mount: {op}")?;
        }
        for (role, port) in &self.listeners {
            writeln!(f, "listen: {role} on 127.0.0.1 and [::1], port {port}")?;
        }
        if let Some(capture) = &self.capture {
            let ports: Vec<_> = capture.ports.iter().map(ToString::to_string).collect();
            writeln!(
                f,
                "capture: every other TCP destination, redirected to port {CAPTURE_PORT}"
            )?;
            writeln!(
                f,
                "capture: or, where that is not possible, ports {}",
                ports.join(" ")
            )?;
            writeln!(f, "listen: resolver on every address, port {RESOLVER_PORT}")?;
        }
        match self.nesting {
            Nesting::Refused => {}
            Nesting::Userns => writeln!(f, "nested: user namespaces")?,
            Nesting::Mounts => writeln!(
                f,
                "nested: user and mount namespaces; the mounts above are locked in one"
            )?,
        }
        let capabilities = match (self.keeps_setfcap(), self.keeps_file_capabilities) {
            (false, false) => "no capability",
            (true, false) => "no capability but CAP_SETFCAP",
            (false, true) => "no capability but CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_FOWNER",
            (true, true) => {
                "no capability but CAP_SETFCAP, CAP_CHOWN, CAP_DAC_OVERRIDE and CAP_FOWNER"
            }
        };
        let keyring = match self.place {
            Place::Host => ", a new session keyring",
            Place::Sandbox => "",
        };
        writeln!(f, "rights: {capabilities}, no_new_privs{keyring}")?;
        for filter in &self.filters {
            writeln!(f, "seccomp: {filter}")?;
        }
        for rule in &self.ruleset {
            writeln!(f, "landlock: {rule}")?;
        }
        if let Some(filter) = &self.stopped {
            let does = match (self.host_sockets, self.observed) {
                (HostSockets::Closed, Observed::Nothing) => "performs",
                (HostSockets::Closed, _) => "performs or reports",
                (HostSockets::Open, _) => "reports",
            };
            writeln!(f, "seccomp: {filter}, whose calls the broker {does}")?;
        }
        for bound in &self.limits.bounds {
            writeln!(f, "limit: {bound}")?;
        }
        for group in &self.limits.groups {
            writeln!(f, "control group: below {}", group.parent.display())?;
        }
        if self.keep_background {
            writeln!(
                f,
                "background: what the command leaves running is waited for"
            )?;
        }
        self.command(f)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.by {
            Means::Init => "by the first process",
            Means::Group2 => "by a control group (version 2), all processes together",
            Means::Group1 => "by a control group (version 1), all processes together",
            Means::Rlimit if self.limit == Limit::Processes => {
                "by setrlimit, all processes together"
            }
            Means::Rlimit => "by setrlimit, each process by itself",
        };
        write!(f, "{} {}, {by}", self.limit.key(), self.value)
    }
}

impl Plan {
    fn command(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = [0, 1, 2].iter().chain(&self.keep_fds);
        let numbers: Vec<_> = numbers.map(ToString::to_string).collect();
        writeln!(f, "descriptors: {}", numbers.join(" "))?;
        writeln!(f, "cwd: {}", self.cwd)?;
        for dropped in &self.dropped {
            let name = shown(&dropped.name);
            writeln!(f, "not passed: {name}: {}", dropped.reason)?;
        }
        // Values may be secrets: they are shown nowhere.
        let names = self.env.iter().map(|variable| name_of(variable));
        writeln!(f, "env: {}", names.collect::<Vec<_>>().join(" "))?;
        let programs = self.programs.iter().map(|path| shown(os_str(path)));
        writeln!(f, "program: {}", programs.collect::<Vec<_>>().join(" or "))?;
        if !f.alternate() {
            return match &self.argv[..] {
                [] => write!(f, "argv:"),
                [first] => write!(f, "argv: {:?}", os_str(first)),
                [first, rest @ ..] => {
                    write!(f, "argv: {:?} and {} more", os_str(first), rest.len())
                }
            };
        }
        let words = self.argv.iter().map(|word| format!("{:?}", os_str(word)));
        write!(f, "argv: {}", words.collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (uid, gid) = self.inside;
        write!(f, "user {uid}, group {gid}")?;
        match self.map {
            Map::Own(outside) if outside == self.inside => write!(f, ", mapped one to one"),
            Map::Own((uid, gid)) => write!(f, ", which are user {uid}, group {gid} outside"),
            Map::All { .. } => write!(f, ", and all others, mapped one to one"),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "HTTP proxy",
            Self::Socks => "SOCKS5 proxy",
            Self::Captured => "captured connections",
            Self::Resolver | Self::ResolverDatagrams => "resolver",
        })
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} instructions", self.name, self.program().len())
    }
}

fn os_str(text: &CStr) -> &OsStr {
    OsStr::from_bytes(text.to_bytes())
}

/// Leaves a plain word as it is, and quotes and escapes any other.
fn shown(text: &OsStr) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./+:".contains(byte);
    match !text.is_empty() && text.as_bytes().iter().all(is_plain) {
        true => text.to_string_lossy().into_owned(),
        false => format!("{text:?}"),
    }
}

fn name_of(variable: &CStr) -> String {
    let bytes = variable.to_bytes();
    // A name may begin with `=`; the value starts at a later one.
    let end = bytes.iter().skip(1).position(|byte| *byte == b'=');
    shown(OsStr::from_bytes(end.map_or(bytes, |end| &bytes[..=end])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_reader_could_mistake_them() {
        assert_eq!(shown(os_str(c"/usr/bin/c++")), "/usr/bin/c++");
        assert_eq!(shown(os_str(c"")), r#""""#);
        assert_eq!(shown(os_str(c"a b")), r#""a b""#);
        assert_eq!(shown(os_str(c"\x1b[2J\xff")), r#""\u{1b}[2J\xFF""#);
    }

    #[test]
    fn of_a_variable_the_name_alone_is_shown() {
        assert_eq!(name_of(c"A=b=c"), "A");
        assert_eq!(name_of(c"=A=b"), r#""=A""#);
        assert_eq!(name_of(c"A="), "A");
        assert_eq!(name_of(c"A"), "A");
    }
}
