//! Which inherited descriptors a command may keep.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{FileType, OFlags, fcntl_getfl};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::error::{Error, Kind, Result};
use crate::linux::sys;

/// Checks standard input, output and error: a socket there would be a way to the network, a
/// directory a way around the file rules.
///
/// # Errors
/// One of them is a directory, a block device, or a socket of a kind that reaches outside.
pub fn check_standard() -> Result<()> {
    for (number, name) in [(0, "input"), (1, "output"), (2, "error")] {
        // Closed ones were opened on /dev/null before `main`.
        let Some(fd) = sys::inherited(number) else {
            continue;
        };
        if let Some(what) = refused(fd) {
            let goal = format!("standard {name} is {what}, which the sandbox could not confine");
            return Err(Error::new(Kind::Usage, goal)
                .with_hint("redirect it to a file, a pipe or /dev/null"));
        }
    }
    Ok(())
}

/// Checks that descriptors which flags name are there; `example` shows such a flag.
///
/// # Errors
/// One of them is not open.
pub fn check_kept(fds: &[RawFd], example: &str) -> Result<()> {
    match fds.iter().find(|&&fd| !sys::is_open(fd)) {
        None => Ok(()),
        Some(fd) => Err(
            Error::new(Kind::Usage, format!("descriptor {fd} is not open")).with_hint(format!(
                "open it in the calling process, as in: srt {example}"
            )),
        ),
    }
}

/// Returns a descriptor of the caller for ourselves to write to.
///
/// # Errors
/// It is not open, or not for writing.
pub fn writable(number: RawFd) -> Result<OwnedFd> {
    let cannot = || {
        let goal = format!("descriptor {number} cannot be written to");
        let error = Error::new(Kind::Usage, goal);
        error.with_hint("open it for writing, as in: srt --events-fd 3 CMD 3>>file")
    };
    let fd = sys::inherited(number).ok_or_else(cannot)?;
    let flags = fcntl_getfl(fd).map_err(|errno| cannot().call("fcntl", errno))?;
    let mode = flags & OFlags::RWMODE;
    if flags.contains(OFlags::PATH) || mode == OFlags::RDONLY {
        return Err(cannot());
    }
    // Above the standard ones, and closed where a program starts.
    fcntl_dupfd_cloexec(fd, 3).map_err(|errno| cannot().call("fcntl", errno))
}

/// Says what is wrong with a descriptor; what cannot be told apart is wrong too.
fn refused(fd: BorrowedFd<'_>) -> Option<&'static str> {
    let Ok(stat) = rustix::fs::fstat(fd) else {
        return Some("of a kind that cannot be told");
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Some("a directory"),
        FileType::BlockDevice => Some("a block device"),
        FileType::Socket => refused_socket(fd),
        _ if is_path_only(fd) => Some("a path without access to its file"),
        FileType::RegularFile | FileType::CharacterDevice | FileType::Fifo => None,
        // Objects that only have a descriptor: a process, a watch, a filter's listener.
        _ => Some("an object of the kernel"),
    }
}

fn refused_socket(fd: BorrowedFd<'_>) -> Option<&'static str> {
    if sockopt::socket_domain(fd) != Ok(AddressFamily::UNIX) {
        return Some("a network socket");
    }
    match sockopt::socket_type(fd) {
        // One that is connected stays so; another could be connected to any server of the host.
        Ok(SocketType::STREAM | SocketType::SEQPACKET) => {
            let connected = rustix::net::getpeername(fd).is_ok();
            (!connected).then_some("a socket that is not connected")
        }
        _ => Some("a Unix datagram socket"),
    }
}

fn is_path_only(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::PATH))
}
