//! Connections to servers, kept for the next request to the same host and port.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use tokio::time::Instant;

use super::http::Body;
use crate::policy::hostname::Target;

/// The HTTP side of one connection to a server.
pub(super) type Sender = SendRequest<Body>;

/// Idle connections by target. Holds no right: a request is judged before it looks here.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<Target, Vec<Idle>>>);

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
}

impl Pool {
    /// Takes a connection that is alive and free, the one used last first.
    pub(super) fn take(&self, target: &Target) -> Option<Sender> {
        let mut pool = self.lock();
        let idle = pool.get_mut(target)?;
        // One that was put back may still be receiving the rest of its last answer.
        let free = idle
            .iter()
            .rposition(|idle| idle.sender.is_ready() && idle.is_fresh())?;
        Some(idle.swap_remove(free).sender)
    }

    /// Keeps a connection whose answer has begun.
    pub(super) fn put(&self, target: &Target, sender: Sender) {
        let mut pool = self.lock();
        let total: usize = pool.values().map(Vec::len).sum();
        if total >= MAX_TOTAL || sender.is_closed() {
            return;
        }
        let since = Instant::now();
        match pool.get_mut(target) {
            Some(idle) if idle.len() >= MAX_EACH => {}
            Some(idle) => idle.push(Idle { sender, since }),
            None => drop(pool.insert(target.clone(), vec![Idle { sender, since }])),
        }
    }

    /// Closes connections nobody wanted, as long as the pool is polled.
    pub(super) async fn expire(&self) {
        loop {
            tokio::time::sleep(IDLE / 2).await;
            self.lock().retain(|_, idle| {
                idle.retain(Idle::is_fresh);
                !idle.is_empty()
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Vec<Idle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Idle {
    /// Tells whether this may still be used. An answer that takes longer than [`IDLE`] to read
    /// goes on to its end, since its connection closes only behind it.
    fn is_fresh(&self) -> bool {
        !self.sender.is_closed() && self.since.elapsed() < IDLE
    }
}

const MAX_EACH: usize = 64;
const MAX_TOTAL: usize = 256;

/// Shorter than servers usually wait, so that the closing side is ours.
const IDLE: Duration = Duration::from_secs(15);
