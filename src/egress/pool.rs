//! Connections to servers, kept for the next request to the same host and port.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use tokio::time::{Instant, timeout};

use super::http::Body;

/// The HTTP side of one connection to a server.
pub(super) type Sender = SendRequest<Body>;

/// Idle connections by canonical `host:port`. Holds no right: a request is judged before it
/// looks here.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool(Arc<Mutex<HashMap<String, Vec<Idle>>>>);

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
}

impl Pool {
    /// Takes a connection that looks alive, the one used last first.
    pub(super) fn take(&self, target: &str) -> Option<Sender> {
        let mut pool = self.lock();
        let idle = pool.get_mut(target)?;
        let found = std::iter::from_fn(|| idle.pop()).find(Idle::is_usable);
        if idle.is_empty() {
            pool.remove(target);
        }
        found.map(|idle| idle.sender)
    }

    /// Keeps a connection once the answer on it has been read to its end.
    pub(super) fn keep(&self, target: String, mut sender: Sender) {
        let pool = self.clone();
        tokio::spawn(async move {
            // An answer that is not read to its end closes the connection, which ends this.
            if !matches!(timeout(LONGEST_ANSWER, sender.ready()).await, Ok(Ok(()))) {
                return;
            }
            let since = Instant::now();
            {
                let mut pool = pool.lock();
                let total: usize = pool.values().map(Vec::len).sum();
                let idle = pool.entry(target.clone()).or_default();
                if idle.len() >= MAX_EACH || total >= MAX_TOTAL {
                    return;
                }
                idle.push(Idle { sender, since });
            }
            tokio::time::sleep(IDLE).await;
            pool.expire(&target);
        });
    }

    fn expire(&self, target: &str) {
        let mut pool = self.lock();
        if let Some(idle) = pool.get_mut(target) {
            idle.retain(Idle::is_usable);
            if idle.is_empty() {
                pool.remove(target);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Idle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.since.elapsed() < IDLE
    }
}

const MAX_EACH: usize = 8;
const MAX_TOTAL: usize = 128;
/// Shorter than servers usually wait, so that the closing side is ours.
const IDLE: Duration = Duration::from_secs(15);
const LONGEST_ANSWER: Duration = Duration::from_secs(3600);
