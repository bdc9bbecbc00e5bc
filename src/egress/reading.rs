//! Reads by way of the stack, so that no connection holds room for what is still to come, and by
//! `read`: `recv` has flags, which the filters of the proxies look at, every one of them.

use std::io;
use std::mem::MaybeUninit;

use tokio::io::Interest;
use tokio::net::TcpStream;

/// Most bytes that are read at once.
pub(super) const ROOM: usize = 16 * 1024;

/// Waits for bytes and has `take` look at them; none is the end.
pub(super) async fn next<T>(
    from: &TcpStream,
    take: impl FnOnce(&[u8]) -> T + Copy,
) -> io::Result<T> {
    loop {
        from.readable().await?;
        match now(from, ROOM, take) {
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
        let (read, _) = rustix::io::read(from, room)?;
        Ok(&*read)
    })?;
    Ok(take(read))
}
