//! The mount table of this process, with names as bytes.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};
use rustix::io::Errno;

use super::rootfs;
use crate::policy::path::RealPath;

/// Where the kernel shows the table.
pub(crate) const TABLE: &str = "/proc/self/mountinfo";

/// One mount.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    id: u64,
    device: String,
    root: PathBuf,
    /// Where it is mounted.
    pub(crate) place: PathBuf,
    /// Whether the mount itself is read-only.
    pub(crate) read_only: bool,
    /// The kind of file system.
    pub(crate) kind: String,
}

/// Reads the table.
///
/// # Errors
/// There is no `/proc`, or it shows what is no mount table.
pub(crate) fn read() -> io::Result<Vec<Mount>> {
    read_from(File::open(TABLE)?)
}

/// The table as it was read, and whether mounts have changed since.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    table: Option<File>,
    mounts: Vec<Mount>,
}

impl Watched {
    /// Reads the table, as [`read`] does.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            // Before it is read: changes count from here on; see proc_pid_mounts(5).
            table: Some(File::open(TABLE)?),
            mounts: read()?,
        })
    }

    /// Returns the table as it was.
    pub(crate) fn all(&self) -> &[Mount] {
        &self.mounts
    }

    /// Reads the table anew where it has changed; tells whether it had.
    pub(crate) fn renew(&mut self) -> io::Result<bool> {
        let has_changed = self.has_changed();
        if has_changed {
            self.mounts = read()?;
        }
        Ok(has_changed)
    }

    /// Finds a place where `process`, which has copies of all mounts, shows a tree of theirs
    /// that was not there.
    pub(crate) fn new_name_in(&mut self, process: u32) -> io::Result<Option<PathBuf>> {
        if !self.has_changed() {
            return Ok(None);
        }
        let copies = read_from(File::open(format!("/proc/{process}/mountinfo"))?)?;
        Ok(new_name(&self.mounts, &copies).map(Path::to_path_buf))
    }

    fn has_changed(&mut self) -> bool {
        self.table.as_ref().is_some_and(|table| {
            let mut changed = [PollFd::new(table.as_fd(), PollFlags::POLLPRI)];
            matches!(poll(&mut changed, PollTimeout::ZERO), Ok(1..))
        })
    }
}

/// Returns a place where `now` has a tree of a device of `before` that was not there. A part of
/// a tree that is mounted on itself was.
fn new_name<'a>(before: &[Mount], now: &'a [Mount]) -> Option<&'a Path> {
    let devices: HashSet<&str> = before.iter().map(|mount| mount.device.as_str()).collect();
    let was_there = |mount: &Mount| {
        before.iter().any(|old| {
            let below = mount.place.strip_prefix(&old.place);
            old.device == mount.device
                && below.is_ok_and(|below| old.root.join(below) == mount.root)
        })
    };
    let of_host = now
        .iter()
        .filter(|mount| devices.contains(mount.device.as_str()));
    let mut new = of_host.filter(|mount| !was_there(mount));
    new.next().map(|mount| mount.place.as_path())
}

