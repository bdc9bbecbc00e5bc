//! Tells of datagrams that leave the loopback and reach nobody.

use std::collections::HashMap;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::detail;
use crate::audit::Audit;
use crate::audit::event::{Code, Event, Kind, Process, Verdict};
use crate::linux::datagrams::{Ends, Eyes};
use crate::linux::inet_diag::{InetDiag, Transport};
use crate::linux::processes::Processes;

/// What sees them, and the first process of those that send.
#[derive(Debug)]
pub(in super::super) struct Datagrams {
    eyes: Eyes,
    init: u32,
}

/// Most senders and destinations that are remembered; then those counted are told of.
const MAX_SEEN: usize = 1024;

const REASON: &str = "UDP reaches no host; names are answered on port 53";

impl Datagrams {
    /// Takes the first process of the network that is looked at.
    pub(in super::super) fn new(eyes: Eyes, init: u32) -> Self {
        Self { eyes, init }
    }

    /// Tells of each until `is_over`; what comes again is counted, and told of at the end.
    pub(in super::super) fn tell(self, audit: &Audit, is_over: impl Fn() -> bool) {
        let Ok(senders) = self.eyes.senders.try_clone().map(InetDiag::new) else {
            return;
        };
        let processes = Processes::below(self.init);
        let mut seen: HashMap<Ends, u64> = HashMap::new();
        loop {
            // Before the look: what came until then is told of.
            let is_last = is_over();
            while let Some(ends) = self.eyes.next() {
                let times = seen.entry(ends).or_default();
                *times += 1;
                if *times == 1 {
                    let socket = senders.inode_of(Transport::Udp, ends.from, ends.to);
                    let process = socket.and_then(|socket| processes.owner_of(socket));
                    record(audit, ends, 1, process);
                }
                if seen.len() > MAX_SEEN {
                    record_counted(audit, &mut seen);
                }
            }
            if is_last {
                break;
            }
            let fds = self.eyes.sockets().map(AsFd::as_fd);
            let mut fds: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            // A signal ends it too.
            let _has_come = poll(&mut fds, PollTimeout::NONE);
        }
        record_counted(audit, &mut seen);
        if let lost @ 1.. = self.eyes.lost() {
            audit.record(&Event {
                target: Some("datagrams"),
                detail: Some(detail("count", lost.into())),
                ..Event::new(Kind::Lifecycle, "record", Code::EventsDropped)
            });
        }
    }
}

fn record_counted(audit: &Audit, seen: &mut HashMap<Ends, u64>) {
    for (ends, times) in seen.drain().filter(|(_, times)| *times > 1) {
        record(audit, ends, times - 1, None);
    }
}

fn record(audit: &Audit, ends: Ends, times: u64, process: Option<Process>) {
    let mut detail = detail("reason", REASON.into());
    if times > 1 {
        detail.insert("count".to_owned(), times.into());
    }
    audit.record(&Event {
        target: Some(&ends.to.to_string()),
        verdict: Some(Verdict::Denied),
        process,
        detail: Some(detail),
        ..Event::new(Kind::Socket, "send", Code::SocketUdp)
    });
}
