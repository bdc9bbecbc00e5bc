//! Pipes that carry bytes from socket to socket inside the kernel, lent while bytes are in them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Empty pipes waiting for work.
#[derive(Debug, Default)]
pub(super) struct Pipes(Mutex<Vec<Pipe>>);

#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

/// A pipe on loan. Goes back when it is empty; one that holds bytes is closed, since they
/// would turn up in another connection.
#[derive(Debug)]
pub(super) struct Lent<'a> {
    pipe: Option<Pipe>,
    filled: usize,
    pipes: &'a Pipes,
}

/// Room of a pipe: large enough that system calls cost little, small enough that the kernel's
/// share of a user without privileges (64 MiB) serves 256 busy directions.
pub(super) const ROOM: usize = 256 * 1024;

/// Empty pipes kept; more in use at once are made and closed.
const KEPT: usize = 16;

impl Pipes {
    /// Lends an empty pipe.
    pub(super) fn lend(&self) -> io::Result<Lent<'_>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let pipe = match kept {
            Some(pipe) => pipe,
            None => Pipe::new()?,
        };
        Ok(Lent {
            pipe: Some(pipe),
            filled: 0,
            pipes: self,
        })
    }
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC)?;
        // Over the user's share the kernel says EPERM, and the pipe stays small but works.
        let _resized = fcntl_setpipe_size(&write, ROOM);
        Ok(Self { read, write })
    }
}

impl Lent<'_> {
    /// Moves what `from` has, `room` bytes at most, into the empty pipe; 0 is its end,
    /// `WouldBlock` that it has nothing now, `InvalidInput` that what it has must be read.
    pub(super) fn fill(&mut self, from: &TcpStream, room: usize) -> io::Result<usize> {
        let Some(pipe) = &self.pipe else { return Ok(0) };
        let room = room.min(ROOM);
        let count = from.try_io(Interest::READABLE, || {
            match splice(from, None, &pipe.write, None, room, FLAGS) {
                // Either is also what splice says at urgent data, which it never passes.
                Ok(0) | Err(Errno::AGAIN) => match has_more(from)? {
                    true => Err(Errno::INVAL.into()),
                    false => Ok(0),
                },
                spliced => Ok(spliced?),
            }
        })?;
        self.filled += count;
        Ok(count)
    }

    /// Moves everything in the pipe into `to`, waiting for room there.
    pub(super) async fn empty(&mut self, to: &TcpStream) -> io::Result<()> {
        while self.filled > 0
            && let Some(pipe) = &self.pipe
        {
            let room = self.filled;
            let moved = to
                .async_io(Interest::WRITABLE, || {
                    Ok(splice(&pipe.read, None, to, None, room, FLAGS)?)
                })
                .await?;
            self.filled = self.filled.saturating_sub(moved);
        }
        Ok(())
    }
}

/// Tells whether there are bytes to read; `WouldBlock` where there may be some later.
fn has_more(from: &TcpStream) -> io::Result<bool> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let (count, _) = recv(from, &mut [0_u8], flags)?;
    Ok(count > 0)
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut kept = self.pipes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipe) = self.pipe.take()
            && self.filled == 0
            && kept.len() < KEPT
        {
            kept.push(pipe);
        }
    }
}

/// Both ends never block: one that did would hold up every connection.
const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);
