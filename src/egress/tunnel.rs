//! Carries bytes between two connections until both ways have ended. Looks at the client's first
//! alone, where the policy wants to know whom they are meant for.

use std::future::Future;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use rustix::net::{Shutdown, shutdown};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;

use super::confirm::{Held, Mismatch, confirm};
use super::moved::Moved;
use super::pace::Pace;
use super::pipe::{Lent, Pipes, ROOM};
use crate::policy::network::{Denial, Limits, Permit};

/// What a tunnel carries with, and up to which limits.
pub(super) type Means<'a> = (&'a Pipes, Limits);

/// One end, and what was read from it before the tunnel began.
#[derive(Debug)]
pub(super) struct End {
    pub(super) stream: TcpStream,
    pub(super) read: Bytes,
}

/// Runs a tunnel whose ends have agreed on it, to its end.
pub(super) async fn run(near: End, far: End, means: Means<'_>) {
    let first = std::future::ready(Ok(near.read));
    // What is not looked at is not held back.
    let _ended = carry(&near.stream, &far.stream, first, far.read, means).await;
}

/// Runs a tunnel to its end, or until the client's first bytes show that they are meant for
/// another host than `permit` says. Until then none of them goes on; what the server sends does.
/// `record` is told of that before the client is.
pub(super) async fn run_confirmed(
    near: End,
    far: TcpStream,
    permit: &Permit,
    means: Means<'_>,
    record: impl FnOnce(&Denial),
) {
    let first = confirm(&near.stream, near.read, permit, means.1.head);
    let carried = carry(&near.stream, &far, first, Bytes::new(), means).await;
    drop(far);
    if let Err(mismatch) = carried {
        record(&mismatch.denial);
        mismatch.turn_away(near.stream).await;
    }
}

/// Carries bytes both ways: to `far` what comes after `first` and from `near`, to `near` `read`
/// and what comes from `far`. Half-closed stays half-closed; a reset ends both sides.
async fn carry(
    near: &TcpStream,
    far: &TcpStream,
    first: impl Future<Output = Result<Bytes, Held>>,
    read: Bytes,
    (pipes, limits): Means<'_>,
) -> Result<(), Mismatch> {
    let moved = Moved::new();
    let way = |from, to| Way {
        from,
        to,
        pipes,
        moved: &moved,
        pace: Pace::new(limits.rate),
    };
    let up = async { Ok(way(near, far).run(&first.await?).await?) };
    let down = async { Ok(way(far, near).run(&read).await?) };
    let ended = tokio::select! {
        ended = async { tokio::try_join!(up, down).map(drop) } => ended,
        () = moved.idle(limits.idle) => Err(Held::Lost),
        // A direction blocked on its own peer does not notice that the other one is gone.
        () = after_error(near, far, &moved) => Err(Held::Lost),
    };
    match ended {
        Ok(()) => Ok(()),
        Err(Held::Mismatch(mismatch)) => Err(mismatch),
        Err(Held::Lost) => {
            // A plain close would look like a complete transfer. A socket that is gone already
            // cannot take the option, and need not.
            let _reset = (near.set_zero_linger(), far.set_zero_linger());
            Ok(())
        }
    }
}

/// One way through a tunnel.
struct Way<'a> {
    from: &'a TcpStream,
    to: &'a TcpStream,
    pipes: &'a Pipes,
    moved: &'a Moved,
    pace: Pace,
}

enum Round {
    /// `from` has to be asked for more.
    Waiting,
    /// This way is over.
    Ended,
    /// What comes next cannot be spliced (EINVAL), and nothing was taken of it.
    Unspliceable,
}

impl Way<'_> {
    /// Carries `read`, and then everything that comes. Fails when `from` does; when `to` takes no
    /// more, the other way may still have its last answer to deliver.
    async fn run(mut self, read: &[u8]) -> io::Result<()> {
        if write(self.to, read).await.is_err() {
            return Ok(());
        }
        self.pace.passed(read.len());
        self.moved.now();
        loop {
            self.from.readable().await?;
            // Nothing is held while there is nothing to carry.
            let round = match self.pipes.lend() {
                Ok(mut pipe) => self.splice(&mut pipe).await?,
                // No descriptor is left for a pipe.
                Err(_) => Round::Unspliceable,
            };
            let round = match round {
                Round::Unspliceable => self.copy().await?,
                round => round,
            };
            if matches!(round, Round::Ended) {
                return Ok(());
            }
        }
    }

    /// Moves bytes inside the kernel while `from` has any.
    async fn splice(&mut self, pipe: &mut Lent<'_>) -> io::Result<Round> {
        loop {
            match pipe.fill(self.from, self.pace.room().await) {
                Ok(0) => return Ok(end(self.to)),
                Ok(count) => self.pace.passed(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Round::Waiting);
                }
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    return Ok(Round::Unspliceable);
                }
                Err(error) => return Err(error),
            }
            if pipe.empty(self.to).await.is_err() {
                return Ok(Round::Ended);
            }
            self.moved.now();
            consume_budget().await;
        }
    }

    /// Moves bytes through memory, as many as come at once.
    async fn copy(&mut self) -> io::Result<Round> {
        let mut buffer = vec![0; ROOM / 4];
        let room = self.pace.room().await.min(buffer.len());
        let count = match self.from.try_read(&mut buffer[..room]) {
            Ok(0) => return Ok(end(self.to)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Round::Waiting),
            Err(error) => return Err(error),
        };
        self.pace.passed(count);
        if write(self.to, &buffer[..count]).await.is_err() {
            return Ok(Round::Ended);
        }
        self.moved.now();
        consume_budget().await;
        Ok(Round::Waiting)
    }
}

async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Passes the end of one way on. A peer that is gone needs no telling.
fn end(to: &TcpStream) -> Round {
    let _told = shutdown(to, Shutdown::Write);
    Round::Ended
}

async fn after_error(a: &TcpStream, b: &TcpStream, moved: &Moved) {
    tokio::select! {
        _ = a.ready(Interest::ERROR) => {}
        _ = b.ready(Interest::ERROR) => {}
    }
    moved.idle(GRACE).await;
}

/// How long bytes read before a reset may still be on their way.
const GRACE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
