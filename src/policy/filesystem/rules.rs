//! The rules of the four lists in one tree of names: a path is looked up once, whatever the
//! number of rules.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Component, Path};

use crate::policy::path::RealPath;
use crate::settings::{Entry, Layer, Origin};

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

impl Rule {
    pub(super) fn new(entry: &Entry, path: RealPath) -> Self {
        Self {
            path,
            entry: entry.text.clone(),
            origin: entry.origin.clone(),
        }
    }

    /// Makes a rule that no settings file holds.
    pub(super) fn built_in(key: &'static str, path: RealPath) -> Self {
        Self {
            entry: path.to_string(),
            path,
            origin: Origin::built_in(key),
        }
    }

    /// Tells whether no change of the settings can take this rule out.
    pub fn is_built_in(&self) -> bool {
        self.origin.layer == Layer::BuiltIn
    }
}

/// The lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    DenyRead,
    AllowRead,
    AllowWrite,
    DenyWrite,
    Credentials,
    /// What programs need to start, where `/` is hidden.
    Base,
}

const LISTS: usize = 6;

/// The rules of all lists.
#[derive(Debug, Clone, Default)]
pub(super) struct Rules {
    lists: [Vec<Rule>; LISTS],
    root: Node,
}

/// One name of the tree.
#[derive(Debug, Clone, Default)]
struct Node {
    below: BTreeMap<OsString, Node>,
    /// Of each list, the first rule at this path, as an index.
    first: [Option<usize>; LISTS],
}

/// The rules that cover one path: of each list the deepest one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Covering<'a>([Option<(usize, &'a Rule)>; LISTS]);

impl<'a> Covering<'a> {
    /// Returns the rule of one list.
    pub(super) fn rule(&self, list: List) -> Option<&'a Rule> {
        self.0[list as usize].map(|(_, rule)| rule)
    }

    /// Returns the depth at which a list covers the path; `None`, if it does not, is less.
    pub(super) fn depth(&self, list: List) -> Option<usize> {
        self.0[list as usize].map(|(depth, _)| depth)
    }
}

impl Rules {
    pub(super) fn push(&mut self, list: List, rule: Rule) {
        let rules = &mut self.lists[list as usize];
        let mut node = &mut self.root;
        for name in names(rule.path.as_path()) {
            node = node.below.entry(name.to_owned()).or_default();
        }
        node.first[list as usize].get_or_insert(rules.len());
        rules.push(rule);
    }

    /// Returns one list in the order of the settings.
    pub(super) fn list(&self, list: List) -> &[Rule] {
        &self.lists[list as usize]
    }

    /// Returns the rules of all lists.
    pub(super) fn all(&self) -> impl Iterator<Item = &Rule> {
        self.lists.iter().flatten()
    }

    /// Finds what covers an absolute path that is free of links.
    pub(super) fn covering(&self, path: &Path) -> Covering<'_> {
        let mut covering = Covering::default();
        let mut node = &self.root;
        let mut names = names(path);
        for depth in 0.. {
            for (list, first) in node.first.iter().enumerate() {
                if let Some(index) = first {
                    covering.0[list] = Some((depth, &self.lists[list][*index]));
                }
            }
            match names.next().and_then(|name| node.below.get(name)) {
                Some(below) => node = below,
                None => break,
            }
        }
        covering
    }
}

fn names(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    })
}
