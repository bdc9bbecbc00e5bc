//! The network namespaces a caller's socket may be of: the sandbox's, and those made in it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sched::{CloneFlags, setns};

use super::Failed;
use super::caller::Caller;
use crate::linux::sys::{self, Forked, Related};
use crate::linux::unix_diag::{self, Listening, UnixDiag};
use crate::linux::{executor, passing};

/// The sandbox's network namespace, and what is known of those below it.
#[derive(Debug)]
pub(super) struct Namespaces {
    own: u64,
    own_sockets: UnixDiag,
    /// Asked for the sockets of namespaces that the command made, by number. Each keeps its
    /// namespace alive.
    nested: Mutex<HashMap<u64, Arc<UnixDiag>>>,
}

/// The network namespace of one socket.
#[derive(Debug)]
pub(super) enum Namespace {
    /// The sandbox's.
    Own,
    /// One that the command made.
    Nested {
        number: u64,
        network: OwnedFd,
        owner: OwnedFd,
    },
}

/// Most namespaces that are remembered.
const MAX_NESTED: usize = 16;

/// Levels of user namespaces the kernel allows; see user_namespaces(7).
const MAX_LEVELS: usize = 33;

impl Namespaces {
    /// Takes a netlink socket that was made in the sandbox's namespace.
    pub(super) fn new(unix_diag: OwnedFd) -> Result<Self, Failed> {
        const COOKIE: &str = "getsockopt(SO_NETNS_COOKIE)";
        let number = |socket: &OwnedFd| {
            sys::network_namespace(socket.as_fd()).map_err(|error| (COOKIE, error))
        };
        let own = number(&unix_diag)?;
        let (here, _) = executor::pair().map_err(|error| ("socketpair", error))?;
        if number(&here)? == own {
            // What would be taken for the sandbox's own is the host's.
            let error = io::Error::other("the network namespace is the host's");
            return Err((COOKIE, error));
        }
        Ok(Self {
            own,
            own_sockets: UnixDiag::new(unix_diag),
            nested: Mutex::default(),
        })
    }

    /// Finds out which namespace a socket is of; `None` for one that was not made inside.
    pub(super) fn of(&self, socket: &OwnedFd) -> Option<Namespace> {
        let number = sys::network_namespace(socket.as_fd()).ok()?;
        if number == self.own {
            return Some(Namespace::Own);
        }
        let network = sys::related(socket.as_fd(), Related::NetworkOfSocket).ok()?;
        let owner = sys::related(network.as_fd(), Related::Owner).ok()?;
        self.is_below(&owner).ok()?.then_some(Namespace::Nested {
            number,
            network,
            owner,
        })
    }

    /// Tells whether a user namespace is the sandbox's or one below it: none other can have
    /// been made by a process of the sandbox.
    fn is_below(&self, user: &OwnedFd) -> io::Result<bool> {
        let own = self.own_sockets.with_socket(|socket| {
            let network = sys::related(socket, Related::NetworkOfSocket)?;
            sys::related(network.as_fd(), Related::Owner)
        })?;
        let own = identity(&own)?;
        let mut at = user.try_clone()?;
        for _ in 0..MAX_LEVELS {
            if identity(&at)? == own {
                return Ok(true);
            }
            // The first one of all has no parent: EPERM.
            at = sys::related(at.as_fd(), Related::Parent)?;
        }
        Ok(false)
    }

    /// Returns the Unix sockets of the sandbox, and of the caller's own namespace in it, that
    /// listen at an inode with this lower half. A kernel that cannot tell is one that says no.
    pub(super) fn listening_at(&self, namespace: &Namespace, ino: u32) -> Vec<Listening> {
        let mut found = self.own_sockets.listening_at(ino).unwrap_or_default();
        if let Namespace::Nested {
            number,
            network,
            owner,
        } = namespace
        {
            let nested = self.sockets_of(*number, network, owner);
            let nested = nested.and_then(|sockets| sockets.listening_at(ino));
            found.extend(nested.unwrap_or_default());
        }
        found
    }

    /// Returns the inodes of the namespaces in which such a socket may be held.
    pub(super) fn networks(&self, namespace: &Namespace, caller: &Caller<'_>) -> Vec<u64> {
        let of_caller = network_of(caller.thread());
        let own = match namespace {
            Namespace::Own => None,
            Namespace::Nested { .. } => self.own_sockets.with_socket(|socket| {
                let network = sys::related(socket, Related::NetworkOfSocket).ok()?;
                Some(rustix::fs::fstat(network).ok()?.st_ino)
            }),
        };
        of_caller.into_iter().chain(own).collect()
    }

    fn sockets_of(
        &self,
        number: u64,
        network: &OwnedFd,
        owner: &OwnedFd,
    ) -> io::Result<Arc<UnixDiag>> {
        if let Some(known) = self.nested().get(&number) {
            return Ok(Arc::clone(known));
        }
        let sockets = Arc::new(UnixDiag::new(open_in(network, owner)?));
        let mut nested = self.nested();
        if nested.len() >= MAX_NESTED {
            nested.clear();
        }
        nested.insert(number, Arc::clone(&sockets));
        Ok(sockets)
    }

    fn nested(&self) -> MutexGuard<'_, HashMap<u64, Arc<UnixDiag>>> {
        self.nested.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the inode of the network namespace of a process.
pub(super) fn network_of(pid: i32) -> Option<u64> {
    let found = std::fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
    Some(found.ino())
}

/// Opens a netlink socket for `UNIX_DIAG` in another network namespace. Who made a user
/// namespace may enter it, and has the right to enter the network there.
fn open_in(network: &OwnedFd, owner: &OwnedFd) -> io::Result<OwnedFd> {
    let (ours, theirs) = executor::pair()?;
    // Nothing here takes memory or a lock.
    let child = match sys::fork_thread()? {
        Forked::Child => {
            let entered = setns(owner, CloneFlags::CLONE_NEWUSER)
                .and_then(|()| setns(network, CloneFlags::CLONE_NEWNET));
            if entered.is_ok()
                && let Ok(socket) = unix_diag::open()
            {
                drop(passing::send(&theirs, b"d", &[socket.as_fd()]));
            }
            sys::exit_now(0)
        }
        Forked::Parent(_, child) => child,
    };
    drop(theirs);
    let (_, mut fds) = passing::receive(&ours, &mut [0])?;
    let id = rustix::process::WaitId::PidFd(child.as_fd());
    let exited = rustix::process::WaitIdOptions::EXITED;
    while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(id.clone(), exited) {}
    fds.pop()
        .ok_or_else(|| io::ErrorKind::PermissionDenied.into())
}

fn identity(namespace: &OwnedFd) -> io::Result<(u64, u64)> {
    let found = rustix::fs::fstat(namespace)?;
    Ok((found.st_dev, found.st_ino))
}
