//! docs/compatibility.md says of every settings key what this version makes of it.

use std::collections::BTreeMap;
use std::fs;

use sandbox_runtime::settings::schema::{self, Key, Shape, Support};

const DOCUMENT: &str = "docs/compatibility.md";

#[test]
fn every_settings_key_is_described_as_it_is() {
    let rows = rows();
    let mut wrong = Vec::new();
    for key in schema::keys().filter(|key| is_described(key)) {
        let said = rows.get(key.path).map(String::as_str);
        let expected = support(key);
        if said != Some(expected) {
            wrong.push(format!("`{}` | {expected}, not {said:?}", key.path));
        }
    }
    assert!(wrong.is_empty(), "{DOCUMENT}:\n{}", wrong.join("\n"));
    let known = |path: &str| schema::keys().any(|key| key.path == path);
    let unknown: Vec<_> = rows.keys().filter(|path| !known(path)).collect();
    assert!(unknown.is_empty(), "{DOCUMENT}: no such keys: {unknown:?}");
}

/// Tells whether a key has a row: sections have none, and nothing inside an object that is
/// taken or refused as a whole.
fn is_described(key: &Key) -> bool {
    let asked = schema::keys().filter(|above| matches!(above.shape, Shape::Asked));
    let is_inside = |above: &Key| {
        let rest = key.path.strip_prefix(above.path);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let is_part = key.path.contains("[]") || asked.into_iter().any(is_inside);
    !is_part && key.shape != Shape::Section
}

/// Returns the words that the document has for what this version makes of a key.
fn support(key: &Key) -> &'static str {
    match (key.shape, key.support) {
        (Shape::Never(_), _) => "never",
        (_, Support::Full) => "acts",
        (_, Support::Ignored(_)) => "no effect",
        (_, Support::Unbuilt) => "default only",
        (_, Support::Pending(_)) => "default only, not in force",
        (_, Support::Missing(_)) => "not in force",
    }
}

/// Reads the rows of the tables of keys: a key, and what stands before the colon beside it.
fn rows() -> BTreeMap<String, String> {
    let text = fs::read_to_string(DOCUMENT).expect("the document is there");
    let tables = text.split("| key | here |\n|---|---|\n").skip(1);
    let lines = tables.flat_map(|table| table.lines().take_while(|line| line.starts_with('|')));
    let mut rows = BTreeMap::new();
    for line in lines {
        let (keys, here) = line.trim_matches('|').split_once(" | ").expect("two cells");
        let here = here.split(':').next().unwrap_or(here).trim();
        for key in keys.split('`').skip(1).step_by(2) {
            let before = rows.insert(key.to_owned(), here.to_owned());
            assert!(before.is_none(), "{DOCUMENT}: `{key}` stands twice");
        }
    }
    assert!(!rows.is_empty(), "{DOCUMENT} has no table of keys");
    rows
}
