//! Confinement by the primitives of the Linux kernel.

pub(crate) mod broker;
pub(crate) mod datagrams;
pub(crate) mod executor;
pub(crate) mod inet_diag;
mod inner;
pub mod launch;
pub(crate) mod netlink;
pub(crate) mod passing;
pub mod plan;
pub(crate) mod processes;
mod reopening;
pub mod support;
pub(crate) mod sys;
pub(crate) mod unix_diag;

use std::ffi::OsStr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::backend::{Backend, Command};
use crate::error::{Error, Kind, Result};
use crate::policy::filesystem::Access;
use crate::policy::path::{FileKind, RealPath};
use crate::policy::{Host, Nested, NetworkMode, Policy};
use launch::caller::Caller;
use launch::foreign::Foreign;
use launch::ids;
use launch::limits;
use launch::mountinfo::{self, Mount, Watched};
use launch::run_directory::RunDirectory;
use launch::{Launch, Sandbox};
use plan::{Inputs, Layers, Place, Plan};

/// How often mounts are looked at until they stay the same for long enough.
const LOOKS: usize = 100;

/// The Linux backend, holding what the caller had set and what was mounted.
#[derive(Debug)]
pub struct Linux {
    caller: Caller,
    place: Place,
    mounts: Watched,
}

impl Linux {
    /// Notes the caller's signals and umask, and takes our own.
    ///
    /// # Errors
    /// The standard descriptors hold something that would be a hole in the rules, or this
    /// process runs in a sandbox and `nested` says that no other is to be started there, or the
    /// mount table cannot be read.
    pub fn new(command: &Command, nested: Nested) -> Result<Self> {
        launch::descriptors::check_standard()?;
        let place = inner::place(nested)?;
        Ok(Self {
            caller: Caller::note(&command.keep_fds)?,
            place,
            mounts: Watched::open().map_err(unreadable_mounts)?,
        })
    }

    /// Returns what was mounted.
    pub(crate) fn mounts(&self) -> &[Mount] {
        self.mounts.all()
    }

    /// Denies what is denied under every name that a mount gives it, as long as it takes to do
    /// so while nothing is mounted.
    fn cover_aliases(&mut self, policy: &mut Policy) -> Result<()> {
        for _ in 0..LOOKS {
            cover_aliases(policy, self.mounts.all())?;
            if !self.mounts.renew().map_err(unreadable_mounts)? {
                return Ok(());
            }
        }
        let goal = "the mounts of this machine change all the time";
        Err(Error::new(Kind::Launch, goal)
            .with_hint("start again once nothing mounts and unmounts"))
    }

    /// Hands out what was mounted when the plan was made.
    pub(crate) fn take_mounts(&mut self) -> Watched {
        std::mem::take(&mut self.mounts)
    }

    /// Returns where the run stands.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Narrows a policy to what holds where this process runs.
    ///
    /// # Errors
    /// A rule of it would not hold.
    pub fn fit(&self, policy: &mut Policy) -> Result<()> {
        match self.place {
            Place::Host => Ok(()),
            Place::Sandbox => inner::fit(policy),
        }
    }
}

impl Backend for Linux {
    type Plan = Launch;
    type Held = Sandbox;

    fn plan(&mut self, policy: &mut Policy, host: &Host, command: &Command) -> Result<Launch> {
        let cwd = RealPath::resolve(&host.cwd).map_err(|error| {
            Error::new(Kind::Usage, "cannot use the working directory")
                .call(format!("realpath({})", host.cwd.display()), error)
                .with_hint("change to a directory you can enter")
        })?;
        self.cover_aliases(policy)?;
        let run = RunDirectory::create(host, policy, self.place)?;
        // Inside a sandbox nothing can be hidden, and its own are hidden already.
        if self.place == Place::Host {
            for runs in run.all_runs()? {
                policy.filesystem.hide_runs(runs);
            }
            leave_names_to_be_asked_for(policy);
        }
        let own_tmpdir = own_tmpdir(policy, host);
        let private = run.real_path()?;
        let tmpdir = own_tmpdir.unwrap_or_else(|| private.as_path().to_owned());
        // Always: init finds the proxies' socket there.
        policy.filesystem.grant_private(private);
        let layers = layers(host);
        let limits = limits::plan(policy.limits, self.place, host.uid, self.mounts.all())?;
        let ids = ids::plan(host, command.fake_root, self.place)?;
        let plan = Plan::from_policy(
            policy,
            Inputs {
                host,
                cwd,
                command,
                job_server: job_server(policy, host, command),
                shell: command.shell_string.as_ref().map_or("", |_| shell(host)),
                tmpdir,
                layers,
                place: self.place,
                limits,
                ids,
                landlock_abi: landlock_abi(host),
            },
        )?;
        reopening::check(&plan, &policy.filesystem)?;
        let foreign = Foreign::of(&plan);
        Ok(Launch { plan, run, foreign })
    }

    fn spawn(self, launch: Launch) -> Result<Sandbox> {
        launch::spawn(launch, self.caller)
    }
}

/// Reads what is mounted.
///
/// # Errors
/// The mount table cannot be read.
pub(crate) fn mounts() -> Result<Vec<Mount>> {
    mountinfo::read().map_err(unreadable_mounts)
}

