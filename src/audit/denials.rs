//! What was denied in a run, counted.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::event::{Code, Process};

/// Most that are told apart; further ones are counted together.
const MOST: usize = 256;

/// What was denied in a run: each thing once, with how often.
#[derive(Debug, Clone, Default)]
pub struct Denials {
    groups: Vec<Group>,
    places: HashMap<(String, String, String), usize>,
    /// Denials of what is in no group.
    pub more: u64,
}

/// One thing that was denied, however often.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Group {
    /// How often.
    pub count: u64,
    /// What part of the sandbox refused it: `net`, `file`.
    pub kind: String,
    /// What was attempted: `connect`.
    pub op: String,
    /// What it was attempted on; empty where it has no name.
    pub target: String,
    /// Why, as events say it.
    pub code: String,
    /// The rule that refused, where one did.
    pub rule: Option<FoundRule>,
    /// More about the reason.
    pub reason: Option<String>,
    /// The changes that would allow it together.
    pub changes: Vec<FoundChange>,
    /// Program of the first process that asked, where it is known.
    pub exe: Option<String>,
    /// Whether the kernel may have decided otherwise.
    pub predicted: bool,
}

/// A rule as an event names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundRule {
    /// Key of the settings.
    pub key: String,
    /// The entry as written.
    pub entry: String,
    /// The settings file.
    pub file: Option<String>,
    /// Line in it.
    pub line: u32,
}

/// One change of the settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FoundChange {
    /// Key of the settings.
    pub key: String,
    /// Entry to add.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
    /// Whether it is a path that would be read as a pattern.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
    /// Entry to take out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remove: Option<String>,
}

/// What is read of an event.
#[derive(Deserialize)]
struct Seen<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    op: Cow<'a, str>,
    #[serde(borrow)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow)]
    verdict: Option<Cow<'a, str>>,
    #[serde(borrow)]
    code: Cow<'a, str>,
    rule: Option<FoundRule>,
    suggest: Option<FoundSuggest>,
    #[serde(default)]
    predicted: bool,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    #[serde(borrow)]
    range: Option<Cow<'a, str>>,
    /// How often it came, where one event tells of several.
    #[serde(default = "once")]
    count: u64,
}

fn once() -> u64 {
    1
}

#[derive(Deserialize)]
struct FoundSuggest {
    #[serde(flatten)]
    first: FoundChange,
    #[serde(default)]
    also: Vec<FoundChange>,
}

/// What stands in every denial, however it is spaced.
const DENIED: &str = r#""denied""#;

impl Denials {
    /// Returns what was denied, in the order in which it first was.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Tells whether nothing was denied.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes denials that were counted earlier.
    pub(crate) fn of(groups: Vec<Group>, more: u64) -> Self {
        Self {
            groups,
            places: HashMap::new(),
            more,
        }
    }

    /// Counts an event as it stands in a file.
    pub(crate) fn count_line(&mut self, line: &str) {
        let process = |line| -> Option<Process> {
            let event: serde_json::Value = serde_json::from_str(line).ok()?;
            serde_json::from_value(event.get("process")?.clone()).ok()
        };
        // Most lines are no denials, and need not be read whole.
        let process = line.contains(DENIED).then(|| process(line)).flatten();
        self.count(line, process.as_ref());
    }

    /// Counts an event, if it is a denial of something the command did.
    pub(super) fn count(&mut self, event: &str, process: Option<&Process>) {
        if !event.contains(DENIED) {
            return;
        }
        let Ok(seen) = serde_json::from_str::<Seen<'_>>(event) else {
            return;
        };
        let is_run = seen.code == Code::RunRefused.name();
        if seen.verdict.as_deref() != Some("denied") || is_run {
            return;
        }
        let target = seen.target.unwrap_or_default().into_owned();
        let place = (seen.code.into_owned(), seen.op.into_owned(), target.clone());
        if let Some(&at) = self.places.get(&place) {
            let group = &mut self.groups[at];
            group.count = group.count.saturating_add(seen.count);
            return;
        }
        if self.groups.len() == MOST {
            self.more = self.more.saturating_add(seen.count);
            return;
        }
        let changes = seen.suggest.map(|suggest| {
            let mut changes = vec![suggest.first];
            changes.extend(suggest.also);
            changes
        });
        self.places.insert(place.clone(), self.groups.len());
        self.groups.push(Group {
            count: seen.count,
            kind: seen.kind.into_owned(),
            code: place.0,
            op: place.1,
            target,
            rule: seen.rule,
            reason: seen.reason.or(seen.range).map(Cow::into_owned),
            changes: changes.unwrap_or_default(),
            exe: process.and_then(|process| process.exe.clone()),
            predicted: seen.predicted,
        });
    }
}
