//! The proxies: what the sandbox may reach, it reaches through here.
//!
//! Runs in a process of its own, since it parses hostile bytes. Decides nothing: every target
//! goes to [`Network::check`], and only a permit is dialled.

mod accept;
mod close;
mod dial;
mod framing;
mod http;
mod names;
mod pipe;
mod pool;
mod record;
mod refusal;
#[cfg(feature = "socks")]
mod socks;
mod tunnel;

use std::io;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::runtime::Builder;
use tokio::sync::Semaphore;

use crate::audit::Audit;
use crate::policy::network::Network;

/// The sockets to serve, already listening, by what is spoken on them.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For the HTTP proxy.
    pub http: Vec<TcpListener>,
    /// For the SOCKS5 proxy. Closed unserved in a build without the feature `socks`.
    pub socks: Vec<TcpListener>,
}

/// What every connection shares.
#[derive(Debug)]
struct Proxy {
    network: Network,
    audit: Audit,
    pool: pool::Pool,
    pipes: pipe::Pipes,
    slots: Arc<Semaphore>,
}

/// Serves on the calling thread until `stop` is readable or at its end, which is how the end
/// of the sandbox shows. Calls `ready` once every listener is served.
///
/// # Errors
/// A listener cannot be used, or the event loop cannot be set up.
pub fn serve(
    listeners: Listeners,
    policy: Network,
    audit: Audit,
    stop: OwnedFd,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_LOOKUPS)
        .build()?;
    let proxy = Arc::new(Proxy {
        network: policy,
        audit,
        pool: pool::Pool::default(),
        pipes: pipe::Pipes::default(),
        slots: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
    });
    let result = runtime.block_on(async {
        for listener in listeners.http {
            tokio::spawn(accept::http(accept::adopt(listener)?, Arc::clone(&proxy)));
        }
        #[cfg(feature = "socks")]
        for listener in listeners.socks {
            tokio::spawn(accept::socks(accept::adopt(listener)?, Arc::clone(&proxy)));
        }
        tokio::spawn({
            let proxy = Arc::clone(&proxy);
            async move { proxy.pool.expire().await }
        });
        // Only its readiness is asked for, which any socket or pipe has.
        let stop = std::os::unix::net::UnixStream::from(stop);
        stop.set_nonblocking(true)?;
        let stop = tokio::net::UnixStream::from_std(stop)?;
        ready();
        stop.readable().await
    });
    // A look-up that hangs in its thread must not hold up the end.
    runtime.shutdown_background();
    result
}

/// Connections served at a time, over all listeners.
const MAX_CONNECTIONS: usize = 1024;

/// Names looked up at a time: each takes a thread while the resolver is asked.
const MAX_LOOKUPS: usize = 64;
