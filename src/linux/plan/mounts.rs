//! The file view as a list of mounts, parents before children.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use super::Layers;
use crate::policy::Nesting;
use crate::policy::filesystem::{Access, Filesystem};
use crate::policy::path::{FileKind, Link, RealPath};

/// One step of the file view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountOp {
    /// The host's tree, with everything mounted in it.
    Root(Access),
    /// An empty read-only root, with places for what is shown.
    HiddenRoot(Places),
    /// A path of the host at its own place, with other rights than what is around it.
    Bind(RealPath, Access),
    /// A file, as this text.
    Redacted(RealPath, String),
    /// An empty read-only stand-in, with places for what is shown again below it.
    StandIn(RealPath, Places),
    /// A link, mounted on itself: it is followed as before, and its name cannot be removed,
    /// moved or given to something else.
    Link(Link),
    /// A `/proc` of the sandbox's own processes, without the files in `masked`.
    Proc {
        /// Names below `/proc` that tell of the whole machine.
        masked: &'static [&'static str],
        /// What may be done with the directories of processes, where id maps are written. All
        /// else is read-only.
        processes: Access,
    },
    /// A `/dev` with these nodes of the host, and terminals, shared memory and message queues
    /// of its own.
    Dev {
        /// Names below `/dev`.
        nodes: &'static [&'static str],
    },
    /// The host's `/sys`, without the trees in `masked`.
    Sys {
        /// Names below `/sys`.
        masked: &'static [&'static str],
    },
}

/// What a stand-in is not empty of, by paths below it.
pub type Places = Vec<(PathBuf, Place)>;

/// Something in a stand-in, for what is shown again below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// To be mounted on.
    Mount(FileKind),
    /// A link that leads to what is shown.
    Link(PathBuf),
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

/// Writable file systems of the sandbox's own below `/dev`.
pub const DEV_DIRECTORIES: [&str; 3] = ["mqueue", "pts", "shm"];

/// Links below `/dev` that every program may expect, and where they lead.
pub const DEV_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

pub(super) fn plan(policy: &Filesystem, layers: Layers, nesting: Nesting) -> Vec<MountOp> {
    let processes = access_to_processes(nesting);
    if layers == Layers::Landlock {
        let mut ops = vec![MountOp::Root(Access::Write)];
        ops.extend(private_trees(processes));
        return ops;
    }
    let mut ops = vec![root(policy.access(Path::new("/")))];
    let mut places = HashMap::from([(Path::new("/"), 0)]);
    let boundaries = policy.boundaries();
    for path in boundaries {
        let access = policy.access(path.as_path());
        let around = nearest(&places, path.as_path()).unwrap_or(0);
        let redacted = policy.redacted(path).filter(|_| access != Access::Hidden);
        if redacted.is_none() && Some(access) == ops[around].access() && !policy.is_pinned(path) {
            continue;
        }
        places.insert(path.as_path(), ops.len());
        if access == Access::Hidden {
            ops.push(MountOp::StandIn(path.clone(), Vec::new()));
            continue;
        }
        // A stand-in is empty: what is shown again below it needs a place to be mounted at.
        let is_placed = ops[around].hold(path.as_path(), Place::Mount(path.id().kind));
        match redacted {
            None => ops.push(MountOp::Bind(path.clone(), access)),
            Some(text) => {
                // By its own identity the file is known to be what was read.
                if is_placed {
                    ops.push(MountOp::Bind(path.clone(), access));
                }
                ops.push(MountOp::Redacted(path.clone(), text.to_owned()));
            }
        }
    }
    for link in policy.hidden_links() {
        let around = nearest(&places, &link.path).unwrap_or(0);
        ops[around].hold(&link.path, Place::Link(link.target.clone()));
    }
    // After every directory: one that is mounted would cover what is mounted in it.
    ops.extend(policy.held().cloned().map(MountOp::Link));
    ops.extend(private_trees(processes));
    ops
}

fn root(access: Access) -> MountOp {
    // Of the trees that every run mounts anew, only these two have to be there.
    let own = ["proc", "dev"].map(|name| (name.into(), Place::Mount(FileKind::Directory)));
    match access {
        Access::Hidden => MountOp::HiddenRoot(own.into()),
        shown => MountOp::Root(shown),
    }
}

/// Who makes a user namespace writes its id maps, which are files of a process.
fn access_to_processes(nesting: Nesting) -> Access {
    match nesting {
        Nesting::Refused => Access::Read,
        Nesting::Userns | Nesting::Mounts => Access::Write,
    }
}

/// The trees the kernel fills come last: no bind of a parent may cover them again.
fn private_trees(processes: Access) -> [MountOp; 3] {
    [
        MountOp::Sys {
            masked: &SYS_MASKED,
        },
        MountOp::Proc {
            masked: &PROC_MASKED,
            processes,
        },
        MountOp::Dev { nodes: &DEV_NODES },
    ]
}

