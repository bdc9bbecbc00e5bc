//! The executor: a process of the sandbox that performs what the broker has judged.
//!
//! It is confined as the command is, so that rights, names and credentials come out as if the
//! command had made the call itself.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::pthread::pthread_kill;
use nix::sys::signal::Signal;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::passing;
use super::sys;

/// Where a socket is to be connected to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination<'a> {
    /// A `struct sockaddr` as the caller wrote it.
    Address(&'a [u8]),
    /// The Unix socket at this place.
    Place(BorrowedFd<'a>),
}

/// The broker's end: opens one line for each of its threads.
#[derive(Debug)]
pub(crate) struct Executor {
    main: OwnedFd,
    opened: Mutex<u32>,
}

/// A line to one thread of the executor.
#[derive(Debug)]
pub(crate) struct Line {
    socket: OwnedFd,
    number: u32,
}

/// Longest address, `struct sockaddr_storage`.
pub(crate) const MAX_ADDRESS: usize = 128;

/// First byte of a message on the main line.
const OPEN: u8 = b'o';
const INTERRUPT: u8 = b'i';

/// First byte of a request on the line of a thread; the answer is an errno, 0 for success.
const TO_ADDRESS: u8 = b'a';
const TO_PLACE: u8 = b'p';

/// Ends a call that blocks and that nobody waits for any more.
pub(crate) const INTERRUPTION: Signal = Signal::SIGURG;

/// How often it is asked whether somebody waits for a call that blocks.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

const STACK: usize = 64 * 1024;

/// Makes both ends of the main line: the broker's and the executor's.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

impl Executor {
    /// Takes the broker's end of the main line.
    pub(crate) fn new(main: OwnedFd) -> Self {
        Self {
            main,
            opened: Mutex::new(0),
        }
    }

    /// Opens a line of its own for the calling thread.
    pub(crate) fn open_line(&self) -> io::Result<Line> {
        let (ours, theirs) = pair()?;
        sockopt::set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))?;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let number = *opened;
        *opened += 1;
        let request = [&[OPEN], number.to_ne_bytes().as_slice()].concat();
        passing::send(&self.main, &request, &[theirs.as_fd()])?;
        Ok(Line {
            socket: ours,
            number,
        })
    }

    /// Has `socket` connected. A call that blocks is given up once `is_wanted` says no.
    ///
    /// # Errors
    /// What the kernel answered; `None` where the executor is gone, and the line with it.
    pub(crate) fn connect(
        &self,
        line: &Line,
        socket: BorrowedFd<'_>,
        to: Destination<'_>,
        is_wanted: impl Fn() -> bool,
    ) -> Result<(), Option<Errno>> {
        let sent = match to {
            Destination::Address(address) => {
                let request = [&[TO_ADDRESS], address].concat();
                passing::send(&line.socket, &request, &[socket])
            }
            Destination::Place(place) => passing::send(&line.socket, &[TO_PLACE], &[socket, place]),
        };
        sent.map_err(|_| None)?;
        let mut answer = [0; 4];
        loop {
            match passing::receive(&line.socket, &mut answer) {
                Ok((&[a, b, c, d], _)) => {
                    return match i32::from_ne_bytes([a, b, c, d]) {
                        0 => Ok(()),
                        errno => Err(Some(Errno::from_raw(errno))),
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !is_wanted() {
                        let number = line.number.to_ne_bytes();
                        let request = [&[INTERRUPT], number.as_slice()].concat();
                        passing::send(&self.main, &request, &[]).map_err(|_| None)?;
                    }
                }
                _ => return Err(None),
            }
        }
    }
}

/// The life of the executor: a thread for each line, until the broker is gone.
pub(crate) fn serve(main: &OwnedFd) -> io::Result<()> {
    sys::interrupt_calls_on(INTERRUPTION)?;
    let mut threads: HashMap<[u8; 4], JoinHandle<()>> = HashMap::new();
    let mut buffer = [0; 8];
    loop {
        let (message, mut fds) = passing::receive(main, &mut buffer)?;
        match (message, fds.pop()) {
            ([], _) => return Ok(()),
            (&[OPEN, a, b, c, d], Some(line)) => {
                let thread = std::thread::Builder::new().stack_size(STACK);
                // A limit on threads closes the line, which the broker takes for a refusal.
                if let Ok(thread) = thread.spawn(move || serve_line(&line)) {
                    threads.insert([a, b, c, d], thread);
                }
            }
            (&[INTERRUPT, a, b, c, d], None) => {
                if let Some(thread) = threads.get(&[a, b, c, d]) {
                    // One that has answered meanwhile is not in a call.
                    let _ended = pthread_kill(thread.as_pthread_t(), INTERRUPTION);
                }
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn serve_line(line: &OwnedFd) {
    let mut buffer = [0; 1 + MAX_ADDRESS];
    while let Ok((request, fds)) = passing::receive(line, &mut buffer) {
        let result = match (request, fds.as_slice()) {
            ([TO_ADDRESS, address @ ..], [socket]) => sys::connect(socket.as_fd(), address),
            ([TO_PLACE], [socket, place]) => connect_to_place(socket, place),
            _ => return,
        };
        let errno = result.map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| 0);
        if passing::send(line, &errno.to_ne_bytes(), &[]).is_err() {
            return;
        }
    }
}

/// Connects to a Unix socket by its descriptor, so that no name is looked up a second time.
pub(crate) fn connect_to_place(socket: impl AsFd, place: impl AsFd) -> io::Result<()> {
    let name = format!("/proc/self/fd/{}", place.as_fd().as_raw_fd());
    Ok(rustix::net::connect(socket, &SocketAddrUnix::new(name)?)?)
}
