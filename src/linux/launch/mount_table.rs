//! Reads the mount table back: the view is judged by what the kernel made of the calls.

use nix::errno::Errno;
use std::path::Path;

use super::failure::{At, Failure, Step};
use super::mountinfo::{self, TABLE};
use crate::linux::plan::mounts::{MountOp, View};

/// Ends the launch where a mount outside the granted paths is writable, whatever the calls
/// answered. For a mapped uid 0 a writable `/proc/sys` would be the host.
pub(super) fn verify_read_only(ops: &[MountOp]) -> Result<(), Failure> {
    let view = View::of(ops);
    let mounts = mountinfo::read().at_path(Step::VerifyMounts, Path::new(TABLE))?;
    for mount in mounts {
        let place = &mount.place;
        if mount.read_only || view.may_be_writable(place) {
            continue;
        }
        if mount.is_reachable().at_path(Step::VerifyMounts, place)? {
            return Err(Failure::new(Step::VerifyMounts, Errno::EROFS).on(place));
        }
    }
    Ok(())
}
