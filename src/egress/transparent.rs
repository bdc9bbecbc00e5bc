//! Connections of programs that know no proxy: they meant to reach a host, and came here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use nix::sys::socket::{getsockopt, sockopt};
use tokio::net::TcpStream;

use super::accept::Slot;
use super::record::Op;
use super::{Proxy, tunnel};
use crate::policy::network::Permit;

/// Serves one connection to its end, meant for the address `asked`. One that is not let through
/// is reset: the client took it for made already, and a plain end would look like an answer
/// without content.
pub(super) async fn serve(stream: TcpStream, asked: SocketAddr, proxy: Arc<Proxy>, slot: Slot) {
    match connect(asked, &proxy).await {
        Some((far, permit)) => {
            let near = tunnel::End {
                stream,
                read: Bytes::new(),
            };
            proxy.carry(near, far, &permit).await;
        }
        None => reset(stream),
    }
    drop(slot);
}

/// Ends a connection as one that was never made ends.
pub(super) fn reset(stream: TcpStream) {
    // One that is gone already cannot take the option, and need not.
    let _set = stream.set_zero_linger();
}

/// Connects to what the client meant; the record says why not.
async fn connect(asked: SocketAddr, proxy: &Proxy) -> Option<(TcpStream, Permit)> {
    // A connection within the sandbox that came to the port itself.
    if asked.ip().is_loopback() {
        return None;
    }
    let target = proxy.meant_by(asked.ip(), asked.port())?;
    let permit = proxy.judge(Op::Connect, &target).await.ok()?;
    Some((proxy.connect(&permit).await.ok()?, permit))
}

/// Asks for the destination that `client` gave: the kernel remembers it where it redirected the
/// connection, and else it is the address of this end.
pub(super) fn original_destination(
    stream: &TcpStream,
    client: SocketAddr,
) -> io::Result<SocketAddr> {
    let redirected = match client {
        SocketAddr::V4(_) => getsockopt(stream, sockopt::OriginalDst).map(|address| {
            let ip = IpAddr::from(address.sin_addr.s_addr.to_ne_bytes());
            SocketAddr::new(ip, u16::from_be(address.sin_port))
        }),
        SocketAddr::V6(_) => getsockopt(stream, sockopt::Ip6tOriginalDst).map(|address| {
            let ip = IpAddr::from(address.sin6_addr.s6_addr);
            SocketAddr::new(ip, u16::from_be(address.sin6_port))
        }),
    };
    redirected.or_else(|_| stream.local_addr())
}
