//! What goes on inside once the command has ended, where it is waited for.

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid};
use rustix::process::{WaitOptions, wait};

use super::orphans;
use crate::linux::plan::Place;

/// Every process of a namespace but its first; see kill(2).
const EVERY: Pid = Pid::from_raw(-1);

/// Tells whether nothing of the command is left; helpers do not count. Called by the first
/// process, whose children all orphans become.
pub(super) fn has_ended() -> bool {
    matches!(wait(WaitOptions::NOHANG), Err(rustix::io::Errno::CHILD))
}

/// Sends `signal` to all that is left of the command; but to its process group if that got it
/// already.
pub(super) fn send(place: Place, signal: Signal, group_has_it: bool) {
    if place == Place::Host && !group_has_it {
        // In one call, which no process outruns by forking. The executor has blocked it.
        let _sent_or_none_left = kill(EVERY, signal);
        return;
    }
    let ours = getpgid(None);
    let others = orphans::descendants().into_iter();
    for process in others.filter(|process| !group_has_it || getpgid(Some(*process)) != ours) {
        // One that has ended meanwhile got what it was sent.
        let _sent = kill(process, signal);
    }
}
