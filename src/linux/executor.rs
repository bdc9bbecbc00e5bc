//! The executor: a process of the sandbox that performs what the broker has judged.
//!
//! It is confined as the command is, so that rights, names and credentials come out as if the
//! command had made the call itself.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::thread::JoinHandleExt;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::pthread::pthread_kill;
use nix::sys::signal::Signal;
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
const INTERRUPTION: Signal = Signal::SIGUSR1;

/// How often a call that blocks is asked for, in milliseconds.
const PATIENCE: u16 = 100;

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
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        passing::send(&self.main, &[OPEN], &[theirs.as_fd()])?;
        let number = *opened;
        *opened += 1;
        Ok(Line {
            socket: ours,
            number,
        })
    }

    /// Has `socket` connected. A call that blocks is given up once `is_wanted` says no.
    pub(crate) fn connect(
        &self,
        line: &Line,
        socket: BorrowedFd<'_>,
        to: Destination<'_>,
        is_wanted: impl Fn() -> bool,
    ) -> Result<(), Errno> {
        let sent = match to {
            Destination::Address(address) => {
                let request = [&[TO_ADDRESS], address].concat();
                passing::send(&line.socket, &request, &[socket])
            }
            Destination::Place(place) => passing::send(&line.socket, &[TO_PLACE], &[socket, place]),
        };
        // As for a call whose broker is gone.
        sent.map_err(|_| Errno::ENOSYS)?;
        while !is_readable(&line.socket) {
            if !is_wanted() {
                let request = [&[INTERRUPT], line.number.to_ne_bytes().as_slice()].concat();
                passing::send(&self.main, &request, &[]).map_err(|_| Errno::ENOSYS)?;
            }
        }
        let mut answer = [0; 4];
        match passing::receive(&line.socket, &mut answer) {
            Ok((bytes, _)) if bytes.len() == 4 => match i32::from_ne_bytes(answer) {
                0 => Ok(()),
                errno => Err(Errno::from_raw(errno)),
            },
            _ => Err(Errno::ENOSYS),
        }
    }
}

fn is_readable(line: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(line.as_fd(), PollFlags::POLLIN)];
    matches!(poll(&mut fds, PollTimeout::from(PATIENCE)), Ok(1..))
}

/// The life of the executor: a thread for each line, until the broker is gone.
pub(crate) fn serve(main: &OwnedFd) -> io::Result<()> {
    sys::interrupt_calls_on(INTERRUPTION)?;
    let mut threads: Vec<Option<JoinHandle<()>>> = Vec::new();
    let mut buffer = [0; 8];
    loop {
        let (message, mut fds) = passing::receive(main, &mut buffer)?;
        match (message, fds.pop()) {
            ([], _) => return Ok(()),
            // A limit on threads closes the line, which the broker takes for a refusal.
            ([OPEN], Some(line)) => threads.push(
                std::thread::Builder::new()
                    .stack_size(STACK)
                    .spawn(move || serve_line(&line))
                    .ok(),
            ),
            (&[INTERRUPT, a, b, c, d], None) => {
                let number = u32::from_ne_bytes([a, b, c, d]);
                let thread = usize::try_from(number)
                    .ok()
                    .and_then(|index| threads.get(index)?.as_ref());
                if let Some(thread) = thread {
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
