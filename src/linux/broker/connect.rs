//! `connect`: sockets of the sandbox among themselves, and those of the host that are listed.

use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::net::{AddressFamily, SocketType, sockopt};

use super::caller::{Caller, errno, errno_of, lower_half};
use super::namespaces::Namespace;
use super::turn::Lead;
use super::{Shared, Worker, resolve};
use crate::audit::event::{Code, Event, Kind, Rule, Suggest, Verdict};
use crate::linux::executor::{self, Destination, MAX_ADDRESS};
use crate::linux::unix_diag::{Listening, UnixDiag};
use crate::linux::{processes, sys};

/// Where the path of a Unix address starts, and how long the whole is at most; see unix(7).
const PATH_OFFSET: usize = 2;
const MAX_UNIX_ADDRESS: usize = 110;

/// f_type of ext2, ext3 and ext4; see linux/magic.h.
const EXT4_SUPER_MAGIC: i64 = 0xef53;

/// Performs `connect(socket, address, length)`.
pub(super) fn perform(
    broker: &Shared,
    worker: &mut Worker,
    (caller, lead): (&Caller<'_>, &Lead<'_>),
    args: &[u64; 6],
) -> Result<(), Errno> {
    let socket = caller.descriptor(args[0])?;
    let domain = sockopt::socket_domain(&socket).map_err(errno)?;
    let len = usize::try_from(i32::from_ne_bytes(lower_half(args[2])));
    let len = len.ok().filter(|&len| len <= MAX_ADDRESS);
    let address = caller.read(args[1], len.ok_or(Errno::EINVAL)?)?;
    // What a socket reaches by number or abstract name, it reaches in its own namespace.
    let namespace = broker.namespaces()?.of(&socket).ok_or(Errno::EACCES)?;
    if domain != AddressFamily::UNIX {
        if leaves(&address) {
            redirect(broker);
        }
        // Of other families none looks at who connects.
        let connect = || sys::connect(socket.as_fd(), &address);
        return match may_block(&socket)? {
            true => broker.watch.perform(caller, lead, connect),
            false => connect().map_err(|error| errno_of(&error)),
        };
    }
    // From here on others may be waited for: the executor, file systems.
    lead.pass_on();
    let Some(path) = path_of(&socket, &address)? else {
        let to = Destination::Address(&address);
        return have_executed(broker, worker, caller, &socket, to);
    };
    let place = resolve::open(caller, path)?;
    match side_of(broker, caller, &namespace, &place)? {
        Side::Inside => {
            let to = Destination::Place(place.as_fd());
            have_executed(broker, worker, caller, &socket, to)
        }
        Side::Outside => {
            let connect = || executor::connect_to_place(&socket, &place);
            broker.watch.perform(caller, lead, connect)
        }
    }
}

/// Tells whether an address is one of another machine; the families, and where their addresses
/// lie, are those of ip(7) and ipv6(7).
fn leaves(address: &[u8]) -> bool {
    let Some((family, rest)) = address.split_first_chunk() else {
        return false;
    };
    let ip = match AddressFamily::from_raw(u16::from_ne_bytes(*family)) {
        AddressFamily::INET => rest.get(2..).and_then(v4_at),
        AddressFamily::INET6 => rest.get(6..).and_then(v6_at),
        _ => None,
    };
    // The kernel takes what is unspecified for loopback.
    ip.is_some_and(|ip| {
        let ip = ip.to_canonical();
        !ip.is_loopback() && !ip.is_unspecified()
    })
}

fn v4_at(bytes: &[u8]) -> Option<IpAddr> {
    bytes.first_chunk::<4>().map(|v4| IpAddr::from(*v4))
}

fn v6_at(bytes: &[u8]) -> Option<IpAddr> {
    bytes.first_chunk::<16>().map(|v6| IpAddr::from(*v6))
}

