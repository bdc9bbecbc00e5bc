//! Connections to upstream servers, kept for the next request to the same target.
//!
//! A pooled connection was dialled on a permit for its target, and each request on it is
//! judged anew before it is looked for here.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use crate::policy::hostname::Target;

/// The sending side of one connection.
pub(super) type Sender = SendRequest<Incoming>;

/// Connections kept for each target.
const PER_TARGET: usize = 64;

/// Time after which an unused connection is closed; servers commonly do so after 60 s.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// Idle connections by target.
#[derive(Debug, Default)]
pub(super) struct Upstreams(Mutex<HashMap<Target, Vec<(Instant, Sender)>>>);

impl Upstreams {
    /// Takes a connection that can send at once, if there is one.
    pub(super) fn take(&self, target: &Target) -> Option<Sender> {
        let mut all = self.lock();
        let kept = all.get_mut(target)?;
        kept.retain(|(since, sender)| !sender.is_closed() && since.elapsed() < IDLE_LIMIT);
        // One that was put back may still be receiving its last response.
        let ready = kept.iter().rposition(|(_, sender)| sender.is_ready())?;
        Some(kept.swap_remove(ready).1)
    }

    /// Keeps a connection whose request was answered.
    pub(super) fn put(&self, target: &Target, sender: Sender) {
        let mut all = self.lock();
        all.retain(|_, kept| {
            kept.retain(|(since, sender)| !sender.is_closed() && since.elapsed() < IDLE_LIMIT);
            !kept.is_empty()
        });
        let kept = all.entry(target.clone()).or_default();
        if kept.len() < PER_TARGET {
            kept.push((Instant::now(), sender));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Target, Vec<(Instant, Sender)>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
