//! Sees the datagrams that leave the loopback, which reach nobody; see packet(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

use super::sys;

/// The ends of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

/// Bytes of a packet that tell its ends: a header of IPv6, and the ports. Options of IPv4 take
/// no more.
pub(crate) const HEAD: usize = 68;

/// Port that names are asked for at, which are answered.
const DOMAIN: u16 = 53;

// From linux/if_ether.h, linux/in.h, linux/if_packet.h and linux/filter.h.
const ETH_P_ALL: u16 = 3;
const ETH_P_IP: u32 = 0x0800;
const ETH_P_IPV6: u32 = 0x86dd;
const IPPROTO_UDP: u32 = 17;
const PACKET_OUTGOING: u32 = 4;
const AD_PROTOCOL: u32 = 0xffff_f000;
const AD_PKTTYPE: u32 = 0xffff_f004;
const LD_W: u16 = 0x20;
const LD_H: u16 = 0x28;
const LD_B: u16 = 0x30;
const LDX_HEADER: u16 = 0xb1;
const LD_H_BEHIND: u16 = 0x48;
const JEQ: u16 = 0x15;
const JGE: u16 = 0x35;
const JSET: u16 = 0x45;
const RET: u16 = 0x06;

/// Makes a socket that sees each of them once, in the network namespace of this process, where
/// the loopback is all there is.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let all = NonZeroU32::new(u32::from(ETH_P_ALL.to_be())).map(Protocol::from_raw);
    let (kind, flags) = (SocketType::DGRAM, SocketFlags::CLOEXEC);
    let socket = socket_with(AddressFamily::PACKET, kind, flags, all)?;
    sys::attach_filter(socket.as_fd(), &program())?;
    Ok(socket)
}

/// Lets the heads of datagrams through whose destination is no loopback address. A fragment that
/// is not the first has no ports; neither end of what is about names is told of.
fn program() -> Vec<libc::sock_filter> {
    let op = |code, k| libc::sock_filter {
        code,
        jt: 0,
        jf: 0,
        k,
    };
    let jump = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let head = u32::try_from(HEAD).unwrap_or(u32::MAX);
    vec![
        // Each packet of the loopback comes twice: as it leaves, and as it arrives.
        op(LD_W, AD_PKTTYPE),
        jump(JEQ, PACKET_OUTGOING, 0, 30),
        op(LD_W, AD_PROTOCOL),
        jump(JEQ, ETH_P_IP, 0, 13),
        op(LD_B, 9),
        jump(JEQ, IPPROTO_UDP, 0, 26),
        op(LD_H, 6),
        jump(JSET, 0x1fff, 24, 0),
        op(LD_B, 16),
        jump(JEQ, 127, 22, 0),
        op(LD_W, 16),
        jump(JEQ, 0, 20, 0),
        op(LDX_HEADER, 0),
        op(LD_H_BEHIND, 0),
        jump(JEQ, DOMAIN.into(), 17, 0),
        op(LD_H_BEHIND, 2),
        jump(JEQ, DOMAIN.into(), 15, 16),
        // IPv6, without extension headers.
        jump(JEQ, ETH_P_IPV6, 0, 14),
        op(LD_B, 6),
        jump(JEQ, IPPROTO_UDP, 0, 12),
        // ::1 and :: are what all but the last 32 bits say nothing of.
        op(LD_W, 24),
        jump(JEQ, 0, 0, 6),
        op(LD_W, 28),
        jump(JEQ, 0, 0, 4),
        op(LD_W, 32),
        jump(JEQ, 0, 0, 2),
        op(LD_W, 36),
        jump(JGE, 2, 0, 4),
        op(LD_H, 40),
        jump(JEQ, DOMAIN.into(), 2, 0),
        op(LD_H, 42),
        jump(JEQ, DOMAIN.into(), 0, 1),
        op(RET, 0),
        op(RET, head),
    ]
}

impl Ends {
    /// Reads them from the head of a packet.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let version = packet.first()? >> 4;
        let (from, to, ports) = match version {
            4 => {
                let v4 = |at: usize| Some(IpAddr::from(Ipv4Addr::from(four(packet, at)?)));
                let header = usize::from(packet.first()? & 0xf) * 4;
                (v4(12)?, v4(16)?, header)
            }
            6 => {
                let v6 = |at: usize| {
                    let bytes: [u8; 16] = *packet.get(at..)?.first_chunk()?;
                    Some(IpAddr::from(Ipv6Addr::from(bytes)))
                };
                (v6(8)?, v6(24)?, 40)
            }
            _ => return None,
        };
        let [a, b, c, d] = four(packet, ports)?;
        Some(Self {
            from: SocketAddr::new(from, u16::from_be_bytes([a, b])),
            to: SocketAddr::new(to, u16::from_be_bytes([c, d])),
        })
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
        let ends = Ends::of(&packet).expect("it is whole");
        assert_eq!(ends.from, "10.0.0.1:8080".parse().expect("an address"));
        assert_eq!(ends.to, "192.0.2.7:443".parse().expect("an address"));
        assert_eq!(Ends::of(&packet[..27]), None);

        let mut packet = vec![0x60];
        packet.resize(40, 0);
        packet[8] = 0xfd;
        packet[24..26].copy_from_slice(&[0x20, 0x01]);
        packet.extend([0, 1, 0, 2]);
        let ends = Ends::of(&packet).expect("it is whole");
        assert_eq!(ends.from, "[fd00::]:1".parse().expect("an address"));
        assert_eq!(ends.to, "[2001::]:2".parse().expect("an address"));
        assert_eq!(Ends::of(&packet[..43]), None);
        assert_eq!(Ends::of(&[]), None);
    }
}