/// Has connections to other machines come to the proxies. Where that fails they are refused,
/// for nothing listens.
fn redirect(broker: &Shared) {
    if let Some(redirection) = &broker.redirection
        && let Err(error) = redirection.make()
    {
        broker.audit.warn(format_args!(
            "programs that know no proxy find no network: netlink(NFT_MSG_NEWRULE): {error}; \
             see `srt ctl doctor`"
        ));
    }
}

/// Tells whether a connect of this socket may wait for its peer, if its kind waits at all.
fn may_block(socket: &OwnedFd) -> Result<bool, Errno> {
    let flags = rustix::fs::fcntl_getfl(socket).map_err(errno)?;
    Ok(!flags.contains(OFlags::NONBLOCK))
}

/// Who may connect to a place.
enum Side {
    /// The executor: a socket of the sandbox, or no socket at all.
    Inside,
    /// The broker: a socket of the host that is listed.
    Outside,
}

/// Has the executor connect `socket`; one that is gone is started again by the next call.
fn have_executed(
    broker: &Shared,
    worker: &mut Worker,
    caller: &Caller<'_>,
    socket: &OwnedFd,
    to: Destination<'_>,
) -> Result<(), Errno> {
    let line = worker.line(&broker.executor)?;
    let is_wanted = || caller.is_waiting();
    let result = broker.executor.connect(line, socket.as_fd(), to, is_wanted);
    result.map_err(|errno| {
        errno.unwrap_or_else(|| {
            worker.line = None;
            Errno::ENOSYS
        })
    })
}

/// Returns the path of a Unix address; `None` for what the kernel looks up by other means, or
/// refuses.
fn path_of<'a>(socket: &OwnedFd, address: &'a [u8]) -> Result<Option<&'a [u8]>, Errno> {
    let connected = [SocketType::STREAM, SocketType::SEQPACKET];
    if !connected.contains(&sockopt::socket_type(socket).map_err(errno)?) {
        return Err(Errno::EPERM);
    }
    let Some((family, path)) = address.split_at_checked(PATH_OFFSET) else {
        return Ok(None);
    };
    let is_unix = family == AddressFamily::UNIX.as_raw().to_ne_bytes();
    // A leading NUL is an abstract name.
    if !is_unix || address.len() > MAX_UNIX_ADDRESS || matches!(path, [] | [0, ..]) {
        return Ok(None);
    }
    Ok(path.split(|&byte| byte == 0).next())
}

/// Decides on a place, which is held open: nothing can take its inode number meanwhile.
fn side_of(
    broker: &Shared,
    caller: &Caller<'_>,
    namespace: &Namespace,
    place: &OwnedFd,
) -> Result<Side, Errno> {
    let found = rustix::fs::fstat(place).map_err(errno)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Ok(Side::Inside);
    }
    let numbers = Numbers::of(place, &found)?;
    let own = broker.namespaces()?.listening_at(namespace, numbers.ino);
    let networks = match numbers.are_its_own {
        true => Vec::new(),
        false => broker.namespaces()?.networks(namespace, caller),
    };
    let is_there = |socket: &Listening| match numbers.are_its_own {
        true => socket.dev == numbers.dev,
        false => broker.bound.is_at(&networks, socket, place),
    };
    if own.iter().any(is_there) {
        return Ok(Side::Inside);
    }
    let path = path_to(place)?;
    if let Some(entry) = broker.policy.check(&path)
        && is_on_host(&path, &found)
    {
        let allowed = Event {
            verdict: Some(Verdict::Allowed),
            rule: Some(Rule::new(&entry.text, &entry.origin)),
            ..Event::new(Kind::Socket, CONNECT, Code::SocketListed)
        };
        record(broker, caller, &path, allowed);
        return Ok(Side::Outside);
    }
    // Which of two answers is given; no more depends on it.
    let may_be_there = |socket: &Listening| !numbers.are_its_own || socket.dev == numbers.dev;
    let listening = |diag: &UnixDiag| diag.listening_at(numbers.ino).unwrap_or_default();
    let host = broker.host_sockets().map(listening).unwrap_or_default();
    if host.iter().any(may_be_there) {
        let add = path.to_string_lossy();
        let denied = Event {
            verdict: Some(Verdict::Denied),
            suggest: Some(Suggest::adding("network.allowUnixSockets", add)),
            ..Event::new(Kind::Socket, CONNECT, Code::SocketUnlisted)
        };
        record(broker, caller, &path, denied);
        return Err(Errno::EACCES);
    }
    // Nobody we know of listens: programs remove such a leftover and take its name.
    Err(Errno::ECONNREFUSED)
}

