//! Names that stay as they are in every writable directory: what a later command, outside of
//! any sandbox, would execute (`data/protected.json`).

mod cache;
mod git;
mod git_config;
mod index;
mod names;
mod walk;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub use cache::{claim, directory, is_private};
pub use git::{GitFile, Repository};
pub use index::tracked;
pub use names::{Match, Name, matching};
pub use walk::{Findings, MAX_NAMES, MAX_TIME, Roots, Through, find};

use super::host::Host;
use super::path::entry_error;
use super::secrets::{self, Homes};
use crate::error::Result;
use crate::settings::{self, Entry};

/// The names that a run protects.
#[derive(Debug, Clone, Default)]
pub struct Protection {
    /// None is.
    pub is_off: bool,
    opened: HashSet<&'static str>,
}

/// The name that `filesystem.allowGitConfig` opens.
pub const GIT_CONFIG: &str = ".git/config";

impl Protection {
    /// Takes the names that the settings open.
    ///
    /// # Errors
    /// One is no protected name.
    pub fn of(settings: &settings::Filesystem) -> Result<Self> {
        let opened = settings.allow_protected.iter().map(known);
        let mut opened = opened.collect::<Result<HashSet<_>>>()?;
        if settings.allow_git_config {
            opened.insert(GIT_CONFIG);
        }
        Ok(Self {
            is_off: settings.disabled,
            opened,
        })
    }

    /// Tells whether the settings leave a name protected.
    pub fn holds(&self, name: &Name) -> bool {
        !self.is_off && !self.opened.contains(name.text)
    }
}

/// Returns the places of names that have one.
pub fn places<'a>(
    host: &'a Host,
    homes: &'a Homes,
) -> impl Iterator<Item = (PathBuf, &'static Name)> {
    names::places().iter().flat_map(move |name| {
        let places = secrets::on_host(name.text, host, homes).into_iter();
        places.map(move |place| (place, name))
    })
}

/// Returns the name that would protect a path if it were there.
pub fn name_of(path: &Path, host: &Host) -> Option<&'static Name> {
    let home = host.home.as_deref();
    let place = |name: &&Name| match name.text.strip_prefix("~/") {
        Some(below) => home.is_some_and(|home| path.starts_with(home.join(below))),
        None => path.starts_with(name.text),
    };
    let named = names::places().iter().find(place);
    let anywhere = |at: &Path| match matching(at.parent()?, at.file_name()?)? {
        Match::Protected(name) => Some(name),
        Match::Git => names::in_git(path.strip_prefix(at).ok()?),
        _ => None,
    };
    named.or_else(|| path.ancestors().find_map(anywhere))
}

fn known(entry: &Entry) -> Result<&'static str> {
    let text = entry.text.trim_end_matches('/');
    if let Some(name) = names::all().find(|name| name.text == text) {
        return Ok(name.text);
    }
    let words = names::all().map(|name| (name.text, name.text));
    let hint = match settings::nearest_word(words, text) {
        Some(near) => {
            format!("did you mean `{near}`? `srt ctl explain --write PATH` names the one")
        }
        None => "`srt ctl explain --write PATH` says which name protects a path".to_owned(),
    };
    Err(entry_error(entry, "is no protected name").with_hint(hint))
}

#[cfg(test)]
mod tests;
