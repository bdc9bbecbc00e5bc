//! Stores of secrets: where programs keep them (`data/secrets.json`), and which this machine has.

mod redaction;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use redaction::{Form, Redaction, redact, redact_argument};

use super::host::Host;
use super::path;

/// A place, or several of one kind, where some program keeps secrets.
#[derive(Debug)]
pub struct Store {
    /// Where: absolute, below `~`, or named by a variable. A `*` in the last name stands for
    /// anything, `{uid}` for the number of the caller.
    places: &'static [&'static str],
    /// What of it is not shown.
    pub contents: Contents,
    /// What it holds.
    pub reason: &'static str,
}

/// What of a store is not shown.
#[derive(Debug, Clone, Copy)]
pub enum Contents {
    /// All of it, but for the names that fit these patterns.
    Hidden(&'static [&'static str]),
    /// The lines of a file that hold a secret.
    Redacted(Form),
}

const STORES: &[Store] = include!(concat!(env!("OUT_DIR"), "/secrets.rs"));

/// Where programs look in place of a directory below `~`, if the variable is set; see the XDG
/// Base Directory Specification.
const MOVED: [(&str, &str); 4] = [
    ("~/.cache/", "XDG_CACHE_HOME"),
    ("~/.config/", "XDG_CONFIG_HOME"),
    ("~/.local/share/", "XDG_DATA_HOME"),
    ("~/.local/state/", "XDG_STATE_HOME"),
];

/// The homes of the caller, with what each holds: to ask for a hundred names one by one takes
/// a good part of a launch.
#[derive(Debug)]
pub struct Homes {
    all: Vec<Home>,
    /// Where the variables of [`MOVED`] lead, if they are set.
    moved: [Option<PathBuf>; MOVED.len()],
}

#[derive(Debug)]
struct Home {
    path: PathBuf,
    /// The same, free of links.
    real: PathBuf,
    /// The names in each directory of [`FULL`], sorted; `None` of one that cannot be listed.
    listed: [Option<Vec<OsString>>; FULL.len()],
}

/// Directories of a home that many stores lie in, each with what a path below it starts with.
const FULL: [&str; 3] = ["", ".config/", ".local/share/"];

impl Homes {
    /// Looks at `HOME` and at the home of the account, which programs use where they are not
    /// told otherwise.
    pub fn of(host: &Host) -> Self {
        let account = account_home(host.uid).filter(|home| host.home.as_ref() != Some(home));
        let paths = host.home.iter().cloned().chain(account);
        let moved = MOVED.map(|(_, name)| {
            let dir = host.var(name).map(PathBuf::from)?;
            dir.is_absolute().then_some(dir)
        });
        Self {
            all: paths.map(Home::listed).collect(),
            moved,
        }
    }

    /// Tells whether a path is one of them or holds one.
    pub fn hold(&self, path: &Path) -> bool {
        let mut homes = self.all.iter();
        homes.any(|home| home.path.starts_with(path) || home.real.starts_with(path))
    }

    fn having(&self, below: &str) -> impl Iterator<Item = PathBuf> {
        let homes = self.all.iter().filter(move |home| home.may_have(below));
        homes.map(move |home| home.path.join(below))
    }

    /// Returns the place that takes the one of `place`, which starts with `~`.
    fn moved(&self, place: &str) -> Option<PathBuf> {
        let mut dirs = MOVED.iter().zip(&self.moved);
        dirs.find_map(|((from, _), dir)| Some(dir.as_ref()?.join(place.strip_prefix(from)?)))
    }
}

impl Home {
    fn listed(path: PathBuf) -> Self {
        let listed = FULL.map(|below| {
            let entries = path.join(below).read_dir().ok()?;
            let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
            let mut names = names.collect::<Result<Vec<_>, _>>().ok()?;
            names.sort_unstable();
            Some(names)
        });
        let real = path::way(&path).end;
        Self { path, real, listed }
    }

    fn may_have(&self, below: &str) -> bool {
        // The last that was listed tells most: it is there, and so is what it lies in.
        let listed = FULL.iter().zip(&self.listed).rev();
        let mut told = listed.filter_map(|(full, names)| {
            let rest = below.strip_prefix(full)?;
            Some((rest.split('/').next()?, names.as_ref()?))
        });
        let Some((name, names)) = told.next().filter(|(name, _)| !name.contains('*')) else {
            return true;
        };
        let of = |listed: &OsString| listed.as_os_str().cmp(OsStr::new(name));
        names.binary_search_by(of).is_ok()
    }
}

