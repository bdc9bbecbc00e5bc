//! The proxies: what the sandbox may reach, it reaches through here.
//!
//! Runs in a process of its own, since it parses hostile bytes. Decides nothing: every target
//! goes to [`Network::check`], and only a permit is dialled.

mod accept;
mod close;
mod confirm;
mod dial;
mod dns;
mod framing;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hello;
mod http;
mod moved;
mod names;
mod pace;
mod pipe;
mod pool;
mod reading;
mod record;
mod refusal;
mod requested;
#[cfg(feature = "socks")]
mod socks;
mod transparent;
mod tunnel;

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Scope};

use tokio::runtime::Builder;
use tokio::sync::{Notify, Semaphore, watch};

use crate::audit::Audit;
use crate::policy::network::Network;

/// The sockets to serve, already listening, by what is spoken on them.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For the HTTP proxy.
    pub http: Vec<TcpListener>,
    /// For the SOCKS5 proxy. Closed unserved in a build without the feature `socks`.
    pub socks: Vec<TcpListener>,
    /// For connections of programs that know no proxy.
    pub captured: Vec<TcpListener>,
    /// For questions for names, as a stream.
    pub resolver: Vec<TcpListener>,
    /// For questions for names, as datagrams; they tell of each the address it was sent to.
    pub resolver_datagrams: Vec<UdpSocket>,
    /// Who tells of the sockets on the other side, where anybody does.
    pub sockets: Option<Arc<dyn Sockets>>,
    /// What is done before the first byte of a client is read.
    pub before_first: BeforeFirst,
}

/// Something done once, by the only thread there is by then.
#[derive(Default)]
pub struct BeforeFirst(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl BeforeFirst {
    /// Takes what is to be done.
    pub fn new(act: impl FnOnce() + Send + 'static) -> Self {
        Self(Mutex::new(Some(Box::new(act))))
    }

    fn happen(&self) {
        let act = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(act) = act {
            act();
        }
    }
}

impl fmt::Debug for BeforeFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BeforeFirst")
    }
}

/// Tells of the sockets of those who connect.
pub trait Sockets: fmt::Debug + Send + Sync {
    /// Returns the inode of the socket with these ends.
    fn inode_of(&self, ends: Ends) -> Option<u64>;
}

/// The two ends of a connection, as the client has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Whether datagrams are sent, in place of a stream.
    pub datagrams: bool,
    /// Its own address.
    pub client: SocketAddr,
    /// What it connected to.
    pub server: SocketAddr,
}

/// What the connections of one worker share, most of it with those of the others.
#[derive(Debug, Clone)]
struct Proxy {
    network: Network,
    audit: Arc<Audit>,
    pool: Arc<pool::Pool>,
    pipes: Arc<pipe::Pipes>,
    slots: Arc<Semaphore>,
    resolver: Arc<dns::Resolver>,
    sockets: Option<Arc<dyn Sockets>>,
    before_first: Arc<BeforeFirst>,
    /// The client, for one that serves one alone.
    client: Option<Ends>,
    /// Told of every connection that is served.
    connected: Arc<Notify>,
    worker: usize,
}

/// Serves until `stop` is readable or at its end, which is how the end of the sandbox shows.
/// Calls `ready` once every listener is served.
///
/// Each worker is a thread with an event loop of its own, so that a connection is served by one
/// thread from end to end and wakes no other. The calling thread is the first of them; the
/// others start when there is a connection, since most commands make none.
///
/// # Errors
/// A listener cannot be used, or the event loop cannot be set up.
pub fn serve(
    mut listeners: Listeners,
    policy: Network,
    audit: Audit,
    stop: OwnedFd,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let connections = policy.limits().connections.min(Semaphore::MAX_PERMITS);
    let proxy = Proxy {
        network: policy,
        audit: Arc::new(audit),
        pool: Arc::default(),
        pipes: Arc::default(),
        slots: Arc::new(Semaphore::new(connections)),
        resolver: Arc::new(dns::Resolver::new(listeners.have_v6())),
        sockets: listeners.sockets.clone(),
        before_first: Arc::new(std::mem::take(&mut listeners.before_first)),
        client: None,
        connected: Arc::default(),
        worker: 0,
    };
    let (first, end) = watch::channel(());
    let spare = (listeners.try_clone()?, stop.try_clone()?);
    thread::scope(|scope| {
        // Dropped however this closure ends: no worker outlives the first.
        let _first = first;
        let add_workers = {
            let (proxy, end) = (proxy.clone(), end.clone());
            move || {
                let workers = thread::available_parallelism().map_or(1, usize::from);
                for worker in 1..workers.min(MAX_WORKERS) {
                    let proxy = Proxy {
                        worker,
                        ..proxy.clone()
                    };
                    // Where no further descriptor or thread may be had, fewer serve.
                    if add_worker(scope, &spare, proxy, end.clone()).is_err() {
                        break;
                    }
                }
            }
        };
        work(listeners, proxy, stop, end, ready, add_workers)
    })
}

