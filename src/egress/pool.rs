//! Connections to servers, kept for the next request to the same host and port.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::client::conn::http1::SendRequest;
use tokio::time::Instant;

use super::http::Body;

/// The HTTP side of one connection to a server.
pub(super) type Sender = SendRequest<Body>;

/// Kept connections by canonical `host:port`. Holds no right: a request is judged before it
/// looks here.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<String, Vec<Kept>>>);

#[derive(Debug)]
struct Kept {
    sender: Sender,
    since: Instant,
}

impl Pool {
    /// Takes a connection that looks alive and can send at once, the one used last first.
    pub(super) fn take(&self, target: &str) -> Option<Sender> {
        let mut pool = self.lock();
        let kept = pool.get_mut(target)?;
        kept.retain(Kept::is_alive);
        // One that was given back may still be receiving its last answer.
        let ready = kept.iter().rposition(|kept| kept.sender.is_ready())?;
        Some(kept.swap_remove(ready).sender)
    }

    /// Keeps a connection whose answer has begun.
    pub(super) fn keep(&self, target: String, sender: Sender) {
        let mut pool = self.lock();
        let kept = pool.entry(target).or_default();
        if kept.len() < MAX_EACH {
            let since = Instant::now();
            kept.push(Kept { sender, since });
        }
    }

    /// Closes the connections that were not used for a while, for ever.
    pub(super) async fn expire(&self) {
        loop {
            tokio::time::sleep(IDLE).await;
            self.lock().retain(|_, kept| {
                kept.retain(Kept::is_alive);
                !kept.is_empty()
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Kept>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn is_alive(&self) -> bool {
        !self.sender.is_closed() && (!self.sender.is_ready() || self.since.elapsed() < IDLE)
    }
}

/// As many as one busy client opens; a server may allow fewer, and closes the rest.
const MAX_EACH: usize = 64;

/// Shorter than servers usually wait, so that the closing side is ours.
const IDLE: Duration = Duration::from_secs(15);
