//! Where events go.

mod file;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::recorder::Line;
use crate::error::Result;
use file::FileSink;

/// One place that gets every event.
#[derive(Debug)]
pub struct Sink(Kind);

#[derive(Debug)]
enum Kind {
    File(FileSink),
}

impl Sink {
    /// Appends to a file, which is created mode 0600 and must not be a link.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn file(path: &Path) -> Result<Self> {
        FileSink::open(path).map(Kind::File).map(Self)
    }

    /// Returns the file it writes.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.0 {
            Kind::File(file) => Some(file.path()),
        }
    }

    pub(super) fn write(&mut self, lines: &[Arc<Line>]) -> io::Result<()> {
        match &mut self.0 {
            Kind::File(file) => file.write(lines),
        }
    }

    /// Makes what was written last.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Kind::File(file) => file.finish(),
        }
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::File(file) => write!(f, "{}", file.path().display()),
        }
    }
}
