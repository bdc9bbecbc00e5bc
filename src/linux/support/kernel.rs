//! The acts that give up rights: capabilities, Landlock, filters, and what the broker does.

use std::io::{IoSliceMut, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use caps::CapSet;
use landlock::{
    AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::fs::{Mode, OFlags};
use rustix::process::PidfdGetfdFlags;
use rustix::thread::CapabilitiesSecureBits;

use super::probe::{Lack, Need, On, Row, wait_for};
use crate::linux::sys::{self, Forked};

const DESCRIPTORS: &str =
    "use Linux 5.11 or newer; in a container, allow close_range in its seccomp profile";
const KEYRING: &str = "the key quota of this user may be used up: see /proc/key-users; in a container, allow keyctl in its seccomp profile";
const SECCOMP: &str =
    "srt needs seccomp filters: CONFIG_SECCOMP_FILTER, and no outer filter that refuses them";
const LANDLOCK: &str = "srt needs Landlock, in Linux 5.19 or newer: add landlock to the lsm= boot parameter; in a container, allow its three calls in the seccomp profile";
const LISTENER: &str = "use Linux 5.19 or newer; EBUSY means that srt runs under a sandbox that judges calls itself: run it outside of that one";
const ATTACH: &str = "allow it: in a container by its seccomp profile (docker: --cap-add SYS_PTRACE), on the host by kernel.yama.ptrace_scope=2 or lower; without it only `network.allowAllUnixSockets` works";

pub(super) static ROWS: &[Row] = &[
    (
        "closed descriptors",
        Need::Both,
        None,
        close_descriptors,
        DESCRIPTORS,
    ),
    (
        "session keyring of its own",
        Need::Both,
        None,
        new_keyring,
        KEYRING,
    ),
    (
        "no capabilities",
        Need::First,
        Some(0),
        drop_capabilities,
        "allow capset and prctl in the container's seccomp profile",
    ),
    (
        "no_new_privs",
        Need::Both,
        None,
        no_new_privs,
        "allow prctl in the container's seccomp profile",
    ),
    ("Landlock", Need::Both, None, landlock, LANDLOCK),
    (
        "Landlock: TCP",
        Need::Second,
        None,
        landlock_tcp,
        "use Linux 6.7 or newer",
    ),
    (
        "Landlock: truncation",
        Need::Wanted,
        None,
        landlock_truncate,
        "use Linux 6.2 or newer: mounts hold alone",
    ),
    (
        "Landlock: device control",
        Need::Wanted,
        None,
        landlock_ioctl,
        "use Linux 6.10 or newer: a /dev with few nodes holds alone",
    ),
    (
        "Landlock: signals",
        Need::Wanted,
        None,
        landlock_signals,
        "use Linux 6.12 or newer: the command gets a session of its own, and no terminal",
    ),
    (
        "Landlock: Unix sockets",
        Need::Wanted,
        None,
        landlock_sockets,
        "use Linux 7.1 or newer: the broker holds alone",
    ),
    ("system call filter", Need::Both, None, filter, SECCOMP),
    (
        "calls that wait for the broker",
        Need::First,
        None,
        stop_calls,
        LISTENER,
    ),
    (
        "descriptors of the command",
        Need::First,
        None,
        take_descriptor,
        ATTACH,
    ),
    (
        "memory of the command",
        Need::First,
        None,
        read_memory,
        ATTACH,
    ),
];

fn close_descriptors(_: (u32, u32)) -> Result<(), Lack> {
    sys::set_close_on_exec_but(&[]).on("close_range")
}

fn new_keyring(_: (u32, u32)) -> Result<(), Lack> {
    sys::join_new_session_keyring().on("keyctl")
}

fn drop_capabilities(_: (u32, u32)) -> Result<(), Lack> {
    let locked = CapabilitiesSecureBits::NO_ROOT | CapabilitiesSecureBits::NO_ROOT_LOCKED;
    rustix::thread::set_capabilities_secure_bits(locked).on("prctl(PR_SET_SECUREBITS)")?;
    let sets = [
        CapSet::Bounding,
        CapSet::Ambient,
        CapSet::Inheritable,
        CapSet::Effective,
        CapSet::Permitted,
    ];
    for set in sets {
        caps::clear(None, set)
            .map_err(|_| Errno::last())
            .on("capset")?;
    }
    let is_empty = |set: &CapSet| caps::read(None, *set).is_ok_and(|left| left.is_empty());
    match sets.iter().all(is_empty) {
        true => Ok(()),
        false => Err(Lack::without_effect("capset")),
    }
}

fn no_new_privs(_: (u32, u32)) -> Result<(), Lack> {
    rustix::thread::set_no_new_privs(true).on("prctl(PR_SET_NO_NEW_PRIVS)")?;
    match rustix::thread::no_new_privs() {
        Ok(true) => Ok(()),
        _ => Err(Lack::without_effect("prctl(PR_SET_NO_NEW_PRIVS)")),
    }
}

fn ruleset() -> Ruleset {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement)
}

/// Restricts itself to what no rule grants, and tries to list a directory.
fn landlock(ids: (u32, u32)) -> Result<(), Lack> {
    const CALL: &str = "landlock_restrict_self";
    no_new_privs(ids)?;
    let list = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open("/", flags, Mode::empty())
    };
    list().on("open(/)")?;
    // ABI 2; see `MIN_LANDLOCK_ABI`.
    let ruleset = created(ruleset().handle_access(AccessFs::ReadDir | AccessFs::Refer))?;
    let restricted = ruleset.no_new_privs(false).restrict_self();
    restricted.map_err(errno_of).on(CALL)?;
    match list() {
        Err(rustix::io::Errno::ACCESS) => Ok(()),
        _ => Err(Lack::without_effect(CALL)),
    }
}

