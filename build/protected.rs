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
        if table == "UNSEARCHED" {
            // Only the documentation is held against it.
            tables.push_str("#[cfg(test)]\n");
        }
        writeln!(tables, "pub(super) static {table}: &[Name] = &[")?;
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
    tables += &by_last(&protected)?;
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

/// Returns what entries of directories are looked up in: the last name of each path, folded as
/// file systems that fold case do, and what stands before.
fn by_last(protected: &Protected) -> Result<String> {
    let names = |groups: &[Group]| -> Vec<String> {
        let names = groups.iter().flat_map(|group| &group.names);
        names.cloned().collect()
    };
    let anywhere = names(&protected.anywhere).into_iter().enumerate();
    let anywhere = anywhere.map(|(at, name)| (name, format!("Protected(&ANYWHERE[{at}])")));
    let unsearched = names(&protected.unsearched).into_iter();
    let unsearched = unsearched.map(|name| (name, "Unsearched".to_owned()));
    let own = [
        (".git", "Git"),
        ("HEAD", "Bare(0b001)"),
        ("objects", "Bare(0b010)"),
        ("refs", "Bare(0b100)"),
    ];
    let own = own.map(|(name, found)| (name.to_owned(), found.to_owned()));
    let mut rows = Vec::new();
    let mut lengths = [0_u64; 256];
    for (name, found) in anywhere.chain(unsearched).chain(own) {
        let (before, last) = name.rsplit_once('/').unwrap_or(("", &name));
        let last = last.to_ascii_lowercase();
        let first = last.bytes().next().ok_or("protected: a name ends in `/`")?;
        lengths[usize::from(first)] |= 1 << (last.len() % 64);
        rows.push((last, format!("({before:?}, Match::{found})")));
    }
    // Those with one last name keep the order of the file.
    rows.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut table = String::from("static BY_LAST: &[(&str, &[(&str, Match)])] = &[\n");
    for rows in rows.chunk_by(|(one, _), (other, _)| one == other) {
        let found: Vec<_> = rows.iter().map(|(_, found)| found.as_str()).collect();
        writeln!(table, "({:?}, &[{}]),", rows[0].0, found.join(", "))?;
    }
    table.push_str("];\n");
    writeln!(table, "static LENGTHS: [u64; 256] = {lengths:?};")?;
    Ok(table)
}
