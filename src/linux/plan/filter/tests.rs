//! Evaluates the compiled programs with a small interpreter of classic BPF, for both
//! architectures, whatever this machine is.

use std::ops::Range;

use super::{INSTRUCTION, instruction};

pub(super) const X86_64: u32 = 0xc000_003e;
pub(super) const AARCH64: u32 = 0xc000_00b7;
const I386: u32 = 0x4000_0003;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;
const NOTIFY: u32 = 0x7fc0_0000;

/// Defines the programs of one architecture by name.
macro_rules! programs {
    ($directory:literal) => {
        [
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/absent.bpf")).as_slice(),
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/refuse.bpf")).as_slice(),
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/unix-types.bpf")).as_slice(),
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/performed.bpf")).as_slice(),
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/setid-absent.bpf")).as_slice(),
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/setid.bpf")).as_slice(),
        ]
    };
}

/// Returns what the programs an ordinary user gets answer to one call: the strictest wins.
fn user(arch: u32, number: u32, args: &[u64]) -> u32 {
    strictest(arch, number, args, 0..4)
}

/// As [`user`], with the two programs root gets besides.
fn root(arch: u32, number: u32, args: &[u64]) -> u32 {
    strictest(arch, number, args, 0..6)
}

/// As [`user`], where `network.allowAllUnixSockets` opens every socket.
fn open(arch: u32, number: u32, args: &[u64]) -> u32 {
    strictest(arch, number, args, 0..2)
}

fn strictest(arch: u32, number: u32, args: &[u64], which: Range<usize>) -> u32 {
    let x86 = programs!("/x86_64");
    let arm = programs!("/aarch64");
    let programs = if arch == AARCH64 { arm } else { x86 };
    let answers = programs[which]
        .iter()
        .map(|program| run(program, arch, number, args));
    // SECCOMP_RET_KILL_PROCESS is the lowest when the action is read as signed; seccomp(2).
    answers
        .min_by_key(|answer| answer.cast_signed())
        .expect("there are programs")
}

/// Runs one program on one `struct seccomp_data`.
pub(super) fn run(program: &[u8], arch: u32, number: u32, args: &[u64]) -> u32 {
    let mut data = [0; 64];
    data[0..4].copy_from_slice(&number.to_ne_bytes());
    data[4..8].copy_from_slice(&arch.to_ne_bytes());
    for (index, arg) in args.iter().enumerate() {
        data[16 + 8 * index..24 + 8 * index].copy_from_slice(&arg.to_ne_bytes());
    }
    let (instructions, rest) = program.as_chunks::<INSTRUCTION>();
    assert!(rest.is_empty(), "a program is whole instructions");
    let mut accumulator = 0;
    let mut next = 0;
    loop {
        let op = instruction(&instructions[next]);
        next += 1;
        let mut jump = |holds: bool| next += usize::from(if holds { op.jt } else { op.jf });
        match op.code {
            0x20 => {
                let at = op.k as usize;
                accumulator = u32::from_ne_bytes(data[at..at + 4].try_into().expect("four bytes"));
            }
            0x54 => accumulator &= op.k,
            0x05 => next += op.k as usize,
            0x15 => jump(accumulator == op.k),
            0x25 => jump(accumulator > op.k),
            0x35 => jump(accumulator >= op.k),
            0x45 => jump(accumulator & op.k != 0),
            0x06 => return op.k,
            code => panic!("an instruction seccomp programs do not hold: {code:#x}"),
        }
    }
}

// Numbers from the kernel's syscall tables, x86_64 then aarch64; a call that aarch64 lacks has
// `LACKS`, which no program knows.
pub(super) const LACKS: u32 = u32::MAX;
const SOCKET: (u32, u32) = (41, 198);
const SOCKETPAIR: (u32, u32) = (53, 199);
const CONNECT: (u32, u32) = (42, 203);
const IOCTL: (u32, u32) = (16, 29);
const PERSONALITY: (u32, u32) = (135, 92);
const PRCTL: (u32, u32) = (157, 167);
const CLONE: (u32, u32) = (56, 220);
const UNSHARE: (u32, u32) = (272, 97);

#[track_caller]
fn both((x86, arm): (u32, u32), args: &[u64], answer: u32) {
    assert_eq!(user(X86_64, x86, args), answer, "x86_64 {x86} {args:?}");
    if arm != LACKS {
        assert_eq!(user(AARCH64, arm, args), answer, "aarch64 {arm} {args:?}");
    }
}

