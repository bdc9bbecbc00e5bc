//! Finds what a pattern matches, looking only where it can match, and not at everything.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use super::glob::{Glob, Step};
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
pub(super) fn find(start: &Path, glob: &Glob, closed: Closed) -> Result<Vec<PathBuf>, usize> {
    let mut walk = Walk {
        closed,
        names: 0,
        seen: HashSet::new(),
        found: Vec::new(),
        has_fitted: false,
    };
    walk.from(start, &glob.0)?;
    Ok(walk.found)
}

struct Walk {
    closed: Closed,
    names: usize,
    /// Directories with the steps that are left, so that none is walked twice.
    seen: HashSet<(PathBuf, usize)>,
    found: Vec<PathBuf>,
    /// A step has matched what was not named.
    has_fitted: bool,
}

impl Walk {
    fn from(&mut self, dir: &Path, steps: &[Step]) -> Result<(), usize> {
        let Some((step, rest)) = steps.split_first() else {
            self.found.push(dir.to_owned());
            return Ok(());
        };
        match step {
            Step::Name(name) => self.enter(dir.join(name), rest),
            Step::Fitting(names) => {
                self.has_fitted = true;
                for (path, _) in self.list(dir, |name| names.fit(dir, name))? {
                    self.enter(path, rest)?;
                }
                Ok(())
            }
            Step::Directories => {
                self.has_fitted = true;
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
        let found = match path.symlink_metadata() {
            // A command of an earlier run could have made it lead to what is to be granted.
            Ok(meta) if meta.is_symlink() && self.has_fitted && self.closed == Closed::Passes => {
                return Ok(());
            }
            Ok(meta) if meta.is_symlink() && !rest.is_empty() => path.metadata(),
            found => found,
        };
        match found {
            Ok(meta) if rest.is_empty() || meta.is_dir() => self.from(&path, rest),
            Ok(_) => Ok(()),
            Err(error) if is_absent(&error) => Ok(()),
            // Closed now, and not to who may change the mode.
            Err(_) => {
                self.cannot_list(path.parent().unwrap_or(&path));
                Ok(())
            }
        }
    }

    fn cannot_list(&mut self, dir: &Path) {
        if self.closed == Closed::Matches {
            self.found.push(dir.to_owned());
        }
    }

    /// Lists a directory; tells of each entry whether it is a directory itself.
    fn list(
        &mut self,
        dir: &Path,
        fitting: impl Fn(&OsStr) -> bool,
    ) -> Result<Vec<(PathBuf, bool)>, usize> {
        let entries = match dir.read_dir() {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(_) => {
                self.cannot_list(dir);
                return Ok(Vec::new());
            }
        };
        let mut listed = Vec::new();
        for entry in entries {
            let Ok(entry) = entry else {
                self.cannot_list(dir);
                break;
            };
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

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || error.raw_os_error() == Some(libc::ELOOP)
}
