//! Holds links: one that is mounted on itself is followed as before, and whoever would remove,
//! move or replace it gets EBUSY; see unlink(2) and rename(2).
//!
//! Nothing but an open descriptor names a link as a place to mount on.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use rustix::fs::{AtFlags, readlinkat};
use rustix::mount::{MoveMountFlags, move_mount};

use super::failure::{At, Failure, Step};
use super::mountinfo;
use super::rootfs::{below_root, clone_tree, open};
use crate::linux::sys::{self, MountAttr};
use crate::policy::path::Link;

/// Copies the mount of a link of the host, read-only, so that its times and owner stay too. Where
/// `any` will do, of whatever has its name.
pub(super) fn copy(host: &OwnedFd, link: &Link, any: bool) -> Result<OwnedFd, Failure> {
    let source = find(host, link, any)?;
    let copied = clone_tree(&source, Path::new("")).at_path(Step::HoldLink, &link.path)?;
    sys::mount_setattr(copied.as_fd(), MountAttr::READ_ONLY)
        .at_path(Step::SetAttributes, &link.path)?;
    Ok(copied)
}

/// Mounts the copy on the link below `root`, and looks whether it is there.
pub(super) fn hold(
    root: &OwnedFd,
    link: &Link,
    copied: &OwnedFd,
    any: bool,
) -> Result<(), Failure> {
    let target = find(root, link, any)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(copied, "", &target, "", flags).at_path(Step::HoldLink, &link.path)?;
    let held = find(root, link, any)?;
    match is_mount(&held).at_path(Step::HoldLink, &link.path)? {
        true => Ok(()),
        false => Err(Failure::new(Step::HoldLink, Errno::EINVAL).on(&link.path)),
    }
}

fn find(root: &OwnedFd, link: &Link, any: bool) -> Result<OwnedFd, Failure> {
    match any {
        true => open(root, below_root(&link.path)).at_path(Step::FindTarget, &link.path),
        false => expect(root, link),
    }
}

/// Opens a link below `root`, which must be the one that the plan saw.
fn expect(root: &OwnedFd, link: &Link) -> Result<OwnedFd, Failure> {
    let path = &link.path;
    let found = open(root, below_root(path)).at_path(Step::FindTarget, path)?;
    let stat = rustix::fs::fstat(&found).at_path(Step::FindTarget, path)?;
    // Of what is no link there is nothing to read.
    let is_same = (stat.st_dev, stat.st_ino) == link.id()
        && readlinkat(&found, "", Vec::new())
            .is_ok_and(|target| target.as_bytes() == link.target.as_os_str().as_bytes());
    match is_same {
        true => Ok(found),
        false => Err(Failure::new(Step::ChangedSource, Errno::ESTALE).on(path)),
    }
}

/// Tells whether a descriptor is of the top of a mount.
fn is_mount(place: &OwnedFd) -> Result<bool, rustix::io::Errno> {
    mountinfo::is_mount(place, Path::new(""), AtFlags::EMPTY_PATH)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, OFlags, openat};

    use super::*;
    use crate::policy::path::way;

    #[test]
    fn what_is_no_more_the_link_that_was_followed_is_not_held() {
        let dir = Path::new("/tmp").join(format!("srt-held-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("the name is ours");
        let path = dir.join("link");
        let found = |of: &Link| {
            let root = openat(CWD, "/", OFlags::PATH, Mode::empty()).expect("it is there");
            expect(&root, of).is_ok_and(|held| matches!(is_mount(&held), Ok(false)))
        };
        symlink("target", &path).expect("the name is free");
        let link = way(&path).links.remove(0);
        assert!(found(&link));
        // The inode number may be the same.
        std::fs::remove_file(&path).expect("just made");
        symlink("elsewhere", &path).expect("the name is free");
        assert!(!found(&link));
        std::fs::remove_file(&path).expect("just made");
        assert!(!found(&link));
        std::fs::write(&path, "target").expect("the name is free");
        assert!(!found(&link));
        std::fs::remove_dir_all(&dir).expect("the name is ours");
    }
}
