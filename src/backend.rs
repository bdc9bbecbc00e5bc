//! The seam between what is allowed and how an operating system enforces it.

use std::ffi::OsString;
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;

use serde::Serialize;

use crate::error::Result;
use crate::policy::{Host, Nesting, Policy};

/// The command as the caller gave it, and what it keeps of the caller's.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Command {
    /// Its words; with a shell string, the string's positional parameters.
    pub argv: Vec<OsString>,
    /// A string for the shell, where the caller gave one.
    pub shell_string: Option<OsString>,
    /// Descriptors above 2 it keeps, sorted.
    pub keep_fds: Vec<RawFd>,
    /// The FIFO of a job server, as `MAKEFLAGS` names it.
    pub job_server: Option<PathBuf>,
    /// What is reported of its use of files.
    pub observed: Observed,
    /// Whether it is to be user 0, whose changes of owners are answered and not made.
    pub fake_root: bool,
    /// Whether what it leaves running is waited for, and not ended with it.
    pub keep_background: bool,
}

/// What is reported of the command's use of files beside what is performed for it. Nothing of
/// it decides anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Observed {
    /// Nothing: nobody would read it.
    #[default]
    Nothing,
    /// Writes that the rules refuse, and sockets that nobody is given.
    Writes,
    /// Also reads that they refuse, and each program that is started.
    Everything,
}

/// An operating system's way to confine a command.
pub trait Backend {
    /// What the kernel will be asked.
    type Plan: std::fmt::Display;
    /// A command that is set up and waits.
    type Held: Held;

    /// Turns what is allowed into what the kernel will be asked.
    ///
    /// # Errors
    /// The policy cannot be enforced on this system.
    fn plan(&mut self, policy: &mut Policy, host: &Host, command: &Command) -> Result<Self::Plan>;

    /// Starts the sandbox; the command in it waits for [`Held::release`].
    ///
    /// # Errors
    /// A step failed; nothing is left running.
    fn spawn(self, plan: Self::Plan) -> Result<Self::Held>;
}

/// A sandbox that stands, with its command not yet started.
pub trait Held {
    /// Returns the socket the sandbox hands its listeners over, and the pid it comes from;
    /// `None` where it has no network of its own.
    ///
    /// # Errors
    /// The hand-over has happened or failed already.
    fn hand_off(&self) -> Result<Option<(&OwnedFd, u32)>>;

    /// Waits until every layer holds, and reports what was asked and what is in force.
    ///
    /// # Errors
    /// A layer could not be set up.
    fn report(&mut self) -> Result<Report>;

    /// Starts the command.
    ///
    /// # Errors
    /// The command could not be executed.
    fn release(&mut self) -> Result<()>;

    /// Waits for the end of the command, and of everything it started. `on_readable` is
    /// called whenever one of `watched` is readable, and once at the end; `on_end` once the
    /// command has ended, before what it left behind has.
    ///
    /// # Errors
    /// The sandbox can no longer be watched.
    fn wait(
        self,
        watched: &[&OwnedFd],
        on_readable: &mut dyn FnMut(),
        on_end: &mut dyn FnMut(),
    ) -> Result<Ended>;
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How the command ended.
    pub outcome: Outcome,
    /// The bounds that ended or refused something, as far as that can be told.
    pub reached: Vec<Bound>,
}

/// A bound on what the command may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bound {
    /// Of what.
    pub limit: Limit,
    /// Seconds, bytes or a number.
    pub value: u64,
    /// By what it is kept.
    pub by: Means,
}

/// What is bounded; an event has the key of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Limit {
    /// Seconds the command may run.
    #[serde(rename = "limits.seconds")]
    Seconds,
    /// Bytes of memory.
    #[serde(rename = "limits.memory")]
    Memory,
    /// Processes and threads.
    #[serde(rename = "limits.processes")]
    Processes,
    /// Open files.
    #[serde(rename = "limits.files")]
    Files,
    /// Bytes of a file.
    #[serde(rename = "limits.fileSize")]
    FileSize,
    /// Seconds of processor time.
    #[serde(rename = "limits.cpuSeconds")]
    CpuSeconds,
}

impl Limit {
    /// Returns the key of the settings.
    pub fn key(self) -> &'static str {
        match self {
            Self::Seconds => "limits.seconds",
            Self::Memory => "limits.memory",
            Self::Processes => "limits.processes",
            Self::Files => "limits.files",
            Self::FileSize => "limits.fileSize",
            Self::CpuSeconds => "limits.cpuSeconds",
        }
    }
}

/// By what a bound is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Means {
    /// The first process of the sandbox ends the command.
    #[serde(rename = "init")]
    Init,
    /// A control group of version 2: all processes together.
    #[serde(rename = "cgroup2")]
    Group2,
    /// A control group of version 1: all processes together.
    #[serde(rename = "cgroup1")]
    Group1,
    /// setrlimit(2): each process by itself, and all of the user for their number.
    #[serde(rename = "rlimit")]
    Rlimit,
}

/// How the command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It exited with this status.
    Exited(u8),
    /// This signal ended it.
    Signaled(u8),
}

impl Outcome {
    /// Returns the exit status of `srt`: the command's own, or 128+n for signal n.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Exited(status) => status,
            Self::Signaled(signal) => 128 | signal,
        }
    }
}

/// What was asked of the kernel and what it enforces, both known before the command starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What the launch asked for.
    pub asked: Guarantees,
    /// What is in force: rights and setrlimit(2) as the command's process read them back, Landlock
    /// and filters as the kernel took them; namespaces, locked mounts, control groups and the
    /// deadline, which are made or end the launch.
    pub enforced: Guarantees,
}

/// The layers of one sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Guarantees {
    /// Namespaces of its own.
    pub namespaces: Vec<String>,
    /// Landlock ABI; asked: the newest known, enforced: the kernel's, if older.
    pub landlock_abi: u32,
    /// Landlock repeats the rules for files.
    pub landlock_files: bool,
    /// Seccomp programs in force.
    pub seccomp_filters: u32,
    /// All five capability sets are empty.
    pub no_capabilities: bool,
    /// Namespaces that the command may make.
    pub nesting: Nesting,
    /// The mounts of the start are locked in a namespace of the command's own.
    pub locked_mounts: bool,
    /// No program can gain rights by being executed.
    pub no_new_privs: bool,
    /// What the command may use up, each with what keeps it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Bound>,
}
