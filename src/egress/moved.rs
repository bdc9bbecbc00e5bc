//! When bytes moved last on a connection, and since when it stands still.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// When bytes moved last, either way.
#[derive(Debug)]
pub(super) struct Moved {
    begun: Instant,
    millis: AtomicU64,
}

impl Moved {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            millis: AtomicU64::new(0),
        }
    }

    pub(super) fn now(&self) {
        let millis = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }

    /// Waits until nothing has moved for `limit`.
    pub(super) async fn idle(&self, limit: Duration) {
        while self.at().elapsed() < limit {
            sleep_until(self.at() + limit).await;
        }
    }

    fn at(&self) -> Instant {
        self.begun + Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }
}
