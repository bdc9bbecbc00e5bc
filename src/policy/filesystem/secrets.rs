//! Stores of secrets, which are hidden without being named.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::hard_links::Side;
use super::names::listed;
use super::rules::{List, Rule};
use super::{Access, Filesystem, in_private_tree};
use crate::policy::host::Host;
use crate::policy::path::{FileKind, RealPath, Resolver, Way, has_pattern};
use crate::policy::protected;
use crate::policy::secrets::{self, Contents, Form, Homes, Redaction, Store, redact};
use crate::settings::{self, Origin, profile};

/// The setting that hides the stores.
pub(super) const KEY: &str = "filesystem.protectSecrets";

/// Larger files are hidden whole: no settings file of a program is.
const MAX_REDACTED: u64 = 1 << 20;

/// What is said of a hidden path that has copies.
const TRACKED: &str = " is tracked by git: what was committed of it can be read in the \
                       repository; hide that too, or take it out of the history and change the \
                       secret";

/// A store of secrets on this machine.
#[derive(Debug, Clone)]
pub struct Secret {
    /// Where it is.
    pub path: RealPath,
    /// What it holds.
    pub reason: &'static str,
    /// How much of it the command sees.
    pub shown: Shown,
}

/// How much of a store the command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Nothing, or names that hold no secret.
    Hidden,
    /// A file without its secrets.
    Redacted,
    /// All of it: a setting opens it.
    Opened,
}

impl Filesystem {
    /// Hides every store that is there, unless a rule of the settings opens it.
    pub(super) fn hide_secrets(&mut self, host: &Host, homes: &Homes, resolver: &mut Resolver) {
        for (store, place) in secrets::places(host, homes) {
            let way = resolver.way(&place);
            let Ok(path) = way.real() else {
                continue;
            };
            // A variable may lead anywhere.
            if in_private_tree(path.as_path())
                || path.as_path().parent().is_none()
                || homes.hold(path.as_path())
                || !holds_something(&path, host)
            {
                continue;
            }
            let known = self.secrets.iter().find(|known| known.path == path);
            if let Some(known) = known.map(|known| known.shown) {
                self.keep_unless_opened(&way, known, store);
                continue;
            }
            if let Some(shown) = self.hide_store(store, &path, resolver) {
                self.keep_unless_opened(&way, shown, store);
                self.secrets.push(Secret {
                    path,
                    reason: store.reason,
                    shown,
                });
            }
        }
    }

    fn keep_unless_opened(&mut self, way: &Way, shown: Shown, store: &Store) {
        if shown != Shown::Opened {
            self.hold(way);
            let what = || format!("{} ({})", settings::shown(&way.end), store.reason);
            self.note_names(way, Side::Denied, what);
        }
    }

    /// Returns the stores of secrets that this machine has.
    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// Says which hidden paths have copies in the repository around them. Looks at indexes, so
    /// that no run asks without need.
    pub fn tracked(&self) -> Vec<String> {
        let lists = [List::Credentials, List::DenyRead];
        let rules = lists.into_iter().flat_map(|list| self.rules.list(list));
        let ruled = rules.map(|rule| rule.path.as_path());
        let secrets = self.secrets.iter().map(|secret| secret.path.as_path());
        self.tracked_of(ruled.chain(secrets))
    }

    /// Says so of one path.
    pub fn tracked_at(&self, path: &Path) -> Option<String> {
        self.tracked_of([path].into_iter()).pop()
    }

    fn tracked_of<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> Vec<String> {
        let is_cut = |path: &Path| {
            let mut cut = self.secrets.iter().filter(|it| it.shown == Shown::Redacted);
            cut.any(|secret| secret.path.as_path() == path)
        };
        let hidden = paths.filter(|path| self.access(path) == Access::Hidden || is_cut(path));
        let mut tracked = protected::tracked(hidden);
        // A store is a rule too.
        tracked.dedup();
        listed(&tracked, TRACKED, |path| settings::shown(path))
    }

    /// Returns what is shown in place of a file that holds secrets beside settings.
    pub fn redacted(&self, path: &RealPath) -> Option<&str> {
        let found = self.redacted.iter().find(|(redacted, _)| redacted == path);
        found.map(|(_, text)| text.as_str())
    }

    /// Shows `text` in place of a file that may be read.
    pub fn show_in_place(&mut self, path: RealPath, text: String) {
        if self.access(path.as_path()) == Access::Read && self.redacted(&path).is_none() {
            self.redacted.push((path.clone(), text));
            self.push(List::DenyWrite, rule(path));
        }
    }

