//! A run inside a sandbox of ours: what Landlock and filters alone can hold of a policy.
//!
//! Nothing it grants is more than the sandbox around grants: its rules come on top of those.

use std::fs;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatVfsMountFlags, statfs, statvfs};

use super::launch::mountinfo;
use super::plan::Place;
use super::support;
use crate::error::{Error, Kind, Result};
use crate::policy::filesystem::{Access, Filesystem};
use crate::policy::{Nested, Nesting, NetworkMode, Policy, path};

/// Finds out where this process stands.
pub(super) fn place(nested: Nested) -> Result<Place> {
    match (support::is_inside_sandbox(), nested) {
        (false, _) => Ok(Place::Host),
        (true, Nested::Inner) => Ok(Place::Sandbox),
        (true, Nested::Refuse) => Err(Error::new(
            Kind::Unsupported,
            "srt runs inside a sandbox of srt, where it can make no other",
        )
        .with_hint(
            "run the command without srt: the sandbox around confines it; or set `nested` to \
             \"inner\": Landlock and filters then hold further rules within that sandbox",
        )),
    }
}

/// Narrows a policy to what holds here, and refuses one of which a rule would not.
pub(super) fn fit(policy: &mut Policy) -> Result<()> {
    if policy.nesting != Nesting::Refused {
        policy.nesting = Nesting::Refused;
        let note = "`allowNestedUserNamespaces` is off inside a sandbox";
        policy.notes.push(note.to_owned());
    }
    let filters = policy.network_mode == NetworkMode::Filtered;
    let host = policy.network.any_allowed().filter(|_| filters);
    if let Some(entry) = host {
        let what = "cannot be granted inside a sandbox, whose proxies know nothing of it";
        let hint = "set `network.mode` to \"open\" for the hosts that the sandbox around allows, \
                    or allow none";
        return Err(path::entry_error(entry, what).with_hint(hint));
    }
    if let Some(entry) = policy.sockets.any_allowed() {
        let what = "cannot be granted inside a sandbox, whose broker knows nothing of it";
        return Err(path::entry_error(entry, what).with_hint("take the entry out"));
    }
    check_files(&policy.filesystem)
}

/// Landlock grants and cannot subtract: what is denied within a grant must be denied by the
/// sandbox around already.
fn check_files(policy: &Filesystem) -> Result<()> {
    if policy.access(Path::new("/")) == Access::Hidden {
        let what = "cannot hide / inside a sandbox: Landlock closes files and not their names";
        let hint = "hide it in the settings of the sandbox around, which holds for this run too";
        return Err(Error::new(Kind::Settings, what).with_hint(hint));
    }
    let boundaries = policy.boundaries();
    let paths = boundaries.iter().map(|path| path.as_path());
    let shown: Vec<&Path> = paths
        .filter(|path| policy.access(path) != Access::Hidden)
        .collect();
    let mut open = Vec::new();
    for real in boundaries {
        let path = real.as_path();
        let around = path.parent().map(|parent| policy.access(parent));
        let holds = match policy.access(path) {
            Access::Read if policy.redacted(real).is_some() => false,
            Access::Write => true,
            Access::Read => around != Some(Access::Write) || is_read_only(path),
            Access::Hidden => around == Some(Access::Hidden) || is_covered(path, &shown),
        };
        if !holds {
            open.push(format!(
                "cannot keep {} from being {} inside a sandbox: Landlock takes nothing out of \
                 what it grants, and the sandbox around does not deny it",
                path.display(),
                match policy.access(path) {
                    Access::Hidden => "read",
                    _ if policy.redacted(real).is_some() => "read whole",
                    _ => "written",
                },
            ));
        }
    }
    let held = policy.held().filter(|link| !is_mount(&link.path));
    open.extend(held.map(|link| {
        format!("cannot keep the link {link} from being replaced inside a sandbox: the sandbox around does not hold it")
    }));
    match open.is_empty() {
        true => Ok(()),
        false => Err(Error::of_lines(Kind::Settings, open).with_hint(
            "deny it in the settings of the sandbox around too, or grant less here; a name that is \
                        protected is opened by filesystem.allowProtected",
        )),
    }
}

/// Tells whether the mount that `path` lies in is read-only. A command could not change that.
fn is_read_only(path: &Path) -> bool {
    statvfs(path).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Tells whether a mount of the sandbox around shows nothing at `path` but places of what is
/// `shown` again.
fn is_covered(path: &Path, shown: &[&Path]) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    let is_tmpfs = statfs(path).is_ok_and(|found| found.f_type == TMPFS_MAGIC);
    is_tmpfs && is_mount(path) && is_read_only(path) && is_empty(path, shown)
}

/// Tells whether something is mounted at a path, which is not followed.
fn is_mount(path: &Path) -> bool {
    mountinfo::is_mount(CWD, path, AtFlags::SYMLINK_NOFOLLOW).unwrap_or(false)
}

fn is_empty(path: &Path, shown: &[&Path]) -> bool {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0) {
        return true;
    }
    let Ok(entries) = fs::read_dir(path) else {
        return false;
    };
    entries.into_iter().all(|entry| {
        let Ok(entry) = entry else { return false };
        let path = entry.path();
        let is_way = shown.iter().any(|other| other.starts_with(&path));
        is_way && (shown.contains(&path.as_path()) || is_empty(&path, shown))
    })
}
