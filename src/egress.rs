//! The proxies: the sandbox's only way out, one decision and one dial for all of them.

mod dial;
mod framing;
mod http;
mod pool;
#[cfg(feature = "socks")]
mod socks;
mod tunnel;

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::audit::Audit;
use crate::audit::event::{Code, Event, Kind, Verdict};
use crate::policy::network::{Denial, Network, Permit};

/// The listening sockets of one sandbox, by the proxy that serves them.
#[derive(Debug, Default)]
pub struct Listeners {
    /// HTTP, absolute-form and CONNECT.
    pub http: Vec<TcpListener>,
    /// SOCKS5.
    pub socks: Vec<TcpListener>,
}

/// Connections served at the same time; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 1024;

/// Rest after a failed accept: without one, a process out of descriptors would spin.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// Time a client has to say what it wants.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// What every connection needs.
#[derive(Debug)]
struct Proxy {
    policy: Network,
    audit: Audit,
    pipes: tunnel::Pipes,
    upstreams: pool::Upstreams,
    slots: Arc<Semaphore>,
}

/// Serves until `stop` reports an end of file. Calls `ready` once every listener accepts.
///
/// # Errors
/// The runtime or a listener cannot be set up.
pub fn serve(
    listeners: Listeners,
    policy: Network,
    audit: Audit,
    stop: OwnedFd,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let proxy = Arc::new(Proxy {
            policy,
            audit,
            pipes: tunnel::Pipes::default(),
            upstreams: pool::Upstreams::default(),
            slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        });
        for listener in listeners.http {
            tokio::spawn(accept(http::Http(adopt(listener)?), Arc::clone(&proxy)));
        }
        #[cfg(feature = "socks")]
        for listener in listeners.socks {
            tokio::spawn(accept(
                socks::Socks::new(adopt(listener)?),
                Arc::clone(&proxy),
            ));
        }
        // A stream type for want of one of sequenced packets: it is only waited for.
        let stop = std::os::unix::net::UnixStream::from(stop);
        stop.set_nonblocking(true)?;
        let stop = tokio::net::UnixStream::from_std(stop)?;
        ready();
        // Nothing is ever sent on it, so that readable means closed.
        stop.readable().await.map(drop)
    })
}

/// A listening socket and the protocol spoken on it.
trait Front: Send + 'static {
    /// An accepted connection.
    type Client: Send;

    fn accept(&self) -> impl Future<Output = io::Result<Self::Client>> + Send;

    fn serve(proxy: Arc<Proxy>, client: Self::Client) -> impl Future<Output = ()> + Send;
}

/// Accepts connections for ever and serves each on its own.
async fn accept<F: Front>(front: F, proxy: Arc<Proxy>) {
    loop {
        let Ok(slot) = Arc::clone(&proxy.slots).acquire_owned().await else {
            return;
        };
        let Ok(client) = front.accept().await else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        let connection = F::serve(Arc::clone(&proxy), client);
        tokio::spawn(async move {
            connection.await;
            drop(slot);
        });
    }
}

/// Hands a socket of init over to the runtime.
fn adopt(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

impl Proxy {
    fn record_permit(&self, permit: &Permit) {
        self.audit.record(&Event {
            target: Some(&permit.target().to_string()),
            verdict: Some(Verdict::Allowed),
            rule: Some(permit.rule()),
            ..Event::new(Kind::Net, "connect", Code::HostListed)
        });
    }

    fn record_denial(&self, target: &str, denial: &Denial) {
        let range = denial
            .range()
            .map(|range| ("range".to_owned(), range.into()));
        self.audit.record(&Event {
            target: Some(target),
            verdict: Some(Verdict::Denied),
            rule: denial.rule(),
            suggest: denial.suggest(),
            detail: range.map(|range| [range].into_iter().collect()),
            ..Event::new(Kind::Net, "connect", denial.code)
        });
    }

    fn record_refusal(&self, target: Option<&str>, code: Code, verdict: Verdict, reason: &str) {
        let reason = ("reason".to_owned(), reason.into());
        self.audit.record(&Event {
            target,
            verdict: Some(verdict),
            detail: Some([reason].into_iter().collect()),
            ..Event::new(Kind::Net, "connect", code)
        });
    }
}