/// Reads the home of an account from `/etc/passwd`; see passwd(5). Other sources may wait for
/// a network.
fn account_home(uid: u32) -> Option<PathBuf> {
    let text = std::fs::read("/etc/passwd").ok()?;
    let text = String::from_utf8_lossy(&text);
    let uid = uid.to_string();
    let home = text.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        (fields.next() == Some(uid.as_str())).then(|| fields.nth(2))?
    })?;
    Some(PathBuf::from(home)).filter(|home| home.is_absolute())
}

/// Returns every store that may be on this machine with each of its places there.
pub fn places<'a>(
    host: &'a Host,
    homes: &'a Homes,
) -> impl Iterator<Item = (&'static Store, PathBuf)> {
    STORES.iter().flat_map(move |store| {
        let places = store.places.iter();
        let places = places.flat_map(move |place| on_host(place, host, homes));
        places.flat_map(expanded).map(move |place| (store, place))
    })
}

/// Returns where a place may be on this machine.
pub(super) fn on_host(place: &'static str, host: &Host, homes: &Homes) -> Vec<PathBuf> {
    if let Some(named) = place.strip_prefix('$') {
        let (name, below) = named.split_once('/').unwrap_or((named, ""));
        let values = variables(name, host);
        let paths = values.flat_map(|value| named_paths(value, host));
        return paths.map(|path| joined(path, below)).collect();
    }
    let Some(below) = place.strip_prefix("~/") else {
        return vec![place.replace("{uid}", &host.uid.to_string()).into()];
    };
    homes.having(below).chain(homes.moved(place)).collect()
}

/// Returns the values of a variable; npm takes those of its own in any case.
fn variables<'a>(name: &'static str, host: &'a Host) -> impl Iterator<Item = &'a OsStr> {
    let is_npm = name.starts_with("NPM_CONFIG_");
    let one = host.var(name).filter(|_| !is_npm);
    let all = host
        .env
        .iter()
        .filter(move |(key, value)| is_npm && key.eq_ignore_ascii_case(name) && !value.is_empty());
    one.into_iter()
        .chain(all.map(|(_, value)| value.as_os_str()))
}

/// Returns the paths that a variable names: one, or several with colons between, as `KUBECONFIG`
/// has them.
fn named_paths(value: &OsStr, host: &Host) -> Vec<PathBuf> {
    // As Kerberos writes it.
    let bytes = value.as_bytes();
    let bytes = bytes.strip_prefix(b"FILE:").unwrap_or(bytes);
    let value = OsStr::from_bytes(bytes);
    let whole = named_path(Path::new(value), host);
    if !bytes.contains(&b':') || whole.symlink_metadata().is_ok() {
        return vec![whole];
    }
    let parts = std::env::split_paths(value).filter(|part| !part.as_os_str().is_empty());
    parts.map(|part| named_path(&part, host)).collect()
}

/// Some programs look for a `~` themselves, and what is relative starts where they do.
fn named_path(path: &Path, host: &Host) -> PathBuf {
    match (path.strip_prefix("~"), &host.home) {
        (Ok(below), Some(home)) => home.join(below),
        _ => host.cwd.join(path),
    }
}

fn joined(path: PathBuf, below: &str) -> PathBuf {
    match below {
        "" => path,
        below => path.join(below),
    }
}

/// Replaces a pattern in the last name by the names that fit.
pub(super) fn expanded(place: PathBuf) -> Vec<PathBuf> {
    // Nearly none holds one, and to take a path apart takes longer than to look.
    if !place.as_os_str().as_bytes().contains(&b'*') {
        return vec![place];
    }
    match place.file_name().and_then(OsStr::to_str) {
        Some(pattern) if pattern.contains('*') => match place.parent() {
            Some(dir) => entries(dir, &[pattern]),
            None => Vec::new(),
        },
        _ => vec![place],
    }
}

/// Lists the entries of a directory whose name fits one of the patterns, as far as it can be
/// listed.
pub fn entries(dir: &Path, patterns: &[&str]) -> Vec<PathBuf> {
    if patterns.is_empty() {
        return Vec::new();
    }
    let entries = dir.read_dir().into_iter().flatten().flatten();
    let fitting = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        patterns.iter().any(|pattern| fits(pattern, &name))
    });
    let mut paths: Vec<_> = fitting.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, end)) => {
            let rest = name.strip_prefix(start);
            rest.is_some_and(|rest| rest.ends_with(end))
        }
    }
}

#[cfg(test)]
mod tests;
