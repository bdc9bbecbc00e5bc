//! Where a socket of the sandbox is bound, asked of the socket itself.
//!
//! `UNIX_DIAG` tells 32 bits of an inode's number and the device of the whole file system. On a
//! large file system, or one with several trees of numbers, inodes differ that look the same.

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, StatxFlags, statx};
use rustix::net::sockopt;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd};

use super::caller;
use super::namespaces::network_of;
use crate::linux::sys;
use crate::linux::unix_diag::Listening;

/// The places of sockets that were asked, by cookie. A socket is bound once, and keeps the
/// inode as long as it lives; no other one gets its cookie.
#[derive(Debug, Default)]
pub(super) struct Bound(Mutex<HashMap<u64, Identity>>);

/// What tells an inode from every other, as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    dev: (u32, u32),
    ino: u64,
    /// A file system may come to the same number again while the first is there.
    born: (i64, u32),
}

/// Most places that are remembered; then they are asked for again.
const MAX_REMEMBERED: usize = 4096;

/// Most descriptors of one process that are looked at.
const MAX_DESCRIPTORS: i32 = 1 << 16;

impl Bound {
    /// Tells whether `socket` is bound to `place`. One that no process in these `networks`
    /// holds, though it is on its way to one, counts as elsewhere.
    pub(super) fn is_at(&self, networks: &[u64], socket: &Listening, place: &OwnedFd) -> bool {
        let known = self.places().get(&socket.cookie).copied();
        let bound = known.or_else(|| {
            let bound = asked(networks, socket.cookie)?;
            let mut places = self.places();
            if places.len() >= MAX_REMEMBERED {
                places.clear();
            }
            places.insert(socket.cookie, bound);
            Some(bound)
        });
        bound.is_some() && bound == Identity::of(place)
    }

    fn places(&self) -> MutexGuard<'_, HashMap<u64, Identity>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Identity {
    fn of(place: impl AsFd) -> Option<Self> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = statx(place, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
        Some(Self {
            dev: (found.stx_dev_major, found.stx_dev_minor),
            ino: found.stx_ino,
            born: (found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
        })
    }
}

/// Finds the socket among the descriptors of the sandbox, and asks it.
fn asked(networks: &[u64], cookie: u64) -> Option<Identity> {
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found = pids.filter_map(|pid| {
        // Before the look at its namespace: a process that has taken the number since is not
        // the one that is asked for descriptors.
        let pidfd = caller::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        networks.contains(&network_of(pid)?).then_some(())?;
        descriptor_of(pid, &pidfd, cookie)
    });
    let place = sys::related(found.next()?.as_fd(), sys::Related::BoundPlace).ok()?;
    Identity::of(place)
}

/// Takes the process's descriptor of the socket, if it has one.
fn descriptor_of(pid: i32, pidfd: &OwnedFd, cookie: u64) -> Option<OwnedFd> {
    // The list of its descriptors is closed to us where it cannot be dumped.
    let status = caller::status_of(&caller::open_proc(pid).ok()?).ok()?;
    let size = caller::number_at(&status, "FDSize:", 0)?;
    let mut copies = (0..size.min(MAX_DESCRIPTORS))
        .filter_map(|number| pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()).ok());
    copies.find(|copy| sockopt::socket_cookie(copy) == Ok(cookie))
}
