//! The Landlock rules: what may be opened, said a second time and independently of mounts.
//!
//! Landlock grants, it cannot subtract: read-denies, and write-denies below a granted path,
//! are kept by mounts alone. Where `/` is hidden, reading is granted path by path.

use std::fmt;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use super::Layers;
use crate::policy::Nesting;
use crate::policy::filesystem::{Access, Filesystem};

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What it is about, and everything below it.
    pub on: Object,
    /// What is granted.
    pub grant: Grant,
}

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Object {
    /// A path of the finished tree.
    Path(PathBuf),
    /// The file behind an inherited descriptor, so that `/dev/stdout` can be opened again.
    Descriptor(RawFd),
}

/// Sets of Landlock rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// List directories.
    List,
    /// Read files, list directories, execute.
    Read,
    /// Everything that changes a tree, but device nodes.
    Write,
    /// Read, write and control devices.
    Device,
    /// What the access mode of the descriptor allows already.
    AsOpened,
}

pub(super) fn plan(
    policy: &Filesystem,
    job_server: Option<PathBuf>,
    layers: Layers,
    nesting: Nesting,
) -> Vec<Rule> {
    // The kernel refuses every mount to a process whose files Landlock rules.
    if layers == Layers::Mounts || nesting == Nesting::Mounts {
        return Vec::new();
    }
    let path = |path: &str, grant| Rule {
        on: Object::Path(path.into()),
        grant,
    };
    let mut rules = shown(policy);
    rules.extend([
        path("/dev", Grant::Device),
        path("/dev/mqueue", Grant::Write),
        path("/dev/shm", Grant::Write),
    ]);
    if nesting == Nesting::Userns {
        // Id maps are written there.
        rules.push(path("/proc", Grant::Write));
    }
    let writable = policy
        .boundaries()
        .into_iter()
        .filter(|path| policy.access(path.as_path()) == Access::Write)
        // What is granted holds below, through mounts.
        .filter(|path| {
            let parent = path.as_path().parent();
            parent.is_none_or(|parent| policy.access(parent) != Access::Write)
        })
        .map(|path| Rule {
            on: Object::Path(path.as_path().to_owned()),
            grant: Grant::Write,
        });
    rules.extend(writable);
    rules.extend((0..=2).map(|fd| Rule {
        on: Object::Descriptor(fd),
        grant: Grant::AsOpened,
    }));
    rules.extend(job_server.map(|fifo| Rule {
        on: Object::Path(fifo),
        grant: Grant::Device,
    }));
    rules
}

/// Grants reading: of everything, or of what is shown where `/` is hidden.
fn shown(policy: &Filesystem) -> Vec<Rule> {
    let rule = |path: &Path, grant| Rule {
        on: Object::Path(path.to_owned()),
        grant,
    };
    let root = Path::new("/");
    if policy.access(root) != Access::Hidden {
        return vec![rule(root, Grant::Read)];
    }
    let is_shown = |path: &&Path| {
        let around = path.parent().map(|parent| policy.access(parent));
        policy.access(path) == Access::Read && around == Some(Access::Hidden)
    };
    let boundaries = policy.boundaries().into_iter();
    let shown = boundaries.map(|path| path.as_path()).filter(is_shown);
    // The names in what is hidden are kept by mounts: a grant holds for everything below.
    let own = [
        rule(root, Grant::List),
        rule(Path::new("/proc"), Grant::Read),
    ];
    let shown = shown.map(|path| rule(path, Grant::Read));
    own.into_iter().chain(shown).collect()
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.on {
            Object::Path(path) => write!(f, "{} {}", self.grant, path.display()),
            Object::Descriptor(fd) => write!(f, "{} descriptor {fd}", self.grant),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Device => "device",
            Self::AsOpened => "reopen",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(policy: &Filesystem, job_server: Option<&str>, layers: Layers) -> String {
        shown_with(policy, job_server, layers, Nesting::Refused)
    }

    fn shown_with(
        policy: &Filesystem,
        job_server: Option<&str>,
        layers: Layers,
        nesting: Nesting,
    ) -> String {
        let rules = plan(policy, job_server.map(PathBuf::from), layers, nesting);
        rules.iter().map(|rule| format!("{rule}\n")).collect()
    }

    #[test]
    fn a_small_policy_is_these_rules() {
        let policy = Filesystem::of_lists([&["/w/hidden"], &[], &["/w"], &["/w/kept"]]);
        let fifo = Some("/tmp/fifo");
        let expected = "\
read /
device /dev
write /dev/mqueue
write /dev/shm
write /w
reopen descriptor 0
reopen descriptor 1
reopen descriptor 2
device /tmp/fifo
";
        assert_eq!(shown(&policy, fifo, Layers::Both), expected);
        assert_eq!(shown(&policy, fifo, Layers::Landlock), expected);
        assert_eq!(shown(&policy, fifo, Layers::Mounts), "");
    }

    #[test]
    fn namespaces_of_the_command_cost_a_grant_and_mounts_in_them_all_rules() {
        let policy = Filesystem::of_lists([&[], &[], &["/w"], &[]]);
        let shown = |nesting| shown_with(&policy, None, Layers::Both, nesting);
        let more = shown(Nesting::Userns).replace("write /proc\n", "");
        assert_eq!(more, shown(Nesting::Refused));
        assert!(!more.contains("/proc"));
        assert_eq!(shown(Nesting::Mounts), "");
    }

    #[test]
    fn a_grant_below_a_deny_is_no_grant() {
        let policy = Filesystem::of_lists([&[], &[], &["/w/a"], &["/w"]]);
        let rules = shown(&policy, None, Layers::Both);
        assert!(!rules.contains("/w"), "{rules}");
    }
}
