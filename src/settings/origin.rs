//! Where a value was written: layer, file, line and column.

use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::FilePath;
use super::schema;
use super::source::shown;

/// One string of one list, and where it was written. Cheap to clone: layers, lists and rules
/// all hold their entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry(Arc<Written>);

/// What an [`Entry`] gives access to.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The string itself.
    pub text: String,
    /// Written as `{ "path": …, "literal": true }`: pattern characters mean themselves.
    pub literal: bool,
    /// Where it stands.
    pub origin: Origin,
    /// What it was found to match, if it is a pattern of paths.
    pub found: Option<PathBuf>,
}

impl Entry {
    /// Makes an entry as it is written in a list.
    pub fn new(text: impl Into<String>, origin: Origin) -> Self {
        Self(Arc::new(Written {
            text: text.into(),
            literal: false,
            origin,
            found: None,
        }))
    }

    /// Makes an entry whose pattern characters mean themselves.
    pub fn literal(text: impl Into<String>, origin: Origin) -> Self {
        Self(Arc::new(Written {
            text: text.into(),
            literal: true,
            origin,
            found: None,
        }))
    }

    /// Returns the entry with another text in its place, read as this one is.
    #[must_use]
    pub fn with_text(&self, text: impl Into<String>) -> Self {
        Self(Arc::new(Written {
            text: text.into(),
            literal: self.literal,
            origin: self.origin.clone(),
            found: None,
        }))
    }

    /// Returns the entry as one that stands for a path it matches.
    pub fn matching(&self, found: PathBuf) -> Self {
        Self(Arc::new(Written {
            text: self.text.clone(),
            literal: self.literal,
            origin: self.origin.clone(),
            found: Some(found),
        }))
    }
}

impl Deref for Entry {
    type Target = Written;

    fn deref(&self) -> &Written {
        &self.0
    }
}

/// The place a rule comes from, for messages and events. `Display` gives `file:line:column`,
/// the flag, or `built in`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Full key: `network.allowedDomains`.
    pub key: &'static str,
    /// The file; `None` for a flag and what is built in.
    pub file: Option<FilePath>,
    /// Line, counted from 1; 0 without a file.
    pub line: u32,
    /// Column in characters, counted from 1; 0 without a file.
    pub column: u32,
    /// Which layer it belongs to.
    pub layer: Layer,
}

/// The layers of settings, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// What holds without any file.
    BuiltIn,
    /// `/etc/srt/settings.json`: the ceiling of all above.
    System,
    /// The file of the user.
    User,
    /// The file of the project.
    Project,
    /// The file that `--settings` names, in place of user and project.
    Explicit,
    /// Flags of the command line.
    Flags,
}

impl Origin {
    /// Makes the origin of what is built in.
    pub fn built_in(key: &'static str) -> Self {
        Self {
            key,
            file: None,
            line: 0,
            column: 0,
            layer: Layer::BuiltIn,
        }
    }

    /// Makes the origin of what a flag sets.
    pub fn flag(key: &'static str) -> Self {
        Self {
            layer: Layer::Flags,
            ..Self::built_in(key)
        }
    }

    /// Returns the directory that relative paths start at, where it is not the working
    /// directory.
    pub fn base(&self) -> Option<&Path> {
        match (self.layer, &self.file) {
            // A profile that the project's file extends lies elsewhere.
            (Layer::Project, Some(file)) => file.parent().filter(|dir| dir.is_absolute()),
            _ => None,
        }
    }

    /// Names the key as its writer knows it: by its flag, if one set it.
    pub fn name(&self) -> &'static str {
        let flag = schema::get(self.key).and_then(|key| key.flag);
        match (self.layer, &self.file) {
            // With a file, it is a profile's that a flag named.
            (Layer::Flags, None) => flag.unwrap_or(self.key),
            _ => self.key,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.layer) {
            (Some(file), _) => write!(f, "{}:{}:{}", shown(file), self.line, self.column),
            (None, Layer::Flags) => f.write_str("command line"),
            (None, _) => f.write_str("built in"),
        }
    }
}

impl Layer {
    /// Names the layer as `config show` does.
    pub fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built in",
            Self::System => "system",
            Self::User => "user",
            Self::Project => "project",
            Self::Explicit => "--settings",
            Self::Flags => "command line",
        }
    }
}
