//! Patterns of paths, replaced by what they match when a run starts.

mod glob;
mod walk;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use self::glob::Glob;
use walk::Closed;

use super::host::Host;
use super::path::{anchored, entry_error, has_pattern};
use crate::error::Result;
use crate::settings::{Entry, Settings};

/// Settings whose lists of paths name paths alone.
#[derive(Debug)]
pub(super) struct Expanded<'a> {
    pub(super) settings: Cow<'a, Settings>,
    /// Patterns that grant nothing, for the user to read.
    pub(super) warnings: Vec<String>,
    /// Patterns that deny nothing.
    pub(super) notes: Vec<String>,
}

/// The lists of paths that take patterns, and what becomes of a directory that cannot be listed.
const LISTS: [(&str, Closed); 4] = [
    ("filesystem.denyRead", Closed::Matches),
    ("filesystem.allowRead", Closed::Passes),
    ("filesystem.allowWrite", Closed::Passes),
    ("filesystem.denyWrite", Closed::Matches),
];

impl<'a> Expanded<'a> {
    /// Replaces every pattern of the four lists, of the system's bounds and of what an
    /// untrusted project narrows to.
    ///
    /// # Errors
    /// A pattern has no meaning, or to match it too many names would have to be looked at.
    pub(super) fn of(settings: &'a Settings, host: &Host) -> Result<Self> {
        let files = &settings.filesystem;
        let own = [
            &files.deny_read,
            &files.allow_read,
            &files.allow_write,
            &files.deny_write,
        ];
        let bounds = [&settings.ceiling, &settings.narrowing];
        let bounds = bounds
            .into_iter()
            .flat_map(|values| LISTS.map(|(key, _)| values.list(key)));
        let mut all = own.into_iter().map(Vec::as_slice).chain(bounds).flatten();
        let mut expanded = Self {
            settings: Cow::Borrowed(settings),
            warnings: Vec::new(),
            notes: Vec::new(),
        };
        if all.any(is_pattern) {
            let mut settings = settings.clone();
            expanded.expand_all(&mut settings, host)?;
            expanded.settings = Cow::Owned(settings);
        }
        Ok(expanded)
    }

    fn expand_all(&mut self, settings: &mut Settings, host: &Host) -> Result<()> {
        let files = &mut settings.filesystem;
        let own = [
            &mut files.deny_read,
            &mut files.allow_read,
            &mut files.allow_write,
            &mut files.deny_write,
        ];
        for (list, (_, closed)) in own.into_iter().zip(LISTS) {
            *list = self.expand(list, closed, host)?;
        }
        for values in [&mut settings.ceiling, &mut settings.narrowing] {
            for (key, closed) in LISTS {
                if let Some(list) = values.list_mut(key) {
                    *list = self.expand(list, closed, host)?;
                }
            }
        }
        Ok(())
    }

    fn expand(&mut self, entries: &[Entry], closed: Closed, host: &Host) -> Result<Vec<Entry>> {
        let mut expanded = Vec::with_capacity(entries.len());
        for entry in entries {
            if !is_pattern(entry) {
                expanded.push(entry.clone());
                continue;
            }
            let found = matches(entry, closed, host)?;
            if found.is_empty() {
                let text = format!("{} `{}` matches nothing", entry.origin.name(), entry.text);
                match closed {
                    Closed::Passes => self.warnings.push(text),
                    Closed::Matches => self.notes.push(format!(
                        "{text}: what appears during the run is not covered"
                    )),
                }
            }
            expanded.extend(found);
        }
        Ok(expanded)
    }
}

/// Tells whether an entry stands for the paths that fit it.
fn is_pattern(entry: &Entry) -> bool {
    !entry.literal && entry.found.is_none() && has_pattern(&entry.text)
}

fn matches(entry: &Entry, closed: Closed, host: &Host) -> Result<Vec<Entry>> {
    let wrong = |what: &str| {
        entry_error(entry, what).with_hint(
            "for a name that holds such a character write { \"path\": …, \"literal\": true }",
        )
    };
    let only_directories = entry.text.ends_with('/');
    let mut found = Vec::new();
    // Names may hold these characters too, as `[id].tsx` does.
    let itself = anchored(entry, host)?;
    if itself.symlink_metadata().is_ok() {
        found.push(itself);
    }
    for text in glob::alternatives(&entry.text).map_err(wrong)? {
        // Each for itself: `{~/a,/b}` starts at two places. What the start is called is no
        // pattern, whatever its characters.
        let (start, rest) = start_of(&text, entry, host)?;
        let glob = Glob::parse(rest).map_err(wrong)?;
        found.extend(walk::find(&start, &glob, closed).map_err(|limit| {
            entry_error(
                entry,
                &format!("would take looking at more than {limit} names"),
            )
            .with_hint("start it with the directory to look in")
        })?);
    }
    found.sort();
    found.dedup();
    if only_directories {
        found.retain(|path| Path::is_dir(path));
    }
    Ok(found.into_iter().map(|path| entry.matching(path)).collect())
}

/// Splits a pattern into the directory it starts at and what is below.
fn start_of<'a>(text: &'a str, entry: &Entry, host: &Host) -> Result<(PathBuf, &'a str)> {
    if let Some(rest) = text.strip_prefix('/') {
        return Ok((PathBuf::from("/"), rest));
    }
    let (start, rest) = match text.strip_prefix('~') {
        Some(_) => text.split_once('/').unwrap_or((text, "")),
        None => (".", text),
    };
    let start = Entry::literal(start, entry.origin.clone());
    Ok((anchored(&start, host)?, rest))
}

#[cfg(test)]
mod tests;
