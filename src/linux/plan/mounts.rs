//! The file view as a list of mounts, parents before children.

use std::fmt;
use std::path::{Path, PathBuf};

use super::Layers;
use crate::policy::filesystem::{Access, Filesystem};
use crate::policy::path::{FileKind, RealPath};

/// One step of the file view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountOp {
    /// The host's tree, with everything mounted in it.
    Root(Access),
    /// A path of the host at its own place, with other rights than what is around it.
    Bind(RealPath, Access),
    /// An empty read-only stand-in, with places for what is shown again below it.
    StandIn(RealPath, Vec<(PathBuf, FileKind)>),
    /// A `/proc` of the sandbox's own processes, read-only, without the files in `masked`.
    Proc {
        /// Names below `/proc` that tell of the whole machine.
        masked: &'static [&'static str],
    },
    /// A `/dev` with these nodes of the host, terminals of its own, and a private `shm`.
    Dev {
        /// Names below `/dev`.
        nodes: &'static [&'static str],
    },
    /// The host's `/sys`, read-only whatever the settings grant, without the trees in `masked`.
    Sys {
        /// What it would be by the mounts around it.
        around: Access,
        /// Names below `/sys`.
        masked: &'static [&'static str],
    },
}

/// Files of `/proc` that tell of the machine or let root act on it. A mapped uid 0 passes
/// their mode checks.
const PROC_MASKED: [&str; 11] = [
    "acpi",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "scsi",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
];

/// Trees of `/sys` with firmware tables, serial numbers and kernel internals.
const SYS_MASKED: [&str; 4] = [
    "firmware",
    "kernel/debug",
    "kernel/security",
    "kernel/tracing",
];

/// Nodes every program may expect.
const DEV_NODES: [&str; 6] = ["full", "null", "random", "tty", "urandom", "zero"];

pub(super) fn plan(policy: &Filesystem, layers: Layers) -> Vec<MountOp> {
    if layers == Layers::Landlock {
        let trees = private_trees(Access::Read);
        return [MountOp::Root(Access::Write)]
            .into_iter()
            .chain(trees)
            .collect();
    }
    let mut ops = vec![MountOp::Root(policy.access(Path::new("/")))];
    let boundaries = policy.boundaries();
    for path in &boundaries {
        let access = policy.access(path.as_path());
        if access == covering(&ops, path.as_path()) && !policy.is_pinned(path) {
            continue;
        }
        ops.push(match access {
            Access::Hidden => {
                MountOp::StandIn((*path).clone(), reopened(path, &boundaries, policy))
            }
            Access::Read | Access::Write => MountOp::Bind((*path).clone(), access),
        });
    }
    let around = covering(&ops, Path::new("/sys"));
    ops.extend(private_trees(around));
    ops
}

/// The trees the kernel fills come last: no bind of a parent may cover them again.
fn private_trees(around: Access) -> [MountOp; 3] {
    [
        MountOp::Sys {
            around,
            masked: &SYS_MASKED,
        },
        MountOp::Proc {
            masked: &PROC_MASKED,
        },
        MountOp::Dev { nodes: &DEV_NODES },
    ]
}

/// Tells whether the plan wants the mount at `place` to be writable.
pub fn may_be_writable(ops: &[MountOp], place: &Path) -> bool {
    match place.strip_prefix("/dev") {
        Ok(below) => !below.as_os_str().is_empty(),
        Err(_) if place.starts_with("/proc") || place.starts_with("/sys") => false,
        Err(_) => covering(ops, place) == Access::Write,
    }
}

/// Returns what a path is by the mounts so far.
fn covering(ops: &[MountOp], path: &Path) -> Access {
    let covering = ops.iter().rev().find_map(|op| match op {
        MountOp::Bind(at, access) if path.starts_with(at.as_path()) => Some(*access),
        MountOp::StandIn(at, _) if path.starts_with(at.as_path()) => Some(Access::Hidden),
        MountOp::Root(access) => Some(*access),
        _ => None,
    });
    covering.unwrap_or(Access::Hidden)
}

/// Lists what a stand-in has to hold a mount point for: paths shown again whose nearest
/// mount is this stand-in.
fn reopened(
    hidden: &RealPath,
    boundaries: &[&RealPath],
    policy: &Filesystem,
) -> Vec<(PathBuf, FileKind)> {
    let shown = boundaries.iter().filter(|path| {
        path.as_path().starts_with(hidden.as_path())
            && path.as_path() != hidden.as_path()
            && policy.access(path.as_path()) != Access::Hidden
    });
    let nearest = shown.filter(|path| {
        let between = path.as_path().ancestors().skip(1);
        between
            .take_while(|parent| *parent != hidden.as_path())
            .all(|parent| policy.access(parent) == Access::Hidden)
    });
    nearest
        .filter_map(|path| {
            let below = path.as_path().strip_prefix(hidden.as_path()).ok()?;
            Some((below.to_owned(), path.id().kind))
        })
        .collect()
}

impl fmt::Display for MountOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(access) => write!(f, "{} /", word(*access)),
            Self::Bind(path, access) => write!(f, "{} {path}", word(*access)),
            Self::StandIn(path, _) => write!(f, "hide {path}"),
            Self::Proc { .. } => f.write_str("new /proc, read-only"),
            Self::Dev { .. } => f.write_str("new /dev"),
            Self::Sys { .. } => f.write_str("read-only /sys"),
        }
    }
}

fn word(access: Access) -> &'static str {
    match access {
        Access::Hidden => "hide",
        Access::Read => "read-only",
        Access::Write => "writable",
    }
}
