//! Every system call that std, nix and rustix lack or wrap too loosely; the only unsafe code.

#![allow(
    unsafe_code,
    reason = "raw system calls; each block names the facts it rests on"
)]

mod closing;
mod mounts;
mod seccomp;
mod signals;
mod sockets;
mod types;

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal};
use nix::unistd::Pid;

pub(crate) use closing::{close_all_but, set_close_on_exec_but};
pub(crate) use mounts::{MountAttr, mount_setattr, mount_setattr_recursive, mount_setattr_shifted};
pub(crate) use seccomp::{
    answer, install_seccomp, install_seccomp_listener, is_pending, receive_notification,
    wake_in_turns,
};
pub(crate) use signals::{disposition, interrupt_calls_on, set_disposition};
pub(crate) use sockets::{
    accept_with_data, allow_any_source, attach_filter, loopback_up, lost_packets, network_namespace,
};
pub(crate) use types::{Disposition, Forked, Notification, Related};

/// Clones this process into new namespaces; `flags` are `CLONE_NEW*`.
///
/// The caller must be single-threaded: the child goes on using the allocator, whose locks
/// another thread might have held.
pub(crate) fn clone_into_namespaces(flags: c_int) -> io::Result<Forked> {
    refuse_threads()?;
    let mut pidfd: c_int = -1;
    let mut args = libc::clone_args {
        flags: u64::from((flags | libc::CLONE_PIDFD).cast_unsigned()),
        pidfd: (&raw mut pidfd).addr() as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    // SAFETY: `args` lives across the call and its size is passed; without CLONE_VM the child
    // has its own copy of this stack, so both sides may return from here.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of_val(&args)) };
    let pid = match check(pid) {
        // Container profiles answer ENOSYS so that libraries fall back to clone, whose flags
        // a filter can read.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            return clone_raw(flags | libc::SIGCHLD);
        }
        other => other?,
    };
    Ok(forked(pid, pidfd))
}

fn clone_raw(flags: c_int) -> io::Result<Forked> {
    let mut pidfd: c_int = -1;
    let flags = flags | libc::CLONE_PIDFD;
    // SAFETY: no stack is given and CLONE_VM is not set, so the child gets a copy of ours; the
    // third argument points to a c_int that lives across the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) };
    Ok(forked(check(pid)?, pidfd))
}

/// Forks this process. The caller must be single-threaded, as for [`clone_into_namespaces`].
pub(crate) fn fork() -> io::Result<Forked> {
    refuse_threads()?;
    // SAFETY: the process has one thread, so the child may use the allocator and any lock.
    let pid = unsafe { libc::fork() };
    let pid = check(i64::from(pid))?;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    let pid = pid_from(pid);
    let pidfd = rustix::process::Pid::from_raw(pid.as_raw())
        .ok_or(io::ErrorKind::InvalidData)
        .map_err(io::Error::from)
        .and_then(|pid| {
            let flags = rustix::process::PidfdFlags::empty();
            Ok(rustix::process::pidfd_open(pid, flags)?)
        })?;
    Ok(Forked::Parent(pid, pidfd))
}

/// Forks the calling thread of a process that may have others. The child may make calls that
/// are safe in a signal handler, and no other: a lock another thread held stays taken.
pub(crate) fn fork_thread() -> io::Result<Forked> {
    clone_raw(libc::SIGCHLD)
}

/// Forks a helper, which wait(2) counts as no child: see `__WCLONE`. The caller must be single-threaded.
pub(crate) fn fork_helper() -> io::Result<Forked> {
    refuse_threads()?;
    clone_raw(0)
}

/// Refuses to fork a threaded process: see fork(2) and signal-safety(7).
fn refuse_threads() -> io::Result<()> {
    // SAFETY: no pointer is passed, and nothing changes in a process of one thread; in another
    // one the call fails, see unshare(2).
    let result = check(i64::from(unsafe { libc::unshare(libc::CLONE_THREAD) }));
    let is_alone = match result {
        // Filters refuse the call, ours among them.
        Err(error) if error.raw_os_error() != Some(libc::EINVAL) => {
            std::fs::read_dir("/proc/self/task")?.count() == 1
        }
        result => result.is_ok(),
    };
    match is_alone {
        true => Ok(()),
        false => Err(io::Error::from_raw_os_error(libc::EDEADLK)),
    }
}

