//! What is said at the end of a run in which something was denied.

use std::fmt::Write;
use std::path::Path;

use clap::ValueEnum;

use crate::audit::event::Code;
use crate::audit::{Denials, FoundChange, Group};
use crate::error::printable;
use crate::policy::message::Facts;
use crate::settings::{schema, shown};

/// How it is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// As lines for people.
    #[default]
    Text,
    /// As a table, for what shows Markdown.
    Markdown,
    /// As annotations and a step summary of GitHub Actions.
    Github,
    /// Not at all.
    None,
}

/// Most that a summary shows.
const MOST: usize = 20;

/// Puts denials into lines, each with what would allow it.
pub(super) fn text(denials: &Denials) -> String {
    let said = match denials.groups().len() as u64 + denials.more {
        1 => "srt: this was denied:\n".to_owned(),
        count => format!("srt: {count} things were denied:\n"),
    };
    let shown = Denials::of(denials.groups().iter().take(MOST).cloned().collect(), 0);
    let hidden = denials.groups().len().saturating_sub(MOST) as u64 + denials.more;
    let more = match hidden {
        0 => String::new(),
        hidden => format!("  and {hidden} more: srt ctl explain --last\n"),
    };
    said + &lines(&shown) + &more
}

/// Puts each denial into a line, and what would allow it into another.
pub(super) fn lines(denials: &Denials) -> String {
    let mut said = String::new();
    for group in denials.groups() {
        let told = format!("{}: {}", act(group), cause(group));
        _ = writeln!(said, "  {}", printable(&told));
        let remedy = match discloses(group) {
            true => Some("srt ctl allow --last lists that address".to_owned()),
            false => remedy(&group.changes),
        };
        if let Some(remedy) = remedy {
            _ = writeln!(said, "    to allow it: {}", printable(&remedy));
        }
    }
    if denials.more > 0 {
        _ = writeln!(said, "  and {} more", denials.more);
    }
    said
}

/// Puts denials into a table.
pub(super) fn markdown(denials: &Denials) -> String {
    let mut said =
        "### Denied by srt\n\n| what | times | why | to allow it |\n|---|---|---|---|\n".to_owned();
    for group in denials.groups() {
        let what = format!("{} {}", group.op, group.target);
        let remedy = remedy(&group.changes).filter(|_| !discloses(group));
        let remedy = remedy.unwrap_or_default();
        let cells = [what, group.count.to_string(), cause(group), remedy];
        _ = writeln!(said, "| {} |", cells.map(|cell| cell_of(&cell)).join(" | "));
    }
    if denials.more > 0 {
        _ = writeln!(said, "\nand {} more", denials.more);
    }
    said
}

/// Puts denials into workflow commands: `::error` where they made the step fail.
pub(super) fn annotations(denials: &Denials, has_failed: bool) -> String {
    let level = if has_failed { "error" } else { "notice" };
    let mut said = String::new();
    for group in denials.groups().iter().take(MOST) {
        let remedy = remedy(&group.changes).filter(|_| !discloses(group));
        let remedy = remedy.map(|remedy| format!("; to allow it: {remedy}"));
        let text = format!(
            "{}: {}{}",
            act(group),
            cause(group),
            remedy.unwrap_or_default()
        );
        let title = format!("srt denied {}", group.code);
        _ = writeln!(
            said,
            "::{level} title={}::{}",
            property(&title),
            data(&printable(&text))
        );
    }
    said
}

/// Tells whether what would allow it names the address that a name led to: where the output of
/// the command goes, it is not to be learnt.
fn discloses(group: &Group) -> bool {
    group.code == Code::AddressDenied.name() && group.rule.is_none()
}

/// Returns what was attempted, how often and by whom: `connect a.test:443, 3 times (curl)`.
fn act(group: &Group) -> String {
    let times = match group.count {
        1 => String::new(),
        count => format!(", {count} times"),
    };
    let program = group.exe.as_deref().and_then(|exe| exe.rsplit('/').next());
    let program = program.map(|name| format!(" ({name})"));
    format!(
        "{} {}{times}{}",
        group.op,
        group.target,
        program.unwrap_or_default()
    )
}

/// Returns why, in the words that the client got too.
pub(super) fn cause(group: &Group) -> String {
    let Some(code) = Code::named(&group.code) else {
        return group.code.clone();
    };
    let rule = group.rule.as_ref();
    let facts = Facts {
        code,
        target: &group.target,
        rule: rule.map(|rule| (&*rule.key, &*rule.entry)),
        reason: group.reason.as_deref(),
    };
    let place = rule.and_then(|rule| Some(format!(" ({}:{})", rule.file.as_ref()?, rule.line)));
    facts.cause() + &place.unwrap_or_default()
}

/// Returns what allows it: a flag for one run where one change is enough, else the changes.
pub(super) fn remedy(changes: &[FoundChange]) -> Option<String> {
    let steps: Vec<_> = changes.iter().map(step).collect();
    let flag = match changes {
        [
            FoundChange {
                key,
                add: Some(entry),
                literal: false,
                ..
            },
        ] => flag_of(key).map(|flag| format!("{flag} {}, or ", word(entry))),
        _ => None,
    };
    (!steps.is_empty()).then(|| flag.unwrap_or_default() + &steps.join("; then "))
}

/// Returns one change in words.
pub(super) fn step(change: &FoundChange) -> String {
    match change {
        FoundChange {
            key,
            add: Some(entry),
            literal: true,
            ..
        } => {
            let path = serde_json::Value::from(entry.as_str());
            format!("add {{ \"path\": {path}, \"literal\": true }} to {key}")
        }
        FoundChange {
            key,
            add: Some(entry),
            ..
        } => format!("add `{entry}` to {key}"),
        FoundChange { key, remove, .. } => {
            format!(
                "remove `{}` from {key}",
                remove.as_deref().unwrap_or_default()
            )
        }
    }
}

/// Returns the flag that adds to a key for one run.
pub(super) fn flag_of(key: &str) -> Option<&'static str> {
    schema::keys().find(|other| other.path == key)?.flag
}

/// Writes a word as a shell takes it.
pub(super) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,@%+=".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", shown(Path::new(text)).replace('\'', r"'\''")),
    }
}

/// Keeps a text within its cell.
fn cell_of(text: &str) -> String {
    let escaped = |c: char| {
        matches!(
            c,
            '|' | '\\' | '<' | '>' | '*' | '_' | '[' | ']' | '#' | '`'
        )
    };
    let mut cell = String::new();
    for c in printable(text).chars() {
        if escaped(c) {
            cell.push('\\');
        }
        cell.push(c);
    }
    cell
}

/// Escapes the text of a workflow command.
fn data(text: &str) -> String {
    let text = text.replace('%', "%25");
    text.replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a property of a workflow command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}
