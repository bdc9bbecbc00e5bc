//! The proxies' own process: it parses what the sandbox sends, and so holds no rights.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::Signal::SIGPIPE;
use rustix::net::SendFlags;
use rustix::process::{DumpableBehavior, Signal, WaitId, WaitIdOptions};

use crate::audit::Audit;
use crate::audit::line::Line;
use crate::egress::{self, BeforeFirst, Ends, Listeners, Sockets};
use crate::error::{Error, Kind, Result};
use crate::linux::inet_diag::{InetDiag, Transport};
use crate::linux::launch::{self, handoff, landlock, privileges};
use crate::linux::plan::{Role, filter};
use crate::linux::sys::{self, Disposition, Forked};
use crate::policy::network::Network;
use crate::policy::path::RealPath;

/// The proxies of one sandbox. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Proxies {
    process: OwnedFd,
    line: Line,
}

/// First byte of what the proxies' process sends: all accept, it failed, or an event.
const READY: u8 = b'R';
const FAILED: u8 = b'F';

/// How long the proxies may take to send the last events of a sandbox that is gone.
const PATIENCE: Duration = Duration::from_secs(1);

impl Proxies {
    /// Forks the process; it serves once `init` has handed its listeners over on `socket`.
    pub(super) fn start(
        (socket, init): (&OwnedFd, u32),
        policy: Network,
        audit: &Audit,
    ) -> Result<Self> {
        let (line, theirs) = Line::pair().map_err(|error| failed("socketpair", error))?;
        match sys::fork().map_err(|error| failed("fork", error))? {
            Forked::Child => {
                // A copy: ending is quicker than freeing first.
                if let Err(error) = serve(socket, init, policy.clone(), &theirs, audit) {
                    tell(&theirs, &encode(&error));
                }
                sys::exit_now(0)
            }
            Forked::Parent(_, process) => {
                launch::leave(policy);
                Ok(Self { process, line })
            }
        }
    }

    /// Waits until every listener is served.
    pub(super) fn wait_until_ready(&self) -> Result<()> {
        let said = self.line.receive();
        match said.map_err(|error| failed("recv", error))?.as_slice() {
            [READY] => Ok(()),
            [FAILED, reason @ ..] => {
                Err(Error::new(Kind::Launch, "the proxies cannot start").source(decode(reason)))
            }
            _ => Err(Error::new(
                Kind::Launch,
                "the proxies' process ended before it served",
            )),
        }
    }

    /// Returns the line on which events come.
    pub(super) fn events(&self) -> &Line {
        &self.line
    }

    /// Ends them, without waiting for that.
    pub(super) fn kill(&self) {
        // One that has ended already needs no signal.
        let _killed = rustix::process::pidfd_send_signal(&self.process, Signal::KILL);
    }

    /// Records everything that is still to come, once the sandbox is gone: the proxies see its
    /// end and close the line.
    pub(super) fn record_rest(&self, audit: &Audit) {
        self.line.record_rest(audit, PATIENCE);
    }
}

impl Drop for Proxies {
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

/// The life of the proxies' process.
fn serve(
    socket: &OwnedFd,
    init: u32,
    policy: Network,
    line: &OwnedFd,
    audit: &Audit,
) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    confine(&[socket.as_raw_fd(), line.as_raw_fd()])?;
    // The signal only comes for deaths from now on; after an earlier one nobody would ever
    // connect, and we would wait for ever.
    if is_closed(line)? {
        return Ok(());
    }
    let handed_over = handoff::receive(socket, init)?;
    let mut listeners = Listeners::default();
    for (role, listener) in handed_over.listeners {
        match role {
            Role::Http => listeners.http.push(listener.into()),
            Role::Socks => listeners.socks.push(listener.into()),
            Role::Captured => listeners.captured.push(listener.into()),
            Role::Resolver => listeners.resolver.push(listener.into()),
            Role::ResolverDatagrams => listeners.resolver_datagrams.push(listener.into()),
        }
    }
    listeners.sockets = Some(Arc::new(Diag(InetDiag::new(handed_over.sockets))));
    let verbosity = audit.verbosity();
    listeners.before_first = BeforeFirst::new(move || {
        if let Err(error) = shut_in() {
            // Without proxies the network is closed.
            let audit = Audit::none(verbosity);
            audit.warn(format_args!(
                "the proxies end, for they cannot be confined: {error}"
            ));
            sys::exit_now(1);
        }
    });
    let audit = audit.sent_over(line.try_clone()?);
    let ready = || tell(line, &[READY]);
    egress::serve(listeners, policy, audit, handed_over.sandbox, ready)
}

