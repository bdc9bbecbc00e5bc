//! The line between launcher and init: one SOCK_SEQPACKET pair for the whole run.
//!
//! Its end of file is the death pipe of both: when one side is gone, the other ends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::failure::Failure;
use crate::backend::Outcome;
use crate::linux::passing;

/// What init tells the launcher, in this order.
#[derive(Debug)]
pub(crate) enum Message {
    /// The proxies have what they serve; the name of their socket is not needed any more.
    HandedOver,
    /// The command's calls are stopped, and wait for the broker.
    Stopping(Trapped),
    /// The command is confined and waits.
    Ready(Confined),
    /// The command was executed.
    Started,
    /// A signal stopped the command; it can be continued.
    Stopped,
    /// The command ended.
    Ended(Outcome),
    /// A step failed; the command does not run.
    Failed(Failure),
}

/// What the broker needs of the sandbox.
#[derive(Debug)]
pub(crate) struct Trapped {
    /// Where stopped calls arrive.
    pub(crate) listener: OwnedFd,
    /// A netlink socket that knows the sandbox's Unix sockets.
    pub(crate) unix_diag: OwnedFd,
    /// The main line to the executor.
    pub(crate) executor: OwnedFd,
    /// A netlink socket that connections are redirected by, where they can be.
    pub(crate) redirection: Option<OwnedFd>,
}

/// What the launcher tells init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Execute the command.
    Release,
    /// Pass on a signal the launcher got.
    Signal(u8),
}

/// What the confined process read back about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Confined {
    pub(crate) landlock_abi: u8,
    pub(crate) seccomp_filters: u8,
    /// No capability set holds one.
    pub(crate) no_capabilities: bool,
    pub(crate) no_new_privs: bool,
}

impl Confined {
    /// Length of an encoded one; a failure is longer.
    pub(crate) const LEN: usize = 4;

    pub(crate) fn encode(self) -> [u8; Self::LEN] {
        [
            self.landlock_abi,
            self.seccomp_filters,
            self.no_capabilities.into(),
            self.no_new_privs.into(),
        ]
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let &[landlock_abi, seccomp_filters, no_capabilities, no_new_privs] = bytes else {
            return None;
        };
        Some(Self {
            landlock_abi,
            seccomp_filters,
            no_capabilities: no_capabilities == 1,
            no_new_privs: no_new_privs == 1,
        })
    }
}

/// One end of the line.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

const MAX_MESSAGE: usize = 8192;

impl Control {
    /// Makes both ends: the launcher's and init's.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let kind = SocketType::SEQPACKET;
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Self(a), Self(b)))
    }

    pub(crate) fn send(&self, message: &Message) -> io::Result<()> {
        let fds = match message {
            Message::Stopping(trapped) => trapped.fds().to_vec(),
            _ => Vec::new(),
        };
        passing::send(&self.0, &message.encode(), &fds)
    }

    pub(crate) fn send_order(&self, order: Order) -> io::Result<()> {
        match order {
            Order::Release => passing::send(&self.0, b"R", &[]),
            Order::Signal(number) => passing::send(&self.0, &[b'S', number], &[]),
        }
    }

    /// Waits for the next message of init; `None` once init is gone.
    pub(crate) fn receive(&self) -> io::Result<Option<Message>> {
        let mut buffer = [0; MAX_MESSAGE];
        match passing::receive(&self.0, &mut buffer)? {
            ([], _) => Ok(None),
            (bytes, fds) => Message::decode(bytes, fds)
                .map(Some)
                .ok_or(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Waits for the launcher's next order; `None` once it is gone.
    pub(crate) fn receive_order(&self) -> io::Result<Option<Order>> {
        let mut buffer = [0; 8];
        match *passing::receive(&self.0, &mut buffer)?.0 {
            [] => Ok(None),
            [b'R'] => Ok(Some(Order::Release)),
            [b'S', number] => Ok(Some(Order::Signal(number))),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Trapped {
    /// Returns all of it, in the order in which it is passed on.
    pub(crate) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        let all = [&self.listener, &self.unix_diag, &self.executor];
        all.into_iter()
            .chain(&self.redirection)
            .map(AsFd::as_fd)
            .collect()
    }

    /// Takes what [`Trapped::fds`] gave.
    pub(crate) fn of(fds: Vec<OwnedFd>) -> Option<Self> {
        let mut fds = fds.into_iter();
        let found = Self {
            listener: fds.next()?,
            unix_diag: fds.next()?,
            executor: fds.next()?,
            redirection: fds.next(),
        };
        fds.next().is_none().then_some(found)
    }
}

impl Message {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::HandedOver => b"m".to_vec(),
            Self::Stopping(_) => b"c".to_vec(),
            Self::Ready(confined) => [b"r".as_slice(), &confined.encode()].concat(),
            Self::Started => b"s".to_vec(),
            Self::Stopped => b"t".to_vec(),
            Self::Ended(Outcome::Exited(status)) => vec![b'x', *status],
            Self::Ended(Outcome::Signaled(signal)) => vec![b'k', *signal],
            Self::Failed(failure) => {
                let mut bytes = [b"f".as_slice(), &failure.encode()].concat();
                bytes.truncate(MAX_MESSAGE);
                bytes
            }
        }
    }

    fn decode(bytes: &[u8], fds: Vec<OwnedFd>) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        match (tag, rest) {
            (b'm', []) => Some(Self::HandedOver),
            (b'c', []) => Trapped::of(fds).map(Self::Stopping),
            (b'r', bytes) => Confined::decode(bytes).map(Self::Ready),
            (b's', []) => Some(Self::Started),
            (b't', []) => Some(Self::Stopped),
            (b'x', &[status]) => Some(Self::Ended(Outcome::Exited(status))),
            (b'k', &[signal]) => Some(Self::Ended(Outcome::Signaled(signal))),
            (b'f', failure) => Failure::decode(failure).map(Self::Failed),
            _ => None,
        }
    }
}
