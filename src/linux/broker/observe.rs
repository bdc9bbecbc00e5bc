//! Tells of uses of files that the rules refuse, of sockets that nobody is given, and of
//! programs that are started.
//!
//! It reports and protects nothing: the kernel is let go on with the call, and mounts, Landlock
//! and capabilities decide it. A caller that changes its memory meanwhile hides from the report
//! alone.

mod acts;
mod datagrams;
mod judge;
mod known;
mod memory;
mod seen;

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::caller::{self, lower_half};
use crate::audit::Audit;
use crate::audit::event::{Code, Event, Kind, Process, Rule, Verdict};
use crate::linux::processes;
use crate::linux::sys::Notification;
use crate::policy::change::Change;
use crate::policy::filesystem::{Filesystem, Use};
use crate::policy::secrets::redact_argument;
use acts::{Act, Deed};
pub(super) use datagrams::Datagrams;
use judge::Judge;
pub(super) use memory::Memory;
use seen::{Key, Seen};

/// What is told of one sandbox.
#[derive(Debug)]
pub(crate) struct Observer {
    judge: Judge,
    seen: Seen,
}

/// What an observer goes by.
#[derive(Debug)]
pub(crate) struct Terms {
    /// The rules for files.
    pub(crate) files: Arc<Filesystem>,
    /// The first process of the sandbox.
    pub(crate) init: u32,
    /// Reads and programs are told of too.
    pub(crate) reads: bool,
    /// The user that runs the sandbox has every right outside.
    pub(crate) is_root: bool,
    /// The command may have roots and views of its own.
    pub(crate) has_namespaces: bool,
}

/// A use of a path that was told of, for it to be told again.
#[derive(Debug, Clone)]
struct Told {
    op: &'static str,
    wanted: Use,
    path: std::path::PathBuf,
    process: Option<Process>,
}

/// The right to make packets; see capabilities(7).
const CAP_NET_RAW: u64 = 1 << 13;

impl Observer {
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            judge: Judge::new(terms),
            seen: Seen::default(),
        }
    }

    /// Tells of a call, where there is something to tell. Returns the errno it ends with; `None`
    /// for what the kernel makes of it.
    pub(super) fn tell(
        &self,
        audit: &Audit,
        memory: &Memory<'_>,
        call: &Notification,
    ) -> Option<i32> {
        if call.call == libc::SYS_socket {
            return self.tell_socket(audit, memory, &call.args);
        }
        let acts = acts::of(memory, call);
        for (index, act) in acts.all.iter().enumerate() {
            self.tell_act(audit, memory, act, acts.beside(index));
        }
        None
    }

    /// Tells what was counted and not told yet.
    pub(super) fn tell_rest(&self, audit: &Audit) {
        for (told, times) in self.seen.rest() {
            self.record(audit, &told, times);
        }
    }

    fn tell_act(&self, audit: &Audit, memory: &Memory<'_>, act: &Act, other: Option<&Act>) {
        let Some(asked) = self.judge.path(memory, act) else {
            return;
        };
        if act.deed == Deed::Start && self.tell_start(audit, memory, act, &asked) {
            return;
        }
        let Some(path) = self.judge.refused(memory, act, &asked) else {
            return;
        };
        let key = Key::new(memory.thread(), act.deed, &path);
        match self.seen.again(&key) {
            seen::Again::New => {}
            seen::Again::Counted => return,
            seen::Again::Due(told, times) => return self.record(audit, &told, times),
        }
        memory.pass_on();
        let Some((wanted, op)) = self.judge.possible(act.deed, &path) else {
            return;
        };
        if other.is_some_and(|other| !self.judge.is_possible(memory, other, &path)) {
            return;
        }
        let process = process(memory);
        // What was read of a caller that is gone may be another's.
        if !memory.is_waiting() {
            return;
        }
        let told = Told {
            op,
            wanted,
            path,
            process,
        };
        self.record(audit, &told, 1);
        for (told, times) in self.seen.remember(key, told) {
            self.record(audit, &told, times);
        }
    }

    fn record(&self, audit: &Audit, told: &Told, times: u64) {
        let Some(denial) = self.judge.denial(&told.path, told.wanted) else {
            return;
        };
        let rule = denial.rule;
        audit.record(&Event {
            target: Some(&told.path.to_string_lossy()),
            verdict: Some(Verdict::Denied),
            rule: rule.map(|rule| Rule::new(&rule.entry, &rule.origin)),
            process: told.process.clone(),
            predicted: true,
            suggest: Change::suggest(&denial.changes),
            detail: (times > 1).then(|| detail("count", times.into())),
            ..Event::new(Kind::File, told.op, denial.code)
        });
    }

    /// Tells of a program that is started; no where it is hidden.
    fn tell_start(&self, audit: &Audit, memory: &Memory<'_>, act: &Act, path: &Path) -> bool {
        let Some(path) = self.judge.program(memory, act, path) else {
            return false;
        };
        let target = path.to_string_lossy();
        let arg1 = act.arguments.and_then(|arguments| memory.second(arguments));
        let process = process(memory).map(|process| Process {
            exe: Some(target.clone().into_owned()),
            arg1: arg1.map(|arg1| redact_argument(&arg1.to_string_lossy())),
            ..process
        });
        if memory.is_waiting() {
            audit.record(&Event {
                target: Some(&target),
                process,
                predicted: true,
                ..Event::new(Kind::Exec, "start", Code::ProgramStarted)
            });
        }
        true
    }

    fn tell_socket(&self, audit: &Audit, memory: &Memory<'_>, args: &[u64; 6]) -> Option<i32> {
        let [family, kind] = [args[0], args[1]].map(|arg| i32::from_ne_bytes(lower_half(arg)));
        // The type shares its argument with flags.
        let is_packet = family == libc::AF_PACKET || kind & 0xf == SOCK_PACKET;
        let (target, code) = match family {
            _ if is_packet => ("AF_PACKET", Code::SocketPacket),
            libc::AF_INET => ("AF_INET", Code::SocketRaw),
            _ => ("AF_INET6", Code::SocketRaw),
        };
        // No program but the one with the listener refuses this family; see `refuse-seen`.
        let answer = (family == libc::AF_PACKET).then_some(libc::EPERM);
        // Where it made a network of its own, it may have them there.
        let may = || has_capability(memory.thread(), CAP_NET_RAW);
        if answer.is_none() && self.judge.has_namespaces() && may() {
            return answer;
        }
        let key = Key::new(memory.thread(), Deed::Socket, Path::new(target));
        if self.seen.is_new(key) {
            audit.record(&Event {
                target: Some(target),
                verdict: Some(Verdict::Denied),
                process: process(memory),
                predicted: answer.is_none(),
                detail: Some(detail("reason", NOTHING_OPENS.into())),
                ..Event::new(Kind::Socket, "socket", code)
            });
        }
        answer
    }
}

/// The old name of a packet socket; from linux/net.h.
const SOCK_PACKET: i32 = 10;

const NOTHING_OPENS: &str = "no setting gives a program packets of its own";

/// Says what the calling process is.
fn process(memory: &Memory<'_>) -> Option<Process> {
    processes::describe(memory.thread().unsigned_abs())
}

fn has_capability(thread: i32, capability: u64) -> bool {
    let status = caller::open_proc(thread).and_then(|proc| caller::status_of(&proc));
    let status = status.unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|held| u64::from_str_radix(held.trim(), 16).ok());
    held.is_some_and(|held| held & capability != 0)
}

fn detail(name: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value)])
}
