//! Carries bytes between two connections until both ways have ended. Looks at the client's first
//! alone, where the policy wants to know whom they are meant for.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use rustix::net::{Shutdown, shutdown};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep_until};

use super::confirm::{Held, Mismatch, confirm};
use super::pipe::{Lent, Pipes, ROOM};
use crate::policy::network::{Denial, Permit};

/// One end, and what was read from it before the tunnel began.
#[derive(Debug)]
pub(super) struct End {
    pub(super) stream: TcpStream,
    pub(super) read: Bytes,
}

/// Runs a tunnel whose ends have agreed on it, to its end.
pub(super) async fn run(near: End, far: End, pipes: &Pipes) {
    let first = std::future::ready(Ok(near.read));
    // What is not looked at is not held back.
    let _ended = carry(&near.stream, &far.stream, first, far.read, pipes).await;
}

/// Runs a tunnel to its end, or until the client's first bytes show that they are meant for
/// another host than `permit` says. Until then none of them goes on; what the server sends does.
/// `record` is told of that before the client is.
pub(super) async fn run_confirmed(
    near: End,
    far: TcpStream,
    permit: &Permit,
    pipes: &Pipes,
    record: impl FnOnce(&Denial),
) {
    let first = confirm(&near.stream, near.read, permit, HELLO_TIME);
    let carried = carry(&near.stream, &far, first, Bytes::new(), pipes).await;
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
    pipes: &Pipes,
) -> Result<(), Mismatch> {
    let moved = Moved::new();
    let up = async {
        match write(far, &first.await?).await {
            Ok(()) => Ok(pump(near, far, pipes, &moved).await?),
            Err(_) => Ok(()),
        }
    };
    let down = async {
        match write(near, &read).await {
            Ok(()) => Ok(pump(far, near, pipes, &moved).await?),
            Err(_) => Ok(()),
        }
    };
    let ended = tokio::select! {
        ended = async { tokio::try_join!(up, down).map(drop) } => ended,
        () = idle(&moved, IDLE) => Err(Held::Lost),
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

/// Carries one way. Fails when `from` does; when `to` takes no more, the other way may still
/// have its last answer to deliver.
async fn pump(from: &TcpStream, to: &TcpStream, pipes: &Pipes, moved: &Moved) -> io::Result<()> {
    loop {
        from.readable().await?;
        // Nothing is held while there is nothing to carry.
        let round = match pipes.lend() {
            Ok(mut pipe) => splice(from, to, &mut pipe, moved).await,
            // No descriptor is left for a pipe.
            Err(_) => copy(from, to, moved).await,
        };
        match round {
            Ok(Round::Waiting) => {}
            Ok(Round::Unspliceable) => match copy(from, to, moved).await? {
                Round::Ended => return Ok(()),
                Round::Waiting | Round::Unspliceable => {}
            },
            Ok(Round::Ended) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

enum Round {
    /// `from` has nothing at the moment.
    Waiting,
    /// This way is over.
    Ended,
    /// A socket of this kind cannot be spliced (EINVAL), and nothing was taken from it.
    Unspliceable,
}

/// Moves bytes inside the kernel while `from` has any.
async fn splice(
    from: &TcpStream,
    to: &TcpStream,
    pipe: &mut Lent<'_>,
    moved: &Moved,
) -> io::Result<Round> {
    loop {
        match pipe.fill(from) {
            Ok(0) => return Ok(end(to)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Round::Waiting),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Ok(Round::Unspliceable);
            }
            Err(error) => return Err(error),
        }
        if pipe.empty(to).await.is_err() {
            return Ok(Round::Ended);
        }
        moved.now();
        consume_budget().await;
    }
}

/// Moves bytes through memory while `from` has any.
async fn copy(from: &TcpStream, to: &TcpStream, moved: &Moved) -> io::Result<Round> {
    let mut buffer = vec![0; ROOM / 4];
    loop {
        let count = match from.try_read(&mut buffer) {
            Ok(0) => return Ok(end(to)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Round::Waiting),
            Err(error) => return Err(error),
        };
        if write(to, &buffer[..count]).await.is_err() {
            return Ok(Round::Ended);
        }
        moved.now();
        consume_budget().await;
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

/// Waits until nothing has moved for `limit`.
async fn idle(moved: &Moved, limit: Duration) {
    while moved.at().elapsed() < limit {
        sleep_until(moved.at() + limit).await;
    }
}

async fn after_error(a: &TcpStream, b: &TcpStream, moved: &Moved) {
    tokio::select! {
        _ = a.ready(Interest::ERROR) => {}
        _ = b.ready(Interest::ERROR) => {}
    }
    idle(moved, GRACE).await;
}

/// When bytes moved last, either way.
struct Moved {
    begun: Instant,
    millis: AtomicU64,
}

impl Moved {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            millis: AtomicU64::new(0),
        }
    }

    fn now(&self) {
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }

    fn at(&self) -> Instant {
        self.begun + Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }
}

/// How long nothing may move before a connection is taken for dead.
pub(super) const IDLE: Duration = Duration::from_secs(3600);

/// How long a client may take to complete the hello it has begun.
const HELLO_TIME: Duration = Duration::from_secs(10);

/// How long bytes read before a reset may still be on their way.
const GRACE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
