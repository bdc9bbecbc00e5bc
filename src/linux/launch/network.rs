//! The sandbox's loopback: up, with the listeners the proxies will accept on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::failure::{At, Failure, Step};
use crate::linux::plan::Role;
use crate::linux::sys;

/// Connections the kernel holds for us while the proxies are busy; a full queue would drop
/// them. The kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Brings `lo` up and binds each port on 127.0.0.1 and, where there is IPv6, on `::1`.
pub(super) fn listen_on_loopback(ports: &[(Role, u16)]) -> Result<Vec<(Role, OwnedFd)>, Failure> {
    let any = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .at(Step::LoopbackUp)?;
    sys::loopback_up(std::os::fd::AsFd::as_fd(&any)).at(Step::LoopbackUp)?;
    let mut listeners = Vec::new();
    for &(role, port) in ports {
        let v4 = bound((IpAddr::V4(Ipv4Addr::LOCALHOST), port).into()).at(Step::Listen)?;
        listeners.push((role, v4));
        // No IPv6, by sysctl or by kernel: programs inside find 127.0.0.1 alone, which is
        // the address the proxy variables name.
        match bound((IpAddr::V6(Ipv6Addr::LOCALHOST), port).into()) {
            Ok(v6) => listeners.push((role, v6)),
            Err(rustix::io::Errno::ADDRNOTAVAIL | rustix::io::Errno::AFNOSUPPORT) => {}
            other => drop(other.at(Step::Listen)?),
        }
    }
    Ok(listeners)
}

fn bound(address: SocketAddr) -> Result<OwnedFd, rustix::io::Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
