//! Carries a plan out: clone, build, confine, hold, release. Takes no policy decision.

mod background;
pub(crate) mod caller;
mod command;
pub(crate) mod control;
mod deadline;
pub mod descriptors;
mod devices;
pub(crate) mod failure;
mod filesystems;
pub(crate) mod foreign;
mod groups;
pub(crate) mod handoff;
pub(crate) mod ids;
mod init;
mod jobs;
pub(crate) mod landlock;
pub(crate) mod limits;
mod links;
mod mount_table;
pub(crate) mod mountinfo;
pub(crate) mod namespaces;
pub(crate) mod network;
mod orphans;
mod pins;
pub(crate) mod privileges;
mod removal;
mod rootfs;
pub mod run_directory;
mod running;
mod terminal;

use std::ffi::CString;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{DumpableBehavior, WaitId, WaitIdOptions};

use crate::backend::{Bound, Ended, Guarantees, Held, Limit, Observed, Outcome, Report};
use crate::error::{Error, Kind, Result};
use crate::linux::plan::{Place, Plan};
use crate::linux::{support, sys};
use crate::policy::{Nesting, NetworkMode};
use caller::Caller;
use control::{Confined, Control, ForBroker, Group, Message, Order};
use foreign::Foreign;
use groups::Groups;
use run_directory::RunDirectory;
use terminal::Terminal;

/// A plan and the private directory it uses.
#[derive(Debug)]
pub struct Launch {
    /// What the kernel will be asked.
    pub plan: Plan,
    pub(crate) run: RunDirectory,
    pub(crate) foreign: Foreign,
}

impl Launch {
    /// Returns the files to try to execute, in order.
    pub(crate) fn programs(&self) -> &[CString] {
        &self.plan.programs
    }

    /// Returns what is told of.
    pub(crate) fn observed(&self) -> Observed {
        self.plan.observed
    }

    /// Says what cannot be written although it is granted, a line each.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        self.foreign.notes()
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = namespaces::of(&self.plan).map(|(_, name)| name).collect();
        match self.plan.place {
            Place::Host => writeln!(f, "namespaces: {}", names.join(" "))?,
            Place::Sandbox => writeln!(f, "namespaces: those of the sandbox around")?,
        }
        for place in self.foreign.places() {
            let place = place.display();
            writeln!(
                f,
                "ids: of {place}, those of its owner and of the caller are swapped"
            )?;
        }
        // The directory has a random name; without it, two plans can be compared.
        let plan = match f.alternate() {
            true => format!("{:#}", self.plan),
            false => self.plan.to_string(),
        };
        f.write_str(&self.run.with_fixed_name(&plan))
    }
}

/// A sandbox that stands. Dropping it ends it.
#[derive(Debug)]
pub struct Sandbox {
    control: Control,
    /// The line to the command's process, until it ends or becomes the command.
    command: Option<Control>,
    told: Told,
    init: u32,
    pidfd: OwnedFd,
    signals: SignalFd,
    /// Until nobody writes to it any more.
    run: Option<RunDirectory>,
    terminal: Option<Terminal>,
    /// Of the command, once it is chosen.
    group: Option<Group>,
    scopes_signals: bool,
    asked: Guarantees,
    stops_calls: bool,
    network: NetworkMode,
    /// Removed once nothing runs in them.
    groups: Groups,
}

/// What the sandbox has told while it was set up.
#[derive(Debug, Default)]
struct Told {
    for_broker: Option<ForBroker>,
    listener: Option<Option<OwnedFd>>,
    confined: Option<Confined>,
    init_is_hidden: bool,
}

/// What the broker needs.
#[derive(Debug)]
pub(crate) struct Trapped {
    /// Where stopped calls arrive; none where only reports are lost by that.
    pub(crate) listener: Option<OwnedFd>,
    pub(crate) for_broker: ForBroker,
}

