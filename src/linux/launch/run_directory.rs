//! The private directory of one run: its TMPDIR, with the proxies' socket in it until the
//! sandbox stands.
//!
//! Every run holds a lock on its own directory. One without a lock was left by a run that was
//! killed, and the next run of the same user removes it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FlockOperation, Mode, OFlags, StatVfsMountFlags, flock, openat, statvfs};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

use super::removal::remove_tree;
use crate::error::{Error, Kind, Result};
use crate::linux::plan::Place;
use crate::linux::plan::mounts::private_access;
use crate::policy::filesystem::{Access, Filesystem};
use crate::policy::path::RealPath;
use crate::policy::{Host, Nesting, NetworkMode, Policy};

/// A directory that only this user can enter, locked for the length of the run.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    parent: PathBuf,
    lock: File,
    socket: Option<OwnedFd>,
    /// Places among the runs of this user that lie elsewhere.
    others: Vec<Self>,
}

const SOCKET: &str = "egress.sock";
const PRIVATE: u32 = 0o700;

/// A directory made by one run may be swept up by another before it is locked; the next try
/// takes another name.
const ATTEMPTS: usize = 8;

impl RunDirectory {
    /// Makes the directory, outside every path the command may write where there is such a
    /// place, and removes what killed runs left beside it.
    ///
    /// # Errors
    /// No temporary directory of this machine can be used.
    pub fn create(host: &Host, policy: &Policy, place: Place) -> Result<Self> {
        let network = place.network(policy.network_mode);
        let (mut call, mut last) = ("mkdir", io::Error::from(io::ErrorKind::NotFound));
        let mut bases = bases(host, &policy.filesystem).into_iter();
        for base in bases.by_ref() {
            let made = Self::create_in(base.as_path(), host.uid).map_err(|error| ("mkdir", error));
            let made =
                made.and_then(|made| made.for_network(network).map_err(|error| ("bind", error)));
            match made {
                Ok(mut directory) => {
                    directory.hold_others(bases, host.uid);
                    return Ok(directory);
                }
                Err(failed) => (call, last) = failed,
            }
        }
        Err(
            Error::new(Kind::Launch, "cannot make a private directory for the run")
                .call(call, last)
                .with_hint(
                    "set TMPDIR to a directory you can write, on a file system without noexec",
                ),
        )
    }

    /// Takes a place among the runs that lie elsewhere, so that what is to be hidden is not
    /// removed by the last of them meanwhile.
    fn hold_others(&mut self, bases: impl Iterator<Item = RealPath>, uid: u32) {
        let usual = |base: &RealPath| base.as_path().join(format!("srt-{uid}"));
        let others = bases.filter(|base| usual(base) != self.parent && usual(base).is_dir());
        let held = others.filter_map(|base| Self::create_in(base.as_path(), uid).ok());
        self.others = held.collect();
    }

    fn create_in(base: &Path, uid: u32) -> io::Result<Self> {
        if statvfs(base)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let usual = base.join(format!("srt-{uid}"));
        match Self::create_below(&usual, uid) {
            Err(error) if is_taken(&error) => {}
            other => return other,
        }
        // Somebody else has taken the name, which everybody can guess. Another will do; what
        // killed runs left under such names goes first.
        let prefix = format!("srt-{uid}-");
        for entry in fs::read_dir(base)?.flatten() {
            let ours = entry.metadata().is_ok_and(|found| found.uid() == uid);
            if ours
                && entry
                    .file_name()
                    .as_encoded_bytes()
                    .starts_with(prefix.as_bytes())
            {
                sweep(&entry.path());
                drop(fs::remove_dir(entry.path()));
            }
        }
        let mut name = OsString::from(prefix);
        name.push(random_name()?);
        Self::create_below(&base.join(name), uid)
    }