/// Reads the table that `file` shows, as [`read`] does.
pub(super) fn read_from(mut file: File) -> io::Result<Vec<Mount>> {
    // The file has no size to be read by; with room for it, most tables come in one call.
    let mut bytes = Vec::with_capacity(64 * 1024);
    file.read_to_end(&mut bytes)?;
    let lines = bytes.split(|&byte| byte == b'\n');
    let mounts = lines.filter(|line| !line.is_empty()).map(parse);
    let mounts: Option<Vec<_>> = mounts.collect();
    mounts.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

impl Mount {
    /// Returns where what the file system has at `path` is seen, if this mount shows it.
    pub(crate) fn shows(&self, path: &Path) -> Option<PathBuf> {
        Some(self.place.join(path.strip_prefix(&self.root).ok()?))
    }

    /// Tells whether the place leads to this mount. One that another mount covers stays in the
    /// table, and nothing can come to it.
    ///
    /// # Errors
    /// The place cannot be looked at.
    pub(crate) fn is_reachable(&self) -> io::Result<bool> {
        match mount_id(&self.place) {
            Ok(id) => Ok(id.is_none_or(|id| id == self.id)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Finds the other names that bind mounts give to `paths`, or to a part of what is below them.
///
/// # Errors
/// It cannot be told of a place that is there and may be entered.
pub(crate) fn aliases<'a>(
    mounts: &[Mount],
    paths: impl Iterator<Item = &'a RealPath>,
) -> io::Result<Vec<(&'a RealPath, RealPath)>> {
    let by_id: HashMap<u64, &Mount> = mounts.iter().map(|mount| (mount.id, mount)).collect();
    let mut by_device: HashMap<&str, Vec<&Mount>> = HashMap::new();
    for mount in mounts {
        by_device.entry(&mount.device).or_default().push(mount);
    }
    // As strings: to hash a path is to take it apart.
    let places: HashSet<_> = mounts.iter().map(|mount| mount.place.as_os_str()).collect();
    let mut ids = HashMap::new();
    let mut found = Vec::new();
    for path in paths {
        // What is no mount point lies in the mount of its directory, which many paths share.
        let on = match path.as_path().parent() {
            Some(directory) if !places.contains(path.as_path().as_os_str()) => directory,
            _ => path.as_path(),
        };
        let own = match ids.entry(on.as_os_str()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(if_there(mount_id(on))?.flatten()),
        };
        let Some(own) = own.and_then(|id| by_id.get(&id)) else {
            continue;
        };
        let Ok(below) = path.as_path().strip_prefix(&own.place) else {
            continue;
        };
        let inner = own.root.join(below);
        let others = by_device.get(own.device.as_str()).into_iter().flatten();
        let others = others.filter(|mount| mount.id != own.id);
        for mount in others {
            let alias = alias_in(mount, path, &inner)?;
            found.extend(alias.map(|alias| (path, alias)));
        }
    }
    Ok(found)
}

/// Returns where `mount` shows the file that is `inner` on its device, or a part of that tree.
fn alias_in(mount: &Mount, path: &RealPath, inner: &Path) -> io::Result<Option<RealPath>> {
    if let Ok(below) = inner.strip_prefix(&mount.root) {
        let alias = if_there(RealPath::resolve(&mount.place.join(below)))?;
        return Ok(alias.filter(|alias| alias.id() == path.id()));
    }
    // A link that is held by a sandbox around is mounted on itself: what it leads to is no part
    // of that tree.
    if mount.root.starts_with(inner)
        && !mount.place.is_symlink()
        && if_there(mount.is_reachable())? == Some(true)
    {
        return if_there(RealPath::resolve(&mount.place));
    }
    Ok(None)
}

/// Takes a place that is gone, or that the caller cannot come to, for none: the command cannot
/// either. Any other error leaves open whether it can.
fn if_there<T, E: Into<io::Error>>(found: Result<T, E>) -> io::Result<Option<T>> {
    match found.map_err(Into::into) {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Tells whether what `path` leads to from `dir` is the top of a mount.
pub(crate) fn is_mount(dir: impl AsFd, path: &Path, flags: AtFlags) -> Result<bool, Errno> {
    /// STATX_ATTR_MOUNT_ROOT of linux/stat.h.
    const MOUNT_ROOT: u64 = 0x2000;
    let found = statx(dir, path, flags, StatxFlags::INO)?;
    Ok(found.stx_attributes.bits() & MOUNT_ROOT != 0)
}

/// Returns the mount that `path` leads to, if the kernel tells.
// KERNEL(5.8): before, it does not.
fn mount_id(path: &Path) -> Result<Option<u64>, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Under the filters of a root caller.
        Err(Errno::NOSYS) => rootfs::open_by_names(path)?,
        opened => opened?,
    };
    // A server that is gone is not asked: the kernel knows this by itself.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = statx(&place, "", flags, StatxFlags::MNT_ID)?;
    let told = stat.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    Ok(told.then_some(stat.stx_mnt_id))
}

/// Reads one line of proc_pid_mountinfo(5), whose names may be any bytes.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut text = || std::str::from_utf8(fields.next()?).ok();
    let (id, _parent, device) = (text()?.parse().ok()?, text()?, text()?.to_owned());
    let (root, place) = (unescape(fields.next()?)?, unescape(fields.next()?)?);
    let mut options = fields.next()?.split(|&byte| byte == b',');
    let read_only = options.any(|option| option == b"ro");
    // As many optional fields as there are end in a dash.
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mount {
        id,
        device,
        root,
        place,
        read_only,
        kind: String::from_utf8_lossy(kind).into_owned(),
    })
}

/// Undoes the octal escapes of the names.
fn unescape(shown: &[u8]) -> Option<PathBuf> {
    if !shown.contains(&b'\\') {
        return Some(OsStr::from_bytes(shown).into());
    }
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_mount() {
        let line =
            b"36 35 98:0 /mnt1 /mnt2 ro,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let mount = Mount {
            id: 36,
            device: "98:0".into(),
            root: "/mnt1".into(),
            place: "/mnt2".into(),
            read_only: true,
            kind: "ext3".into(),
        };
        assert_eq!(parse(line), Some(mount));
    }

    #[test]
    fn a_mount_point_keeps_every_byte_of_its_name() {
        let line = b"36 35 98:0 / /a\\040b\\011c\\012d\\134040\xff\xc3\xa9 rw - ext4 /dev/x rw";
        let name = OsStr::from_bytes(b"/a b\tc\nd\\040\xff\xc3\xa9");
        let place = parse(line).map(|mount| mount.place);
        assert_eq!(place.as_deref(), Some(Path::new(name)));
    }

    #[test]
    fn a_tree_at_another_place_is_a_new_name_and_a_mount_on_itself_is_none() {
        let table = |lines: &[&str]| -> Vec<Mount> {
            let parsed = lines.iter().map(|line| parse(line.as_bytes()));
            parsed.map(|mount| mount.expect("it is one")).collect()
        };
        let before = table(&[
            "1 0 8:1 / / rw - ext4 x rw",
            "2 1 8:2 /home /h rw - ext4 y rw",
        ]);
        for same in [
            "9 1 8:1 /srv/w /srv/w rw - ext4 x rw",
            "9 1 8:2 /home/me/w /h/me/w rw - ext4 y rw",
            "9 1 0:99 / /srv/hidden ro - tmpfs z rw",
        ] {
            assert_eq!(new_name(&before, &table(&[same])), None, "{same}");
        }
        for new in [
            "9 1 8:1 /srv/hidden /srv/w rw - ext4 x rw",
            "9 1 8:2 /home /srv/w rw - ext4 y rw",
            "9 1 8:2 / /h rw - ext4 y rw",
        ] {
            assert!(new_name(&before, &table(&[new])).is_some(), "{new}");
        }
    }

    #[test]
    fn only_a_place_that_is_gone_or_closed_is_none() {
        let of = |errno| if_there::<(), _>(Err(io::Error::from_raw_os_error(errno)));
        for none in [libc::ENOENT, libc::ENOTDIR, libc::EACCES] {
            assert!(matches!(of(none), Ok(None)), "{none}");
        }
        for error in [libc::EIO, libc::EMFILE, libc::ENOMEM, libc::EPERM] {
            let told = of(error).err().and_then(|error| error.raw_os_error());
            assert_eq!(told, Some(error));
        }
        assert!(of(libc::ENAMETOOLONG).is_err());
    }

    #[test]
    fn a_line_that_cannot_be_read_is_no_mount() {
        assert_eq!(parse(b"36 35 98:0 / /a\\04 rw - ext4 /dev/x rw"), None);
        assert_eq!(parse(b"36 35"), None);
    }
}
