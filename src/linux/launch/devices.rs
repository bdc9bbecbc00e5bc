//! A minimal `/dev`: a few nodes of the host, terminals, shared memory and message queues
//! of its own.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use super::failure::{At, Failure, Step};
use super::filesystems;
use super::rootfs::{Tree, attach, clone_tree, open};
use crate::linux::plan::mounts::{DEV_DIRECTORIES, DEV_LINKS, MountOp};
use crate::linux::sys::{self, MountAttr};
use crate::policy::path::FileKind;

/// Copies the host's nodes, while its `/dev` can still be seen.
pub(super) fn copy_nodes<'a>(
    host: &OwnedFd,
    ops: impl Iterator<Item = &'a MountOp>,
) -> Result<Vec<(&'static str, OwnedFd)>, Failure> {
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
            nodes.push((*name, copied));
        }
    }
    Ok(nodes)
}

/// Mounts the new `/dev` over the host's.
pub(super) fn mount(tree: &Tree, nodes: &[(&'static str, OwnedFd)]) -> Result<(), Failure> {
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
