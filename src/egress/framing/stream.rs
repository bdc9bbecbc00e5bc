//! The client's connection as hyper reads it, with every byte followed on the way.

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::super::close::linger;
use super::super::moved::Moved;
use super::super::pace::Pace;
use super::{Aside, Fault, Follower, Found, Verdict};

/// A connection whose requests are followed while they are read.
#[derive(Debug)]
pub(in crate::egress) struct Framed {
    /// Gone once [`Framed::into_inner`] has taken it, which ends this.
    stream: Option<TcpStream>,
    /// What was read before, until it is read here.
    first: Bytes,
    follower: Follower,
    verdicts: Verdicts,
    aside: Aside,
    broken: bool,
    moved: Arc<Moved>,
    reading: Pace,
    writing: Pace,
}

/// The judgements on the heads read so far, one for each, in order.
#[derive(Debug, Clone, Default)]
pub(in crate::egress) struct Verdicts(Arc<Mutex<Queue>>);

#[derive(Debug, Default)]
struct Queue {
    heads: VecDeque<Verdict>,
    /// A head has come whole.
    has_begun: bool,
    body_is_broken: bool,
}

impl Verdicts {
    /// Takes the judgement on the next head. Where there is none, hyper has seen a request
    /// where none was found here, which is smuggling at work.
    pub(in crate::egress) fn next(&self) -> Verdict {
        let missing = Fault::Malformed("a request follows one that was refused");
        self.lock()
            .heads
            .pop_front()
            .unwrap_or(Verdict::Refused(missing))
    }

    /// Tells whether the first head has come, or been refused.
    pub(in crate::egress) fn have_begun(&self) -> bool {
        self.lock().has_begun
    }

    /// Tells whether the body being read broke its own framing.
    pub(in crate::egress) fn body_is_broken(&self) -> bool {
        self.lock().body_is_broken
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Framed {
    /// `first` was read from the stream before; `rate` bounds the bytes a second in each
    /// direction.
    pub(in crate::egress) fn new(
        stream: TcpStream,
        first: Bytes,
        rate: Option<NonZeroU64>,
    ) -> (Self, Verdicts) {
        let verdicts = Verdicts::default();
        let framed = Self {
            stream: Some(stream),
            first,
            follower: Follower::new(),
            verdicts: verdicts.clone(),
            aside: Aside::default(),
            broken: false,
            moved: Arc::new(Moved::new()),
            reading: Pace::new(rate),
            writing: Pace::new(rate),
        };
        (framed, verdicts)
    }

    /// Tells from outside when bytes moved last.
    pub(in crate::egress) fn moved(&self) -> Arc<Moved> {
        Arc::clone(&self.moved)
    }

    /// Returns what writes between the messages.
    pub(in crate::egress) fn aside(&self) -> Aside {
        self.aside.clone()
    }

    /// Returns the connection itself, once nothing on it is a request any more, and what is still
    /// to be read of what was read before.
    pub(in crate::egress) fn into_inner(mut self) -> (TcpStream, Bytes) {
        let first = std::mem::take(&mut self.first);
        (self.stream.take().expect(PRESENT), first)
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(self.get_mut().present())
    }

    fn present(&mut self) -> &mut TcpStream {
        self.stream.as_mut().expect(PRESENT)
    }

    fn wrote(&mut self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(count)) = result {
            self.writing.passed(count);
            self.moved.now();
        }
        result
    }

    /// Reads what was read before, and then what comes.
    fn read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(self.present()).poll_read(cx, buf);
        }
        let count = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first.split_to(count));
        Poll::Ready(Ok(()))
    }

    /// Follows what was just read and returns how much of it hyper may see.
    fn follow(&mut self, bytes: &[u8]) -> usize {
        let mut sound = bytes.len();
        let mut queue = self.verdicts.lock();
        self.follower.follow(bytes, |found| match found {
            Found::Head(verdict) => {
                queue.has_begun = true;
                queue.heads.push_back(verdict);
            }
            Found::BrokenBody(at) => {
                queue.body_is_broken = true;
                self.broken = true;
                sound = at;
            }
        });
        sound
    }
}

impl Drop for Framed {
    fn drop(&mut self) {
        // hyper drops the connection right behind its last answer.
        if let Some(stream) = self.stream.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(linger(stream));
        }
    }
}

impl AsyncRead for Framed {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.broken {
            return Poll::Ready(Err(broken_body()));
        }
        let room = ready!(this.reading.poll_room(cx));
        let before = buf.filled().len();
        let result = match room < buf.remaining() {
            true => {
                let mut part = ReadBuf::new(buf.initialize_unfilled_to(room));
                let result = this.read(cx, &mut part);
                let count = part.filled().len();
                buf.advance(count);
                result
            }
            false => this.read(cx, buf),
        };
        let count = buf.filled().len() - before;
        if matches!(result, Poll::Ready(Ok(()))) && count > 0 {
            this.reading.passed(count);
            this.moved.now();
            let sound = this.follow(&buf.filled()[before..]);
            buf.set_filled(before + sound);
            if sound == 0 {
                return Poll::Ready(Err(broken_body()));
            }
        }
        result
    }
}

impl AsyncWrite for Framed {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let room = ready!(this.writing.poll_room(cx)).min(buf.len());
        let result = Pin::new(this.present()).poll_write(cx, &buf[..room]);
        this.wrote(result)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let total = bufs.iter().map(|buf| buf.len()).sum();
        let room = ready!(this.writing.poll_room(cx));
        let result = match room < total {
            true => {
                let first = bufs.iter().find(|buf| !buf.is_empty());
                let first = first.map_or(&[][..], |buf| &buf[..room.min(buf.len())]);
                Pin::new(this.present()).poll_write(cx, first)
            }
            false => Pin::new(this.present()).poll_write_vectored(cx, bufs),
        };
        this.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().expect(PRESENT).is_write_vectored()
    }

    /// hyper flushes behind what it has written, and whenever it waits for an answer.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while let Some(left) = this.aside.left() {
            let room = ready!(this.writing.poll_room(cx)).min(left.len());
            let result = Pin::new(this.present()).poll_write(cx, &left[..room]);
            match ready!(this.wrote(result))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => this.aside.wrote(count),
            }
        }
        Pin::new(this.present()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

const PRESENT: &str = "only `into_inner` takes the stream, and it consumes this";

fn broken_body() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the body breaks its own framing",
    )
}
