//! The table of what every program may read.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::Result;

/// `data/base.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base {
    shown: Vec<Shown>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shown {
    path: String,
    #[serde(default)]
    also: Vec<String>,
    reason: String,
}

/// Reads the file and returns its places as an expression.
pub(super) fn table(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file)?;
    let base: Base = serde_json::from_str(&text)?;
    let mut table = String::from("&[\n");
    for Shown { path, also, reason } in &base.shown {
        if reason.is_empty() {
            return Err(format!("base: {path} has no reason").into());
        }
        for place in [path].into_iter().chain(also) {
            if !place.starts_with('/') || place == "/" {
                return Err(format!("base: {place} is no absolute path below /").into());
            }
            writeln!(table, "{place:?},")?;
        }
    }
    table.push_str("]\n");
    Ok(table)
}
