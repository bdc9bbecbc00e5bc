//! Allow lists that bound one another: the system's those of everybody, and those of the
//! user by those of a project that nobody vouched for.
//!
//! Knows no layers: it compares lists.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::host::Host;
use super::network::{List, Table, intersection};
use super::path::{self, entry_error};
use crate::error::{Error, Kind, Result};
use crate::settings::Entry;

/// The allow lists of the settings file that bounds all others; `None` for a key it does not
/// have, which bounds nothing.
#[derive(Debug, Clone, Copy)]
pub struct Ceiling<'a> {
    /// The file, for the case that a list is empty and has no place of its own.
    pub file: &'a Path,
    /// `network.allowedDomains`.
    pub allowed_domains: Option<&'a [Entry]>,
    /// `filesystem.allowRead`.
    pub allow_read: Option<&'a [Entry]>,
    /// `filesystem.allowWrite`.
    pub allow_write: Option<&'a [Entry]>,
    /// `network.allowUnixSockets`.
    pub allow_unix_sockets: Option<&'a [Entry]>,
    /// `filesystem.denyRead`: no grant of another file may show again what it hides.
    pub deny_read: &'a [Entry],
}

/// The allow lists of the files below, or of the flags: each entry with its own place.
#[derive(Debug, Clone, Copy, Default)]
pub struct Grants<'a> {
    /// `network.allowedDomains`.
    pub allowed_domains: &'a [Entry],
    /// `filesystem.allowRead`.
    pub allow_read: &'a [Entry],
    /// `filesystem.allowWrite`.
    pub allow_write: &'a [Entry],
    /// `network.allowUnixSockets`.
    pub allow_unix_sockets: &'a [Entry],
}

/// An allow list after another has narrowed it.
#[derive(Debug, Clone, Default)]
pub struct Narrowed {
    /// What both lists allow, with the places of the outer one.
    pub entries: Vec<Entry>,
    /// What was narrowed, for the user to read.
    pub notes: Vec<String>,
    /// Entries of the inner list that nothing of the outer one meets.
    idle: Vec<Entry>,
}

/// What is hidden where an untrusted project narrows: by others, by itself.
#[derive(Debug)]
pub struct Hidden<'a> {
    /// What others hide.
    pub by_others: &'a [Entry],
    /// `filesystem.denyRead` of the project.
    pub by_project: &'a [Entry],
    /// The directory of the project.
    pub project: &'a Path,
}

impl Narrowed {
    /// Lists what was narrowed, and what has no effect.
    pub fn all_notes(&self) -> Vec<String> {
        let idle = self.idle.iter().map(|entry| {
            let shown = shown(entry);
            format!("{shown} has no effect: it can only narrow, and nothing else allows it")
        });
        self.notes.iter().cloned().chain(idle).collect()
    }

    /// Adds the entries of `by` that show again what the project alone hides, in its own
    /// directory: without its file that could be read.
    ///
    /// # Errors
    /// An entry cannot be understood.
    pub fn show_again(&mut self, by: &[Entry], hidden: &Hidden<'_>, host: &Host) -> Result<()> {
        let others = Roots::resolve(hidden.by_others, host)?;
        let own = Roots::resolve(hidden.by_project, host)?;
        for entry in by {
            let path = resolve(entry, host)?;
            // Settings cannot say another name, so that none is in the lists.
            let is_own = path.to_str().is_some() && path.starts_with(hidden.project);
            let is_hidden = |roots: &Roots<'_>| roots.around(&path).next().is_some();
            if is_own && is_hidden(&own) && !is_hidden(&others) {
                self.entries.push(entry.clone());
                self.idle.retain(|idle| idle != entry);
            }
        }
        Ok(())
    }
}

