//! Other names of files (hard links): a rule covers a name, and the file has more.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::rules::{List, Rule};
use super::{Filesystem, in_private_tree};
use crate::policy::path::{FileId, FileKind, Way};

/// A file that some list names and that has more than one name.
#[derive(Debug, Clone)]
pub(super) struct Linked {
    /// The entry, or the path and what it holds.
    what: String,
    path: PathBuf,
    id: FileId,
    names: u64,
    side: Side,
}

/// What a list does with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Denied,
    Granted,
}

impl Filesystem {
    /// Remembers a file that has other names; `what` names it to the user.
    pub(super) fn note_names(&mut self, way: &Way, side: Side, what: impl FnOnce() -> String) {
        let Ok(id) = way.found else {
            return;
        };
        if id.kind == FileKind::File && way.names > 1 && !in_private_tree(&way.end) {
            self.linked.push(Linked {
                what: what(),
                path: way.end.clone(),
                id,
                names: way.names,
                side,
            });
        }
    }

    /// Says which files have names that no rule covers, and which are granted by one name and
    /// denied by another.
    pub(super) fn warn_of_hard_links(&mut self) {
        if self.linked.is_empty() {
            return;
        }
        let mut denied: HashMap<(u64, u64), BTreeSet<&Path>> = HashMap::new();
        let of = |side| self.linked.iter().filter(move |linked| linked.side == side);
        for linked in of(Side::Denied) {
            let paths = denied.entry((linked.id.dev, linked.id.ino)).or_default();
            paths.insert(&linked.path);
        }
        let mut warnings = Vec::new();
        for linked in &self.linked {
            let Linked { what, names, .. } = linked;
            let paths = denied.get(&(linked.id.dev, linked.id.ino));
            let covered = paths.map_or(0, BTreeSet::len);
            match (linked.side, paths) {
                (Side::Denied, _) if covered as u64 == *names => {}
                (Side::Denied, _) => warnings.push(format!(
                    "{what} has {names} names (hard links): only {} covered",
                    match covered {
                        1 => "this one is".to_owned(),
                        more => format!("{more} are"),
                    }
                )),
                (Side::Granted, Some(paths)) if !paths.contains(&*linked.path) => {
                    let paths: Vec<_> = paths
                        .iter()
                        .map(|path| crate::settings::shown(path))
                        .collect();
                    warnings.push(format!(
                        "{what} is the same file (a hard link) as {}, which is denied and can be \
                         written by this name",
                        paths.join(" and ")
                    ));
                }
                (Side::Granted, _) => warnings.push(format!(
                    "{what} has {names} names (hard links): what is written to it changes them all"
                )),
            }
        }
        warnings.dedup();
        self.warnings.extend(warnings);
    }

    /// Returns a rule that denies the same file by another name.
    pub fn denied_by_another_name(&self, id: FileId, path: &Path) -> Option<&Rule> {
        let lists = [List::Credentials, List::DenyRead, List::DenyWrite];
        let mut rules = lists.into_iter().flat_map(|list| self.rules.list(list));
        rules.find(|rule| {
            id.kind == FileKind::File && rule.path.id() == id && rule.path.as_path() != path
        })
    }
}
