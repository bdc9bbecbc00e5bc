//! Datagram sockets of daemons on this host.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::super::recorder::Line;
use super::Written;

/// What to do where nobody listens.
pub(super) const REMEDY: &str = "name the socket of a daemon that runs, or use --events FILE: a sandbox around \
     this run keeps sockets out of reach";

/// Longest that one datagram waits for room.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn connected(path: &Path) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.connect(path)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Sends, and once more to whoever listens now where the one before is gone.
pub(super) fn send(
    socket: &mut UnixDatagram,
    path: &Path,
    send: impl Fn(&UnixDatagram) -> io::Result<()>,
) -> io::Result<()> {
    match send(socket) {
        Err(error) if is_gone(&error) => {
            *socket = connected(path)?;
            send(socket)
        }
        result => result,
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ECONNREFUSED | libc::ECONNRESET | libc::ENOTCONN | libc::EPIPE)
    )
}

/// Why a line was not sent.
#[derive(Debug)]
pub(super) enum Unsent {
    /// For its own sake: others may well be.
    This(io::Error),
    /// As no other would be now.
    Any(io::Error),
}

impl From<io::Error> for Unsent {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => Self::This(error),
            _ => Self::Any(error),
        }
    }
}

/// Sends lines one by one.
pub(super) fn each(
    lines: &[Arc<Line>],
    written: &Written,
    mut send: impl FnMut(&Line) -> Result<(), Unsent>,
) -> io::Result<()> {
    let mut result = Ok(());
    for line in lines {
        match send(line) {
            Ok(()) => written.add(1),
            Err(Unsent::This(error)) => result = Err(error),
            Err(Unsent::Any(error)) => return Err(error),
        }
    }
    result
}
