//! The one dial: resolves once, and connects to exactly an address that was admitted.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::Proxy;
use crate::audit::event::{Code, Verdict};
use crate::policy::hostname::Host;
use crate::policy::network::{Denial, Permit};

/// Time for one address; a name with a dead address first must not use up the whole.
const ADDRESS_LIMIT: Duration = Duration::from_secs(10);

/// Time for a name and all its addresses.
const DIAL_LIMIT: Duration = Duration::from_secs(30);

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Failure {
    /// Every address the name leads to is out of bounds.
    Denied(Box<Denial>),
    /// The name leads nowhere.
    Unresolved(io::Error),
    /// No address answered.
    Unreachable(io::Error),
    /// Nothing answered in time.
    TimedOut,
}

impl Proxy {
    /// Connects to the target of `permit`, and records how that went.
    pub(super) async fn dial(&self, permit: &Permit) -> Result<TcpStream, Failure> {
        let result = connect(permit).await;
        let target = permit.target().to_string();
        match &result {
            Ok(_) => self.record_permit(permit),
            Err(Failure::Denied(denial)) => self.record_denial(&target, denial),
            Err(failure) => {
                let reason = failure.to_string();
                self.record_refusal(
                    Some(&target),
                    Code::UpstreamFailed,
                    Verdict::Failed,
                    &reason,
                );
            }
        }
        result
    }
}

async fn connect(permit: &Permit) -> Result<TcpStream, Failure> {
    let deadline = Instant::now() + DIAL_LIMIT;
    let resolved = timeout_at(deadline, resolve(permit)).await;
    let addresses = resolved
        .map_err(|_| Failure::TimedOut)?
        .map_err(Failure::Unresolved)?;
    let mut denial = None;
    let mut failure = None;
    for address in addresses {
        let admitted = match permit.admit(address) {
            Ok(admitted) => admitted,
            Err(refused) => {
                denial.get_or_insert(refused);
                continue;
            }
        };
        let limit = ADDRESS_LIMIT.min(deadline.saturating_duration_since(Instant::now()));
        failure = Some(match timeout(limit, TcpStream::connect(admitted)).await {
            Ok(Ok(stream)) => {
                // Latency only: a socket that refuses the option works without it.
                drop(stream.set_nodelay(true));
                return Ok(stream);
            }
            Ok(Err(error)) => Failure::Unreachable(error),
            Err(_) => Failure::TimedOut,
        });
    }
    // An address that was admitted and failed says more than one that was not.
    Err(match (failure, denial) {
        (Some(failure), _) => failure,
        (None, Some(denial)) => Failure::Denied(Box::new(denial)),
        (None, None) => Failure::Unresolved(io::ErrorKind::NotFound.into()),
    })
}

async fn resolve(permit: &Permit) -> io::Result<Vec<IpAddr>> {
    let target = permit.target();
    match &target.host {
        Host::Ip(address) => Ok(vec![*address]),
        // RFC 6761, 6.3: these names are loopback, whatever a resolver says.
        host if host.is_localhost() => {
            Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
        }
        Host::Name(name) => {
            let found = tokio::net::lookup_host((name.as_str(), target.port)).await?;
            Ok(found.map(|address: SocketAddr| address.ip()).collect())
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denial) => f.write_str(denial.message()),
            Self::Unresolved(error) => write!(f, "the name cannot be resolved: {error}"),
            Self::Unreachable(error) => write!(f, "cannot connect: {error}"),
            Self::TimedOut => f.write_str("no answer in time"),
        }
    }
}