/// Clones init into its namespaces. The caller must be single-threaded.
pub(super) fn spawn(launch: Launch, caller: Caller) -> Result<Sandbox> {
    let Launch { plan, run, foreign } = launch;
    let groups = Groups::make(&plan.limits.groups)?;
    let terminal = Terminal::of_caller();
    let pair = || Control::pair().map_err(|error| step_failed("socketpair", error));
    let (ours, theirs) = pair()?;
    let (command, of_command) = pair()?;
    let flags = namespaces::of(&plan).fold(0, |flags, (flag, _)| flags | flag);
    let (init, pidfd) =
        match sys::clone_into_namespaces(flags).map_err(|error| cannot_clone(&plan, error))? {
            sys::Forked::Child => {
                // Held here too, it would never be seen to close.
                drop((ours, command));
                let lines = (&theirs, &of_command);
                let sources = (run.socket_path(), foreign, terminal);
                init::run(&plan, &caller, lines, &groups, &sources)
            }
            sys::Forked::Parent(pid, pidfd) => (pid, pidfd),
        };
    drop((theirs, of_command));
    // After the clone: a process that is not dumpable cannot write its own id maps.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| step_failed("prctl(PR_SET_DUMPABLE)", errno))?;
    command::forbid_core_dumps().map_err(|errno| step_failed("setrlimit", errno))?;
    let signals = SignalFd::with_flags(&caller.forwarded(), SfdFlags::SFD_CLOEXEC)
        .map_err(|errno| step_failed("signalfd", errno))?;
    let sandbox = Sandbox {
        control: ours,
        command: Some(command),
        told: Told::default(),
        init: init.as_raw().cast_unsigned(),
        pidfd,
        signals,
        run: Some(run),
        terminal,
        group: None,
        scopes_signals: plan.scopes_signals(),
        asked: asked(&plan),
        stops_calls: plan.stopped.is_some(),
        network: plan.network,
        groups,
    };
    ids::write(&plan.ids, sandbox.init, &sandbox.control)?;
    leave(plan);
    Ok(sandbox)
}

/// Leaves memory to the end of the process. To free it is to write to pages that the children
/// share, which copies each page first: ten thousand rules take longer to free than to enforce.
pub(crate) fn leave<T>(unused: T) {
    std::mem::forget(unused);
}

fn asked(plan: &Plan) -> Guarantees {
    let filters = plan.filters.iter().chain(&plan.stopped).count();
    let names = namespaces::of(plan).map(|(_, name)| name.to_owned());
    Guarantees {
        namespaces: names.collect(),
        landlock_abi: support::MAX_LANDLOCK_ABI.cast_unsigned(),
        landlock_files: !plan.ruleset.is_empty(),
        seccomp_filters: u32::try_from(filters).unwrap_or(u32::MAX),
        no_capabilities: !plan.keeps_capabilities(),
        nesting: plan.nesting,
        locked_mounts: plan.nesting == Nesting::Mounts,
        no_new_privs: true,
        limits: plan.limits.bounds.clone(),
    }
}

fn step_failed(call: &str, error: impl Into<std::io::Error>) -> Error {
    Error::new(Kind::Launch, "cannot start the sandbox").call(call, error)
}

fn cannot_clone(plan: &Plan, error: std::io::Error) -> Error {
    let errno = error.raw_os_error();
    let exhausted = (errno == Some(libc::ENOSPC)).then(|| namespaces::exhausted(plan));
    let failed = Error::new(Kind::Unsupported, "cannot create namespaces").call("clone3", error);
    match exhausted.flatten() {
        Some(name) => failed.with_hint(format!(
            "no more {name} namespaces may be made: raise the sysctl user.max_{name}_namespaces, \
             here and in every user namespace around"
        )),
        None => failed.with_hint(support::remedy_for_namespaces(errno)),
    }
}

