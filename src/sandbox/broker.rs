//! The broker's threads: they act for the command, with the caller's rights and no more.

use crate::audit::Audit;
use crate::error::{Error, Kind, Result};
use crate::linux::broker::{Broker, Ends, Failed, Prepared, Terms};
use crate::linux::launch::Trapped;
use crate::linux::launch::network::CAPTURED;
use crate::linux::launch::privileges;
use crate::linux::netlink::capture::Redirection;
use crate::policy::sockets::Sockets;

/// The broker, where calls are stopped.
#[derive(Debug)]
pub(super) struct Running(Option<Broker>);

/// Makes a broker ready for the calls that will be stopped, if any are. From here on this
/// process has threads.
pub(super) fn prepare(stops_calls: bool) -> Result<Option<Prepared>> {
    let prepared = stops_calls.then(|| Broker::prepare(confine)).transpose();
    prepared.map_err(failed)
}

/// Starts the broker, where one was prepared and calls are stopped.
pub(super) fn start(
    prepared: Option<Prepared>,
    trapped: Option<Trapped>,
    policy: Sockets,
    terms: Option<Terms>,
    audit: &Audit,
) -> Result<Running> {
    let ends = trapped.and_then(|trapped| {
        let for_broker = trapped.for_broker;
        let redirection = for_broker.redirection;
        Some(Ends {
            listener: trapped.listener?,
            unix_diag: for_broker.unix_diag,
            executor: for_broker.executor,
            redirection: redirection.map(|socket| Redirection::new(socket, CAPTURED)),
            datagrams: for_broker.datagrams,
        })
    });
    let broker = prepared
        .zip(ends)
        .map(|(prepared, ends)| prepared.start(ends, policy, terms, audit.clone()))
        .transpose()
        .map_err(failed)?;
    Ok(Running(broker))
}

impl Running {
    /// Ends the broker, once the sandbox is gone: what it records is recorded then.
    pub(super) fn end(self) {
        drop(self.0);
    }
}

/// Leaves a thread of the broker with no right that the command has not: a root caller's
/// capabilities would pass the modes of files.
fn confine() -> std::result::Result<(), Failed> {
    privileges::drop_capabilities_of_helper().map_err(|error| ("capset", error))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|errno| ("prctl(PR_SET_NO_NEW_PRIVS)", errno.into()))
}

fn failed((call, error): Failed) -> Error {
    Error::new(Kind::Launch, "cannot start the broker").call(call, error)
}
