//! The attributes that mounts are given.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::mount_setattr_with;

/// Attributes for [`mount_setattr`]; see mount_setattr(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountAttr(u64);

impl MountAttr {
    pub(crate) const NOSUID_NODEV: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    /// For a device: what is written to it passes, what would change its node does not.
    pub(crate) const DEVICE: Self = Self(libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID);
    pub(crate) const READ_ONLY: Self = Self(libc::MOUNT_ATTR_RDONLY | Self::NOSUID_NODEV.0);
}

/// Sets attributes on one mount.
pub(crate) fn mount_setattr(mount: BorrowedFd<'_>, set: MountAttr) -> io::Result<()> {
    mount_setattr_with(mount, &attr(set.0, 0), 0)
}

/// Sets attributes on a mount and everything mounted below it.
pub(crate) fn mount_setattr_recursive(mount: BorrowedFd<'_>, set: MountAttr) -> io::Result<()> {
    mount_setattr_with(mount, &attr(set.0, 0), libc::AT_RECURSIVE)
}

/// As [`mount_setattr_recursive`], and shows owners as `namespace` maps them.
pub(crate) fn mount_setattr_shifted(
    mount: BorrowedFd<'_>,
    set: MountAttr,
    namespace: BorrowedFd<'_>,
) -> io::Result<()> {
    let set = set.0 | libc::MOUNT_ATTR_IDMAP;
    let namespace = namespace.as_raw_fd().cast_unsigned();
    mount_setattr_with(mount, &attr(set, namespace.into()), libc::AT_RECURSIVE)
}

fn attr(set: u64, namespace: u64) -> libc::mount_attr {
    libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation: 0,
        userns_fd: namespace,
    }
}
