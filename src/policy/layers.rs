//! What the layers of settings come to: lists bounded by the system's, narrowed by an untrusted
//! project's, and joined by what is built in.

use std::path::Path;

use super::ceiling::{self, Ceiling, Grants, Hidden};
use super::filesystem::{DEFAULT_WRITE, Lists};
use super::host::Host;
use super::protected::Protection;
use super::secrets;
use crate::error::Result;
use crate::settings::values::Values;
use crate::settings::{self, Entry, Layer, Origin, Settings};

/// The lists that count.
#[derive(Debug, Default)]
pub(super) struct Effective {
    pub(super) filesystem: Lists,
    pub(super) network: settings::Network,
    /// What was narrowed, for the user to read.
    pub(super) notes: Vec<String>,
}

/// Puts the layers together.
///
/// # Errors
/// An entry goes beyond what the system's file allows, or cannot be understood.
pub(super) fn join(settings: &Settings, host: &Host) -> Result<Effective> {
    check_ceiling(settings, host)?;
    let mut effective = Effective {
        filesystem: Lists {
            entries: settings.filesystem.clone(),
            default_write: default_write(host),
            credentials: settings.credentials.files.clone(),
            protected: Vec::new(),
            protects_secrets: settings.filesystem.protects_secrets,
            protection: Protection::of(&settings.filesystem)?,
            warnings: Vec::new(),
            notes: Vec::new(),
        },
        network: settings.network.clone(),
        notes: Vec::new(),
    };
    effective.bound_defaults(&settings.ceiling, host)?;
    effective.narrow(settings, host)?;
    if settings.filesystem.disabled {
        effective.filesystem.open();
    }
    effective.protect_files(settings);
    Ok(effective)
}

impl Effective {
    /// Takes out the built-in grants that the system's file does not allow.
    fn bound_defaults(&mut self, ceiling: &Values, host: &Host) -> Result<()> {
        if let Some(bound) = ceiling.list_if_given("filesystem.allowWrite") {
            let defaults = &mut self.filesystem.default_write;
            *defaults = ceiling::narrow_paths(defaults, bound, &[], host)?.entries;
        }
        Ok(())
    }

    fn narrow(&mut self, settings: &Settings, host: &Host) -> Result<()> {
        let by = &settings.narrowing;
        if by.iter().next().is_none() {
            return Ok(());
        }
        if let Some(by) = by.list_if_given("network.allowedDomains") {
            let list = &mut self.network.allowed_domains;
            let (below, above) = apart(list);
            let narrowed = ceiling::narrow_domains(&below, by)?;
            self.notes.extend(narrowed.all_notes());
            *list = [narrowed.entries, above].concat();
        }
        let hidden = self.filesystem.entries.deny_read.iter().cloned();
        // What the project hides is its own to show again.
        let (own, mut hidden): (Vec<Entry>, Vec<Entry>) =
            hidden.partition(|entry| entry.origin.layer == Layer::Project);
        if self.filesystem.protects_secrets {
            hidden.extend(secret_places(host));
        }
        let lists = [
            (
                "filesystem.allowRead",
                &mut self.filesystem.entries.allow_read,
            ),
            (
                "filesystem.allowWrite",
                &mut self.filesystem.entries.allow_write,
            ),
            (
                "network.allowUnixSockets",
                &mut self.network.allow_unix_sockets,
            ),
        ];
        for (key, list) in lists {
            if let Some(by) = by.list_if_given(key) {
                let (below, above) = apart(list);
                let mut narrowed = ceiling::narrow_paths(&below, by, &hidden, host)?;
                if key == "filesystem.allowRead"
                    && let Some(project) = project_of(settings)
                {
                    let hidden = Hidden {
                        by_others: &hidden,
                        by_project: &own,
                        project,
                    };
                    narrowed.show_again(by, &hidden, host)?;
                }
                self.notes.extend(narrowed.all_notes());
                *list = [narrowed.entries, above].concat();
            }
        }
        if let Some(by) = by.list_if_given("filesystem.allowWrite") {
            let defaults = &mut self.filesystem.default_write;
            *defaults = ceiling::narrow_paths(defaults, by, &hidden, host)?.entries;
        }
        Ok(())
    }

