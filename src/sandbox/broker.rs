//! The broker's threads: they act for the command, with the caller's rights and no more.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};

use crate::audit::Audit;
use crate::error::{Error, Kind, Result};
use crate::linux::broker::{Broker, Ends, Prepared};
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

/// Makes a broker ready for the calls that will be stopped, if any are. From here on this
/// process has threads.
pub(super) fn prepare(stops_calls: bool) -> Result<Option<Prepared>> {
    let prepared = stops_calls.then(|| Broker::prepare(confine)).transpose();
    prepared.map_err(|error| failed("clone", error))
}

/// Starts the broker, where one was prepared.
pub(super) fn start(
    prepared: Option<Prepared>,
    trapped: Option<Trapped>,
    policy: Sockets,
    audit: &Audit,
) -> Result<Running> {
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
    let broker = prepared
        .zip(ends)
        .map(|(prepared, ends)| prepared.start(ends, policy, audit))
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
