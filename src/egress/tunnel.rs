//! Carries bytes between two connections until both ways have ended. Looks at none of them.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep_until};

use super::pipe::{Lent, Pipes, ROOM};

/// One end, and what was read from it before the tunnel began.
#[derive(Debug)]
pub(super) struct End {
    pub(super) stream: TcpStream,
    pub(super) read: bytes::Bytes,
}

/// Runs the tunnel to its end. Half-closed stays half-closed; a reset ends both sides.
pub(super) async fn run(mut a: End, mut b: End, pipes: &Pipes) {
    let begun = async {
        b.stream.write_all(&a.read).await?;
        a.stream.write_all(&b.read).await
    };
    if begun.await.is_err() {
        return;
    }
    let (a, b) = (a.stream, b.stream);
    let moved = Moved::new();
    let both = async {
        tokio::try_join!(pump(&a, &b, pipes, &moved), pump(&b, &a, pipes, &moved)).map(drop)
    };
    let ended = tokio::select! {
        ended = both => ended,
        () = idle(&moved, IDLE) => Err(io::ErrorKind::TimedOut.into()),
        // A direction blocked on its own peer does not notice that the other one is gone.
        () = after_error(&a, &b, &moved) => Err(io::ErrorKind::ConnectionReset.into()),
    };
    if ended.is_err() {
        // A plain close would look like a complete transfer. A socket that is gone already
        // cannot take the option, and need not.
        let _reset = (a.set_zero_linger(), b.set_zero_linger());
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
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            to.writable().await?;
            match to.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Ok(Round::Ended),
            }
        }
        moved.now();
        consume_budget().await;
    }
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

/// How long bytes read before a reset may still be on their way.
const GRACE: Duration = Duration::from_secs(10);
