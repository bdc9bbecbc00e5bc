//! Files on descriptors of the command, which it can open again by the links of `/proc`.
//!
//! Such a link leads around the mounts, to the file as the caller sees it. There Landlock alone
//! holds, which grants whole trees: what is denied below a grant must not come in that way.

use std::fs;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, OFlags};

use super::plan::Plan;
use super::plan::ruleset::{Grant, Object, Rule};
use super::sys;
use crate::error::{Error, Kind, Result};
use crate::policy::filesystem::{Access, Filesystem};

/// Checks the files on the descriptors that the command gets.
///
/// # Errors
/// One of them could be opened for more than it is open for, and than the rules allow.
pub(super) fn check(plan: &Plan, policy: &Filesystem) -> Result<()> {
    for number in (0..=2).chain(plan.keep_fds.iter().copied()) {
        let Some(more) = sys::inherited(number).and_then(|fd| gained(fd, number, plan, policy))
        else {
            continue;
        };
        let goal = format!(
            "descriptor {number} is {}, which could be opened again for {} against the rules",
            more.path.display(),
            more.act,
        );
        return Err(Error::new(Kind::Usage, goal).with_hint(more.remedy));
    }
    Ok(())
}

/// What a command would gain by opening a file again.
struct More {
    path: PathBuf,
    act: &'static str,
    remedy: &'static str,
}

fn gained(fd: BorrowedFd<'_>, number: RawFd, plan: &Plan, policy: &Filesystem) -> Option<More> {
    let stat = rustix::fs::fstat(fd).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
    // One without a name is nobody else's.
    if !is_file || stat.st_nlink == 0 {
        return None;
    }
    let mode = rustix::fs::fcntl_getfl(fd).ok()? & OFlags::RWMODE;
    let path = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    let found = fs::metadata(&path).ok();
    let is_there =
        found.is_some_and(|found| (found.dev(), found.ino()) == (stat.st_dev, stat.st_ino));
    // Where its name tells nothing, neither rule can be relied on.
    let access = if is_there {
        policy.access(&path)
    } else {
        Access::Hidden
    };
    let granted = |grant| !is_there || is_granted(&plan.ruleset, grant, &path);
    if mode == OFlags::RDONLY && access != Access::Write && granted(Grant::Write) {
        return Some(More {
            path,
            act: "writing",
            remedy: "pass its content on by a pipe, as in: cat FILE | srt CMD",
        });
    }
    if mode == OFlags::WRONLY && access == Access::Hidden && granted(Grant::Read) {
        return Some(More {
            path,
            act: "reading",
            remedy: "pass what is written on by a pipe, as in: srt CMD | cat >>FILE",
        });
    }
    None
}

/// Tells whether Landlock lets a path be opened so, as it finds what is granted: by the files
/// themselves, whatever their names. Without rules it lets everything be opened.
fn is_granted(rules: &[Rule], grant: Grant, path: &Path) -> bool {
    let id = |path: &Path| {
        fs::metadata(path)
            .map(|found| (found.dev(), found.ino()))
            .ok()
    };
    let around: Vec<_> = path.ancestors().filter_map(id).collect();
    let mut granted = rules.iter().filter(|rule| rule.grant == grant);
    let covers = |rule: &Rule| match &rule.on {
        Object::Path(on) => path.starts_with(on) || id(on).is_some_and(|on| around.contains(&on)),
        Object::Descriptor(_) => false,
    };
    rules.is_empty() || granted.any(covers)
}
