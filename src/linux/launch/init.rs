//! Process 1 of the sandbox: builds it, starts the command, then reaps and forwards signals.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Pid;
use rustix::process::{DumpableBehavior, WaitOptions, wait};

use super::caller::Caller;
use super::command;
use super::control::{Confined, Control, Message, Order, Trapped};
use super::failure::{At, Failure, Step};
use super::{
    handoff, landlock, mount_table, namespaces, network, orphans, pins, privileges, rootfs,
};
use crate::backend::Outcome;
use crate::linux::plan::{Place, Plan};
use crate::linux::sys::{self, Forked};
use crate::linux::{executor, passing, unix_diag};
use crate::policy::{Nesting, NetworkMode};

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
    namespaces::tie_to_launcher(plan, control)?;
    let (for_broker, proxies) = match plan.place {
        Place::Host => build(plan, control, egress_socket)?,
        Place::Sandbox => {
            orphans::adopt()?;
            (None, None)
        }
    };
    let watched = signals(caller);
    let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC).at(Step::WatchSignals)?;
    let layer = landlock::prepare(plan)?;
    let confined = Confined {
        seccomp_filters: give_up_rights(plan)?,
        // Before the command and the executor are forked: the sockets of one domain may be
        // connected to by another process of it, and not by one of a domain beside it.
        landlock_abi: layer.restrict_self()?,
        // Until it is read back, by the command's process.
        no_capabilities: false,
        no_new_privs: false,
    };
    let (command, line) = start_command(plan, caller, confined)?;
    // The command keeps one that init needs no more.
    if plan.keeps_setfcap() {
        privileges::drop_capabilities()?;
    }
    let executor = match for_broker {
        Some(for_broker) => Some(pass_on_listener(control, &line, for_broker)?),
        None => None,
    };
    let fds = [signals.as_fd(), control.as_fd(), line.as_fd()];
    let lines = [&proxies, &executor].into_iter().flatten().map(AsFd::as_fd);
    let keep: Vec<_> = fds.into_iter().chain(lines).collect();
    hide(&keep)?;
    release(control, line)?;
    let outcome = watch(command, control, &signals, Executor::new(executor));
    if plan.place == Place::Sandbox {
        orphans::end();
    }
    Ok(outcome)
}

/// What the broker gets of the network, where it judges calls.
struct ForBroker {
    unix_diag: OwnedFd,
    redirection: Option<OwnedFd>,
}

/// Builds what only a run on a host has. Returns what the broker gets of it, and the line to the
/// proxies, where there are any.
fn build(
    plan: &Plan,
    control: &Control,
    egress_socket: &Path,
) -> Result<(Option<ForBroker>, Option<OwnedFd>), Failure> {
    // First: until then this process has no id that may own or mount anything.
    namespaces::map_ids(plan.ids)?;
    // While the host's /proc is there, of which what is about the network can be written.
    if plan.network == NetworkMode::Filtered {
        network::set_parameters();
    }
    // The modes of what is made are meant as they are written.
    umask(Mode::empty());
    rootfs::build(plan)?;
    // Behind the mounts, for which descriptors may be few.
    let network = match plan.network {
        NetworkMode::Filtered => Some(network::build(plan)?),
        NetworkMode::Open => None,
    };
    // The proxies get the only copies: when they are gone, a connection is refused instead of
    // waiting in a queue nobody serves.
    let proxies = match &network {
        Some(network) => Some(handoff::send(egress_socket, network)?),
        None => None,
    };
    let for_broker = match plan.performed {
        // Made here and now: it tells of this namespace, and the filters refuse it.
        Some(_) => Some(ForBroker {
            unix_diag: unix_diag::open().at(Step::AskSockets)?,
            redirection: network.and_then(|network| network.redirection),
        }),
        None => None,
    };
    // Before the table is read, which takes a while: the name is removed meanwhile.
    tell(control, &Message::HandedOver)?;
    mount_table::verify_read_only(&plan.mounts)?;
    if plan.nesting == Nesting::Mounts {
        pins::make()?;
    }
    Ok((for_broker, proxies))
}