    fn create_below(parent: &Path, uid: u32) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for _ in 0..ATTEMPTS {
            match make_private(parent, uid).and_then(|()| Self::lock_new(parent)) {
                Ok(directory) => {
                    sweep(parent);
                    return Ok(directory);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn lock_new(parent: &Path) -> io::Result<Self> {
        let path = parent.join(random_name()?);
        fs::DirBuilder::new().mode(PRIVATE).create(&path)?;
        let lock = open_directory(&path)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        // Another run may have swept it up between the two calls.
        if fs::symlink_metadata(&path)?.ino() != lock.metadata()?.ino() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self {
            path,
            parent: parent.to_owned(),
            lock,
            socket: None,
            others: Vec::new(),
        })
    }

    /// Makes the socket that init connects to, where there are proxies.
    fn for_network(mut self, mode: NetworkMode) -> io::Result<Self> {
        if mode == NetworkMode::Filtered {
            self.socket = Some(self.listen()?);
        }
        Ok(self)
    }

    fn listen(&self) -> io::Result<OwnedFd> {
        let kind = SocketType::SEQPACKET;
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        // Through the descriptor, since a socket's name is 107 bytes at most; see unix(7).
        let name = format!("/proc/self/fd/{}/{SOCKET}", self.lock.as_raw_fd());
        bind(&socket, &SocketAddrUnix::new(name)?)?;
        listen(&socket, 1)?;
        Ok(socket)
    }

    /// Returns the directories that hold this run and others of the same user.
    ///
    /// # Errors
    /// One was removed, though this run has a place in it.
    pub fn all_runs(&self) -> Result<Vec<RealPath>> {
        let held = self.others.iter().map(|other| &other.parent);
        let all = [&self.parent].into_iter().chain(held);
        all.map(|parent| {
            RealPath::resolve(parent).map_err(|error| {
                let goal = format!("cannot hide {}", parent.display());
                Error::new(Kind::Launch, goal).call("realpath", error)
            })
        })
        .collect()
    }

    /// Returns the directories that hold runs of this user now.
    pub fn runs_of(host: &Host, policy: &Filesystem) -> Vec<RealPath> {
        let bases = bases(host, policy).into_iter();
        let usual = bases.map(|base| base.as_path().join(format!("srt-{}", host.uid)));
        usual
            .filter_map(|path| RealPath::resolve(&path).ok())
            .collect()
    }

    /// Returns the path of the socket that init connects to.
    pub fn socket_path(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// Returns the listening end of that socket.
    pub fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// Puts `RUN` in place of the random name, wherever `text` names this directory.
    pub fn with_fixed_name(&self, text: &str) -> String {
        let fixed = self.parent.join("RUN");
        text.replace(&*self.path.to_string_lossy(), &fixed.to_string_lossy())
    }

    /// Removes the socket's name, before there is a command to see it.
    pub fn unlink_socket(&mut self) {
        if self.socket.take().is_some() {
            // A name that stays leads nowhere once nobody listens.
            drop(fs::remove_file(self.socket_path()));
        }
    }

    /// Returns the directory itself.
    ///
    /// # Errors
    /// It was removed meanwhile.
    pub fn real_path(&self) -> Result<RealPath> {
        RealPath::resolve(&self.path).map_err(|error| {
            let goal = format!("cannot use {}", self.path.display());
            Error::new(Kind::Launch, goal).call("realpath", error)
        })
    }
}

/// Removes the directories of runs that were killed.
fn sweep(parent: &Path) {
    let Ok(parent) = open_directory(parent) else {
        return;
    };
    let Ok(entries) = Dir::read_from(&parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(directory) = openat(&parent, name, flags, Mode::empty()) else {
            continue;
        };
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_tree(&parent, name);
        }
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if let (Ok(parent), Some(name)) = (open_directory(&self.parent), self.path.file_name()) {
            remove_tree(&parent, name);
        }
        // Other runs of this user may be in it; the last one removes it.
        drop(fs::remove_dir(&self.parent));
    }
}

/// Lists where a private directory may be made: first where the command may not write, and
/// among equals the caller's choice.
fn bases(host: &Host, policy: &Filesystem) -> Vec<RealPath> {
    let own = host
        .var("TMPDIR")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let usual = ["/tmp", "/var/tmp"].map(PathBuf::from);
    let bases = own
        .into_iter()
        .chain(usual)
        .filter_map(|path| RealPath::resolve(&path).ok())
        // Trees that the sandbox has of its own: TMPDIR may be /dev/shm.
        .filter(|base| private_access(base.as_path(), Nesting::Refused).is_none());
    let mut bases: Vec<_> = bases.collect();
    bases.sort_by_key(|base| policy.access(base.as_path()) == Access::Write);
    bases
}

/// Tells whether a name leads to what somebody else made: a directory of another user, or no
/// directory at all.
fn is_taken(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::NotADirectory,
    ];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(libc::ELOOP)
}

/// Makes `path`, or accepts one that is there: a directory of this user, closed to others.
fn make_private(path: &Path, uid: u32) -> io::Result<()> {
    match fs::DirBuilder::new().mode(PRIVATE).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Never through a link: the name can be guessed, and /tmp is everybody's.
    let found = open_directory(path)?.metadata()?;
    if found.uid() == uid && found.mode() & 0o077 == 0 {
        return Ok(());
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::options()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

fn random_name() -> io::Result<OsString> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(OsString::from(format!(
        "{:016x}",
        u64::from_ne_bytes(bytes)
    )))
}
