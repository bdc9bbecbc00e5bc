//! A look around for what no rule tells of: other names of files, and files of variables that
//! stay readable. It walks trees, as far as a bound, so that no launch does it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::rules::List;
use super::{Access, Filesystem, is_made_anew};

/// What was found.
#[derive(Debug, Default)]
pub struct Survey {
    /// Files named `.env` and the like that a command may read, sorted.
    pub env_files: Vec<PathBuf>,
    /// Files with names that the rule for this one does not reach, sorted.
    pub hard_links: Vec<HardLink>,
    /// How many names were looked at; `None`, if those are all there are.
    pub bound: Option<usize>,
}

/// A file that can be reached by a name with other rights.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HardLink {
    /// One name of it.
    pub path: PathBuf,
    /// How many it has.
    pub names: u64,
    /// Another name, which is denied, if that was found.
    pub denied: Option<PathBuf>,
    /// This name itself is denied.
    pub is_denied: bool,
}

/// Names looked at, which takes about half a second.
const MAX_NAMES: usize = 100_000;

/// Ends of names of files that show what to write in one of variables.
const EXAMPLES: [&str; 8] = [
    "default", "defaults", "dist", "example", "sample", "schema", "template", "tpl",
];

impl Filesystem {
    /// Walks the working directory, what may be written and then what is denied, shallow names
    /// first.
    pub fn survey(&self, cwd: &Path) -> Survey {
        let mut walk = Walk::default();
        let written = self.rules.list(List::AllowWrite).iter();
        let open = written.map(|rule| rule.path.as_path()).chain([cwd]);
        walk.below(open.filter(|path| !is_made_anew(path)));
        let lists = [List::Credentials, List::DenyRead, List::DenyWrite];
        let denied = lists.into_iter().flat_map(|list| self.rules.list(list));
        let denied = denied.map(|rule| rule.path.as_path());
        // A rule for all there is hides no file in particular.
        walk.below(denied.filter(|path| path.parent().is_some() && !is_made_anew(path)));
        let mut env_files = walk.env_files;
        env_files.retain(|path| self.access(path) != Access::Hidden);
        env_files.sort();
        let files = walk.files.into_values();
        let mut hard_links: Vec<_> = files
            .filter_map(|file| self.by_other_rights(file))
            .collect();
        hard_links.sort();
        Survey {
            env_files,
            hard_links,
            bound: (walk.names > MAX_NAMES).then_some(MAX_NAMES),
        }
    }

    /// Returns a name of a file that its rule does not hold for alone: one with more rights than
    /// another has, or one whose others are not known.
    fn by_other_rights(&self, file: File) -> Option<HardLink> {
        let mut by_rights: [Vec<PathBuf>; 4] = Default::default();
        let found = file.paths.len() as u64;
        for path in file.paths {
            by_rights[self.rights(&path) as usize].push(path);
        }
        let [hidden, kept, read, written] = by_rights.map(|paths| paths.into_iter().min());
        let others = found < file.names;
        let (path, denied, is_denied) = match (hidden, kept, written) {
            (Some(hidden), kept, written) => match written.or(kept).or(read) {
                Some(open) => (open, Some(hidden), false),
                None if others => (hidden, None, true),
                None => return None,
            },
            (None, Some(kept), Some(written)) => (written, Some(kept), false),
            (None, Some(kept), None) if others => (kept, None, true),
            (None, None, Some(written)) if others || read.is_some() => (written, None, false),
            _ => return None,
        };
        Some(HardLink {
            path,
            names: file.names,
            denied,
            is_denied,
        })
    }

    fn rights(&self, path: &Path) -> Rights {
        let decision = self.decide(path);
        let mut redacted = self.redacted.iter();
        match decision.access {
            Access::Hidden => Rights::Hidden,
            _ if redacted.any(|(file, _)| file.as_path() == path) => Rights::Hidden,
            Access::Write => Rights::Written,
            Access::Read if decision.write_rule.is_some() => Rights::Kept,
            Access::Read => Rights::Read,
        }
    }
}

/// What a command may do with a name.
#[derive(Debug, Clone, Copy)]
enum Rights {
    /// Not see it, or not all of it.
    Hidden,
    /// Not write it, as a rule says.
    Kept,
    /// Read it alone, as no rule says otherwise.
    Read,
    /// Write it.
    Written,
}

#[derive(Debug, Default)]
struct Walk {
    names: usize,
    seen: HashSet<PathBuf>,
    env_files: Vec<PathBuf>,
    /// Files with more than one name, by device and inode.
    files: HashMap<(u64, u64), File>,
}

/// A file with more than one name, and those that were found.
#[derive(Debug)]
struct File {
    paths: Vec<PathBuf>,
    names: u64,
}

impl Walk {
    fn below<'a>(&mut self, roots: impl Iterator<Item = &'a Path>) {
        let mut ahead = VecDeque::new();
        for root in roots {
            match root.symlink_metadata() {
                Ok(meta) if meta.is_dir() => ahead.push_back(root.to_owned()),
                Ok(meta) if self.seen.insert(root.to_owned()) => self.note(root, &meta),
                _ => {}
            }
        }
        while let Some(dir) = ahead.pop_front() {
            // Roots lie below each other.
            if !self.seen.insert(dir.clone()) {
                continue;
            }
            for entry in dir.read_dir().into_iter().flatten().flatten() {
                self.names += 1;
                if self.names > MAX_NAMES {
                    return;
                }
                let path = entry.path();
                let Ok(meta) = entry.metadata() else {
                    continue;
                };
                // Links lead round, or out of the tree.
                match meta.is_dir() {
                    true if !is_made_anew(&path) => ahead.push_back(path),
                    true => {}
                    false if self.seen.contains(&path) => {}
                    false => self.note(&path, &meta),
                }
            }
        }
    }

    fn note(&mut self, path: &Path, meta: &Metadata) {
        if meta.is_symlink() {
            return;
        }
        let name = path.file_name().map(|name| name.to_string_lossy());
        if name.is_some_and(|name| is_env_file(&name)) {
            self.env_files.push(path.to_owned());
        }
        if meta.nlink() > 1 {
            let file = self.files.entry((meta.dev(), meta.ino()));
            let file = file.or_insert_with(|| File {
                paths: Vec::new(),
                names: meta.nlink(),
            });
            file.paths.push(path.to_owned());
        }
    }
}

/// Tells whether a name is that of a file with variables of a project, which may be secrets.
fn is_env_file(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(".env") else {
        return false;
    };
    let end = rest.rsplit('.').next().unwrap_or_default();
    rest.is_empty() || rest.starts_with('.') && !EXAMPLES.contains(&end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_variables_are_told_from_their_examples() {
        let files = [
            ".env",
            ".env.local",
            ".env.production",
            ".env.example.local",
            ".env.test",
        ];
        let others = [
            ".envrc",
            ".env.example",
            ".env.sample",
            ".env.local.template",
            ".env.dist",
            "env",
            ".environment",
            "x.env",
        ];
        assert!(files.iter().all(|name| is_env_file(name)));
        assert!(!others.iter().any(|name| is_env_file(name)));
    }
}
