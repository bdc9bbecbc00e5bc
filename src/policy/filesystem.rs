//! Which paths may be read and written: the precedence of the four lists in one function.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::host::Host;
use super::path::{self, RealPath};
use crate::error::Result;
use crate::settings::{self, Entry, Origin};

/// What the command may do with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Shown as an empty stand-in.
    Hidden,
    /// Read, not written.
    Read,
    /// Read and written.
    Write,
}

/// Which paths may be read and written.
#[derive(Debug, Clone, Default)]
pub struct Filesystem {
    deny_read: Rules,
    allow_read: Rules,
    allow_write: Rules,
    deny_write: Rules,
    pins: Vec<RealPath>,
    /// Directories of the launcher and above them.
    kept: Vec<PathBuf>,
    notes: Vec<String>,
    warnings: Vec<String>,
}

/// One list, with its paths to look them up: thousands of entries still start fast.
#[derive(Debug, Clone, Default)]
struct Rules {
    list: Vec<Rule>,
    paths: HashSet<PathBuf>,
}

/// One path of one list.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The path, links resolved.
    pub path: RealPath,
    /// The entry as written.
    pub entry: String,
    /// Where it stands.
    pub origin: Origin,
}

/// Trees that every run replaces by its own: rules inside them have nothing to act on.
const PRIVATE_TREES: [&str; 2] = ["/dev", "/proc"];

/// Trees of the kernel, never writable whatever is granted.
const KERNEL_TREES: [&str; 2] = ["/proc", "/sys"];

/// Paths that are writable without being listed, where they exist (`srt-settings(5)`).
const DEFAULT_WRITE: [&str; 3] = ["/tmp/claude", "~/.npm/_logs", "~/.claude/debug"];

impl Filesystem {
    /// Resolves the four lists and refuses what cannot be enforced.
    ///
    /// # Errors
    /// An entry is not a path that can be protected or granted here.
    pub fn from_settings(settings: &settings::Filesystem, host: &Host) -> Result<Self> {
        let mut policy = Self::default();
        policy.deny_read = policy.resolve_all(&settings.deny_read, host, Missing::Note)?;
        policy.allow_read = policy.resolve_all(&settings.allow_read, host, Missing::Note)?;
        policy.allow_write = policy.resolve_all(&settings.allow_write, host, Missing::Warn)?;
        policy.add_default_write(host)?;
        policy.deny_write = policy.resolve_all(&settings.deny_write, host, Missing::Judge)?;
        policy.close_kernel_trees();
        policy.refuse_hidden_root(&settings.deny_read)?;
        policy.refuse_unprotected_names(&settings.deny_write, host)?;
        policy.refuse_replaceable_grants(&settings.allow_read, host)?;
        policy.refuse_replaceable_grants(&settings.allow_write, host)?;
        policy.warn_of_hard_links();
        policy.pin_ancestors();
        Ok(policy)
    }

    /// Decides what the command may do with `path`, which must be absolute and free of links.
    ///
    /// Reading: the deepest of `denyRead` and the grants covering a path wins, a grant at
    /// equal depth; `allowWrite` grants reading too. Writing: `allowWrite`, unless
    /// `denyWrite` covers the path at any depth.
    pub fn access(&self, path: &Path) -> Access {
        let denied = self.deny_read.deepest(path);
        let granted = self
            .allow_read
            .deepest(path)
            .max(self.allow_write.deepest(path));
        if denied > granted {
            return Access::Hidden;
        }
        let writable = self.allow_write.deepest(path).is_some();
        if writable && self.deny_write.deepest(path).is_none() {
            return Access::Write;
        }
        Access::Read
    }

    /// Grants writing to a directory made for this run.
    pub fn grant_private(&mut self, path: RealPath) {
        // What the launcher removes afterwards must still be the directory it made.
        let run = path.as_path().ancestors().skip(1).map(Path::to_owned);
        self.kept.extend(run);
        self.allow_write.push(Rule {
            entry: path.to_string(),
            path,
            origin: Origin::built_in("filesystem.allowWrite"),
        });
        self.pin_ancestors();
    }

    /// Returns the paths that the two deny lists name.
    pub fn denied(&self) -> Vec<RealPath> {
        let rules = self.deny_read.list.iter().chain(&self.deny_write.list);
        rules.map(|rule| rule.path.clone()).collect()
    }

    /// Denies a path under its other names too, by the same rule.
    pub fn deny_aliases(&mut self, aliases: &[(&RealPath, RealPath)]) {
        for (path, alias) in aliases {
            for rules in [&mut self.deny_read, &mut self.deny_write] {
                let of_path = rules.list.iter().find(|rule| rule.path == **path);
                let Some(rule) = of_path.cloned() else {
                    continue;
                };
                self.notes.push(format!(
                    "{} `{}` is mounted at {alias} too: denied there as well",
                    rule.origin.key, rule.entry
                ));
                rules.push(Rule {
                    path: alias.clone(),
                    ..rule
                });
            }
        }
        self.pin_ancestors();
    }

