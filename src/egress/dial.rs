//! Connects to a permitted target. Nothing else in the program makes a connection outwards.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::names;
use super::refusal::{Cause, Failure, Refusal};
use crate::policy::Host;
use crate::policy::hostname::Target;
use crate::policy::network::{Denial, Permit};

/// Resolves the target once and connects to the first address that passes and answers.
///
/// The address dialled is the one that was judged: asking the resolver again could give
/// another (DNS rebinding).
pub(super) async fn dial(permit: &Permit) -> Result<TcpStream, Refusal> {
    let target = permit.target();
    let deadline = Instant::now() + TOTAL;
    // Asked for here, since most commands dial nothing; without them none is admitted.
    permit.learn_own_addresses(Host::addresses);
    let addresses = timeout_at(deadline, names::resolve(target))
        .await
        .map_err(|_| late(target))?
        .map_err(|error| Refusal::Failed(Failure::name(target, &error)))?
        .into_iter()
        .map(|address| permit.admit(address))
        .collect();
    connect(permit, addresses, deadline).await
}

async fn connect(
    permit: &Permit,
    addresses: Vec<Result<SocketAddr, Denial>>,
    deadline: Instant,
) -> Result<TcpStream, Refusal> {
    let target = permit.target();
    let (mut denied, mut failed) = (None, None);
    for address in addresses {
        let address = match address {
            Ok(address) => address,
            Err(denial) => {
                denied.get_or_insert(denial);
                continue;
            }
        };
        // One timer for both limits.
        let at = deadline.min(Instant::now() + EACH);
        match timeout_at(at, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Requests are small and wait for their answer; a socket that refuses the
                // option still works.
                let _set = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => note(&mut failed, Failure::connect(target, &error)),
            Err(_) if at == deadline => return Err(late(target)),
            Err(_) => {
                let failure = Failure::new(target, Cause::TimedOut, "connection timed out");
                note(&mut failed, failure);
            }
        }
    }
    Err(match (failed, denied) {
        (Some(failure), _) => Refusal::Failed(failure),
        (None, Some(denial)) => Refusal::Denied(denial),
        (None, None) => {
            Refusal::Failed(Failure::new(target, Cause::Name, "the name has no address"))
        }
    })
}

fn late(target: &Target) -> Refusal {
    Refusal::Failed(Failure::new(
        target,
        Cause::TimedOut,
        "no answer within 30 seconds",
    ))
}

/// Keeps the first failure, which is that of the address a host prefers; that this host has no
/// way to addresses of a kind says nothing of the target.
fn note(failed: &mut Option<Failure>, failure: Failure) {
    let is_told = |first: &&mut Failure| first.cause != Cause::NetworkUnreachable;
    if failed.as_mut().filter(is_told).is_none() {
        *failed = Some(failure);
    }
}

const TOTAL: Duration = Duration::from_secs(30);
const EACH: Duration = Duration::from_secs(10);
