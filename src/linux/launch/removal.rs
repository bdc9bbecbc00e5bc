//! Removes a tree that a hostile command may have left: of any depth and any mode, following
//! nothing in it.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use nix::sys::stat::{self, FchmodatFlags, fchmodat};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Removes the directory `name` in `parent` and everything in it. What cannot be removed stays.
///
/// Directories are moved up to `name` before they are emptied: however deep they lie, no path
/// gets long, and no step down costs a descriptor or a stack frame.
pub(super) fn remove_tree(parent: impl AsFd, name: &OsStr) {
    let parent = parent.as_fd();
    if let Ok(top) = open(parent, name) {
        let mut left = remove_files(&top);
        let mut number: u64 = 0;
        while let Some(name) = left.pop() {
            if let Ok(directory) = open(top.as_fd(), &name) {
                for below in remove_files(&directory) {
                    left.extend(raise(&directory, &below, &top, &mut number));
                }
            }
            // One that is not empty could not be opened or emptied, and stays.
            let _removed = unlinkat(&top, &name, AtFlags::REMOVEDIR);
        }
    }
    let _removed = unlinkat(parent, name, AtFlags::REMOVEDIR);
}

/// Removes everything in `directory` but the directories, and returns their names.
fn remove_files(directory: &OwnedFd) -> Vec<OsString> {
    let Ok(entries) = Dir::read_from(directory) else {
        return Vec::new();
    };
    // Listed before anything is removed: not every file system lists the rest reliably then.
    let entries: Vec<_> = entries.flatten().collect();
    let mut directories = Vec::new();
    for entry in entries {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let removed = entry.file_type() != FileType::Directory
            && unlinkat(directory, name, AtFlags::empty()) != Err(Errno::ISDIR);
        if !removed && name != "." && name != ".." {
            directories.push(name.to_owned());
        }
    }
    directories
}

/// Moves the directory `name` of `from` to `top`, under a new name, which is returned.
fn raise(from: &OwnedFd, name: &OsStr, top: &OwnedFd, number: &mut u64) -> Option<OsString> {
    let mut opened_up = false;
    loop {
        let new = OsString::from(number.to_string());
        match renameat(from, name, top, &new) {
            Ok(()) => return Some(new),
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => *number += 1,
            // Its own `..` changes with the move, which takes the right to write in it.
            Err(Errno::ACCESS) if !opened_up => {
                open_up(from.as_fd(), name).ok()?;
                opened_up = true;
            }
            Err(_) => return None,
        }
    }
}

/// Opens a directory that can be listed and changed.
fn open(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::empty();
    match openat(parent, name, flags, mode) {
        Ok(directory) => {
            fchmod(&directory, Mode::RWXU)?;
            Ok(directory)
        }
        Err(Errno::ACCESS) => {
            open_up(parent, name)?;
            openat(parent, name, flags, mode)
        }
        Err(errno) => Err(errno),
    }
}

/// Gives the owner every right over what is called `name`, unless it is a link.
fn open_up(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    fchmodat(
        parent,
        name,
        stat::Mode::S_IRWXU,
        FchmodatFlags::NoFollowSymlink,
    )
    .map_err(|errno| Errno::from_raw_os_error(errno as i32))
}