/// Refuses every entry that allows more than the ceiling does.
///
/// # Errors
/// Names the place of each such entry and of the list that bounds it, one a line; or the
/// first entry that cannot be understood.
pub fn check(ceiling: &Ceiling<'_>, grants: &Grants<'_>, host: &Host) -> Result<()> {
    let mut problems = Vec::new();
    if let Some(bound) = ceiling.allowed_domains {
        let outer = Table::parse(bound, List::Allowed)?;
        let place = place_of("network.allowedDomains", bound, ceiling.file);
        for rule in Table::parse(grants.allowed_domains, List::Allowed)?.rules() {
            let mut around = outer.around(rule);
            if !around.any(|(_, outer)| rule.is_covered_by(outer)) {
                problems.push(beyond(rule.entry(), &place));
            }
        }
    }
    let paths = [
        (
            "filesystem.allowRead",
            ceiling.allow_read,
            grants.allow_read,
        ),
        (
            "filesystem.allowWrite",
            ceiling.allow_write,
            grants.allow_write,
        ),
        (
            "network.allowUnixSockets",
            ceiling.allow_unix_sockets,
            grants.allow_unix_sockets,
        ),
    ];
    for (key, bound, entries) in paths {
        if let Some(bound) = bound {
            let outer = Roots::resolve(bound, host)?;
            let place = place_of(key, bound, ceiling.file);
            for entry in entries {
                if outer.around(&resolve(entry, host)?).next().is_none() {
                    problems.push(beyond(entry, &place));
                }
            }
        }
    }
    refuse_reopened(ceiling, grants, host, &mut problems)?;
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Error::of_lines(Kind::Settings, problems)
            .with_hint("take these entries out, or ask who keeps that file to allow them")),
    }
}

/// A grant at or below a hidden path shows it again. Only the ceiling's own grants may do
/// that to what the ceiling hides.
fn refuse_reopened(
    ceiling: &Ceiling<'_>,
    grants: &Grants<'_>,
    host: &Host,
    problems: &mut Vec<String>,
) -> Result<()> {
    let hidden = Roots::resolve(ceiling.deny_read, host)?;
    let own = [ceiling.allow_read, ceiling.allow_write];
    let reopened = Roots::resolve(own.into_iter().flatten().flatten(), host)?;
    for entry in grants.allow_read.iter().chain(grants.allow_write) {
        let path = resolve(entry, host)?;
        let Some(hiding) = hidden.around(&path).next() else {
            continue;
        };
        // The deepest grant around the same path: at least as deep, or it shows nothing.
        let nearest = reopened.around(&path).next();
        if nearest.is_none_or(|at| !reopened.paths[at].starts_with(&hidden.paths[hiding])) {
            let what = format!("would show what {} hides", shown(hidden.entries[hiding]));
            problems.push(entry_error(entry, &what).to_string());
        }
    }
    Ok(())
}

/// Returns what both lists of hosts allow. `by` can take away and never add.
///
/// # Errors
/// An entry cannot be understood.
pub fn narrow_domains(entries: &[Entry], by: &[Entry]) -> Result<Narrowed> {
    let outer = Table::parse(entries, List::Allowed)?;
    let inner = Table::parse(by, List::Allowed)?;
    let mut narrowing = Narrowing::new(entries, by);
    // Of two rules that share a target, the hosts of one hold those of the other.
    for (at, rule) in outer.rules().iter().enumerate() {
        for (by, wider) in inner.around(rule) {
            let both = intersection(rule, wider).map(|both| both.entry().clone());
            narrowing.add(at, by, both);
        }
    }
    for (by, rule) in inner.rules().iter().enumerate() {
        for (at, wider) in outer.around(rule) {
            let both = intersection(wider, rule).map(|both| both.entry().clone());
            narrowing.add(at, by, both);
        }
    }
    Ok(narrowing.finish())
}

/// Returns what both lists of paths allow, by resolved paths. `by` can take away and never add:
/// a grant that became deeper would win over what `hidden` (`denyRead`) takes out of the one it
/// came from, so that there it is dropped.
///
/// # Errors
/// An entry cannot be understood, or leads to a path that settings cannot say.
pub fn narrow_paths(
    entries: &[Entry],
    by: &[Entry],
    hidden: &[Entry],
    host: &Host,
) -> Result<Narrowed> {
    let outer = Roots::resolve(entries, host)?;
    let inner = Roots::resolve(by, host)?;
    let hidden = Roots::resolve(hidden, host)?;
    let mut narrowing = Narrowing::new(entries, by);
    for (at, path) in outer.paths.iter().enumerate() {
        for by in inner.around(path) {
            narrowing.add(at, by, Some(entries[at].clone()));
        }
    }
    for (by, path) in inner.paths.iter().enumerate() {
        let hiding = hidden.around(path).next().map(|at| &hidden.paths[at]);
        for at in outer.around(path) {
            let root = &outer.paths[at];
            let is_hidden = hiding.is_some_and(|path| path != root && path.starts_with(root));
            let both = match (root == path, is_hidden) {
                (true, _) => Some(entries[at].clone()),
                (false, true) => None,
                (false, false) => Some(entry_for(path, &entries[at])?),
            };
            narrowing.add(at, by, both);
        }
    }
    Ok(narrowing.finish())
}

