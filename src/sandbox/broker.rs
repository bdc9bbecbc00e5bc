//! The broker's threads: they act for the command, with the caller's rights and no more.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::audit::Audit;
use crate::error::{Error, Kind, Result};
use crate::linux::broker::{Broker, Ends};
use crate::linux::launch::control::Trapped;
use crate::linux::launch::privileges;
use crate::policy::sockets::Sockets;

/// The broker, where calls are stopped, and where its events arrive.
#[derive(Debug)]
pub(super) struct Running {
    _broker: Option<Broker>,
    events: OwnedFd,
}

const MAX_DATAGRAM: usize = 64 * 1024;

/// Starts the broker for the calls that are stopped, if any are. From here on this process
/// has threads.
pub(super) fn start(trapped: Option<Trapped>, policy: Sockets, audit: &Audit) -> Result<Running> {
    let kind = SocketType::SEQPACKET;
    let (events, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .map_err(|errno| failed("socketpair", errno))?;
    let audit = match audit.is_recording() {
        true => Audit::to_launcher(theirs, audit.verbosity()),
        false => Audit::none(audit.verbosity()),
    };
    let ends = trapped.map(|trapped| Ends {
        listener: trapped.listener,
        unix_diag: trapped.unix_diag,
        executor: trapped.executor,
    });
    let broker = ends
        .map(|ends| Broker::start(ends, policy, audit, confine))
        .transpose()
        .map_err(|error| failed("clone", error))?;
    Ok(Running {
        _broker: broker,
        events,
    })
}

impl Running {
    /// Returns the descriptor that is readable when events have come.
    pub(super) fn events(&self) -> &OwnedFd {
        &self.events
    }

    /// Records every event that has come, without waiting for more.
    pub(super) fn record_events(&self, audit: &Audit) {
        let mut datagram = vec![0; MAX_DATAGRAM];
        while let Ok((len @ 1.., _)) =
            rustix::net::recv(&self.events, datagram.as_mut_slice(), RecvFlags::DONTWAIT)
        {
            audit.record_received(&datagram[..len]);
        }
    }
}

/// Leaves a thread of the broker with no right that the command has not: a root caller's
/// capabilities would pass the modes of files.
fn confine() -> io::Result<()> {
    privileges::drop_capabilities_of_helper()?;
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

fn failed(call: &str, error: impl Into<io::Error>) -> Error {
    Error::new(Kind::Launch, "cannot start the broker").call(call, error)
}
