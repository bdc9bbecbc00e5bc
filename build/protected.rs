//! The table of protected names.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use serde::Deserialize;

use super::Result;

/// `data/protected.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Protected {
    anywhere: Vec<Group>,
    below: Vec<Group>,
    git: Vec<Group>,
    unsearched: Vec<Group>,
}

/// Names that have one reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    names: Vec<String>,
    reason: String,
}

/// Reads the file and returns the tables as items.
pub(super) fn tables(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file)?;
    let protected: Protected = serde_json::from_str(&text)?;
    let mut seen = HashSet::new();
    let mut tables = String::new();
    let relative: fn(&str) -> bool = |name| !name.starts_with(['/', '~']);
    for (table, groups, fits) in [
        ("ANYWHERE", &protected.anywhere, relative),
        ("BELOW", &protected.below, |name| {
            name.starts_with('/') || name.starts_with("~/")
        }),
        ("GIT", &protected.git, |name| name.starts_with(".git")),
        ("UNSEARCHED", &protected.unsearched, relative),
    ] {
        writeln!(tables, "pub(super) const {table}: &[Name] = &[")?;
        for Group { names, reason } in groups {
            for name in names {
                if reason.is_empty() || !fits(name) || !name.is_ascii() || !seen.insert(name) {
                    return Err(format!("protected: {name} in {table} is out of place").into());
                }
                writeln!(tables, "Name {{ text: {name:?}, reason: {reason:?} }},")?;
            }
        }
        tables.push_str("];\n");
    }
    // What was found by other tables is looked for again.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    writeln!(
        tables,
        "pub(super) const VERSION: u64 = {};",
        hasher.finish()
    )?;
    Ok(tables)
}
