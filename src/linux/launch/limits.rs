//! By what the bounds of a run are kept on this machine: control groups where the caller may make
//! some, else setrlimit(2).

use std::fs;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::groups::{self, Hierarchies};
use super::mountinfo::Mount;
use crate::backend::{Bound, Limit, Means};
use crate::error::{Error, Kind, Result};
use crate::linux::plan::Place;
use crate::linux::plan::limits::{Group, Limits};
use crate::policy::RunLimits;

/// Finds what can keep each bound. Where there are none, nothing is looked at.
///
/// # Errors
/// Nothing here can keep one of them.
pub(crate) fn plan(asked: RunLimits, place: Place, uid: u32, mounts: &[Mount]) -> Result<Limits> {
    let mut limits = Limits::default();
    let mut add = |limit, value: Option<u64>, by| {
        let bounds = value.map(|value| Bound { limit, value, by });
        limits.bounds.extend(bounds);
    };
    add(Limit::Seconds, asked.seconds, Means::Init);
    let shared = [
        (Limit::Memory, asked.memory),
        (Limit::Processes, asked.processes),
    ];
    let shared = shared.into_iter();
    let shared = shared.filter_map(|(limit, value)| Some((limit, value?)));
    let shared: Vec<_> = shared.collect();
    let found = match place {
        // What is around can only be read.
        Place::Host if !shared.is_empty() => groups::find(mounts, &shared),
        _ => Hierarchies::default(),
    };
    let mut groups: Vec<Group> = Vec::new();
    for (limit, value) in shared {
        let (by, group) = match found.of(limit) {
            Some((parent, means)) => (means, Group::new(parent.to_owned(), means, limit, value)),
            None => (Means::Rlimit, None),
        };
        if by == Means::Rlimit && limit == Limit::Processes && counts_nothing(uid) {
            return Err(no_means_for_processes());
        }
        add(limit, Some(value), by);
        let Some(group) = group else { continue };
        match groups.iter_mut().find(|other| other.parent == group.parent) {
            Some(other) => other.merge(group),
            None => groups.push(group),
        }
    }
    add(Limit::Files, asked.files, Means::Rlimit);
    add(Limit::FileSize, asked.file_size, Means::Rlimit);
    add(Limit::CpuSeconds, asked.cpu_seconds, Means::Rlimit);
    limits.groups = groups;
    limits.rlimits = rlimits(&limits.bounds);
    Ok(limits)
}

/// Tells whether the kernel lets this user have any number of processes: the root user of the
/// machine, whatever its capabilities; see fork(2).
fn counts_nothing(uid: u32) -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let first = map.lines().next().unwrap_or_default();
    uid == 0 && first.split_whitespace().nth(1) == Some("0")
}

fn no_means_for_processes() -> Error {
    let goal = "cannot keep `limits.processes`: no control group can be made here, and the kernel \
                does not count the processes of root";
    Error::new(Kind::Unsupported, goal).with_hint(
        "mount the cgroup file system with the pids controller, writable, or run srt as an \
         ordinary user",
    )
}

fn rlimits(bounds: &[Bound]) -> Vec<(Resource, u64)> {
    let kept = bounds.iter().filter(|bound| bound.by == Means::Rlimit);
    let rlimits = kept.filter_map(|bound| {
        let resource = match bound.limit {
            Limit::Seconds => return None,
            // Not RLIMIT_AS: runtimes reserve far more addresses than they use.
            Limit::Memory => Resource::RLIMIT_DATA,
            Limit::Processes => Resource::RLIMIT_NPROC,
            Limit::Files => Resource::RLIMIT_NOFILE,
            Limit::FileSize => Resource::RLIMIT_FSIZE,
            Limit::CpuSeconds => Resource::RLIMIT_CPU,
        };
        Some((resource, bound.value.saturating_add(ours(bound.limit))))
    });
    rlimits.collect()
}

/// Returns how many of what the kernel counts for `limit` are the sandbox's own.
fn ours(limit: Limit) -> u64 {
    // The user namespace of the run counts init and the executor too.
    if limit == Limit::Processes { 2 } else { 0 }
}

/// Bounds this process and all that come from it. Returns what the kernel keeps of each, which
/// is less where the caller may have less.
pub(super) fn set(limits: &Limits) -> nix::Result<Vec<u64>> {
    let set = |&(resource, value): &(Resource, u64)| {
        let (_, hard) = getrlimit(resource)?;
        // A process that outlives SIGXCPU is killed a second later.
        let more = u64::from(resource == Resource::RLIMIT_CPU);
        setrlimit(
            resource,
            value.min(hard),
            value.saturating_add(more).min(hard),
        )?;
        match getrlimit(resource)? {
            (kept, _) if kept <= value => Ok(kept),
            _ => Err(Errno::EPERM),
        }
    };
    limits.rlimits.iter().map(set).collect()
}

/// Returns the bounds as they are kept: those of setrlimit(2) as they were read back, in the
/// order of `asked`, and the others as they were asked for.
pub(super) fn in_force(asked: &[Bound], rlimits: &[u64]) -> Vec<Bound> {
    let mut rlimits = rlimits.iter();
    let kept = asked.iter().filter_map(|bound| {
        let value = match bound.by {
            Means::Rlimit => rlimits.next()?.saturating_sub(ours(bound.limit)),
            Means::Init | Means::Group2 | Means::Group1 => bound.value,
        };
        Some(Bound { value, ..*bound })
    });
    kept.collect()
}
