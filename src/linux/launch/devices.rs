//! A minimal `/dev`: a few nodes of the host, terminals, shared memory and message queues
//! of its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fstat, stat};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::failure::{At, Failure, Step};
use super::filesystems;
use super::rootfs::{Tree, attach, clone_tree, open};
use crate::linux::plan::mounts::{DEV_DIRECTORIES, DEV_LINKS, MountOp};
use crate::linux::sys::{self, MountAttr};
use crate::policy::path::FileKind;

/// The name of a device, and a mount of the host's node.
pub(super) type Node = (&'static str, OwnedFd);

/// Copies the host's nodes, while its `/dev` can still be seen.
pub(super) fn copy_nodes<'a>(
    host: &OwnedFd,
    ops: impl Iterator<Item = &'a MountOp>,
) -> Result<Vec<Node>, Failure> {
    let mut nodes = Vec::new();
    for op in ops {
        let MountOp::Dev { nodes: names } = op else {
            continue;
        };
        for name in *names {
            let path = Path::new("dev").join(name);
            // A host without the node, as some containers are: the command has none either.
            let Ok(node) = open(host, &path) else {
                continue;
            };
            let copied = clone_tree(&node, Path::new("")).at_path(Step::CloneTree, &path)?;
            // It is the host's: its mode and times are not the command's to change.
            sys::mount_setattr(copied.as_fd(), MountAttr::DEVICE)
                .at_path(Step::SetAttributes, &path)?;
            nodes.push((*name, copied));
        }
    }
    Ok(nodes)
}

/// Opens the standard streams anew that are devices of the new `/dev`: by a descriptor of the
/// host's mount the node itself could be changed.
pub(super) fn reopen_standard(nodes: &[Node]) -> Result<(), Failure> {
    for number in 0..=2 {
        let Some(stream) = sys::inherited(number) else {
            continue;
        };
        let found = fstat(stream).at(Step::ReopenStream)?;
        for (name, _) in nodes {
            let path = Path::new("/dev").join(name);
            let node = stat(&path).at_path(Step::ReopenStream, &path)?;
            let is_it = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice
                && node.st_rdev == found.st_rdev;
            if is_it {
                reopen(number, stream, &path).at_path(Step::ReopenStream, &path)?;
            }
        }
    }
    Ok(())
}

fn reopen(number: RawFd, stream: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<()> {
    let status = fcntl_getfl(stream)? & (OFlags::RWMODE | OFlags::APPEND | OFlags::NONBLOCK);
    let flags = status | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty())?;
    match number {
        0 => dup2_stdin(opened),
        1 => dup2_stdout(opened),
        _ => dup2_stderr(opened),
    }
}

/// Mounts the new `/dev` over the host's.
pub(super) fn mount(tree: &Tree, nodes: &[Node]) -> Result<(), Failure> {
    let place = Path::new("/dev");
    let dev = filesystems::tmpfs("0755")?;
    for (name, _) in nodes {
        filesystems::make(&dev, Path::new(name), FileKind::File)?;
    }
    for name in DEV_DIRECTORIES {
        filesystems::make(&dev, Path::new(name), FileKind::Directory)?;
    }
    for (name, target) in DEV_LINKS {
        rustix::fs::symlinkat(target, &dev, name).at_path(Step::FillTmpfs, Path::new(name))?;
    }
    sys::mount_setattr(dev.as_fd(), MountAttr::READ_ONLY).at_path(Step::SetAttributes, place)?;
    attach(&dev, &tree.root, place)?;
    for (name, node) in nodes {
        attach(node, &tree.root, &place.join(name))?;
    }
    attach(&filesystems::terminals()?, &tree.root, &place.join("pts"))?;
    attach(&filesystems::tmpfs("1777")?, &tree.root, &place.join("shm"))?;
    if let Some(queues) = filesystems::message_queues()? {
        attach(&queues, &tree.root, &place.join("mqueue"))?;
    }
    Ok(())
}
