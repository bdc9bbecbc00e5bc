//! Sees the datagrams that leave the loopback, which reach nobody.
//!
//! Raw sockets get a copy of what arrives, whether or not a socket takes it; see raw(7). To close
//! a packet socket takes as long as a launch.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::Ipv6RecvPacketInfo;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use super::sys;

/// What sees them, and what tells who sends.
#[derive(Debug)]
pub(crate) struct Eyes {
    /// Of IPv4.
    pub(crate) v4: OwnedFd,
    /// Of IPv6, where there is any.
    pub(crate) v6: Option<OwnedFd>,
    /// A netlink socket of the same network; see sock_diag(7).
    pub(crate) senders: OwnedFd,
}

/// The ends of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

/// Bytes that tell the ends of one of IPv4: the longest header, and the ports.
const HEAD: usize = 64;

/// Port that names are asked for at, which are answered.
const DOMAIN: u32 = 53;

// From linux/filter.h and linux/bpf_common.h: the first is where the header of IP starts.
const NETWORK: u32 = 0xfff0_0000;
const LD_W: u16 = 0x20;
const LD_H: u16 = 0x28;
const LD_B: u16 = 0x30;
const LDX_HEADER: u16 = 0xb1;
const LD_H_BEHIND: u16 = 0x48;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const RET: u16 = 0x06;

/// Makes what sees datagrams in the network namespace of this process: of IPv4, and of IPv6
/// where there is any.
pub(crate) fn open() -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    let v4 = raw(AddressFamily::INET, &program_of_v4())?;
    let v6 = raw(AddressFamily::INET6, &program_of_v6()).ok();
    if let Some(v6) = &v6 {
        setsockopt(v6, Ipv6RecvPacketInfo, &true)?;
    }
    Ok((v4, v6))
}

fn raw(family: AddressFamily, program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    let socket = socket_with(family, kind, flags, Some(ipproto::UDP))?;
    sys::attach_filter(socket.as_fd(), program)?;
    Ok(socket)
}

/// Lets datagrams through whose destination is no loopback address; neither end of what is about
/// names is told of.
fn program_of_v4() -> Vec<libc::sock_filter> {
    vec![
        op(LD_B, 16),
        jump(JEQ, 127, 8, 0),
        op(LD_W, 16),
        jump(JEQ, 0, 6, 0),
        op(LDX_HEADER, 0),
        op(LD_H_BEHIND, 0),
        jump(JEQ, DOMAIN, 3, 0),
        op(LD_H_BEHIND, 2),
        jump(JEQ, DOMAIN, 1, 0),
        op(RET, u32::MAX),
        op(RET, 0),
    ]
}

/// As [`program_of_v4`]; what such a socket gets starts with the ports.
fn program_of_v6() -> Vec<libc::sock_filter> {
    vec![
        // ::1 and :: are what all but the last 32 bits say nothing of.
        op(LD_W, NETWORK + 24),
        jump(JEQ, 0, 0, 6),
        op(LD_W, NETWORK + 28),
        jump(JEQ, 0, 0, 4),
        op(LD_W, NETWORK + 32),
        jump(JEQ, 0, 0, 2),
        op(LD_W, NETWORK + 36),
        jump(JGE, 2, 0, 5),
        op(LD_H, 0),
        jump(JEQ, DOMAIN, 3, 0),
        op(LD_H, 2),
        jump(JEQ, DOMAIN, 1, 0),
        op(RET, u32::MAX),
        op(RET, 0),
    ]
}

fn op(code: u16, k: u32) -> libc::sock_filter {
    jump(code, k, 0, 0)
}

fn jump(code: u16, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt, jf, k }
}

impl Eyes {
    /// Returns the sockets that datagrams come to.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        [&self.v4].into_iter().chain(&self.v6)
    }

    /// Reads the ends of the next one that has come to any of them; `None` where none has.
    pub(crate) fn next(&self) -> Option<Ends> {
        self.sockets().find_map(|socket| {
            loop {
                match receive(socket) {
                    Ok(Some(ends)) => return Some(ends),
                    Ok(None) => {}
                    Err(_) => return None,
                }
            }
        })
    }

    /// Returns how many found no room.
    pub(crate) fn lost(&self) -> u64 {
        let lost = self
            .sockets()
            .map(|socket| sys::lost_packets(socket.as_fd()));
        lost.flatten().map(u64::from).sum()
    }
}

/// Receives one without waiting, and tells its ends, if it has any.
fn receive(socket: &OwnedFd) -> io::Result<Option<Ends>> {
    let mut bytes = [0; HEAD];
    let mut space = nix::cmsg_space!(libc::in6_pktinfo);
    let mut iov = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let fd = socket.as_raw_fd();
    let received = recvmsg::<SockaddrStorage>(fd, &mut iov, Some(&mut space), flags)?;
    let to = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(Ipv6Addr::from(info.ipi6_addr.s6_addr)),
        _ => None,
    });
    let from = received.address;
    let from = from.and_then(|from| Some(from.as_sockaddr_in6()?.ip()));
    let len = received.bytes.min(HEAD);
    Ok(match (from, to) {
        (Some(from), Some(to)) => Ends::of_v6(from, to, &bytes[..len]),
        _ => Ends::of_v4(&bytes[..len]),
    })
}

impl Ends {
    /// Reads them from the head of a packet.
    fn of_v4(packet: &[u8]) -> Option<Self> {
        let v4 = |at: usize| Some(IpAddr::from(Ipv4Addr::from(four(packet, at)?)));
        let header = usize::from(packet.first()? & 0xf) * 4;
        Some(Self::new(v4(12)?, v4(16)?, four(packet, header)?))
    }

    /// Takes two addresses, and what starts with the ports.
    fn of_v6(from: Ipv6Addr, to: Ipv6Addr, datagram: &[u8]) -> Option<Self> {
        Some(Self::new(from.into(), to.into(), four(datagram, 0)?))
    }

    fn new(from: IpAddr, to: IpAddr, [a, b, c, d]: [u8; 4]) -> Self {
        Self {
            from: SocketAddr::new(from, u16::from_be_bytes([a, b])),
            to: SocketAddr::new(to, u16::from_be_bytes([c, d])),
        }
    }
}

fn four(packet: &[u8], at: usize) -> Option<[u8; 4]> {
    packet.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_read_behind_options_too() {
        let mut packet = vec![0x46];
        packet.resize(24, 0);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 192, 0, 2, 7]);
        packet.extend([0x1f, 0x90, 0x01, 0xbb]);
        let ends = Ends::of_v4(&packet).expect("it is whole");
        assert_eq!(ends.from, "10.0.0.1:8080".parse().expect("an address"));
        assert_eq!(ends.to, "192.0.2.7:443".parse().expect("an address"));
        assert_eq!(Ends::of_v4(&packet[..27]), None);
        assert_eq!(Ends::of_v4(&[]), None);

        let (from, to) = (Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED);
        let ends = Ends::of_v6(from, to, &[0, 1, 0, 2, 9]).expect("it is whole");
        assert_eq!(ends.from, "[::1]:1".parse().expect("an address"));
        assert_eq!(ends.to, "[::]:2".parse().expect("an address"));
        assert_eq!(Ends::of_v6(from, to, &[0, 1, 0]), None);
    }
}
