//! Names of variables and patterns of names, as settings and flags give them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::error::Result;
use crate::policy::path::entry_error;
use crate::settings::Entry;

/// The entry of `env.deny` that stands for the names that usually hold a secret.
pub const SECRETS: &str = "@secrets";

/// Checks an entry of `env.allow`: a name, or a pattern in which `*` stands for anything.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn check_name_pattern(text: &str) -> std::result::Result<(), &'static str> {
    if text.starts_with('@') {
        return Err("the preset `@secrets` stands in `env.deny` alone, and there is no other");
    }
    check_bytes(text)
}

/// Checks an entry of `env.deny`: as [`check_name_pattern`], or `@secrets`.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn check_deny_entry(text: &str) -> std::result::Result<(), &'static str> {
    match text {
        SECRETS => Ok(()),
        _ if text.starts_with('@') => Err("the only preset is `@secrets`"),
        _ => check_bytes(text),
    }
}

/// Checks the name of a variable that is set.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn check_name(text: &str) -> std::result::Result<(), &'static str> {
    if text.contains('*') {
        return Err("a variable that is set has a name, not a pattern");
    }
    check_bytes(text)
}

/// Checks the value of a variable that is set.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn check_value(text: &str) -> std::result::Result<(), &'static str> {
    match text.contains('\0') {
        true => Err("a value cannot hold a NUL character"),
        false => Ok(()),
    }
}

fn check_bytes(text: &str) -> std::result::Result<(), &'static str> {
    if text.is_empty() {
        return Err("a variable has a name");
    }
    if text.contains('=') {
        return Err("a name cannot hold `=`: values are not compared");
    }
    if text.contains('\0') {
        return Err("a name cannot hold a NUL character");
    }
    Ok(())
}

/// Tells whether `*`, for any number of bytes, makes `pattern` the name.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Behind the last `*`, and the end of what it stands for so far. An earlier one never
    // needs another try: the shortest text for it leaves most to the others.
    let mut star = None;
    while n < name.len() {
        match (pattern.get(p), star) {
            (Some(b'*'), _) => {
                p += 1;
                star = Some((p, n));
            }
            (Some(byte), _) if *byte == name[n] => {
                p += 1;
                n += 1;
            }
            (_, Some((after, end))) => {
                p = after;
                n = end + 1;
                star = Some((after, n));
            }
            (_, None) => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Entries of one list. Names are looked up, only patterns are tried one by one.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    names: HashMap<Vec<u8>, Entry>,
    patterns: Vec<Entry>,
}

impl Patterns {
    /// Takes the entries that `check` lets pass.
    pub(super) fn parse(
        entries: &[Entry],
        check: impl Fn(&str) -> std::result::Result<(), &'static str>,
    ) -> Result<Self> {
        let mut parsed = Self::default();
        for entry in entries {
            check(&entry.text).map_err(|what| entry_error(entry, what))?;
            if entry.text.contains('*') {
                parsed.patterns.push(entry.clone());
            } else {
                let name = entry.text.clone().into_bytes();
                parsed.names.entry(name).or_insert_with(|| entry.clone());
            }
        }
        Ok(parsed)
    }

    /// Returns the entry that covers `name`.
    pub(super) fn find(&self, name: &OsStr) -> Option<&Entry> {
        let name = name.as_bytes();
        self.names.get(name).or_else(|| {
            let mut patterns = self.patterns.iter();
            patterns.find(|entry| matches(entry.text.as_bytes(), name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_bytes_anywhere() {
        for (pattern, name) in [
            ("A", "A"),
            ("*", ""),
            ("*", "A\u{ff}"),
            ("A*", "A"),
            ("A*C", "ABBC"),
            ("*_TOKEN", "_TOKEN"),
            ("*A*B*", "xxAxABxx"),
            ("**", "A"),
            ("*AB", "AAB"),
        ] {
            assert!(
                matches(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
        for (pattern, name) in [
            ("A", "a"),
            ("A", "AB"),
            ("A", ""),
            ("A*C", "ABCD"),
            ("*_TOKEN", "TOKEN"),
            ("A?", "AB"),
            ("[A]", "A"),
        ] {
            assert!(
                !matches(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_more_than_their_product() {
        let pattern = "*a".repeat(2_000) + "b";
        let start = std::time::Instant::now();
        assert!(!matches(pattern.as_bytes(), "a".repeat(100_000).as_bytes()));
        assert!(start.elapsed().as_secs() < 20);
    }

    #[test]
    fn entries_that_can_match_nothing_are_refused() {
        for text in ["", "A=B", "=", "A\0"] {
            assert!(check_name_pattern(text).is_err(), "{text:?}");
            assert!(check_deny_entry(text).is_err(), "{text:?}");
            assert!(check_name(text).is_err(), "{text:?}");
        }
        assert!(check_name_pattern("@secrets").is_err());
        assert!(check_deny_entry("@secret").is_err());
        assert!(check_name("A*").is_err());
        assert!(check_value("a\0b").is_err());
        for text in ["A", "A*", "*", "BASH_FUNC_x%%", "é", " "] {
            assert_eq!(check_name_pattern(text), Ok(()), "{text}");
            assert_eq!(check_deny_entry(text), Ok(()), "{text}");
        }
        assert_eq!(check_deny_entry(SECRETS), Ok(()));
        assert_eq!(check_name("A"), Ok(()));
        assert_eq!(check_value("a=b\n"), Ok(()));
    }
}
