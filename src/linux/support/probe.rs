//! Finds out what this machine gives, by doing each act once in a process that is thrown away.
//!
//! No setting of the kernel is read in place of an act: what a sysctl promises, a container
//! or a security module may still refuse.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};

use super::{files, kernel, network, remedy_for_namespaces};
use crate::error::{Error, Kind, Result};
use crate::linux::sys::{self, Forked};

/// What a protection is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Rungs 1 and 2.
    Both,
    /// Rung 1, which every run has.
    First,
    /// Rung 2 alone, in place of what only rung 1 has.
    Second,
    /// Asked for by a run, which does without it where the kernel is older.
    Wanted,
    /// Not asked for in this version.
    Later,
}

/// One protection, and the act that shows it.
pub(super) struct Probe {
    name: &'static str,
    need: Need,
    act: Act,
    /// Namespaces the act is done in, besides a user namespace; `None` for this process's own.
    within: Option<libc::c_int>,
    remedy: &'static str,
}

/// Does something and looks whether it had an effect. The argument is the caller's user and
/// group, which a process in a new user namespace cannot ask for.
pub(super) type Act = fn((u32, u32)) -> Result<(), Lack>;

/// Why a protection is not to be had here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The call that was refused.
    pub call: String,
    /// Its error; 0 where the call went well and changed nothing.
    pub errno: i32,
}

/// What became of one probe.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The protection.
    pub name: &'static str,
    /// What it is asked for.
    pub need: Need,
    /// Why it is not to be had; `None` where it is.
    pub lack: Option<Lack>,
    /// What to do about it.
    pub remedy: Option<&'static str>,
}

/// What this machine gives.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Release of the running kernel: `6.18.5`.
    pub kernel: String,
    /// Landlock ABI of the running kernel; 0 for none.
    pub landlock_abi: i32,
    /// Whether this process runs in a sandbox of ours.
    pub is_inside: bool,
    /// Every protection, in the order a launch asks for them.
    pub findings: Vec<Finding>,
}

impl Machine {
    /// Does every act. The caller must be single-threaded.
    ///
    /// # Errors
    /// No process could be started, so that nothing can be said.
    pub fn find_out() -> Result<Self> {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").map_err(|error| {
            Error::new(Kind::Unsupported, "cannot tell the kernel's release")
                .call("read(/proc/sys/kernel/osrelease)", error)
                .with_hint("mount /proc")
        })?;
        // A process that does nothing: without it, every failure would be blamed on the host.
        in_child(None, |_| Ok(())).map_err(|lack| {
            Error::new(Kind::Unsupported, "cannot start a process")
                .call(lack.call, io::Error::from_raw_os_error(lack.errno))
        })?;
        let findings = all().map(|probe| Finding::of(&probe)).collect();
        Ok(Self {
            kernel: kernel.trim_end().to_owned(),
            landlock_abi: sys::landlock_abi(),
            is_inside: super::is_inside_sandbox(),
            findings,
        })
    }

    /// Returns the rung this machine allows: 1 all of it, 2 without namespaces, 3 nothing.
    pub fn rung(&self) -> u8 {
        let holds = |needs: &[Need]| {
            let mut asked = self
                .findings
                .iter()
                .filter(|finding| needs.contains(&finding.need));
            asked.all(|finding| finding.lack.is_none())
        };
        match () {
            () if holds(&[Need::Both, Need::First]) => 1,
            () if holds(&[Need::Both, Need::Second]) => 2,
            () => 3,
        }
    }
}

impl Finding {
    fn of(probe: &Probe) -> Self {
        let lack = in_child(probe.within, probe.act).err();
        let remedy = lack.as_ref().map(|lack| match lack.call.as_str() {
            CLONE => remedy_for_namespaces(Some(lack.errno)),
            _ => probe.remedy,
        });
        Self {
            name: probe.name,
            need: probe.need,
            lack,
            remedy,
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            None => write!(f, "{}: accepted without effect", self.call),
            Some(name) => {
                let errno = Errno::from_raw(self.errno);
                write!(f, "{}: {name} ({})", self.call, errno.desc())
            }
        }
    }
}

impl Lack {
    /// Names the error as strace does; `None` where the call went well and changed nothing.
    pub fn name(&self) -> Option<String> {
        (self.errno != 0).then(|| format!("{:?}", Errno::from_raw(self.errno)))
    }

    /// The call went well, and what it should keep out still works.
    pub(super) fn without_effect(call: &str) -> Self {
        Self {
            call: call.to_owned(),
            errno: 0,
        }
    }
}

/// Adds the name of the call to its error.
pub(super) trait On<T> {
    fn on(self, call: &str) -> Result<T, Lack>;
}

