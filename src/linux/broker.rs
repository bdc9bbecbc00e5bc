//! Performs the calls that a filter stops, on behalf of the command, once they are judged.
//!
//! What a call points to is copied once, and only the copy is judged and acted on. No answer
//! that protects something lets the kernel go on with the call itself: its memory could change
//! meanwhile. Calls that are only told of go on.

mod bound;
mod caller;
mod connect;
mod namespaces;
mod observe;
mod resolve;
mod turn;
mod watch;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::pthread::pthread_kill;

use super::datagrams::Eyes;
use super::executor::{Executor, INTERRUPTION, Line};
use super::netlink::capture::Redirection;
use super::sys::{self, Notification};
use super::unix_diag::{self, UnixDiag};
use crate::audit::Audit;
use crate::policy::sockets::Sockets;
use bound::Bound;
use caller::{Caller, Known};
use namespaces::Namespaces;
pub(crate) use observe::Terms;
use observe::{Datagrams, Memory, Observer};
use turn::{Lead, Turn};
use watch::Watch;

/// Most calls in progress at one time; further ones wait. Only calls that block add up.
const MAX_WORKERS: usize = 128;

const STACK: usize = 256 * 1024;

/// Makes a thread.
const CLONE: &str = "clone";

/// The call that failed, and why.
pub(crate) type Failed = (&'static str, io::Error);

/// Gives up what a thread does not need.
type OnStart = fn() -> Result<(), Failed>;

/// What the sandbox hands over for its calls to be performed.
#[derive(Debug)]
pub(crate) struct Ends {
    /// Where stopped calls arrive.
    pub(crate) listener: OwnedFd,
    /// A socket of the sandbox's network namespace that knows its Unix sockets, where
    /// connections are performed.
    pub(crate) unix_diag: Option<OwnedFd>,
    /// The main line to the executor.
    pub(crate) executor: OwnedFd,
    /// What brings connections to other machines to the proxies, where anything does.
    pub(crate) redirection: Option<Redirection>,
    /// What sees refused datagrams, and who sends them, where they are told of.
    pub(crate) datagrams: Option<Eyes>,
}

/// The broker of one sandbox. Dropping it ends its threads; the calls it had stopped fail.
#[derive(Debug)]
pub(crate) struct Broker(Arc<Shared>);

/// What its threads share.
#[derive(Debug)]
struct Shared {
    listener: OwnedFd,
    executor: Executor,
    redirection: Option<Redirection>,
    /// The network namespaces of the sandbox, and their Unix sockets.
    namespaces: Option<Namespaces>,
    /// What is told of other calls.
    observer: Option<Observer>,
    /// Where some of them are bound, asked of themselves.
    bound: Bound,
    /// The Unix sockets of our own namespace, where they can be asked for.
    host_sockets: OnceLock<Option<UnixDiag>>,
    policy: Sockets,
    audit: Audit,
    watch: Watch,
    turn: Turn,
    known: Known,
    threads: Mutex<Vec<JoinHandle<()>>>,
    is_over: AtomicBool,
    on_start: OnStart,
}

/// What one thread of the broker needs for itself.
#[derive(Debug, Default)]
struct Worker {
    line: Option<Line>,
}

/// A broker whose first thread waits for the sandbox: threads take their time to start, which
/// passes while the sandbox is built.
#[derive(Debug)]
pub(crate) struct Prepared {
    thread: JoinHandle<()>,
    is_ready: Receiver<Result<(), Failed>>,
    work: SyncSender<Arc<Shared>>,
    on_start: OnStart,
}

impl Broker {
    /// Starts the first thread; each runs `on_start` first, to give up what it does not need.
    pub(crate) fn prepare(on_start: OnStart) -> Result<Prepared, Failed> {
        sys::interrupt_calls_on(INTERRUPTION).map_err(|error| ("sigaction", error))?;
        let (tell, is_ready) = sync_channel(1);
        let (work, wait) = sync_channel::<Arc<Shared>>(1);
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn(move || {
            let started = on_start();
            let is_fit = started.is_ok();
            let told = tell.send(started).is_ok();
            if is_fit
                && told
                && let Ok(shared) = wait.recv()
            {
                let _ended = shared.work();
            }
        });
        let thread = thread.map_err(|error| (CLONE, error))?;
        Ok(Prepared {
            thread,
            is_ready,
            work,
            on_start,
        })
    }

    fn end_threads(&self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.turn.end();
        loop {
            let threads = self.0.threads();
            let mut alive = threads.iter().filter(|thread| !thread.is_finished());
            let Some(thread) = alive.next() else { return };
            // A signal that comes before the thread waits for a call is lost: once more.
            for thread in [thread].into_iter().chain(alive) {
                let _ended = pthread_kill(thread.as_pthread_t(), INTERRUPTION);
            }
            drop(threads);
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Prepared {
    /// Starts to serve.
    ///
    /// Every worker takes a call, performs it, however long that takes, and comes back for
    /// the next: while one of them blocks, another takes over.
    pub(crate) fn start(
        self,
        ends: Ends,
        policy: Sockets,
        terms: Option<Terms>,
        audit: Audit,
    ) -> Result<Broker, Failed> {
        let init = terms.as_ref().map(|terms| terms.init);
        // KERNEL(6.6): before, each wake-up may take another processor, and longer.
        drop(sys::wake_in_turns(ends.listener.as_fd()));
        let shared = Arc::new(Shared {
            namespaces: ends.unix_diag.map(Namespaces::new).transpose()?,
            observer: terms.map(Observer::new),
            bound: Bound::default(),
            host_sockets: OnceLock::new(),
            listener: ends.listener,
            executor: Executor::new(ends.executor),
            redirection: ends.redirection,
            policy,
            audit,
            watch: Watch::default(),
            turn: Turn::default(),
            known: Known::default(),
            threads: Mutex::new(vec![self.thread]),
            is_over: AtomicBool::new(false),
            on_start: self.on_start,
        });
        shared.turn.follow();
        let is_ready = self.is_ready.recv().unwrap_or_else(|_| Err(gone()));
        is_ready?;
        self.work.send(Arc::clone(&shared)).map_err(|_| gone())?;
        if let (Some(eyes), Some(init)) = (ends.datagrams, init) {
            let teller = shared.add_teller(Datagrams::new(eyes, init));
            teller.map_err(|error| (CLONE, error))?;
        }
        Ok(Broker(shared))
    }
}

impl Shared {
    /// Starts a worker, who follows.
    fn add_worker(self: &Arc<Self>) -> io::Result<()> {
        let mut threads = self.threads();
        if threads.len() >= MAX_WORKERS {
            return Ok(());
        }
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().stack_size(STACK);
        // Before it is one.
        self.turn.follow();
        let thread = thread.spawn(move || match (shared.on_start)() {
            Ok(()) => drop(shared.work()),
            Err(_) => shared.turn.leave(),
        });
        match thread {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                self.turn.leave();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Starts the thread that tells of datagrams.
    fn add_teller(self: &Arc<Self>, datagrams: Datagrams) -> io::Result<()> {
        let shared = Arc::clone(self);
        let thread = std::thread::Builder::new().stack_size(STACK);
        let thread = thread.spawn(move || {
            if (shared.on_start)().is_ok() {
                datagrams.tell(&shared.audit, || shared.is_over());
            }
        })?;
        self.threads().push(thread);
        Ok(())
    }

    fn work(self: &Arc<Self>) -> io::Result<()> {
        let result = self.take_calls();
        if let Some(observer) = &self.observer {
            observer.tell_rest(&self.audit);
        }
        result
    }

    fn take_calls(self: &Arc<Self>) -> io::Result<()> {
        let mut worker = Worker::default();
        let mut lead = self.turn.wait(self);
        loop {
            let call = match sys::receive_notification(self.listener.as_fd()) {
                Ok(call) => call,
                // The caller was killed between the wake-up and now, or all of them were.
                Err(error) => match error.raw_os_error() {
                    Some(libc::ENOENT | libc::EINTR) if !self.is_over() => continue,
                    _ => return Err(error),
                },
            };
            let errno = match call.call {
                libc::SYS_connect => Some(self.perform(&mut worker, &call, &lead)),
                _ => self.tell(&Memory::of(self.listener.as_fd(), &call, &lead), &call),
            };
            let leads = lead.is_held();
            if !leads {
                // Before the answer: the next call may come at once, and here is who takes it.
                self.turn.follow();
            }
            // A caller that was killed meanwhile needs no answer.
            drop(sys::answer(self.listener.as_fd(), call.id, errno));
            if !leads {
                lead = self.turn.wait(self);
            }
        }
    }

    /// Tells of one call; returns its errno, `None` for what the kernel makes of it.
    fn tell(&self, memory: &Memory<'_>, call: &Notification) -> Option<i32> {
        let observer = self.observer.as_ref()?;
        let act = || observer.tell(&self.audit, memory, call);
        // A fault of ours costs a line of the report.
        catch_unwind(AssertUnwindSafe(act)).unwrap_or(None)
    }

    /// Performs one call; returns its errno, 0 for success.
    fn perform(&self, worker: &mut Worker, call: &Notification, lead: &Lead<'_>) -> i32 {
        let act = || {
            let caller = Caller::of(self.listener.as_fd(), call, &self.known);
            connect::perform(self, worker, (&caller, lead), &call.args)
        };
        // A caller must not wait for ever because of a fault of ours.
        let result = catch_unwind(AssertUnwindSafe(act)).unwrap_or(Err(Errno::ENOSYS));
        result.map_or_else(|errno| errno as i32, |()| 0)
    }

    /// Returns the network namespaces of the sandbox; none where no connection is performed.
    fn namespaces(&self) -> Result<&Namespaces, Errno> {
        self.namespaces.as_ref().ok_or(Errno::ENOSYS)
    }

    /// Returns the Unix sockets of our own namespace.
    fn host_sockets(&self) -> Option<&UnixDiag> {
        let open = || unix_diag::open().map(UnixDiag::new).ok();
        self.host_sockets.get_or_init(open).as_ref()
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether the broker was dropped, or every process under the filter is gone.
    fn is_over(&self) -> bool {
        let mut fds = [PollFd::new(self.listener.as_fd(), PollFlags::empty())];
        let polled = poll(&mut fds, PollTimeout::ZERO);
        let hung_up = fds[0]
            .revents()
            .is_some_and(|events| events.contains(PollFlags::POLLHUP));
        self.is_over.load(Ordering::Relaxed) || (polled.is_ok() && hung_up)
    }
}

fn gone() -> Failed {
    (CLONE, io::Error::other("the thread ended"))
}

impl Worker {
    /// Returns this thread's line to the executor.
    fn line(&mut self, executor: &Executor) -> Result<&Line, Errno> {
        if self.line.is_none() {
            // As for a call whose broker is gone.
            self.line = Some(executor.open_line().map_err(|_| Errno::ENOSYS)?);
        }
        self.line.as_ref().ok_or(Errno::ENOSYS)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.end_threads();
    }
}
