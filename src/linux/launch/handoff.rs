//! The hand-off of the listening sockets from init to the proxies.
//!
//! A socket belongs to the network namespace it was made in, whoever holds it: the proxies
//! accept inside and dial outside, and no byte is relayed twice.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, socket_with, sockopt};

use super::failure::{At, Failure, Step};
use super::network::Network;
use super::rootfs;
use crate::linux::executor;
use crate::linux::passing::{self, MAX_DESCRIPTORS};
use crate::linux::plan::Role;

/// The listeners of one sandbox, and the line whose end of file says that it is gone.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) listeners: Vec<(Role, OwnedFd)>,
    /// What tells of the sockets of the sandbox's network; see sock_diag(7).
    pub(crate) sockets: OwnedFd,
    pub(crate) sandbox: OwnedFd,
}

/// Sends the network over the socket at `path`; returns the connection, to be kept open.
pub(super) fn send(path: &Path, network: &Network) -> Result<OwnedFd, Failure> {
    let kind = SocketType::SEQPACKET;
    let socket =
        socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).at(Step::HandOver)?;
    // Through a descriptor, since a socket's name is 107 bytes at most; see unix(7).
    let place = rootfs::open(CWD, path).at_path(Step::HandOver, path)?;
    executor::connect_to_place(&socket, &place).at_path(Step::HandOver, path)?;
    let listeners = network.listeners.iter();
    let labelled = listeners.map(|(role, fd)| (label(*role), fd.as_fd()));
    let labelled = labelled.chain([(SOCKETS, network.sockets.as_fd())]);
    let (labels, fds): (Vec<u8>, Vec<BorrowedFd<'_>>) = labelled.unzip();
    passing::send(&socket, &labels, &fds).at(Step::HandOver)?;
    Ok(socket)
}

/// Accepts one connection, from process `init` alone, and takes its listeners.
pub(crate) fn receive(socket: &OwnedFd, init: u32) -> io::Result<HandedOver> {
    let sandbox = loop {
        let peer = accept_with(socket, SocketFlags::CLOEXEC)?;
        // The socket lies in a private directory, but root and the caller's other processes
        // can reach it: only the process we cloned may decide where the proxies listen.
        if sockopt::socket_peercred(&peer)?
            .pid
            .as_raw_pid()
            .cast_unsigned()
            == init
        {
            break peer;
        }
    };
    let mut labels = [0; MAX_DESCRIPTORS];
    let (labels, fds) = passing::receive(&sandbox, &mut labels)?;
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let (Some((&SOCKETS, labels)), true) = (labels.split_last(), labels.len() == fds.len()) else {
        return Err(malformed());
    };
    let roles: Option<Vec<Role>> = labels.iter().map(|&byte| role(byte)).collect();
    let mut fds = fds;
    let sockets = fds.pop().ok_or_else(malformed)?;
    Ok(HandedOver {
        listeners: roles.ok_or_else(malformed)?.into_iter().zip(fds).collect(),
        sockets,
        sandbox,
    })
}

/// What the last descriptor is.
const SOCKETS: u8 = b'I';

fn label(role: Role) -> u8 {
    match role {
        Role::Http => b'H',
        Role::Socks => b'S',
        Role::Captured => b'C',
        Role::Resolver => b'R',
        Role::ResolverDatagrams => b'D',
    }
}

fn role(label: u8) -> Option<Role> {
    match label {
        b'H' => Some(Role::Http),
        b'S' => Some(Role::Socks),
        b'C' => Some(Role::Captured),
        b'R' => Some(Role::Resolver),
        b'D' => Some(Role::ResolverDatagrams),
        _ => None,
    }
}