#[track_caller]
fn each(calls: &[(&str, u32, u32)], answer: u32) {
    for &(name, x86, arm) in calls {
        assert_eq!(user(X86_64, x86, &[]), answer, "{name} on x86_64");
        if arm != LACKS {
            assert_eq!(user(AARCH64, arm, &[]), answer, "{name} on aarch64");
        }
    }
}

#[test]
fn no_mount_call_passes_old_or_new() {
    let calls = [
        ("mount", 165, 40),
        ("umount2", 166, 39),
        ("pivot_root", 155, 41),
        ("chroot", 161, 51),
        ("setns", 308, 268),
        ("open_tree", 428, 428),
        ("move_mount", 429, 429),
        ("fsopen", 430, 430),
        ("fsconfig", 431, 431),
        ("fsmount", 432, 432),
        ("fspick", 433, 433),
        ("mount_setattr", 442, 442),
        ("open_tree_attr", 467, 467),
    ];
    each(&calls, EPERM);
    each(&[("statmount", 457, 457), ("listmount", 458, 458)], ENOSYS);
}

#[test]
fn keys_tracing_and_fault_prone_kernel_code_are_out_of_reach() {
    let calls = [
        ("add_key", 248, 217),
        ("request_key", 249, 218),
        ("keyctl", 250, 219),
        ("bpf", 321, 280),
        ("perf_event_open", 298, 241),
        ("userfaultfd", 323, 282),
        ("fanotify_init", 300, 262),
        ("lookup_dcookie", 212, 18),
        ("kcmp", 312, 272),
        ("pidfd_getfd", 438, 438),
        ("open_by_handle_at", 304, 265),
        ("vmsplice", 278, 75),
        ("remap_file_pages", 216, 234),
        ("nfsservctl", 180, 42),
        ("uselib", 134, LACKS),
        ("modify_ldt", 154, LACKS),
    ];
    each(&calls, EPERM);
}

#[test]
fn the_machine_is_not_the_commands_to_change() {
    let calls = [
        ("acct", 163, 89),
        ("clock_settime", 227, 112),
        ("settimeofday", 164, 170),
        ("init_module", 175, 105),
        ("delete_module", 176, 106),
        ("finit_module", 313, 273),
        ("kexec_load", 246, 104),
        ("kexec_file_load", 320, 294),
        ("reboot", 169, 142),
        ("swapon", 167, 224),
        ("swapoff", 168, 225),
        ("quotactl", 179, 60),
        ("quotactl_fd", 443, 443),
        ("syslog", 103, 116),
        ("sethostname", 170, 161),
        ("setdomainname", 171, 162),
        ("iopl", 172, LACKS),
        ("ioperm", 173, LACKS),
    ];
    each(&calls, EPERM);
}

#[test]
fn what_programs_live_on_passes() {
    let calls = [
        ("fork", 57, LACKS),
        ("vfork", 58, LACKS),
        ("execve", 59, 221),
        ("execveat", 322, 281),
        ("ptrace", 101, 117),
        ("process_vm_readv", 310, 270),
        ("process_vm_writev", 311, 271),
        ("pidfd_open", 434, 434),
        ("pidfd_send_signal", 424, 424),
        ("bind", 49, 200),
        ("listen", 50, 201),
        ("accept4", 288, 242),
        ("inotify_init1", 294, 26),
        ("memfd_create", 319, 279),
        ("openat", 257, 56),
        ("openat2", 437, 437),
        ("landlock_create_ruleset", 444, 444),
        ("landlock_restrict_self", 446, 446),
        ("seccomp", 317, 277),
        ("membarrier", 324, 283),
        ("rseq", 334, 293),
        ("futex", 202, 98),
        ("futex_waitv", 449, 449),
        ("splice", 275, 76),
        ("file_setattr, the last one known", 469, 469),
    ];
    each(&calls, ALLOW);
}

#[test]
fn a_personality_is_a_known_one() {
    for known in [0, 8, 0x4_0000, 0x4_0008, 0xffff_ffff, 0x7_ffff_ffff] {
        both(PERSONALITY, &[known], ALLOW);
    }
    // READ_IMPLIES_EXEC, UNAME26, MMAP_PAGE_ZERO, PER_BSD.
    for other in [0x40_0000, 0x2_0000, 0x10_0000, 6, 0x44_0000] {
        both(PERSONALITY, &[other], EPERM);
    }
}

