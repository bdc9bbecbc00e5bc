//! The settings file as written: every key, with the place it stands at.
//!
//! No defaults of an operating system live here; [`crate::policy`] turns settings into rules.

use std::path::Path;
use std::sync::Arc;

/// What one settings file says. `Settings::default()` is what holds without a file.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// `network`: which hosts may be reached.
    pub network: Network,
    /// `filesystem`: which paths may be read and written.
    pub filesystem: Filesystem,
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
