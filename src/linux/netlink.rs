//! Requests to the kernel as netlink(7) messages, answered one by one.

pub(crate) mod capture;

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

// From linux/netlink.h.
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_CREATE: u16 = 0x400;
const NLM_F_APPEND: u16 = 0x800;
const NLMSG_ERROR: u16 = 2;
const NLA_F_NESTED: u16 = 0x8000;

/// Sizes of `struct nlmsghdr` and of `struct nlattr`.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;

/// The kernel aligns messages and attributes to this; see netlink(3).
const ALIGNMENT: usize = 4;

/// Messages that are sent together, each with the answer that is expected of it.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    answers: usize,
}

impl Batch {
    /// Adds the request to create something behind what is there, which the kernel answers.
    fn create(&mut self, kind: u16, body: &[u8]) {
        let flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK;
        self.push(kind, flags, body);
        self.answers += 1;
    }

    /// Adds a message without an answer.
    fn mark(&mut self, kind: u16, body: &[u8]) {
        self.push(kind, NLM_F_REQUEST, body);
    }

    fn push(&mut self, kind: u16, flags: u16, body: &[u8]) {
        let len = u32::try_from(HEADER + body.len()).expect("messages here are short");
        self.bytes.extend(len.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        // Sequence number and sender are of no use: answers come in order.
        self.bytes.extend([0; 8]);
        self.bytes.extend(body);
        let aligned = self.bytes.len().next_multiple_of(ALIGNMENT);
        self.bytes.resize(aligned, 0);
    }

    /// Sends everything and returns what became of each request, in their order.
    fn send(&self, socket: &OwnedFd) -> io::Result<Vec<io::Result<()>>> {
        send(socket, &self.bytes, SendFlags::empty())?;
        let mut outcomes = Vec::with_capacity(self.answers);
        let mut buffer = [0; 4096];
        while outcomes.len() < self.answers {
            // The kernel answers within the call that sends: what is not there never comes.
            let (len, _) = recv(socket, buffer.as_mut_slice(), RecvFlags::DONTWAIT)?;
            outcomes.extend(outcomes_in(&buffer[..len])?);
        }
        Ok(outcomes)
    }

    /// Sends everything, which is done as a whole or not at all.
    fn send_all(&self, socket: &OwnedFd) -> io::Result<()> {
        self.send(socket)?.into_iter().collect()
    }
}

/// Opens a socket for the network namespace of this process.
fn open(protocol: Option<Protocol>) -> io::Result<OwnedFd> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    Ok(socket_with(family, kind, SocketFlags::CLOEXEC, protocol)?)
}

/// Reads the outcomes in one datagram.
fn outcomes_in(mut bytes: &[u8]) -> io::Result<Vec<io::Result<()>>> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let mut outcomes = Vec::new();
    while let Some(header) = bytes.first_chunk::<HEADER>() {
        let [a, b, c, d, kind @ ..] = *header;
        let len = usize::try_from(u32::from_ne_bytes([a, b, c, d])).map_err(|_| malformed())?;
        let body = bytes.get(HEADER..len).ok_or_else(malformed)?;
        if u16::from_ne_bytes([kind[0], kind[1]]) != NLMSG_ERROR {
            return Err(malformed());
        }
        let errno = body.first_chunk().ok_or_else(malformed)?;
        outcomes.push(match i32::from_ne_bytes(*errno) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        });
        bytes = bytes
            .get(len.next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
    }
    match outcomes.is_empty() {
        true => Err(malformed()),
        false => Ok(outcomes),
    }
}

/// One attribute of a message.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(ATTRIBUTE + value.len()).expect("attributes here are short");
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes
}

/// An attribute that holds others.
fn nested(kind: u16, attributes: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NLA_F_NESTED, &attributes.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(errno: i32) -> Vec<u8> {
        let mut bytes = 36_u32.to_ne_bytes().to_vec();
        bytes.extend(NLMSG_ERROR.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend((-errno).to_ne_bytes());
        bytes.resize(36, 0);
        bytes
    }

    #[test]
    fn each_request_has_its_outcome_in_order() {
        let bytes = [answer(0), answer(libc::EPERM)].concat();
        let outcomes = outcomes_in(&bytes).unwrap();
        let errnos: Vec<_> = outcomes
            .iter()
            .map(|outcome| outcome.as_ref().err().and_then(io::Error::raw_os_error))
            .collect();
        assert_eq!(errnos, [None, Some(libc::EPERM)]);
    }

    #[test]
    fn what_is_no_outcome_is_an_error() {
        let mut other = answer(0);
        other[4] = 20;
        assert!(outcomes_in(&other).is_err());
        assert!(outcomes_in(&[]).is_err());
        let cut_off = answer(0);
        assert!(outcomes_in(&cut_off[..cut_off.len() - 8]).is_err());
    }

    #[test]
    fn attributes_are_padded_and_say_their_own_length() {
        assert_eq!(
            attribute(3, b"srt\0"),
            [&[8, 0, 3, 0], &b"srt\0"[..]].concat()
        );
        assert_eq!(attribute(7, b"a"), [5, 0, 7, 0, b'a', 0, 0, 0]);
        assert_eq!(nested(1, &[attribute(2, &[9])])[2..4], [1, 0x80]);
    }
}
