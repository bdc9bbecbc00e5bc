//! How a path is decided, by which rules, and what would decide it otherwise.

use std::path::Path;

use super::rules::{Covering, List, Rule};
use super::{Access, Filesystem, in_private_tree, names};
use crate::policy::change::Change;
use crate::policy::path;

/// What the command may do with a path, and the rules that say so.
#[derive(Debug, Clone, Copy)]
pub struct Decision<'a> {
    /// What it may do.
    pub access: Access,
    /// The rule that hides the path, or shows it where another would hide it; `None` where
    /// nothing is said and reading is open.
    pub read_rule: Option<&'a Rule>,
    /// The rule that grants writing or takes it away; `None` where nothing is said and writing
    /// is closed.
    pub write_rule: Option<&'a Rule>,
}

/// What a path is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To be read.
    Read,
    /// To be written.
    Write,
}

impl Decision<'_> {
    /// Tells whether the path may be used so.
    pub fn grants(&self, right: Right) -> bool {
        match right {
            Right::Read => self.access != Access::Hidden,
            Right::Write => self.access == Access::Write,
        }
    }
}

impl Filesystem {
    /// Decides what the command may do with `path`, which must be absolute and free of links,
    /// as [`path::way`] makes it whether or not something is there.
    ///
    /// Reading: the deepest of `denyRead` and the grants covering a path wins, a grant at
    /// equal depth; `allowWrite` grants reading too; nothing shows what `credentials` hides.
    /// The base set counts as a grant of `/`: it shows what a rule for `/` alone hides.
    /// Writing: `allowWrite`, unless
    /// `denyWrite` covers the path at any depth.
    pub fn decide(&self, path: &Path) -> Decision<'_> {
        let covering = self.rules.covering(path);
        if let Some(rule) = covering.rule(List::Credentials) {
            return Decision {
                access: Access::Hidden,
                read_rule: Some(rule),
                write_rule: Some(rule),
            };
        }
        by_lists(&covering)
    }

    /// Lists the changes that, made together, turn the decision on `path` round. None do where
    /// a rule is built in, in a tree that every run replaces by its own, and for a name that is
    /// not UTF-8. What does not exist has to be made first.
    pub fn changes(&self, path: &Path, right: Right) -> Vec<Change> {
        let decision = self.decide(path);
        let key = match (right, decision.grants(right)) {
            (Right::Read, true) => "filesystem.denyRead",
            (Right::Read, false) => "filesystem.allowRead",
            (Right::Write, true) => "filesystem.denyWrite",
            (Right::Write, false) => "filesystem.allowWrite",
        };
        let mut in_the_way = match (right, decision.grants(right)) {
            // A grant beats a deny at equal depth.
            (Right::Read, true) => self.at(path, &[List::AllowRead, List::AllowWrite]),
            (Right::Write, false) => self.around(path, List::DenyWrite),
            _ => Vec::new(),
        };
        in_the_way.extend(self.around(path, List::Credentials));
        let covering = self.rules.covering(path);
        let shown = by_lists(&covering).access != Access::Hidden;
        let removal_is_enough = !decision.grants(right)
            && match right {
                Right::Read => shown,
                Right::Write => shown && covering.rule(List::AllowWrite).is_some(),
            };
        // A name is opened as such, and not by taking a rule out.
        let names = in_the_way.iter().filter_map(|rule| self.protecting(rule));
        let names: Vec<_> = names.map(|name| name.text).collect();
        in_the_way.retain(|rule| self.protecting(rule).is_none());
        let cannot = in_private_tree(path) || in_the_way.iter().any(|rule| rule.is_built_in());
        let Some(text) = path.to_str().filter(|_| !cannot) else {
            return Vec::new();
        };
        let mut changes: Vec<_> = in_the_way.into_iter().map(remove).collect();
        changes.extend(names.into_iter().map(open));
        if !removal_is_enough {
            changes.push(Change::Add {
                key,
                entry: text.to_owned(),
                literal: path::has_pattern(text),
            });
        }
        changes
    }

    pub(super) fn at(&self, path: &Path, lists: &[List]) -> Vec<&Rule> {
        let rules = lists.iter().flat_map(|list| self.rules.list(*list));
        rules.filter(|rule| rule.path.as_path() == path).collect()
    }

    fn around(&self, path: &Path, list: List) -> Vec<&Rule> {
        let rules = self.rules.list(list).iter();
        rules
            .filter(|rule| path.starts_with(rule.path.as_path()))
            .collect()
    }
}

/// Decides by the four lists alone.
fn by_lists<'a>(covering: &Covering<'a>) -> Decision<'a> {
    let hidden = covering.rule(List::DenyRead);
    let shown = covering.depth(List::AllowRead);
    let granted = covering.depth(List::AllowWrite);
    let base = covering.rule(List::Base);
    let needed = base.map(|_| 0);
    if covering.depth(List::DenyRead) > shown.max(granted).max(needed) {
        return Decision {
            access: Access::Hidden,
            read_rule: hidden,
            write_rule: hidden,
        };
    }
    let showing = match shown >= granted {
        true => covering.rule(List::AllowRead),
        false => covering.rule(List::AllowWrite),
    };
    let read_rule = hidden.and(showing.or(base));
    let kept = covering.rule(List::DenyWrite);
    let write_rule = kept.or(covering.rule(List::AllowWrite));
    let access = match write_rule {
        Some(_) if kept.is_none() => Access::Write,
        _ => Access::Read,
    };
    Decision {
        access,
        read_rule,
        write_rule,
    }
}

fn open(name: &str) -> Change {
    Change::Add {
        key: names::KEY,
        entry: name.to_owned(),
        literal: false,
    }
}

fn remove(rule: &Rule) -> Change {
    Change::Remove {
        entry: rule.entry.clone(),
        origin: rule.origin.clone(),
    }
}
