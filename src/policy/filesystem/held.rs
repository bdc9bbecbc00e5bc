//! Names that stay in their places: links on the way to what is denied, and the directories
//! above what is denied.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::rules::{List, Rule};
use super::{Access, Filesystem, in_private_tree};
use crate::policy::path::{Link, RealPath, Way};

impl Filesystem {
    /// Keeps a path from being written, by the name it has and by the one it leads to.
    ///
    /// # Errors
    /// Nothing is at the end of the way, whose links are held all the same.
    pub(super) fn guard(
        &mut self,
        way: &Way,
        rule: impl FnOnce(RealPath) -> Rule,
    ) -> io::Result<()> {
        self.hold(way);
        let path = way.real()?;
        self.push(List::DenyWrite, rule(path));
        Ok(())
    }

    /// Keeps the links on a way from leading elsewhere. Which of them a command could replace is
    /// asked when all rules are there.
    pub(super) fn hold(&mut self, way: &Way) {
        let links = way.links.iter().filter(|link| !in_private_tree(&link.path));
        for link in links {
            self.found_links.remove(&link.path);
            self.links.insert(link.path.clone(), link.clone());
        }
        let crossed = way.crossed.iter().filter(|path| !in_private_tree(path));
        let crossed = crossed.flat_map(|path| path.ancestors());
        self.kept.extend(crossed.map(Path::to_owned));
        self.forget_pins();
    }

    /// Keeps links of a way that nobody named.
    pub(super) fn hold_found(&mut self, way: &Way) {
        let links = way.links.iter().map(|link| &link.path);
        let new = links.filter(|path| !self.links.contains_key(*path));
        let new: Vec<_> = new.cloned().collect();
        self.hold(way);
        self.found_links.extend(new);
    }

    /// Returns the links that a command could replace and must not, sorted.
    pub fn held(&self) -> impl Iterator<Item = &Link> {
        let links = self.links.values();
        links.filter(|link| self.is_replaceable(&link.path))
    }

    /// Tells whether `path` must not be renamed, since a protected path lies below it.
    pub fn is_pinned(&self, path: &RealPath) -> bool {
        self.pins()
            .binary_search_by(|pin| pin.as_path().cmp(path.as_path()))
            .is_ok()
    }

    /// Tells whether the command may change the directory that holds a link.
    pub(super) fn is_replaceable(&self, link: &Path) -> bool {
        let directory = link.parent();
        directory.is_some_and(|directory| self.access(directory) == Access::Write)
    }

    /// Returns the directories that must stay in place, sorted.
    pub(super) fn pins(&self) -> &[RealPath] {
        self.pins.get_or_init(|| {
            let names = self.pinned_names();
            let found = names.iter().map(|path| RealPath::resolve(path));
            // One that is gone took along what lies below, and the launch ends at that.
            found.filter_map(io::Result::ok).collect()
        })
    }

    /// Lists every directory between a writable root and what must stay in place below it. A mount
    /// point cannot be renamed (EBUSY), but its parent could be, and the name would be free.
    pub(super) fn pinned_names(&self) -> Vec<PathBuf> {
        let mut seen: HashSet<&Path> = HashSet::new();
        for rule in self.rules.all() {
            let path = rule.path.as_path();
            // Above a directory that was seen, all were.
            let unseen = |path: &&Path| !seen.contains(path);
            let fresh: Vec<_> = path.ancestors().skip(1).take_while(unseen).collect();
            if !fresh.is_empty() && self.access(path) != Access::Write {
                seen.extend(fresh);
            }
        }
        seen.extend(self.held().flat_map(|link| link.path.ancestors().skip(1)));
        seen.extend(self.kept.iter().map(PathBuf::as_path));
        let mut writable: Vec<_> = seen
            .into_iter()
            .filter(|path| path.parent().is_some() && self.access(path) == Access::Write)
            .map(Path::to_path_buf)
            .collect();
        writable.sort();
        writable
    }
}