/// Asks the sandbox's network for the sockets of those who connect.
#[derive(Debug)]
struct Diag(InetDiag);

impl Sockets for Diag {
    fn inode_of(&self, ends: Ends) -> Option<u64> {
        let transport = match ends.datagrams {
            true => Transport::Udp,
            false => Transport::Tcp,
        };
        self.0.inode_of(transport, ends.client, ends.server)
    }
}

/// Writes why the proxies cannot start: the errno, 0 where there is none, and a text.
fn encode(error: &io::Error) -> Vec<u8> {
    let errno = error.raw_os_error().unwrap_or(0).to_ne_bytes();
    [&[FAILED], errno.as_slice(), error.to_string().as_bytes()].concat()
}

/// Reads what [`encode`] wrote, but for its first byte.
fn decode(reason: &[u8]) -> io::Error {
    match reason.split_first_chunk() {
        Some((&errno, text)) => match i32::from_ne_bytes(errno) {
            0 => io::Error::other(String::from_utf8_lossy(text).into_owned()),
            errno => io::Error::from_raw_os_error(errno),
        },
        None => io::ErrorKind::InvalidData.into(),
    }
}

/// Tells the launcher; one that is gone needs no telling.
fn tell(line: &OwnedFd, bytes: &[u8]) {
    let _sent = rustix::net::send(line, bytes, SendFlags::NOSIGNAL);
}

fn is_closed(line: &OwnedFd) -> io::Result<bool> {
    let mut fds = [PollFd::new(line.as_fd(), PollFlags::empty())];
    Ok(poll(&mut fds, PollTimeout::ZERO)? != 0)
}

/// Leaves this process with its sockets, standard error and no right beyond the caller's.
fn confine(keep: &[i32]) -> io::Result<()> {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    sys::close_all_but(&keep)?;
    // A pipe on standard output must close when the command ends, whatever we still do.
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|error| io::Error::new(error.kind(), format!("open(/dev/null): {error}")))?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    // Rust programs ignore it, and others may not; a peer that is gone must end one connection.
    sys::set_disposition(SIGPIPE, Disposition::Ignored)?;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    privileges::drop_capabilities_of_helper()?;
    rustix::thread::set_no_new_privs(true)?;
    // Its memory holds what the sandbox's connections carry.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Leaves this process what it needs to name hosts and to connect to them. Before the first byte
/// of the sandbox is read and not at once, since it takes a tenth of a launch, and most commands
/// send none.
fn shut_in() -> io::Result<()> {
    landlock::restrict_to_reading(resolver_files())?;
    for filter in filter::of_proxies() {
        sys::install_seccomp(&filter.program())?;
    }
    Ok(())
}

/// What is read to turn a name into addresses: the files of resolver(5), wherever links lead,
/// and the modules of nsswitch.conf(5). Whole directories, since the files are replaced while
/// we run.
fn resolver_files() -> impl Iterator<Item = PathBuf> {
    let linked = ["/etc/resolv.conf", "/etc/hosts"].map(|link| {
        let real = RealPath::resolve(Path::new(link)).ok()?;
        real.as_path().parent().map(Path::to_path_buf)
    });
    let known = RESOLVER.map(PathBuf::from).into_iter();
    known.chain(linked.into_iter().flatten())
}

const RESOLVER: [&str; 11] = [
    "/etc",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/nix/store",
    "/gnu/store",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
];

fn failed(call: &str, error: impl Into<io::Error>) -> Error {
    Error::new(Kind::Launch, "cannot start the proxies").call(call, error)
}
