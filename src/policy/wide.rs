//! Write grants over what is later run or trusted outside the sandbox, for the user to read.

use std::path::{Path, PathBuf};

use super::host::Host;
use super::path::Resolver;
use crate::settings::{Entry, Layer};

/// What a grant should not cover unthinkingly; the first that fits is named.
const OUTSIDE: [(&str, &str); 8] = [
    ("/etc", "/etc, the configuration of this machine"),
    ("/usr", "/usr, the programs of this machine"),
    ("/bin", "/bin, the programs of this machine"),
    ("/sbin", "/sbin, the programs of this machine"),
    ("/opt", "/opt, programs of this machine"),
    ("/boot", "/boot, what this machine starts with"),
    ("/run", "/run, where services keep their sockets and state"),
    ("/var", "/var, what services keep"),
];

const HOME: &str = "your home: what a command leaves there is later run outside the sandbox";

/// Says which grants reach further than a task needs; each comes with the path it leads to.
pub(super) fn warnings<'a>(
    granted: impl Iterator<Item = (&'a Entry, &'a Path)>,
    host: &Host,
    resolver: &mut Resolver,
) -> Vec<String> {
    let home = host.home.iter().map(|home| (home.clone(), HOME));
    let listed = OUTSIDE.iter().map(|(path, what)| (path.into(), *what));
    let outside: Vec<_> = listed
        .chain(home)
        .map(|(path, what): (PathBuf, _)| (resolver.way(&path).end, what))
        .collect();
    let written = granted.filter(|(entry, _)| entry.origin.layer != Layer::BuiltIn);
    let warnings = written.filter_map(|(entry, path)| {
        let what = covered(path, &outside)?;
        let name = entry.origin.name();
        Some(format!("{name} `{}` covers {what}", entry.text))
    });
    warnings.collect()
}

/// Says what a grant of `path` would reach that a task does not need; `None` for a narrow one.
pub fn reach(path: &Path, host: &Host) -> Option<&'static str> {
    let home = host.home.as_deref().filter(|home| home.starts_with(path));
    let outside = OUTSIDE.map(|(path, what)| (PathBuf::from(path), what));
    home.map(|_| HOME).or_else(|| covered(path, &outside))
}

fn covered<'a>(granted: &Path, outside: &[(PathBuf, &'a str)]) -> Option<&'a str> {
    let first = outside.iter().find(|(path, _)| path.starts_with(granted));
    first.map(|(_, what)| *what)
}
