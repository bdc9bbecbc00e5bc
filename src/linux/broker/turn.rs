//! Which of the broker's threads takes the next call: one of them at any time. Where more wait
//! for it, each call wakes up all of them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Shared;

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Turn {
    state: Mutex<State>,
    is_free: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The lead that is in force.
    holder: Option<u64>,
    last: u64,
    /// Threads that wait for a lead, or are about to.
    followers: usize,
    is_over: bool,
}

/// The right of a thread to take the next call. It is kept over calls that do not block, since to
/// wake up another thread costs as much as most of them, and taken away over one that does.
#[derive(Debug)]
pub(super) struct Lead<'b> {
    pub(super) shared: &'b Arc<Shared>,
    number: u64,
}

impl Turn {
    /// Counts a thread among those that wait.
    pub(super) fn follow(&self) {
        self.state().followers += 1;
    }

    /// Takes back what was counted.
    pub(super) fn leave(&self) {
        self.state().followers -= 1;
    }

    pub(super) fn has_followers(&self) -> bool {
        self.state().followers > 0
    }

    /// Waits, as one that follows, until this thread is to take the next call.
    pub(super) fn wait<'b>(&self, shared: &'b Arc<Shared>) -> Lead<'b> {
        let is_taken = |state: &mut State| state.holder.is_some() && !state.is_over;
        let state = self.is_free.wait_while(self.state(), is_taken);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.followers -= 1;
        state.last += 1;
        let number = state.last;
        state.holder = Some(number);
        Lead { shared, number }
    }

    /// Has nobody wait any more.
    pub(super) fn end(&self) {
        self.state().is_over = true;
        self.is_free.notify_all();
    }

    /// Ends a lead; tells whether it was in force.
    fn release(&self, number: u64) -> bool {
        let mut state = self.state();
        let is_held = state.holder == Some(number);
        if is_held {
            state.holder = None;
            self.is_free.notify_one();
        }
        is_held
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lead<'_> {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Tells whether this thread is still the one to take the next call.
    pub(super) fn is_held(&self) -> bool {
        self.shared.turn.state().holder == Some(self.number)
    }

    /// Has another thread take the next call, since this one may block.
    pub(super) fn pass_on(&self) {
        self.shared.pass_on(self.number);
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.shared.turn.release(self.number);
    }
}

impl Shared {
    /// Has another thread take the next call, where the lead with a number is in force.
    pub(super) fn pass_on(self: &Arc<Self>, lead: u64) {
        if self.turn.release(lead) && !self.turn.has_followers() {
            // Without another thread calls take turns.
            let _started = self.add_worker();
        }
    }
}
