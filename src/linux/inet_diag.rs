//! Asks the kernel for the inode of a socket by its two ends; see sock_diag(7).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::net::{RecvFlags, SendFlags, recv, send};

/// A netlink socket that tells of the network namespace it was made in.
#[derive(Debug)]
pub(crate) struct InetDiag(Mutex<OwnedFd>);

/// What a socket speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
}

// From linux/netlink.h, linux/sock_diag.h and linux/in.h.
const NLM_F_REQUEST: u16 = 0x1;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;

/// Sizes of `struct nlmsghdr` and of a request, and where the inode stands in an answer, which
/// is a `struct inet_diag_msg` behind the former.
const HEADER: usize = 16;
const REQUEST: u32 = 72;
const INODE: usize = HEADER + 68;

impl InetDiag {
    /// Takes a socket made by [`crate::linux::unix_diag::open`], maybe in another namespace.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(socket))
    }

    /// Returns the inode of the socket at `local` that is connected to `remote`; none where
    /// there is no such socket, or the kernel was built without `INET_DIAG`.
    pub(crate) fn inode_of(
        &self,
        transport: Transport,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Option<u64> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let answer: io::Result<_> = (|| {
            send(
                &*socket,
                &request(transport, local, remote),
                SendFlags::empty(),
            )?;
            let mut answer = [0; 512];
            // The kernel answers within the call that sends.
            let (len, _) = recv(&*socket, answer.as_mut_slice(), RecvFlags::DONTWAIT)?;
            Ok(inode_in(&answer[..len]))
        })();
        answer.ok().flatten()
    }
}

fn request(transport: Transport, local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let mut bytes = REQUEST.to_ne_bytes().to_vec();
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender are of no use: one request at a time.
    bytes.extend([0; 8]);
    // struct inet_diag_req_v2: family, protocol, nothing more, padding, any state.
    let family = if local.is_ipv4() { AF_INET } else { AF_INET6 };
    // For datagrams the kernel has the two ends the other way round.
    let (protocol, local, remote) = match transport {
        Transport::Tcp => (IPPROTO_TCP, local, remote),
        Transport::Udp => (IPPROTO_UDP, remote, local),
    };
    bytes.extend([family, protocol, 0, 0]);
    bytes.extend(u32::MAX.to_ne_bytes());
    bytes.extend(local.port().to_be_bytes());
    bytes.extend(remote.port().to_be_bytes());
    bytes.extend(sixteen(local.ip()));
    bytes.extend(sixteen(remote.ip()));
    // Bound to no interface, and of whatever cookie.
    bytes.extend([0; 4]);
    bytes.extend([0xff; 8]);
    bytes
}

fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V6(v6) => v6.octets(),
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
    }
}

fn inode_in(answer: &[u8]) -> Option<u64> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let inode = u32::from_ne_bytes(*answer.get(INODE..)?.first_chunk()?);
    // A socket that nobody holds any longer has none.
    (kind == SOCK_DIAG_BY_FAMILY && inode != 0).then_some(inode.into())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::linux::unix_diag;

    fn inode(socket: &impl AsRawFd) -> String {
        let link = format!("/proc/self/fd/{}", socket.as_raw_fd());
        std::fs::read_link(link).unwrap().display().to_string()
    }

    #[test]
    fn a_socket_is_found_by_its_two_ends() {
        let diag = InetDiag::new(unix_diag::open().unwrap());
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let found = diag.inode_of(Transport::Tcp, ends.0, ends.1).unwrap();
            assert_eq!(format!("socket:[{found}]"), inode(&client));
            // The other end is another socket, not accepted yet and so held by nobody.
            assert_eq!(diag.inode_of(Transport::Tcp, ends.1, ends.0), None);
            assert_eq!(diag.inode_of(Transport::Udp, ends.0, ends.1), None);

            let server = UdpSocket::bind(address).unwrap();
            let client = UdpSocket::bind(address).unwrap();
            client.connect(server.local_addr().unwrap()).unwrap();
            let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let found = diag.inode_of(Transport::Udp, ends.0, ends.1).unwrap();
            assert_eq!(format!("socket:[{found}]"), inode(&client));
        }
    }
}
