//! Interim answers (1xx; RFC 9110, 15.2). hyper keeps those of a server to itself; so they are
//! taken out before it reads them, and go to the client as they came.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedSender;

use super::super::framing::{MAX_HEAD, field};
use super::headers;

/// A connection to a server as hyper reads it.
#[derive(Debug)]
pub(super) struct Upstream {
    stream: TcpStream,
    wanted: Wanted,
    /// The beginning of an answer, until it shows of which kind it is.
    held: Vec<u8>,
    /// How far no end of a head was found in it: where a line begins.
    line: usize,
    /// What hyper is to read before anything else.
    ready: Bytes,
}

/// Who gets the interim answers to the request that is under way on a connection, if any.
#[derive(Debug, Clone, Default)]
pub(in crate::egress) struct Wanted(Arc<Mutex<Option<Sink>>>);

/// Takes the interim answers to one request, each with its empty line.
#[derive(Debug, Clone)]
pub(super) struct Sink {
    to: UnboundedSender<Bytes>,
    /// hyper tells the client itself that it may go on.
    skips_continue: bool,
    /// Bytes that may still come: together they have the room of one head.
    room: usize,
}

/// Why a connection on which interim answers came is of no use.
#[derive(Debug)]
pub(super) struct Broken(&'static str);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Broken {}

impl Broken {
    /// Finds this among the causes of an error of hyper.
    pub(super) fn cause_of(error: &hyper::Error) -> Option<&'static str> {
        let io = std::error::Error::source(error)?.downcast_ref::<io::Error>()?;
        io.get_ref()?.downcast_ref::<Self>().map(|broken| broken.0)
    }
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        Self::new(io::ErrorKind::InvalidData, broken)
    }
}

