//! Performs the calls that a filter stops, on behalf of the command, once they are judged.
//!
//! What a call points to is copied once, and only the copy is judged and acted on. No answer
//! lets the kernel go on with the call itself: its memory could change meanwhile.

mod caller;
mod connect;
mod resolve;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::executor::{self, Executor, Line};
use super::sys::{self, Notification};
use super::unix_diag::{self, UnixDiag};
use crate::audit::Audit;
use crate::policy::sockets::Sockets;
use caller::Caller;

/// Performs one call for `caller`.
type Handler = fn(&Broker, &mut Worker, &Caller<'_>, &[u64; 6]) -> Result<(), Errno>;

/// Every call that `performed` of the filter profile stops, and who performs it.
const HANDLERS: [(libc::c_long, Handler); 1] = [(libc::SYS_connect, connect::perform)];

/// Most calls in progress at one time; further ones wait. Only calls that block add up.
const MAX_WORKERS: usize = 128;

const STACK: usize = 256 * 1024;

/// What the sandbox hands over for its calls to be performed.
#[derive(Debug)]
pub(crate) struct Ends {
    /// Where stopped calls arrive.
    pub(crate) listener: OwnedFd,
    /// A socket of the sandbox's network namespace that knows its Unix sockets.
    pub(crate) unix_diag: OwnedFd,
    /// The main line to the executor.
    pub(crate) executor: OwnedFd,
}

/// The broker of one sandbox.
#[derive(Debug)]
struct Broker {
    listener: OwnedFd,
    /// Acts inside.
    inside: Executor,
    /// Acts in this process.
    outside: Executor,
    /// The network namespace of the sandbox.
    namespace: u64,
    /// The Unix sockets of that namespace.
    own_sockets: UnixDiag,
    /// The Unix sockets of our own namespace, where they can be asked for.
    host_sockets: Option<UnixDiag>,
    policy: Sockets,
    audit: Audit,
    workers: Mutex<Workers>,
}

#[derive(Debug)]
struct Workers {
    all: usize,
    idle: usize,
}

/// What one thread of the broker needs for itself.
#[derive(Debug)]
struct Worker {
    inside: Line,
    outside: Option<Line>,
}

/// Serves until no process of the sandbox is left that could make a call.
///
/// Every worker takes a call, performs it, however long that takes, and comes back for the
/// next: while one of them blocks, another takes over.
pub(crate) fn serve(ends: Ends, policy: Sockets, audit: Audit) -> io::Result<()> {
    let host_sockets = unix_diag::open().ok();
    let namespace = sys::network_namespace(ends.unix_diag.as_fd())?;
    let shared = |socket: &OwnedFd| sys::network_namespace(socket.as_fd()).ok() == Some(namespace);
    if host_sockets.as_ref().is_some_and(shared) {
        // What would be taken for the sandbox's own is the host's.
        return Err(io::Error::other("the network namespace is the host's"));
    }
    let (outside, ours) = executor::pair()?;
    let broker = Broker {
        namespace,
        own_sockets: UnixDiag::new(ends.unix_diag),
        host_sockets: host_sockets.map(UnixDiag::new),
        listener: ends.listener,
        inside: Executor::new(ends.executor),
        outside: Executor::new(outside),
        policy,
        audit,
        workers: Mutex::new(Workers { all: 1, idle: 1 }),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| executor::serve(&ours));
        broker.add_worker(scope);
        broker.work(scope)
    })
}

impl Broker {
    fn work<'s>(&'s self, scope: &'s Scope<'s, '_>) -> io::Result<()> {
        let mut worker = Worker {
            inside: self.inside.open_line()?,
            outside: None,
        };
        loop {
            let call = match sys::receive_notification(self.listener.as_fd()) {
                Ok(call) => call,
                Err(error) => match error.raw_os_error() {
                    // The caller was killed between the wake-up and now, or all of them were.
                    Some(libc::ENOENT | libc::EINTR) if !self.is_over() => continue,
                    Some(libc::ENOENT) => return Ok(()),
                    _ => return Err(error),
                },
            };
            self.workers().idle -= 1;
            self.add_worker(scope);
            self.perform(&mut worker, &call);
            self.workers().idle += 1;
        }
    }

    /// Starts a worker where none is free to take the next call.
    fn add_worker<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        let mut workers = self.workers();
        let spare = if workers.all == 1 { 2 } else { 1 };
        if workers.idle >= spare || workers.all >= MAX_WORKERS {
            return;
        }
        // A line is opened before anyone waits for it. Without a thread calls take turns.
        let started = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn_scoped(scope, move || drop(self.work(scope)));
        if started.is_ok() {
            workers.all += 1;
            workers.idle += 1;
        }
    }

    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn perform(&self, worker: &mut Worker, call: &Notification) {
        let handler = HANDLERS.iter().find(|(number, _)| *number == call.call);
        let result = match handler {
            Some((_, handler)) => Caller::of(self.listener.as_fd(), call)
                .and_then(|caller| handler(self, worker, &caller, &call.args)),
            None => Err(Errno::ENOSYS),
        };
        let errno = result.map_or_else(|errno| errno as i32, |()| 0);
        // A caller that was killed meanwhile needs no answer.
        drop(sys::answer(self.listener.as_fd(), call.id, errno));
    }

    /// Tells whether every process under the filter is gone.
    fn is_over(&self) -> bool {
        let mut fds = [PollFd::new(self.listener.as_fd(), PollFlags::empty())];
        let polled = poll(&mut fds, PollTimeout::ZERO);
        let hung_up = fds[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLHUP));
        polled.is_ok() && hung_up
    }
}

impl Worker {
    /// Returns the line to the thread that acts in this process.
    fn outside(&mut self, executor: &Executor) -> Result<&Line, Errno> {
        if self.outside.is_none() {
            self.outside = Some(executor.open_line().map_err(|_| Errno::ENOSYS)?);
        }
        self.outside.as_ref().ok_or(Errno::ENOSYS)
    }
}
