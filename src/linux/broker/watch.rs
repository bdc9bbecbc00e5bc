//! Gives up calls that block once their caller is gone: a signal ends them with EINTR.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};

use super::caller::{Caller, errno_of};
use crate::linux::executor::{INTERRUPTION, PATIENCE};

/// The calls that this process performs itself, and the threads they may block.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    calls: HashMap<u64, Pthread>,
    /// A thread looks after them.
    is_kept: bool,
}

/// Looks without a call in progress after which the thread ends: one burst, one thread.
const IDLE_LOOKS: u32 = 10;

impl Watch {
    /// Performs `act` until it is through, or its caller is gone.
    pub(super) fn perform(
        self: &Arc<Self>,
        caller: &Caller<'_>,
        act: impl Fn() -> std::io::Result<()>,
    ) -> Result<(), Errno> {
        self.enter(caller.id())?;
        let result = loop {
            match act() {
                Err(error) if error.raw_os_error() == Some(libc::EINTR) && caller.is_waiting() => {}
                other => break other,
            }
        };
        // Under the lock: no signal is on its way to this thread any more.
        self.state().calls.remove(&caller.id());
        result.map_err(|error| errno_of(&error))
    }

    fn enter(self: &Arc<Self>, id: u64) -> Result<(), Errno> {
        let mut state = self.state();
        if !state.is_kept {
            let watch = Arc::clone(self);
            let thread = std::thread::Builder::new().stack_size(super::STACK);
            // Without one, a call could hold its thread for ever.
            thread
                .spawn(move || watch.keep())
                .map_err(|_| Errno::EAGAIN)?;
            state.is_kept = true;
        }
        state.calls.insert(id, pthread_self());
        Ok(())
    }

    fn keep(&self) {
        let mut before: Vec<u64> = Vec::new();
        let mut idle = 0;
        loop {
            std::thread::sleep(PATIENCE);
            let mut state = self.state();
            idle = if state.calls.is_empty() { idle + 1 } else { 0 };
            if idle == IDLE_LOOKS {
                state.is_kept = false;
                return;
            }
            for (id, thread) in &state.calls {
                if before.contains(id) {
                    // The thread asks whether its caller still waits, and else tries again.
                    let _ended = pthread_kill(*thread, INTERRUPTION);
                }
            }
            before = state.calls.keys().copied().collect();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
