//! The settings file as written: every key, with the place it stands at.
//!
//! No defaults of an operating system live here; [`crate::policy`] turns settings into rules.

mod fields;
mod json;
mod schema;
mod source;

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;

use source::Source;
pub(crate) use source::quoted;

/// What one settings file says. `Settings::default()` is what holds without a file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// `network`: which hosts may be reached.
    pub network: Network,
    /// `filesystem`: which paths may be read and written.
    pub filesystem: Filesystem,
    /// The file this was read from, as it was named; `None` without one.
    pub file: Option<Arc<Path>>,
}

/// The name of the settings file in the home directory.
const FILE_NAME: &str = ".srt-settings.json";

impl Settings {
    /// Reads one settings file, which has to be there.
    ///
    /// # Errors
    /// It cannot be read, is not strict JSON, or holds anything this version does not act on.
    /// All problems of its keys are reported together, one a line.
    pub fn read(path: &Path) -> Result<Self> {
        fields::read(&Source::read(path)?)
    }

    /// Reads `explicit`, else the file in the home directory, else takes the defaults.
    ///
    /// # Errors
    /// As for [`Settings::read`]. Only a home file that does not exist means "no settings".
    pub fn find(home: Option<&Path>, explicit: Option<&Path>) -> Result<Self> {
        if let Some(file) = explicit {
            return Self::read(file);
        }
        let Some(home) = home.filter(|home| home.is_absolute()) else {
            return Ok(Self::default());
        };
        let file = home.join(FILE_NAME);
        match file.symlink_metadata() {
            // Not following links: one that dangles was meant to lead to rules, and running
            // without them would be weaker than what its owner wrote.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            _ => Self::read(&file),
        }
    }
}

/// `network`, as written.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Network {
    /// Hosts that may be reached; an empty list is none.
    pub allowed_domains: Vec<Entry>,
    /// Hosts that may not, whatever else says so.
    pub denied_domains: Vec<Entry>,
}

/// `filesystem`, as written.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Filesystem {
    /// Paths to hide.
    pub deny_read: Vec<Entry>,
    /// Paths to show again inside a hidden one.
    pub allow_read: Vec<Entry>,
    /// Paths that may be written.
    pub allow_write: Vec<Entry>,
    /// Paths that may not be written, whatever else says so.
    pub deny_write: Vec<Entry>,
}

/// One string of one list, and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The string itself.
    pub text: String,
    /// Written as `{ "path": …, "literal": true }`: pattern characters mean themselves.
    pub literal: bool,
    /// Where it stands.
    pub origin: Origin,
}

/// The place a rule comes from, for messages and events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Full key: `network.allowedDomains`.
    pub key: &'static str,
    /// The file, or `None` for a built-in default.
    pub file: Option<Arc<Path>>,
    /// Line, counted from 1; 0 for a built-in default.
    pub line: u32,
    /// Column in characters, counted from 1; 0 for a built-in default.
    pub column: u32,
}