fn landlock_truncate(_: (u32, u32)) -> Result<(), Lack> {
    asks(ruleset().handle_access(AccessFs::Truncate))
}

fn landlock_ioctl(_: (u32, u32)) -> Result<(), Lack> {
    asks(ruleset().handle_access(AccessFs::IoctlDev))
}

fn landlock_sockets(_: (u32, u32)) -> Result<(), Lack> {
    asks(ruleset().handle_access(AccessFs::ResolveUnix))
}

fn landlock_tcp(_: (u32, u32)) -> Result<(), Lack> {
    asks(ruleset().handle_access(AccessNet::ConnectTcp))
}

fn asks(ruleset: Result<Ruleset, RulesetError>) -> Result<(), Lack> {
    created(ruleset).map(drop)
}

fn created(ruleset: Result<Ruleset, RulesetError>) -> Result<RulesetCreated, Lack> {
    const CALL: &str = "landlock_create_ruleset";
    // The crate asks too, and tells less where there is none.
    sys::ask_landlock_abi().on(CALL)?;
    ruleset.and_then(Ruleset::create).map_err(errno_of).on(CALL)
}

/// Keeps its signals in, and tries one on the process that started it.
fn landlock_signals(ids: (u32, u32)) -> Result<(), Lack> {
    no_new_privs(ids)?;
    let signal = || nix::sys::signal::kill(Pid::parent(), None);
    signal().on("kill")?;
    let ruleset = created(ruleset().scope(Scope::Signal))?;
    let restricted = ruleset.no_new_privs(false).restrict_self();
    restricted.map_err(errno_of).on("landlock_restrict_self")?;
    match signal() {
        Err(Errno::EPERM) => Ok(()),
        _ => Err(Lack::without_effect("landlock_restrict_self")),
    }
}

/// Where the kernel's ABI has not the right, the crate makes no call that could fail.
fn errno_of(error: RulesetError) -> Errno {
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    while let Some(current) = source {
        if let Some(io) = current.downcast_ref::<std::io::Error>() {
            return Errno::from_raw(io.raw_os_error().unwrap_or(libc::EIO));
        }
        source = current.source();
    }
    Errno::EOPNOTSUPP
}

