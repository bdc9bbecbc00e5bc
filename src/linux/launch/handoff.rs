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
use super::rootfs;
use crate::linux::executor;
use crate::linux::passing::{self, MAX_DESCRIPTORS};
use crate::linux::plan::Role;

/// The listeners of one sandbox, and the line whose end of file says that it is gone.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) listeners: Vec<(Role, OwnedFd)>,
    pub(crate) sandbox: OwnedFd,
}

/// Sends every listener over the socket at `path`; returns the connection, to be kept open.
pub(super) fn send(path: &Path, listeners: &[(Role, OwnedFd)]) -> Result<OwnedFd, Failure> {
    let kind = SocketType::SEQPACKET;
    let socket =
        socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).at(Step::HandOver)?;
    // Through a descriptor, since a socket's name is 107 bytes at most; see unix(7).
    let place = rootfs::open(CWD, path).at_path(Step::HandOver, path)?;
    executor::connect_to_place(&socket, &place).at_path(Step::HandOver, path)?;
    let labels: Vec<u8> = listeners.iter().map(|(role, _)| label(*role)).collect();
    let fds: Vec<BorrowedFd<'_>> = listeners.iter().map(|(_, fd)| fd.as_fd()).collect();
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
    let roles: Option<Vec<Role>> = labels.iter().map(|&byte| role(byte)).collect();
    let roles = roles.filter(|roles| roles.len() == fds.len() && !fds.is_empty());
    let roles = roles.ok_or(io::ErrorKind::InvalidData)?;
    Ok(HandedOver {
        listeners: roles.into_iter().zip(fds).collect(),
        sandbox,
    })
}

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
