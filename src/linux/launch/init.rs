//! Process 1 of the sandbox: builds it, starts the command, then reaps and forwards signals.

use std::convert::Infallible;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::stat::{Mode, umask};
use nix::unistd::Pid;
use rustix::process::{DumpableBehavior, WaitId, WaitIdOptions, WaitOptions, wait, waitid};

use super::caller::Caller;
use super::command;
use super::control::{Confined, Control, ForBroker, Message, Order};
use super::deadline::{Deadline, Turn};
use super::failure::{At, Failure, Step};
use super::foreign::Foreign;
use super::groups::Groups;
use super::running::{GroupSignals, Running};
use super::terminal::Terminal;
use super::{
    background, handoff, landlock, mount_table, namespaces, network, orphans, pins, privileges,
    rootfs,
};
use crate::backend::Outcome;
use crate::linux::plan::{HostSockets, Place, Plan};
use crate::linux::sys::{self, Forked};
use crate::linux::{executor, unix_diag};
use crate::policy::{Nesting, NetworkMode};

/// What of the host there is beside the plan: the proxies' socket, trees that were copied
/// already, and the terminal.
pub(super) type Sources = (PathBuf, Foreign, Option<Terminal>);

/// Runs the sandbox from its first act to the command's end.
///
/// `control` is the line to the launcher; `of_command` that of the command's process.
pub(super) fn run(
    plan: &Plan,
    caller: &Caller,
    (control, of_command): (&Control, &Control),
    groups: &Groups,
    sources: &Sources,
) -> ! {
    let failure = match stand_up(plan, caller, (control, of_command), groups, sources) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    end(control, &Message::Failed(failure))
}

/// Ends this process with a last word.
fn end(control: &Control, last: &Message) -> ! {
    // A launcher that is gone cannot be told, and needs no telling.
    drop(control.send(last));
    sys::exit_now(0)
}

fn stand_up(
    plan: &Plan,
    caller: &Caller,
    (control, of_command): (&Control, &Control),
    groups: &Groups,
    sources: &Sources,
) -> Result<Infallible, Failure> {
    namespaces::tie_to_launcher(plan, control)?;
    let built = match plan.place {
        Place::Host => build(plan, control, sources)?,
        Place::Sandbox => {
            orphans::adopt()?;
            Built::default()
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
        rlimits: Vec::new(),
    };
    let terminal = sources.2.as_ref();
    let command = start_command(plan, caller, confined, groups, terminal, of_command)?;
    // The command keeps some that init needs no more.
    if plan.keeps_capabilities() {
        privileges::drop_capabilities()?;
    }
    // While the command's process confines itself: this takes as long.
    if let Some(table) = built.mount_table {
        mount_table::verify_read_only(table, &plan.mounts)?;
    }
    let lines = [&built.proxies, &built.executor].into_iter().flatten();
    let lines = lines.map(AsFd::as_fd);
    let lines = lines.chain(terminal.map(AsFd::as_fd));
    let keep = [signals.as_fd(), control.as_fd()].into_iter().chain(lines);
    hide(&keep.collect::<Vec<_>>())?;
    control.send(&Message::Hidden).at(Step::TellLauncher)?;
    let mut deadline = Deadline::new(plan.limits.seconds());
    let mut executor = Executor::new(built.executor);
    let outcome = watch(
        plan,
        command,
        (control, &signals),
        terminal,
        &mut executor,
        &mut deadline,
    );
    if plan.place == Place::Sandbox {
        orphans::end();
    }
    // While the other lines are open: whom their end wakes up would run before the launcher.
    let is_last = background::has_ended() && executor.process.is_none();
    let timed_out = deadline.has_passed();
    let ended = Message::Ended {
        outcome,
        is_last,
        timed_out,
    };
    end(control, &ended)
}

/// What only a run on a host has.
#[derive(Default)]
struct Built {
    /// The line by which the executor serves the broker.
    executor: Option<OwnedFd>,
    /// The line to the proxies.
    proxies: Option<OwnedFd>,
    /// What was mounted, to be read back.
    mount_table: Option<File>,
}

/// Builds the view and the network.
fn build(
    plan: &Plan,
    control: &Control,
    (egress_socket, foreign, _): &Sources,
) -> Result<Built, Failure> {
    // First: until then this process has no id that may own or mount anything.
    namespaces::map_ids(&plan.ids, control)?;
    // While the host's /proc is there, of which what is about the network can be written.
    if plan.network == NetworkMode::Filtered {
        network::set_parameters();
    }
    // The modes of what is made are meant as they are written.
    umask(Mode::empty());
    rootfs::build(plan, foreign)?;
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
    let (redirection, datagrams) = match network {
        Some(network) => (network.redirection, network.datagrams),
        None => (None, None),
    };
    let (executor, for_broker) = match plan.stopped {
        Some(_) => {
            let (ours, theirs) = executor::pair().at(Step::PairLines)?;
            let for_broker = ForBroker {
                // Made here and now: it tells of this namespace, and the filters refuse it.
                unix_diag: match plan.host_sockets {
                    HostSockets::Closed => Some(unix_diag::open().at(Step::AskSockets)?),
                    HostSockets::Open => None,
                },
                executor: theirs,
                redirection,
                datagrams,
            };
            (Some(ours), Some(for_broker))
        }
        None => (None, None),
    };
    let handed_over = Message::HandedOver(for_broker);
    control.send(&handed_over).at(Step::HandToLauncher)?;
    // Before Landlock, which may not let it be opened.
    let mount_table = Some(mount_table::open()?);
    if plan.nesting == Nesting::Mounts {
        pins::make()?;
    }
    Ok(Built {
        executor,
        proxies,
        mount_table,
    })
}

/// Forks the command's process; it confines itself and waits.
fn start_command(
    plan: &Plan,
    caller: &Caller,
    confined: Confined,
    groups: &Groups,
    terminal: Option<&Terminal>,
    line: &Control,
) -> Result<Pid, Failure> {
    // Blocked before the fork: a signal for the command waits for it, and a SIGCHLD for us.
    signals(caller).thread_block().at(Step::SetMask)?;
    match sys::fork().at(Step::Fork)? {
        Forked::Child => command::run(plan, caller, confined, groups, terminal, line),
        Forked::Parent(pid, _) => Ok(pid),
    }
}

/// The executor, which is forked when the broker first asks something of it, and again
/// should it have been killed.
struct Executor {
    line: Option<OwnedFd>,
    process: Option<OwnedFd>,
}

impl Executor {
    fn new(line: Option<OwnedFd>) -> Self {
        Self {
            line,
            process: None,
        }
    }

    /// Returns what is readable when it has ended or, where there is none, when there is a
    /// request that nobody takes.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.process
            .as_ref()
            .or(self.line.as_ref())
            .map(AsFd::as_fd)
    }

    /// Does what is to be done when that is readable.
    fn attend(&mut self) {
        match self.process.take() {
            Some(ended) => drop(waitid(WaitId::PidFd(ended.as_fd()), OF_HELPERS)),
            None => self.start(),
        }
    }

    fn start(&mut self) {
        let Some(line) = &self.line else { return };
        match sys::fork_helper() {
            Ok(Forked::Child) => {
                // The broker notices by its lines that it has ended.
                drop(shut_in(line).map(|()| executor::serve(line)));
                sys::exit_now(0)
            }
            Ok(Forked::Parent(_, pidfd)) => self.process = Some(pidfd),
            // Closing the line has the broker refuse what it would ask.
            Err(_) => self.line = None,
        }
    }
}