// From linux/bpf_common.h and linux/seccomp.h.
const LD_W_ABS: u16 = 0x20;
const JMP_JEQ_K: u16 = 0x15;
const RET_K: u16 = 0x06;
const RET_ALLOW: u32 = 0x7fff_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;

/// Builds a program that gives `answer` to getsid(2), which nothing here needs.
fn answering(answer: u32) -> [libc::sock_filter; 4] {
    let op = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let getsid = u32::try_from(libc::SYS_getsid).expect("call numbers are small");
    [
        op(LD_W_ABS, 0, 0),
        op(JMP_JEQ_K, 1, getsid),
        op(RET_K, 0, answer),
        op(RET_K, 0, RET_ALLOW),
    ]
}

/// An answer that getsid(2) has of no kernel.
const ANSWER: Errno = Errno::EXDEV;

fn filter(ids: (u32, u32)) -> Result<(), Lack> {
    no_new_privs(ids)?;
    let answer = RET_ERRNO | (ANSWER as i32).cast_unsigned();
    sys::install_seccomp(&answering(answer)).on("seccomp")?;
    match nix::unistd::getsid(None) {
        Err(ANSWER) => Ok(()),
        _ => Err(Lack::without_effect("seccomp")),
    }
}

/// Answers a call of another process, as the broker does.
fn stop_calls(ids: (u32, u32)) -> Result<(), Lack> {
    const CALL: &str = "seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)";
    no_new_privs(ids)?;
    let listener = sys::install_seccomp_listener(&answering(RET_USER_NOTIF)).on(CALL)?;
    let child = match sys::fork().on("fork")? {
        Forked::Child => {
            let is_answered = nix::unistd::getsid(None) == Err(ANSWER);
            sys::exit_now(i32::from(!is_answered))
        }
        Forked::Parent(_, child) => child,
    };
    let call = sys::receive_notification(listener.as_fd());
    let call = call.on("ioctl(SECCOMP_IOCTL_NOTIF_RECV)")?;
    let answered = sys::answer(listener.as_fd(), call.id, Some(ANSWER as i32));
    answered.on("ioctl(SECCOMP_IOCTL_NOTIF_SEND)")?;
    match wait_for(&child) {
        Some(0) => Ok(()),
        _ => Err(Lack::without_effect(CALL)),
    }
}

/// What another process has at the same place, being a copy of this one.
static MARK: [u8; 8] = *b"srt mark";

fn read_memory(_: (u32, u32)) -> Result<(), Lack> {
    on_another(|pid, _, _| {
        let mut bytes = [0; MARK.len()];
        let remote = RemoteIoVec {
            base: std::ptr::from_ref(&MARK).addr(),
            len: MARK.len(),
        };
        process_vm_readv(pid, &mut [IoSliceMut::new(&mut bytes)], &[remote])
            .on("process_vm_readv")?;
        match bytes == MARK {
            true => Ok(()),
            false => Err(Lack::without_effect("process_vm_readv")),
        }
    })
}

fn take_descriptor(_: (u32, u32)) -> Result<(), Lack> {
    on_another(|_, pidfd, number| {
        let taken = rustix::process::pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty());
        taken.map(drop).on("pidfd_getfd")
    })
}

/// Acts on a process that stands to this one as the command does to the broker, and that has
/// a descriptor of the number given.
fn on_another(act: fn(Pid, &OwnedFd, i32) -> Result<(), Lack>) -> Result<(), Lack> {
    let (ours, mut theirs) = UnixStream::pair().on("socketpair")?;
    let cloned = sys::clone_into_namespaces(libc::CLONE_NEWUSER);
    // Without user namespaces, the command is in none.
    let forked = cloned.or_else(|_| sys::fork()).on("fork")?;
    let (pid, child) = match forked {
        Forked::Child => {
            drop(ours);
            // Until the other end is closed.
            drop(theirs.read(&mut [0]));
            sys::exit_now(0)
        }
        Forked::Parent(pid, child) => (pid, child),
    };
    let result = act(pid, &child, theirs.as_raw_fd());
    drop(ours);
    wait_for(&child);
    result
}
