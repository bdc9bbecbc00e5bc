//! Where the lines come from: a file that grows, a pipe, a run of our own.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::audit::event::Code;
use crate::cli::ctl::Answer;
use crate::error::{Error, Kind, Result};
use crate::settings::shown;

/// Longest line that is taken for an event.
const MAX_LINE: usize = 1 << 20;

/// How often a file is looked at for more.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Source {
    from: From,
    file: Option<File>,
    signals: SignalFd,
    pending: Vec<u8>,
    /// Runs that began and did not end yet, and whether one began at all.
    open_runs: u64,
    has_begun: bool,
}

#[derive(Debug)]
enum From {
    File(PathBuf),
    Stdin,
    Command(Child),
}

impl Source {
    pub(super) fn stdin() -> Self {
        let file = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .ok()
            .map(File::from);
        Self::new(From::Stdin, file)
    }

    /// Follows a file, which need not be there yet.
    pub(super) fn file(path: PathBuf) -> Result<Self> {
        let file = match open(&path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&format!("read {}", shown(&path)), "open", error)),
        };
        if file.as_ref().is_some_and(is_directory) {
            let error = io::Error::from(io::ErrorKind::IsADirectory);
            return Err(failed(&format!("read {}", shown(&path)), "open", error));
        }
        Ok(Self::new(From::File(path), file))
    }

    /// Runs ourselves with `words`, its events sent over a pipe.
    pub(super) fn command(words: &[OsString]) -> Result<Self> {
        let start = || -> io::Result<(Child, OwnedFd)> {
            let (ours, theirs) = io::pipe()?;
            // Inherited across the exec below, and by nothing else: this process has one thread.
            fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty()))?;
            let child = Command::new(std::env::current_exe()?)
                .arg("--monitor")
                .arg("--events-fd")
                .arg(theirs.as_raw_fd().to_string())
                .args(words)
                .spawn()?;
            Ok((child, ours.into()))
        };
        let (child, pipe) = start().map_err(|error| failed("run srt", "spawn", error))?;
        Ok(Self::new(From::Command(child), Some(pipe.into())))
    }

    fn new(from: From, file: Option<File>) -> Self {
        // After the spawn: the child has the caller's mask. The rules are to be printed however
        // we are ended; where this fails, they are not.
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        let _blocked = signals.thread_block();
        let watched =
            SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
        Self {
            from,
            file,
            signals: watched.expect("a process may have a descriptor more"),
            pending: Vec::new(),
            open_runs: 0,
            has_begun: false,
        }
    }

    /// Waits for the next whole line; `None` once the run has ended, or we are asked to end.
    pub(super) fn next_line(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                self.note(&line);
                return Ok(Some(line));
            }
            if self.pending.len() > MAX_LINE {
                self.pending.clear();
            }
            match self
                .fill()
                .map_err(|error| failed("read events", "read", error))?
            {
                0 if !self.waits_for_more()? => return Ok(None),
                _ => {}
            }
        }
    }

    /// Reads what is there.
    fn fill(&mut self) -> io::Result<usize> {
        if let From::File(path) = &self.from
            && self.file.is_none()
        {
            self.file = open(path).ok();
        }
        let Some(file) = &mut self.file else {
            return Ok(0);
        };
        let mut piece = [0; 1 << 14];
        loop {
            let is_asked_to_end = match self.from {
                From::File(_) => false,
                From::Stdin | From::Command(_) => wait_for(file, &self.signals, &self.from)?,
            };
            if is_asked_to_end {
                return Ok(0);
            }
            match file.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                read => {
                    let len = read?;
                    self.pending.extend_from_slice(&piece[..len]);
                    return Ok(len);
                }
            }
        }
    }

    /// Tells, at the end of what is there, whether more is to come; waits a little for it.
    fn waits_for_more(&mut self) -> Result<bool> {
        let From::File(path) = &self.from else {
            return Ok(false);
        };
        let is_over = self.has_begun && self.open_runs == 0;
        if is_over || pause(&self.signals) {
            return Ok(false);
        }
        // A file that was emptied begins anew; one in its place is another.
        let found = path.metadata().ok();
        let ours = self.file.as_ref().and_then(|file| file.metadata().ok());
        if let (Some(found), Some(ours)) = (found, ours) {
            if (found.dev(), found.ino()) != (ours.dev(), ours.ino()) {
                self.file = None;
            } else if let Some(file) = &mut self.file
                && file.stream_position().is_ok_and(|at| at > found.size())
            {
                let sought = file.seek(SeekFrom::Start(0));
                sought.map_err(|error| failed("read events", "lseek", error))?;
            }
        }
        Ok(true)
    }

    /// Counts runs: what is followed ends with the last of them.
    fn note(&mut self, line: &str) {
        let is = |code: Code| line.contains(&format!("\"{}\"", code.name()));
        if is(Code::RunStart) {
            self.has_begun = true;
            self.open_runs += 1;
        } else if is(Code::RunEnd) {
            self.has_begun = true;
            self.open_runs = self.open_runs.saturating_sub(1);
        } else if is(Code::RunRefused) {
            self.has_begun = true;
        }
    }

    /// Waits for a run of our own; its failure is the answer no.
    pub(super) fn finish(self) -> Result<Answer> {
        drop(self.file);
        let From::Command(mut child) = self.from else {
            return Ok(Answer::Yes);
        };
        let status = child
            .wait()
            .map_err(|error| failed("run srt", "wait", error))?;
        Ok(match status.success() {
            true => Answer::Yes,
            false => Answer::No,
        })
    }
}

/// Waits until a pipe has more; tells whether we are asked to end instead. A run of our own gets
/// that signal too, and ends the pipe by its end.
fn wait_for(file: &File, signals: &SignalFd, from: &From) -> io::Result<bool> {
    loop {
        let mut fds = [
            PollFd::new(file.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) if fds[0].any().unwrap_or(false) => return Ok(false),
            Ok(_) => {
                let has_come = matches!(signals.read_signal(), Ok(Some(_)));
                if has_come && matches!(from, From::Stdin) {
                    return Ok(true);
                }
            }
        }
    }
}

/// Waits a little; tells whether we are asked to end.
fn pause(signals: &SignalFd) -> bool {
    let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    let patience = PollTimeout::try_from(PAUSE).unwrap_or(PollTimeout::ZERO);
    matches!(poll(&mut fds, patience), Ok(1..))
}

fn open(path: &Path) -> io::Result<File> {
    // A FIFO without a writer must not hold us up.
    let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    File::options()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
}

fn is_directory(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_dir())
}

fn failed(goal: &str, call: &str, error: io::Error) -> Error {
    Error::new(Kind::Usage, format!("cannot {goal}")).call(call, error)
}
