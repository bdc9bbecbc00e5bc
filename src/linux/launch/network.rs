//! The sandbox's network: a loopback, the listeners the proxies will accept on, and what brings
//! the connections of programs to them that know no proxy.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::failure::{At, Failure, Step};
use crate::linux::datagrams::{self, Eyes};
use crate::linux::netlink::capture::{self, Ports, Redirection};
use crate::linux::plan::{CAPTURE_PORT, Capture, HostSockets, Observed, Plan, RESOLVER_PORT, Role};
use crate::linux::{sys, unix_diag};

/// Connections the kernel holds for us while the proxies are busy; a full queue would drop
/// them. The kernel cuts it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Where redirected connections come.
pub(crate) const CAPTURED: Ports = Ports {
    captured: CAPTURE_PORT,
    resolver: RESOLVER_PORT,
};

type Listener = (Role, OwnedFd);

/// What the proxies get of it.
pub(super) struct Network {
    pub(super) listeners: Vec<Listener>,
    /// For the broker to redirect connections by, once there is one.
    pub(super) redirection: Option<OwnedFd>,
    /// What tells of its sockets; see sock_diag(7).
    pub(super) sockets: OwnedFd,
    /// What sees the datagrams that are refused, where they are reported.
    pub(super) datagrams: Option<Eyes>,
}

/// Brings `lo` up and makes what the plan listens on.
pub(super) fn build(plan: &Plan) -> Result<Network, Failure> {
    let any = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .at(Step::LoopbackUp)?;
    sys::loopback_up(any.as_fd()).at(Step::LoopbackUp)?;
    let mut listeners = Vec::new();
    for &(role, port) in &plan.listeners {
        listeners.push((role, proxy((Ipv4Addr::LOCALHOST, port)).at(Step::Listen)?));
        // No IPv6, by sysctl or by kernel: programs inside find 127.0.0.1 alone, which is
        // the address the proxy variables name.
        if let Some(v6) = where_there_is_v6(proxy((Ipv6Addr::LOCALHOST, port)))? {
            listeners.push((role, v6));
        }
    }
    let mut redirection = None;
    if let Some(capture) = &plan.capture {
        redirection = redirected(plan);
        listeners.extend(captured(capture, redirection.is_some())?);
    }
    Ok(Network {
        listeners,
        redirection,
        sockets: unix_diag::open().at(Step::AskSockets)?,
        datagrams: match plan.observed {
            Observed::Nothing => None,
            // Without it datagrams are refused all the same.
            Observed::Writes | Observed::Everything => eyes().ok(),
        },
    })
}

fn eyes() -> io::Result<Eyes> {
    let (v4, v6) = datagrams::open()?;
    let senders = unix_diag::open()?;
    Ok(Eyes { v4, v6, senders })
}

/// Listens for the connections and questions of programs that know no proxy. Without routes
/// such programs find no network, as they do where this is not asked for.
fn captured(capture: &Capture, redirects: bool) -> Result<Vec<Listener>, Failure> {
    let mut listeners = Vec::new();
    let Ok(routed) = capture::route_everything() else {
        return Ok(listeners);
    };
    let families = [
        (
            routed.v4,
            IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V4(Ipv4Addr::LOCALHOST),
        ),
        (
            routed.v6,
            IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ),
    ];
    let families = families.into_iter().filter(|(routed, ..)| routed.is_ok());
    for (_, any, loopback) in families {
        let ports = match redirects {
            true => vec![(loopback, CAPTURE_PORT)],
            false => capture.ports.iter().map(|port| (any, *port)).collect(),
        };
        for address in ports {
            listeners.push((Role::Captured, tcp(address).at(Step::Listen)?));
        }
        let resolver = (any, RESOLVER_PORT);
        listeners.push((Role::Resolver, tcp(resolver).at(Step::Listen)?));
        listeners.push((Role::ResolverDatagrams, udp(resolver).at(Step::Listen)?));
    }
    Ok(listeners)
}

/// Has connections redirected, where the kernel can: by the broker, or at once where none sees
/// the command connect.
fn redirected(plan: &Plan) -> Option<OwnedFd> {
    let socket = Redirection::prepare().ok()?;
    if plan.host_sockets == HostSockets::Closed {
        return Some(socket);
    }
    let redirection = Redirection::new(socket.try_clone().ok()?, CAPTURED);
    redirection.make().ok()?;
    Some(socket)
}

/// Sets what the kernel has parameters for; each costs no more than is said here where it cannot
/// be written.
pub(super) fn set_parameters() {
    // The ports below 1024 are this namespace's own: the command's servers may have them.
    // Without it such servers stay refused, as they are outside.
    let _written = std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    // Half-closed connections are remembered as long as open ones: none is redirected that is
    // forgotten. Without it they end after a minute of silence.
    for state in ["close_wait", "fin_wait"] {
        let file = format!("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_{state}");
        let _written = std::fs::write(file, FIVE_DAYS);
    }
}

/// In seconds; as long as the kernel remembers open connections by itself.
const FIVE_DAYS: &str = "432000";

/// Turns the errors of a host without IPv6, or with IPv6 switched off, into nothing.
fn where_there_is_v6(socket: Result<OwnedFd, Errno>) -> Result<Option<OwnedFd>, Failure> {
    match socket {
        Err(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT) => Ok(None),
        socket => socket.map(Some).at(Step::Listen),
    }
}

/// Listens for clients of a proxy, who speak first: until one has, the proxies need not wake up.
fn proxy(address: impl Into<SocketAddr>) -> Result<OwnedFd, Errno> {
    let socket = tcp(address)?;
    // Without it they wake up twice.
    let _deferred = sys::accept_with_data(socket.as_fd(), 1);
    Ok(socket)
}

fn tcp(address: impl Into<SocketAddr>) -> Result<OwnedFd, Errno> {
    let socket = bound(address.into(), SocketType::STREAM)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// A socket that tells of each datagram which address it was sent to; see ip(7), ipv6(7).
fn udp(address: impl Into<SocketAddr>) -> io::Result<OwnedFd> {
    let address = address.into();
    let socket = bound(address, SocketType::DGRAM)?;
    match address {
        SocketAddr::V4(_) => setsockopt(&socket, Ipv4PacketInfo, &true)?,
        SocketAddr::V6(_) => {
            setsockopt(&socket, Ipv6RecvPacketInfo, &true)?;
            sys::allow_any_source(socket.as_fd())?;
        }
    }
    Ok(socket)
}

fn bound(address: SocketAddr, kind: SocketType) -> Result<OwnedFd, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    Ok(socket)
}
