//! The proxies' own process: it parses what the sandbox sends, and so holds no rights.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::helper::{self, Helper};
use crate::audit::Audit;
use crate::egress::{self, Listeners};
use crate::error::Result;
use crate::linux::launch::handoff;
use crate::linux::plan::Role;
use crate::policy::network::Network;

/// Forks the process; it serves once `init` has handed its listeners over on `socket`.
pub(super) fn start(
    (socket, init): (&OwnedFd, u32),
    policy: Network,
    audit: &Audit,
) -> Result<Helper> {
    Helper::start("proxies", &[socket.as_fd()], |line| {
        serve(socket, init, policy, line, audit)
    })
}

/// The life of the proxies' process.
fn serve(
    socket: &OwnedFd,
    init: u32,
    policy: Network,
    line: &OwnedFd,
    audit: &Audit,
) -> io::Result<()> {
    let handed_over = handoff::receive(socket, init)?;
    let mut listeners = Listeners::default();
    for (role, listener) in handed_over.listeners {
        match role {
            Role::Http => listeners.http.push(listener.into()),
            Role::Socks => listeners.socks.push(listener.into()),
        }
    }
    let audit = helper::audit_over(line, audit)?;
    let ready = || helper::tell_ready(line);
    egress::serve(listeners, policy, audit, handed_over.sandbox, ready)
}