/// `__WALL` too: without it, a helper is no child to be waited for.
const OF_HELPERS: WaitIdOptions = WaitIdOptions::EXITED.union(WaitIdOptions::from_bits_retain(
    libc::__WALL.cast_unsigned(),
));

/// Leaves the executor with its line, out of reach of the terminal and of other processes.
fn shut_in(line: &OwnedFd) -> Result<(), Failure> {
    nix::unistd::setsid().at(Step::NewSession)?;
    hide(&[line.as_fd()])?;
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .at(Step::OpenNull)?;
    rustix::stdio::dup2_stdin(&null).at(Step::ReplaceStreams)?;
    rustix::stdio::dup2_stdout(&null).at(Step::ReplaceStreams)?;
    rustix::stdio::dup2_stderr(&null).at(Step::ReplaceStreams)
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
    command::forbid_core_dumps().at(Step::ForbidCoreDumps)
}

/// Reaps every orphan and passes signals on until the command ends, and what it leaves running
/// where that is waited for; at its deadline or before, or when the launcher is gone.
fn watch(
    plan: &Plan,
    command: Pid,
    (control, signals): (&Control, &SignalFd),
    terminal: Option<&Terminal>,
    executor: &mut Executor,
    deadline: &mut Deadline,
) -> Outcome {
    let mut group = GroupSignals::default();
    let mut running = Running::Command(command);
    loop {
        let own = [signals.as_fd(), control.as_fd()];
        let all = own.into_iter().chain(executor.watched());
        let mut fds: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ready_or_interrupted = poll(&mut fds, deadline.patience());
        match deadline.turn() {
            Turn::Wait => {}
            Turn::Ask => running.ask_to_end(plan.place),
            Turn::End => return running.outcome(),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any() == Some(true)).collect();
        while let Some(number) = read_now(signals) {
            group.note(number);
        }
        if ready[1] {
            match control.receive_order() {
                Ok(Some(Order::Signal(number))) => {
                    running.pass_on(plan.place, number.into(), &mut group);
                }
                Ok(Some(Order::Continue { in_foreground })) => {
                    running.resume(terminal.filter(|_| in_foreground));
                }
                // The launcher sends nothing else: this is its end, and so ours. The kernel
                // ends everything in the namespace with us.
                _ => return Outcome::Signaled(Signal::SIGKILL as u8),
            }
        }
        if ready.get(2) == Some(&true) {
            executor.attend();
        }
        match reap(command) {
            Some(Change::Ended(outcome)) if plan.keep_background => {
                running = Running::Background(outcome);
                drop(control.send(&Message::Background));
            }
            Some(Change::Ended(outcome)) => return outcome,
            Some(Change::Stopped(signal)) => drop(control.send(&Message::Stopped(signal))),
            None => {}
        }
        if let Running::Background(outcome) = running
            && background::has_ended()
        {
            return outcome;
        }
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
    Stopped(u8),
}

/// Waits for whatever has ended; returns what happened to the command, if anything did.
fn reap(command: Pid) -> Option<Change> {
    let mut change = None;
    loop {
        let (pid, status) = match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some(changed)) => changed,
            Err(rustix::io::Errno::INTR) => continue,
            Ok(None) | Err(_) => return change,
        };
        if pid.as_raw_pid() != command.as_raw() {
            continue;
        }
        let byte = |number: i32| u8::try_from(number & 0xff).unwrap_or(u8::MAX);
        if let Some(code) = status.exit_status() {
            change = Some(Change::Ended(Outcome::Exited(byte(code))));
        } else if let Some(signal) = status.terminating_signal() {
            change = Some(Change::Ended(Outcome::Signaled(byte(signal))));
        } else if let Some(signal) = status.stopping_signal()
            && change.is_none()
        {
            change = Some(Change::Stopped(byte(signal)));
        }
    }
}
