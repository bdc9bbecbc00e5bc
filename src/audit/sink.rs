//! Where events go: a file the launcher writes, or a socket to the launcher that writes it.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::socket::MsgFlags;
use serde::Serialize;
use serde_json::value::RawValue;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::event::{Event, Process};
use crate::error::{Error, Kind, Result, printable};

/// Records events and, under `--debug`, says on stderr what happens.
///
/// Cheap to call where nobody listens. Waits for a slow reader rather than lose an event: a
/// command that asks often enough could hide one request among many.
#[derive(Debug)]
pub struct Audit {
    target: Target,
    verbosity: Verbosity,
    path: Option<PathBuf>,
}

#[derive(Debug)]
enum Target {
    None,
    File(Mutex<Writer>),
    /// One event at a time, so that each gets its own answer.
    Launcher(Mutex<OwnedFd>),
}

#[derive(Debug)]
struct Writer {
    file: File,
    run: String,
    seq: u64,
    failed: bool,
}

/// What stands before an event on its line.
#[derive(Serialize)]
struct Envelope<'a> {
    v: u32,
    time: &'a str,
    seq: u64,
    run: &'a str,
}

/// What our own processes send the launcher: it alone knows sequence and run, and what process
/// holds a socket. Where one is named, the sender waits for [`ANSWER`]: the process waits for an
/// answer too, and is there as long.
#[derive(Serialize, serde::Deserialize)]
struct Record {
    time: String,
    event: Box<RawValue>,
    process: Option<Process>,
    socket: Option<u64>,
}

/// What the launcher sends back once it has recorded an event.
const ANSWER: u8 = b'A';

impl Audit {
    /// Records nothing.
    pub fn none(verbosity: Verbosity) -> Self {
        Self {
            target: Target::None,
            verbosity,
            path: None,
        }
    }

    /// Appends to `path`, which is created mode 0600 and must not be a link.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn to_file(path: &Path, run: &str, verbosity: Verbosity) -> Result<Self> {
        use std::os::unix::fs::OpenOptionsExt;
        // O_NOFOLLOW: a link planted in the place of the log would send our
        // writes to a file the command cannot reach itself. O_NONBLOCK: a FIFO
        // without a reader fails at once instead of holding up the launch.
        let file = File::options()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags((nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK).bits())
            .open(path)
            .map_err(|error| {
                Error::new(
                    Kind::Usage,
                    format!("cannot write events to {}", path.display()),
                )
                .call("open", error)
                .with_hint("name a plain file in a directory you can write")
            })?;
        let writer = Writer {
            file,
            run: run.to_owned(),
            seq: 0,
            failed: false,
        };
        Ok(Self {
            target: Target::File(Mutex::new(writer)),
            verbosity,
            path: Some(path.to_owned()),
        })
    }

    /// Returns one for another process or thread, which sends what it records over `line`, a
    /// blocking SOCK_SEQPACKET, to the launcher; where nobody records, it is closed.
    #[must_use]
    pub fn sent_over(&self, line: OwnedFd) -> Self {
        let target = match &self.target {
            Target::None => Target::None,
            Target::File(_) | Target::Launcher(_) => Target::Launcher(Mutex::new(line)),
        };
        Self {
            target,
            verbosity: self.verbosity,
            path: None,
        }
    }

    /// Returns the file that events are appended to.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Tells whether anyone records events, so that another process need not send them.
    pub fn is_recording(&self) -> bool {
        !matches!(self.target, Target::None)
    }

    /// Returns how much is said on stderr.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Records one event. A sink that fails is said once on stderr by the launcher, and the
    /// run goes on: an event is a report, never a decision.
    pub fn record(&self, event: &Event<'_>) {
        match &self.target {
            Target::None => {}
            Target::File(writer) => {
                if let Ok(body) = serde_json::value::to_raw_value(event) {
                    write(writer, &now(), &body, event.process.as_ref());
                }
            }
            Target::Launcher(line) => {
                let line = line.lock().unwrap_or_else(PoisonError::into_inner);
                send(&line, event);
            }
        }
    }

    /// Writes an event that one of our own processes sent with [`Audit::sent_over`].
    /// `owner_of` finds the process that holds a socket. Tells whether the sender waits.
    pub(super) fn record_received(
        &self,
        datagram: &[u8],
        owner_of: &dyn Fn(u64) -> Option<Process>,
    ) -> Option<u8> {
        let Target::File(writer) = &self.target else {
            return None;
        };
        let record: Record = serde_json::from_slice(datagram).ok()?;
        let owner = record.socket.and_then(owner_of);
        let process = record.process.or(owner);
        write(writer, &record.time, &record.event, process.as_ref());
        record.socket.map(|_| ANSWER)
    }

    /// Prints lines to stderr under `--debug`: `srt: debug: …`.
    pub fn debug(&self, lines: fmt::Arguments<'_>) {
        self.say(Verbosity::Debug, || {
            let text = format!("debug: {lines}");
            let lines: Vec<_> = text.lines().map(printable).collect();
            lines.join("\n")
        });
    }

    /// Prints one line to stderr under `--verbose`.
    pub fn verbose(&self, line: fmt::Arguments<'_>) {
        self.say(Verbosity::Verbose, || printable(&line.to_string()));
    }

    /// Prints one line to stderr unless it is to be quiet: `srt: warning: …`.
    pub fn warn(&self, line: fmt::Arguments<'_>) {
        self.say(Verbosity::Warnings, || {
            printable(&format!("warning: {line}"))
        });
    }

    fn say(&self, from: Verbosity, text: impl FnOnce() -> String) {
        if self.verbosity >= from {
            // A closed stderr must not end the run.
            drop(writeln!(io::stderr(), "srt: {}", text()));
        }
    }
}

