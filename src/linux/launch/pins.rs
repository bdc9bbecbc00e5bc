//! A second copy of the view, out of reach of every path, that keeps names in their places.
//!
//! The kernel lets a name be removed or moved that is no mount point in the namespace of who
//! does it, and takes the mounts of all others off it; see rmdir(2) and rename(2), EBUSY. A
//! command with mounts of its own could leave the tree with the covers behind, as
//! pivot_root(2) does, and reach below it by a descriptor.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::failure::{At, Failure, Step};
use super::filesystems;
use super::rootfs::{attach, clone_tree};
use crate::linux::sys::{self, MountAttr};
use crate::policy::path::FileKind;

const PINS: &str = "pins";

/// Puts an empty tree below the view, with a copy of the view in it.
///
/// What is mounted on the root of that tree, the view now and what a command pivots to later,
/// covers it, so that no path leads to the copy. It stays in each namespace that is copied
/// from this one.
pub(super) fn make() -> Result<(), Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let view = rustix::fs::open("/", flags, Mode::empty()).at(Step::PinNames)?;
    let copy = clone_tree(&view, Path::new("")).at(Step::PinNames)?;
    let below = filesystems::tmpfs("0555")?;
    filesystems::make(&below, Path::new(PINS), FileKind::Directory)?;
    attach(&below, &view, Path::new("/"))?;
    attach(&copy, &below, Path::new(PINS))?;
    sys::mount_setattr(below.as_fd(), MountAttr::READ_ONLY).at(Step::PinNames)?;
    // The view goes from below that tree to the top of it: see pivot_root(2),
    // "pivot_root(".", ".")".
    rustix::process::fchdir(&below).at(Step::PinNames)?;
    rustix::process::pivot_root(".", ".").at(Step::PinNames)?;
    rustix::process::fchdir(&view).at(Step::PinNames)?;
    rustix::process::chroot(".").at(Step::PinNames)
}
