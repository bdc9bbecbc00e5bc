//! How the proxies' process records: it sends each event to the launcher.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use super::event::{Event, Process, Verdict};
use super::now;

/// What is sent: the launcher alone knows sequence and run, and what process holds a socket.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) time: String,
    /// Events that found no room on the line since the last one.
    pub(super) lost: u64,
    /// `null` where nothing but the loss is told.
    pub(super) event: Box<RawValue>,
    pub(super) process: Option<Process>,
    pub(super) question: Option<Question>,
}

/// Asks who holds the socket with an inode. The sender waits for the number to come back: the
/// process waits for an answer too, and is there as long.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) socket: u64,
    pub(super) number: u32,
}

/// An event on its way, while the process that holds its socket is looked for.
#[must_use = "a client that has its answer may end before it is found"]
#[derive(Debug, Default)]
pub(crate) struct Recorded(Option<oneshot::Receiver<()>>);

impl Recorded {
    /// Tells whether nobody is looked for, so that there is nothing to wait for.
    pub(crate) fn is_attributed(&self) -> bool {
        self.0.is_none()
    }

    /// Waits until the process has been found, or for as long as that is worth.
    pub(crate) async fn attributed(self) {
        if let Some(found) = self.0 {
            let _in_time = tokio::time::timeout(PATIENCE, found).await;
        }
    }
}

/// The sending end of a line to the launcher.
#[derive(Debug)]
pub(super) struct Sender {
    line: Arc<Line>,
    /// Sends every event and asks who it was, where anybody wants that.
    clerk: Option<OnceLock<Option<Clerk>>>,
}

/// The line, and how many events found no room on it since the last one.
#[derive(Debug)]
struct Line {
    end: OwnedFd,
    lost: AtomicU64,
    /// Whether this process is about to end, and waits for a launcher that reads no more once.
    is_ending: AtomicBool,
}

/// A thread that sends what others record, so that none of them waits for the launcher.
#[derive(Debug)]
struct Clerk {
    letters: SyncSender<Letter>,
    thread: JoinHandle<()>,
}

/// What the thread is given.
#[derive(Debug)]
struct Letter {
    record: Record,
    socket: Option<u64>,
    found: oneshot::Sender<()>,
}

/// Longest that one event waits for its process to be found; the launcher looks no longer either.
const PATIENCE: Duration = Duration::from_millis(20);

/// Most events that wait for the thread.
const MOST: usize = 1024;

const STACK: usize = 128 << 10;

impl Sender {
    /// Sends every event, or denials alone, for which nobody asks the process.
    pub(super) fn new(end: OwnedFd, sends_all: bool) -> Self {
        let line = Line {
            end,
            lost: AtomicU64::new(0),
            is_ending: AtomicBool::new(false),
        };
        Self {
            line: Arc::new(line),
            clerk: sends_all.then(OnceLock::new),
        }
    }

    pub(super) fn sends_all(&self) -> bool {
        self.clerk.is_some()
    }

    pub(super) fn record(&self, event: &Event<'_>) -> Recorded {
        if !self.sends_all() && event.verdict != Some(Verdict::Denied) {
            return Recorded::default();
        }
        let Ok(body) = serde_json::value::to_raw_value(event) else {
            return Recorded::default();
        };
        let record = Record {
            time: now(),
            lost: 0,
            event: body,
            process: event.process.clone(),
            question: None,
        };
        match self.clerk() {
            Some(clerk) => clerk.take(record, event.socket, &self.line),
            None => {
                self.line.send(record, MsgFlags::MSG_DONTWAIT);
                Recorded::default()
            }
        }
    }

    /// Returns the thread, which starts with the first event: most commands make none.
    fn clerk(&self) -> Option<&Clerk> {
        let start = || Clerk::start(Arc::clone(&self.line)).ok();
        self.clerk.as_ref()?.get_or_init(start).as_ref()
    }
}