/// Forks the command's process; it confines itself and waits.
fn start_command(
    plan: &Plan,
    caller: &Caller,
    confined: Confined,
) -> Result<(Pid, UnixStream), Failure> {
    let (ours, theirs) = UnixStream::pair().at(Step::Fork)?;
    // Blocked before the fork: a signal for the command waits for it, and a SIGCHLD for us.
    signals(caller).thread_block().at(Step::WatchSignals)?;
    match sys::fork().at(Step::Fork)? {
        Forked::Child => command::run(plan, caller, confined, theirs),
        Forked::Parent(pid, _) => Ok((pid, ours)),
    }
}

/// Passes the listener of the command's own filter to the broker alone, with what else it
/// needs; returns the executor's end of the line between them.
fn pass_on_listener(
    control: &Control,
    line: &UnixStream,
    for_broker: ForBroker,
) -> Result<OwnedFd, Failure> {
    let mut buffer = [0; 1];
    let (bytes, mut fds) = passing::receive(line, &mut buffer).at(Step::StopCalls)?;
    let listener = match (bytes, fds.pop()) {
        ([command::LISTENER], Some(listener)) => listener,
        _ => return Err(failure_of_command(bytes, line)),
    };
    let (ours, executor) = executor::pair().at(Step::Fork)?;
    let trapped = Trapped {
        listener,
        unix_diag: for_broker.unix_diag,
        executor,
        redirection: for_broker.redirection,
    };
    tell(control, &Message::Stopping(trapped))?;
    Ok(ours)
}

/// The executor, which is forked when the broker first asks something of it, and again
/// should it have been killed.
struct Executor {
    line: Option<OwnedFd>,
    process: Option<Pid>,
}

impl Executor {
    fn new(line: Option<OwnedFd>) -> Self {
        Self {
            line,
            process: None,
        }
    }

    /// Returns the line where there is a request that nobody takes.
    fn unattended(&self) -> Option<BorrowedFd<'_>> {
        let line = self.line.as_ref().filter(|_| self.process.is_none());
        line.map(AsFd::as_fd)
    }

    fn start(&mut self) {
        let Some(line) = &self.line else { return };
        match sys::fork() {
            Ok(Forked::Child) => {
                // The broker notices by its lines that it has ended.
                drop(shut_in(line).map(|()| executor::serve(line)));
                sys::exit_now(0)
            }
            Ok(Forked::Parent(pid, _)) => self.process = Some(pid),
            // Closing the line has the broker refuse what it would ask.
            Err(_) => self.line = None,
        }
    }
}

/// Leaves the executor with its line, out of reach of the terminal and of other processes.
fn shut_in(line: &OwnedFd) -> Result<(), Failure> {
    nix::unistd::setsid().at(Step::NewSession)?;
    hide(&[line.as_fd()])?;
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .at(Step::CloseDescriptors)?;
    rustix::stdio::dup2_stdin(&null).at(Step::CloseDescriptors)?;
    rustix::stdio::dup2_stdout(&null).at(Step::CloseDescriptors)?;
    rustix::stdio::dup2_stderr(&null).at(Step::CloseDescriptors)
}

fn signals(caller: &Caller) -> SigSet {
    let mut signals = caller.forwarded();
    signals.add(Signal::SIGCHLD);
    signals
}

/// Gives up what building needed. The command's process inherits it all: empty capability
/// sets, a fresh keyring, the filters. Returns how many filters are in force.
fn give_up_rights(plan: &Plan) -> Result<u8, Failure> {
    // Before the filters, which refuse the keyring calls; inside a sandbox there are some.
    if plan.place == Place::Host {
        sys::join_new_session_keyring().at(Step::NewKeyring)?;
    }
    // Capabilities before no_new_privs and filters: the bounding set takes one to empty, and a
    // filter may be installed without any under no_new_privs.
    privileges::drop_capabilities_for(plan)?;
    privileges::set_no_new_privs()?;
    privileges::install(&plan.filters)
}

