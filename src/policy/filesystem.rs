//! Which paths may be read and written: the precedence of the four lists in one function.

mod decision;
mod denial;
mod hard_links;
mod held;
mod names;
mod protected;
mod refusals;
mod rules;
mod secrets;
mod startup;
mod survey;

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::errno::Errno;

pub use decision::{Decision, Right};
pub use denial::{Denial, Use};
pub use names::Protected;
pub use rules::Rule;
pub use secrets::{Secret, Shown};
pub use survey::{HardLink, Survey};

use super::host::Host;
use super::path::{self, Link, RealPath, Resolver, Way};
use super::protected::Protection;
use super::secrets::Homes;
use super::wide;
use crate::error::Result;
use crate::settings::{self, Entry, profile};
use hard_links::{Linked, Side};
use rules::{List, Rules};

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
    rules: Rules,
    /// Made when first asked: every rule that is added changes them.
    pins: OnceLock<Vec<RealPath>>,
    /// Links on the ways of what is denied, by their paths.
    links: BTreeMap<PathBuf, Link>,
    /// Links on the ways of what is granted, by their paths.
    leading: BTreeMap<PathBuf, Link>,
    /// Those of them that a search found.
    found_links: HashSet<PathBuf>,
    /// Directories that must stay in place, with those above them, though nothing is denied in
    /// them: those of the launcher, and those that links lead through.
    kept: Vec<PathBuf>,
    /// Missing directories that the settings ask to be made, each with the entry that does.
    unmade: Vec<(PathBuf, Entry)>,
    /// Stores of secrets that are there.
    secrets: Vec<Secret>,
    /// What is protected by its name.
    protected: Vec<Protected>,
    /// Directories that are not written, since a search could not look into them.
    closed: Vec<PathBuf>,
    /// Files that are shown without their secrets, and what is shown.
    redacted: Vec<(RealPath, String)>,
    /// Files with other names, to be told of when all rules are there.
    linked: Vec<Linked>,
    notes: Vec<String>,
    warnings: Vec<String>,
}

/// One entry with the way its path takes.
struct Named<'a> {
    entry: &'a Entry,
    way: Way,
}

/// Trees that every run replaces by its own: rules inside them have nothing to act on.
const PRIVATE_TREES: [&str; 2] = ["/dev", "/proc"];

/// Trees of the kernel, never writable whatever is granted.
const KERNEL_TREES: [&str; 2] = ["/proc", "/sys"];

/// Paths that are writable without being listed, where they exist (`srt-settings(5)`).
pub(super) const DEFAULT_WRITE: [&str; 3] = ["/tmp/claude", "~/.npm/_logs", "~/.claude/debug"];

/// What the rules are made of.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    /// The four lists of the settings.
    pub entries: settings::Filesystem,
    /// Directories that are writable without being listed, where they exist.
    pub default_write: Vec<Entry>,
    /// Paths hidden whatever shows them again.
    pub credentials: Vec<Entry>,
    /// Files that are not written, whatever is granted.
    pub protected: Vec<PathBuf>,
    /// Well-known stores of secrets are hidden.
    pub protects_secrets: bool,
    /// Names that stay as they are wherever they may be written.
    pub protection: Protection,
    /// What the user should read of how the lists were made.
    pub warnings: Vec<String>,
    /// What may be said of it besides.
    pub notes: Vec<String>,
}

