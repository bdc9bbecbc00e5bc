//! How a pattern is written: `*`, `?` and `[…]` within a name, `**` for any directories, `{a,b}`
//! for alternatives.

use std::ffi::OsStr;
use std::path::Path;

use glob::Pattern;

use crate::policy::path::{finds_any_case, folded};

/// A pattern as the steps from where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob(pub(super) Vec<Step>);

/// One step of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// This name.
    Name(String),
    /// The names that fit.
    Fitting(Names),
    /// Any number of directories.
    Directories,
}

/// A pattern of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    written: Pattern,
    /// As directories compare that find a name in any case.
    folded: Pattern,
}

/// Most patterns that the alternatives of one entry come to.
const MAX_ALTERNATIVES: usize = 1_000;

impl Glob {
    /// Parses a pattern without alternatives, relative to where it starts.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains('\\') {
            return Err("holds a backslash, which quotes nothing here");
        }
        Self::of_steps(text)
    }

    fn of_steps(text: &str) -> Result<Self, &'static str> {
        let mut steps = Vec::new();
        for name in text.split('/').filter(|name| !matches!(*name, "" | ".")) {
            steps.push(match name {
                ".." => return Err("holds `..` beside pattern characters"),
                "**" => Step::Directories,
                _ if name.contains("**") => return Err("`**` stands for whole names alone"),
                _ if !name.contains(['*', '?', '[', ']']) => Step::Name(name.to_owned()),
                _ => Step::Fitting(Names::parse(name)?),
            });
        }
        // All that is in a directory is the directory.
        while steps.last() == Some(&Step::Directories) {
            steps.pop();
        }
        steps.dedup_by(|one, other| *one == Step::Directories && one == other);
        Ok(Self(steps))
    }
}

impl Names {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        check_sets(text)?;
        let pattern = |text: &str| Pattern::new(text).map_err(|error| error.msg);
        let folded = folded(text.as_bytes()).unwrap_or_default();
        Ok(Self {
            written: pattern(text)?,
            folded: pattern(&folded)?,
        })
    }

    /// Tells whether a name of a directory fits. Bytes that are no text count as one character
    /// each run.
    pub(super) fn fit(&self, dir: &Path, name: &OsStr) -> bool {
        let text = name.to_string_lossy();
        self.written.matches(&text)
            || self.fit_in_any_case(&text) && finds_any_case(dir, name) == Some(true)
    }

    pub(super) fn fit_in_any_case(&self, name: &str) -> bool {
        folded(name.as_bytes()).is_some_and(|name| self.folded.matches(&name))
    }
}

/// Replaces every `{a,b}` by each of its alternatives.
///
/// # Errors
/// What is wrong with them, as the end of a sentence.
pub(super) fn alternatives(text: &str) -> Result<Vec<String>, &'static str> {
    let Some(open) = text.find(['{', '}']) else {
        return Ok(vec![text.to_owned()]);
    };
    let (before, group) = text.split_at(open);
    let close = closing(group).ok_or("has a brace without its other")?;
    let (inner, after) = (&group[1..close], &group[close + 1..]);
    let parts = parts(inner);
    if parts.len() < 2 {
        return Err("has braces around no alternatives: write `{a,b}`");
    }
    let mut all = Vec::new();
    for part in parts {
        for rest in alternatives(&format!("{part}{after}"))? {
            all.push(format!("{before}{rest}"));
            if all.len() > MAX_ALTERNATIVES {
                return Err("has too many alternatives");
            }
        }
    }
    Ok(all)
}

/// Finds the brace that closes the one that `text` starts with.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Splits at the commas outside inner braces.
fn parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Refuses sets that match nothing, which would deny nothing.
fn check_sets(name: &str) -> Result<(), &'static str> {
    let mut rest = name;
    while let Some(open) = rest.find(['[', ']']) {
        let inside = rest[open..]
            .strip_prefix('[')
            .ok_or("has a bracket without its other")?;
        if inside.starts_with('^') {
            return Err("has a set that starts with `^`: write `[!…]`");
        }
        let inside = inside.strip_prefix('!').unwrap_or(inside);
        let close = inside.find(']').ok_or("has a bracket without its other")?;
        let (set, after) = inside.split_at(close);
        if set.is_empty() {
            return Err("has an empty set");
        }
        let characters: Vec<char> = set.chars().collect();
        let backwards = |range: &[char]| range[1] == '-' && range[0] > range[2];
        if characters.windows(3).any(backwards) {
            return Err("has a set that runs backwards");
        }
        if set.contains('[') {
            return Err("has a bracket inside a set");
        }
        rest = &after[1..];
    }
    Ok(())
}
