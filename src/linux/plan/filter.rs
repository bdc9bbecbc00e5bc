//! The seccomp programs, compiled from `seccomp-profiles` when the crate was built.

use super::{Observed, Place};
use crate::policy::{Host, Nesting, NetworkMode, Policy, SeccompProfile};

/// One program and the name it has in the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// Name in the profile.
    pub name: &'static str,
    bytes: &'static [u8],
}

macro_rules! filter {
    ($name:literal) => {
        Filter {
            name: $name,
            bytes: include_bytes!(concat!(
                env!("OUT_DIR"),
                "/",
                env!("SECCOMP_ARCH"),
                "/",
                $name,
                ".bpf"
            )),
        }
    };
}

/// One line of the profiles: a call that is refused, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// Name of the program it is compiled into.
    pub filter: &'static str,
    /// Name of the call.
    pub syscall: &'static str,
    /// What its arguments must be, each for the line to count; empty for any.
    pub conditions: &'static str,
    /// What the command gets instead: an errno, or `broker`, which acts for it.
    pub action: &'static str,
    /// Why.
    pub reason: &'static str,
}

/// Every line of the profiles that this machine's architecture has, its parts apart by tabs.
/// A text, since a table of texts is relocated at every launch, and few ask for it.
const LEDGER: &str = include_str!(concat!(
    env!("OUT_DIR"),
    "/",
    env!("SECCOMP_ARCH"),
    "/ledger.tsv"
));

/// Who the command is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum User {
    /// Not user 0.
    Ordinary,
    /// User 0.
    Root,
    /// User 0 whose changes of owners are answered and not made.
    FakeRoot,
}

/// Size of one instruction, `struct sock_filter` of linux/filter.h.
const INSTRUCTION: usize = 8;

/// Returns the programs in the order they are installed. All of them run on every call, and
/// the strictest answer counts.
///
/// Where every Unix socket is open, those that send without connecting are too; in the network
/// namespace of others none can be made.
/// Only user 0 gets those that refuse set-id bits: a set-uid file of an ordinary user
/// gives away that user alone, one of root gives away the machine. In namespaces of its own
/// root has the right to give files capabilities too.
pub(super) fn for_caller(
    user: User,
    policy: &Policy,
    place: Place,
    observed: Observed,
) -> Vec<Filter> {
    // Only beside a program with a listener, which refuses what these leave to it.
    let is_seen = observed != Observed::Nothing && judges_sockets(policy, place);
    let refuse = match (policy.nesting, is_seen) {
        (Nesting::Refused, false) => filter!("refuse"),
        (Nesting::Userns, false) => filter!("refuse-userns"),
        (Nesting::Mounts, false) => filter!("refuse-mounts"),
        (Nesting::Refused, true) => filter!("refuse-seen"),
        (Nesting::Userns, true) => filter!("refuse-userns-seen"),
        (Nesting::Mounts, true) => filter!("refuse-mounts-seen"),
    };
    let mut filters = vec![filter!("absent"), refuse];
    if policy.seccomp_profile == SeccompProfile::Strict {
        filters.extend([filter!("strict-absent"), filter!("strict-refuse")]);
    }
    let filters_network = policy.network_mode == NetworkMode::Filtered;
    match place {
        _ if policy.sockets.all_are_open() => {}
        Place::Host if filters_network => filters.push(filter!("unix-types")),
        _ => filters.push(filter!("unix")),
    }
    if place == Place::Sandbox && filters_network {
        filters.push(filter!("inet"));
    }
    if user != User::Ordinary && policy.nesting != Nesting::Refused {
        filters.push(filter!("file-capabilities"));
    }
    if user != User::Ordinary {
        filters.extend([filter!("setid-absent"), filter!("setid")]);
    }
    if user == User::FakeRoot {
        filters.push(filter!("owners"));
    }
    filters
}

/// Returns the program that stops what the broker performs or tells of; `None` where it does
/// neither. It is one, since only one program in force can have a listener.
pub(super) fn stopped(policy: &Policy, place: Place, observed: Observed) -> Option<Filter> {
    match (judges_sockets(policy, place), observed) {
        (true, Observed::Nothing) => Some(filter!("performed")),
        (true, Observed::Writes) => Some(filter!("performed-writes")),
        (true, Observed::Everything) => Some(filter!("performed-all")),
        (false, Observed::Nothing) => None,
        (false, Observed::Writes) => Some(filter!("observed-writes")),
        (false, Observed::Everything) => Some(filter!("observed-all")),
    }
}

/// Tells whether the broker performs connections.
pub(super) fn judges_sockets(policy: &Policy, place: Place) -> bool {
    let has_own_network = policy.network_mode == NetworkMode::Filtered && place == Place::Host;
    has_own_network && !policy.sockets.all_are_open()
}

/// Returns the programs of the proxies' process: those of a command under the strict profile,
/// and one of its own.
pub(crate) fn of_proxies() -> [Filter; 5] {
    [
        filter!("absent"),
        filter!("refuse"),
        filter!("strict-absent"),
        filter!("strict-refuse"),
        filter!("proxies"),
    ]
}

/// Returns every program that a command of this caller gets.
pub fn of(policy: &Policy, host: &Host) -> Vec<Filter> {
    let observed = Observed::Nothing;
    let user = match host.uid {
        0 => User::Root,
        _ => User::Ordinary,
    };
    let mut filters = for_caller(user, policy, Place::Host, observed);
    filters.extend(stopped(policy, Place::Host, observed));
    filters
}

fn ledger() -> impl Iterator<Item = Line> {
    LEDGER.lines().filter_map(|line| {
        let mut parts = line.split('\t');
        Some(Line {
            filter: parts.next()?,
            syscall: parts.next()?,
            conditions: parts.next()?,
            action: parts.next()?,
            reason: parts.next()?,
        })
    })
}

/// Returns the lines that `filters` are compiled from, sorted by call.
pub fn lines(filters: &[Filter]) -> Vec<Line> {
    let in_force = |line: &Line| filters.iter().any(|filter| filter.name == line.filter);
    let mut lines: Vec<Line> = ledger().filter(in_force).collect();
    // Stable: lines for one call keep the order of their program.
    lines.sort_by_key(|line| line.syscall);
    lines
}

impl Filter {
    /// Returns the program as the kernel takes it.
    pub(crate) fn program(&self) -> Vec<libc::sock_filter> {
        let (instructions, _) = self.bytes.as_chunks::<INSTRUCTION>();
        instructions.iter().map(instruction).collect()
    }
}

fn instruction(&[a, b, jt, jf, c, d, e, f]: &[u8; INSTRUCTION]) -> libc::sock_filter {
    let code = u16::from_ne_bytes([a, b]);
    let k = u32::from_ne_bytes([c, d, e, f]);
    libc::sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod numbers;
#[cfg(test)]
mod profiles;
#[cfg(test)]
mod tests;
