//! Descriptors over a Unix socket, with the bytes that say what they are.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Most descriptors one message carries; the kernel takes up to 253.
pub(crate) const MAX_DESCRIPTORS: usize = 64;

/// Sends `bytes`, which must not be empty, and `fds` in one message.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // NOSIGNAL: the other side being gone is an error here, not a SIGPIPE.
    let flags = SendFlags::NOSIGNAL;
    loop {
        let sent = match fds {
            [] => rustix::net::send(&socket, bytes, flags),
            _ => sendmsg(&socket, &[IoSlice::new(bytes)], &mut ancillary, flags),
        };
        match sent {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Receives one message; no bytes mean that the other side is gone.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(&[u8], Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let len = loop {
        let mut iov = [IoSliceMut::new(&mut *buffer)];
        match recvmsg(&socket, &mut iov, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received.bytes,
            // A peer that ended with unread messages resets the line, which is said once and
            // before what it sent last.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::CONNRESET) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    let fds = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    Ok((&buffer[..len], fds))
}
