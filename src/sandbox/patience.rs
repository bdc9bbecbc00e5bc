//! A bound on the time that file systems take to tell of what the settings name.

use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions};

use crate::error::{Error, Kind, Result};
use crate::linux::launch::mountinfo::Mount;
use crate::linux::sys::{self, Forked};
use crate::policy::{Host, Policy};
use crate::settings::{Settings, shown};

/// Longest that looking at the paths of the settings may take, in milliseconds.
const LIMIT: u16 = 5_000;

/// File systems that wait for another machine, by the start of their names.
const WAITING: [&str; 11] = [
    "9p", "afs", "autofs", "ceph", "cifs", "fuse", "gluster", "lustre", "nfs", "ocfs2", "smb",
];

/// File systems among them that a desktop serves to itself.
const NEAR: [&str; 4] = [
    "fuse.gvfsd-fuse",
    "fuse.lxcfs",
    "fuse.portal",
    "fuse.snapfuse",
];

/// Refuses settings that name a path nobody tells of. Only a signal that kills ends a wait for a
/// server that is gone, so that a process of its own looks first, where such a wait can be.
pub(super) fn refuse_endless(settings: &Settings, host: &Host, mounts: &[Mount]) -> Result<()> {
    let waiting = waiting(mounts);
    if waiting.is_empty() {
        return Ok(());
    }
    match sys::fork() {
        Ok(Forked::Child) => {
            // A launcher that is killed meanwhile leaves nothing behind.
            let signal = Some(Signal::KILL);
            let _tied = rustix::process::set_parent_process_death_signal(signal);
            drop(Policy::from_settings(settings, host));
            sys::exit_now(0)
        }
        Ok(Forked::Parent(_, looking)) => match ends_in_time(&looking) {
            true => Ok(()),
            false => Err(endless(&waiting)),
        },
        // What is decided is the same without a bound.
        Err(_) => Ok(()),
    }
}

fn ends_in_time(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
    let in_time = loop {
        match poll(&mut fds, PollTimeout::from(LIMIT)) {
            Ok(ready) => break ready > 0,
            Err(nix::errno::Errno::EINTR) => {}
            Err(_) => break false,
        }
    };
    let _ended_or_killed = rustix::process::pidfd_send_signal(process, Signal::KILL);
    // A server that has the question and does not answer holds even what is killed.
    let options = match in_time {
        true => WaitIdOptions::EXITED,
        false => WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
    };
    let id = WaitId::PidFd(process.as_fd());
    while let Err(rustix::io::Errno::INTR) = rustix::process::waitid(id.clone(), options) {}
    in_time
}

fn endless(waiting: &[String]) -> Error {
    let goal = format!(
        "a path that the settings name could not be looked at within {} s",
        LIMIT / 1000
    );
    let mounted = format!("file systems that may not answer: {}", waiting.join(", "));
    Error::of_lines(Kind::Unsupported, [goal, mounted])
        .with_hint("a file server may be gone: unmount it or mount it anew, or take the entry out")
}

/// Lists the mounts of such file systems.
fn waiting(mounts: &[Mount]) -> Vec<String> {
    let places = mounts.iter().filter_map(|mount| {
        let kind = mount.kind.as_str();
        let waits = WAITING.iter().any(|known| kind.starts_with(known)) && !NEAR.contains(&kind);
        waits.then(|| format!("{} ({kind})", shown(&mount.place)))
    });
    places.collect()
}
