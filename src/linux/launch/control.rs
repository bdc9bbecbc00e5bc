//! The lines between the launcher and the sandbox, one SOCK_SEQPACKET pair each: to init for the
//! whole run, and to the command's process until it becomes the command.
//!
//! The end of file of the first is the death pipe of both: when one side is gone, the other ends.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::failure::Failure;
use crate::backend::Outcome;
use crate::linux::datagrams::Eyes;
use crate::linux::passing;

/// What the launcher is told.
#[derive(Debug)]
pub(crate) enum Message {
    /// By init: the proxies have what they serve; the name of their socket is not needed any more.
    /// With it comes what the broker needs, where calls are to be judged.
    HandedOver(Option<ForBroker>),
    /// By init: it holds nothing any more that a command could make use of.
    Hidden,
    /// By the command's process: its calls are stopped, and this is where they arrive; or they
    /// are not, where nothing but reports is lost by that.
    Stopping(Option<OwnedFd>),
    /// By the command's process: it is confined, and waits to be released.
    Ready(Confined),
    /// By init: the signal of this number stopped the command; it can be continued.
    Stopped(u8),
    /// By init: the command ended, and what it has left is waited for.
    Background,
    /// By init: the command ended, maybe as the last process of the sandbox.
    Ended {
        outcome: Outcome,
        is_last: bool,
        /// Its time was up.
        timed_out: bool,
    },
    /// By either: a step failed; the command does not run.
    Failed(Failure),
}

/// What the broker needs of the sandbox beside the calls.
#[derive(Debug)]
pub(crate) struct ForBroker {
    /// A netlink socket that knows the sandbox's Unix sockets, where connections are judged.
    pub(crate) unix_diag: Option<OwnedFd>,
    /// The main line to the executor.
    pub(crate) executor: OwnedFd,
    /// A netlink socket that connections are redirected by, where they can be.
    pub(crate) redirection: Option<OwnedFd>,
    /// What sees the datagrams that are refused, where they are reported.
    pub(crate) datagrams: Option<Eyes>,
}

/// What the launcher tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// To the command's process: execute the command, in this process group.
    Release(Group),
    /// To init: its ids are mapped.
    Mapped,
    /// To init: pass on a signal the launcher got.
    Signal(u8),
    /// To init: have the command go on after it was stopped.
    Continue {
        /// With the terminal.
        in_foreground: bool,
    },
}

/// The process group of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Group {
    /// That of the caller.
    Callers,
    /// Its own, in the background of a terminal.
    Own,
    /// Its own, in the foreground of the terminal.
    Foreground,
}

impl Group {
    const ALL: [Self; 3] = [Self::Callers, Self::Own, Self::Foreground];

    fn decode(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|group| *group as u8 == byte)
    }
}

/// What the confined process read back about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Confined {
    pub(crate) landlock_abi: u8,
    pub(crate) seccomp_filters: u8,
    /// No capability set holds one.
    pub(crate) no_capabilities: bool,
    pub(crate) no_new_privs: bool,
    /// What setrlimit(2) was asked for, in the order of the plan.
    pub(crate) rlimits: Vec<u64>,
}

impl Confined {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![
            self.landlock_abi,
            self.seccomp_filters,
            self.no_capabilities.into(),
            self.no_new_privs.into(),
        ];
        bytes.extend(self.rlimits.iter().flat_map(|value| value.to_ne_bytes()));
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (rights, rest) = bytes.split_first_chunk()?;
        let [landlock_abi, seccomp_filters, no_capabilities, no_new_privs] = *rights;
        let (rlimits, []) = rest.as_chunks() else {
            return None;
        };
        Some(Self {
            landlock_abi,
            seccomp_filters,
            no_capabilities: no_capabilities == 1,
            no_new_privs: no_new_privs == 1,
            rlimits: rlimits.iter().copied().map(u64::from_ne_bytes).collect(),
        })
    }
}

/// One end of the line.
#[derive(Debug)]
pub(crate) struct Control(OwnedFd);

const MAX_MESSAGE: usize = 8192;

