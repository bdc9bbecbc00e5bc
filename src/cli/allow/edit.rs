//! Changes lists of a settings file and leaves all else in it as it was written.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};

use similar::{ChangeTag, TextDiff};

use crate::audit::FoundChange;

/// A text with changes made.
#[derive(Debug)]
pub(super) struct Edited {
    /// The new text.
    pub(super) text: String,
    /// What could not be done: an entry to take out that stands in another file.
    pub(super) left: Vec<FoundChange>,
}

/// What a new file begins with.
const EMPTY: &str = "{\n}\n";

/// Makes `changes` in a text that was read as settings. Entries that are there already stay
/// as they are. New ones stand in their place of the alphabet where the list is sorted, at its
/// end otherwise, behind each `note` as a comment.
pub(super) fn edit(text: &str, changes: &[FoundChange], note: Option<&str>) -> Edited {
    let mut text = if text.is_empty() { EMPTY } else { text }.to_owned();
    let mut left = Vec::new();
    for change in changes {
        match made(&text, change) {
            Some(changed) => {
                let entry = change.add.as_deref().filter(|_| changed != text);
                text = match entry.zip(note) {
                    Some((entry, note)) => noted(&text, &changed, entry, note),
                    None => changed,
                };
            }
            None => left.push(change.clone()),
        }
    }
    Edited { text, left }
}

/// Makes one change; `None` where it cannot be made in this file.
fn made(text: &str, change: &FoundChange) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let object = root.object_value()?;
    match (&change.add, &change.remove) {
        (Some(entry), _) => add(&list(&object, &change.key)?, entry, change.literal),
        (None, Some(entry)) => remove(&object, &change.key, entry)?,
        (None, None) => return None,
    }
    Some(root.to_string())
}

/// Returns the list at a dotted key, made where it is missing.
fn list(root: &CstObject, key: &str) -> Option<CstArray> {
    let (sections, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut object = root.clone();
    for section in sections.split('.').filter(|section| !section.is_empty()) {
        object = object.object_value_or_create(section)?;
    }
    object.array_value_or_create(name)
}

/// Adds an entry that is not there.
fn add(list: &CstArray, entry: &str, literal: bool) {
    let elements = list.elements();
    let texts: Vec<_> = elements.iter().map(text_of).collect();
    let is_there = match literal {
        true => elements.iter().any(|element| is_literal(element, entry)),
        false => texts.iter().flatten().any(|text| text == entry),
    };
    if is_there {
        return;
    }
    let is_sorted = texts.iter().all(Option::is_some) && texts.is_sorted();
    let before = |text: &Option<String>| text.as_deref().is_some_and(|text| text < entry);
    let place = match is_sorted {
        true => texts.partition_point(before),
        false => texts.len(),
    };
    list.ensure_multiline();
    list.insert(place, written(entry, literal));
}

/// Tells whether an element is the path `entry`, meant literally.
fn is_literal(element: &CstNode, entry: &str) -> bool {
    let Some(object) = element.as_object() else {
        return false;
    };
    let value = |name| object.get(name)?.value();
    let path = value("path").and_then(|path| text_of(&path));
    let literal = value("literal").and_then(|literal| literal.as_boolean_lit());
    path.as_deref() == Some(entry) && literal.is_some_and(|literal| literal.value())
}

fn written(entry: &str, literal: bool) -> CstInputValue {
    let text = CstInputValue::String(escaped(entry));
    match literal {
        true => CstInputValue::Object(vec![
            ("path".to_owned(), text),
            ("literal".to_owned(), CstInputValue::Bool(true)),
        ]),
        false => text,
    }
}

/// Escapes all but the quotes, which jsonc-parser does and nothing else.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    inner.unwrap_or_default().replace("\\\"", "\"")
}

fn remove(root: &CstObject, key: &str, entry: &str) -> Option<()> {
    let (sections, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut sections = sections.split('.').filter(|section| !section.is_empty());
    let object = sections.try_fold(root.clone(), |object, section| object.object_value(section));
    let list = object.and_then(|object| object.array_value(name));
    let elements = list.map(|list| list.elements()).unwrap_or_default();
    let found = elements
        .into_iter()
        .find(|element| text_of(element).as_deref() == Some(entry));
    found.map(CstNode::remove)
}

/// Returns what a string among the elements stands for; an object has none.
fn text_of(element: &CstNode) -> Option<String> {
    element.as_string_lit()?.decoded_value().ok()
}

/// Puts a comment behind the entry that is new, where it has a line of its own.
fn noted(old: &str, new: &str, entry: &str, note: &str) -> String {
    let literal = serde_json::Value::from(entry).to_string();
    let mut noted = String::new();
    for change in TextDiff::from_lines(old, new).iter_all_changes() {
        if change.tag() == ChangeTag::Delete {
            continue;
        }
        let line = change.value();
        let plain = line.trim_end();
        let is_new = change.tag() == ChangeTag::Insert;
        match is_new && plain.trim_start().trim_end_matches(',') == literal {
            true => noted += &format!("{plain} // {note}\n"),
            false => noted += line,
        }
    }
    noted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adding(key: &str, entry: &str) -> FoundChange {
        FoundChange {
            key: key.to_owned(),
            add: Some(entry.to_owned()),
            literal: false,
            remove: None,
        }
    }

    fn removing(key: &str, entry: &str) -> FoundChange {
        FoundChange {
            key: key.to_owned(),
            add: None,
            literal: false,
            remove: Some(entry.to_owned()),
        }
    }

    #[test]
    fn an_entry_takes_its_place_and_the_rest_stays() {
        let old = r#"// mine
{
  "network": {
    "allowedDomains": [
      "a.test", // the first
      "c.test",
    ], // hosts
  },
}
"#;
        let edited = edit(old, &[adding("network.allowedDomains", "b.test")], None);
        assert_eq!(
            edited.text,
            old.replace("      \"c.test\",", "      \"b.test\",\n      \"c.test\",")
        );
        assert!(edited.left.is_empty());
    }

    #[test]
    fn a_list_that_is_missing_is_made() {
        for old in ["", "{}", "{ \"git\": {} }\n"] {
            let changes = [
                adding("filesystem.allowWrite", "/a b"),
                adding("filesystem.allowWrite", "/c"),
            ];
            let edited = edit(old, &changes, Some("note"));
            let lines = "\"/a b\", // note\n";
            assert!(edited.text.contains(lines), "{}", edited.text);
            assert!(edited.text.contains("\"/c\" // note\n"), "{}", edited.text);
        }
    }

    #[test]
    fn what_is_there_is_not_added_and_what_is_elsewhere_not_taken_out() {
        let old = "{ \"network\": { \"deniedDomains\": [\"x.test\", \"y.test\"] } }";
        let changes = [
            removing("network.deniedDomains", "x.test"),
            removing("network.deniedDomains", "z.test"),
            adding("network.deniedDomains", "y.test"),
        ];
        let edited = edit(old, &changes, None);
        assert_eq!(
            edited.text,
            "{ \"network\": { \"deniedDomains\": [ \"y.test\"] } }"
        );
        assert_eq!(edited.left, [changes[1].clone()]);
    }

    #[test]
    fn a_list_that_is_none_is_left() {
        let old = "{ \"network\": 3 }";
        let change = adding("network.allowedDomains", "a.test");
        let edited = edit(old, std::slice::from_ref(&change), None);
        assert_eq!(edited.text, old);
        assert_eq!(edited.left, [change]);
    }
}
