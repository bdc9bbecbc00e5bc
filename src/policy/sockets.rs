//! Which Unix sockets of the host may be connected to: the precedence in one function.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::change::Change;
use super::filesystem::{Access, Filesystem};
use super::host::Host;
use super::path;
use crate::error::Result;
use crate::settings::Entry;

/// Which Unix sockets of the host may be connected to.
#[derive(Debug, Clone, Default)]
pub struct Sockets {
    all: bool,
    rules: HashMap<PathBuf, Entry>,
}

impl Sockets {
    /// Resolves the entries of `network.allowUnixSockets`; with `allow_all`, which is
    /// `network.allowAllUnixSockets`, no connection is judged.
    ///
    /// A path that does not exist yet is taken as it stands: its socket may come later.
    ///
    /// # Errors
    /// An entry is not a path, or leads over a link that a command could replace.
    pub fn from_lists(
        allow_unix_sockets: &[Entry],
        allow_all: bool,
        filesystem: &Filesystem,
        host: &Host,
    ) -> Result<Self> {
        let mut rules = HashMap::new();
        for entry in allow_unix_sockets {
            let way = path::way_as_listed(&path::absolute(entry, host)?);
            refuse_replaceable(entry, &way, filesystem)?;
            // The first of two entries for one path is the one that is shown.
            rules.entry(way.end).or_insert_with(|| entry.clone());
        }
        Ok(Self {
            all: allow_all,
            rules,
        })
    }

    /// Returns an entry that allows a socket, if there is one.
    pub fn any_allowed(&self) -> Option<&Entry> {
        self.rules.values().min_by_key(|entry| entry.text.as_str())
    }

    /// Tells whether every Unix socket is open to the command, also those of the host.
    pub fn all_are_open(&self) -> bool {
        self.all
    }

    /// Decides on one socket of the host, by its path, which must be absolute and free of
    /// links: the entry that allows it. An entry covers what is below it; no entry means no.
    pub fn check(&self, path: &Path) -> Option<&Entry> {
        path.ancestors().find_map(|at| self.rules.get(at))
    }

    /// Lists the changes that, made together, turn the decision on `path` round. None do where
    /// every socket is open, and for a name that is not UTF-8.
    pub fn changes(&self, path: &Path) -> Vec<Change> {
        if self.all {
            return Vec::new();
        }
        let covering = path.ancestors().filter_map(|at| self.rules.get(at));
        let covering: Vec<_> = covering.map(Change::remove).collect();
        match path.to_str() {
            Some(text) if covering.is_empty() => vec![Change::Add {
                key: "network.allowUnixSockets",
                entry: text.to_owned(),
                literal: path::has_pattern(text),
            }],
            _ => covering,
        }
    }
}

/// Refuses an entry that a command could make lead to any socket, for the next run to open.
fn refuse_replaceable(entry: &Entry, way: &path::Way, filesystem: &Filesystem) -> Result<()> {
    let is_writable = |path: &Path| {
        path.parent()
            .is_some_and(|parent| filesystem.access(parent) == Access::Write)
    };
    match way.links.iter().find(|link| is_writable(&link.path)) {
        Some(link) if !is_writable(&way.end) => {
            let what = format!(
                "{link} is a link in a writable directory: a command could make the next run allow any socket"
            );
            let hint = format!("name the path it leads to: {}", way.end.display());
            Err(path::entry_error(entry, &what).with_hint(hint))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Origin;

    fn sockets(entries: &[&str]) -> Sockets {
        let entries: Vec<Entry> = entries
            .iter()
            .map(|text| Entry::new(*text, Origin::flag("network.allowUnixSockets")))
            .collect();
        let host = Host {
            cwd: "/w".into(),
            home: Some("/home/ada".into()),
            env: Vec::new(),
            uid: 1000,
            gid: 1000,
            program: None,
        };
        Sockets::from_lists(&entries, false, &Filesystem::default(), &host)
            .expect("the entries are paths")
    }

    #[test]
    fn an_entry_allows_its_path_and_what_is_below_and_nothing_else() {
        let policy = sockets(&["/nowhere/a.sock", "/nowhere/dir/", "d.sock", "~/agent"]);
        let allowed = [
            "/nowhere/a.sock",
            "/nowhere/dir",
            "/nowhere/dir/deep/b.sock",
            "/w/d.sock",
            "/home/ada/agent",
        ];
        let refused = [
            "/",
            "/nowhere",
            "/nowhere/a.sock2",
            "/nowhere/dirt",
            "/nowhere/b.sock",
            "/w/e.sock",
            "/d.sock",
        ];
        assert!(
            allowed
                .iter()
                .all(|path| policy.check(Path::new(path)).is_some())
        );
        assert!(
            refused
                .iter()
                .all(|path| policy.check(Path::new(path)).is_none())
        );
    }

    #[test]
    fn nothing_is_allowed_without_an_entry() {
        assert_eq!(Sockets::default().check(Path::new("/run/x.sock")), None);
        assert!(!Sockets::default().all_are_open());
    }
}