/// Returns what a command may do with a path in `/proc`, `/dev` and the masked part of `/sys`,
/// whatever the lists of paths say; `None` where they decide.
pub fn private_access(path: &Path, nesting: Nesting) -> Option<Access> {
    let masked = |below: &Path, names: &[&str]| names.iter().any(|name| below.starts_with(name));
    if let Ok(below) = path.strip_prefix("/dev") {
        let first = below.iter().next();
        let is = |name: &str| first.is_some_and(|first| first == name);
        let linked = DEV_LINKS.iter().any(|(name, _)| is(name));
        return Some(match first {
            None => Access::Read,
            Some(_) if linked || DEV_DIRECTORIES.into_iter().any(is) => Access::Write,
            Some(_) if DEV_NODES.iter().any(|name| below == Path::new(name)) => Access::Write,
            Some(_) => Access::Hidden,
        });
    }
    if let Ok(below) = path.strip_prefix("/proc") {
        let first = below.iter().next().and_then(OsStr::to_str);
        let of_process = |name: &str| name == "self" || name.parse::<u32>().is_ok();
        return Some(match masked(below, &PROC_MASKED) {
            true => Access::Hidden,
            false if first.is_some_and(of_process) => access_to_processes(nesting),
            false => Access::Read,
        });
    }
    let below = path.strip_prefix("/sys").ok()?;
    masked(below, &SYS_MASKED).then_some(Access::Hidden)
}

impl MountOp {
    /// Makes room for what stands at `path`; tells whether there was none.
    fn hold(&mut self, path: &Path, place: Place) -> bool {
        let (hidden, places) = match self {
            Self::HiddenRoot(places) => (Path::new("/"), places),
            Self::StandIn(hidden, places) => (hidden.as_path(), places),
            _ => return false,
        };
        let below = path.strip_prefix(hidden);
        below.is_ok_and(|below| {
            places.push((below.to_owned(), place));
            true
        })
    }

    fn access(&self) -> Option<Access> {
        match self {
            Self::Root(access) | Self::Bind(_, access) => Some(*access),
            Self::Redacted(..) | Self::Link(_) => Some(Access::Read),
            Self::HiddenRoot(_) | Self::StandIn(..) => Some(Access::Hidden),
            Self::Proc { processes, .. } => Some(*processes),
            Self::Dev { .. } | Self::Sys { .. } => None,
        }
    }

    fn place(&self) -> &Path {
        match self {
            Self::Root(_) | Self::HiddenRoot(_) => Path::new("/"),
            Self::Bind(path, _) | Self::Redacted(path, _) | Self::StandIn(path, _) => {
                path.as_path()
            }
            Self::Link(link) => &link.path,
            Self::Proc { .. } => Path::new("/proc"),
            Self::Dev { .. } => Path::new("/dev"),
            Self::Sys { .. } => Path::new("/sys"),
        }
    }
}

/// What every path is once a list of steps is carried out.
#[derive(Debug)]
pub struct View<'a>(HashMap<&'a Path, Access>);

impl<'a> View<'a> {
    /// Takes the steps together.
    pub fn of(ops: &'a [MountOp]) -> Self {
        let steps = ops.iter();
        Self(
            steps
                .filter_map(|op| Some((op.place(), op.access()?)))
                .collect(),
        )
    }

    /// Tells whether the plan wants the mount at `place` to be writable.
    pub fn may_be_writable(&self, place: &Path) -> bool {
        match place.strip_prefix("/dev") {
            Ok(below) => DEV_DIRECTORIES
                .into_iter()
                .any(|name| below.starts_with(name)),
            Err(_) if place.starts_with("/proc") => self.0.get(place) == Some(&Access::Write),
            Err(_) => nearest(&self.0, place) == Some(Access::Write),
        }
    }
}

/// Returns what stands at `path` or at the nearest directory above it.
fn nearest<T: Copy>(places: &HashMap<&Path, T>, path: &Path) -> Option<T> {
    path.ancestors().find_map(|at| places.get(at).copied())
}