fn unreadable_mounts(error: std::io::Error) -> Error {
    Error::new(Kind::Unsupported, "cannot read the mount table")
        .call(format!("read({})", mountinfo::TABLE), error)
        .with_hint("mount /proc")
}

/// Makes sure that the sandbox, whose first process is `init`, shows no tree at a place where it
/// was not when the plan was made.
///
/// # Errors
/// It does, or that cannot be told.
pub(crate) fn refuse_new_names(mut before: Watched, init: u32) -> Result<()> {
    match before.new_name_in(init).map_err(unreadable_mounts)? {
        Some(place) => {
            let goal = format!(
                "{} was mounted while the sandbox was set up",
                place.display()
            );
            Err(Error::new(Kind::Launch, goal).with_hint("start again"))
        }
        None => Ok(()),
    }
}

/// Adds to a policy what every run adds to it here, but for what it makes for itself.
///
/// # Errors
/// It cannot be told where else something denied is seen.
pub(crate) fn complete(policy: &mut Policy, host: &Host, mounts: &[Mount]) -> Result<()> {
    cover_aliases(policy, mounts)?;
    for runs in RunDirectory::runs_of(host, &policy.filesystem) {
        policy.filesystem.hide_runs(runs);
    }
    leave_names_to_be_asked_for(policy);
    Ok(())
}

/// Has the programs inside ask for the names that this host keeps in a file, where they are
/// answered. One that cannot be read is none for them either.
fn leave_names_to_be_asked_for(policy: &mut Policy) {
    if policy.network_mode == NetworkMode::Open || !policy.network.is_transparent() {
        return;
    }
    let Ok(names) = std::fs::read(LOCAL_NAMES) else {
        return;
    };
    // Names are ASCII; comments need not be.
    let names = String::from_utf8_lossy(&names);
    let left = policy.network.without_names_to_ask_for(&names);
    if let (Some(left), Ok(path)) = (left, RealPath::resolve(Path::new(LOCAL_NAMES))) {
        policy.filesystem.show_in_place(path, left);
    }
}

/// See hosts(5).
const LOCAL_NAMES: &str = "/etc/hosts";

/// Denies a path under every name that a bind mount gives it.
fn cover_aliases(policy: &mut Policy, mounts: &[Mount]) -> Result<()> {
    let denied = policy.filesystem.denied();
    let aliases = mountinfo::aliases(mounts, denied.iter()).map_err(|error| {
        let goal = "cannot tell where else something denied is mounted";
        Error::new(Kind::Launch, goal)
            .call("openat2", error)
            .with_hint(
                "the server of a mount in /proc/self/mountinfo may be gone; in a container, allow \
                 openat2 in its seccomp profile",
            )
    })?;
    policy.filesystem.deny_aliases(&aliases);
    Ok(())
}

/// Returns the shell that people write for where there is one.
fn shell(host: &Host) -> &'static str {
    match host.is_program(OsStr::new("bash")) {
        true => "bash",
        false => "sh",
    }
}

/// Returns the caller's TMPDIR where the command may write it.
fn own_tmpdir(policy: &Policy, host: &Host) -> Option<PathBuf> {
    let named = PathBuf::from(host.var("TMPDIR")?);
    let real = RealPath::resolve(&named)
        .ok()
        .filter(|_| named.is_absolute())?;
    let writable = policy.filesystem.access(real.as_path()) == Access::Write;
    (writable && real.id().kind == FileKind::Directory).then_some(named)
}

/// Returns the job server's FIFO under its real name, where the command may see it. Anything
/// else is left to the command: `MAKEFLAGS` may have outlived the make that set it.
fn job_server(policy: &Policy, host: &Host, command: &Command) -> Option<PathBuf> {
    let named = host.cwd.join(command.job_server.as_ref()?);
    let real = RealPath::resolve(&named).ok()?;
    let found = std::fs::symlink_metadata(real.as_path()).ok()?;
    let visible = policy.filesystem.access(real.as_path()) != Access::Hidden;
    (found.file_type().is_fifo() && visible).then(|| real.as_path().to_owned())
}

#[cfg(not(feature = "test-hooks"))]
fn layers(_host: &Host) -> Layers {
    Layers::Both
}

#[cfg(not(feature = "test-hooks"))]
fn landlock_abi(_host: &Host) -> i32 {
    sys::landlock_abi()
}

/// Lets a test have an older kernel, as far as Landlock goes; such a build is never shipped.
#[cfg(feature = "test-hooks")]
fn landlock_abi(host: &Host) -> i32 {
    let older = host.var("SRT_TEST_LANDLOCK_ABI").and_then(OsStr::to_str);
    let older = older.and_then(|abi| abi.parse().ok());
    older.unwrap_or(i32::MAX).min(sys::landlock_abi())
}

/// Lets a test switch one file layer off; such a build is never shipped.
#[cfg(feature = "test-hooks")]
fn layers(host: &Host) -> Layers {
    match host.var("SRT_TEST_LAYERS").and_then(OsStr::to_str) {
        Some("mounts") => Layers::Mounts,
        Some("landlock") => Layers::Landlock,
        _ => Layers::Both,
    }
}
