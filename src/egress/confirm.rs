//! Holds back what a client sends into a tunnel until it shows where it is meant to go.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::close::linger;
use super::hello::Reader;
use super::{reading, requested};
use crate::policy::network::{Denial, Hello, Permit};

/// Why nothing of what the client sent went on.
#[derive(Debug)]
pub(super) enum Held {
    /// It is not meant for the host that was permitted.
    Mismatch(Mismatch),
    /// The connection failed.
    Lost,
}

/// That a client means another host than was permitted.
#[derive(Debug)]
pub(super) struct Mismatch {
    pub(super) denial: Denial,
    /// What the client expects to be answered in.
    spoken: Spoken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    Tls,
    Http,
    Other,
}

impl Spoken {
    fn of(hello: &Hello) -> Self {
        match hello {
            Hello::Named(_) | Hello::Nameless | Hello::Undecidable(_) => Self::Tls,
            Hello::Requested(_) | Hello::Unclear(_) => Self::Http,
            Hello::Other => Self::Other,
        }
    }
}

impl Mismatch {
    /// Closes the client's connection, in its own language where that is known: a bare end
    /// would be taken for a fault of the network.
    pub(super) async fn turn_away(self, client: TcpStream) {
        let misdirected;
        let answer = match self.spoken {
            Spoken::Tls => UNRECOGNIZED_NAME,
            Spoken::Http => {
                misdirected = misdirected_request(&self.denial);
                misdirected.as_bytes()
            }
            Spoken::Other => &[],
        };
        // One attempt: a client that does not even take this is not worth a wait.
        let _sent = client.try_write(answer);
        linger(client).await;
    }
}

impl From<io::Error> for Held {
    fn from(_: io::Error) -> Self {
        Self::Lost
    }
}

/// Reads from `near`, of which `read` was read before, as much as it takes to tell which host it
/// is meant for, and returns it all if that is the permitted one.
///
/// A client that says nothing is waited for as long as the caller likes: in many protocols the
/// server speaks first. One that has begun a hello has `limit` to complete it.
pub(super) async fn confirm(
    near: &TcpStream,
    read: Bytes,
    permit: &Permit,
    limit: Duration,
) -> Result<Bytes, Held> {
    if !permit.must_be_confirmed() {
        return Ok(read);
    }
    let mut held = Vec::from(read);
    let mut reader = Reader::default();
    let mut found = reader.feed(&held);
    let mut deadline = None;
    let hello = loop {
        if let Some(hello) = found {
            break hello;
        }
        if !held.is_empty() {
            deadline.get_or_insert_with(|| Instant::now() + limit);
        }
        let before = held.len();
        match more(near, &mut held, deadline).await {
            Ok(0) if held.is_empty() => return Ok(Bytes::new()),
            Ok(0) => break Hello::Undecidable("ends early"),
            Ok(_) => found = reader.feed(&held[before..]),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                break Hello::Undecidable("did not come whole in time");
            }
            Err(error) => return Err(error.into()),
        }
    };
    let hello = match hello {
        // It says nothing of a host where it is no request either.
        Hello::Other => request_in(near, &mut held, limit).await?,
        tls => tls,
    };
    match permit.confirm_hello(&hello) {
        Ok(()) => Ok(Bytes::from(held)),
        Err(denial) => Err(Held::Mismatch(Mismatch {
            denial,
            spoken: Spoken::of(&hello),
        })),
    }
}

/// Reads on while `held` may be the head of a request. One that is not complete within `limit`,
/// or ends, says nothing: other protocols may begin in the same way.
async fn request_in(near: &TcpStream, held: &mut Vec<u8>, limit: Duration) -> Result<Hello, Held> {
    let deadline = Some(Instant::now() + limit);
    loop {
        if let Some(found) = requested::read(held) {
            return Ok(found);
        }
        match more(near, held, deadline).await {
            Ok(0) => return Ok(Hello::Other),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(Hello::Other),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The answer of RFC 9110, 15.5.20.
fn misdirected_request(denial: &Denial) -> String {
    let text = format!("srt: {}\n", denial.message());
    format!(
        "HTTP/1.1 421 Misdirected Request\r\nContent-Type: text/plain\r\n\
         X-Proxy-Error: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
        denial.proxy_error,
        text.len()
    )
}

/// Appends what comes next to `held`; 0 is the end.
async fn more(
    near: &TcpStream,
    held: &mut Vec<u8>,
    deadline: Option<Instant>,
) -> io::Result<usize> {
    let late = async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    // A tunnel that waits for the server holds nothing.
    let read = async {
        let next = reading::next(near, <[u8]>::to_vec).await?;
        let count = next.len();
        match held.is_empty() {
            true => *held = next,
            false => held.extend(next),
        }
        Ok(count)
    };
    tokio::select! {
        done = read => done,
        () = late => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// A fatal alert (RFC 8446, 6; RFC 6066, 3).
const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 2, 112];
