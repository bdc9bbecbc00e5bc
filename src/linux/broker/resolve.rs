//! Finds what a path means to a caller, name by name, without trusting any text twice.
//!
//! Every step opens the next place from the last one. A path that changes meanwhile leads
//! somewhere else, and what is found there is judged by what it is.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::errno::Errno;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, openat, statx};

use super::caller::{Caller, errno};

/// As many links as the kernel follows before it answers ELOOP; see path_resolution(7).
const MAX_LINKS: usize = 40;

/// f_type of procfs, and the inode of its root; see linux/magic.h and linux/proc_ns.h.
const PROC_SUPER_MAGIC: i64 = 0x9fa0;
const PROC_ROOT_INO: u64 = 1;

/// Opens `path` as a place, as `caller` would find it, links followed.
pub(super) fn open(caller: &Caller<'_>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut walk = Walk {
        caller,
        root: caller.root()?,
        at: None,
        ahead: VecDeque::new(),
        links: 0,
    };
    walk.go(path)?;
    while let Some(name) = walk.ahead.pop_front() {
        walk.step(&name)?;
    }
    match walk.at {
        Some(at) => Ok(at),
        None => Ok(walk.root),
    }
}

struct Walk<'c, 'b> {
    caller: &'c Caller<'b>,
    root: OwnedFd,
    /// Where the walk has come to; `None` for the root.
    at: Option<OwnedFd>,
    ahead: VecDeque<OsString>,
    links: usize,
}

impl Walk<'_, '_> {
    /// Puts the names of `path` before those that are still ahead.
    fn go(&mut self, path: &[u8]) -> Result<(), Errno> {
        match path {
            [] => return Err(Errno::ENOENT),
            [b'/', ..] => self.at = None,
            _ if self.links == 0 => self.at = Some(self.caller.working_directory()?),
            _ => {}
        }
        let names = path
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty());
        let mut names: Vec<OsString> = names.map(|name| OsStr::from_bytes(name).into()).collect();
        // What ends in a slash is a directory, or nothing.
        if path.ends_with(b"/") {
            names.push(".".into());
        }
        for name in names.into_iter().rev() {
            self.ahead.push_front(name);
        }
        Ok(())
    }

    fn step(&mut self, name: &OsStr) -> Result<(), Errno> {
        if name == ".." && identity(self.here())? == identity(&self.root)? {
            return Ok(());
        }
        let found = open_at(self.here(), name, OFlags::NOFOLLOW)?;
        let stat = rustix::fs::fstat(&found).map_err(errno)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            self.at = Some(found);
            return Ok(());
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::ELOOP);
        }
        match self.kind_of_link(name)? {
            Link::Text => {
                let text = rustix::fs::readlinkat(&found, c"", Vec::new()).map_err(errno)?;
                self.go(text.as_bytes())
            }
            Link::ToCaller(names) => self.go(&names.into_vec()),
            Link::Magic => {
                self.at = Some(open_at(self.here(), name, OFlags::empty())?);
                Ok(())
            }
        }
    }

    fn here(&self) -> &OwnedFd {
        self.at.as_ref().unwrap_or(&self.root)
    }

    /// Tells how a link is followed. In `/proc`, links mean the process that follows them,
    /// or lead to an object itself, whatever their text says.
    fn kind_of_link(&self, name: &OsStr) -> Result<Link, Errno> {
        let here = self.here();
        let system = rustix::fs::fstatfs(here).map_err(errno)?;
        if system.f_type != PROC_SUPER_MAGIC {
            return Ok(Link::Text);
        }
        let is_root = rustix::fs::fstat(here).map_err(errno)?.st_ino == PROC_ROOT_INO;
        match name.as_bytes() {
            b"self" if is_root => Ok(Link::ToCaller(self.caller.own_names()?.0)),
            b"thread-self" if is_root => Ok(Link::ToCaller(self.caller.own_names()?.1)),
            _ if is_root => Ok(Link::Text),
            _ => Ok(Link::Magic),
        }
    }
}

enum Link {
    Text,
    ToCaller(OsString),
    Magic,
}

fn open_at(here: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    openat(here, name, flags, Mode::empty()).map_err(errno)
}

/// Returns the mount and the inode of a place.
fn identity(place: impl AsFd) -> Result<(u64, u64), Errno> {
    let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
    let found = statx(place, c"", AtFlags::EMPTY_PATH, wanted).map_err(errno)?;
    Ok((found.stx_mnt_id, found.stx_ino))
}
