//! Finds what a pattern matches, looking only where it can match, and not at everything.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::glob::{Glob, Step, fits};
use crate::policy::filesystem::is_made_anew;

/// What a directory that cannot be listed means for a pattern that may match in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// It is matched whole: what is in it may be what is to be denied.
    Matches,
    /// It matches nothing.
    Passes,
}

/// Names looked at for one pattern; about a tenth of a second.
const MAX_NAMES: usize = 100_000;

/// Returns what matches, or how many names were too many.
pub(super) fn find(glob: &Glob, closed: Closed) -> Result<Vec<PathBuf>, usize> {
    let mut walk = Walk {
        closed,
        names: 0,
        seen: HashSet::new(),
        found: Vec::new(),
    };
    walk.from(Path::new("/"), &glob.0)?;
    Ok(walk.found)
}

struct Walk {
    closed: Closed,
    names: usize,
    /// Directories with the steps that are left, so that none is walked twice.
    seen: HashSet<(PathBuf, usize)>,
    found: Vec<PathBuf>,
}

impl Walk {
    fn from(&mut self, dir: &Path, steps: &[Step]) -> Result<(), usize> {
        let Some((step, rest)) = steps.split_first() else {
            self.found.push(dir.to_owned());
            return Ok(());
        };
        match step {
            Step::Name(name) => self.enter(dir.join(name), rest),
            Step::Fitting(pattern) => {
                for (path, _) in self.list(dir, |name| fits(pattern, name))? {
                    self.enter(path, rest)?;
                }
                Ok(())
            }
            Step::Directories => {
                if !self.seen.insert((dir.to_owned(), steps.len())) {
                    return Ok(());
                }
                self.from(dir, rest)?;
                for (path, is_directory) in self.list(dir, |_| true)? {
                    // Links are not followed: they lead round, or out of the tree.
                    if is_directory && !is_made_anew(&path) {
                        self.from(&path, steps)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Goes on below `path`, or finds it, if it is there.
    fn enter(&mut self, path: PathBuf, rest: &[Step]) -> Result<(), usize> {
        let is_there = match rest {
            [] => path.symlink_metadata().is_ok(),
            _ => path.is_dir(),
        };
        match is_there {
            true => self.from(&path, rest),
            false => Ok(()),
        }
    }

    /// Lists a directory; tells of each entry whether it is a directory itself.
    fn list(
        &mut self,
        dir: &Path,
        fitting: impl Fn(&OsStr) -> bool,
    ) -> Result<Vec<(PathBuf, bool)>, usize> {
        let Ok(entries) = dir.read_dir() else {
            if self.closed == Closed::Matches && dir.is_dir() {
                self.found.push(dir.to_owned());
            }
            return Ok(Vec::new());
        };
        let mut listed = Vec::new();
        for entry in entries.flatten() {
            self.names += 1;
            if self.names > MAX_NAMES {
                return Err(MAX_NAMES);
            }
            if fitting(&entry.file_name()) {
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                listed.push((entry.path(), is_directory));
            }
        }
        Ok(listed)
    }
}
