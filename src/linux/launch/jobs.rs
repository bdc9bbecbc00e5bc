//! The launcher as a job of the calling shell: signals, stopping and continuing, the terminal.

use nix::sys::signal::Signal;

use super::Sandbox;
use super::control::{Group, Order};
use super::terminal::{Stop, Terminal};

impl Sandbox {
    /// Tells whether the command will be a background job of a terminal that its caller has in
    /// the foreground.
    pub(crate) fn is_set_aside(&mut self) -> bool {
        let in_foreground = self.terminal.as_ref().is_some_and(Terminal::is_ours);
        in_foreground && self.group() == Group::Own
    }

    /// Passes a signal on, by way of init, which knows whether the command got it already.
    pub(super) fn forward(&mut self) {
        if let Ok(Some(info)) = self.signals.read_signal()
            && let Ok(number) = u8::try_from(info.ssi_signo)
        {
            let group = self.group();
            let is_lent_again = |terminal: &Terminal| terminal.is_lent_again(group);
            let is_continued = i32::from(number) == Signal::SIGCONT as i32;
            let order = match is_continued && self.terminal.as_ref().is_some_and(is_lent_again) {
                true => Order::Continue {
                    in_foreground: true,
                },
                false => Order::Signal(number),
            };
            // An init that is gone is noticed by the line.
            drop(self.control.send_order(order));
        }
    }

    /// Stops with the command, so that the shell takes its terminal back. Without a terminal
    /// nobody would continue us, and a command could keep us from heeding SIGTERM.
    pub(super) fn stop(&mut self, signal: u8) {
        let group = self.group();
        let Some(terminal) = &self.terminal else {
            return;
        };
        let in_foreground = match terminal.on_stop(group, Signal::try_from(i32::from(signal)).ok())
        {
            Stop::Continue { in_foreground } => in_foreground,
            Stop::Follow if nix::sys::signal::raise(Signal::SIGSTOP).is_ok() => {
                terminal.is_lent_again(group)
            }
            Stop::Follow | Stop::Leave => return,
        };
        drop(self.control.send_order(Order::Continue { in_foreground }));
    }

    /// Has keys reach us, who pass them on, once the command has ended that read them.
    pub(super) fn take_terminal(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.take_back();
        }
    }

    /// Returns the process group that the command is put into.
    pub(super) fn group(&mut self) -> Group {
        let (terminal, scopes_signals) = (self.terminal.as_ref(), self.scopes_signals);
        *self
            .group
            .get_or_insert_with(|| Terminal::group(terminal, scopes_signals))
    }
}
