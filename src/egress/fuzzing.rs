//! What `fuzz/` and the seeded tests ask of the parsers: any bytes, and what must hold of them.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};

use simple_dns::{Packet, PacketFlag, RCODE};

use super::dns::message::{self, Answer, Names, Refused};
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

/// A question for a name: answered, if at all, in a message that fits, is one, and says addresses
/// of names that lead somewhere alone.
pub fn dns(bytes: &[u8]) {
    const LIMIT: usize = 512;
    let world = World::default();
    let Some(answer) = message::answer(bytes, LIMIT, &world) else {
        return;
    };
    assert!(answer.len() <= LIMIT, "{answer:?}");
    assert_eq!(answer[..2], bytes[..2], "the number of the question");
    let parsed = Packet::parse(&answer).expect("what is sent is a message");
    assert!(parsed.has_flags(PacketFlag::RESPONSE));
    assert!(parsed.questions.len() <= 1 && parsed.answers.len() <= 1);
    let leads_somewhere = world.found.get() || parsed.answers.is_empty();
    assert!(leads_somewhere, "{parsed:?}");
    assert!(parsed.rcode() == RCODE::NoError || parsed.answers.is_empty());
}

/// Knows one name and its address.
#[derive(Default)]
struct World {
    found: Cell<bool>,
}

impl Names for World {
    fn look_up(&self, host: &Host) -> Answer {
        assert_eq!(Host::parse(&host.to_string()), Ok(host.clone()));
        let is_known = matches!(host, Host::Name(name) if name == "a.test");
        self.found.set(is_known);
        match is_known {
            true => Answer::Addresses(Ipv4Addr::LOCALHOST, None),
            false => Answer::Denied("not listed".to_owned()),
        }
    }

    fn name_of(&self, address: IpAddr) -> Option<String> {
        self.found.set(address.is_loopback());
        address.is_loopback().then(|| "a.test".to_owned())
    }

    fn refused(&self, _: &str, _: Refused) {}
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