fn forked(pid: i64, pidfd: c_int) -> Forked {
    if pid == 0 {
        return Forked::Child;
    }
    // SAFETY: CLONE_PIDFD made the kernel store a new descriptor that nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Forked::Parent(pid_from(pid), pidfd)
}

fn pid_from(pid: i64) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("the kernel's pid_t is 32 bits"))
}

/// Ends the process at once: no destructor, no atexit handler, no flushing of copied buffers.
pub(crate) fn exit_now(status: c_int) -> ! {
    // SAFETY: takes an integer and does not return.
    unsafe { libc::_exit(status) }
}

fn mount_setattr_with(
    mount: BorrowedFd<'_>,
    attr: &libc::mount_attr,
    flags: c_int,
) -> io::Result<()> {
    // SAFETY: the path is a NUL-terminated literal and `attr` lives across the call, with its
    // size passed; the kernel only reads both.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags | libc::AT_EMPTY_PATH,
            std::ptr::from_ref(attr),
            size_of_val(attr),
        )
    })
    .map(drop)
}

fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> io::Result<()> {
    // SAFETY: integers only. Without the close-on-exec flag descriptors are closed: the one
    // caller that does so keeps, by number, every descriptor it still uses, and never drops
    // the owners of the others, since it ends by `exit_now`.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

/// Tells whether `fd` is an open descriptor of this process.
pub(crate) fn is_open(fd: RawFd) -> bool {
    // SAFETY: integers only; F_GETFD on a closed number gives EBADF.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Borrows a descriptor that the caller of this process opened and named.
///
/// Returns `None` where the number is not open.
pub(crate) fn inherited(fd: RawFd) -> Option<BorrowedFd<'static>> {
    // SAFETY: checked to be open just before. Descriptors that this process was started with
    // and that no `OwnedFd` of ours holds are never closed before exec.
    is_open(fd).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Lets an inherited descriptor number survive the exec.
pub(crate) fn keep_across_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: integers only; changes the close-on-exec flag of that number.
    check(i64::from(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) })).map(drop)
}

/// Gives this process an empty session keyring, so that the caller's keys are out of reach.
///
/// A kernel without keyrings has no keys to hide: ENOSYS is fine.
pub(crate) fn join_new_session_keyring() -> io::Result<()> {
    const KEYCTL_JOIN_SESSION_KEYRING: c_int = 1;
    // SAFETY: a null name asks for a new anonymous keyring; no memory is read.
    let result = check(unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            KEYCTL_JOIN_SESSION_KEYRING,
            std::ptr::null::<u8>(),
        )
    });
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        other => other.map(drop),
    }
}

fn install_seccomp_with(program: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<i64> {
    let len =
        u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: `program` points to `len` instructions that live across the call; the kernel
    // copies them and writes nothing.
    check(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    })
}

/// Makes a request whose argument is a `T` as the kernel's headers define it.
fn ioctl<T>(fd: BorrowedFd<'_>, request: libc::Ioctl, argument: &mut T) -> io::Result<()> {
    // SAFETY: the kernel reads and writes one `T`, which lives across the call and has no value
    // that the kernel could make invalid.
    check(i64::from(unsafe {
        libc::ioctl(fd.as_raw_fd(), request, std::ptr::from_mut(argument))
    }))
    .map(drop)
}

/// Makes a request that takes an integer.
fn ioctl_number(
    fd: BorrowedFd<'_>,
    request: libc::Ioctl,
    number: libc::c_ulong,
) -> io::Result<i64> {
    // SAFETY: the requests of this module that come here touch no memory of ours.
    check(i64::from(unsafe {
        libc::ioctl(fd.as_raw_fd(), request, number)
    }))
}