/// An intersection of two lists under way.
struct Narrowing<'a> {
    outer: &'a [Entry],
    inner: &'a [Entry],
    /// What is left of each outer entry, each once.
    left: Vec<Vec<Entry>>,
    /// Whether an inner entry meets any outer one.
    met: Vec<bool>,
}

impl<'a> Narrowing<'a> {
    fn new(outer: &'a [Entry], inner: &'a [Entry]) -> Self {
        Self {
            outer,
            inner,
            left: vec![Vec::new(); outer.len()],
            met: vec![false; inner.len()],
        }
    }

    fn add(&mut self, outer: usize, inner: usize, both: Option<Entry>) {
        if let Some(both) = both {
            self.met[inner] = true;
            self.left[outer].push(both);
        }
    }

    fn finish(self) -> Narrowed {
        let mut narrowed = Narrowed::default();
        for (entry, mut left) in self.outer.iter().zip(self.left) {
            if left.contains(entry) {
                narrowed.entries.push(entry.clone());
                continue;
            }
            let mut seen = HashSet::new();
            left.retain(|part| seen.insert(part.text.clone()));
            narrowed.notes.push(note(entry, &left));
            narrowed.entries.extend(left);
        }
        let idle = self.inner.iter().zip(self.met).filter(|(_, met)| !met);
        narrowed.idle.extend(idle.map(|(entry, _)| entry.clone()));
        narrowed
    }
}

fn note(entry: &Entry, left: &[Entry]) -> String {
    let shown = shown(entry);
    let parts: Vec<_> = left.iter().map(|part| format!("`{}`", part.text)).collect();
    match parts.is_empty() {
        true => format!("{shown} is narrowed to nothing"),
        false => format!("{shown} is narrowed to {}", parts.join(", ")),
    }
}

/// Writes a resolved path as an entry that stands where `outer` does.
fn entry_for(path: &Path, outer: &Entry) -> Result<Entry> {
    let text = path.to_str().ok_or_else(|| {
        let what = "cannot be narrowed: what it is narrowed by leads to a name that is not UTF-8";
        entry_error(outer, what)
    })?;
    Ok(Entry::literal(text.to_owned(), outer.origin.clone()))
}

/// Paths of one list, links resolved, to look up what lies around a path.
struct Roots<'a> {
    entries: Vec<&'a Entry>,
    paths: Vec<PathBuf>,
    by_path: HashMap<PathBuf, Vec<usize>>,
}

impl<'a> Roots<'a> {
    fn resolve(entries: impl IntoIterator<Item = &'a Entry>, host: &Host) -> Result<Self> {
        let mut roots = Self {
            entries: Vec::new(),
            paths: Vec::new(),
            by_path: HashMap::new(),
        };
        for entry in entries {
            let path = resolve(entry, host)?;
            let same = roots.by_path.entry(path.clone()).or_default();
            same.push(roots.paths.len());
            roots.paths.push(path);
            roots.entries.push(entry);
        }
        Ok(roots)
    }

    /// Returns the entries at or above `path`, the deepest first.
    fn around(&self, path: &Path) -> impl Iterator<Item = usize> {
        let found = path.ancestors().filter_map(|at| self.by_path.get(at));
        found.flatten().copied()
    }
}

/// Resolves the path of an entry as far as it exists.
fn resolve(entry: &Entry, host: &Host) -> Result<PathBuf> {
    let path = path::absolute(entry, host)?;
    Ok(path::way_as_listed(&path).end)
}

fn beyond(entry: &Entry, bound: &str) -> String {
    entry_error(entry, &format!("goes beyond {bound}")).to_string()
}

/// Names a list by the place of its first entry.
fn place_of(key: &str, list: &[Entry], file: &Path) -> String {
    match list.first() {
        Some(first) => format!("{key} at {}", place(first)),
        None => format!("{key} of {}, which is empty", file.display()),
    }
}

fn place(entry: &Entry) -> String {
    let origin = &entry.origin;
    match &origin.file {
        Some(file) => format!("{}:{}", file.display(), origin.line),
        None => origin.key.to_owned(),
    }
}

fn shown(entry: &Entry) -> String {
    format!("{} `{}` ({})", entry.origin.key, entry.text, place(entry))
}

#[cfg(test)]
mod tests;