impl fmt::Display for MountOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(access) => write!(f, "{} /", word(*access)),
            Self::Bind(path, access) => write!(f, "{} {path}", word(*access)),
            Self::Redacted(path, _) => write!(f, "without its secrets {path}"),
            Self::HiddenRoot(_) => f.write_str("hide /"),
            Self::StandIn(path, _) => write!(f, "hide {path}"),
            Self::Link(link) => write!(f, "hold the link {link}"),
            Self::Proc { processes, .. } => match processes {
                Access::Write => f.write_str("new /proc, read-only but for processes"),
                _ => f.write_str("new /proc, read-only"),
            },
            Self::Dev { .. } => f.write_str("new /dev"),
            Self::Sys { .. } => f.write_str("mask files of /sys"),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds the steps for entries at places of this machine that always exist.
    fn steps(lists: [&[&str]; 4]) -> Vec<MountOp> {
        plan(&Filesystem::of_lists(lists), Layers::Both, Nesting::Refused)
    }

    fn shown(ops: &[MountOp]) -> String {
        ops.iter().map(|op| format!("{op}\n")).collect()
    }

    #[test]
    fn a_small_policy_is_these_steps() {
        let ops = steps([
            &["/w/hidden"],
            &["/w/hidden/deep/shown"],
            &["/w"],
            &["/w/a/kept"],
        ]);
        let expected = "\
read-only /
writable /w
writable /w/a
hide /w/hidden
read-only /w/a/kept
writable /w/hidden/deep/shown
mask files of /sys
new /proc, read-only
new /dev
";
        assert_eq!(shown(&ops), expected);
    }

    #[test]
    fn links_are_held_when_every_directory_stands() {
        let policy = Filesystem::of_lists([&["/w/hidden"], &[], &["/w/a", "/w/hidden/x"], &[]]);
        let policy = policy.over_links(&["/w/a/l", "/w/hidden/x/l", "/l"]);
        let ops = plan(&policy, Layers::Both, Nesting::Refused);
        let expected = "\
read-only /
writable /w/a
hide /w/hidden
writable /w/hidden/x
hold the link /w/a/l
hold the link /w/hidden/x/l
mask files of /sys
new /proc, read-only
new /dev
";
        assert_eq!(shown(&ops), expected);
        assert!(!View::of(&ops).may_be_writable(Path::new("/w/a/l")));
        let ops = plan(&policy, Layers::Landlock, Nesting::Refused);
        assert!(!shown(&ops).contains("hold"));
    }

    #[test]
    fn a_stand_in_holds_places_for_what_is_shown_again() {
        let hidden: &[&str] = &["/h", "/h/a/b", "/h/x/y"];
        let ops = steps([hidden, &["/h/a", "/h/a/b/c", "/h/x/y/z"], &[], &[]]);
        let stand_ins: Vec<_> = ops
            .iter()
            .filter_map(|op| match op {
                MountOp::StandIn(path, places) => Some((path.to_string(), places.clone())),
                _ => None,
            })
            .collect();
        let place = |name: &str| (PathBuf::from(name), Place::Mount(FileKind::Directory));
        assert_eq!(
            stand_ins,
            [
                ("/h".to_owned(), vec![place("a"), place("x/y/z")]),
                ("/h/a/b".to_owned(), vec![place("c")]),
            ]
        );
    }

    #[test]
    fn the_view_allows_a_writable_mount_where_the_plan_grants_it() {
        let ops = steps([&["/w/hidden"], &[], &["/w"], &["/w/kept"]]);
        let view = View::of(&ops);
        let writable = ["/w", "/w/x/y", "/dev/shm", "/dev/pts"];
        let read_only = [
            "/",
            "/x",
            "/w/hidden",
            "/w/kept/x",
            "/dev",
            "/proc/sys",
            "/ww",
        ];
        assert!(
            writable
                .iter()
                .all(|place| view.may_be_writable(Path::new(place)))
        );
        assert!(
            !read_only
                .iter()
                .any(|place| view.may_be_writable(Path::new(place)))
        );
    }

    #[test]
    fn where_namespaces_are_made_their_id_maps_can_be_written_and_no_more_of_proc() {
        let policy = Filesystem::of_lists([&[], &[], &[], &[]]);
        for nesting in [Nesting::Refused, Nesting::Userns, Nesting::Mounts] {
            let ops = plan(&policy, Layers::Both, nesting);
            let view = View::of(&ops);
            let writable = |place| view.may_be_writable(Path::new(place));
            assert_eq!(writable("/proc"), nesting != Nesting::Refused);
            assert!(!writable("/proc/sys") && !writable("/proc/bus"));
        }
    }

    #[test]
    fn trees_of_the_sandbox_are_the_same_under_every_policy() {
        let table = [
            ("/dev", Some(Access::Read)),
            ("/dev/null", Some(Access::Write)),
            ("/dev/null/x", Some(Access::Hidden)),
            ("/dev/pts/0", Some(Access::Write)),
            ("/dev/shm", Some(Access::Write)),
            ("/dev/stdout", Some(Access::Write)),
            ("/dev/sda", Some(Access::Hidden)),
            ("/device", None),
            ("/proc/self/status", Some(Access::Read)),
            ("/proc/kcore", Some(Access::Hidden)),
            ("/proc/keyspace", Some(Access::Read)),
            ("/sys/class", None),
            ("/sys/firmware/acpi", Some(Access::Hidden)),
            ("/etc", None),
        ];
        for (path, access) in table {
            let found = private_access(Path::new(path), Nesting::Refused);
            assert_eq!(found, access, "{path}");
        }
    }

    #[test]
    fn landlock_alone_covers_nothing_but_the_private_trees() {
        let policy = Filesystem::of_lists([&["/w"], &[], &[], &[]]);
        let expected = "writable /\nmask files of /sys\nnew /proc, read-only\nnew /dev\n";
        let ops = plan(&policy, Layers::Landlock, Nesting::Refused);
        assert_eq!(shown(&ops), expected);
    }
}
