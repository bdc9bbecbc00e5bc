//! Reads by way of the stack, so that no connection holds room for what is still to come.

use std::io;
use std::mem::MaybeUninit;

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Most bytes that are read at once.
pub(super) const ROOM: usize = 16 * 1024;

/// Waits for bytes and returns them; none is the end.
pub(super) async fn next(from: &TcpStream) -> io::Result<Vec<u8>> {
    loop {
        from.readable().await?;
        match now(from, ROOM, <[u8]>::to_vec) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
    }
}

/// Has `take` look at the bytes that are there, `room` at most; none is the end.
pub(super) fn now<T>(
    from: &TcpStream,
    room: usize,
    take: impl FnOnce(&[u8]) -> T,
) -> io::Result<T> {
    let mut buffer = [const { MaybeUninit::uninit() }; ROOM];
    let room = &mut buffer[..room.min(ROOM)];
    let read = from.try_io(Interest::READABLE, move || {
        let ((read, _), _) = recv(from, room, RecvFlags::empty())?;
        Ok(&*read)
    })?;
    Ok(take(read))
}