impl Drop for Sender {
    /// Has everything sent, and what was lost told last: there is nothing left to hold up.
    fn drop(&mut self) {
        let clerk = self.clerk.take().and_then(OnceLock::into_inner);
        if let Some(Clerk { letters, thread }) = clerk.flatten() {
            self.line.is_ending.store(true, Ordering::Relaxed);
            drop(letters);
            let _ended = thread.join();
        }
        if self.line.lost.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.line.limit();
        let record = Record {
            time: now(),
            lost: 0,
            event: RawValue::NULL.to_owned(),
            process: None,
            question: None,
        };
        self.line.send(record, MsgFlags::empty());
    }
}

impl Clerk {
    fn start(line: Arc<Line>) -> io::Result<Self> {
        let (letters, taken) = mpsc::sync_channel(MOST);
        let thread = thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn(move || line.deliver(taken))?;
        Ok(Self { letters, thread })
    }

    fn take(&self, record: Record, socket: Option<u64>, line: &Line) -> Recorded {
        let (found, waits) = oneshot::channel();
        let letter = Letter {
            record,
            socket,
            found,
        };
        match self.letters.try_send(letter) {
            Ok(()) => Recorded(socket.map(|_| waits)),
            Err(_) => {
                line.lost.fetch_add(1, Ordering::Relaxed);
                Recorded::default()
            }
        }
    }
}

impl Line {
    /// Sends one event after the other, each of which gets its own answer.
    fn deliver(&self, letters: mpsc::Receiver<Letter>) {
        self.limit();
        let mut letters = (1..=u32::MAX).cycle().zip(letters);
        while let Some((number, letter)) = letters.next() {
            let is_ending = || self.is_ending.load(Ordering::Relaxed);
            // At the end those who asked are gone.
            let asked = letter.socket.filter(|_| !is_ending());
            let question = asked.map(|socket| Question { socket, number });
            let record = Record {
                question,
                ..letter.record
            };
            let is_sent = self.send(record, MsgFlags::empty());
            if is_sent && question.is_some() {
                self.wait_for(number);
            }
            let _still_there = letter.found.send(());
            if !is_sent && is_ending() {
                let left = letters.by_ref().map(|_| 1).sum();
                self.lost.fetch_add(left, Ordering::Relaxed);
            }
        }
    }

    /// Bounds how long the launcher is waited for: it may be stopped.
    fn limit(&self) {
        let micros = i64::from(PATIENCE.subsec_micros());
        let _limited = setsockopt(&self.end, sockopt::ReceiveTimeout, &TimeVal::new(0, micros));
        let _limited = setsockopt(
            &self.end,
            sockopt::SendTimeout,
            &TimeVal::new(0, micros * 10),
        );
    }

    /// Sends one event with the count of those lost before it; tells whether it went.
    fn send(&self, record: Record, flags: MsgFlags) -> bool {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let counts = u64::from(record.event.get() != RawValue::NULL.get());
        let sent = serde_json::to_vec(&Record { lost, ..record }).is_ok_and(|record| {
            let (fd, flags) = (self.end.as_raw_fd(), flags | MsgFlags::MSG_NOSIGNAL);
            repeated(|| nix::sys::socket::send(fd, &record, flags)).is_ok()
        });
        // Errors other than of room mean that the launcher is gone, and this process will be in
        // a moment.
        if !sent {
            self.lost.fetch_add(lost + counts, Ordering::Relaxed);
        }
        sent
    }

    /// Waits for the answer with a number; one to an earlier question came too late for it.
    fn wait_for(&self, number: u32) {
        let fd = self.end.as_raw_fd();
        let mut answer = [0; 4];
        let mut receive = || {
            let received = repeated(|| nix::sys::socket::recv(fd, &mut answer, MsgFlags::empty()));
            received.map(|len| (len == answer.len()).then(|| u32::from_ne_bytes(answer)))
        };
        while let Ok(Some(answered)) = receive()
            && answered != number
        {}
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
