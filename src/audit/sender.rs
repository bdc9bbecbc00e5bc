//! How the proxies' process records: it sends each event to the launcher.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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

/// Longest that an event waits for its process to be found; the launcher looks no longer either.
const PATIENCE: Duration = Duration::from_millis(20);

/// The sending end of a line to the launcher.
#[derive(Debug)]
pub(super) struct Sender {
    /// One event at a time, so that each gets its own answer.
    state: Mutex<State>,
    sends_all: bool,
}

#[derive(Debug)]
struct State {
    line: OwnedFd,
    lost: u64,
    questions: u32,
}

impl Sender {
    /// Sends every event, or denials alone, for which nobody asks the process.
    pub(super) fn new(line: OwnedFd, sends_all: bool) -> Self {
        let (micros, seconds) = (i64::from(PATIENCE.subsec_micros()), 0);
        // Without it an event waits as long as the launcher is stopped.
        let patience = TimeVal::new(seconds, micros);
        let _limited = setsockopt(&line, sockopt::ReceiveTimeout, &patience);
        let state = Mutex::new(State {
            line,
            lost: 0,
            questions: 0,
        });
        Self { state, sends_all }
    }

    pub(super) fn sends_all(&self) -> bool {
        self.sends_all
    }

    pub(super) fn record(&self, event: &Event<'_>) {
        if !self.sends_all && event.verdict != Some(Verdict::Denied) {
            return;
        }
        let Ok(body) = serde_json::value::to_raw_value(event) else {
            return;
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let question = event.socket.filter(|_| self.sends_all).map(|socket| {
            state.questions = state.questions.wrapping_add(1);
            Question {
                socket,
                number: state.questions,
            }
        });
        let record = Record {
            time: now(),
            lost: state.lost,
            event: body,
            process: event.process.clone(),
            question,
        };
        let Ok(record) = serde_json::to_vec(&record) else {
            return;
        };
        let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let fd = state.line.as_raw_fd();
        match repeated(|| nix::sys::socket::send(fd, &record, flags)) {
            Ok(_) => state.lost = 0,
            // The data path waits for nobody. Other errors mean that the launcher is gone, and
            // this process will be in a moment.
            Err(_) => return state.lost += 1,
        }
        if let Some(question) = question {
            wait_for(question.number, &state.line);
        }
    }
}

impl Drop for Sender {
    /// Tells what was lost last: there is nothing left to hold up.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.lost == 0 {
            return;
        }
        let record = Record {
            time: now(),
            lost: state.lost,
            event: RawValue::NULL.to_owned(),
            process: None,
            question: None,
        };
        let patience = TimeVal::new(0, i64::from(PATIENCE.subsec_micros()) * 10);
        let _limited = setsockopt(&state.line, sockopt::SendTimeout, &patience);
        if let Ok(record) = serde_json::to_vec(&record) {
            let fd = state.line.as_raw_fd();
            let send = || nix::sys::socket::send(fd, &record, MsgFlags::MSG_NOSIGNAL);
            let _sent = repeated(send);
        }
    }
}

/// Waits for the answer with a number; one to an earlier question came too late for it.
fn wait_for(number: u32, line: &OwnedFd) {
    let mut answer = [0; 4];
    let mut receive = || {
        let received =
            repeated(|| nix::sys::socket::recv(line.as_raw_fd(), &mut answer, MsgFlags::empty()));
        received.map(|len| (len == answer.len()).then(|| u32::from_ne_bytes(answer)))
    };
    while let Ok(Some(answered)) = receive()
        && answered != number
    {}
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