#[test]
fn a_process_cannot_lie_about_its_memory() {
    const PR_SET_MM: u64 = 35;
    const PR_SET_NO_NEW_PRIVS: u64 = 38;
    both(PRCTL, &[PR_SET_MM, 1], EPERM);
    both(PRCTL, &[1 << 32 | PR_SET_MM, 1], EPERM);
    both(PRCTL, &[PR_SET_NO_NEW_PRIVS, 1], ALLOW);
}

#[test]
fn sending_does_not_connect() {
    const MSG_FASTOPEN: u64 = 0x2000_0000;
    const MSG_NOSIGNAL: u64 = 0x4000;
    // sendto and sendmmsg take the flags fourth, sendmsg third.
    for (call, before) in [((44, 206), 3), ((307, 269), 3), ((46, 211), 2)] {
        let with = |flags| [vec![0; before], vec![flags]].concat();
        both(call, &with(MSG_FASTOPEN | MSG_NOSIGNAL), EPERM);
        both(call, &with(MSG_NOSIGNAL), ALLOW);
    }
}

#[test]
fn only_unix_inet_and_route_netlink_sockets_can_be_made() {
    for family in 0..=45 {
        let answer = if [1, 2, 10, 16].contains(&family) {
            ALLOW
        } else {
            EPERM
        };
        both(SOCKET, &[family, 1, 0], answer);
    }
    both(SOCKET, &[16, 3, 4], EPERM);
}

#[test]
fn garbage_in_the_upper_half_of_an_int_changes_nothing() {
    both(SOCKET, &[0x1_0000_0028, 1, 0], EPERM);
    both(SOCKET, &[0xffff_ffff_0000_0002, 1, 0], ALLOW);
    both(SOCKET, &[0x1_0000_0001, 0x1_0000_0002, 0], EPERM);
    both(IOCTL, &[0, 0x1_0000_5412], EPERM);
    both(UNSHARE, &[0xdead_0000_1000_0000], EPERM);
}

#[test]
fn unix_sockets_are_streams_or_seqpackets_whatever_their_flags() {
    for call in [SOCKET, SOCKETPAIR] {
        for kind in 0..16 {
            let answer = if kind == 1 || kind == 5 { ALLOW } else { EPERM };
            both(call, &[1, kind, 0], answer);
            both(call, &[1, kind | 0o2_000_000 | 0o4_000, 0], answer);
            both(call, &[0x1_0000_0001, 0x1_0000_0000 | kind, 0], answer);
        }
    }
    // Other families have datagrams and raw sockets of their own.
    both(SOCKET, &[2, 2, 0], ALLOW);
    both(SOCKET, &[16, 3, 0], ALLOW);
}

#[test]
fn connect_is_the_brokers_to_perform_and_nothing_else_is() {
    both(CONNECT, &[3, 0x1000, 110], NOTIFY);
    for number in 0..512 {
        let stopped = [user(X86_64, number, &[]), user(AARCH64, number, &[])];
        let expected = [CONNECT.0, CONNECT.1].map(|connect| number == connect);
        assert_eq!(stopped.map(|answer| answer == NOTIFY), expected, "{number}");
    }
}

#[test]
fn where_all_unix_sockets_are_open_no_other_family_is() {
    for (arch, socket, socketpair, connect) in [
        (X86_64, SOCKET.0, SOCKETPAIR.0, CONNECT.0),
        (AARCH64, SOCKET.1, SOCKETPAIR.1, CONNECT.1),
    ] {
        for kind in 1..6 {
            assert_eq!(open(arch, socket, &[1, kind, 0]), ALLOW, "{kind}");
            assert_eq!(open(arch, socketpair, &[1, kind, 0]), ALLOW, "{kind}");
            assert_eq!(open(arch, socket, &[40, kind, 0]), EPERM, "{kind}");
        }
        assert_eq!(open(arch, connect, &[]), ALLOW);
    }
}

#[test]
fn a_socket_pair_is_of_unix_sockets() {
    for family in (0..=45).filter(|&family| family != 1) {
        both(SOCKETPAIR, &[family, 1, 0], EPERM);
    }
    both(SOCKETPAIR, &[0x1_0000_0001, 1, 0], ALLOW);
}

#[test]
fn the_terminal_cannot_be_typed_into() {
    // TIOCSTI, TIOCLINUX, TIOCSETD, then the key tables of a virtual console.
    for request in [
        0x5412, 0x541c, 0x5423, 0x4b47, 0x4b49, 0x4b4b, 0x4b4d, 0x4bfb,
    ] {
        both(IOCTL, &[0, request], EPERM);
    }
    both(IOCTL, &[0, 0x5413], ALLOW);
}

