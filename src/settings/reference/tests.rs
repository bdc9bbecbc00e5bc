//! Promises of the words about keys: `docs/settings.md` holds them all as they are.

use std::path::Path;

use super::*;

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "a test has no Host to read this from"
)]
fn the_document_lists_every_key_as_the_table_does() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/settings.md");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let (before, rest) = text.split_once(START).expect("the first mark is there");
    let (listed, after) = rest.split_once(END).expect("the last mark is there");
    if std::env::var_os("SRT_WRITE_DOCS").is_some() {
        let text = [before, START, &markdown(), END, after].concat();
        return std::fs::write(&file, text).expect("the checkout is writable");
    }
    let is_new = listed == markdown();
    assert!(is_new, "docs/settings.md is out of date: run `make docs`");
}

#[test]
fn every_key_but_sections_stands_in_one_row() {
    let text = markdown();
    for key in schema::keys() {
        let rows = text.matches(&format!("\n| `{}` |", key.path)).count();
        let titles = text.matches(&format!("### {}\n", key.path)).count();
        let is_title = key.shape == Shape::Section && key.section().is_empty();
        let expected = if is_title { (0, 1) } else { (1, 0) };
        assert_eq!((rows, titles), expected, "{}", key.path);
    }
}

#[test]
fn every_row_has_five_cells() {
    let text = markdown();
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 100, "{}", rows.len());
    for row in rows {
        assert_eq!(row.matches('|').count(), 6, "{row}");
    }
}