impl<T, E: Into<io::Error>> On<T> for Result<T, E> {
    fn on(self, call: &str) -> Result<T, Lack> {
        self.map_err(|error| Lack {
            call: call.to_owned(),
            // EIO stands for an error that no system call gave.
            errno: error.into().raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

const CLONE: &str = "clone3";

/// Longest an act may take; none waits for anything but its own processes.
const PATIENCE_MS: u16 = 10_000;

fn in_child(within: Option<libc::c_int>, act: Act) -> Result<(), Lack> {
    let ids = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    let (report, theirs) = io::pipe().on("pipe2")?;
    let forked = match within {
        Some(flags) => sys::clone_into_namespaces(libc::CLONE_NEWUSER | flags).on(CLONE),
        None => sys::fork().on("fork"),
    };
    let child = match forked? {
        Forked::Child => {
            drop(report);
            tell(theirs, act(ids));
            sys::exit_now(0)
        }
        Forked::Parent(_, child) => child,
    };
    drop(theirs);
    let told = hear(report);
    // One that has ended already is only reaped.
    let _ended = pidfd_send_signal(&child, Signal::KILL);
    wait_for(&child);
    told
}

/// Reports from the child: nothing at all would be the word of one that died.
fn tell(mut to: io::PipeWriter, result: Result<(), Lack>) {
    let lack = result.err();
    let errno = lack.as_ref().map_or(-1, |lack| lack.errno);
    let call = lack.map(|lack| lack.call).unwrap_or_default();
    let bytes = [&errno.to_ne_bytes()[..], call.as_bytes()].concat();
    drop(to.write_all(&bytes));
}

fn hear(mut from: io::PipeReader) -> Result<(), Lack> {
    let mut fds = [PollFd::new(from.as_fd(), PollFlags::POLLIN)];
    let came = poll(&mut fds, PollTimeout::from(PATIENCE_MS));
    if came != Ok(1) {
        return Err(Errno::ETIMEDOUT).on("poll");
    }
    let mut bytes = [0; 256];
    let len = from.read(&mut bytes).on("read")?;
    let died = || Lack {
        call: "the process that tried it was killed".to_owned(),
        errno: libc::ECHILD,
    };
    let (errno, call) = bytes[..len].split_first_chunk().ok_or_else(died)?;
    match i32::from_ne_bytes(*errno) {
        -1 => Ok(()),
        errno => Err(Lack {
            call: String::from_utf8_lossy(call).into_owned(),
            errno,
        }),
    }
}

/// Waits until a process is gone; returns its exit status, if it exited.
pub(super) fn wait_for(child: &OwnedFd) -> Option<i32> {
    loop {
        match waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED) {
            Err(rustix::io::Errno::INTR) => {}
            Ok(status) => return status?.exit_status(),
            Err(_) => return None,
        }
    }
}

/// Lists the acts in the order a launch does them.
fn all() -> impl Iterator<Item = Probe> {
    let lists: [&[Row]; 4] = [NAMESPACES, files::ROWS, kernel::ROWS, network::ROWS];
    lists.into_iter().flatten().map(|row| {
        let &(name, need, within, act, remedy) = row;
        Probe {
            name,
            need,
            act,
            within,
            remedy,
        }
    })
}

/// A probe as it stands in a table: name, need, namespaces, act, remedy.
pub(super) type Row = (&'static str, Need, Option<libc::c_int>, Act, &'static str);

const NOTHING: Act = |_| Ok(());

/// Making them is the act.
static NAMESPACES: &[Row] = &[
    ("user namespace", Need::First, Some(0), NOTHING, ""),
    (
        "id maps",
        Need::First,
        Some(0),
        files::map_ids,
        "a root caller needs CAP_SETFCAP; in a container, run it with that capability or as an ordinary user",
    ),
    (
        "mount namespace",
        Need::First,
        Some(libc::CLONE_NEWNS),
        NOTHING,
        "",
    ),
    (
        "pid namespace",
        Need::First,
        Some(libc::CLONE_NEWPID),
        NOTHING,
        "",
    ),
    (
        "network namespace",
        Need::First,
        Some(libc::CLONE_NEWNET),
        NOTHING,
        "",
    ),
    (
        "ipc namespace",
        Need::First,
        Some(libc::CLONE_NEWIPC),
        NOTHING,
        "",
    ),
    (
        "uts namespace",
        Need::First,
        Some(libc::CLONE_NEWUTS),
        NOTHING,
        "",
    ),
    (
        "cgroup namespace",
        Need::First,
        Some(libc::CLONE_NEWCGROUP),
        NOTHING,
        "",
    ),
];
