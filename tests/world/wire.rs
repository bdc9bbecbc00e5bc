//! What passes the cable.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};

/// The hardware address of the nearer end.
pub(super) const NEAR: &str = "02:00:00:00:00:01";
const NEAR_BYTES: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Sees each frame of the cable.
#[derive(Debug)]
pub struct Wire(OwnedFd);

impl Wire {
    /// Looks at every device of the namespace this is called in.
    pub(super) fn tap() -> Self {
        let socket = socket(
            AddressFamily::Packet,
            SockType::Raw,
            SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
            SockProtocol::EthAll,
        );
        Self(socket.expect("the namespace is ours"))
    }

    /// Returns what the nearer end sends while `act` runs, without what hosts say to find each
    /// other and without what follows on a connection: for each packet the number of its
    /// protocol and where it goes.
    pub fn sent(&self, act: impl FnOnce()) -> Vec<String> {
        self.seen();
        act();
        // A packet that was sent last may be on its way.
        std::thread::sleep(Duration::from_millis(50));
        self.seen()
    }

    fn seen(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut frame = [0; 2048];
        loop {
            match recv(self.0.as_raw_fd(), &mut frame, MsgFlags::empty()) {
                Ok(count) => found.extend(packet(&frame[..count])),
                Err(Errno::EAGAIN) => return found,
                Err(error) => panic!("the cable cannot be read: {error}"),
            }
        }
    }
}

/// Describes a frame of the nearer end, unless it looks for neighbours or groups.
fn packet(frame: &[u8]) -> Option<String> {
    if frame.get(6..12)? != NEAR_BYTES {
        return None;
    }
    let packet = &frame[14..];
    match frame[12..14] {
        [8, 0] => {
            let to: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
            let body = packet.get(usize::from(packet[0] & 0xf) * 4..)?;
            begins(packet[9], body).then(|| format!("{} to {}", packet[9], Ipv4Addr::from(to)))
        }
        // ICMPv6 alone, or after the options that its messages about groups have.
        [0x86, 0xdd] if [0, 58].contains(packet.get(6)?) => None,
        [0x86, 0xdd] => {
            let to: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
            let body = packet.get(40..)?;
            begins(packet[6], body).then(|| format!("{} to {}", packet[6], Ipv6Addr::from(to)))
        }
        [8, 6] => None,
        ref kind => Some(format!("frame of kind {kind:?}")),
    }
}

/// Tells whether a packet is no part of a connection made before.
fn begins(protocol: u8, body: &[u8]) -> bool {
    const TCP: u8 = 6;
    const SYN_AND_ACK: u8 = 0x12;
    const SYN: u8 = 0x02;
    protocol != TCP || body.get(13).is_some_and(|flags| flags & SYN_AND_ACK == SYN)
}
