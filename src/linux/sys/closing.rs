//! Which descriptors a process closes or keeps, as ranges of numbers.

use std::ffi::c_uint;
use std::io;
use std::os::fd::RawFd;

use super::close_range;

/// Closes every descriptor from 3 up but those in `keep`, which is sorted.
///
/// For processes that never exec: what they must not hold has to be gone, not marked.
pub(crate) fn close_all_but(keep: &[RawFd]) -> io::Result<()> {
    ranges_without(keep).try_for_each(|(first, last)| close_range(first, last, 0))
}

/// Marks every descriptor from 3 up close-on-exec but those in `keep`, which is sorted.
///
/// Nothing is closed before the exec, so that a failed one can still be reported.
pub(crate) fn set_close_on_exec_but(keep: &[RawFd]) -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    ranges_without(keep).try_for_each(|(first, last)| close_range(first, last, flags))
}

/// Returns the inclusive ranges of descriptor numbers from 3 up that `keep` leaves.
fn ranges_without(keep: &[RawFd]) -> impl Iterator<Item = (c_uint, c_uint)> {
    let keep = keep
        .iter()
        .filter_map(|&fd| c_uint::try_from(fd).ok())
        .filter(|&fd| fd >= 3);
    let starts = [3].into_iter().chain(keep.clone().map(|fd| fd + 1));
    let ends = keep.map(|fd| fd - 1).chain([c_uint::MAX]);
    starts.zip(ends).filter(|(first, last)| first <= last)
}
