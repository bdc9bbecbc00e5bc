//! What the caller had set and the command gets back: signals, umask, descriptors.

use std::os::fd::RawFd;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::stat::{Mode, umask};

use super::failure::{At, Failure, Step};
use crate::linux::sys::{self, Disposition};

/// The process state of the caller that a launch changes for itself.
#[derive(Debug)]
pub(crate) struct Caller {
    mask: SigSet,
    ignored: Vec<Signal>,
    umask: Mode,
    keep_fds: Vec<RawFd>,
}

/// Signals that are passed on to the command. Those that stop a process are among them, so
/// that `srt` stops exactly when its command does.
const FORWARDED: [Signal; 11] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGTTIN,
    Signal::SIGTTOU,
];

impl Caller {
    /// Notes the caller's settings and blocks the signals that will be passed on, so that
    /// none is lost between now and the command's start.
    pub(crate) fn note(keep_fds: &[RawFd]) -> Result<Self, Failure> {
        let mut ignored = Vec::new();
        for signal in
            FORWARDED
                .into_iter()
                .chain([Signal::SIGPIPE, Signal::SIGCHLD, Signal::SIGXFSZ])
        {
            if sys::disposition(signal).at(Step::RestoreSignals)? == Disposition::Ignored {
                ignored.push(signal);
            }
        }
        let mut mask = SigSet::empty();
        // Whatever the caller's umask, what we make is ours alone and open to us.
        let umask_then = umask(Mode::S_IRWXG | Mode::S_IRWXO);
        let keep_fds = keep_fds.to_vec();
        let mut caller = Self {
            mask,
            ignored,
            umask: umask_then,
            keep_fds,
        };
        let blocked = Some(&caller.forwarded());
        sigprocmask(SigmaskHow::SIG_BLOCK, blocked, Some(&mut mask)).at(Step::SetMask)?;
        caller.mask = mask;
        // A limit on files is to be an error with a name.
        sys::set_disposition(Signal::SIGXFSZ, Disposition::Ignored).at(Step::RestoreSignals)?;
        // A child that ends must be waited for, whatever our caller had ignored.
        sys::set_disposition(Signal::SIGCHLD, Disposition::Default).at(Step::RestoreSignals)?;
        Ok(caller)
    }

    /// Returns the signals that are passed on. What the caller ignores stays ignored: a
    /// blocked signal would be queued all the same.
    pub(crate) fn forwarded(&self) -> SigSet {
        FORWARDED
            .into_iter()
            .filter(|signal| !self.ignored.contains(signal))
            .collect()
    }

    /// Gives this process the caller's settings, and closes every descriptor but those the
    /// command keeps.
    pub(super) fn restore(&self) -> Result<(), Failure> {
        umask(self.umask);
        for signal in [Signal::SIGPIPE, Signal::SIGXFSZ] {
            if !self.ignored.contains(&signal) {
                sys::set_disposition(signal, Disposition::Default).at(Step::RestoreSignals)?;
            }
        }
        if self.ignored.contains(&Signal::SIGCHLD) {
            sys::set_disposition(Signal::SIGCHLD, Disposition::Ignored).at(Step::RestoreSignals)?;
        }
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.mask), None).at(Step::SetMask)?;
        for &fd in &self.keep_fds {
            sys::keep_across_exec(fd).at(Step::KeepDescriptors)?;
        }
        sys::set_close_on_exec_but(&self.keep_fds).at(Step::CloseDescriptors)
    }
}
