//! A process of ours on the host's side: forked before any thread, ended with the sandbox.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitId, WaitIdOptions};

use crate::audit::Audit;
use crate::error::{Error, Kind, Result};
use crate::linux::launch::privileges;
use crate::linux::sys::{self, Forked};

/// The process and the line to it. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Helper {
    name: &'static str,
    process: OwnedFd,
    line: OwnedFd,
}

const MAX_DATAGRAM: usize = 64 * 1024;

impl Helper {
    /// Forks a process that keeps the descriptors in `keep`, and runs `work` in it with its
    /// end of the line. A failure of it is the line's last message.
    pub(super) fn start(
        name: &'static str,
        keep: &[BorrowedFd<'_>],
        work: impl FnOnce(&OwnedFd) -> io::Result<()>,
    ) -> Result<Self> {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
                .map_err(|errno| failed(name, "socketpair", errno))?;
        let launcher = rustix::process::getpid();
        match sys::fork().map_err(|error| failed(name, "fork", error))? {
            Forked::Child => {
                let mut keep: Vec<i32> = keep.iter().map(AsRawFd::as_raw_fd).collect();
                keep.push(theirs.as_raw_fd());
                if let Err(error) = confine(keep, launcher).and_then(|()| work(&theirs)) {
                    tell(&theirs, &[&[FAILED], error.to_string().as_bytes()].concat());
                }
                sys::exit_now(0)
            }
            Forked::Parent(_, process) => Ok(Self {
                name,
                process,
                line: ours,
            }),
        }
    }

    /// Waits until it says that it serves.
    pub(super) fn wait_until_ready(&self) -> Result<()> {
        let mut datagram = vec![0; MAX_DATAGRAM];
        let (len, _) = rustix::net::recv(&self.line, &mut datagram, RecvFlags::empty())
            .map_err(|errno| failed(self.name, "recv", errno))?;
        let name = self.name;
        match &datagram[..len] {
            [READY] => Ok(()),
            [FAILED, reason @ ..] => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                Err(Error::new(
                    Kind::Launch,
                    format!("the {name} cannot start: {reason}"),
                ))
            }
            _ => Err(Error::new(
                Kind::Launch,
                format!("the process of the {name} ended before it served"),
            )),
        }
    }

    /// Returns the descriptor that is readable when events have come.
    pub(super) fn line(&self) -> &OwnedFd {
        &self.line
    }

    /// Records every event that has come, without waiting for more.
    pub(super) fn record_events(&self, audit: &Audit) {
        let mut datagram = vec![0; MAX_DATAGRAM];
        while let Ok((len @ 1.., _)) =
            rustix::net::recv(&self.line, &mut datagram, RecvFlags::DONTWAIT)
        {
            audit.record_received(&datagram[..len]);
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It holds nothing that a kill could damage. Waiting for it means that no process of
        // ours is left when `srt` ends.
        let killed = rustix::process::pidfd_send_signal(&self.process, Signal::KILL);
        let id = WaitId::PidFd(self.process.as_fd());
        let interrupted = || {
            let waited = rustix::process::waitid(id.clone(), WaitIdOptions::EXITED);
            matches!(waited, Err(rustix::io::Errno::INTR))
        };
        while killed.is_ok() && interrupted() {}
    }
}

/// First byte of what the process sends: it serves, it failed, or an event.
const READY: u8 = b'R';
const FAILED: u8 = b'F';

/// Tells the launcher that the process serves.
pub(super) fn tell_ready(line: &OwnedFd) {
    tell(line, &[READY]);
}

/// Makes what the process records go to the launcher.
pub(super) fn audit_over(line: &OwnedFd, audit: &Audit) -> io::Result<Audit> {
    Ok(if audit.is_recording() {
        Audit::to_launcher(line.try_clone()?, audit.verbosity())
    } else {
        Audit::none(audit.verbosity())
    })
}

/// Tells the launcher; one that is gone needs no telling.
fn tell(line: &OwnedFd, bytes: &[u8]) {
    let _sent = rustix::net::send(line, bytes, SendFlags::NOSIGNAL);
}

/// Leaves this process with its sockets, standard error and no right beyond the caller's.
fn confine(mut keep: Vec<i32>, launcher: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The signal only comes for deaths from now on; after an earlier one we would wait for
    // ever. The line does not tell: a helper that was forked later may still hold its end.
    if rustix::process::getppid() != Some(launcher) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    keep.sort_unstable();
    sys::close_all_but(&keep)?;
    // A pipe on standard output must close when the command ends, whatever we still do.
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    privileges::drop_capabilities_of_helper()?;
    rustix::thread::set_no_new_privs(true)?;
    // Its memory holds what the sandbox's connections carry.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn failed(name: &str, call: &str, error: impl Into<io::Error>) -> Error {
    Error::new(Kind::Launch, format!("cannot start the {name}")).call(call, error)
}
