//! Copies bytes both ways between two connections without bringing them into this process.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Size of a pipe. An unprivileged user has 64 MiB of pipes in all (`pipe-user-pages-soft`).
const PIPE_SIZE: usize = 256 * 1024;

/// Pipes kept while nobody uses them.
const KEPT_PIPES: usize = 8;

/// A tunnel on which nothing moves for this long, either way, is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(3600);

/// Pipes that are lent while bytes are in flight, so that an idle tunnel holds none.
#[derive(Debug, Default)]
pub(super) struct Pipes(Mutex<Vec<Pipe>>);

/// A pipe, empty between uses.
#[derive(Debug)]
struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipes {
    fn lend(&self) -> io::Result<Pipe> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.map_or_else(Pipe::new, Ok)
    }

    fn take_back(&self, pipe: Pipe) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_PIPES {
            kept.push(pipe);
        }
    }
}

impl Pipe {
    fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Over the user's limit the pipe keeps its first size, and is only slower.
        let _size = fcntl_setpipe_size(&write, PIPE_SIZE);
        Ok(Self { read, write })
    }
}

/// One end of a tunnel, with what was read of it before the tunnel began.
#[derive(Debug)]
pub(super) struct End {
    pub(super) stream: TcpStream,
    pub(super) read: Bytes,
}

impl From<TcpStream> for End {
    fn from(stream: TcpStream) -> Self {
        Self {
            stream,
            read: Bytes::new(),
        }
    }
}

/// Copies until both sides have ended; the end of one side is passed on to the other, which
/// may still answer. An error on either side ends both.
pub(super) async fn run(pipes: &Pipes, mut a: End, mut b: End) -> io::Result<()> {
    b.stream.write_all(&std::mem::take(&mut a.read)).await?;
    a.stream.write_all(&std::mem::take(&mut b.read)).await?;
    let activity = Activity::new();
    tokio::try_join!(
        copy(pipes, &a.stream, &b.stream, &activity),
        copy(pipes, &b.stream, &a.stream, &activity),
    )
    .map(drop)
}

async fn copy(
    pipes: &Pipes,
    from: &TcpStream,
    to: &TcpStream,
    activity: &Activity,
) -> io::Result<()> {
    loop {
        wait_until_readable(from, activity).await?;
        let pipe = pipes.lend()?;
        // On an error the pipe may hold bytes, and is dropped with them.
        let open = drain(&pipe, from, to, activity).await?;
        pipes.take_back(pipe);
        if !open {
            rustix::net::shutdown(to, Shutdown::Write)?;
            return Ok(());
        }
    }
}

/// Moves what can be read now; returns false once `from` has ended.
async fn drain(
    pipe: &Pipe,
    from: &TcpStream,
    to: &TcpStream,
    activity: &Activity,
) -> io::Result<bool> {
    loop {
        let filled = from.try_io(Interest::READABLE, || {
            move_bytes(from, &pipe.write, PIPE_SIZE)
        });
        let mut left = match filled {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        while left > 0 {
            let moved = to.async_io(Interest::WRITABLE, || move_bytes(&pipe.read, to, left));
            left -= timeout(IDLE_LIMIT, moved).await??;
        }
        activity.note();
    }
}

fn move_bytes(
    from: &impl std::os::fd::AsFd,
    to: &impl std::os::fd::AsFd,
    count: usize,
) -> io::Result<usize> {
    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
    Ok(splice(from, None, to, None, count, flags)?)
}

async fn wait_until_readable(from: &TcpStream, activity: &Activity) -> io::Result<()> {
    loop {
        match timeout(IDLE_LIMIT, from.readable()).await {
            Ok(readable) => return readable,
            // The other direction may have been busy all the while.
            Err(_) if activity.is_recent() => {}
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// When bytes last moved, either way.
#[derive(Debug)]
struct Activity {
    start: Instant,
    last: AtomicU64,
}

impl Activity {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
        }
    }

    fn note(&self) {
        self.last
            .store(self.start.elapsed().as_secs(), Ordering::Relaxed);
    }

    fn is_recent(&self) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        self.start.elapsed().as_secs().saturating_sub(last) < IDLE_LIMIT.as_secs()
    }
}