    /// Hides one store; `None` where it turns out to hold no secret.
    fn hide_store(
        &mut self,
        store: &Store,
        path: &RealPath,
        resolver: &mut Resolver,
    ) -> Option<Shown> {
        let covering = self.rules.covering(path.as_path());
        if self.access(path.as_path()) == Access::Hidden {
            if covering.depth(List::DenyRead) == Some(0) {
                // A rule of its own holds for its other names too; that for `/` does not.
                self.push(List::DenyRead, rule(path.clone()));
            }
            return Some(Shown::Hidden);
        }
        let opened = covering
            .depth(List::AllowRead)
            .max(covering.depth(List::AllowWrite));
        if opened == Some(path.depth()) && self.is_opened(path) {
            self.warn_of_opening(store, path);
            return Some(Shown::Opened);
        }
        match store.contents {
            Contents::Hidden(patterns) => {
                self.hide_but(path, patterns, resolver);
                Some(Shown::Hidden)
            }
            Contents::Redacted(form) => self.redact(path, form),
        }
    }

    /// Tells whether a grant at `path` is meant to show secrets. A profile of ours means the
    /// settings beside them.
    fn is_opened(&self, path: &RealPath) -> bool {
        let granting = self.at(path.as_path(), &[List::AllowRead, List::AllowWrite]);
        let mut origins = granting.iter().map(|rule| &rule.origin);
        origins.any(|origin| !profile::is_built_in(origin))
    }

    /// A pattern may fit more than its writer thinks of.
    fn warn_of_opening(&mut self, store: &Store, path: &RealPath) {
        let lists = [List::AllowRead, List::AllowWrite];
        let rules = lists.into_iter().flat_map(|list| self.rules.list(list));
        let mut rules = rules.filter(|rule| rule.path == *path);
        let fitting = rules.find(|rule| has_pattern(&rule.entry));
        if let Some(rule) = fitting {
            self.warnings.push(format!(
                "{} `{}` fits {path} too: {}",
                rule.origin.key, rule.entry, store.reason
            ));
        }
    }

    /// Hides a store, but for what the settings do not hide and has a harmless name.
    fn hide_but(&mut self, path: &RealPath, patterns: &[&str], resolver: &mut Resolver) {
        let entries = secrets::entries(path.as_path(), patterns).into_iter();
        let harmless: Vec<_> = entries
            .filter(|entry| self.access(entry) != Access::Hidden)
            .filter_map(|entry| {
                let way = resolver.way(&entry);
                is_harmless(&way, &entry).then_some(way.real().ok()?)
            })
            .collect();
        self.push(List::DenyRead, rule(path.clone()));
        for shown in harmless {
            self.push(List::AllowRead, rule(shown));
        }
    }

    fn redact(&mut self, path: &RealPath, form: Form) -> Option<Shown> {
        let text = read(path.as_path());
        match text.map_or(Redaction::Unseparable, |text| redact(form, &text)) {
            Redaction::Harmless => None,
            Redaction::Part(text) => {
                self.redacted.push((path.clone(), text));
                // What is shown is a copy: writing to it would be lost.
                self.push(List::DenyWrite, rule(path.clone()));
                Some(Shown::Redacted)
            }
            Redaction::Unseparable => {
                self.warnings.push(format!(
                    "{path} is hidden: its secrets cannot be told from its settings; an entry of \
                     filesystem.allowRead that names it shows all of it"
                ));
                self.push(List::DenyRead, rule(path.clone()));
                Some(Shown::Hidden)
            }
        }
    }
}

/// Tells whether an entry with a harmless name is what its name says. What a link leads to lies
/// elsewhere, and is as it is there; another name of the file may be that of a key; a directory
/// may hold keys.
fn is_harmless(way: &Way, entry: &Path) -> bool {
    let is_file = way.found.is_ok_and(|id| id.kind == FileKind::File);
    is_file && way.names == 1 && way.end == entry
}

fn rule(path: RealPath) -> Rule {
    Rule {
        entry: path.to_string(),
        path,
        origin: Origin::built_in(KEY),
    }
}

/// Tells whether there is something for the caller to read: what he cannot, and may not make
/// readable, the command cannot.
fn holds_something(path: &RealPath, host: &Host) -> bool {
    let Ok(meta) = path.as_path().symlink_metadata() else {
        return true;
    };
    let modes = match path.id().kind {
        // A directory that cannot be listed gives what is below it to who knows the names.
        FileKind::Directory => [rustix::fs::Access::READ_OK, rustix::fs::Access::EXEC_OK],
        FileKind::File => [rustix::fs::Access::READ_OK; 2],
    };
    let may = |mode| rustix::fs::access(path.as_path(), mode).is_ok();
    meta.uid() == host.uid || modes.into_iter().any(may)
}

/// Reads a file of text; `None` for anything else, even what has come in its place just now.
fn read(path: &Path) -> Option<String> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let options = std::fs::File::options()
        .read(true)
        .custom_flags(flags)
        .clone();
    let file = options.open(path).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() {
        return None;
    }
    // With room for it, a file comes in one call: a bounded reader does not tell its size.
    let room = found.len().min(MAX_REDACTED) + 1;
    let mut text = String::with_capacity(usize::try_from(room).unwrap_or(0));
    file.take(MAX_REDACTED + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= MAX_REDACTED).then_some(text)
}