/// What `UNIX_DIAG` would tell of a socket that is bound to a place.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    dev: u32,
    ino: u32,
    /// No other inode has both: the file system has one tree of numbers of 32 bits.
    are_its_own: bool,
}

impl Numbers {
    fn of(place: &OwnedFd, found: &rustix::fs::Stat) -> Result<Self, Errno> {
        let (major, minor) = (
            rustix::fs::major(found.st_dev),
            rustix::fs::minor(found.st_dev),
        );
        let [a, b, c, d, ..] = found.st_ino.to_le_bytes();
        let system = rustix::fs::fstatfs(place).map_err(errno)?;
        Ok(Self {
            // dev_t inside the kernel: 12 bits and 20 bits.
            dev: major << 20 | minor,
            ino: u32::from_le_bytes([a, b, c, d]),
            are_its_own: system.f_type == EXT4_SUPER_MAGIC,
        })
    }
}

/// Returns the path of a place in the sandbox's view, free of links.
fn path_to(place: &OwnedFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", place.as_raw_fd());
    let text = rustix::fs::readlink(link, Vec::new()).map_err(errno)?;
    Ok(Path::new(std::ffi::OsStr::from_bytes(text.as_bytes())).to_owned())
}

/// Tells whether the host has the same file at `path`: the sandbox's view may show another.
fn is_on_host(path: &Path, found: &rustix::fs::Stat) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)
        .and_then(rustix::fs::fstat)
        .is_ok_and(|there| (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino))
}

/// Records what became of a call of `caller`, which still waits for it.
fn record(broker: &Shared, caller: &Caller<'_>, path: &Path, event: Event<'_>) {
    if !broker.audit.is_recording() {
        return;
    }
    broker.audit.record(&Event {
        target: Some(&path.to_string_lossy()),
        process: processes::describe(caller.thread().unsigned_abs()),
        ..event
    });
}

const CONNECT: &str = "connect";

#[cfg(test)]
mod tests {
    use super::*;

    fn inet(address: &str) -> Vec<u8> {
        let (family, before) = match address.parse().expect("it is one") {
            IpAddr::V4(_) => (AddressFamily::INET, 2),
            IpAddr::V6(_) => (AddressFamily::INET6, 6),
        };
        let mut bytes = family.as_raw().to_ne_bytes().to_vec();
        bytes.resize(2 + before, 0);
        match address.parse().expect("it is one") {
            IpAddr::V4(v4) => bytes.extend(v4.octets()),
            IpAddr::V6(v6) => bytes.extend(v6.octets()),
        }
        bytes
    }

    #[test]
    fn what_leaves_is_told_from_what_stays_in_the_loopback() {
        for address in [
            "192.0.2.1",
            "198.18.0.2",
            "128.0.0.1",
            "fd00::1",
            "::ffff:192.0.2.1",
        ] {
            assert!(leaves(&inet(address)), "{address}");
        }
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "::",
            "::1",
            "::ffff:127.0.0.1",
        ] {
            assert!(!leaves(&inet(address)), "{address}");
        }
        for short in [
            &[][..],
            &[2],
            &[2, 0],
            &inet("192.0.2.1")[..7],
            &inet("fd00::1")[..23],
        ] {
            assert!(!leaves(short), "{short:?}");
        }
        let unspecified = [&[0, 0], &inet("192.0.2.1")[2..]].concat();
        assert!(!leaves(&unspecified));
    }
}