/// How much is said on stderr beside errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Nothing.
    Quiet,
    /// What the caller should know before the command runs.
    Warnings,
    /// Also what is not in force and what was left out.
    Verbose,
    /// Also what is decided.
    Debug,
}

fn write(writer: &Mutex<Writer>, time: &str, event: &RawValue, process: Option<&Process>) {
    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
    let seq = writer.seq;
    let envelope = Envelope {
        v: 1,
        time,
        seq,
        run: &writer.run,
    };
    let envelope = serde_json::to_string(&envelope);
    let (Ok(envelope), Ok(process)) = (envelope, serde_json::to_string(&process)) else {
        return;
    };
    // Both are objects, and become one: the event as it was sent, the envelope before it.
    let head = envelope.strip_suffix('}');
    let event = event.get().strip_prefix('{');
    let event = event.and_then(|event| event.strip_suffix('}'));
    let (Some(head), Some(event)) = (head, event) else {
        return;
    };
    // One write call a line, so that lines of several runs in one file never mix.
    let line = format!("{head},{event},\"process\":{process}}}\n");
    if let Err(error) = write_whole(&writer.file, line.as_bytes())
        && !std::mem::replace(&mut writer.failed, true)
    {
        drop(writeln!(
            io::stderr(),
            "srt: warning: cannot write events: {error}"
        ));
    }
    writer.seq += 1;
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

fn send(line: &OwnedFd, event: &Event<'_>) {
    let Ok(body) = serde_json::value::to_raw_value(event) else {
        return;
    };
    let record = Record {
        time: now(),
        event: body,
        process: event.process.clone(),
        socket: event.socket,
    };
    let Ok(record) = serde_json::to_vec(&record) else {
        return;
    };
    let send = || nix::sys::socket::send(line.as_raw_fd(), &record, MsgFlags::MSG_NOSIGNAL);
    // Other errors mean that the launcher is gone, and this process will be in a moment.
    let sent = repeated(send);
    if sent.is_ok() && event.socket.is_some() {
        let mut answer = [0; 1];
        let receive = || nix::sys::socket::recv(line.as_raw_fd(), &mut answer, MsgFlags::empty());
        // Nothing comes where the launcher is gone.
        let _answered = repeated(receive);
    }
}

/// Calls until no signal interrupts.
fn repeated<T>(mut call: impl FnMut() -> nix::Result<T>) -> nix::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

fn now() -> String {
    let now = OffsetDateTime::now_utc();
    // Microseconds, always six digits, so that lines sort as text.
    let micros = now.microsecond();
    let seconds = now.replace_nanosecond(0).unwrap_or(now);
    let text = seconds.format(&Rfc3339).unwrap_or_default();
    format!("{}.{micros:06}Z", text.trim_end_matches('Z'))
}
