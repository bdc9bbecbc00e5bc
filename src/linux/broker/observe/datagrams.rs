//! Tells of datagrams that leave the loopback and reach nobody.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvFlags, recv};

use super::detail;
use crate::audit::Audit;
use crate::audit::event::{Code, Event, Kind, Process, Verdict};
use crate::linux::datagrams::{Ends, HEAD};
use crate::linux::inet_diag::{InetDiag, Transport};
use crate::linux::processes::Processes;
use crate::linux::sys;

/// What sees them, and what tells who sends.
#[derive(Debug)]
pub(in super::super) struct Datagrams {
    packets: OwnedFd,
    senders: InetDiag,
    init: u32,
}

/// Most senders and destinations that are remembered; then those counted are told of.
const MAX_SEEN: usize = 1024;

const REASON: &str = "UDP reaches no host; names are answered on port 53";

impl Datagrams {
    /// Takes a socket of [`crate::linux::datagrams::open`], a netlink socket of the same network,
    /// and the first process there.
    pub(in super::super) fn new(packets: OwnedFd, senders: OwnedFd, init: u32) -> Self {
        Self {
            packets,
            senders: InetDiag::new(senders),
            init,
        }
    }

    /// Tells of each until `is_over`; what comes again is counted, and told of at the end.
    pub(in super::super) fn tell(&self, audit: &Audit, is_over: impl Fn() -> bool) {
        let processes = Processes::below(self.init);
        let mut seen: HashMap<Ends, u64> = HashMap::new();
        loop {
            // What has come is read to its end.
            let flags = match is_over() {
                true => RecvFlags::DONTWAIT,
                false => RecvFlags::empty(),
            };
            match self.next(flags) {
                Ok(Some(ends)) => {
                    let times = seen.entry(ends).or_default();
                    *times += 1;
                    if *times == 1 {
                        let socket = self.senders.inode_of(Transport::Udp, ends.from, ends.to);
                        let process = socket.and_then(|socket| processes.owner_of(socket));
                        record(audit, ends, 1, process);
                    }
                }
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
            if seen.len() > MAX_SEEN {
                record_counted(audit, &mut seen);
            }
        }
        record_counted(audit, &mut seen);
        self.record_lost(audit);
    }

    fn next(&self, flags: RecvFlags) -> rustix::io::Result<Option<Ends>> {
        let mut head = [0; HEAD];
        let (len, _) = recv(&self.packets, head.as_mut_slice(), flags)?;
        Ok(head.get(..len).and_then(Ends::of))
    }

    fn record_lost(&self, audit: &Audit) {
        let lost: io::Result<u32> = sys::lost_packets(self.packets.as_fd());
        if let Ok(lost @ 1..) = lost {
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
