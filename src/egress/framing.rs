//! Follows the framing of requests on the raw bytes, and tells which heads are ambiguous.
//!
//! hyper reads messages, and forgives some forms silently: a `Content-Length` beside
//! `Transfer-Encoding`, bare line feeds. A peer that reads those differently would see another
//! request than the one judged here (request smuggling), so they are refused.

mod aside;
mod head;
mod stream;

pub(super) use aside::Aside;
pub(super) use head::{Fault, LIMIT as MAX_HEAD, Verdict, field};
pub(super) use stream::{Framed, Verdicts};

use head::{Body, Head};

/// The state machine. Fed every byte once, in order; keeps one line at most.
#[derive(Debug)]
pub(super) struct Follower {
    state: State,
    line: Line,
}

#[derive(Debug)]
enum State {
    Head(Head),
    Length(u64),
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers {
        left: usize,
    },
    /// Nothing behind this is a request any more: a tunnel, or a refused head.
    Opaque,
}

/// What happened within the bytes given to [`Follower::follow`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A head is complete, or refused.
    Head(Verdict),
    /// A body breaks its own framing at this offset.
    BrokenBody(usize),
}

impl Follower {
    pub(super) fn new() -> Self {
        Self {
            state: State::Head(Head::default()),
            line: Line::default(),
        }
    }

    /// Takes the next bytes and reports what is found in them, in order.
    pub(super) fn follow(&mut self, bytes: &[u8], mut found: impl FnMut(Found)) {
        let mut at = 0;
        while at < bytes.len() {
            match self.step(&bytes[at..]) {
                Step::Took(count) => at += count,
                Step::Head(count, verdict) => {
                    at += count;
                    found(Found::Head(verdict));
                }
                Step::BrokenBody => {
                    self.state = State::Opaque;
                    found(Found::BrokenBody(at));
                    return;
                }
            }
        }
    }

    fn step(&mut self, bytes: &[u8]) -> Step {
        match &mut self.state {
            State::Opaque => Step::Took(bytes.len()),
            State::Length(left) | State::Chunk(left) => {
                let count = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                *left -= count as u64;
                if *left == 0 {
                    self.state = match self.state {
                        State::Chunk(_) => State::ChunkEnd,
                        _ => State::Head(Head::default()),
                    };
                }
                Step::Took(count)
            }
            State::Head(_) => self.head(bytes),
            State::ChunkSize | State::ChunkEnd | State::Trailers { .. } => self.chunk_line(bytes),
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Step {
        let State::Head(head) = &mut self.state else {
            return Step::Took(0);
        };
        let (count, line) = match self.line.read(bytes, head.room()) {
            Ok(Progress::Partial(count)) => return Step::Took(count),
            Ok(Progress::Line(count, line)) => (count, line),
            Err(fault) => {
                self.state = State::Opaque;
                return Step::Head(bytes.len(), Verdict::Refused(fault));
            }
        };
        match head.line(line) {
            Ok(None) => Step::Took(count),
            Ok(Some(body)) => {
                self.state = match body {
                    Body::None | Body::Length(0) => State::Head(Head::default()),
                    Body::Length(length) => State::Length(length),
                    Body::Chunked => State::ChunkSize,
                    Body::Tunnel => State::Opaque,
                };
                Step::Head(count, Verdict::Sound)
            }
            Err(fault) => {
                self.state = State::Opaque;
                Step::Head(bytes.len(), Verdict::Refused(fault))
            }
        }
    }

    fn chunk_line(&mut self, bytes: &[u8]) -> Step {
        let room = match self.state {
            State::Trailers { left } => left,
            _ => CHUNK_LINE,
        };
        let (count, line) = match self.line.read(bytes, room) {
            Ok(Progress::Partial(count)) => return Step::Took(count),
            Ok(Progress::Line(count, line)) => (count, line),
            Err(_) => return Step::BrokenBody,
        };
        let next = match self.state {
            State::ChunkSize => chunk_size(line).map(|size| match size {
                0 => State::Trailers { left: TRAILERS },
                size => State::Chunk(size),
            }),
            State::ChunkEnd => line.is_empty().then_some(State::ChunkSize),
            State::Trailers { .. } if line.is_empty() => Some(State::Head(Head::default())),
            State::Trailers { left } => field(line).ok().map(|_| State::Trailers {
                left: left.saturating_sub(line.len() + 2),
            }),
            _ => None,
        };
        match next {
            Some(state) => {
                self.state = state;
                Step::Took(count)
            }
            None => Step::BrokenBody,
        }
    }
}

enum Step {
    Took(usize),
    Head(usize, Verdict),
    BrokenBody,
}

/// The bytes of a line that has begun in an earlier read.
#[derive(Debug, Default)]
struct Line(Vec<u8>);

enum Progress<'a> {
    Partial(usize),
    Line(usize, &'a [u8]),
}

impl Line {
    /// Reads up to the end of one line, which is CR LF and nothing else.
    fn read(&mut self, bytes: &[u8], room: usize) -> Result<Progress<'_>, Fault> {
        // A new line begins where the last one, still kept for the caller to look at, ended.
        if self.0.ends_with(b"\r\n") {
            self.0.clear();
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(bytes.len(), |end| end + 1);
        if self.0.len() + count > room {
            return Err(Fault::TooLarge);
        }
        self.0.extend_from_slice(&bytes[..count]);
        if end.is_none() {
            return Ok(Progress::Partial(count));
        }
        match self.0.as_slice() {
            [line @ .., b'\r', b'\n'] if !line.contains(&b'\r') => Ok(Progress::Line(count, line)),
            _ => Err(Fault::Malformed("a line does not end in CR LF")),
        }
    }
}

/// Parses a chunk's size, with an extension or not. More than 15 digits is no size to believe.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let end = line
        .iter()
        .position(|byte| !byte.is_ascii_hexdigit())
        .unwrap_or(line.len());
    let (digits, extension) = line.split_at(end);
    let extension = extension.trim_ascii_start();
    let sound = extension.is_empty() || extension.starts_with(b";");
    let printable = extension
        .iter()
        .all(|byte| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..));
    if !(1..=15).contains(&digits.len()) || !sound || !printable {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

const CHUNK_LINE: usize = 4 * 1024;
const TRAILERS: usize = 16 * 1024;

#[cfg(test)]
mod tests;
