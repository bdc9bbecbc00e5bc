//! New file systems of the kernel, by the fd-based API: tmpfs, proc, devpts, mqueue.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen,
};

use super::failure::{At, Failure, Step};
use crate::policy::filesystem::Access;
use crate::policy::path::FileKind;

/// Makes an empty tmpfs, detached, whose root has the octal `mode`.
pub(super) fn tmpfs(mode: &str) -> Result<OwnedFd, Failure> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    mount("tmpfs", &[("mode", mode)], attributes).at(Step::NewTmpfs)
}

/// Makes a view of this pid namespace's processes, detached.
pub(super) fn proc(access: Access) -> Result<OwnedFd, Failure> {
    let mut attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    if access != Access::Write {
        attributes |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    mount("proc", &[], attributes).at(Step::NewProc)
}

/// Makes a set of terminals that shares none with the host, detached.
pub(super) fn terminals() -> Result<OwnedFd, Failure> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let options = [("ptmxmode", "0666"), ("mode", "0620")];
    mount("devpts", &options, attributes).at(Step::NewTerminals)
}

/// Makes the view of this IPC namespace's message queues, detached. mq_open(3) works without
/// it; Landlock grants by a place, and has no other for them.
pub(super) fn message_queues() -> Result<Option<OwnedFd>, Failure> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    match mount("mqueue", &[], attributes) {
        // A kernel without CONFIG_POSIX_MQUEUE has none to share.
        Err(Errno::NODEV) => Ok(None),
        other => other.at(Step::NewQueues).map(Some),
    }
}

/// Makes an empty file or directory at `path` below `dir`, and its parents.
pub(super) fn make(dir: &OwnedFd, path: &Path, kind: FileKind) -> Result<(), Failure> {
    parents(dir, path)?;
    let made = match kind {
        FileKind::Directory => directory(dir, path),
        FileKind::File => file(dir, path),
    };
    made.at_path(Step::FillTmpfs, path)
}

/// Makes a link at `path` below `dir`, and the parents of it.
pub(super) fn link(dir: &OwnedFd, path: &Path, target: &Path) -> Result<(), Failure> {
    parents(dir, path)?;
    rustix::fs::symlinkat(target, dir, path).at_path(Step::FillTmpfs, path)
}

/// Makes a file at `path` below `dir` that holds `text`, or leaves the one that is there: a
/// file of several names has one content.
pub(super) fn write(dir: &OwnedFd, path: &Path, text: &str) -> Result<(), Failure> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, path, flags, Mode::from_raw_mode(0o444)) {
        Err(Errno::EXIST) => return Ok(()),
        opened => opened.at_path(Step::FillTmpfs, path)?,
    };
    std::fs::File::from(file)
        .write_all(text.as_bytes())
        .at_path(Step::FillTmpfs, path)
}

fn parents(dir: &OwnedFd, path: &Path) -> Result<(), Failure> {
    let parents = path
        .ancestors()
        .skip(1)
        .filter(|parent| !parent.as_os_str().is_empty());
    let parents: Vec<_> = parents.collect();
    for parent in parents.into_iter().rev() {
        directory(dir, parent).at_path(Step::FillTmpfs, parent)?;
    }
    Ok(())
}

fn directory(dir: &OwnedFd, path: &Path) -> Result<(), Errno> {
    match rustix::fs::mkdirat(dir, path, Mode::from_raw_mode(0o755)) {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

fn file(dir: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(dir, path, flags, Mode::from_raw_mode(0o444)).map(drop)
}

fn mount(
    name: &str,
    options: &[(&str, &str)],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    fsconfig_create(&context)?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
