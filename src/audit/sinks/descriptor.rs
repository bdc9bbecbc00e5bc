//! A descriptor of the caller that events are written to, one a line; also what a path leads to
//! that is no regular file.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::{MsgFlags, send};

use super::super::recorder::Line;
use super::Written;

/// Longest that nothing may be read by the other side, in milliseconds.
const PATIENCE: u16 = 30_000;

#[derive(Debug)]
pub(super) struct Descriptor {
    name: String,
    file: File,
    is_socket: bool,
    /// Whether a line was written in part: the next one starts a line of its own.
    is_cut: bool,
}

impl Descriptor {
    /// Takes what the caller has open as well.
    pub(super) fn inherited(name: String, fd: OwnedFd) -> Self {
        let file = File::from(fd);
        let kind = file.metadata().map(|meta| meta.file_type()).ok();
        // The flags of an open file are the caller's too, whose own writes must go on waiting
        // for a reader: a pipe is opened once more. Where that cannot be, writes wait.
        let reopened = kind
            .filter(|kind| kind.is_fifo())
            .and_then(|_| reopened(&file));
        Self {
            name,
            file: reopened.unwrap_or(file),
            is_socket: kind.is_some_and(|kind| kind.is_socket()),
            is_cut: false,
        }
    }

    /// Takes what a path led to, opened so that writing never waits.
    pub(super) fn opened(name: String, file: File) -> Self {
        Self {
            name,
            file,
            is_socket: false,
            is_cut: false,
        }
    }

    pub(super) fn write(&mut self, lines: &[Arc<Line>], written: &Written) -> io::Result<()> {
        for line in lines {
            let start = if self.is_cut { "\n" } else { "" };
            let text = format!("{start}{}\n", line.text);
            let mut rest = text.as_bytes();
            let result = self.write_whole(&mut rest);
            let some = rest.len() < text.len();
            self.is_cut = !rest.is_empty() && (some || self.is_cut);
            result?;
            written.add(1);
        }
        Ok(())
    }

    /// Writes a line, and waits for a reader who is slow, but not for one who stands still.
    fn write_whole(&mut self, rest: &mut &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match self.write_some(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => *rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
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

    fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_socket {
            return self.file.write(bytes);
        }
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        Ok(send(self.file.as_raw_fd(), bytes, flags)?)
    }

    pub(super) fn finish(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // A pipe or a terminal has nothing to make last.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            synced => synced,
        }
    }
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn reopened(file: &File) -> Option<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let opened = File::options()
        .write(true)
        .custom_flags(flags.bits())
        .open(path);
    opened.ok()
}
