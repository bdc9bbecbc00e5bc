//! A verdict as text and as JSON.

use std::path::Path;

use serde_json::{Value, json};

use super::verdict::{Answer, Rule, Verdict};
use crate::cli::summary::{flag_of, word};
use crate::policy::change::Change;
use crate::settings::{Layer, Origin, shown};

/// Puts a verdict into lines, the first of which says what is decided.
pub(super) fn text(verdict: &Verdict) -> String {
    let word = verdict.answer.word();
    let mut lines = vec![format!("{word}: {} {}", verdict.act.word(), verdict.target)];
    lines.extend(
        verdict
            .rule
            .as_ref()
            .map(|rule| format!("by {}", ruled(rule))),
    );
    lines.extend(verdict.reason.clone());
    let turned = match verdict.answer {
        Answer::Allowed => "to deny it",
        Answer::Denied => "to allow it",
    };
    lines.push(match changes(&verdict.changes) {
        Some(changes) => format!("{turned}: {changes}"),
        None => format!("{turned}: no entry does"),
    });
    lines.extend(verdict.notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n  ") + "\n"
}

/// Puts a verdict into one object.
pub(super) fn json(verdict: &Verdict) -> Value {
    let changes: Vec<_> = verdict.changes.iter().map(change_json).collect();
    json!({
        "v": 1,
        "kind": verdict.kind.word(),
        "act": verdict.act.word(),
        "target": verdict.target,
        "verdict": verdict.answer.word(),
        "rule": verdict.rule.as_ref().map(|rule| rule_json(&rule.entry, &rule.origin)),
        "reason": verdict.reason,
        "changes": changes,
        "notes": verdict.notes,
    })
}

fn ruled(rule: &Rule) -> String {
    let entry = shown(Path::new(&rule.entry));
    let Rule { origin, .. } = rule;
    match origin.layer {
        Layer::Flags => format!("{} `{entry}` ({origin})", origin.name()),
        _ => format!("{} `{entry}` ({origin})", origin.key),
    }
}

fn changes(changes: &[Change]) -> Option<String> {
    let steps: Vec<_> = changes.iter().map(Change::to_string).collect();
    let flag = match changes {
        [
            Change::Add {
                key,
                entry,
                literal: false,
            },
        ] => flag_of(key).map(|flag| format!(", or for one run {flag} {}", word(entry))),
        _ => None,
    };
    (!steps.is_empty()).then(|| steps.join("; then ") + &flag.unwrap_or_default())
}

fn rule_json(entry: &str, origin: &Origin) -> Value {
    let place = |number: u32| origin.file.as_ref().map(|_| number);
    json!({
        "key": origin.key,
        "entry": entry,
        "layer": origin.layer.name(),
        "file": origin.file.as_deref().map(|file| file.to_string_lossy()),
        "line": place(origin.line),
        "column": place(origin.column),
    })
}

fn change_json(change: &Change) -> Value {
    match change {
        Change::Add {
            key,
            entry,
            literal,
        } => json!({ "action": "add", "key": key, "entry": entry, "literal": literal }),
        Change::Remove { entry, origin } => {
            let mut value = rule_json(entry, origin);
            if let Value::Object(map) = &mut value {
                map.insert("action".to_owned(), json!("remove"));
            }
            value
        }
    }
}
