//! The command's process: from a fork of init to the program the caller asked for.

use std::ffi::{CStr, CString};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::caller::Caller;
use super::control::{Confined, Control, Message, Order};
use super::failure::{At, Failure, Step};
use super::groups::Groups;
use super::terminal::{self, Terminal};
use super::{landlock, limits, namespaces, privileges, rootfs};
use crate::linux::plan::filter::Filter;
use crate::linux::plan::{HostSockets, Plan};
use crate::linux::sys;
use crate::policy::Nesting;

/// Shell that runs a script without an interpreter line, as execvp(3) does.
const SCRIPT_SHELL: &CStr = c"/bin/sh";

/// Confines this process, which inherits all but its own filter from init, waits for the
/// release, and becomes the command.
///
/// `launcher` is a line of its own: no other process has to wake up for what is said on it. It
/// closes by itself when the command is executed.
pub(super) fn run(
    plan: &Plan,
    caller: &Caller,
    confined: Confined,
    groups: &Groups,
    terminal: Option<&Terminal>,
    launcher: &Control,
) -> ! {
    let failure = match confine_and_wait(plan, caller, confined, groups, terminal, launcher) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    // Init notices the end of this process, whether or not this arrives.
    drop(launcher.send(&Message::Failed(failure)));
    sys::exit_now(125)
}

fn confine_and_wait(
    plan: &Plan,
    caller: &Caller,
    mut confined: Confined,
    groups: &Groups,
    terminal: Option<&Terminal>,
    launcher: &Control,
) -> Result<std::convert::Infallible, Failure> {
    // Init stays outside: it has to stand when the command is out of memory or of processes.
    groups.join().at(Step::JoinGroup)?;
    if plan.nesting == Nesting::Mounts {
        namespaces::lock_mounts(&plan.ids)?;
        // All of them came back with the new namespace.
        privileges::drop_capabilities_for(plan)?;
    }
    // In the namespace whose mounts are locked, and while no call is stopped yet.
    rootfs::enter(&plan.cwd)?;
    let is_judged = plan.host_sockets == HostSockets::Closed;
    // While files may be opened and no call is stopped.
    let trial = is_judged.then(trial_socket).transpose()?;
    if let Some(filter) = &plan.stopped {
        if confined.landlock_abi > 0 && is_judged {
            landlock::keep_signals_in(plan)?;
        }
        let are_stopped = stop_calls(filter, launcher, is_judged)?;
        confined.seccomp_filters += u8::from(are_stopped);
    }
    // Here, since the broker takes a while to take over, and no call of this is stopped.
    privileges::verify(plan, &mut confined)?;
    // What comes before may need more than the command is to have; behind this, nothing is
    // opened and no process started.
    confined.rlimits = limits::set(&plan.limits).at(Step::SetLimit)?;
    let ready = launcher.send(&Message::Ready(confined));
    ready.at(Step::TellLauncher)?;
    // While the launcher wakes up: whether released or not, nothing is executed before this.
    if let Some(trial) = trial {
        expect_performed(&trial)?;
    }
    let Some(Order::Release(group)) = launcher.receive_order().at(Step::AwaitLauncher)? else {
        return Err(Failure::new(Step::AwaitLauncher, Errno::EPIPE));
    };
    // While the signals are blocked that it brings.
    terminal::enter(group, terminal).at(Step::OwnProcessGroup)?;
    caller.restore()?;
    Err(execute(plan))
}

/// Has the broker perform this process's calls from now on, or tell of them. Tells whether it
/// does: what only reports is left out where something around has the listener.
fn stop_calls(filter: &Filter, launcher: &Control, is_judged: bool) -> Result<bool, Failure> {
    let listener = match sys::install_seccomp_listener(&filter.program()) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) && !is_judged => None,
        listener => Some(listener.at(Step::StopCalls)?),
    };
    let are_stopped = listener.is_some();
    // Dropped with the message: whoever holds it may answer calls, and the command must not.
    let stopping = Message::Stopping(listener);
    launcher.send(&stopping).at(Step::HandToLauncher)?;
    Ok(are_stopped)
}

/// Makes the socket that [`expect_performed`] tries the broker with.
fn trial_socket() -> Result<OwnedFd, Failure> {
    socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        // One that might block would be looked after by a thread.
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .at(Step::MakeTrial)
}

/// Makes sure that the broker performs this process's calls.
fn expect_performed(trial: &OwnedFd) -> Result<(), Failure> {
    // Of a datagram socket it sends nothing, and it goes the whole way through the broker.
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    rustix::net::connect(trial, &loopback).at(Step::PerformCalls)
}

/// Tries each candidate as execvp(3) does; returns only on failure.
fn execute(plan: &Plan) -> Failure {
    let searched = plan
        .argv
        .first()
        .is_some_and(|word| !word.as_bytes().contains(&b'/'));
    let mut last = Errno::ENOENT;
    for program in &plan.programs {
        match replace(program, &plan.argv, plan) {
            Errno::ENOEXEC => return execute_script(plan, program),
            // What lies in a directory on PATH that cannot be searched was not found.
            Errno::EACCES if searched && !exists(program) => {}
            // A later directory may have one that can be executed.
            Errno::EACCES => last = Errno::EACCES,
            Errno::ENOENT | Errno::ENOTDIR => {}
            errno => {
                last = errno;
                break;
            }
        }
    }
    failed_to_execute(plan, last)
}

fn exists(program: &CString) -> bool {
    nix::sys::stat::stat(program.as_c_str()).is_ok()
}

fn execute_script(plan: &Plan, script: &CString) -> Failure {
    let mut argv = vec![SCRIPT_SHELL.to_owned(), script.clone()];
    argv.extend(plan.argv.iter().skip(1).cloned());
    failed_to_execute(plan, replace(SCRIPT_SHELL, &argv, plan))
}

/// Executes a program in place of this process; returns only on failure.
fn replace(program: &CStr, argv: &[CString], plan: &Plan) -> Errno {
    match nix::unistd::execve(program, argv, &plan.env) {
        Ok(never) => match never {},
        Err(errno) => errno,
    }
}

/// Tells "not found" from "found but not executable" by the errors a shell tells them by.
fn failed_to_execute(plan: &Plan, errno: Errno) -> Failure {
    let word = plan
        .argv
        .first()
        .map(|word| word.to_string_lossy().into_owned());
    let step = match errno {
        Errno::ENOENT if plan.programs.iter().any(exists) => Step::NoInterpreter,
        Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG | Errno::ELOOP => Step::NotFound,
        _ => Step::Execute,
    };
    Failure::new(step, errno).on(Path::new(&word.unwrap_or_default()))
}

/// Keeps this process from writing a core file. Only the soft limit changes.
pub(super) fn forbid_core_dumps() -> nix::Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE)?;
    setrlimit(Resource::RLIMIT_CORE, 0, hard)
}
