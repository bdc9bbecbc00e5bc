//! The end of the command's time: first it is asked to end, then everything is ended.

use std::time::{Duration, Instant};

use nix::poll::PollTimeout;

/// How long a command may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// When the command's time is up, and what was done about it.
#[derive(Debug)]
pub(super) struct Deadline {
    next: Option<Instant>,
    has_asked: bool,
}

/// What it is time for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Wait,
    /// To ask the command to end.
    Ask,
    /// To end everything.
    End,
}

impl Deadline {
    /// Starts the time, if there is a bound to it.
    pub(super) fn new(seconds: Option<u64>) -> Self {
        // A bound that lies beyond what the clock can tell is none.
        let next =
            seconds.and_then(|seconds| Instant::now().checked_add(Duration::from_secs(seconds)));
        Self {
            next,
            has_asked: false,
        }
    }

    /// Returns how long to wait for something else.
    pub(super) fn patience(&self) -> PollTimeout {
        let Some(next) = self.next else {
            return PollTimeout::NONE;
        };
        // Rounded up, so that it has passed when the wait is over.
        let left = next.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    }

    /// Returns what it is time for; once each.
    pub(super) fn turn(&mut self) -> Turn {
        let now = Instant::now();
        match self.next {
            Some(next) if next <= now && self.has_asked => {
                self.next = None;
                Turn::End
            }
            Some(next) if next <= now => {
                self.has_asked = true;
                self.next = Some(now + GRACE);
                Turn::Ask
            }
            _ => Turn::Wait,
        }
    }

    /// Tells whether the time was up.
    pub(super) fn has_passed(&self) -> bool {
        self.has_asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_bound_nothing_is_waited_for() {
        for seconds in [None, Some(u64::MAX)] {
            let mut deadline = Deadline::new(seconds);
            assert_eq!(deadline.patience(), PollTimeout::NONE);
            assert_eq!(deadline.turn(), Turn::Wait);
            assert!(!deadline.has_passed());
        }
    }

    #[test]
    fn a_command_is_asked_once_and_ended_after_the_grace() {
        let mut deadline = Deadline::new(Some(0));
        assert_eq!(deadline.turn(), Turn::Ask);
        assert!(deadline.has_passed());
        assert_eq!(deadline.turn(), Turn::Wait);
        deadline.next = Some(Instant::now());
        assert_eq!(deadline.turn(), Turn::End);
        assert_eq!(deadline.turn(), Turn::Wait);
    }
}
