//! Turns a host into addresses. Judges none of them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::net::lookup_host;

use crate::policy::hostname::{Host, Target};

/// Resolves the host of `target`, as this host's own programs would.
pub(super) async fn resolve(target: &Target) -> io::Result<Vec<IpAddr>> {
    match &target.host {
        Host::Ip(address) => Ok(vec![*address]),
        // RFC 6761, 6.3: these names never go to a name server.
        host if host.is_localhost() => {
            Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
        }
        Host::Name(name) => {
            let found = lookup_host((name.as_str(), target.port)).await?;
            Ok(found.map(|address| address.ip()).collect())
        }
    }
}
