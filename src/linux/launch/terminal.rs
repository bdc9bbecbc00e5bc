//! The caller's terminal: lent to the command where it is ours alone, handed back as it was.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::termios::{FlowArg, SetArg, Termios, tcflow, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgid, getpgrp, getpid, getppid, getsid, setpgid, tcgetpgrp, tcsetpgrp};
use rustix::fs::FileType;

use super::control::Group;
use crate::linux::sys;

/// The controlling terminal of a caller in its foreground or background.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: File,
    /// How it was set, where the command works with it.
    modes: Option<Termios>,
    /// Who was in our process group before we started anybody.
    before: Vec<Pid>,
}

/// What is done with a command that was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// `srt` stops as well, so that the calling shell goes on.
    Follow,
    /// The command goes on at once, with the terminal or without it.
    Continue { in_foreground: bool },
    /// Nobody would continue `srt`.
    Leave,
}

impl Terminal {
    /// Opens the terminal, if the caller has one. Comes before the first process of a run.
    pub(super) fn of_caller() -> Option<Self> {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY);
        let mut terminal = Self {
            tty: options.open("/dev/tty").ok()?,
            modes: None,
            before: Vec::new(),
        };
        if terminal.is_ours() {
            let works_with_it = standard().any(|fd| tcgetpgrp(fd).is_ok());
            terminal.modes = works_with_it
                .then(|| tcgetattr(&terminal.tty).ok())
                .flatten();
            if is_leader() {
                terminal.before = members(getpgrp()).unwrap_or_default();
            }
        }
        Some(terminal)
    }

    /// Chooses the process group of the command.
    ///
    /// In one of its own it has the terminal only as the foreground, and others of ours that read
    /// it would be stopped. The caller's is as good where the kernel keeps signals to it inside.
    pub(super) fn group(terminal: Option<&Self>, signals_stay_inside: bool) -> Group {
        // Its descriptors first: not each shell has started the whole of a pipeline by now.
        match terminal {
            Some(terminal) if !is_in_pipeline() && is_leader() && terminal.is_lendable() => {
                Group::Foreground
            }
            _ if signals_stay_inside => Group::Callers,
            _ => Group::Own,
        }
    }

    /// Tells whether keys that are typed reach our process group.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.tty) == Ok(getpgrp())
    }

    /// Tells whether nobody but the command would read it.
    fn is_lendable(&self) -> bool {
        self.is_ours() && self.others().is_some_and(|others| others.is_empty())
    }

    /// Tells whether the foreground is a group of the sandbox.
    fn is_lent(&self) -> bool {
        let group = tcgetpgrp(&self.tty)
            .ok()
            .filter(|group| *group != getpgrp());
        let members = group.and_then(members).unwrap_or_default();
        members
            .iter()
            .any(|pid| ancestors(*pid).contains(&getpid()))
    }

    /// Finds members of our process group that are neither this process nor started by it.
    fn others(&self) -> Option<Vec<Pid>> {
        let ours = |pid: &Pid| !self.before.contains(pid) && ancestors(*pid).contains(&getpid());
        let mut others = members(getpgrp())?;
        others.retain(|pid| *pid != getpid() && !ours(pid));
        Some(others)
    }

    /// Makes the process group that `leader` leads the foreground. SIGTTOU is blocked here.
    pub(super) fn lend_to(&self, leader: Pid) {
        // One that is hung up has no foreground any more.
        let _set = tcsetpgrp(&self.tty, leader);
    }

    /// Says what to do when `signal` has stopped a command in `group`.
    pub(super) fn on_stop(&self, group: Group, signal: Option<Signal>) -> Stop {
        if group == Group::Callers {
            return Stop::Follow;
        }
        if matches!(signal, Some(Signal::SIGTTIN | Signal::SIGTTOU)) {
            // Brought to the foreground while it ran, of which nobody is told.
            let in_foreground = self.is_lendable();
            // Or it has got the terminal since.
            if in_foreground || self.is_lent() {
                return Stop::Continue { in_foreground };
            }
        }
        match (is_orphaned(), signal) {
            (false, _) => Stop::Follow,
            (true, Some(Signal::SIGSTOP) | None) => Stop::Leave,
            // Without us the kernel would have ignored these, which are for shells.
            (true, Some(_)) => Stop::Continue {
                in_foreground: self.is_lendable(),
            },
        }
    }

    /// Tells whether a command in `group` is to get the terminal now that we were continued.
    pub(super) fn is_lent_again(&self, group: Group) -> bool {
        group != Group::Callers && self.is_lendable()
    }

    /// Takes the terminal back and has it set as it was before, unless somebody else uses it.
    pub(super) fn hand_back(&self) {
        self.take_back();
        let Some(modes) = self.modes.as_ref().filter(|_| self.is_ours()) else {
            return;
        };
        // What waits for us does not use it; a pager behind us does, and has set it for itself.
        let waiting = ancestors(getpid());
        let users = self.others();
        if users.is_none_or(|users| users.iter().any(|pid| !waiting.contains(pid))) {
            return;
        }
        // One that is hung up or unplugged has nothing to be set.
        let _output_goes_on = tcflow(&self.tty, FlowArg::TCOON);
        let _others_may_open_it = rustix::termios::ioctl_tiocnxcl(&self.tty);
        if tcgetattr(&self.tty).is_ok_and(|now| now != *modes) {
            let _set = tcsetattr(&self.tty, SetArg::TCSANOW, modes);
        }
    }

    /// Makes our process group the foreground again when a group of the sandbox has it, or had.
    ///
    /// A shell inside gives the terminal back to the group it took it from, but that of the
    /// caller has no number in its pid namespace. Another living group in the foreground is left
    /// alone: it is the calling shell's, and we are in the background.
    pub(super) fn take_back(&self) {
        let Ok(foreground) = tcgetpgrp(&self.tty) else {
            return;
        };
        let has_ended = killpg(foreground, None) == Err(Errno::ESRCH);
        if foreground != getpgrp() && (has_ended || self.is_lent()) {
            // SIGTTOU is blocked here. The calling shell can still do it for itself.
            let _set = tcsetpgrp(&self.tty, getpgrp());
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tty.as_fd()
    }
}

