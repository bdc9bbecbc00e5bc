//! The seccomp programs, compiled from `seccomp-profiles` when the crate was built.

use crate::policy::NetworkMode;
use crate::policy::sockets::Sockets;

/// One program and the name it has in the profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    /// Name in the profile.
    pub name: &'static str,
    bytes: &'static [u8],
}

macro_rules! filter {
    ($name:literal) => {
        Filter {
            name: $name,
            bytes: include_bytes!(concat!(
                env!("OUT_DIR"),
                "/",
                env!("SECCOMP_ARCH"),
                "/",
                $name,
                ".bpf"
            )),
        }
    };
}

/// Size of one instruction, `struct sock_filter` of linux/filter.h.
const INSTRUCTION: usize = 8;

/// Returns the programs in the order they are installed. All of them run on every call, and
/// the strictest answer counts.
///
/// Where every Unix socket is open, those that send without connecting are too; in the host's
/// network namespace none can be made.
/// Only a root caller gets those that refuse set-id bits: a set-uid file of an ordinary user
/// gives away that user alone, one of root gives away the machine.
pub(super) fn for_caller(is_root: bool, sockets: &Sockets, mode: NetworkMode) -> Vec<Filter> {
    let mut filters = vec![filter!("absent"), filter!("refuse")];
    match mode {
        _ if sockets.all_are_open() => {}
        NetworkMode::Filtered => filters.push(filter!("unix-types")),
        NetworkMode::Open => filters.push(filter!("unix")),
    }
    if is_root {
        filters.extend([filter!("setid-absent"), filter!("setid")]);
    }
    filters
}

/// Returns the program that stops what the broker performs; `None` where it judges nothing.
pub(super) fn performed(sockets: &Sockets, mode: NetworkMode) -> Option<Filter> {
    let judges = mode == NetworkMode::Filtered && !sockets.all_are_open();
    judges.then_some(filter!("performed"))
}

impl Filter {
    /// Returns the program as the kernel takes it.
    pub(crate) fn program(&self) -> Vec<libc::sock_filter> {
        let (instructions, _) = self.bytes.as_chunks::<INSTRUCTION>();
        instructions.iter().map(instruction).collect()
    }
}

fn instruction(&[a, b, jt, jf, c, d, e, f]: &[u8; INSTRUCTION]) -> libc::sock_filter {
    let code = u16::from_ne_bytes([a, b]);
    let k = u32::from_ne_bytes([c, d, e, f]);
    libc::sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests;
