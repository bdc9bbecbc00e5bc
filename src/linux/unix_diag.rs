//! Asks the kernel which Unix sockets of a network namespace listen at which inode.
//!
//! A socket that lives keeps its inode, so that the answer cannot be about a file that took
//! the number of one that is gone. See sock_diag(7).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// A netlink socket for `UNIX_DIAG`, which tells of the namespace it was made in.
#[derive(Debug)]
pub(crate) struct UnixDiag(Mutex<OwnedFd>);

/// A socket that listens at a place in the file tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listening {
    /// What no other socket has or had.
    pub(crate) cookie: u64,
    /// The device of the whole file system that it is bound in.
    pub(crate) dev: u32,
    /// The lower half of the number of the inode that it is bound to.
    pub(crate) ino: u32,
}

/// What one datagram of an answer says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Part {
    listening: Vec<Listening>,
    is_last: bool,
}

// From linux/netlink.h, linux/sock_diag.h, linux/unix_diag.h and net/tcp_states.h.
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_DUMP: u16 = 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_UNIX: u8 = 1;
const TCP_LISTEN: u32 = 10;
const UDIAG_SHOW_VFS: u32 = 2;
const UNIX_DIAG_VFS: u16 = 1;

/// Sizes of `struct nlmsghdr`, of `struct unix_diag_msg` and of `struct rtattr`.
const HEADER: usize = 16;
const MESSAGE: usize = 16;
const ATTRIBUTE: usize = 4;

/// The kernel puts at most 32 KiB into one datagram of a dump.
const BUFFER: usize = 64 * 1024;

impl UnixDiag {
    /// Takes a socket made by [`open`], maybe in another namespace.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(socket))
    }

    /// Looks at the socket itself.
    pub(crate) fn with_socket<T>(&self, look: impl FnOnce(BorrowedFd<'_>) -> T) -> T {
        look(
            self.0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_fd(),
        )
    }

    /// Returns the sockets of the namespace that listen at an inode with this lower half.
    pub(crate) fn listening_at(&self, ino: u32) -> io::Result<Vec<Listening>> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send(&*socket, &request(), SendFlags::empty())?;
        let mut buffer = vec![0; BUFFER];
        let mut found = Vec::new();
        loop {
            let (len, _) = recv(&*socket, buffer.as_mut_slice(), RecvFlags::empty())?;
            let part = part(&buffer[..len], ino)?;
            found.extend(part.listening);
            // The rest is read all the same: the next question must not get this answer.
            if part.is_last {
                return Ok(found);
            }
        }
    }
}

/// Opens a netlink socket for [`UnixDiag`] in the network namespace of this process.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let protocol = Some(netlink::SOCK_DIAG);
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    Ok(socket_with(AddressFamily::NETLINK, kind, flags, protocol)?)
}

/// Asks for every listening socket, with its place in the file tree.
fn request() -> Vec<u8> {
    let len: u32 = 40;
    let mut bytes = Vec::new();
    bytes.extend(len.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    // Sequence number and sender are of no use: one request at a time.
    bytes.extend([0; 8]);
    // struct unix_diag_req: family, protocol, padding, states, inode, what to show, cookie.
    bytes.extend([AF_UNIX, 0, 0, 0]);
    bytes.extend((1_u32 << TCP_LISTEN).to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(UDIAG_SHOW_VFS.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

/// Looks for `ino` in one datagram of an answer.
fn part(mut bytes: &[u8], ino: u32) -> io::Result<Part> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let mut part = Part::default();
    while !bytes.is_empty() {
        let len = usize::try_from(u32_at(bytes, 0).ok_or_else(malformed)?);
        let len = len.map_err(|_| malformed())?;
        let message = bytes.get(HEADER..len).ok_or_else(malformed)?;
        match u16_at(bytes, 4) {
            Some(NLMSG_DONE) => part.is_last = true,
            Some(NLMSG_ERROR) => {
                let errno = u32_at(message, 0).ok_or_else(malformed)?.cast_signed();
                return Err(io::Error::from_raw_os_error(-errno));
            }
            Some(SOCK_DIAG_BY_FAMILY) => {
                let listening = listening(message).filter(|listening| listening.ino == ino);
                part.listening.extend(listening);
            }
            _ => {}
        }
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
    }
    Ok(part)
}

/// Reads one message; `None` for a socket that has no place in the file tree.
fn listening(message: &[u8]) -> Option<Listening> {
    let cookie = u64::from(u32_at(message, 8)?) | u64::from(u32_at(message, 12)?) << 32;
    let mut attributes = message.get(MESSAGE..)?;
    loop {
        let len = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE..len)?;
        if u16_at(attributes, 2)? == UNIX_DIAG_VFS {
            return Some(Listening {
                cookie,
                ino: u32_at(value, 0)?,
                dev: u32_at(value, 4)?,
            });
        }
        attributes = attributes.get(aligned(len)..)?;
    }
}

fn aligned(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(HEADER + body.len()).unwrap();
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        bytes
    }

    /// A socket with the cookie 0x0200_0000_0001, bound or not.
    fn socket(place: Option<(u32, u32)>) -> Vec<u8> {
        let mut body = vec![AF_UNIX, 1, 10, 0];
        body.extend([7_u32, 1, 0x200].map(u32::to_ne_bytes).concat());
        if let Some((ino, dev)) = place {
            body.extend([12, UNIX_DIAG_VFS].map(u16::to_ne_bytes).concat());
            body.extend([ino, dev].map(u32::to_ne_bytes).concat());
        }
        message(SOCK_DIAG_BY_FAMILY, &body)
    }

    #[test]
    fn sockets_bound_to_a_number_are_found_among_others_on_every_device() {
        let sockets = [Some((5, 1)), None, Some((6, 1)), Some((5, 2))].map(socket);
        let mut bytes = sockets.concat();
        assert!(!part(&bytes, 5).unwrap().is_last);
        bytes.extend(message(NLMSG_DONE, &[0; 4]));
        let part = part(&bytes, 5).unwrap();
        assert!(part.is_last);
        let cookie = 0x0200_0000_0001;
        let found = [1, 2].map(|dev| Listening {
            cookie,
            dev,
            ino: 5,
        });
        assert_eq!(part.listening, found);
    }

    #[test]
    fn an_answer_that_is_cut_off_or_an_error_is_one() {
        let bytes = socket(Some((5, 1)));
        assert!(part(&bytes[..bytes.len() - 1], 5).is_err());
        let refused = message(NLMSG_ERROR, &(-libc::ENOENT).to_ne_bytes());
        let error = part(&refused, 5).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }
}