/// Puts this process, which is to become the command, into its process group.
pub(super) fn enter(group: Group, terminal: Option<&Terminal>) -> nix::Result<()> {
    if group == Group::Callers {
        return Ok(());
    }
    setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
    if let (Group::Foreground, Some(terminal)) = (group, terminal) {
        terminal.lend_to(getpid());
    }
    Ok(())
}

fn standard() -> impl Iterator<Item = BorrowedFd<'static>> {
    (0..=2).filter_map(sys::inherited)
}

/// Tells whether a standard descriptor leads to another process, as those of a pipeline do.
fn is_in_pipeline() -> bool {
    standard().any(|fd| {
        let kind = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        matches!(kind, Ok(FileType::Fifo | FileType::Socket))
    })
}

fn is_leader() -> bool {
    getpgrp() == getpid()
}

/// Tells whether nobody could continue our process group if it stopped; see setpgid(2). Only
/// asked of a group we lead, which has no member that another shell started.
fn is_orphaned() -> bool {
    let parent = Some(getppid());
    is_leader() && (getsid(parent) != getsid(None) || getpgid(parent) == Ok(getpgrp()))
}

/// Lists a process group; `None` where that cannot be told.
fn members(group: Pid) -> Option<Vec<Pid>> {
    let entries = fs::read_dir("/proc").ok()?;
    let pids = entries.map_while(io::Result::ok).filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some(Pid::from_raw(number))
    });
    Some(
        pids.filter(|pid| getpgid(Some(*pid)) == Ok(group))
            .collect(),
    )
}

/// Lists the processes that one descends from, the nearest first.
fn ancestors(pid: Pid) -> Vec<Pid> {
    let parent = |pid: &Pid| {
        let process = procfs::process::Process::new(pid.as_raw()).ok()?;
        let parent = process.stat().ok()?.ppid;
        (parent > 0).then(|| Pid::from_raw(parent))
    };
    std::iter::successors(parent(&pid), parent).collect()
}
