//! What `fuzz/` and the seeded tests ask of the parsers: any bytes, and what must hold of them.

use super::framing::{Follower, Found};
use super::hello::{LIMIT, Reader};
use crate::policy::hostname::Host;
use crate::policy::network::Hello;

/// Bytes of an HTTP connection: found the same in any pieces.
pub fn head(bytes: &[u8]) {
    let follow = |size: usize| {
        let mut follower = Follower::new();
        let mut found = Vec::new();
        for piece in bytes.chunks(size) {
            follower.follow(piece, |one| {
                found.push(match one {
                    Found::Head(verdict) => Some(verdict),
                    // Where it broke is told by the line, which begins in another piece.
                    Found::BrokenBody(_) => None,
                });
            });
        }
        found
    };
    let whole = follow(bytes.len().max(1));
    for size in [1, 3, 64] {
        assert_eq!(follow(size), whole, "in pieces of {size}");
    }
    let broken = whole.iter().position(Option::is_none);
    assert!(broken.is_none_or(|at| at + 1 == whole.len()), "{whole:?}");
}

/// First bytes of a tunnel: read the same in any pieces, to a host in its canonical form.
pub fn hello(bytes: &[u8]) {
    let read = |size: usize| {
        let mut reader = Reader::default();
        bytes.chunks(size).find_map(|piece| reader.feed(piece))
    };
    let whole = read(bytes.len().max(1));
    for size in [1, 7] {
        assert_eq!(read(size), whole, "in pieces of {size}");
    }
    match whole {
        None => assert!(bytes.len() <= LIMIT),
        Some(Hello::Named(host)) => {
            assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
            let said = host.to_string();
            assert!(said.is_ascii() && said.len() <= 253, "{said}");
        }
        Some(_) => {}
    }
}

/// A greeting and a request of SOCKS5: taken or refused, to a target in its canonical form.
#[cfg(feature = "socks")]
pub fn socks(bytes: &[u8]) {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use socks5_proto::{Request, handshake};

    use crate::policy::hostname::Target;

    let mut rest = bytes;
    let read = async {
        handshake::Request::read_from(&mut rest).await.ok()?;
        Request::read_from(&mut rest).await.ok()
    };
    let Poll::Ready(request) = pin!(read).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("bytes in memory are waited for");
    };
    if let Some(request) = request
        && let Ok(target) = super::socks::target(&request.address)
    {
        assert_eq!(Target::parse(&target.to_string(), None), Ok(target));
    }
}

#[cfg(test)]
mod tests;