/// Takes a descriptor that the kernel has just made for this process.
fn owned(fd: i64) -> OwnedFd {
    let fd = RawFd::try_from(fd).expect("the kernel's descriptors are 32 bits");
    // SAFETY: the calls of this module that come here return a new one, which nobody else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Connects a socket to an address of any family, as the bytes of its `struct sockaddr`.
pub(crate) fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> io::Result<()> {
    let len =
        c_uint::try_from(address.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the kernel reads `len` bytes of `address`, which live across the call.
    check(i64::from(unsafe {
        libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), len)
    }))
    .map(drop)
}

/// Opens what has to do so with `fd`.
pub(crate) fn related(fd: BorrowedFd<'_>, to: Related) -> io::Result<OwnedFd> {
    ioctl_number(fd, to as libc::Ioctl, 0).map(owned)
}

/// Tells whether filters of ours are in force on this process: two options of prctl(2) that no
/// kernel has get the two answers of the programs `refuse` and `absent`, and EINVAL elsewhere.
pub(crate) fn is_under_our_filters() -> bool {
    const OF_REFUSE: c_int = 0x7372_7401;
    const OF_ABSENT: c_int = 0x7372_7402;
    let answer = |option: c_int| {
        // SAFETY: integers only; an unknown option does nothing.
        let result = unsafe { libc::prctl(option, 0, 0, 0, 0) };
        check(i64::from(result))
            .err()
            .and_then(|error| error.raw_os_error())
    };
    answer(OF_REFUSE) == Some(libc::EPERM) && answer(OF_ABSENT) == Some(libc::ENOSYS)
}

/// Asks which Landlock ABI the running kernel has; 0 where it has none.
pub(crate) fn landlock_abi() -> i32 {
    ask_landlock_abi().unwrap_or(0)
}

/// Asks for the ABI as [`landlock_abi`] does, and tells why there is none.
pub(crate) fn ask_landlock_abi() -> io::Result<i32> {
    const VERSION: c_int = 1;
    // SAFETY: with the version flag the call takes a null pointer and size 0; see
    // landlock_create_ruleset(2).
    let abi = check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0,
            VERSION,
        )
    })?;
    Ok(i32::try_from(abi).unwrap_or(0))
}

/// Reads an option of a socket that has so many bytes.
fn option_of<const N: usize>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
) -> io::Result<[u8; N]> {
    let mut value = [0; N];
    let mut len = libc::socklen_t::try_from(N).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `len` bytes to `value`; both live across the call.
    check(i64::from(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    }))?;
    Ok(value)
}

/// Sets an option of a socket to a value as the kernel's headers define it.
fn set_option<T>(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let len = c_uint::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `len` bytes of `value`, which lives across the call, and so do the
    // instructions that a `sock_fprog` points to.
    check(i64::from(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            len,
        )
    }))
    .map(drop)
}

fn sigaction(signal: Signal) -> io::Result<libc::sighandler_t> {
    // SAFETY: sigaction is plain integers, for which all zeroes is a valid value.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only reads; `old` lives across the call.
    let result = unsafe { libc::sigaction(signal as c_int, std::ptr::null(), &raw mut old) };
    check(i64::from(result)).map(|_| old.sa_sigaction)
}

fn set_action(signal: Signal, handler: SigHandler) -> io::Result<()> {
    let action = SigAction::new(handler, SaFlags::empty(), SigSet::empty());
    // SAFETY: SIG_DFL and SIG_IGN run no code of ours, and the one handler that `signals` gives
    // does nothing, which is safe at any point.
    unsafe { nix::sys::signal::sigaction(signal, &action) }
        .map(drop)
        .map_err(io::Error::from)
}

/// Rust's start-up code sets SIGPIPE to be ignored before `main`; what the caller had chosen
/// is read before that, so that the command can have it back.
static SIGPIPE_IGNORED_AT_START: AtomicBool = AtomicBool::new(false);

// SAFETY: the entry is a pointer to an `extern "C"` function, which is what the section holds.
#[unsafe(link_section = ".init_array")]
#[used]
static NOTE_SIGPIPE: extern "C" fn() = {
    extern "C" fn note_sigpipe() {
        let ignored = matches!(sigaction(Signal::SIGPIPE), Ok(libc::SIG_IGN));
        SIGPIPE_IGNORED_AT_START.store(ignored, Ordering::Relaxed);
    }
    note_sigpipe
};

fn check(result: i64) -> io::Result<i64> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}
