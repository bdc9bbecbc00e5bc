//! What to write in the settings to turn a verdict round.

use std::fmt;

use crate::audit::event::Suggest;
use crate::settings::{Entry, Layer, Origin};

/// One change of one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Add an entry.
    Add {
        /// Full key of the list: `network.allowedDomains`.
        key: &'static str,
        /// The entry to add.
        entry: String,
        /// Whether it has to be written `{ "path": …, "literal": true }`.
        literal: bool,
    },
    /// Take an entry out.
    Remove {
        /// The entry as written.
        entry: String,
        /// Where it stands.
        origin: Origin,
    },
}

impl Change {
    /// Makes the change that takes `entry` out.
    pub fn remove(entry: &Entry) -> Self {
        Self::Remove {
            entry: entry.text.clone(),
            origin: entry.origin.clone(),
        }
    }
}

impl Change {
    /// Returns what an event says of the changes that have to be made together.
    pub fn suggest(changes: &[Self]) -> Option<Suggest<'_>> {
        let mut suggests = changes.iter().map(|change| match change {
            Self::Add {
                key,
                entry,
                literal,
            } => Suggest {
                literal: *literal,
                ..Suggest::adding(key, entry)
            },
            Self::Remove { entry, origin } => Suggest::removing(origin.key, entry),
        });
        let first = suggests.next()?;
        Some(Suggest {
            also: suggests.collect(),
            ..first
        })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add {
                key,
                entry,
                literal: true,
            } => {
                let path = serde_json::Value::from(entry.as_str());
                write!(f, "add {{ \"path\": {path}, \"literal\": true }} to {key}")
            }
            Self::Add { key, entry, .. } => write!(f, "add `{entry}` to {key}"),
            Self::Remove { entry, origin } if origin.layer == Layer::Flags => {
                write!(f, "leave out {} `{entry}`", origin.name())?;
                match (origin.key, entry.as_str()) {
                    ("network.deniedDomains", "*") => f.write_str(", or --no-network"),
                    _ => Ok(()),
                }
            }
            Self::Remove { entry, origin } => {
                write!(f, "remove `{entry}` from {} ({origin})", origin.key)
            }
        }
    }
}
