//! Where events go.

mod descriptor;
mod file;
mod journald;
mod local;
#[cfg(feature = "otlp")]
mod otlp;
mod place;
mod said;
mod syslog;

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::recorder::Line;
use crate::error::{Error, Kind as ErrorKind, Result};
use descriptor::Descriptor;
pub use file::FileOptions;
use file::FileSink;
use journald::Journald;
use syslog::Syslog;

/// One place that gets every event.
#[derive(Debug)]
pub struct Sink(Kind);

#[derive(Debug)]
enum Kind {
    File(FileSink),
    Descriptor(Descriptor),
    Journald(Journald),
    Syslog(Syslog),
    #[cfg(feature = "otlp")]
    Otlp(otlp::Otlp),
}

/// How many events of a batch a sink has: what it has not when it fails, or takes too long, is
/// lost, and counted.
#[derive(Debug, Default)]
pub(super) struct Written(AtomicU64);

impl Written {
    pub(super) fn restart(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn add(&self, events: u64) {
        self.0.fetch_add(events, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Sink {
    /// Appends to a file, which is created mode 0600 and must not be a link.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn file(path: &Path, options: FileOptions) -> Result<Self> {
        FileSink::open(path, options).map(Kind::File).map(Self)
    }

    /// Writes to a descriptor of the caller, which has this number there.
    pub fn descriptor(number: i32, fd: OwnedFd) -> Self {
        let name = format!("descriptor {number}");
        Self(Kind::Descriptor(Descriptor::inherited(name, fd)))
    }

    /// Sends to the journal of systemd, or whoever listens at `path`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn journald(path: Option<&Path>) -> Result<Self> {
        Journald::connect(path).map(Kind::Journald).map(Self)
    }

    /// Sends to the syslog daemon of this host, or whoever listens at `path`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub fn syslog(path: Option<&Path>) -> Result<Self> {
        Syslog::local(path).map(Kind::Syslog).map(Self)
    }

    /// Sends to the syslog daemon at `udp://host:port` or `tcp://host:port`.
    ///
    /// # Errors
    /// The address is none of these.
    pub fn remote_syslog(address: &str) -> Result<Self> {
        Syslog::remote(address).map(Kind::Syslog).map(Self)
    }

    /// Sends to a collector of OpenTelemetry at `http://host:port`.
    ///
    /// # Errors
    /// The address is no such URL, or this build lacks the feature `otlp`.
    #[cfg(feature = "otlp")]
    pub fn otlp(address: &str) -> Result<Self> {
        otlp::Otlp::new(address).map(Kind::Otlp).map(Self)
    }

    /// Sends to a collector of OpenTelemetry at `http://host:port`.
    ///
    /// # Errors
    /// This build lacks the feature `otlp`.
    #[cfg(not(feature = "otlp"))]
    pub fn otlp(address: &str) -> Result<Self> {
        let goal = format!("cannot send events to {address}: this build has no OTLP");
        Err(Error::new(ErrorKind::Unsupported, goal)
            .with_hint("build srt with the feature `otlp`, or choose another type of sink"))
    }

    /// Returns the files it writes: that of the path, and the one it was rotated to before.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let Kind::File(file) = &self.0 else {
            return Vec::new();
        };
        let path = file.path().to_owned();
        let mut rotated = path.clone().into_os_string();
        rotated.push(".1");
        let is_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|meta| meta.is_file());
        let rotated = Some(PathBuf::from(rotated)).filter(is_file);
        [Some(path), rotated].into_iter().flatten().collect()
    }

    /// Tells whether it may be written to before it has a thread of its own.
    pub(super) fn is_prompt(&self) -> bool {
        match &self.0 {
            Kind::File(file) => file.is_prompt(),
            _ => false,
        }
    }

    /// Writes a batch, and counts what it has written.
    pub(super) fn write(&mut self, lines: &[Arc<Line>], written: &Written) -> io::Result<()> {
        match &mut self.0 {
            Kind::File(file) => file.write(lines, written),
            Kind::Descriptor(descriptor) => descriptor.write(lines, written),
            Kind::Journald(journald) => journald.write(lines, written),
            Kind::Syslog(syslog) => syslog.write(lines, written),
            #[cfg(feature = "otlp")]
            Kind::Otlp(otlp) => otlp.write(lines, written),
        }
    }

    /// Makes what was written last.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::File(file) => file.finish(),
            Kind::Descriptor(descriptor) => descriptor.finish(),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::File(file) => write!(f, "{}", file.path().display()),
            Kind::Descriptor(descriptor) => write!(f, "{descriptor}"),
            Kind::Journald(journald) => write!(f, "{journald}"),
            Kind::Syslog(syslog) => write!(f, "{syslog}"),
            #[cfg(feature = "otlp")]
            Kind::Otlp(otlp) => write!(f, "{otlp}"),
        }
    }
}

/// Starts the error of a sink that cannot be had.
fn cannot(name: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Usage, format!("cannot write events to {name}"))
}