impl Control {
    /// Makes both ends: the launcher's and the sandbox's.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let kind = SocketType::SEQPACKET;
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Self(a), Self(b)))
    }

    pub(crate) fn send(&self, message: &Message) -> io::Result<()> {
        let fds = match message {
            Message::HandedOver(Some(for_broker)) => for_broker.fds(),
            Message::Stopping(listener) => listener.iter().map(AsFd::as_fd).collect(),
            _ => Vec::new(),
        };
        passing::send(&self.0, &message.encode(), &fds)
    }

    pub(crate) fn send_order(&self, order: Order) -> io::Result<()> {
        match order {
            Order::Release(group) => passing::send(&self.0, &[b'R', group as u8], &[]),
            Order::Mapped => passing::send(&self.0, b"M", &[]),
            Order::Signal(number) => passing::send(&self.0, &[b'S', number], &[]),
            Order::Continue { in_foreground } => {
                passing::send(&self.0, &[b'C', in_foreground.into()], &[])
            }
        }
    }

    /// Waits for the next message; `None` once the other side is gone.
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
        let order = match *passing::receive(&self.0, &mut buffer)?.0 {
            [] => return Ok(None),
            [b'R', group] => Group::decode(group).map(Order::Release),
            [b'M'] => Some(Order::Mapped),
            [b'S', number] => Some(Order::Signal(number)),
            [b'C', in_foreground] => Some(Order::Continue {
                in_foreground: in_foreground == 1,
            }),
            _ => None,
        };
        order.map(Some).ok_or(io::ErrorKind::InvalidData.into())
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl ForBroker {
    /// Returns all of it, each with the letter it is known by.
    fn labelled(&self) -> Vec<(u8, BorrowedFd<'_>)> {
        let datagrams = self.datagrams.as_ref();
        let all = [
            (b'u', self.unix_diag.as_ref()),
            (b'e', Some(&self.executor)),
            (b'r', self.redirection.as_ref()),
            (b'4', datagrams.map(|eyes| &eyes.v4)),
            (b'6', datagrams.and_then(|eyes| eyes.v6.as_ref())),
            (b's', datagrams.map(|eyes| &eyes.senders)),
        ];
        let there = all.into_iter();
        there
            .filter_map(|(label, fd)| Some((label, fd?.as_fd())))
            .collect()
    }

    /// Returns all of it, in the order in which it is passed on.
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.labelled().into_iter().map(|(_, fd)| fd).collect()
    }

    /// Takes what [`ForBroker::fds`] gave, by its letters.
    fn of(labels: &[u8], fds: Vec<OwnedFd>) -> Option<Self> {
        if labels.len() != fds.len() {
            return None;
        }
        let mut fds: HashMap<u8, OwnedFd> = labels.iter().copied().zip(fds).collect();
        let (v4, v6, senders) = (fds.remove(&b'4'), fds.remove(&b'6'), fds.remove(&b's'));
        let eyes = |(v4, senders)| Eyes { v4, v6, senders };
        let found = Self {
            unix_diag: fds.remove(&b'u'),
            executor: fds.remove(&b'e')?,
            redirection: fds.remove(&b'r'),
            datagrams: v4.zip(senders).map(eyes),
        };
        fds.is_empty().then_some(found)
    }
}

impl Message {
    fn encode(&self) -> Vec<u8> {
        match self {
            Self::HandedOver(for_broker) => {
                let labelled = for_broker.iter().flat_map(ForBroker::labelled);
                let labels = labelled.map(|(label, _)| label);
                [b'm'].into_iter().chain(labels).collect()
            }
            Self::Hidden => b"h".to_vec(),
            Self::Stopping(_) => b"c".to_vec(),
            Self::Ready(confined) => [b"r".as_slice(), &confined.encode()].concat(),
            Self::Background => b"b".to_vec(),
            Self::Stopped(signal) => vec![b't', *signal],
            Self::Ended {
                outcome,
                is_last,
                timed_out,
            } => {
                let (tag, number) = match outcome {
                    Outcome::Exited(status) => (b'x', *status),
                    Outcome::Signaled(signal) => (b'k', *signal),
                };
                vec![tag, number, (*is_last).into(), (*timed_out).into()]
            }
            Self::Failed(failure) => {
                let mut bytes = [b"f".as_slice(), &failure.encode()].concat();
                bytes.truncate(MAX_MESSAGE);
                bytes
            }
        }
    }

    fn decode(bytes: &[u8], mut fds: Vec<OwnedFd>) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        match (tag, rest) {
            (b'm', []) if fds.is_empty() => Some(Self::HandedOver(None)),
            (b'm', labels) => ForBroker::of(labels, fds).map(|found| Self::HandedOver(Some(found))),
            (b'h', []) => Some(Self::Hidden),
            (b'c', []) => Some(Self::Stopping(fds.pop())),
            (b'r', bytes) => Confined::decode(bytes).map(Self::Ready),
            (b'b', []) => Some(Self::Background),
            (b't', &[signal]) => Some(Self::Stopped(signal)),
            (b'x' | b'k', &[number, is_last, timed_out]) => Some(Self::Ended {
                outcome: match tag {
                    b'x' => Outcome::Exited(number),
                    _ => Outcome::Signaled(number),
                },
                is_last: is_last == 1,
                timed_out: timed_out == 1,
            }),
            (b'f', failure) => Failure::decode(failure).map(Self::Failed),
            _ => None,
        }
    }
}
