//! Looks for protected names in every directory that a command may write.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RawDir, Statx, StatxFlags, makedev, open, openat, statx,
};
use rustix::io::Errno;

use super::Protection;
use super::cache::{Cache, Entry, Listing, State};
use super::names::{BARE, Match, Name, is_candidate, matching};
use crate::policy::filesystem::is_made_anew;

/// Where to look.
#[derive(Debug)]
pub struct Roots<'a> {
    /// Directories that may be written.
    pub paths: Vec<&'a Path>,
    /// Paths where another rule begins to hold, and whether what is there may be written.
    pub ruled: HashMap<&'a Path, Through>,
    /// The caller.
    pub uid: u32,
    /// What earlier runs found.
    pub cache: Option<&'a Path>,
    /// Names looked at below each root, at most.
    pub most: usize,
    /// When the search begins.
    pub since: SystemTime,
    /// When it ends, whatever is left.
    pub until: Instant,
}

/// What becomes of a search at a path where another rule begins to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// It goes on.
    Search,
    /// It ends: nothing may be written there, or the place is searched for itself.
    Leave,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Protected names.
    pub named: Vec<(PathBuf, &'static Name)>,
    /// Repositories: what is called `.git`, and directories that are one without a working tree.
    pub repositories: Vec<PathBuf>,
    /// Directories that cannot be listed now, and might be later.
    pub closed: Vec<PathBuf>,
    /// Directories that were not searched, since there is too much in their root.
    pub unsearched: Vec<PathBuf>,
    /// Directories on another machine, which may not answer.
    pub remote: Vec<PathBuf>,
}

/// Names looked at below one root; about a second the first time.
pub const MAX_NAMES: usize = 1_000_000;

/// How long a search may take, where disks are slow.
pub const MAX_TIME: Duration = Duration::from_secs(20);

/// Directories that are closed for what was not searched in them.
const MAX_UNSEARCHED: usize = 64;

/// Directories above one that are kept open.
const MAX_OPEN: usize = 100;

/// The kernel takes no longer path, so that nothing can be mounted there; PATH_MAX and room for
/// a name below.
const MAX_PATH: usize = 3_800;

/// File systems that set the time of change of a directory with each change of its names.
const KEEPING_TIME: [i64; 8] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0xf2f5_2010, // f2fs
    0x794c_7630, // overlay
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
];

/// File systems that ask another machine.
const REMOTE: [&str; 11] = [
    "9p", "afs", "autofs", "ceph", "cifs", "coda", "davfs", "ncpfs", "nfs", "nfs4", "smb3",
];

/// File systems of the kernel's own objects.
const KERNEL: [&str; 15] = [
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "mqueue",
    "proc",
    "pstore",
    "sysfs",
    "tracefs",
];

/// Looks below all roots.
pub fn find(roots: &Roots<'_>, protection: &Protection) -> Findings {
    let mut walk = Walk {
        roots,
        protection,
        cache: Cache::default(),
        buffer: vec![MaybeUninit::uninit(); 32 << 10],
        keeps_time: HashMap::new(),
        kinds: None,
        ruled_names: roots
            .ruled
            .keys()
            .filter_map(|path| path.file_name())
            .collect(),
        left: 0,
        found: Findings::default(),
    };
    for root in &roots.paths {
        walk.left = roots.most;
        walk.cache = Cache::open(roots.cache, root, roots.since);
        walk.below(root);
        std::mem::take(&mut walk.cache).close();
    }
    walk.found
}

struct Walk<'a> {
    roots: &'a Roots<'a>,
    protection: &'a Protection,
    cache: Cache,
    buffer: Vec<MaybeUninit<u8>>,
    /// Of each device, whether what was found in a directory can be kept.
    keeps_time: HashMap<u64, bool>,
    /// The kinds of file systems by device, read when one is met below another.
    kinds: Option<HashMap<u64, String>>,
    /// The last names of paths where another rule begins to hold.
    ruled_names: HashSet<&'a OsStr>,
    /// Names that may still be looked at.
    left: usize,
    found: Findings,
}

/// Why there is no listing of a directory.
enum Missed {
    /// There is none, or nothing in it is for us.
    Nothing,
    /// It cannot be listed now.
    Closed,
    /// There is too much in it.
    TooMuch,
}

