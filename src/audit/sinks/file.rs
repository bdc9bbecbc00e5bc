//! A file that events are appended to, one a line.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::super::recorder::Line;
use super::descriptor::Descriptor;
use super::place::Place;
use super::{Written, cannot};
use crate::audit::chain::Hash;
use crate::audit::complain;
use crate::error::Result;

/// How a file of events is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOptions {
    /// Bytes above which what it holds goes to `FILE.1`.
    pub max_size: u64,
    /// Whether each line carries the hash of the one before it.
    pub is_chained: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            max_size: 64 << 20,
            is_chained: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct FileSink {
    path: PathBuf,
    target: Target,
}

#[derive(Debug)]
enum Target {
    Regular(Regular),
    /// A FIFO or a device.
    Other(Descriptor),
}

impl FileSink {
    pub(super) fn open(path: &Path, options: FileOptions) -> Result<Self> {
        let open = || {
            let place = Place::of(path)?;
            let file = place.append()?;
            let is_regular = file.metadata()?.is_file();
            Ok((place, file, is_regular))
        };
        let (place, file, is_regular) = open().map_err(|error: io::Error| {
            let hint = match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::LOOP) => {
                    "it is a link: name the file itself, or pass a descriptor with --events-fd"
                }
                Some(Errno::NXIO) => "nobody reads this FIFO: start its reader before srt",
                _ => "name a plain file in a directory you can write",
            };
            cannot(path.display()).call("open", error).with_hint(hint)
        })?;
        let target = if is_regular {
            Target::Regular(Regular::new(place, file, options))
        } else {
            let name = path.display().to_string();
            Target::Other(Descriptor::opened(name, file))
        };
        Ok(Self {
            path: path.to_owned(),
            target,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_prompt(&self) -> bool {
        matches!(self.target, Target::Regular(_))
    }

    pub(super) fn write(&mut self, lines: &[Arc<Line>], written: &Written) -> io::Result<()> {
        match &mut self.target {
            Target::Regular(file) => file.write(lines, written, &self.path),
            Target::Other(descriptor) => descriptor.write(lines, written),
        }
    }

    pub(super) fn finish(&self) -> io::Result<()> {
        match &self.target {
            Target::Regular(file) => file.file.sync_data(),
            Target::Other(descriptor) => descriptor.finish(),
        }
    }
}

/// What the file ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Whatever others write meanwhile.
    Anybodys,
    /// What others wrote; we hold the lock now.
    Kept,
    /// Our own last line.
    Ours,
}

#[derive(Debug)]
struct Regular {
    place: Place,
    file: File,
    options: FileOptions,
    /// The hash of the last line of this run, where lines are chained.
    last: Option<Hash>,
    /// Whether somebody held the lock for longer than we wait.
    is_contended: bool,
}

impl Regular {
    fn new(place: Place, file: File, options: FileOptions) -> Self {
        Self {
            place,
            file,
            options,
            last: None,
            is_contended: false,
        }
    }

    fn write(&mut self, lines: &[Arc<Line>], written: &Written, path: &Path) -> io::Result<()> {
        let is_locked = self.lock(path)?;
        // What others wrote since the last batch is looked at once, under the lock.
        let mut end = if is_locked { End::Kept } else { End::Anybodys };
        let result = lines.iter().try_for_each(|line| {
            self.write_line(line, end, path)?;
            end = if is_locked { End::Ours } else { end };
            written.add(1);
            Ok(())
        });
        if is_locked {
            flock(&self.file, FlockOperation::Unlock)?;
        }
        result
    }

    /// Takes the lock that keeps runs in one file apart, and the file that has the name now.
    fn lock(&mut self, path: &Path) -> io::Result<bool> {
        let patience = match self.is_contended {
            true => Duration::ZERO,
            false => PATIENCE,
        };
        let deadline = Instant::now() + patience;
        loop {
            if !self.place.holds(&self.file) {
                self.reopen()?;
            }
            match flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
                // It may have been moved away meanwhile.
                Ok(()) if self.place.holds(&self.file) => {
                    self.is_contended = false;
                    return Ok(true);
                }
                Ok(()) => flock(&self.file, FlockOperation::Unlock)?,
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                // Whoever can read the file can hold its lock, the command too. Each line is
                // one call that appends, so that none is lost or mixed without it.
                Err(Errno::WOULDBLOCK) => {
                    if !self.is_contended {
                        complain(format_args!(
                            "another process holds the lock on {}: events are written without it",
                            path.display()
                        ));
                    }
                    self.is_contended = true;
                    return Ok(false);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = self.place.append()?;
        if !file.metadata()?.is_file() {
            let what = "what has its name now is no plain file";
            return Err(io::Error::other(what));
        }
        self.file = file;
        Ok(())
    }

    fn write_line(&mut self, line: &Line, found: End, path: &Path) -> io::Result<()> {
        let (is_ours, is_locked) = (found == End::Ours, found != End::Anybodys);
        let mut end = self.file.metadata()?.len();
        let mut text = match self.options.is_chained {
            true => self.chained(line, is_ours)?,
            false => line.text.clone(),
        };
        let hash = self.options.is_chained.then(|| Hash::of(text.as_bytes()));
        text.push('\n');
        let is_full = end > 0 && end + text.len() as u64 > self.options.max_size;
        if is_full && is_locked {
            match self.place.rotate(&self.file) {
                Ok(()) => end = 0,
                Err(error) => {
                    // No event is lost for this: the file grows on.
                    self.options.max_size = u64::MAX;
                    complain(format_args!("cannot rotate {}: {error}", path.display()));
                }
            }
        }
        // Somebody's last line may have been cut short.
        if !is_ours && end > 0 && !self.place.ends_a_line(end) {
            text.insert(0, '\n');
        }
        let mut rest = text.as_bytes();
        if let Err(error) = write_whole(&self.file, &mut rest) {
            if is_locked && rest.len() < text.len() {
                self.file.set_len(end)?;
            }
            return Err(error);
        }
        self.last = hash;
        Ok(())
    }

    fn chained(&self, line: &Line, is_ours: bool) -> io::Result<String> {
        let before = match is_ours {
            true => self.last.clone(),
            // Where the file is gone, what it ended with is still known.
            false => self.place.last_hash()?.or_else(|| self.last.clone()),
        };
        Ok(Hash::chained(&line.text, before.as_ref()))
    }
}

/// Longest that another run is waited for.
const PATIENCE: Duration = Duration::from_millis(200);

fn write_whole(mut file: &File, rest: &mut &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match file.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => *rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