impl Sandbox {
    /// Waits for the next message of init or of the command's process, or for a signal that ends
    /// the launch.
    fn next_message(&mut self) -> Result<Message> {
        loop {
            // The command's last, and read first: why it ended was said before init says that.
            let lines = [self.control.as_fd(), self.signals.as_fd()].into_iter();
            let lines = lines.chain(self.command.as_ref().map(AsFd::as_fd));
            let mut fds: Vec<_> = lines.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            wait_for(&mut fds);
            let is_ready: Vec<bool> = fds.iter().map(|fd| fd.any() == Some(true)).collect();
            if let (Some(true), Some(command)) = (is_ready.get(2), &self.command) {
                match command.receive() {
                    Ok(Some(message)) => return Ok(message),
                    // Init knows more of its end.
                    Ok(None) | Err(_) => self.command = None,
                }
            } else if is_ready[0] {
                return match self.control.receive() {
                    Ok(Some(message)) => Ok(message),
                    Ok(None) | Err(_) => Err(self.process_is_gone()),
                };
            } else if is_ready[1]
                && let Ok(Some(info)) = self.signals.read_signal()
                && ends_a_launch(info.ssi_signo)
            {
                let number = u8::try_from(info.ssi_signo).unwrap_or(u8::MAX);
                let goal = "stopped by a signal before the command was started";
                return Err(Error::new(Kind::Interrupted(number), goal));
            }
        }
    }

    /// Waits for one message, and notes what it tells.
    fn listen(&mut self) -> Result<()> {
        match self.next_message()? {
            Message::HandedOver(for_broker) => {
                if let Some(run) = &mut self.run {
                    run.unlink_socket();
                }
                self.told.for_broker = for_broker;
            }
            Message::Hidden => self.told.init_is_hidden = true,
            Message::Stopping(listener) => self.told.listener = Some(listener),
            Message::Ready(confined) => self.told.confined = Some(confined),
            // By nobody of the sandbox: it goes on when whoever did it has it go on.
            Message::Stopped(_) | Message::Background => {}
            Message::Failed(failure) => return Err(failure.into()),
            Message::Ended { .. } => return Err(self.process_is_gone()),
        }
        Ok(())
    }

    fn process_is_gone(&self) -> Error {
        Error::new(
            Kind::Launch,
            "a process of the sandbox ended while it was set up",
        )
        .with_hint("it may have been killed for want of memory: see the kernel's log")
    }

    /// Waits until init is gone, and with it every process of the sandbox.
    fn wait_for_end(&self) {
        let id = WaitId::PidFd(self.pidfd.as_fd());
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitid(id.clone(), WaitIdOptions::EXITED)
        {}
    }

    /// Returns the bounds that ended or refused something, as far as that can be told.
    fn reached(&self, outcome: Outcome, timed_out: bool) -> Vec<Bound> {
        // A shell exits as its last command ended.
        let by = |signal: Signal| outcome.exit_code() == 128 | signal as u8;
        let is_reached = |bound: &&Bound| match bound.limit {
            Limit::Seconds => timed_out,
            Limit::Memory | Limit::Processes => self.groups.has_refused(bound.limit),
            Limit::CpuSeconds => by(Signal::SIGXCPU),
            Limit::FileSize => by(Signal::SIGXFSZ),
            Limit::Files => false,
        };
        let bounds = self.asked.limits.iter();
        bounds.filter(is_reached).copied().collect()
    }

    fn report_of(&self, confined: &Confined) -> Report {
        let asked = self.asked.clone();
        let enforced = Guarantees {
            landlock_abi: confined.landlock_abi.into(),
            seccomp_filters: confined.seccomp_filters.into(),
            no_capabilities: confined.no_capabilities,
            no_new_privs: confined.no_new_privs,
            limits: limits::in_force(&asked.limits, &confined.rlimits),
            // Not read back: clone3(2), Landlock and the locks succeed or end the launch.
            namespaces: asked.namespaces.clone(),
            landlock_files: asked.landlock_files,
            nesting: asked.nesting,
            locked_mounts: asked.locked_mounts,
        };
        Report { asked, enforced }
    }
}

/// Exit status of a command whose time was up, as of timeout(1).
const TIMED_OUT: u8 = 124;

/// Waits until one of `fds` is ready. An interrupted poll is repeated by the caller's loop.
fn wait_for(fds: &mut [PollFd<'_>]) {
    let _ready_or_interrupted = poll(fds, PollTimeout::NONE);
}

fn ends_a_launch(number: u32) -> bool {
    matches!(
        Signal::try_from(number.cast_signed()),
        Ok(Signal::SIGTERM | Signal::SIGINT | Signal::SIGHUP | Signal::SIGQUIT)
    )
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        // Init may be building still: waiting for it means that no process of ours is left
        // when `srt` ends. After a run it is gone already.
        let killed = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        if killed.is_ok() {
            self.wait_for_end();
        }
        // Behind the last process that could take it.
        if let Some(terminal) = &self.terminal {
            terminal.hand_back();
        }
    }
}

