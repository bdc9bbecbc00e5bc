//! Filters of system calls, and the calls that they stop; see seccomp(2) and seccomp_unotify(2).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::{Notification, install_seccomp_with, ioctl, ioctl_number, owned};

/// Installs a seccomp program for this thread; irreversible. `no_new_privs` must be set.
pub(crate) fn install_seccomp(program: &[libc::sock_filter]) -> io::Result<()> {
    install_seccomp_with(program, 0).map(drop)
}

/// Installs a program as [`install_seccomp`] does, and returns where the calls it stops are
/// answered. A caller that waits for an answer can be killed, and not be disturbed otherwise.
pub(crate) fn install_seccomp_listener(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    install_seccomp_with(program, flags).map(owned)
}

/// Waits for the next stopped call.
pub(crate) fn receive_notification(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    let mut received = libc::seccomp_notif {
        id: 0,
        pid: 0,
        flags: 0,
        data: libc::seccomp_data {
            nr: 0,
            arch: 0,
            instruction_pointer: 0,
            args: [0; 6],
        },
    };
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &mut received)?;
    Ok(Notification {
        id: received.id,
        thread: received.pid.cast_signed(),
        call: received.data.nr.into(),
        args: received.data.args,
    })
}

/// Tells whether the caller still waits: if so, its thread id is its own up to here.
pub(crate) fn is_pending(listener: BorrowedFd<'_>, mut id: u64) -> bool {
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &mut id).is_ok()
}

/// Has caller and broker wake each other on one processor, as they wait for each other anyway.
pub(crate) fn wake_in_turns(listener: BorrowedFd<'_>) -> io::Result<()> {
    // KERNEL(6.6): from linux/seccomp.h; before, it is EINVAL.
    const SYNC_WAKE_UP: libc::c_ulong = 1;
    ioctl_number(listener, libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP).map(drop)
}

/// Gives a stopped call its result: an errno, 0 for success, or `None` for what the kernel makes
/// of it, which reads the caller's memory anew.
pub(crate) fn answer(listener: BorrowedFd<'_>, id: u64, errno: Option<i32>) -> io::Result<()> {
    // From linux/seccomp.h.
    const CONTINUE: u32 = 1;
    let mut response = libc::seccomp_notif_resp {
        id,
        val: 0,
        error: -errno.unwrap_or(0),
        flags: if errno.is_none() { CONTINUE } else { 0 },
    };
    ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &mut response)
}
