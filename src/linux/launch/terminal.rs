//! The caller's terminal: handed back when the command had taken it.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::sys::signal::killpg;
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};

/// The controlling terminal of a caller in its foreground or background.
#[derive(Debug)]
pub(super) struct Terminal(File);

impl Terminal {
    /// Opens the terminal, if the caller has one.
    pub(super) fn of_caller() -> Option<Self> {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY);
        options.open("/dev/tty").ok().map(Self)
    }

    /// Makes our process group the foreground again when the one there has ended.
    ///
    /// A shell inside gives the terminal back to the group it took it from, but that group has
    /// no number in its pid namespace. A living group in the foreground is left alone: it is
    /// the calling shell's, and we are in the background.
    pub(super) fn take_back(&self) {
        let Ok(foreground) = tcgetpgrp(&self.0) else {
            return;
        };
        let ended = killpg(foreground, None) == Err(Errno::ESRCH);
        if ended && foreground != getpgrp() {
            // SIGTTOU is blocked here. The calling shell can still do it for itself.
            let _set = tcsetpgrp(&self.0, getpgrp());
        }
    }
}
