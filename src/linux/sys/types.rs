//! What the calls take and give.

use std::os::fd::OwnedFd;

use nix::unistd::Pid;

/// Which side of a fork this is.
#[derive(Debug)]
pub(crate) enum Forked {
    /// The new process.
    Child,
    /// The old process, with the new one's pid and, where asked for, its pidfd.
    Parent(Pid, OwnedFd),
}

/// One call that a filter stopped and that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notification {
    /// What the answer goes to.
    pub(crate) id: u64,
    /// The calling thread, as this process sees it.
    pub(crate) thread: i32,
    /// Number of the call.
    pub(crate) call: i64,
    pub(crate) args: [u64; 6],
}

/// What is asked of a socket or of a namespace; see ioctl_nsfs(2), linux/sockios.h, linux/un.h.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Related {
    /// SIOCGSKNS: the network namespace of a socket.
    NetworkOfSocket = 0x894c,
    /// NS_GET_USERNS: the user namespace that a namespace belongs to.
    Owner = 0xb701,
    /// SIOCUNIXFILE: the place a Unix socket is bound to, of a user namespace that this user made.
    BoundPlace = 0x89e0,
    /// NS_GET_PARENT: the user namespace above another.
    Parent = 0xb702,
}

/// What a signal does in this process before we touch it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    Default,
    Ignored,
}