impl Wanted {
    /// Has those to the next request go to `sink`.
    pub(super) fn by(&self, sink: Option<Sink>) {
        *self.lock() = sink;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Sink>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink {
    pub(super) fn new(to: UnboundedSender<Bytes>, skips_continue: bool) -> Self {
        Self {
            to,
            skips_continue,
            room: MAX_HEAD,
        }
    }
}

/// What the first bytes of an answer say.
enum Kind {
    /// More are needed to tell.
    Unknown,
    Interim,
    /// The answer itself, a switch of protocols, or nothing that hyper will read.
    Final,
}

impl Upstream {
    pub(super) fn new(stream: TcpStream) -> (Self, Wanted) {
        let wanted = Wanted::default();
        let upstream = Self {
            stream,
            wanted: wanted.clone(),
            held: Vec::new(),
            line: 0,
            ready: Bytes::new(),
        };
        (upstream, wanted)
    }

    /// Returns the connection itself, and what was read of it and not by hyper.
    pub(super) fn into_inner(self) -> (TcpStream, Bytes) {
        (self.stream, self.ready)
    }

    /// Looks at what comes until the answer itself begins.
    fn poll_look(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = [0; ROOM];
        let mut buffer = ReadBuf::new(&mut buffer);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        self.held.extend_from_slice(buffer.filled());
        let mut wanted = self.wanted.lock();
        let is_over = match &mut *wanted {
            Some(sink) if !buffer.filled().is_empty() => {
                take_out(sink, &mut self.held, &mut self.line)?
            }
            _ => true,
        };
        if is_over {
            *wanted = None;
            self.line = 0;
            self.ready = std::mem::take(&mut self.held).into();
        }
        Poll::Ready(Ok(()))
    }
}

/// Takes the interim answers out of the beginning of `held`, where `line` is where no more than
/// a line begins; tells whether another answer follows.
fn take_out(sink: &mut Sink, held: &mut Vec<u8>, line: &mut usize) -> Result<bool, Broken> {
    loop {
        match kind(held) {
            Kind::Unknown => return Ok(false),
            Kind::Final => return Ok(true),
            Kind::Interim => {}
        }
        let Some(end) = end_of_head(held, line)? else {
            return match held.len() < sink.room {
                true => Ok(false),
                false => Err(TOO_MUCH),
            };
        };
        sink.room = sink.room.checked_sub(end).ok_or(TOO_MUCH)?;
        let is_continue = held[STATUS..].starts_with(b"100");
        let head = onward(&held[..end])?;
        held.drain(..end);
        *line = 0;
        if !(is_continue && sink.skips_continue) {
            // Who asked may be gone.
            let _sent = sink.to.send(head);
        }
    }
}

fn kind(bytes: &[u8]) -> Kind {
    let start = &bytes[..bytes.len().min(START.len())];
    let is_like = |(byte, like): (&u8, &u8)| match like {
        b'?' => byte.is_ascii_digit(),
        like => byte == like,
    };
    match start.iter().zip(START).all(is_like) {
        true if start.len() < START.len() => Kind::Unknown,
        true if !start.ends_with(b"101") => Kind::Interim,
        _ => Kind::Final,
    }
}

/// Finds the end of a head whose lines all end in CR LF.
fn end_of_head(bytes: &[u8], line: &mut usize) -> Result<Option<usize>, Broken> {
    while let Some(length) = bytes[*line..].iter().position(|byte| *byte == b'\n') {
        let (text, end) = (&bytes[*line..*line + length], *line + length + 1);
        match text {
            b"\r" => return Ok(Some(end)),
            [.., b'\r'] => *line = end,
            _ => return Err(MALFORMED),
        }
    }
    Ok(None)
}

/// Returns an interim head as the client gets it: without what concerns the connection to the
/// server, and without a length, which it cannot have (RFC 9110, 8.6).
fn onward(head: &[u8]) -> Result<Bytes, Broken> {
    let text = head.strip_suffix(b"\r\n\r\n").ok_or(MALFORMED)?;
    let lines = text.split(|byte| *byte == b'\n');
    let mut lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let status = lines.next().and_then(|status| status.get(VERSION.len()..));
    let status = status.ok_or(MALFORMED)?;
    let is_sound = |byte: &u8| matches!(byte, b'\t' | 0x20..=0x7e | 0x80..);
    if !matches!(status.get(4), None | Some(b' ')) || !status.iter().all(is_sound) {
        return Err(MALFORMED);
    }
    let mut named = Vec::new();
    let mut kept = HeaderMap::new();
    for line in lines {
        let (name, value) = field(line).map_err(|_| MALFORMED)?;
        let name = HeaderName::from_bytes(name).map_err(|_| MALFORMED)?;
        let value = HeaderValue::from_bytes(value).map_err(|_| MALFORMED)?;
        kept.try_append(&name, value).map_err(|_| TOO_MUCH)?;
        named.push((name, line));
    }
    headers::strip(&mut kept);
    kept.remove(CONTENT_LENGTH);
    let mut onward = [VERSION, status, b"\r\n"].concat();
    for (name, line) in named {
        if kept.contains_key(name) {
            onward.extend([line, b"\r\n"].concat());
        }
    }
    onward.extend(b"\r\n");
    Ok(onward.into())
}

impl AsyncRead for Upstream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.ready.is_empty() {
            let is_wanted = this.wanted.lock().is_some();
            if !is_wanted && this.held.is_empty() {
                return Pin::new(&mut this.stream).poll_read(cx, buf);
            }
            ready!(this.poll_look(cx))?;
        }
        let count = this.ready.len().min(buf.remaining());
        buf.put_slice(&this.ready.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upstream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// How an interim answer begins, `?` for any digit; 101 is none.
const START: &[u8] = b"HTTP/1.? 1??";
/// Where the status stands in it.
const STATUS: usize = 9;
const VERSION: &[u8] = b"HTTP/1.1";

/// Bytes that are looked at, at once.
const ROOM: usize = 4 * 1024;

const MALFORMED: Broken = Broken("it sends a malformed interim answer");
const TOO_MUCH: Broken = Broken("it sends more than 64 KiB of interim answers");

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` in pieces; returns what is taken out, and what is left behind that.
    fn read(text: &str, size: usize) -> Result<(Vec<Bytes>, Option<String>), &'static str> {
        let (to, mut taken) = tokio::sync::mpsc::unbounded_channel();
        let mut sink = Sink::new(to, false);
        let (mut held, mut line) = (Vec::new(), 0);
        let mut is_over = false;
        for piece in text.as_bytes().chunks(size) {
            held.extend_from_slice(piece);
            is_over =
                is_over || take_out(&mut sink, &mut held, &mut line).map_err(|broken| broken.0)?;
        }
        let rest = is_over.then(|| String::from_utf8(held).expect("it was text"));
        Ok((std::iter::from_fn(|| taken.try_recv().ok()).collect(), rest))
    }

    #[test]
    fn interim_answers_are_taken_out_as_they_came() {
        let interim = [
            "HTTP/1.1 103 Early Hints\r\nLink: </a>;  rel=preload\r\nlink:</b>\r\nX-Empty:\r\n\r\n",
            "HTTP/1.1 102 Processing\r\n\r\n",
            "HTTP/1.1 110\r\n\r\n",
            "HTTP/1.1 199 \r\n\r\n",
        ];
        for answer in [
            "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 102 x\r\n\r\n",
            "HTTP/1.1 101 x\r\n\r\n",
            "\r\n",
        ] {
            let text = format!("{}{answer}", interim.concat());
            for size in [1, 7, text.len()] {
                let taken = interim.map(Bytes::from).to_vec();
                assert_eq!(read(&text, size), Ok((taken, Some(answer.to_owned()))));
            }
        }
        assert_eq!(read("HTTP/1.1 10", 1), Ok((vec![], None)));
    }

    #[test]
    fn what_concerns_one_connection_alone_is_left_out() {
        let text = "HTTP/1.0 103 x\r\nConnection: X-Own\r\nx-own: 1\r\nA: b\r\nProxy-X: 1\r\n\
                    X-Proxy-Error: 1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\
                    UPGRADE: h2c\r\n\r\n";
        let taken = vec![Bytes::from("HTTP/1.1 103 x\r\nA: b\r\n\r\n")];
        assert_eq!(read(text, text.len()), Ok((taken, None)));
    }

    #[test]
    fn what_can_be_read_in_two_ways_and_floods_break_the_connection() {
        for head in [
            "103 x\nA: b\n\n",
            "103 x\r\nA: b\n\r\n",
            "103 x\rA: b\r\n\r\n",
            "103x\r\n\r\n",
            "103 x\r\nA\r\n\r\n",
            "103 x\r\nA : b\r\n\r\n",
            "103 x\r\n A: b\r\n\r\n",
            "103 x\r\nA: b\rc: d\r\n\r\n",
            "103 x\r\nA: \0\r\n\r\n",
        ] {
            for size in [1, head.len()] {
                let broken = read(&format!("HTTP/1.1 {head}"), size);
                assert_eq!(broken, Err(MALFORMED.0), "{head:?}");
            }
        }
        let one = "HTTP/1.1 102 Processing\r\n\r\n";
        let most = MAX_HEAD / one.len();
        assert!(read(&one.repeat(most), 4096).is_ok());
        assert_eq!(read(&one.repeat(most + 1), 4096), Err(TOO_MUCH.0));
        let long = format!("HTTP/1.1 103 x\r\nA: {}", "b".repeat(MAX_HEAD));
        assert_eq!(read(&long, 4096), Err(TOO_MUCH.0));
    }
}
