//! Which project files the user trusts: path and hash, kept outside every project.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Search;
use super::source::{Found, Source, shown};
use crate::error::{Error, Kind, Result};

/// The project files that are trusted, as they were when they were read.
#[derive(Debug, Default)]
pub struct Trust {
    file: Option<PathBuf>,
    projects: Projects,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Projects {
    /// SHA-256 in hexadecimal, by absolute path without links.
    projects: BTreeMap<PathBuf, String>,
}

impl Trust {
    /// Reads what is trusted; nothing where there is no home directory or no such file.
    ///
    /// # Errors
    /// The file is there and cannot be read, belongs to another user or is damaged.
    pub fn read(search: &Search<'_>) -> Result<Self> {
        let Some(file) = search.state_dir().map(|dir| dir.join("trust.json")) else {
            return Ok(Self::default());
        };
        if file.symlink_metadata().is_err() {
            return Ok(Self {
                file: Some(file),
                ..Self::default()
            });
        }
        let source = Source::read(&file, Found::by(search.uid))?;
        let projects = serde_json::from_str(&source.text).map_err(|error| {
            Error::settings(format!("{} is damaged: {error}", shown(&file)))
                .with_hint("remove it, then run `srt ctl trust` in each project again")
        })?;
        Ok(Self {
            file: Some(file),
            projects,
        })
    }

    /// Returns the file this is kept in, if there is a place for it.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Tells whether this file with this text is trusted.
    pub fn holds(&self, file: &Path, text: &str) -> bool {
        let Ok(file) = file.canonicalize() else {
            return false;
        };
        self.projects.projects.get(&file) == Some(&hash(text))
    }

    /// Returns the files that are trusted, whatever they hold by now.
    pub fn projects(&self) -> impl Iterator<Item = &Path> {
        self.projects.projects.keys().map(PathBuf::as_path)
    }

    /// Trusts a file as long as its text is this.
    ///
    /// # Errors
    /// The file is gone, or there is no place to keep this.
    pub fn add(&mut self, file: &Path, text: &str) -> Result<()> {
        let file = file.canonicalize().map_err(|error| {
            Error::settings(format!("cannot trust {}", shown(file))).call("realpath", error)
        })?;
        self.projects.projects.insert(file, hash(text));
        self.write()
    }

    /// Trusts a file no longer; returns whether it was.
    ///
    /// # Errors
    /// The change cannot be kept.
    pub fn remove(&mut self, file: &Path) -> Result<bool> {
        let real = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
        let was = self.projects.projects.remove(&real).is_some();
        self.write().map(|()| was)
    }

    /// Replaces the file in one step, so that no reader sees half of it.
    fn write(&self) -> Result<()> {
        let file = self.file.as_deref().ok_or_else(|| {
            Error::settings("there is no place to keep what is trusted")
                .with_hint("set HOME or XDG_STATE_HOME to an absolute path")
        })?;
        let write = || -> std::io::Result<()> {
            let dir = file.parent().unwrap_or(Path::new("/"));
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)?;
            let next = dir.join(format!(".trust.{}", std::process::id()));
            let mut out = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&next)?;
            let text = serde_json::to_string_pretty(&self.projects)?;
            out.write_all(text.as_bytes())?;
            out.write_all(b"\n")?;
            out.sync_all()?;
            fs::rename(&next, file)
        };
        write().map_err(|error| {
            Error::new(Kind::Settings, format!("cannot write {}", shown(file))).source(error)
        })
    }
}

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
