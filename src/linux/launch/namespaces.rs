//! The first acts of init: tied to the launcher, with the caller's ids mapped.

use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use rustix::process::{Signal, WaitId, WaitIdOptions, waitid};

use super::control::{Control, Order};
use super::failure::{At, Failure, Step};
use super::ids;
use crate::linux::plan::ids::{Ids, Map};
use crate::linux::plan::{Place, Plan};
use crate::linux::sys::{self, Forked};
use crate::policy::NetworkMode;

/// Namespaces a run can have, as flags of clone(2) and as names in `/proc/PID/ns`.
const NAMESPACES: [(libc::c_int, &str); 7] = [
    (libc::CLONE_NEWUSER, "user"),
    (libc::CLONE_NEWNS, "mnt"),
    (libc::CLONE_NEWPID, "pid"),
    (libc::CLONE_NEWNET, "net"),
    (libc::CLONE_NEWIPC, "ipc"),
    (libc::CLONE_NEWUTS, "uts"),
    (libc::CLONE_NEWCGROUP, "cgroup"),
];

/// Returns the namespaces of a run: all, but where it shares the network of the host; none
/// inside a sandbox.
pub(super) fn of(plan: &Plan) -> impl Iterator<Item = (libc::c_int, &'static str)> {
    let shared = plan.network == NetworkMode::Open;
    let all = NAMESPACES.into_iter().filter(|_| plan.place == Place::Host);
    all.filter(move |(flag, _)| !(shared && *flag == libc::CLONE_NEWNET))
}

/// Finds the namespace of a run of which there are as many as may be, by making one of each.
pub(super) fn exhausted(plan: &Plan) -> Option<&'static str> {
    let is_refused = |flag| match sys::clone_into_namespaces(libc::CLONE_NEWUSER | flag) {
        Ok(Forked::Child) => sys::exit_now(0),
        Ok(Forked::Parent(_, pidfd)) => {
            let _ended = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
            false
        }
        Err(error) => error.raw_os_error() == Some(libc::ENOSPC),
    };
    let found = of(plan).find(|(flag, _)| is_refused(*flag));
    found.map(|(_, name)| name)
}

/// Has the kernel kill init when the launcher dies, and notices one that died before. Without
/// a pid namespace init has to end the command first, which it does when the line closes.
pub(super) fn tie_to_launcher(plan: &Plan, control: &Control) -> Result<(), Failure> {
    if plan.place == Place::Host {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .at(Step::TieToLauncher)?;
    }
    // The signal only comes for deaths from now on; an earlier one left the line closed.
    let mut poll = [rustix::event::PollFd::new(
        control,
        rustix::event::PollFlags::empty(),
    )];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match rustix::event::poll(&mut poll, Some(&now)).at(Step::FindLauncher)? {
        0 => Ok(()),
        _ => Err(Failure::new(Step::FindLauncher, Errno::EPIPE)),
    }
}

/// Moves this process into a user and a mount namespace below those of init, where every mount
/// there is is locked; see mount_namespaces(7), "Restrictions on mount namespaces".
pub(super) fn lock_mounts(ids: &Ids) -> Result<(), Failure> {
    let below = CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS;
    nix::sched::unshare(below).at(Step::LockMounts)?;
    // Others than its own take a capability in the namespace above.
    ids::map_own(ids.inside, ids.inside)
}

/// Maps the ids, or waits until the launcher has, which may map more.
pub(super) fn map_ids(ids: &Ids, control: &Control) -> Result<(), Failure> {
    match ids.map {
        Map::Own(outside) => ids::map_own(ids.inside, outside),
        Map::All { .. } => match control.receive_order().at(Step::AwaitLauncher)? {
            Some(Order::Mapped) => Ok(()),
            _ => Err(Failure::new(Step::AwaitLauncher, Errno::EPIPE)),
        },
    }
}
