//! Signals for what runs inside: the command, or what it has left in the background.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpgid};

use super::background;
use super::terminal::Terminal;
use crate::backend::Outcome;
use crate::linux::plan::Place;

/// Signals this process itself got lately: they were sent to the whole process group, as the
/// terminal does, for nobody addresses init.
#[derive(Debug, Default)]
pub(super) struct GroupSignals(Vec<(i32, Instant)>);

impl GroupSignals {
    /// A signal older than this has nothing to do with what the launcher gets now.
    const SAME_EVENT: Duration = Duration::from_secs(1);

    pub(super) fn note(&mut self, number: i32) {
        self.0.retain(|(other, _)| *other != number);
        if number != Signal::SIGCHLD as i32 {
            self.0.push((number, Instant::now()));
        }
    }

    fn take(&mut self, number: i32) -> bool {
        let found = self.0.iter().position(|(other, _)| *other == number);
        found.is_some_and(|index| self.0.remove(index).1.elapsed() < Self::SAME_EVENT)
    }
}

/// Whom signals are for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Running {
    Command(Pid),
    /// What the command, which ended so, has left.
    Background(Outcome),
}

impl Running {
    /// Passes on a signal the launcher got, unless the sender reached both at once.
    pub(super) fn pass_on(self, place: Place, number: i32, group: &mut GroupSignals) {
        let sent_to_group = group.take(number);
        if let Ok(signal) = Signal::try_from(number) {
            self.send(place, signal, sent_to_group);
        }
    }

    fn send(self, place: Place, signal: Signal, sent_to_group: bool) {
        // A command that has ended is noticed when it is reaped.
        let _sent = match self {
            Self::Command(command) if !sent_to_group => kill(command, signal),
            Self::Command(command) if getpgid(None) == getpgid(Some(command)) => Ok(()),
            Self::Command(command) if leads_a_group(command) => killpg(command, signal),
            Self::Command(command) => kill(command, signal),
            Self::Background(_) => {
                background::send(place, signal, sent_to_group);
                Ok(())
            }
        };
    }

    /// Has a command that was stopped go on, and all that were stopped with it; first in the
    /// foreground of a terminal, where one is given.
    pub(super) fn resume(self, terminal: Option<&Terminal>) {
        let Self::Command(command) = self else { return };
        let _continued = if leads_a_group(command) {
            if let Some(terminal) = terminal {
                terminal.lend_to(command);
            }
            killpg(command, Signal::SIGCONT)
        } else {
            kill(command, Signal::SIGCONT)
        };
    }

    /// Asks it to end, also where it is stopped.
    pub(super) fn ask_to_end(self, place: Place) {
        self.send(place, Signal::SIGTERM, false);
        self.send(place, Signal::SIGCONT, false);
    }

    /// Returns how the command has ended, or will by the end of everything.
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Command(_) => Outcome::Signaled(Signal::SIGKILL as u8),
            Self::Background(outcome) => outcome,
        }
    }
}

fn leads_a_group(command: Pid) -> bool {
    getpgid(Some(command)) == Ok(command)
}
