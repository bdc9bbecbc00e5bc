//! The differences found, held against the table in docs/compatibility.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::draw::say;

const DOCUMENT: &str = "docs/compatibility.md";
const HEADING: &str = "## Every difference in verdicts";

/// What each comparison calls its classes: the word before the first `-`.
const KINDS: [&str; 5] = ["entry", "request", "address", "path", "start"];

/// What a class of differences does, against the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Takes or allows what the reference does not.
    Opens,
    /// Refuses or denies what the reference does not.
    Closes,
    /// One here, the other there.
    Either,
}

/// One class that was found.
#[derive(Debug)]
struct Found {
    way: Way,
    example: String,
}

/// One comparison.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    of: &'static str,
    pairs: usize,
    denied: usize,
    found: BTreeMap<&'static str, Found>,
    unexplained: Vec<String>,
}

impl Ledger {
    /// Opens one for the comparison of these things.
    pub(crate) fn new(of: &'static str) -> Self {
        Self {
            of,
            ..Self::default()
        }
    }

    /// Counts a pair that both programs judged, by what the reference said.
    pub(crate) fn count(&mut self, allowed: bool) {
        self.pairs += 1;
        self.denied += usize::from(!allowed);
    }

    /// Notes a difference, with the class that explains it where one does.
    pub(crate) fn differs(&mut self, class: Option<&'static str>, way: Way, example: String) {
        let Some(class) = class else {
            return self.unexplained.push(example);
        };
        let found = self.found.entry(class).or_insert(Found { way, example });
        if found.way != way {
            found.way = Way::Either;
        }
    }

    /// Expects pairs enough, that many of them are denied and many not, that every difference is
    /// listed, and that every listed one of these `kinds` was found.
    #[track_caller]
    pub(crate) fn settle(self, kinds: &[&str]) {
        let percent = self.denied * 100 / self.pairs.max(1);
        for (class, found) in &self.found {
            say(&format!("difference {class}: {}", found.example));
        }
        say(&format!(
            "compared {}: {} pairs, {percent} % denied, {} kinds of differences",
            self.of,
            self.pairs,
            self.found.len()
        ));
        let shown = &self.unexplained[..self.unexplained.len().min(20)];
        assert!(
            self.unexplained.is_empty(),
            "no class fits:\n{}",
            shown.join("\n")
        );

        let listed = listed();
        let expected: BTreeSet<&str> = listed
            .keys()
            .map(String::as_str)
            .filter(|class| kinds.contains(&kind(class)))
            .collect();
        let found: BTreeSet<&str> = self.found.keys().copied().collect();
        let unlisted: Vec<_> = found.difference(&expected).collect();
        assert!(unlisted.is_empty(), "not in {DOCUMENT}: {unlisted:?}");
        let gone: Vec<_> = expected.difference(&found).collect();
        assert!(gone.is_empty(), "only in {DOCUMENT} now: {gone:?}");
        for (class, found) in &self.found {
            let said = listed[*class].way;
            assert_eq!(found.way, said, "{class}: {DOCUMENT} says {said:?}");
        }
        assert!(self.pairs >= 200, "{} pairs are too few", self.pairs);
        assert!((30..=90).contains(&percent), "{percent} % are denied");
    }
}

#[test]
fn every_listed_difference_has_a_kind_and_a_reason() {
    let listed = listed();
    assert!(!listed.is_empty());
    for (class, row) in listed {
        assert!(KINDS.contains(&kind(&class)), "{class}");
        assert!(!row.what.is_empty() && !row.reason.is_empty(), "{class}");
    }
}

fn kind(class: &str) -> &str {
    class.split('-').next().unwrap_or(class)
}

/// One row of the table.
#[derive(Debug)]
struct Row {
    way: Way,
    what: String,
    reason: String,
}

/// Reads the rows of the table: class, way, what differs, why.
fn listed() -> BTreeMap<String, Row> {
    let text = fs::read_to_string(DOCUMENT).expect("the document is there");
    let (_, section) = text.split_once(HEADING).expect("it has that section");
    let section = section.split("\n## ").next().unwrap_or(section);
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let mut found = BTreeMap::new();
    for line in rows {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [class, way, what, reason] = cells[..] else {
            panic!("{DOCUMENT}: a row has four cells: {line}");
        };
        let class = class.trim_matches('`').to_owned();
        let row = Row {
            way: match way {
                "opens" => Way::Opens,
                "closes" => Way::Closes,
                "either" => Way::Either,
                _ => panic!("{DOCUMENT}: opens, closes or either: {line}"),
            },
            what: what.to_owned(),
            reason: reason.to_owned(),
        };
        assert!(found.insert(class, row).is_none(), "twice: {line}");
    }
    found
}

impl Way {
    /// Tells the way of a difference from what this program says.
    pub(crate) fn of(ours: bool) -> Self {
        match ours {
            true => Self::Opens,
            false => Self::Closes,
        }
    }
}
