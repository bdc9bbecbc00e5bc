//! A file that events are appended to, one a line.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, poll};

use super::Line;
use crate::error::{Error, Kind, Result};

#[derive(Debug)]
pub(super) struct FileSink {
    file: File,
    path: PathBuf,
}

impl FileSink {
    pub(super) fn open(path: &Path) -> Result<Self> {
        // O_NOFOLLOW: a link planted in the place of the log would send our
        // writes to a file the command cannot reach itself. O_NONBLOCK: a FIFO
        // without a reader fails at once instead of holding up the launch.
        let file = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(path)
            .map_err(|error| {
                Error::new(
                    Kind::Usage,
                    format!("cannot write events to {}", path.display()),
                )
                .call("open", error)
                .with_hint("name a plain file in a directory you can write")
            })?;
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, lines: &[Arc<Line>]) -> io::Result<()> {
        // One write call a line, so that lines of several runs in one file never mix.
        lines
            .iter()
            .try_for_each(|line| write_whole(&self.file, format!("{}\n", line.text).as_bytes()))
    }

    pub(super) fn finish(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // A FIFO or a terminal has nothing to make last.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            synced => synced,
        }
    }
}

/// Writes a line, and waits for a reader who is slow, but not for one who stands still.
fn write_whole(mut file: &File, mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        match file.write(line) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => line = &line[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(file.as_fd(), PollFlags::POLLOUT)];
                match poll(&mut fds, PATIENCE) {
                    Ok(0) => return Err(error),
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Longest that nothing may be read of a FIFO, in milliseconds.
const PATIENCE: u16 = 30_000;
