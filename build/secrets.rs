//! The table of stores of secrets.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::Result;

/// `data/secrets.json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Secrets {
    hidden: Vec<Hidden>,
    redacted: Vec<Redacted>,
}

/// What is hidden, but for the names in `shown`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hidden {
    path: String,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    shown: Vec<String>,
    reason: String,
}

/// A file that is shown without the lines that hold a secret.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Redacted {
    path: String,
    #[serde(default)]
    also: Vec<String>,
    form: Form,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    Lines,
    Json,
    Xml,
}

/// Reads the file and returns the table as an expression.
pub(super) fn table(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file)?;
    let secrets: Secrets = serde_json::from_str(&text)?;
    let mut table = String::from("&[\n");
    for Hidden {
        path,
        also,
        shown,
        reason,
    } in &secrets.hidden
    {
        let places = places(path, also, reason)?;
        writeln!(
            table,
            "Store {{ places: &{places:?}, contents: Contents::Hidden(&{shown:?}), reason: {reason:?} }},"
        )?;
    }
    for Redacted {
        path,
        also,
        form,
        reason,
    } in &secrets.redacted
    {
        let places = places(path, also, reason)?;
        writeln!(
            table,
            "Store {{ places: &{places:?}, contents: Contents::Redacted(Form::{form:?}), reason: {reason:?} }},"
        )?;
    }
    table.push_str("]\n");
    Ok(table)
}

/// Joins the names of one store, each of which says what it is relative to.
fn places<'a>(path: &'a str, also: &'a [String], reason: &str) -> Result<Vec<&'a str>> {
    if reason.is_empty() {
        return Err(format!("secrets: {path} has no reason").into());
    }
    let all: Vec<_> = [path]
        .into_iter()
        .chain(also.iter().map(String::as_str))
        .collect();
    let unclear = |place: &&&str| !place.starts_with(['/', '$']) && !place.starts_with("~/");
    match all.iter().find(unclear) {
        Some(place) => Err(format!("secrets: {place} is relative to nothing").into()),
        None => Ok(all),
    }
}
