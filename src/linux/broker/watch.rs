//! Looks after calls that block: others are taken meanwhile, and one whose caller is gone is
//! given up, since a signal ends it with EINTR.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};

use super::Shared;
use super::caller::{Caller, errno_of};
use super::turn::Lead;
use crate::linux::executor::{INTERRUPTION, PATIENCE};

/// The calls that this process performs itself, and the threads they may block.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    calls: HashMap<u64, Call>,
    /// A thread looks after them.
    is_kept: bool,
}

#[derive(Debug)]
struct Call {
    thread: Pthread,
    /// The right to take the next call, which the thread keeps unless this one blocks.
    lead: u64,
    looks: u128,
}

/// Time between two looks, for which the next call waits at most twice behind one that blocks.
const LOOK: Duration = Duration::from_millis(5);

/// Looks until it is asked whether somebody waits for a call.
const LOOKS: u128 = PATIENCE.as_millis() / LOOK.as_millis();

/// Looks without a call in progress after which the thread ends: one burst, one thread.
const IDLE_LOOKS: u32 = 200;

impl Watch {
    /// Performs `act` until it is through, or its caller is gone.
    pub(super) fn perform(
        &self,
        caller: &Caller<'_>,
        lead: &Lead<'_>,
        act: impl Fn() -> std::io::Result<()>,
    ) -> Result<(), Errno> {
        self.enter(caller.id(), lead)?;
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

    fn enter(&self, id: u64, lead: &Lead<'_>) -> Result<(), Errno> {
        let mut state = self.state();
        if !state.is_kept {
            let shared = Arc::clone(lead.shared);
            let thread = std::thread::Builder::new().stack_size(super::STACK);
            // Without one, a call could hold its thread for ever.
            thread
                .spawn(move || keep(&shared))
                .map_err(|_| Errno::EAGAIN)?;
            state.is_kept = true;
        }
        let call = Call {
            thread: pthread_self(),
            lead: lead.number(),
            looks: 0,
        };
        state.calls.insert(id, call);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep(shared: &Arc<Shared>) {
    let mut idle = 0;
    while idle < IDLE_LOOKS && !shared.is_over.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        let mut state = shared.watch.state();
        idle = if state.calls.is_empty() { idle + 1 } else { 0 };
        let mut leads = Vec::new();
        for call in state.calls.values_mut() {
            call.looks += 1;
            if call.looks == 2 {
                leads.push(call.lead);
            }
            if call.looks.is_multiple_of(LOOKS) {
                // The thread asks whether its caller still waits, and else tries again.
                let _ended = pthread_kill(call.thread, INTERRUPTION);
            }
        }
        if idle == IDLE_LOOKS {
            state.is_kept = false;
        }
        drop(state);
        leads.into_iter().for_each(|lead| shared.pass_on(lead));
    }
}
