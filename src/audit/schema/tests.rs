//! Promises of the words about events: the documents hold them all as they are.

use std::path::{Path, PathBuf};

use super::*;

/// What stands in `docs/events.md` before the table that is made.
const START: &str = "<!-- made by `make docs`; change src/audit/code.rs instead -->\n\n";
/// What stands there after it.
const END: &str = "\n<!-- end of what is made -->";

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs")
        .join(name)
}

#[allow(
    clippy::disallowed_methods,
    reason = "a test has no Host to read this from"
)]
fn writes() -> bool {
    std::env::var_os("SRT_WRITE_DOCS").is_some()
}

#[test]
fn the_document_lists_every_code_as_the_table_does() {
    let file = document("events.md");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let (before, rest) = text.split_once(START).expect("the first mark is there");
    let (listed, after) = rest.split_once(END).expect("the last mark is there");
    if writes() {
        let text = [before, START, &codes(), END, after].concat();
        return std::fs::write(&file, text).expect("the checkout is writable");
    }
    let is_new = listed == codes();
    assert!(is_new, "docs/events.md is out of date: run `make docs`");
}

#[test]
fn the_schema_in_the_documents_is_the_one_that_is_made() {
    let file = document("events.schema.json");
    let text = format!("{:#}\n", json_schema());
    if writes() {
        return std::fs::write(&file, text).expect("the checkout is writable");
    }
    let is_new = std::fs::read_to_string(&file).is_ok_and(|found| found == text);
    assert!(
        is_new,
        "docs/events.schema.json is out of date: run `make docs`"
    );
}

#[test]
fn every_code_belongs_to_a_kind() {
    let kinds: Vec<_> = Kind::ALL.iter().map(|kind| json!(kind)).collect();
    for code in Code::ALL {
        let kind = code
            .name()
            .split('.')
            .next()
            .expect("there is a first part");
        assert!(kinds.contains(&json!(kind)), "{}", code.name());
    }
}
