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

/// The broker and where its events arrive.
#[derive(Debug)]
pub(super) struct Running {
    _broker: Broker,
    events: OwnedFd,
}

const MAX_DATAGRAM: usize = 64 * 1024;

/// Starts the broker; `None` where no call is stopped. From here on this process is threaded.
pub(super) fn start(
    trapped: Option<Trapped>,
    policy: Sockets,
    audit: &Audit,
) -> Result<Option<Running>> {
    let Some(trapped) = trapped else {
        return Ok(None);
    };
    let ends = Ends {
        listener: trapped.listener,
        unix_diag: trapped.unix_diag,
        executor: trapped.executor,
    };
    let kind = SocketType::SEQPACKET;
    let (events, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
            .map_err(|errno| failed("socketpair", errno))?;
    let to_us = match audit.is_recording() {
        true => Audit::to_launcher(theirs, audit.verbosity()),
        false => Audit::none(audit.verbosity()),
    };
    let broker =
        Broker::start(ends, policy, to_us, confine).map_err(|error| failed("clone", error))?;
    Ok(Some(Running {
        _broker: broker,
        events,
    }))
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
            rustix::net::recv(&self.events, &mut datagram, RecvFlags::DONTWAIT)
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
