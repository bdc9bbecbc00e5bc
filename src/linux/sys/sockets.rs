//! Options of sockets.

use std::ffi::c_int;
use std::io;
use std::os::fd::BorrowedFd;

use super::{ioctl, option_of, set_option};

/// Returns a number that the network namespace of a socket has for itself alone.
pub(crate) fn network_namespace(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // KERNEL(5.14): from asm-generic/socket.h.
    const SO_NETNS_COOKIE: c_int = 71;
    let cookie = option_of(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE)?;
    Ok(u64::from_ne_bytes(cookie))
}

/// Brings the loopback interface of this network namespace up.
pub(crate) fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut request = libc::ifreq {
        ifr_name: [0; libc::IFNAMSIZ],
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: 0 },
    };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = byte.cast_signed();
    }
    let up = i16::try_from(libc::IFF_UP).expect("IFF_UP is 1");
    request.ifr_ifru.ifru_flags = up;
    ioctl(socket, libc::SIOCSIFFLAGS, &mut request)
}

/// Lets a socket of IPv6 send from any address that is routed to this machine; IPv4 has no need
/// of it. See IP_FREEBIND in ip(7).
pub(crate) fn allow_any_source(socket: BorrowedFd<'_>) -> io::Result<()> {
    // KERNEL(4.15): from linux/in6.h.
    const IPV6_FREEBIND: c_int = 78;
    let on: c_int = 1;
    set_option(socket, libc::SOL_IPV6, IPV6_FREEBIND, &on)
}

/// Has a connection accepted when its client has sent something, or after some seconds; see
/// TCP_DEFER_ACCEPT in tcp(7).
pub(crate) fn accept_with_data(socket: BorrowedFd<'_>, seconds: c_int) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &seconds)
}

/// Has a socket receive what a program of classic BPF lets through; see socket(7).
pub(crate) fn attach_filter(
    socket: BorrowedFd<'_>,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog {
        len,
        filter: program.as_ptr().cast_mut(),
    };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Returns how many packets a socket had no room for.
pub(crate) fn lost_packets(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // KERNEL(4.12): from asm-generic/socket.h and linux/sock_diag.h, nine numbers, the last of
    // which is this.
    const SO_MEMINFO: c_int = 55;
    let numbers: [u8; 36] = option_of(socket, libc::SOL_SOCKET, SO_MEMINFO)?;
    let last = numbers.last_chunk().copied().unwrap_or_default();
    Ok(u32::from_ne_bytes(last))
}
