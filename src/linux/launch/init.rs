//! Process 1 of the sandbox: builds it, starts the command, then reaps and forwards signals.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::process::DumpableBehavior;

use super::caller::Caller;
use super::command;
use super::control::{Confined, Control, Message};
use super::failure::{At, Failure, Step};
use super::{handoff, landlock, namespaces, network, privileges, rootfs};
use crate::backend::Outcome;
use crate::linux::plan::Plan;
use crate::linux::sys::{self, Forked};

/// Runs the sandbox from its first act to the command's end.
pub(super) fn run(plan: &Plan, caller: &Caller, control: &Control, egress_socket: &Path) -> ! {
    let result = stand_up(plan, caller, control, egress_socket);
    let last = match result {
        Ok(outcome) => Message::Ended(outcome),
        Err(failure) => Message::Failed(failure),
    };
    // A launcher that is gone cannot be told, and needs no telling.
    drop(control.send(&last));
    sys::exit_now(0)
}

fn stand_up(
    plan: &Plan,
    caller: &Caller,
    control: &Control,
    egress_socket: &Path,
) -> Result<Outcome, Failure> {
    namespaces::tie_to_launcher(control)?;
    namespaces::map_ids(plan.ids)?;
    umask(Mode::empty());
    rootfs::build(plan, egress_socket)?;
    tell(control, &Message::Mounted)?;
    let listeners = network::listen_on_loopback(&plan.listeners)?;
    let proxies = handoff::send(Path::new(rootfs::EGRESS_SOCKET), &listeners)?;
    // The proxies hold the only copies: when they are gone, a connection is refused instead
    // of waiting in a queue nobody serves.
    drop(listeners);
    rootfs::seal(plan)?;
    let watched = signals(caller);
    let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC).at(Step::WatchSignals)?;
    let layer = landlock::prepare(&plan.ruleset)?;
    let filters = give_up_rights(plan)?;
    let (command, line) = start_command(plan, caller, layer, filters)?;
    hide(&[
        control.as_fd(),
        proxies.as_fd(),
        signals.as_fd(),
        line.as_fd(),
    ])?;
    release(control, line)?;
    Ok(watch(command, control, &signals))
}

/// Forks the command's process; it confines itself and waits.
fn start_command(
    plan: &Plan,
    caller: &Caller,
    layer: landlock::Layer,
    filters: u8,
) -> Result<(Pid, UnixStream), Failure> {
    let (ours, theirs) = UnixStream::pair().at(Step::Fork)?;
    // Blocked before the fork: a signal for the command waits for it, and a SIGCHLD for us.
    signals(caller).thread_block().at(Step::WatchSignals)?;
    match sys::fork().at(Step::Fork)? {
        Forked::Child => command::run(plan, caller, layer, filters, theirs),
        Forked::Parent(pid, _) => Ok((pid, ours)),
    }
}

fn signals(caller: &Caller) -> SigSet {
    let mut signals = caller.forwarded();
    signals.add(Signal::SIGCHLD);
    signals
}

/// Gives up what building needed. The command's process inherits it all: empty capability
/// sets, a fresh keyring, the filters. Returns how many filters are in force.
fn give_up_rights(plan: &Plan) -> Result<u8, Failure> {
    // Before the filters, which refuse the keyring calls.
    sys::join_new_session_keyring().at(Step::NewKeyring)?;
    privileges::drop_capabilities()?;
    privileges::set_no_new_privs()?;
    privileges::install(&plan.filters)
}

/// From here on init only waits, so that nothing in it is worth attacking.
fn hide(keep: &[std::os::fd::BorrowedFd<'_>]) -> Result<(), Failure> {
    let mut keep: Vec<_> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    keep.sort_unstable();
    sys::close_all_but(&keep).at(Step::CloseDescriptors)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at(Step::Hide)?;
    command::forbid_core_dumps().at(Step::Hide)
}

/// Passes the command's state to the launcher and the launcher's word to the command.
fn release(control: &Control, mut line: UnixStream) -> Result<(), Failure> {
    let mut confined = Vec::new();
    Read::by_ref(&mut line)
        .take(2)
        .read_to_end(&mut confined)
        .at(Step::Fork)?;
    let [landlock_abi, seccomp_filters] = confined[..] else {
        return Err(failure_of_command(&confined, line));
    };
    // A failure that came instead is longer than two bytes.
    let mut more = [0; 1];
    line.set_nonblocking(true).at(Step::Fork)?;
    if let Ok(1) = line.read(&mut more) {
        confined.push(more[0]);
        return Err(failure_of_command(&confined, line));
    }
    line.set_nonblocking(false).at(Step::Fork)?;
    tell(
        control,
        &Message::Ready(Confined {
            landlock_abi,
            seccomp_filters,
        }),
    )?;
    if !control.receive_release().at(Step::TieToLauncher)? {
        return Err(Failure::new(Step::TieToLauncher, Errno::EPIPE));
    }
    line.write_all(b"R").at(Step::Fork)?;
    let mut failure = Vec::new();
    line.read_to_end(&mut failure).at(Step::Execute)?;
    match Failure::decode(&failure) {
        // The line closes by itself when the command is executed.
        None => tell(control, &Message::Started),
        Some(failure) => Err(failure),
    }
}

/// Reads the rest of what the command's process said before it ended.
fn failure_of_command(begun: &[u8], mut line: UnixStream) -> Failure {
    let mut bytes = begun.to_vec();
    drop(line.set_nonblocking(false));
    drop(line.read_to_end(&mut bytes));
    Failure::decode(&bytes).unwrap_or_else(|| Failure::new(Step::Fork, Errno::ECHILD))
}

/// Reaps every orphan and forwards signals until the command ends or the launcher is gone.
fn watch(command: Pid, control: &Control, signals: &SignalFd) -> Outcome {
    loop {
        let mut fds = [
            PollFd::new(signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(control.as_fd(), PollFlags::POLLIN),
        ];
        let _ready_or_interrupted = poll(&mut fds, PollTimeout::NONE);
        if fds[1].any() == Some(true) {
            // The launcher sends nothing more: this is its end, and so ours. The kernel ends
            // everything in the namespace with us.
            sys::exit_now(0);
        }
        while let Ok(Some(info)) = read_now(signals) {
            match Signal::try_from(info.ssi_signo.cast_signed()) {
                Ok(Signal::SIGCHLD) | Err(_) => {}
                // A command that has ended is noticed below.
                Ok(signal) => {
                    let _sent = kill(command, signal);
                }
            }
        }
        if let Some(outcome) = reap(command) {
            return outcome;
        }
    }
}

/// Reads a signal that is pending, without waiting for one.
fn read_now(signals: &SignalFd) -> nix::Result<Option<nix::sys::signalfd::siginfo>> {
    let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, PollTimeout::ZERO)? == 0 {
        return Ok(None);
    }
    signals.read_signal()
}

/// Waits for whatever has ended; returns how the command did, if it was among them.
fn reap(command: Pid) -> Option<Outcome> {
    let mut ended = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, status)) if pid == command => {
                ended = Some(Outcome::Exited(
                    u8::try_from(status & 0xff).unwrap_or(u8::MAX),
                ));
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == command => {
                ended = Some(Outcome::Signaled(
                    u8::try_from(signal as i32).unwrap_or(u8::MAX),
                ));
            }
            Ok(WaitStatus::StillAlive) | Err(_) => return ended,
            Ok(_) => {}
        }
    }
}

fn tell(control: &Control, message: &Message) -> Result<(), Failure> {
    control.send(message).at(Step::TieToLauncher)
}
