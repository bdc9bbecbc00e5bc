//! Connections to servers, kept for the next request to the same host and port.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use tokio::time::Instant;

use super::http::{Body, Wanted};
use crate::policy::hostname::Target;

/// The HTTP side of one connection to a server.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) requests: SendRequest<Body>,
    pub(super) interim: Wanted,
}

/// Idle connections by target. Holds no right: a request is judged before it looks here.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<Target, Vec<Idle>>>);

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
    worker: usize,
}

impl Pool {
    /// Takes a connection that is alive and free, the one used last first. One that `worker`
    /// made goes before all others: its thread need not wake another.
    pub(super) fn take(&self, target: &Target, worker: usize) -> Option<(Sender, usize)> {
        let mut pool = self.lock();
        let idle = pool.get_mut(target)?;
        // One that was put back may still be receiving the rest of its last answer.
        let is_free = |idle: &Idle| idle.sender.requests.is_ready() && idle.is_fresh();
        let own = idle
            .iter()
            .rposition(|idle| idle.worker == worker && is_free(idle));
        let free = own.or_else(|| idle.iter().rposition(is_free))?;
        let idle = idle.swap_remove(free);
        Some((idle.sender, idle.worker))
    }

    /// Keeps a connection whose answer has begun, and that `worker` made.
    pub(super) fn put(&self, target: &Target, sender: Sender, worker: usize) {
        let mut pool = self.lock();
        let total: usize = pool.values().map(Vec::len).sum();
        if total >= MAX_TOTAL || sender.requests.is_closed() {
            return;
        }
        let fresh = Idle {
            sender,
            since: Instant::now(),
            worker,
        };
        match pool.get_mut(target) {
            Some(idle) if idle.len() >= MAX_EACH => {}
            Some(idle) => idle.push(fresh),
            None => drop(pool.insert(target.clone(), vec![fresh])),
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
        !self.sender.requests.is_closed() && self.since.elapsed() < IDLE
    }
}

const MAX_EACH: usize = 64;
const MAX_TOTAL: usize = 256;

/// Shorter than servers usually wait, so that the closing side is ours.
const IDLE: Duration = Duration::from_secs(15);
