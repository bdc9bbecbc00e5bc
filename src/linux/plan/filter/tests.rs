//! Evaluates the compiled programs with a small interpreter of classic BPF, for both
//! architectures, whatever this machine is.

use super::{INSTRUCTION, instruction};

const X86_64: u32 = 0xc000_003e;
const AARCH64: u32 = 0xc000_00b7;
const I386: u32 = 0x4000_0003;

const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const EPERM: u32 = 0x0005_0001;
const ENOSYS: u32 = 0x0005_0026;

/// Defines the programs of one architecture by name.
macro_rules! programs {
    ($directory:literal) => {
        [
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/absent.bpf")).as_slice(),
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/refuse.bpf")).as_slice(),
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/setid-absent.bpf")).as_slice(),
            include_bytes!(concat!(env!("OUT_DIR"), $directory, "/setid.bpf")).as_slice(),
        ]
    };
}

/// Returns what the programs an ordinary user gets answer to one call: the strictest wins.
fn user(arch: u32, number: u32, args: &[u64]) -> u32 {
    strictest(arch, number, args, 2)
}

/// As [`user`], with the two programs root gets besides.
fn root(arch: u32, number: u32, args: &[u64]) -> u32 {
    strictest(arch, number, args, 4)
}

fn strictest(arch: u32, number: u32, args: &[u64], count: usize) -> u32 {
    let x86 = programs!("/x86_64");
    let arm = programs!("/aarch64");
    let programs = if arch == AARCH64 { arm } else { x86 };
    let answers = programs[..count]
        .iter()
        .map(|program| run(program, arch, number, args));
    // SECCOMP_RET_KILL_PROCESS is the lowest when the action is read as signed; seccomp(2).
    answers
        .min_by_key(|answer| answer.cast_signed())
        .expect("there are programs")
}

/// Runs one program on one `struct seccomp_data`.
fn run(program: &[u8], arch: u32, number: u32, args: &[u64]) -> u32 {
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

// Numbers from the kernel's syscall tables, x86_64 then aarch64.
const SOCKET: (u32, u32) = (41, 198);
const SOCKETPAIR: (u32, u32) = (53, 199);
const IOCTL: (u32, u32) = (16, 29);
const CLONE: (u32, u32) = (56, 220);
const UNSHARE: (u32, u32) = (272, 97);

#[track_caller]
fn both((x86, arm): (u32, u32), args: &[u64], answer: u32) {
    assert_eq!(user(X86_64, x86, args), answer, "x86_64 {x86} {args:?}");
    assert_eq!(user(AARCH64, arm, args), answer, "aarch64 {arm} {args:?}");
}

#[test]
fn only_inet_and_route_netlink_sockets_can_be_made() {
    for family in 0..=45 {
        let answer = if [2, 10, 16].contains(&family) {
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
    both(SOCKET, &[0x1_0000_0001, 1, 0], EPERM);
    both(SOCKET, &[0xffff_ffff_0000_0002, 1, 0], ALLOW);
    both(IOCTL, &[0, 0x1_0000_5412], EPERM);
    both(UNSHARE, &[0xdead_0000_1000_0000], EPERM);
}

#[test]
fn socket_pairs_are_streams_or_seqpackets_whatever_their_flags() {
    for kind in 0..16 {
        let answer = if kind == 1 || kind == 5 { ALLOW } else { EPERM };
        both(SOCKETPAIR, &[1, kind, 0], answer);
        both(SOCKETPAIR, &[1, kind | 0o2_000_000 | 0o4_000, 0], answer);
    }
}

#[test]
fn the_terminal_cannot_be_typed_into() {
    for request in [0x5412, 0x541c, 0x5423] {
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
    both((435, 435), &[0, 0], ENOSYS);
}

#[test]
fn foreign_architectures_and_x32_end_the_process() {
    assert_eq!(user(I386, 20, &[]), KILL);
    assert_eq!(user(I386, 359, &[1, 1, 0]), KILL);
    assert_eq!(user(X86_64, 0x4000_0000 | 39, &[]), KILL);
    assert_eq!(user(X86_64, 39, &[]), ALLOW);
}

#[test]
fn calls_above_the_compilers_table_are_refused_by_number() {
    both((467, 467), &[], EPERM);
}

#[test]
fn rings_are_absent_and_not_just_refused() {
    for number in [425, 426, 427] {
        both((number, number), &[], ENOSYS);
    }
}

#[test]
fn root_cannot_make_set_id_files_and_users_can() {
    // fchmodat, fchmodat2, mkdirat, mknodat: the mode is the third argument.
    for (x86, arm) in [(268, 53), (452, 452), (258, 34), (259, 33)] {
        for (arch, number) in [(X86_64, x86), (AARCH64, arm)] {
            for bits in [0o4755, 0o2755, 0o6755] {
                assert_eq!(
                    root(arch, number, &[0, 0, bits]),
                    EPERM,
                    "{number} {bits:o}"
                );
                assert_eq!(
                    user(arch, number, &[0, 0, bits]),
                    ALLOW,
                    "{number} {bits:o}"
                );
            }
            assert_eq!(root(arch, number, &[0, 0, 0o1777]), ALLOW, "{number}");
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
    }
}
