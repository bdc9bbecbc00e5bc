//! Reads the mount table back: the view is judged by what the kernel made of the calls.

use std::fs::File;
use std::path::Path;

use nix::errno::Errno;

use super::failure::{At, Failure, Step};
use super::mountinfo::{self, TABLE};
use crate::linux::plan::mounts::{MountOp, View};

/// Opens the table as it is for this process.
pub(super) fn open() -> Result<File, Failure> {
    File::open(TABLE).at_path(Step::VerifyMounts, Path::new(TABLE))
}

/// Ends the launch where a mount outside the granted paths is writable, whatever the calls
/// answered. For a mapped uid 0 a writable `/proc/sys` would be the host.
pub(super) fn verify_read_only(table: File, ops: &[MountOp]) -> Result<(), Failure> {
    let view = View::of(ops);
    let mounts = mountinfo::read_from(table).at_path(Step::VerifyMounts, Path::new(TABLE))?;
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
