//! What earlier runs were denied, kept for `srt ctl explain --last` and `srt ctl allow`.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use serde::{Deserialize, Serialize};

use super::layers::search;
use super::usage;
use crate::audit::{Denials, Group};
use crate::error::{Error, Kind, Result};
use crate::policy::Host;
use crate::settings::{InForce, Layer, shown};

/// Runs that are kept; the oldest goes first.
const MOST: usize = 20;

/// Largest record that is read.
const SIZE_LIMIT: u64 = 4 << 20;

/// What one run was denied.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Run {
    v: u32,
    /// When it ended; RFC 3339.
    pub(super) time: String,
    pub(super) run: String,
    /// The program alone: arguments may hold secrets.
    pub(super) program: String,
    pub(super) cwd: PathBuf,
    /// The files of settings that were in force.
    pub(super) files: Vec<Used>,
    pub(super) denied: Vec<Group>,
    /// Denials of what is not in `denied`.
    pub(super) more: u64,
}

/// A file of settings that was in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Used {
    pub(super) path: PathBuf,
    /// Which layer: `user`, `explicit`.
    pub(super) layer: String,
}

impl Run {
    pub(super) fn new(run: &str, program: String, host: &Host, denials: &Denials) -> Self {
        Self {
            v: 1,
            time: crate::audit::now(),
            run: run.to_owned(),
            program,
            cwd: host.cwd.clone(),
            files: Vec::new(),
            denied: denials.groups().to_vec(),
            more: denials.more,
        }
    }

    pub(super) fn under(self, files: &[InForce], caller_cwd: &Path) -> Self {
        let used = files.iter().map(|file| Used {
            path: caller_cwd.join(&*file.path),
            layer: file.layer.name().to_owned(),
        });
        Self {
            files: used.collect(),
            ..self
        }
    }

    /// Tells whether settings were named on the command line.
    pub(super) fn named_settings(&self) -> Option<&Path> {
        let named = |used: &&Used| used.layer == Layer::Explicit.name();
        self.files.iter().find(named).map(|used| &*used.path)
    }

    /// Keeps it, and drops the oldest. A user without a place for it, or one who runs with the
    /// home of another, keeps none.
    pub(super) fn keep(&self, host: &Host) -> io::Result<()> {
        let Some(dir) = directory(host) else {
            return Ok(());
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        // Held from here on: whatever takes the place of a name above leads nowhere else.
        let held = hold(&dir)?;
        let name = format!("{}-{}.json", self.time.replace(':', ""), self.run);
        let hidden = format!(".{name}");
        let written = self.write(&held, &hidden, &name);
        if written.is_err() {
            let _removed = unlinkat(&held, &hidden, AtFlags::empty());
        }
        written?;
        for old in names(Dir::read_from(&held)?).iter().rev().skip(MOST) {
            // Another run may have dropped it.
            let _dropped = unlinkat(&held, old, AtFlags::empty());
        }
        Ok(())
    }

    fn write(&self, dir: &OwnedFd, hidden: &str, name: &str) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(openat(dir, hidden, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&serde_json::to_vec(self)?)?;
        renameat(dir, hidden, dir, name)?;
        Ok(())
    }
}

/// Returns the last runs that were denied something, the last one first.
///
/// # Errors
/// There is no place where they are kept, or it cannot be read.
pub(super) fn last(host: &Host, count: usize) -> Result<Vec<Run>> {
    let dir = directory(host).ok_or_else(|| {
        usage("there is no place where earlier runs are kept")
            .with_hint("set HOME or XDG_STATE_HOME to an absolute path of your own")
    })?;
    let names = match hold(&dir).and_then(Dir::new) {
        Err(rustix::io::Errno::NOENT) => Vec::new(),
        held => names(held.map_err(|errno| unreadable(&dir, "open", errno.into()))?),
    };
    let runs = names.iter().rev().take(count);
    runs.map(|name| read(&dir.join(name))).collect()
}

fn read(file: &Path) -> Result<Run> {
    let read = || -> io::Result<Vec<u8>> {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = File::options()
            .read(true)
            .custom_flags(flags.bits())
            .open(file)?;
        let mut bytes = Vec::new();
        file.take(SIZE_LIMIT).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| unreadable(file, "read", error))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        Error::new(Kind::Usage, format!("{} is damaged: {error}", shown(file)))
            .with_hint("remove that file; srt makes another when a run is denied something")
    })
}

fn unreadable(path: &Path, call: &str, error: io::Error) -> Error {
    Error::new(Kind::Usage, format!("cannot read {}", shown(path))).call(call, error)
}

/// Opens the directory of records, which is no link.
fn hold(dir: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(CWD, dir, flags, Mode::empty())
}

/// Returns the names of the records, the oldest first. Nothing else in there is ours.
fn names(dir: Dir) -> Vec<String> {
    let entries = dir.filter_map(std::result::Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned));
    let mut names: Vec<_> = names.filter(|name| is_record(name)).collect();
    names.sort_unstable();
    names
}

/// Tells whether a name is one that [`Run::keep`] gives: `2026-12-01T120000.123456Z-RUN.json`.
fn is_record(name: &str) -> bool {
    const TIME: &str = "0000-00-00T000000.000000Z";
    let named = name
        .strip_suffix(".json")
        .and_then(|name| name.split_at_checked(TIME.len()));
    named.is_some_and(|(time, run)| {
        let alike = |(c, like): (char, char)| c == like || (like == '0' && c.is_ascii_digit());
        let is_run = |run: &str| run.len() == 32 && run.chars().all(|c| c.is_ascii_hexdigit());
        time.chars().zip(TIME.chars()).all(alike) && run.strip_prefix('-').is_some_and(is_run)
    })
}

/// Returns where records are kept. Nothing below the home of another is written or believed:
/// its links lead where that user likes.
fn directory(host: &Host) -> Option<PathBuf> {
    let dir = search(host).state_dir()?.join("denied");
    let there = dir
        .ancestors()
        .find_map(|dir| dir.symlink_metadata().ok())?;
    let base = dir.ancestors().nth(2)?;
    let owner = base.metadata().unwrap_or(there).uid();
    (owner == host.uid).then_some(dir)
}
