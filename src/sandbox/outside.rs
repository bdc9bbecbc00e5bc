//! What works for one sandbox outside of it: the proxies' process and the broker's threads.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::audit::Audit;
use crate::audit::line::Line;
use crate::backend::{Ended, Held, Observed};
use crate::error::{Error, Kind, Result};
use crate::linux::broker::Terms;
use crate::linux::launch::{self, Sandbox};
use crate::linux::processes::Processes;
use crate::policy::filesystem::Filesystem;
use crate::policy::{Host, Nesting, Policy};

use super::broker::{self, Running};
use super::events;
use super::proxies::Proxies;

/// The helpers of one sandbox. Dropping them ends them.
#[derive(Debug)]
pub(super) struct Helpers {
    proxies: Option<Proxies>,
    broker: Running,
    /// Never freed, which takes longer than the end of the process.
    files: ManuallyDrop<Arc<Filesystem>>,
}

impl Helpers {
    /// Starts what the sandbox needs, as far as it stands.
    pub(super) fn start(
        held: &mut Sandbox,
        policy: Policy,
        observed: Observed,
        host: &Host,
        audit: &Audit,
    ) -> Result<Self> {
        let files = ManuallyDrop::new(Arc::new(policy.filesystem));
        let terms = (observed != Observed::Nothing).then(|| Terms {
            files: Arc::clone(&files),
            init: held.first_process(),
            reads: observed == Observed::Everything,
            is_root: host.uid == 0,
            has_namespaces: policy.nesting != Nesting::Refused,
        });
        // This fork too comes before any thread: the child of a threaded process may only make
        // async-signal-safe calls until it execs; see fork(2).
        let is_transparent = policy.network.is_transparent();
        let proxies = match held.hand_off()? {
            Some(hand_off) => Some(Proxies::start(hand_off, policy.network, audit)?),
            None => None,
        };
        let prepared = broker::prepare(held.stops_calls())?;
        let trapped = held.trapped()?;
        if is_transparent
            && trapped
                .as_ref()
                .is_some_and(|found| found.for_broker.redirection.is_none())
        {
            audit.verbose(format_args!(
                "programs that know no proxy are served on ports 22, 80, 443 and those of \
                 `network.allowedDomains` alone: see `srt ctl doctor`"
            ));
        }
        audit.start().map_err(|error| {
            Error::new(Kind::Launch, "cannot start to write events").call("clone", error)
        })?;
        if trapped
            .as_ref()
            .is_some_and(|found| found.listener.is_none())
        {
            events::warn_unobserved(audit);
        }
        let broker = broker::start(prepared, trapped, policy.sockets, terms, audit)?;
        launch::leave((policy.environment, policy.notes));
        Ok(Self {
            proxies,
            broker,
            files,
        })
    }

    /// Returns the rules for files, which the observer goes by too.
    pub(super) fn files(&self) -> &Filesystem {
        &self.files
    }

    /// Waits until the network that the settings allow can be reached.
    pub(super) fn wait_until_ready(&self) -> Result<()> {
        self.proxies.iter().try_for_each(Proxies::wait_until_ready)
    }

    /// Records what they report until the sandbox is gone; returns how the command ended.
    pub(super) fn follow(self, held: Sandbox, audit: &Audit) -> Result<Ended> {
        let lines: Vec<_> = self.proxies.iter().map(Proxies::events).collect();
        let watched: Vec<_> = lines.iter().map(|line| Line::descriptor(line)).collect();
        let processes = Processes::below(held.first_process());
        let owner_of = |socket| processes.owner_of(socket);
        let mut record = || lines.iter().for_each(|line| line.record(audit, &owner_of));
        // Where no sink wants every event, the proxies have nothing left to say: they end
        // beside init.
        let mut end = || match &self.proxies {
            Some(proxies) if !audit.is_recording() => proxies.kill(),
            _ => {}
        };
        let ended = held.wait(&watched, &mut record, &mut end)?;
        if let Some(proxies) = &self.proxies {
            proxies.record_rest(audit);
        }
        self.broker.end();
        Ok(ended)
    }
}