/// A directory that was looked at, which others are in.
struct Around {
    path: PathBuf,
    dev: u64,
    /// What is in it is found from here in less time than by its path.
    open: Option<OwnedFd>,
    levels: usize,
}

/// A directory to look at.
struct Ahead {
    around: Option<Rc<Around>>,
    name: OsString,
}

impl Ahead {
    fn path(&self) -> PathBuf {
        match &self.around {
            Some(around) => around.path.join(&self.name),
            None => PathBuf::from(&self.name),
        }
    }

    /// Asks for what is known of it, and never another machine.
    fn look(&self) -> Result<Statx, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let wanted = StatxFlags::TYPE | StatxFlags::UID | StatxFlags::INO | StatxFlags::CTIME;
        match self.around.as_deref() {
            Some(Around {
                open: Some(open), ..
            }) => statx(open, &*self.name, flags, wanted),
            _ => statx(CWD, self.path(), flags, wanted),
        }
    }
}

impl Ahead {
    fn open(&self) -> Option<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match self.around.as_deref() {
            Some(Around {
                open: Some(open), ..
            }) => openat(open, &*self.name, flags, Mode::empty()),
            _ => openat(CWD, self.path(), flags, Mode::empty()),
        };
        opened.ok()
    }
}

impl Walk<'_> {
    fn below(&mut self, root: &Path) {
        let mut ahead = vec![Ahead {
            around: None,
            name: root.into(),
        }];
        while let Some(next) = ahead.pop() {
            match self.listing(&next) {
                Ok((listing, _)) if listing.is_empty() => {}
                Ok((listing, dev)) => self.take(next, &listing, dev, &mut ahead),
                Err(Missed::Nothing) => {}
                Err(Missed::Closed) => self.found.closed.push(next.path()),
                Err(Missed::TooMuch) => {
                    let rest = ahead.drain(..).chain([next]);
                    let rest = rest.map(|left| left.path()).collect();
                    self.found.unsearched.extend(gathered(rest, root));
                }
            }
        }
    }

    /// Notes what a directory holds and goes on to those in it.
    fn take(&mut self, dir: Ahead, listing: &Listing, dev: u64, ahead: &mut Vec<Ahead>) {
        let mut bare = 0;
        let first = ahead.len();
        let path = dir.path();
        for entry in listing.entries() {
            let name = OsStr::from_bytes(entry.name);
            let found = match entry.is_candidate {
                true => matching(&path, name),
                false => None,
            };
            match found {
                Some(Match::Protected(found)) if self.protection.holds(found) => {
                    self.found.named.push((path.join(name), found));
                    continue;
                }
                Some(Match::Git) => {
                    self.found.repositories.push(path.join(name));
                    continue;
                }
                Some(Match::Unsearched) if entry.is_directory => continue,
                Some(Match::Bare(part)) => bare |= part,
                _ => {}
            }
            if entry.is_directory && !self.is_left(&path, name) {
                ahead.push(Ahead {
                    around: None,
                    name: name.to_owned(),
                });
            }
        }
        if bare == BARE {
            self.found.repositories.push(path.clone());
        }
        if ahead.len() > first {
            let levels = dir.around.as_ref().map_or(0, |around| around.levels + 1);
            let open = (levels < MAX_OPEN).then(|| dir.open()).flatten();
            let around = Rc::new(Around {
                path,
                dev,
                open,
                levels,
            });
            for found in &mut ahead[first..] {
                found.around = Some(Rc::clone(&around));
            }
        }
    }

    /// Tells whether the search does not go on to a directory that a rule is about.
    fn is_left(&self, dir: &Path, name: &OsStr) -> bool {
        self.ruled_names.contains(name)
            && self.roots.ruled.get(&*dir.join(name)) == Some(&Through::Leave)
    }

    /// Lists a directory, or recalls what is in it.
    fn listing(&mut self, next: &Ahead) -> Result<(Listing, u64), Missed> {
        let around = next.around.as_deref();
        let length = around.map_or(0, |around| around.path.as_os_str().len());
        // Trees of the kernel are at the top.
        if length <= 1 && is_made_anew(&next.path()) {
            return Err(Missed::Nothing);
        }
        if length + next.name.len() > MAX_PATH {
            return Err(Missed::Closed);
        }
        let found = next.look().map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Missed::Nothing,
            _ => Missed::Closed,
        })?;
        if !FileType::from_raw_mode(found.stx_mode.into()).is_dir() {
            return Err(Missed::Nothing);
        }
        let state = State {
            dev: makedev(found.stx_dev_major, found.stx_dev_minor),
            ino: found.stx_ino,
            changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
        };
        if around.is_some_and(|around| around.dev != state.dev) {
            self.cross(&next.path(), state.dev)?;
        }
        let keeps_time = *self.keeps_time.entry(state.dev).or_insert_with(|| {
            let found = rustix::fs::statfs(next.path());
            found.is_ok_and(|found| KEEPING_TIME.contains(&found.f_type))
        });
        let known = keeps_time.then(|| self.cache.get(state)).flatten();
        let listing = match known {
            Some(listing) => listing,
            None => {
                let listing = self.read(&next.path(), &found)?;
                if keeps_time {
                    self.cache.put(state, &listing);
                }
                listing
            }
        };
        let count = usize::try_from(listing.count).unwrap_or(usize::MAX);
        self.left = self.left.checked_sub(count).ok_or(Missed::TooMuch)?;
        Ok((listing, state.dev))
    }

    fn read(&mut self, path: &Path, found: &Statx) -> Result<Listing, Missed> {
        if Instant::now() > self.roots.until {
            return Err(Missed::TooMuch);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Missed::Nothing,
            Errno::ACCESS if !self.may_reach(path, found) => Missed::Nothing,
            _ => Missed::Closed,
        })?;
        let mut listing = Listing::default();
        let mut entries = RawDir::new(&directory, &mut self.buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(|errno| match errno {
                // It was removed meanwhile.
                Errno::NOENT => Missed::Nothing,
                _ => Missed::Closed,
            })?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            listing.count += 1;
            if usize::try_from(listing.count).is_ok_and(|count| count > self.left) {
                return Err(Missed::TooMuch);
            }
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => is_directory(&directory, name),
                _ => false,
            };
            let is_candidate = is_candidate(name);
            if is_directory || is_candidate {
                listing.push(Entry {
                    name,
                    is_directory,
                    is_candidate,
                });
            }
        }
        Ok(listing)
    }

    /// Tells whether a command could get into a directory that cannot be listed.
    fn may_reach(&self, path: &Path, found: &Statx) -> bool {
        let may = |mode| rustix::fs::access(path, mode).is_ok();
        found.stx_uid == self.roots.uid
            || may(rustix::fs::Access::EXEC_OK)
            || may(rustix::fs::Access::WRITE_OK)
    }

    /// Judges a file system that is mounted below another.
    fn cross(&mut self, path: &Path, dev: u64) -> Result<(), Missed> {
        let kinds = self.kinds.get_or_insert_with(kinds);
        let kind = kinds.get(&dev).map_or("", String::as_str);
        if KERNEL.contains(&kind) {
            return Err(Missed::Nothing);
        }
        let is_program = kind.starts_with("fuse.") && kind != "fuse.fuse-overlayfs";
        if is_program || REMOTE.contains(&kind) {
            self.found.remote.push(path.to_owned());
            return Err(Missed::Nothing);
        }
        Ok(())
    }
}

fn is_directory(directory: &OwnedFd, name: &[u8]) -> bool {
    let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_dir())
}

/// Reads which file system each device holds; see proc_pid_mountinfo(5).
fn kinds() -> HashMap<u64, String> {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let table = String::from_utf8_lossy(&table);
    let kind = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let (major, minor) = before.split(' ').nth(2)?.split_once(':')?;
        let dev = makedev(major.parse().ok()?, minor.parse().ok()?);
        Some((dev, after.split(' ').next()?.to_owned()))
    };
    table.lines().filter_map(kind).collect()
}

/// Takes directories together until they are few: what holds several is closed in their place.
pub(super) fn gathered(mut paths: Vec<PathBuf>, root: &Path) -> Vec<PathBuf> {
    while paths.len() > MAX_UNSEARCHED {
        let deepest = paths.iter().map(|path| path.iter().count()).max();
        let parents = paths.iter().map(|path| match path.parent() {
            Some(parent) if path != root && Some(path.iter().count()) == deepest => parent,
            _ => path,
        });
        let parents: HashSet<PathBuf> = parents.map(Path::to_owned).collect();
        paths = parents.into_iter().collect();
    }
    paths.sort();
    paths
}
