//! Keeps one direction of a connection to so many bytes a second.

use std::future::{Future, poll_fn};
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// What has passed, as the time until which it uses the rate up.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Option<NonZeroU64>,
    paid_until: Instant,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub(super) fn new(rate: Option<NonZeroU64>) -> Self {
        Self {
            rate,
            paid_until: Instant::now(),
            wait: None,
        }
    }

    /// Waits until bytes may pass, and returns how many.
    pub(super) async fn room(&mut self) -> usize {
        poll_fn(|cx| self.poll_room(cx)).await
    }

    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        let Some(rate) = self.rate else {
            return Poll::Ready(usize::MAX);
        };
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
            }
            let ahead = self.paid_until.saturating_duration_since(Instant::now());
            if let Some(free) = BURST.checked_sub(ahead).filter(|free| !free.is_zero()) {
                let bytes = free.as_nanos() * u128::from(rate.get()) / SECOND;
                return Poll::Ready(usize::try_from(bytes).unwrap_or(usize::MAX).max(1));
            }
            // Half of it, so that a system call moves more than a few bytes.
            self.wait = Some(Box::pin(sleep_until(self.paid_until - BURST / 2)));
        }
    }

    /// Takes note of bytes that have passed.
    pub(super) fn passed(&mut self, bytes: usize) {
        let Some(rate) = self.rate else { return };
        let nanos = (bytes as u128 * SECOND).div_ceil(u128::from(rate.get()));
        let took = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.paid_until = self.paid_until.max(Instant::now()) + took;
    }
}

/// What may pass at once after a pause, as the time it takes at the rate.
const BURST: Duration = Duration::from_millis(100);

/// In nanoseconds.
const SECOND: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_pass_at_the_rate_whatever_it_is() {
        for (rate, bytes, expected) in [(1, 20, 19), (1000, 100_000, 100), (1 << 30, 1 << 34, 16)] {
            let mut pace = Pace::new(NonZeroU64::new(rate));
            let begun = Instant::now();
            let mut left: usize = bytes;
            while left > 0 {
                let count = pace.room().await.min(left);
                pace.passed(count);
                left -= count;
            }
            let took = begun.elapsed();
            let slack = Duration::from_millis(1200);
            let expected = Duration::from_secs(expected);
            assert!(took.abs_diff(expected) < slack, "{rate}: {took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_saves_up_no_more_than_a_burst() {
        let mut pace = Pace::new(NonZeroU64::new(1000));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(pace.room().await, 100);
        assert_eq!(Pace::new(None).room().await, usize::MAX);
    }
}