fn add_worker<'scope>(
    scope: &'scope Scope<'scope, '_>,
    (listeners, stop): &(Listeners, OwnedFd),
    proxy: Proxy,
    end: watch::Receiver<()>,
) -> io::Result<()> {
    let (listeners, stop) = (listeners.try_clone()?, stop.try_clone()?);
    let run = move || work(listeners, proxy, stop, end, || {}, || {});
    let thread = thread::Builder::new().stack_size(STACK);
    thread.spawn_scoped(scope, run).map(drop)
}

/// Serves on the calling thread, until `stop` is readable or the sender of `end` is gone.
fn work(
    listeners: Listeners,
    proxy: Proxy,
    stop: OwnedFd,
    mut end: watch::Receiver<()>,
    ready: impl FnOnce(),
    on_connection: impl FnOnce(),
) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(MAX_LOOKUPS)
        .build()?;
    let proxy = Arc::new(proxy);
    let result = runtime.block_on(async {
        for listener in listeners.http {
            tokio::spawn(accept::http(accept::adopt(listener)?, Arc::clone(&proxy)));
        }
        #[cfg(feature = "socks")]
        for listener in listeners.socks {
            tokio::spawn(accept::socks(accept::adopt(listener)?, Arc::clone(&proxy)));
        }
        for listener in listeners.captured {
            tokio::spawn(accept::captured(
                accept::adopt(listener)?,
                Arc::clone(&proxy),
            ));
        }
        for listener in listeners.resolver {
            tokio::spawn(accept::resolver(
                accept::adopt(listener)?,
                Arc::clone(&proxy),
            ));
        }
        for socket in listeners.resolver_datagrams {
            socket.set_nonblocking(true)?;
            let socket = tokio::net::UdpSocket::from_std(socket)?;
            tokio::spawn(dns::serve_datagrams(socket, Arc::clone(&proxy)));
        }
        // On each: a timer of a connection that is due before all others costs two system calls
        // more, and this one mostly is.
        let pool = Arc::clone(&proxy.pool);
        tokio::spawn(async move { pool.expire().await });
        // Only its readiness is asked for, which any socket or pipe has.
        let stop = std::os::unix::net::UnixStream::from(stop);
        stop.set_nonblocking(true)?;
        let stop = tokio::net::UnixStream::from_std(stop)?;
        ready();
        let connected = async {
            proxy.connected.notified().await;
            on_connection();
            std::future::pending().await
        };
        tokio::select! {
            stopped = stop.readable() => stopped,
            _first_is_gone = end.changed() => Ok(()),
            never = connected => never,
        }
    });
    // A look-up that hangs in its thread must not hold up the end.
    runtime.shutdown_background();
    result
}

impl Proxy {
    /// Returns the proxy of one client, whose process the events name, where there are any.
    fn of_client(self: &Arc<Self>, client: impl FnOnce() -> io::Result<Ends>) -> Arc<Self> {
        if !self.audit.is_recording() {
            return Arc::clone(self);
        }
        Arc::new(Self {
            client: client().ok(),
            ..Self::clone(self)
        })
    }

    /// Returns the inode of the client's socket, where it can be told.
    fn client_socket(&self) -> Option<u64> {
        self.sockets.as_ref()?.inode_of(self.client?)
    }
}

impl Listeners {
    /// Returns other descriptors of the same sockets, but for those one worker serves alone.
    fn try_clone(&self) -> io::Result<Self> {
        let clone = |all: &[TcpListener]| -> io::Result<Vec<_>> {
            all.iter().map(TcpListener::try_clone).collect()
        };
        Ok(Self {
            http: clone(&self.http)?,
            socks: clone(&self.socks)?,
            captured: clone(&self.captured)?,
            resolver: clone(&self.resolver)?,
            resolver_datagrams: Vec::new(),
            sockets: self.sockets.clone(),
            before_first: BeforeFirst::default(),
        })
    }

    /// Tells whether connections over IPv6 come too.
    fn have_v6(&self) -> bool {
        let mut addresses = self.captured.iter().map(TcpListener::local_addr);
        addresses.any(|address| address.is_ok_and(|address| address.is_ipv6()))
    }
}

/// More would fight over the same sockets.
const MAX_WORKERS: usize = 4;

/// Bytes of a worker's stack; the futures it polls live on the heap.
const STACK: usize = 512 * 1024;

/// Names one worker looks up at a time: each takes a thread while the resolver is asked.
const MAX_LOOKUPS: usize = 32;
