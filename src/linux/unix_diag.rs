//! Asks the kernel which Unix sockets of a network namespace listen at which inode.
//!
//! A socket that lives keeps its inode, so that the answer cannot be about a file that took
//! the number of another. See sock_diag(7).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// A netlink socket for `UNIX_DIAG`, which tells of the namespace it was made in.
#[derive(Debug)]
pub(crate) struct UnixDiag(Mutex<OwnedFd>);

/// The device and inode of a place, as the kernel counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) dev: u32,
    pub(crate) ino: u32,
}

/// What one datagram of an answer says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Part {
    holds_inode: bool,
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

    /// Tells whether a socket of the namespace listens at `inode`.
    pub(crate) fn listens_at(&self, inode: Inode) -> io::Result<bool> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send(&*socket, &request(), SendFlags::empty())?;
        let mut buffer = vec![0; BUFFER];
        let mut found = false;
        loop {
            let (len, _) = recv(&*socket, buffer.as_mut_slice(), RecvFlags::empty())?;
            let part = part(&buffer[..len], inode)?;
            found |= part.holds_inode;
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

impl Inode {
    /// Returns the inode of `place`; `None` where the kernel's answer could be about another.
    ///
    /// `UNIX_DIAG` tells 32 bits of the inode number, and the device of the whole file system:
    /// a file system with several trees of numbers shows other devices in `stat`.
    pub(crate) fn of(place: &rustix::fs::Stat) -> Option<Self> {
        let (major, minor) = (
            rustix::fs::major(place.st_dev),
            rustix::fs::minor(place.st_dev),
        );
        Some(Self {
            // dev_t inside the kernel: 12 bits and 20 bits.
            dev: major << 20 | minor,
            ino: u32::try_from(place.st_ino).ok()?,
        })
    }
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

/// Looks for `inode` in one datagram of an answer.
fn part(mut bytes: &[u8], inode: Inode) -> io::Result<Part> {
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
            Some(SOCK_DIAG_BY_FAMILY) => part.holds_inode |= place(message) == Some(inode),
            _ => {}
        }
        bytes = bytes.get(aligned(len)..).unwrap_or_default();
    }
    Ok(part)
}

/// Reads the inode a socket is bound to out of its message.
fn place(message: &[u8]) -> Option<Inode> {
    let mut attributes = message.get(MESSAGE..)?;
    loop {
        let len = usize::from(u16_at(attributes, 0)?);
        let value = attributes.get(ATTRIBUTE..len)?;
        if u16_at(attributes, 2)? == UNIX_DIAG_VFS {
            let (ino, dev) = (u32_at(value, 0)?, u32_at(value, 4)?);
            return Some(Inode { dev, ino });
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
