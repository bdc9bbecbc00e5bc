//! Carries bytes between two connections until both ways have ended. Looks at the client's first
//! alone, where the policy wants to know whom they are meant for.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rustix::net::{Shutdown, shutdown};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;

use super::confirm::{Held, Mismatch, confirm};
use super::moved::Moved;
use super::pace::Pace;
use super::pipe::{Lent, Pipes};
use super::reading;
use crate::policy::network::{Limits, Permit};

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
    let first = pin!(std::future::ready(Ok(near.read)));
    // What is not looked at is not held back.
    let _ended = carry(&near.stream, &far.stream, first, &far.read, means).await;
}

/// Runs a tunnel to its end, or until the client's first bytes show that they are meant for
/// another host than `permit` says. Until then none of them goes on; what the server sends does.
///
/// # Errors
/// The client means another host, and has not been told yet.
pub(super) async fn run_confirmed(
    near: End,
    far: TcpStream,
    permit: &Permit,
    means: Means<'_>,
) -> Result<(), (Mismatch, TcpStream)> {
    let carried = {
        let first = pin!(confirm(&near.stream, near.read, permit, means.1.head));
        carry(&near.stream, &far, first, &[], means).await
    };
    drop(far);
    carried.map_err(|mismatch| (mismatch, near.stream))
}

/// Carries bytes both ways: to `far` what comes after `first` and from `near`, to `near` `read`
/// and what comes from `far`. Half-closed stays half-closed; a reset ends both sides.
///
/// What it waits for stays where it is made: a future that is passed on takes room twice, and
/// there are thousands of tunnels.
async fn carry(
    near: &TcpStream,
    far: &TcpStream,
    first: Pin<&mut impl Future<Output = Result<Bytes, Held>>>,
    read: &[u8],
    (pipes, limits): Means<'_>,
) -> Result<(), Mismatch> {
    let moved = Moved::new();
    let one_ended = AtomicBool::new(false);
    let way = |from, to| Way {
        from,
        to,
        pipes,
        moved: &moved,
        one_ended: &one_ended,
        pace: Pace::new(limits.rate),
    };
    let (mut upwards, mut downwards) = (way(near, far), way(far, near));
    let up = pin!(async { Ok(upwards.run(&first.await?).await?) });
    let down = pin!(async { Ok(downwards.run(read).await?) });
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
    /// One of both ways has come to its end.
    one_ended: &'a AtomicBool,
    pace: Pace,
}

enum Round {
    /// `from` has to be asked for more.
    Waiting,
    /// `from` had as much as was asked for, and may have much more.
    Full,
    /// This way is over.
    Ended,
    /// What comes next cannot be spliced (EINVAL), and nothing was taken of it.
    Unspliceable,
}

impl Way<'_> {
    /// Carries `read`, and then everything that comes. Fails when `from` does; when `to` takes no
    /// more, the other way may still have its last answer to deliver.
    async fn run(&mut self, read: &[u8]) -> io::Result<()> {
        if write(self.to, read).await.is_err() {
            return Ok(());
        }
        self.pace.passed(read.len());
        self.moved.now();
        // Little is copied with fewer system calls than it is spliced with, and much with more.
        let mut is_much = false;
        loop {
            self.from.readable().await?;
            let round = match is_much {
                true => self.splice().await?,
                false => Round::Unspliceable,
            };
            let round = match round {
                Round::Unspliceable => self.copy().await?,
                round => round,
            };
            match round {
                Round::Ended => return Ok(()),
                Round::Full => is_much = true,
                Round::Waiting | Round::Unspliceable => is_much = false,
            }
        }
    }

    /// Moves bytes inside the kernel while `from` has any.
    async fn splice(&mut self) -> io::Result<Round> {
        // Nothing is held while there is nothing to carry.
        let Ok(mut pipe) = self.pipes.lend() else {
            // No descriptor is left for a pipe.
            return Ok(Round::Unspliceable);
        };
        let mut sum = 0;
        loop {
            match self.fill(&mut pipe).await {
                Ok(0) => return Ok(self.end()),
                Ok(count) => sum += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(match sum < COPIED {
                        true => Round::Waiting,
                        false => Round::Full,
                    });
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

    async fn fill(&mut self, pipe: &mut Lent<'_>) -> io::Result<usize> {
        let count = pipe.fill(self.from, self.pace.room().await)?;
        self.pace.passed(count);
        Ok(count)
    }

    /// Moves bytes through memory, as many as come at once.
    async fn copy(&mut self) -> io::Result<Round> {
        let room = self.pace.room().await.min(COPIED);
        let copied = match self.copy_now(room) {
            Ok(copied) => copied,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Round::Waiting),
            Err(error) => return Err(error),
        };
        if copied.count == 0 {
            return Ok(self.end());
        }
        self.pace.passed(copied.count);
        if write(self.to, &copied.left).await.is_err() {
            return Ok(Round::Ended);
        }
        self.moved.now();
        consume_budget().await;
        Ok(match copied.count < COPIED {
            true => Round::Waiting,
            false => Round::Full,
        })
    }

    /// Copies what is there, and writes of it what is taken at once.
    fn copy_now(&self, room: usize) -> io::Result<Copied> {
        reading::now(self.from, room, |read| {
            let written = match read {
                [] => 0,
                // The attempt to write the rest tells what is wrong.
                read => write_now(self.to, read).unwrap_or(0),
            };
            Copied {
                count: read.len(),
                left: read[written..].to_vec(),
            }
        })
    }

    /// Passes the end of this way on. A peer that is gone needs no telling, and one that is
    /// about to be closed is told by that.
    fn end(&self) -> Round {
        if !self.one_ended.swap(true, Ordering::Relaxed) {
            let _told = shutdown(self.to, Shutdown::Write);
        }
        Round::Ended
    }
}

/// What was copied in one attempt.
struct Copied {
    count: usize,
    /// The part that is still to be written.
    left: Vec<u8>,
}

pub(super) async fn write(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match write_now(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn after_error(a: &TcpStream, b: &TcpStream, moved: &Moved) {
    tokio::select! {
        _ = a.ready(Interest::ERROR) => {}
        _ = b.ready(Interest::ERROR) => {}
    }
    moved.idle(GRACE).await;
}

/// Writes what is taken at once. Not by `send`, whose flags the filters of the proxies look at;
/// that a peer is gone raises no signal, since SIGPIPE is ignored.
fn write_now(to: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    to.try_io(Interest::WRITABLE, || Ok(rustix::io::write(to, bytes)?))
}

/// Most bytes that are copied at once; where there are more, splicing costs less.
const COPIED: usize = reading::ROOM;

/// How long bytes read before a reset may still be on their way.
const GRACE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
