//! Stores of secrets, which are hidden without being named.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::rules::{List, Rule};
use super::{Access, Filesystem, in_private_tree};
use crate::policy::host::Host;
use crate::policy::path::{FileKind, RealPath, Resolver};
use crate::policy::secrets::{self, Contents, Form, Redacted, Store, redact};
use crate::settings::Origin;

/// The setting that hides the stores.
const KEY: &str = "filesystem.protectSecrets";

/// Larger files are hidden whole: no settings file of a program is.
const MAX_FILTERED: u64 = 1 << 20;

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
    Filtered,
    /// All of it: a setting opens it.
    Opened,
}

impl Filesystem {
    /// Hides every store that is there, unless a rule of the settings opens it.
    pub(super) fn hide_secrets(&mut self, host: &Host, resolver: &mut Resolver) {
        for (store, place) in secrets::places(host) {
            let Ok(path) = resolver.way(&place).real() else {
                continue;
            };
            // A variable may lead anywhere.
            let is_home = |home: &PathBuf| home.starts_with(path.as_path());
            if in_private_tree(path.as_path())
                || path.as_path().parent().is_none()
                || host.home.as_ref().is_some_and(is_home)
                || self.secrets.iter().any(|known| known.path == path)
                || !is_readable(&path)
            {
                continue;
            }
            if let Some(shown) = self.hide_store(store, &path, resolver) {
                self.secrets.push(Secret {
                    path,
                    reason: store.reason,
                    shown,
                });
            }
        }
    }

    /// Returns the stores of secrets that this machine has.
    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// Returns what is shown in place of a file that holds secrets beside settings.
    pub fn filtered(&self, path: &RealPath) -> Option<&str> {
        let found = self.filtered.iter().find(|(filtered, _)| filtered == path);
        found.map(|(_, text)| text.as_str())
    }

    /// Hides one store; `None` where it turns out to hold no secret.
    fn hide_store(
        &mut self,
        store: &Store,
        path: &RealPath,
        resolver: &mut Resolver,
    ) -> Option<Shown> {
        let decision = self.decide(path.as_path());
        if decision.access == Access::Hidden {
            return Some(Shown::Hidden);
        }
        let covering = self.rules.covering(path.as_path());
        let opened = covering
            .depth(List::AllowRead)
            .max(covering.depth(List::AllowWrite));
        if opened == Some(path.depth()) {
            return Some(Shown::Opened);
        }
        match store.contents {
            Contents::Hidden(patterns) => {
                self.hide_but(path, patterns, resolver);
                Some(Shown::Hidden)
            }
            Contents::Filtered(form) => self.filter(path, form),
        }
    }

    /// Hides a store, but for what the settings do not hide and has a harmless name.
    fn hide_but(&mut self, path: &RealPath, patterns: &[&str], resolver: &mut Resolver) {
        let entries = secrets::entries(path.as_path(), patterns).into_iter();
        let harmless: Vec<_> = entries
            .filter(|entry| self.access(entry) != Access::Hidden)
            // What a link leads to lies elsewhere, and is as it is there.
            .filter_map(|entry| {
                resolver
                    .way(&entry)
                    .real()
                    .ok()
                    .filter(|real| real.as_path() == entry)
            })
            .collect();
        self.push(List::DenyRead, rule(path.clone()));
        for shown in harmless {
            self.push(List::AllowRead, rule(shown));
        }
    }

    fn filter(&mut self, path: &RealPath, form: Form) -> Option<Shown> {
        let text = read(path.as_path());
        match text.map_or(Redacted::Nothing, |text| redact(form, &text)) {
            Redacted::Whole => None,
            Redacted::Part(text) => {
                self.filtered.push((path.clone(), text));
                // What is shown is a copy: writing to it would be lost.
                self.push(List::DenyWrite, rule(path.clone()));
                Some(Shown::Filtered)
            }
            Redacted::Nothing => {
                self.push(List::DenyRead, rule(path.clone()));
                Some(Shown::Hidden)
            }
        }
    }
}

fn rule(path: RealPath) -> Rule {
    Rule {
        entry: path.to_string(),
        path,
        origin: Origin::built_in(KEY),
    }
}

/// Tells whether there is something for the caller to read: what he cannot, the command cannot.
fn is_readable(path: &RealPath) -> bool {
    let modes = match path.id().kind {
        // A directory that cannot be listed gives what is below it to who knows the names.
        FileKind::Directory => [rustix::fs::Access::READ_OK, rustix::fs::Access::EXEC_OK],
        FileKind::File => [rustix::fs::Access::READ_OK; 2],
    };
    let may = |mode| rustix::fs::access(path.as_path(), mode).is_ok();
    let is_empty = |meta: std::fs::Metadata| meta.is_file() && meta.len() == 0;
    modes.into_iter().any(may) && !path.as_path().symlink_metadata().is_ok_and(is_empty)
}

/// Reads a file of text; `None` for anything else.
fn read(path: &Path) -> Option<String> {
    if !std::fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let file = std::fs::File::open(path).ok()?;
    let mut text = String::new();
    file.take(MAX_FILTERED + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= MAX_FILTERED).then_some(text)
}