impl Filesystem {
    /// Resolves the lists and refuses what cannot be enforced.
    ///
    /// # Errors
    /// An entry is not a path that can be protected or granted here.
    pub fn from_lists(lists: &Lists, host: &Host) -> Result<Self> {
        let settings = &lists.entries;
        let mut resolver = Resolver::default();
        let mut named = |entries| name_all(entries, host, &mut resolver);
        let deny_read = named(&settings.deny_read)?;
        let allow_read = named(&settings.allow_read)?;
        let allow_write = named(&settings.allow_write)?;
        let deny_write = named(&settings.deny_write)?;
        let credentials = named(&lists.credentials)?;
        let mut policy = Self {
            warnings: lists.warnings.clone(),
            notes: lists.notes.clone(),
            ..Self::default()
        };
        policy.add(List::Credentials, &credentials, Missing::Note)?;
        policy.add(List::DenyRead, &deny_read, Missing::Note)?;
        policy.add(List::AllowRead, &allow_read, Missing::Note)?;
        policy.add(List::AllowWrite, &allow_write, Missing::Warn)?;
        // Once it is known what the settings hide, which a default does not open.
        policy.add_default_write(&lists.default_write, host)?;
        policy.show_base(&mut resolver);
        policy.lead_to(allow_read.iter().chain(&allow_write));
        policy.add(List::DenyWrite, &deny_write, Missing::Judge)?;
        // After the grants: one that names a store opens it.
        let homes = Homes::of(host);
        if lists.protects_secrets {
            policy.hide_secrets(host, &homes, &mut resolver);
        }
        policy.close_kernel_trees()?;
        // Where nothing else keeps them from being written.
        policy.protect_names(&lists.protection, host, &homes, &mut resolver);
        // These ask what may be written, so that every rule has to be there.
        policy.protect(&lists.protected, host, &mut resolver)?;
        policy.protect_program(host, &mut resolver)?;
        policy.refuse_hidden_base(&credentials)?;
        policy.refuse_unprotected_names(&deny_write, &mut resolver)?;
        policy.refuse_replaceable_grants(&allow_read, host, &mut resolver)?;
        policy.refuse_replaceable_grants(&allow_write, host, &mut resolver)?;
        let granted = allow_write
            .iter()
            .map(|Named { entry, way }| (*entry, &*way.end));
        let wide = wide::warnings(granted, host, &mut resolver);
        policy.warnings.extend(wide);
        policy.warn_of_void_denies(host, &mut resolver);
        policy.warn_of_hard_links();
        policy.warn_of_planted_links(deny_read.iter().chain(&deny_write), &mut resolver);
        policy.forget_unwritable(&deny_write);
        Ok(policy)
    }

    /// Returns what the command may do with `path`, as [`Filesystem::decide`] says.
    pub fn access(&self, path: &Path) -> Access {
        self.decide(path).access
    }

    /// Hides the private directories of other runs; that of this run is granted afterwards.
    pub fn hide_runs(&mut self, path: RealPath) {
        let rule = Rule::built_in("filesystem.denyRead", path);
        self.push(List::DenyRead, rule);
    }

    /// Grants writing to a directory made for this run.
    pub fn grant_private(&mut self, path: RealPath) {
        // What the launcher removes afterwards must still be the directory it made.
        let run = path.as_path().ancestors().skip(1).map(Path::to_owned);
        self.kept.extend(run);
        let rule = Rule::built_in("filesystem.allowWrite", path);
        self.push(List::AllowWrite, rule);
    }

    /// Returns the paths that the two deny lists name.
    pub fn denied(&self) -> Vec<RealPath> {
        let lists = [List::DenyRead, List::Credentials, List::DenyWrite];
        let rules = lists.into_iter().flat_map(|list| self.rules.list(list));
        // Every other name of `/` lies below it: it is hidden too, or granted by that name.
        let named = rules.filter(|rule| rule.path.depth() > 0);
        named.map(|rule| rule.path.clone()).collect()
    }

    /// Denies a path under its other names too, by the same rule.
    pub fn deny_aliases(&mut self, aliases: &[(&RealPath, RealPath)]) {
        if aliases.is_empty() {
            return;
        }
        for (path, alias) in aliases {
            for list in [List::DenyRead, List::Credentials, List::DenyWrite] {
                let nearest = self.rules.covering(path.as_path()).rule(list);
                let Some(rule) = nearest.filter(|rule| rule.path == **path).cloned() else {
                    continue;
                };
                self.notes.push(format!(
                    "{} `{}` is mounted at {alias} too: denied there as well",
                    rule.origin.key, rule.entry
                ));
                let path = alias.clone();
                self.push(list, Rule { path, ..rule });
            }
            if let Some(text) = self.redacted(path).map(str::to_owned) {
                self.redacted.push((alias.clone(), text));
            }
        }
    }

