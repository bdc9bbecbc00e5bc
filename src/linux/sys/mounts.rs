//! The attributes that mounts are given.

use std::io;
use std::os::fd::BorrowedFd;

use super::mount_setattr_with;

/// Attributes for [`mount_setattr`]; see mount_setattr(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountAttr(u64);

impl MountAttr {
    pub(crate) const NOSUID_NODEV: Self = Self(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    pub(crate) const READ_ONLY: Self = Self(libc::MOUNT_ATTR_RDONLY | Self::NOSUID_NODEV.0);

    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// Sets attributes on one mount.
pub(crate) fn mount_setattr(mount: BorrowedFd<'_>, set: MountAttr) -> io::Result<()> {
    mount_setattr_with(mount, set, 0)
}

/// Sets attributes on a mount and everything mounted below it.
pub(crate) fn mount_setattr_recursive(mount: BorrowedFd<'_>, set: MountAttr) -> io::Result<()> {
    mount_setattr_with(mount, set, libc::AT_RECURSIVE)
}
