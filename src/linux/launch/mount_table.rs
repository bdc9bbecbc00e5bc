//! Reads the mount table back: the view is judged by what the kernel made of the calls.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use procfs::process::MountInfo;
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::failure::{At, Failure, Step};
use super::rootfs;
use crate::linux::plan::mounts::{MountOp, View};

/// Ends the launch where a mount outside the granted paths is writable, whatever the calls
/// answered. For a mapped uid 0 a writable `/proc/sys` would be the host.
pub(super) fn verify_read_only(ops: &[MountOp]) -> Result<(), Failure> {
    let view = View::of(ops);
    let table = Path::new("/proc/self/mountinfo");
    let bytes = std::fs::read(table).at_path(Step::VerifyMounts, table)?;
    for line in bytes.split(|&byte| byte == b'\n') {
        if line.is_empty() {
            continue;
        }
        let mount = parse(line).ok_or_else(|| unreadable(table))?;
        let place = unescape(&mount.mount_point).ok_or_else(|| unreadable(table))?;
        let read_only = mount.mount_options.contains_key("ro");
        if read_only || view.may_be_writable(&place) {
            continue;
        }
        if is_reachable(mount.mnt_id, &place)? {
            return Err(Failure::new(Step::VerifyMounts, Errno::EROFS).on(&place));
        }
    }
    Ok(())
}

fn unreadable(table: &Path) -> Failure {
    Failure::new(Step::VerifyMounts, Errno::EIO).on(table)
}

/// The parser takes text, and mount points may be any bytes: every byte goes as one character
/// and is taken back by [`unescape`].
fn parse(line: &[u8]) -> Option<MountInfo> {
    let text: String = line.iter().map(|&byte| char::from(byte)).collect();
    MountInfo::from_line(&text).ok()
}

/// Undoes the octal escapes of proc_pid_mountinfo(5).
fn unescape(shown: &Path) -> Option<PathBuf> {
    let shown: Vec<u8> = shown
        .to_str()?
        .chars()
        .map(u8::try_from)
        .collect::<Result<_, _>>()
        .ok()?;
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown.as_slice();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'\\' {
            let (digits, after) = rest.split_at_checked(3)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

/// Tells whether `place` leads to the mount `id`. A mount that another one covers stays in the
/// table, as it was on the host, and nothing inside can come to it.
fn is_reachable(id: i32, place: &Path) -> Result<bool, Failure> {
    use rustix::io::Errno as Code;
    let found = match rootfs::open(CWD, place) {
        Ok(found) => found,
        Err(Code::NOENT | Code::NOTDIR | Code::LOOP) => return Ok(false),
        Err(errno) => return Err(errno).at_path(Step::VerifyMounts, place),
    };
    let stat = statx(&found, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)
        .at_path(Step::VerifyMounts, place)?;
    let told = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    Ok(!told || u64::try_from(id) == Ok(stat.stx_mnt_id))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn place(line: &[u8]) -> Option<PathBuf> {
        unescape(&parse(line)?.mount_point)
    }

    #[test]
    fn a_mount_point_keeps_every_byte_of_its_name() {
        let line =
            b"36 35 98:0 / /a\\040b\\011c\\012d\\134040\xff\xc3\xa9 rw shared:1 - ext4 /dev/x rw";
        let name = OsStr::from_bytes(b"/a b\tc\nd\\040\xff\xc3\xa9");
        assert_eq!(place(line).as_deref(), Some(Path::new(name)));
    }

    #[test]
    fn a_table_that_cannot_be_read_is_no_table() {
        assert_eq!(place(b"36 35 98:0 / /a\\04 rw - ext4 /dev/x rw"), None);
        assert_eq!(place(b"36 35"), None);
    }
}