    /// Returns every path where rights may change, parents before children, each once.
    pub fn boundaries(&self) -> Vec<&RealPath> {
        let ruled = self.rules.all().map(|rule| &rule.path);
        let mut paths: Vec<_> = ruled.chain(self.pins()).collect();
        // As bytes: these paths are normal, and comparing names one by one takes longer.
        let name = |path: &&RealPath| path.as_path().as_os_str().to_owned();
        paths.sort_by_cached_key(|path| (path.depth(), name(path)));
        paths.dedup_by(|a, b| a.as_path().as_os_str() == b.as_path().as_os_str());
        paths
    }

    /// Returns the rules of all lists, those that no setting holds among them.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.all()
    }

    /// Returns the directories that are missing and that `allowWrite` names with a `/` at the
    /// end: to be made before a run, which is then judged anew.
    pub fn unmade(&self) -> impl Iterator<Item = &Path> {
        self.unmade.iter().map(|(path, _)| path.as_path())
    }

    /// Returns the entry that will open `path` once its directory is made.
    pub fn opened_when_made(&self, path: &Path) -> Option<&Entry> {
        let covering = self.rules.covering(path);
        let (made, entry) = self
            .unmade
            .iter()
            .find(|(made, _)| path.starts_with(made))?;
        let is_hidden = covering.depth(List::DenyRead) > Some(path::depth(made));
        (!is_hidden && covering.rule(List::DenyWrite).is_none()).then_some(entry)
    }

    /// Returns what the user should read before the command starts.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns what `--verbose` says about entries without effect.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    fn push(&mut self, list: List, rule: Rule) {
        self.rules.push(list, rule);
        self.forget_pins();
    }

    /// They are made anew from the rules when asked for.
    fn forget_pins(&mut self) {
        self.pins = OnceLock::new();
    }

    fn add(&mut self, list: List, named: &[Named<'_>], missing: Missing) -> Result<()> {
        for Named { entry, way } in named {
            let side = match list {
                List::Credentials | List::DenyRead | List::DenyWrite => {
                    refusals::refuse_uncovered(entry, way)?;
                    self.hold(way);
                    Some(Side::Denied)
                }
                List::AllowWrite => Some(Side::Granted),
                List::AllowRead | List::Base => None,
            };
            if let Some(side) = side {
                let what = || format!("{} `{}`", entry.origin.key, entry.text);
                self.note_names(way, side, what);
            }
            match way.real() {
                Ok(path) => match refused_tree(entry, path.as_path()) {
                    Some(reason) => return Err(path::entry_error(entry, reason)),
                    None if in_private_tree(path.as_path()) => self.notes.push(format!(
                        "{} `{}` has no effect: /dev and /proc are the sandbox's own",
                        entry.origin.key, entry.text
                    )),
                    None => self.push(list, Rule::new(entry, path)),
                },
                Err(_) if is_missing(way) => self.missing(entry, way, missing),
                Err(error) if way.found == Err(Errno::ENAMETOOLONG) => {
                    let what = "is too long: a name has 255 bytes at most, a path 4095";
                    return Err(path::entry_error(entry, what).source(error));
                }
                Err(error) => {
                    return Err(path::entry_error(entry, "cannot be resolved")
                        .call(format!("realpath({})", way.end.display()), error));
                }
            }
        }
        Ok(())
    }

    fn missing(&mut self, entry: &Entry, way: &Way, missing: Missing) {
        let key = entry.origin.key;
        match missing {
            Missing::Warn if asks_for_directory(entry, way) => {
                self.unmade.push((way.end.clone(), entry.clone()))
            }
            Missing::Warn if profile::is_built_in(&entry.origin) => self.notes.push(format!(
                "{key} `{}` does not exist and was not granted",
                entry.text
            )),
            Missing::Note if key == "filesystem.allowRead" => self.notes.push(format!(
                "{key} `{}` does not exist and was not shown",
                entry.text
            )),
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

    /// Nothing is made where the command could not write it. A directory that is denied may be
    /// missing too, and would come with what is below it.
    fn forget_unwritable(&mut self, denied: &[Named<'_>]) {
        let closed: HashSet<_> = denied.iter().map(|named| named.way.end.as_path()).collect();
        let is_closed = |path: &Path| path.ancestors().any(|at| closed.contains(at));
        let ruled = |path: &Path| self.rules.covering(path).rule(List::DenyWrite).is_some();
        self.unmade
            .retain(|(path, _)| !is_closed(path) && !ruled(path));
    }

    fn add_default_write(&mut self, entries: &[Entry], host: &Host) -> Result<()> {
        for entry in entries {
            let named = path::absolute(entry, host)?;
            if !is_own_directory(&named, host.uid) {
                continue;
            }
            let Ok(path) = RealPath::resolve(&named) else {
                continue;
            };
            // A default must not re-open what the settings hide.
            if self.access(path.as_path()) != Access::Hidden {
                self.push(List::AllowWrite, Rule::new(entry, path));
            }
        }
        Ok(())
    }

    /// Tells whether the command may change the directory that holds `path`, or the nearest
    /// one that exists. `path` is free of links but for its last name.
    fn is_in_writable(&self, path: &Path, resolver: &mut Resolver) -> bool {
        let mut parents = path.ancestors().skip(1);
        let parent = parents.find(|parent| resolver.is_there(parent));
        parent.is_some_and(|parent| self.access(parent) == Access::Write)
    }

    /// A mapped uid 0 passes the mode checks of the kernel's own files, so that no grant
    /// reaches them.
    fn close_kernel_trees(&mut self) -> Result<()> {
        for tree in KERNEL_TREES {
            // A host without one has nothing to close.
            if let Some(path) = path::resolve_if_there(Path::new(tree))? {
                let rule = Rule::built_in("filesystem.denyWrite", path);
                self.push(List::DenyWrite, rule);
            }
        }
        Ok(())
    }
}

fn name_all<'a>(
    entries: &'a [Entry],
    host: &Host,
    resolver: &mut Resolver,
) -> Result<Vec<Named<'a>>> {
    let named = entries.iter().map(|entry| {
        let way = resolver.way_as_listed(&path::absolute(entry, host)?);
        Ok(Named { entry, way })
    });
    named.collect()
}

/// What to do about an entry that names nothing.
#[derive(Debug, Clone, Copy)]
enum Missing {
    Note,
    Warn,
    /// Allowed where nobody can make it; see [`Filesystem::refuse_unprotected_names`].
    Judge,
}

fn asks_for_directory(entry: &Entry, way: &Way) -> bool {
    let end = way.end.as_path();
    entry.text.ends_with('/')
        && way.found == Err(Errno::ENOENT)
        && !in_private_tree(end)
        && refused_tree(entry, end).is_none()
}

/// Anybody can make a name in /tmp that is known before, as a link to what its maker wants
/// to have written.
fn is_own_directory(path: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid)
}

/// Tells whether a tree is the kernel's or the sandbox's own: nothing in it is for patterns.
pub(super) fn is_made_anew(path: &Path) -> bool {
    in_private_tree(path) || KERNEL_TREES.iter().any(|tree| path.starts_with(tree))
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

fn is_missing(way: &Way) -> bool {
    matches!(way.found, Err(Errno::ENOENT | Errno::ENOTDIR))
}

#[cfg(test)]
mod tests;