    /// Returns every path where rights may change, parents before children, each once.
    pub fn boundaries(&self) -> Vec<&RealPath> {
        let ruled = self.rules().map(|rule| &rule.path);
        let mut paths: Vec<_> = ruled.chain(&self.pins).collect();
        paths.sort_by(|a, b| a.depth().cmp(&b.depth()).then(a.as_path().cmp(b.as_path())));
        paths.dedup_by(|a, b| a.as_path() == b.as_path());
        paths
    }

    /// Tells whether `path` must not be renamed, since a protected path lies below it.
    pub fn is_pinned(&self, path: &RealPath) -> bool {
        self.pins
            .binary_search_by(|pin| pin.as_path().cmp(path.as_path()))
            .is_ok()
    }

    /// Returns what the user should read before the command starts.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns what `--debug` and the start event say about entries without effect.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn rules(&self) -> impl Iterator<Item = &Rule> {
        [
            &self.deny_read,
            &self.allow_read,
            &self.allow_write,
            &self.deny_write,
        ]
        .into_iter()
        .flat_map(|rules| &rules.list)
    }

    fn pin_ancestors(&mut self) {
        let names = self.pinned_names();
        self.pins = names
            .iter()
            .filter_map(|path| RealPath::resolve(path).ok())
            .collect();
    }

    /// Lists every directory between a writable root and what must stay in place below it. A mount
    /// point cannot be renamed (EBUSY), but its parent could be, and the name would be free.
    fn pinned_names(&self) -> Vec<PathBuf> {
        let protected = self
            .rules()
            .filter(|rule| self.access(rule.path.as_path()) != Access::Write);
        let ancestors = protected.flat_map(|rule| rule.path.as_path().ancestors().skip(1));
        let mut writable: Vec<_> = ancestors
            .chain(self.kept.iter().map(PathBuf::as_path))
            .filter(|path| path.parent().is_some() && self.access(path) == Access::Write)
            .map(Path::to_path_buf)
            .collect();
        writable.sort();
        writable.dedup();
        writable
    }

    fn resolve_all(&mut self, entries: &[Entry], host: &Host, missing: Missing) -> Result<Rules> {
        let mut rules = Rules::default();
        for entry in entries {
            let path = path::absolute(entry, host)?;
            match RealPath::resolve(&path) {
                Ok(path) => match refused_tree(entry, path.as_path()) {
                    Some(reason) => return Err(path::entry_error(entry, reason)),
                    None if in_private_tree(path.as_path()) => self.notes.push(format!(
                        "{} `{}` has no effect: /dev and /proc are the sandbox's own",
                        entry.origin.key, entry.text
                    )),
                    None => rules.push(rule(entry, path)),
                },
                Err(error) if is_missing(&error) => self.missing(entry, missing),
                Err(error) => {
                    return Err(path::entry_error(entry, "cannot be resolved")
                        .call(format!("realpath({})", path.display()), error));
                }
            }
        }
        Ok(rules)
    }

    fn missing(&mut self, entry: &Entry, missing: Missing) {
        let key = entry.origin.key;
        match missing {
            Missing::Note => self.notes.push(format!(
                "{key} `{}` does not exist: it is not covered if it appears during the run",
                entry.text
            )),
            Missing::Warn => self.warnings.push(format!(
                "{key} `{}` does not exist and was not granted: create it first",
                entry.text
            )),
            Missing::Judge => {}
        }
    }

    fn add_default_write(&mut self, host: &Host) -> Result<()> {
        for text in DEFAULT_WRITE {
            if text.starts_with('~') && host.home.is_none() {
                continue;
            }
            let origin = Origin::built_in("filesystem.allowWrite");
            let entry = Entry {
                text: text.to_owned(),
                literal: true,
                origin,
            };
            let named = path::absolute(&entry, host)?;
            if !is_own_directory(&named, host.uid) {
                continue;
            }
            let Ok(path) = RealPath::resolve(&named) else {
                continue;
            };
            // A default must not re-open what the settings hide.
            if self.access(path.as_path()) != Access::Hidden {
                self.allow_write.push(rule(&entry, path));
            }
        }
        Ok(())
    }

    fn refuse_hidden_root(&self, entries: &[Entry]) -> Result<()> {
        if self.access(Path::new("/")) != Access::Hidden {
            return Ok(());
        }
        let root = self
            .deny_read
            .list
            .iter()
            .find(|rule| rule.path.depth() == 0);
        let entry = entries
            .iter()
            .find(|entry| root.is_some_and(|root| root.entry == entry.text));
        match entry {
            Some(entry) => Err(path::entry_error(
                entry,
                "hiding / is not supported by this version",
            )
            .with_hint("name the directories to hide")),
            None => Ok(()),
        }
    }

    /// Refuses what a mount cannot keep: a link that could be replaced, since a mount covers
    /// only what it leads to, and a name that could be made, since there is nothing to cover.
    fn refuse_unprotected_names(&self, entries: &[Entry], host: &Host) -> Result<()> {
        for entry in entries {
            let way = path::way(&path::absolute(entry, host)?);
            let replaceable = way.links.iter().find(|link| self.is_in_writable(link));
            if let Some(link) = replaceable {
                let what = format!(
                    "{} is a link in a writable directory: it could be replaced",
                    link.display()
                );
                return Err(path::entry_error(entry, &what).with_hint(
                    "name the path it leads to, and deny writing to the directory of the link",
                ));
            }
            if !way.end.exists() && self.is_in_writable(&way.end) {
                return Err(path::entry_error(
                    entry,
                    "does not exist in a writable directory, where nothing keeps it from being made",
                )
                .with_hint("create the path first, or take the entry out"));
            }
        }
        Ok(())
    }

    /// Refuses a grant that a command could make lead anywhere, for the next run to open.
    fn refuse_replaceable_grants(&self, entries: &[Entry], host: &Host) -> Result<()> {
        for entry in entries {
            let way = path::way(&path::absolute(entry, host)?);
            let replaceable = way.links.iter().find(|link| self.is_in_writable(link));
            if let Some(link) = replaceable
                && !self.is_in_writable(&way.end)
            {
                let what = format!(
                    "{} is a link in a writable directory: a command could make the next run grant anything",
                    link.display()
                );
                let hint = format!("name the path it leads to: {}", way.end.display());
                return Err(path::entry_error(entry, &what).with_hint(hint));
            }
        }
        Ok(())
    }

    /// Tells whether the command may change the directory that holds `path`, or the nearest
    /// one that exists. `path` is free of links but for its last name.
    fn is_in_writable(&self, path: &Path) -> bool {
        let mut parents = path.ancestors().skip(1);
        let parent = parents.find(|parent| parent.exists());
        parent.is_some_and(|parent| self.access(parent) == Access::Write)
    }

    /// A mapped uid 0 passes the mode checks of the kernel's own files, so that no grant
    /// reaches them.
    fn close_kernel_trees(&mut self) {
        for tree in KERNEL_TREES {
            if let Ok(path) = RealPath::resolve(Path::new(tree)) {
                self.deny_write.push(Rule {
                    path,
                    entry: tree.to_owned(),
                    origin: Origin::built_in("filesystem.denyWrite"),
                });
            }
        }
    }

    /// A rule covers a name; the other names of the same file stay as they are.
    fn warn_of_hard_links(&mut self) {
        let denied = self.deny_read.list.iter().chain(&self.deny_write.list);
        let linked = denied.filter_map(|rule| {
            let meta = std::fs::symlink_metadata(rule.path.as_path()).ok()?;
            let names = meta.nlink();
            (meta.is_file() && names > 1).then(|| {
                format!(
                    "{} `{}` has {names} names (hard links): only this one is covered",
                    rule.origin.key, rule.entry
                )
            })
        });
        self.warnings.extend(linked.collect::<Vec<_>>());
    }
}

