//! The broker's own process: it acts for the command, with the caller's rights and no more.

use std::io;
use std::os::fd::OwnedFd;

use super::helper::{self, Helper};
use crate::audit::Audit;
use crate::error::Result;
use crate::linux::broker::{self, Ends};
use crate::linux::launch::control::Trapped;
use crate::linux::passing;
use crate::policy::sockets::Sockets;

/// Forks the process; `None` where no call is judged.
pub(super) fn start(policy: Sockets, audit: &Audit) -> Result<Option<Helper>> {
    if policy.all_are_open() {
        return Ok(None);
    }
    Helper::start("broker", &[], |line| serve(line, policy, audit)).map(Some)
}

/// Hands the sandbox's stopped calls over, and with them every copy of their listener: when
/// the broker is gone, they fail.
pub(super) fn hand_over(broker: Option<&Helper>, trapped: Option<Trapped>) {
    if let (Some(broker), Some(trapped)) = (broker, trapped) {
        // A broker that is gone is noticed by the call that the command makes before it is
        // released.
        drop(passing::send(broker.line(), HANDED_OVER, &trapped.fds()));
    }
}

const HANDED_OVER: &[u8] = b"H";

/// The life of the broker's process.
fn serve(line: &OwnedFd, policy: Sockets, audit: &Audit) -> io::Result<()> {
    let mut buffer = [0; HANDED_OVER.len()];
    let (_, fds) = passing::receive(line, &mut buffer)?;
    let trapped = Trapped::of(fds).ok_or(io::ErrorKind::InvalidData)?;
    let ends = Ends {
        listener: trapped.listener,
        unix_diag: trapped.unix_diag,
        executor: trapped.executor,
    };
    broker::serve(ends, policy, helper::audit_over(line, audit)?)
}
