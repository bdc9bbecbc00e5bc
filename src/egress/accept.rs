//! Takes connections from the listeners: bounded in number, and never ended by an error.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::{Ends, Proxy, transparent};

/// One of the connections that may exist at a time; given back when dropped.
pub(super) type Slot = OwnedSemaphorePermit;

/// Makes a listener one of the event loop's.
pub(super) fn adopt(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    // An answer is often two small writes, and those accepted have what this has; a socket that
    // refuses the option still works.
    let _set = rustix::net::sockopt::set_tcp_nodelay(&listener, true);
    TcpListener::from_std(listener)
}

/// Serves HTTP on every connection that comes.
pub(super) async fn http(listener: TcpListener, proxy: Arc<Proxy>) {
    let accept = async || listener.accept().await.map(|(stream, _)| stream);
    let serve = |stream: TcpStream, slot| {
        let proxy = proxy.of_client(|| ends(&stream));
        tokio::spawn(super::http::serve(stream, proxy, slot));
    };
    let turn_away = |stream: TcpStream| {
        // One attempt: a peer that does not even take this is not worth a wait.
        let _sent = stream.try_write(super::http::BUSY);
    };
    run(&proxy, accept, serve, turn_away).await;
}

/// Serves SOCKS5 on every connection that comes.
#[cfg(feature = "socks")]
pub(super) async fn socks(listener: TcpListener, proxy: Arc<Proxy>) {
    let server = super::socks::server(listener);
    let accept = async || server.accept().await.map(|(connection, _)| connection);
    let serve = |connection: super::socks::Connection, slot| {
        let proxy = proxy.of_client(|| ends(connection.get_ref()));
        tokio::spawn(super::socks::serve(connection, proxy, slot));
    };
    run(&proxy, accept, serve, drop).await;
}

/// Serves every connection that was meant for somewhere else.
pub(super) async fn captured(listener: TcpListener, proxy: Arc<Proxy>) {
    let accept = async || listener.accept().await;
    let serve = |(stream, client): (TcpStream, SocketAddr), slot| {
        let Ok(asked) = transparent::original_destination(&stream, client) else {
            return transparent::reset(stream);
        };
        let proxy = proxy.of_client(|| {
            Ok(Ends {
                server: asked,
                ..ends(&stream)?
            })
        });
        tokio::spawn(transparent::serve(stream, asked, proxy, slot));
    };
    let turn_away = |(stream, _)| transparent::reset(stream);
    run(&proxy, accept, serve, turn_away).await;
}

/// Serves the questions for names of every connection.
pub(super) async fn resolver(listener: TcpListener, proxy: Arc<Proxy>) {
    let accept = async || listener.accept().await.map(|(stream, _)| stream);
    let serve = |stream: TcpStream, slot| {
        let proxy = proxy.of_client(|| ends(&stream));
        tokio::spawn(super::dns::serve(stream, proxy, slot));
    };
    run(&proxy, accept, serve, drop).await;
}

fn ends(stream: &TcpStream) -> io::Result<Ends> {
    Ok(Ends {
        datagrams: false,
        client: stream.peer_addr()?,
        server: stream.local_addr()?,
    })
}

async fn run<C, A>(
    proxy: &Proxy,
    accept: impl Fn() -> A,
    serve: impl Fn(C, Slot),
    turn_away: impl Fn(C),
) where
    A: Future<Output = io::Result<C>>,
{
    let mut is_full = false;
    loop {
        match accept().await {
            Ok(connection) => {
                // While this is the only thread: others start for the first connection.
                proxy.before_first.happen();
                proxy.connected.notify_one();
                // The first over the limit waits for another to end; behind it none does, or
                // each would wait for all before it.
                let slot = match Arc::clone(&proxy.slots).try_acquire_owned() {
                    Err(_) if !is_full => slot(&proxy.slots).await,
                    at_once => at_once.ok(),
                };
                if slot.is_none() && !is_full {
                    proxy.record_full();
                }
                is_full = slot.is_none();
                match slot {
                    Some(slot) => serve(connection, slot),
                    None => turn_away(connection),
                }
            }
            // The peer is gone already; the next one is not.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            // No descriptor or memory to be had (EMFILE, ENFILE, ENOBUFS): the connection stays
            // in the backlog and accept would fail again at once, so wait for others to end.
            Err(_) => sleep(BACK_OFF).await,
        }
    }
}

async fn slot(slots: &Arc<Semaphore>) -> Option<Slot> {
    let slot = Arc::clone(slots).acquire_owned();
    timeout(PATIENCE, slot).await.ok()?.ok()
}

const BACK_OFF: Duration = Duration::from_millis(50);

/// How long a connection over the limit may wait for another to end.
const PATIENCE: Duration = Duration::from_millis(100);