impl Sandbox {
    /// Returns the number of the first process of the sandbox, as the host counts.
    pub(crate) fn first_process(&self) -> u32 {
        self.init
    }

    /// Tells whether a broker is to perform calls of the command.
    pub(crate) fn stops_calls(&self) -> bool {
        self.stops_calls
    }

    /// Waits until the command's calls are stopped; `None` where none are.
    ///
    /// # Errors
    /// A step of the launch failed.
    pub(crate) fn trapped(&mut self) -> Result<Option<Trapped>> {
        if !self.stops_calls {
            return Ok(None);
        }
        while self.told.listener.is_none() || self.told.for_broker.is_none() {
            self.listen()?;
        }
        let parts = self.told.listener.take().zip(self.told.for_broker.take());
        Ok(parts.map(|(listener, for_broker)| Trapped {
            listener,
            for_broker,
        }))
    }
}

impl Held for Sandbox {
    fn hand_off(&self) -> Result<Option<(&OwnedFd, u32)>> {
        if self.network == NetworkMode::Open {
            return Ok(None);
        }
        let socket = self.run.as_ref().and_then(RunDirectory::socket);
        let socket = socket.ok_or_else(|| self.process_is_gone())?;
        Ok(Some((socket, self.init)))
    }

    fn report(&mut self) -> Result<Report> {
        loop {
            match &self.told.confined {
                Some(confined) if self.told.init_is_hidden => return Ok(self.report_of(confined)),
                _ => self.listen()?,
            }
        }
    }

    fn release(&mut self) -> Result<()> {
        let command = self.command.take().ok_or_else(|| self.process_is_gone())?;
        let released = command.send_order(Order::Release(self.group()));
        // From here on a signal is the command's: it waits until it can be passed on.
        match command.receive() {
            Ok(Some(Message::Failed(failure))) => Err(failure.into()),
            // The line closes by itself when the command is executed.
            Ok(None) if released.is_ok() => Ok(()),
            _ => Err(self.process_is_gone()),
        }
    }

    fn wait(
        mut self,
        watched: &[&OwnedFd],
        on_readable: &mut dyn FnMut(),
        on_end: &mut dyn FnMut(),
    ) -> Result<Ended> {
        let mut watched: Vec<_> = watched.iter().map(AsFd::as_fd).collect();
        let (outcome, is_last, timed_out) = loop {
            let own = [self.control.as_fd(), self.signals.as_fd()];
            let all = own.into_iter().chain(watched.iter().copied());
            let mut fds: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
            wait_for(&mut fds);
            let happened =
                |fd: &PollFd<'_>, what| fd.revents().is_some_and(|is| is.intersects(what));
            let (own, others) = fds.split_at(own.len());
            if others.iter().any(|fd| happened(fd, PollFlags::POLLIN)) {
                on_readable();
            }
            // A process that is gone, and what it sent has just been read: a closed line stays
            // readable for ever.
            let mut open = others.iter().map(|fd| !happened(fd, PollFlags::POLLHUP));
            let [message, signal] = [&own[0], &own[1]].map(|fd| happened(fd, PollFlags::all()));
            watched.retain(|_| open.next() != Some(false));
            if signal {
                self.forward();
            }
            if message {
                match self.control.receive() {
                    Ok(Some(Message::Stopped(signal))) => self.stop(signal),
                    Ok(Some(Message::Background)) => self.take_terminal(),
                    Ok(Some(Message::Ended {
                        outcome,
                        is_last,
                        timed_out,
                    })) => break (outcome, is_last, timed_out),
                    // Killed from outside: the kernel killed the command with it.
                    _ => break (Outcome::Signaled(9), false, false),
                }
            }
        };
        on_end();
        if is_last {
            // While init ends, which takes as long.
            self.run = None;
        }
        self.wait_for_end();
        on_readable();
        Ok(Ended {
            outcome: match timed_out {
                true => Outcome::Exited(TIMED_OUT),
                false => outcome,
            },
            reached: self.reached(outcome, timed_out),
        })
    }
}
