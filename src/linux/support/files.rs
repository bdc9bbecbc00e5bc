//! The acts that make a file view of its own.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags, fsconfig_create, fsmount, fsopen, mount_change, move_mount,
    open_tree, unmount,
};

use super::probe::{Lack, Need, On, Row};
use crate::linux::sys::{self, MountAttr};

const MOUNTS: Option<libc::c_int> = Some(libc::CLONE_NEWNS);
const PROCESSES: Option<libc::c_int> = Some(libc::CLONE_NEWNS | libc::CLONE_NEWPID);
const QUEUES: Option<libc::c_int> = Some(libc::CLONE_NEWNS | libc::CLONE_NEWIPC);

const OLD: &str = "use Linux 5.19 or newer; in a container, allow the mount calls in its seccomp profile: they are part of the sandbox";
const PROC: &str = "a container that hides part of /proc does not let a new one be mounted: start it with an unmasked /proc (docker: --security-opt systempaths=unconfined)";
const ROOT: &str = "the root of an initramfs cannot be switched: mount a file system and start srt on that; in a container, allow pivot_root";
const OPENAT2: &str =
    "use Linux 5.6 or newer; in a container, allow openat2 in its seccomp profile";

pub(super) static ROWS: &[Row] = &[
    (
        "paths without links",
        Need::First,
        None,
        open_without_links,
        OPENAT2,
    ),
    (
        "mounts apart from the host's",
        Need::First,
        MOUNTS,
        private,
        OLD,
    ),
    ("copied mounts", Need::First, MOUNTS, copy, OLD),
    ("read-only mounts", Need::First, MOUNTS, read_only, OLD),
    ("attached mounts", Need::First, MOUNTS, attach, OLD),
    ("private tmpfs", Need::First, MOUNTS, tmpfs, OLD),
    ("private terminals", Need::First, MOUNTS, terminals, OLD),
    ("new /proc", Need::First, PROCESSES, proc, PROC),
    ("message queues", Need::First, QUEUES, queues, OLD),
    ("switch of the root", Need::First, MOUNTS, switch_root, ROOT),
];

/// Maps the caller's user and group one to one, and looks whether they are its own again.
pub(super) fn map_ids((uid, gid): (u32, u32)) -> Result<(), Lack> {
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/gid_map", format!("{gid} {gid} 1\n")),
        ("/proc/self/uid_map", format!("{uid} {uid} 1\n")),
    ] {
        let written = File::options()
            .write(true)
            .open(file)
            .and_then(|mut map| map.write_all(text.as_bytes()));
        written.on(&format!("write({file})"))?;
    }
    let mapped = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if mapped == (uid, gid) {
        Ok(())
    } else {
        Err(Lack::without_effect("write(/proc/self/uid_map)"))
    }
}

fn open_without_links(_: (u32, u32)) -> Result<(), Lack> {
    let open = |path| {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
    };
    open("/").on("openat2")?;
    // This one is a link on every machine.
    match open("/proc/self") {
        Err(Errno::LOOP) => Ok(()),
        Err(errno) => Err(errno).on("openat2"),
        Ok(_) => Err(Lack::without_effect("openat2")),
    }
}

fn private(ids: (u32, u32)) -> Result<(), Lack> {
    map_ids(ids)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).on("mount(MS_PRIVATE)")
}

/// Copies the whole tree, detached.
fn copied(ids: (u32, u32)) -> Result<OwnedFd, Lack> {
    private(ids)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, "/", flags).on("open_tree")
}

fn copy(ids: (u32, u32)) -> Result<(), Lack> {
    copied(ids).map(drop)
}

fn read_only(ids: (u32, u32)) -> Result<(), Lack> {
    let tree = copied(ids)?;
    sys::mount_setattr_recursive(tree.as_fd(), MountAttr::READ_ONLY).on("mount_setattr")?;
    let state = rustix::fs::fstatvfs(&tree).on("fstatfs")?;
    if state.f_flag.contains(StatVfsMountFlags::RDONLY) {
        Ok(())
    } else {
        Err(Lack::without_effect("mount_setattr"))
    }
}

fn attached(ids: (u32, u32)) -> Result<OwnedFd, Lack> {
    let tree = copied(ids)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&tree, "", CWD, "/", flags).on("move_mount")?;
    Ok(tree)
}

fn attach(ids: (u32, u32)) -> Result<(), Lack> {
    attached(ids).map(drop)
}

fn switch_root(ids: (u32, u32)) -> Result<(), Lack> {
    let tree = attached(ids)?;
    rustix::process::fchdir(&tree).on("fchdir")?;
    rustix::process::pivot_root(".", ".").on("pivot_root")?;
    unmount(".", UnmountFlags::DETACH).on("umount2")
}

fn tmpfs(ids: (u32, u32)) -> Result<(), Lack> {
    new(ids, "tmpfs").map(drop)
}

fn terminals(ids: (u32, u32)) -> Result<(), Lack> {
    new(ids, "devpts").map(drop)
}

fn proc(ids: (u32, u32)) -> Result<(), Lack> {
    new(ids, "proc").map(drop)
}

fn queues(ids: (u32, u32)) -> Result<(), Lack> {
    match new(ids, "mqueue") {
        // A kernel without CONFIG_POSIX_MQUEUE has none to share.
        Err(lack) if lack.errno == libc::ENODEV => Ok(()),
        other => other.map(drop),
    }
}

fn new(ids: (u32, u32), name: &str) -> Result<OwnedFd, Lack> {
    private(ids)?;
    let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC).on(&format!("fsopen({name})"))?;
    fsconfig_create(&context).on(&format!("fsconfig({name})"))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes);
    mount.on(&format!("fsmount({name})"))
}