#[test]
fn threads_and_forks_pass_and_new_namespaces_do_not() {
    both(CLONE, &[0x003d_0f00], ALLOW);
    both(CLONE, &[0x0120_0011], ALLOW);
    for namespace in [
        0x0002_0000_u64,
        0x0200_0000,
        0x0400_0000,
        0x0800_0000,
        0x1000_0000,
        0x2000_0000,
        0x4000_0000,
    ] {
        both(CLONE, &[namespace | 17], EPERM);
        both(UNSHARE, &[namespace], EPERM);
    }
    // CLONE_NEWTIME: clone has the exit signal in its place.
    both(UNSHARE, &[0x80], EPERM);
    // CLONE_FS and CLONE_FILES.
    both(UNSHARE, &[0x600], ALLOW);
    both((435, 435), &[0, 0], ENOSYS);
}

#[test]
fn foreign_architectures_and_x32_end_the_process() {
    assert_eq!(user(I386, 20, &[]), KILL);
    assert_eq!(user(I386, 359, &[1, 1, 0]), KILL);
    assert_eq!(user(X86_64, 0x4000_0000 | 39, &[]), KILL);
    assert_eq!(root(X86_64, 0x4000_0000 | 437, &[]), KILL);
    assert_eq!(user(X86_64, 39, &[]), ALLOW);
}

#[test]
fn a_tracer_can_have_a_call_skipped() {
    assert_eq!(root(X86_64, u32::MAX, &[]), ALLOW);
    assert_eq!(root(AARCH64, u32::MAX, &[]), ALLOW);
    assert_eq!(root(X86_64, u32::MAX - 1, &[]), KILL);
}

#[test]
fn calls_of_later_kernels_are_absent() {
    // KERNEL(5.7): before, 512 to 547 were the x32 calls without their bit.
    for number in [470, 471, 512, 514, 547, 0x3fff_ffff] {
        both((number, number), &[], ENOSYS);
    }
}

#[test]
fn rings_are_absent_and_not_just_refused() {
    for number in [425, 426, 427] {
        both((number, number), &[], ENOSYS);
    }
}

#[test]
fn root_cannot_make_set_id_files_and_users_can() {
    // Where the mode stands: chmod, fchmod, creat, mkdir, mknod; then fchmodat, fchmodat2,
    // mkdirat, mknodat.
    let calls = [
        ((90, LACKS), 1),
        ((91, 52), 1),
        ((85, LACKS), 1),
        ((83, LACKS), 1),
        ((133, LACKS), 1),
        ((268, 53), 2),
        ((452, 452), 2),
        ((258, 34), 2),
        ((259, 33), 2),
    ];
    for ((x86, arm), before) in calls {
        let with = |mode| [vec![0; before], vec![mode]].concat();
        for (arch, number) in [(X86_64, x86), (AARCH64, arm)] {
            if number == LACKS {
                continue;
            }
            for mode in [0o4755, 0o2755, 0o6755, 1 << 32 | 0o4755] {
                let answer = root(arch, number, &with(mode));
                assert_eq!(answer, EPERM, "{number} {mode:o}");
                assert_eq!(user(arch, number, &with(mode)), ALLOW, "{number} {mode:o}");
            }
            assert_eq!(root(arch, number, &with(0o1777)), ALLOW, "{number}");
        }
    }
    assert_eq!(root(X86_64, 437, &[]), ENOSYS);
    assert_eq!(user(X86_64, 437, &[]), ALLOW);
}

#[test]
fn a_mode_counts_only_where_open_creates() {
    const O_CREAT: u64 = 0o100;
    const O_TMPFILE: u64 = 0o20_200_000;
    for (arch, number) in [(X86_64, 257), (AARCH64, 56)] {
        assert_eq!(root(arch, number, &[0, 0, 0, 0o4755]), ALLOW);
        assert_eq!(root(arch, number, &[0, 0, O_CREAT | 1, 0o4755]), EPERM);
        assert_eq!(root(arch, number, &[0, 0, O_TMPFILE | 1, 0o2755]), EPERM);
        assert_eq!(root(arch, number, &[0, 0, O_CREAT | 1, 0o1666]), ALLOW);
    }
    // open, which has no directory before the path.
    assert_eq!(root(X86_64, 2, &[0, 0, 0o4755]), ALLOW);
    assert_eq!(root(X86_64, 2, &[0, O_CREAT | 1, 0o4755]), EPERM);
    assert_eq!(root(X86_64, 2, &[0, O_TMPFILE | 1, 0o2755]), EPERM);
}