    /// Keeps the command from changing what the next run will be allowed.
    fn protect_files(&mut self, settings: &Settings) {
        let files = settings.files.iter().map(|file| file.path.to_path_buf());
        let protected = &mut self.filesystem.protected;
        protected.extend(files.chain(settings.guarded.iter().cloned()));
        protected.sort();
        protected.dedup();
    }
}

impl Lists {
    /// Drops every rule but the system's.
    fn open(&mut self) {
        let entries = &mut self.entries;
        let of_system = |entry: &Entry| entry.origin.layer == Layer::System;
        entries.deny_read.retain(of_system);
        entries.deny_write.retain(of_system);
        entries.allow_read.clear();
        entries.allow_write = vec![built_in("filesystem.disabled", "/")];
        self.default_write.clear();
        self.protects_secrets = false;
    }
}

/// Splits a list into what a project's file narrows and what flags added above it.
fn apart(list: &[Entry]) -> (Vec<Entry>, Vec<Entry>) {
    let is_below = |entry: &&Entry| entry.origin.layer < Layer::Project;
    let (below, above): (Vec<_>, Vec<_>) = list.iter().partition(is_below);
    (
        below.into_iter().cloned().collect(),
        above.into_iter().cloned().collect(),
    )
}

fn project_of(settings: &Settings) -> Option<&Path> {
    let mut files = settings.files.iter();
    files
        .find(|file| file.layer == Layer::Project)?
        .path
        .parent()
}

fn check_ceiling(settings: &Settings, host: &Host) -> Result<()> {
    let Some(system) = settings
        .files
        .iter()
        .find(|file| file.layer == Layer::System)
    else {
        return Ok(());
    };
    let hidden = settings.filesystem.deny_read.iter();
    let hidden = hidden.filter(|entry| entry.origin.layer == Layer::System);
    let deny_read: Vec<Entry> = hidden.cloned().collect();
    let list = |key| settings.ceiling.list_if_given(key);
    let bounds = Ceiling {
        file: &system.path,
        allowed_domains: list("network.allowedDomains"),
        allow_read: list("filesystem.allowRead"),
        allow_write: list("filesystem.allowWrite"),
        allow_unix_sockets: list("network.allowUnixSockets"),
        deny_read: &deny_read,
    };
    let grants = Grants {
        allowed_domains: &settings.network.allowed_domains,
        allow_read: &settings.filesystem.allow_read,
        allow_write: &settings.filesystem.allow_write,
        allow_unix_sockets: &settings.network.allow_unix_sockets,
    };
    ceiling::check(&bounds, &grants, host)
}

/// Lists what is writable without being granted.
fn default_write(host: &Host) -> Vec<Entry> {
    let texts = DEFAULT_WRITE.into_iter();
    let texts = texts.filter(|text| !text.starts_with('~') || host.home.is_some());
    let entries = texts.map(|text| built_in("filesystem.allowWrite", text));
    entries.collect()
}

/// Lists the stores of secrets that are there: to narrow a grant to one would open it.
fn secret_places(host: &Host) -> Vec<Entry> {
    let homes = secrets::Homes::of(host);
    let places = secrets::places(host, &homes);
    let places = places.filter(|(_, place)| place.symlink_metadata().is_ok());
    let texts = places.filter_map(|(_, place)| place.into_os_string().into_string().ok());
    texts
        .map(|text| built_in("filesystem.protectSecrets", &text))
        .collect()
}

fn built_in(key: &'static str, text: &str) -> Entry {
    Entry::literal(text.to_owned(), Origin::built_in(key))
}

#[cfg(test)]
mod tests;