/// What to do about an entry that names nothing.
#[derive(Debug, Clone, Copy)]
enum Missing {
    Note,
    Warn,
    /// Allowed where nobody can make it; see [`Filesystem::refuse_unprotected_names`].
    Judge,
}

impl Rules {
    fn push(&mut self, rule: Rule) {
        self.paths.insert(rule.path.as_path().to_owned());
        self.list.push(rule);
    }

    /// Returns the depth of the deepest rule covering `path`.
    fn deepest(&self, path: &Path) -> Option<usize> {
        let covering = path.ancestors().find(|at| self.paths.contains(*at));
        covering.map(path::depth)
    }
}

fn rule(entry: &Entry, path: RealPath) -> Rule {
    Rule {
        path,
        entry: entry.text.clone(),
        origin: entry.origin.clone(),
    }
}

/// Anybody can make a name in /tmp that is known before, as a link to what its maker wants
/// to have written.
fn is_own_directory(path: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid)
}

fn in_private_tree(path: &Path) -> bool {
    PRIVATE_TREES.iter().any(|tree| path.starts_with(tree))
}

/// Names the kernel's own trees where an entry promises what a new `/proc` or a read-only
/// `/sys` cannot keep.
fn refused_tree(entry: &Entry, path: &Path) -> Option<&'static str> {
    match entry.origin.key {
        "filesystem.denyRead" if path.starts_with("/proc") => Some(
            "names a file of /proc, which is made anew for every run and cannot be hidden in part",
        ),
        "filesystem.allowWrite" if path.starts_with("/proc") || path.starts_with("/sys") => {
            Some("/proc and /sys are never writable")
        }
        _ => None,
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

#[cfg(test)]
mod tests;