/// From here on init only waits, so that nothing in it is worth attacking.
fn hide(keep: &[BorrowedFd<'_>]) -> Result<(), Failure> {
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
        .take(Confined::LEN as u64)
        .read_to_end(&mut confined)
        .at(Step::Fork)?;
    let Some(report) = Confined::decode(&confined) else {
        return Err(failure_of_command(&confined, &line));
    };
    // A failure that came instead is longer.
    let mut more = [0; 1];
    line.set_nonblocking(true).at(Step::Fork)?;
    if let Ok(1) = line.read(&mut more) {
        confined.push(more[0]);
        return Err(failure_of_command(&confined, &line));
    }
    line.set_nonblocking(false).at(Step::Fork)?;
    tell(control, &Message::Ready(report))?;
    if control.receive_order().at(Step::TieToLauncher)? != Some(Order::Release) {
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
fn failure_of_command(begun: &[u8], mut line: &UnixStream) -> Failure {
    let mut bytes = begun.to_vec();
    drop(line.set_nonblocking(false));
    drop(line.read_to_end(&mut bytes));
    Failure::decode(&bytes).unwrap_or_else(|| Failure::new(Step::Fork, Errno::ECHILD))
}

/// Reaps every orphan and passes signals on until the command ends or the launcher is gone.
fn watch(command: Pid, control: &Control, signals: &SignalFd, mut executor: Executor) -> Outcome {
    let mut group = GroupSignals::default();
    loop {
        let own = [signals.as_fd(), control.as_fd()];
        let all = own.into_iter().chain(executor.unattended());
        let mut fds: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ready_or_interrupted = poll(&mut fds, PollTimeout::NONE);
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any() == Some(true)).collect();
        while let Some(number) = read_now(signals) {
            group.note(number);
        }
        if ready[1] {
            match control.receive_order() {
                Ok(Some(Order::Signal(number))) => pass_on(number.into(), command, &mut group),
                // The launcher sends nothing else: this is its end, and so ours. The kernel
                // ends everything in the namespace with us.
                _ => return Outcome::Signaled(Signal::SIGKILL as u8),
            }
        }
        if ready.get(2) == Some(&true) {
            executor.start();
        }
        match reap(command, &mut executor.process) {
            Some(Change::Ended(outcome)) => return outcome,
            Some(Change::Stopped) => drop(control.send(&Message::Stopped)),
            None => {}
        }
    }
}

/// Signals this process itself got lately: they were sent to the whole process group, as the
/// terminal does, for nobody addresses init.
#[derive(Debug, Default)]
struct GroupSignals(Vec<(i32, Instant)>);

impl GroupSignals {
    /// A signal older than this has nothing to do with what the launcher gets now.
    const SAME_EVENT: Duration = Duration::from_secs(1);

    fn note(&mut self, number: i32) {
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

/// Sends the command a signal the launcher got, unless the sender reached both at once.
fn pass_on(number: i32, command: Pid, group: &mut GroupSignals) {
    let sent_to_group = group.take(number);
    let ours = nix::unistd::getpgid(None);
    if sent_to_group && ours == nix::unistd::getpgid(Some(command)) {
        return;
    }
    if let Ok(signal) = Signal::try_from(number) {
        // A command that has ended is noticed when it is reaped.
        let _sent = kill(command, signal);
    }
}

/// Reads the number of a signal that is pending, without waiting for one.
fn read_now(signals: &SignalFd) -> Option<i32> {
    let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, PollTimeout::ZERO) {
        Ok(1..) => Some(signals.read_signal().ok()??.ssi_signo.cast_signed()),
        _ => None,
    }
}

/// What became of the command.
enum Change {
    Ended(Outcome),
    Stopped,
}

/// Waits for whatever has ended; returns what happened to the command, if anything did.
fn reap(command: Pid, executor: &mut Option<Pid>) -> Option<Change> {
    let mut change = None;
    loop {
        let (pid, status) = match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some(changed)) => changed,
            Err(rustix::io::Errno::INTR) => continue,
            Ok(None) | Err(_) => return change,
        };
        if executor.is_some_and(|executor| executor.as_raw() == pid.as_raw_pid())
            && !status.stopped()
        {
            *executor = None;
        }
        if pid.as_raw_pid() != command.as_raw() {
            continue;
        }
        let byte = |number: i32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
        if let Some(code) = status.exit_status() {
            change = Some(Change::Ended(Outcome::Exited(byte(code))));
        } else if let Some(signal) = status.terminating_signal() {
            change = Some(Change::Ended(Outcome::Signaled(byte(signal))));
        } else if status.stopped() && change.is_none() {
            change = Some(Change::Stopped);
        }
    }
}

fn tell(control: &Control, message: &Message) -> Result<(), Failure> {
    control.send(message).at(Step::TieToLauncher)
}
