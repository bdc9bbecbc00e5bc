//! What signals do in this process.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::Ordering;

use nix::sys::signal::{SigHandler, SigSet, Signal};

use super::{Disposition, SIGPIPE_IGNORED_AT_START, set_action, sigaction};

/// Has `signal`, sent to a thread, end a call it blocks in with EINTR, and nothing else.
pub(crate) fn interrupt_calls_on(signal: Signal) -> io::Result<()> {
    extern "C" fn ignore(_: c_int) {}
    set_action(signal, SigHandler::Handler(ignore))?;
    SigSet::from(signal).thread_unblock()?;
    Ok(())
}

/// Reads whether `signal` is ignored.
pub(crate) fn disposition(signal: Signal) -> io::Result<Disposition> {
    let is_ignored = match signal {
        Signal::SIGPIPE => SIGPIPE_IGNORED_AT_START.load(Ordering::Relaxed),
        _ => sigaction(signal)? == libc::SIG_IGN,
    };
    Ok(match is_ignored {
        true => Disposition::Ignored,
        false => Disposition::Default,
    })
}

/// Sets `signal` to its default or to be ignored; no handler of ours ever runs.
pub(crate) fn set_disposition(signal: Signal, to: Disposition) -> io::Result<()> {
    let handler = match to {
        Disposition::Default => SigHandler::SigDfl,
        Disposition::Ignored => SigHandler::SigIgn,
    };
    set_action(signal, handler)
}
