#!/usr/bin/env python3
"""Tries acts that a sandbox refuses, and prints what the kernel answered.

usage: probe.py ACT...        one line each: `ACT ANSWER`
       probe.py --pid PID ACT...   acts on that process
       probe.py --list

ANSWER is `ok`, an errno name, or `signal N`. Arguments are bad on purpose: EFAULT, EBADF
or EINVAL say that the call reached the kernel, EPERM and ENOSYS that it was refused.
Each act runs in a child of its own. Linux on x86_64 and aarch64.
"""

import ctypes
import errno
import mmap
import os
import platform
import signal
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
BAD = ctypes.c_void_p(8)
ARM = platform.machine() == "aarch64"
PID = os.getppid()

# Name: number on x86_64, on aarch64. From 424 up all architectures share one number.
NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "chmod": (90, None),
    "chroot": (161, 51), "clock_settime": (227, 112), "clone": (56, 220), "clone3": (435, 435),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "fchmodat": (268, 53),
    "finit_module": (313, 273), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_uring_setup": (425, 425),
    "ioctl": (16, 29), "ioperm": (173, None), "iopl": (172, None), "kcmp": (312, 272),
    "kexec_load": (246, 104), "keyctl": (250, 219), "kill": (62, 129),
    "lookup_dcookie": (212, 18), "mkdirat": (258, 34), "mknodat": (259, 33),
    "modify_ldt": (154, None), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "nfsservctl": (180, 42), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "openat": (257, 56),
    "openat2": (437, 437), "perf_event_open": (298, 241), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pivot_root": (155, 41),
    "prctl": (157, 167), "process_vm_readv": (310, 270), "ptrace": (101, 117),
    "quotactl": (179, 60), "reboot": (169, 142), "remap_file_pages": (216, 234),
    "request_key": (249, 218), "rt_sigqueueinfo": (129, 138), "sched_setaffinity": (203, 122),
    "sendto": (44, 206), "sethostname": (170, 161), "setns": (308, 268), "setpriority": (141, 140),
    "settimeofday": (164, 170), "socket": (41, 198), "socketpair": (53, 199),
    "statmount": (457, 457), "swapon": (167, 224), "syslog": (103, 116), "tgkill": (234, 131),
    "umount2": (166, 39), "unshare": (272, 97), "uselib": (134, None),
    "userfaultfd": (323, 282), "vmsplice": (278, 75), "prlimit64": (302, 261),
}


class Absent(Exception):
    """The architecture has no such call."""


def call(name, *args):
    """Makes one system call; returns 0 or raises OSError."""
    number = NUMBERS[name][1 if ARM else 0]
    if number is None:
        raise Absent(name)
    words = [a if isinstance(a, ctypes.c_void_p) else ctypes.c_long(a) for a in args]
    if LIBC.syscall(ctypes.c_long(number), *words) < 0:
        raise OSError(ctypes.get_errno(), name)
    return 0


def machine_code(code):
    """Runs bytes of x86 machine code."""
    if ARM:
        raise Absent("x86 code")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()


def socket_pair(kind):
    return call("socketpair", 1, kind, 0, BAD)


USER, MOUNT, HIGH = 0x10000000, 0x20000, 1 << 32
AT_FDCWD = -100

ACTS = {
    # Sockets: AF_UNIX, AF_VSOCK and rare families; a pair of any kind.
    "socket-unix": lambda: call("socket", 1, 1, 0),
    "socket-unix-high-bits": lambda: call("socket", 1 | HIGH, 1, 0),
    "socket-unix-raw": lambda: call("socket", 1, 3, 0),
    "socket-vsock": lambda: call("socket", 40, 1, 0),
    "socket-vsock-seqpacket": lambda: call("socket", 40, 5, 0),
    "socket-vsock-dgram": lambda: call("socket", 40, 2, 0),
    "socket-packet": lambda: call("socket", 17, 3, 0),
    "socket-alg": lambda: call("socket", 38, 5, 0),
    "socket-netlink-netfilter": lambda: call("socket", 16, 3, 12),
    "socket-inet": lambda: call("socket", 2, 1, 0),
    "socket-netlink-route": lambda: call("socket", 16, 3, 0),
    "socketpair-dgram": lambda: socket_pair(2),
    "socketpair-dgram-cloexec": lambda: socket_pair(2 | 0o2000000),
    "socketpair-raw": lambda: socket_pair(3),
    "socketpair-stream": lambda: socket_pair(1),
    "socketpair-seqpacket": lambda: socket_pair(5),
    "sendto-fastopen": lambda: call("sendto", -1, BAD, 1, 0x20000000, BAD, 16),
    # The terminal.
    "tiocsti": lambda: call("ioctl", -1, 0x5412, BAD),
    "tiocsti-high-bits": lambda: call("ioctl", -1, 0x5412 | HIGH, BAD),
    "tioclinux": lambda: call("ioctl", -1, 0x541C, BAD),
    "tiocsetd": lambda: call("ioctl", -1, 0x5423, BAD),
    # Rings, keys, and calls that open kernel code nobody here needs.
    "io_uring_setup": lambda: call("io_uring_setup", 1, BAD),
    "io_uring_enter": lambda: call("io_uring_enter", -1, 0, 0, 0, 0, 0),
    "io_uring_register": lambda: call("io_uring_register", -1, 0, BAD, 0),
    "add_key": lambda: call("add_key", BAD, BAD, BAD, 1, -3),
    "request_key": lambda: call("request_key", BAD, BAD, BAD, -3),
    "keyctl": lambda: call("keyctl", 0, -3, 0),
    "bpf": lambda: call("bpf", 0, BAD, 8),
    "perf_event_open": lambda: call("perf_event_open", BAD, 0, -1, -1, 0),
    "userfaultfd": lambda: call("userfaultfd", -1),
    "fanotify_init": lambda: call("fanotify_init", -1, 0),
    "lookup_dcookie": lambda: call("lookup_dcookie", 0, BAD, 1),
    "vmsplice": lambda: call("vmsplice", -1, BAD, 1, 0),
    "remap_file_pages": lambda: call("remap_file_pages", 1, 1, 0, 0, 0),
    "nfsservctl": lambda: call("nfsservctl", 0, BAD, BAD),
    "uselib": lambda: call("uselib", BAD),
    "modify_ldt": lambda: call("modify_ldt", 99, BAD, 0),
    "personality-implies-exec": lambda: call("personality", 0x0400000),
    "personality-no-randomize": lambda: call("personality", 0x0040000),
    "set-mm": lambda: call("prctl", 35, 99, 0, 0, 0),
    "open_by_handle_at": lambda: call("open_by_handle_at", -1, BAD, 0),
    # Namespaces and mounts.
    "unshare-user": lambda: call("unshare", USER),
    "unshare-mount": lambda: call("unshare", MOUNT),
    "unshare-user-high-bits": lambda: call("unshare", USER | 0x7 << 32),
    "clone-user": lambda: call("clone", USER | MOUNT | 0x00010000 | 17, 0, BAD, 0, 0),
    "clone3": lambda: call("clone3", BAD, 64),
    "setns": lambda: call("setns", -1, 0),
    "mount": lambda: call("mount", BAD, BAD, BAD, 0, BAD),
    "umount2": lambda: call("umount2", BAD, 2),
    "pivot_root": lambda: call("pivot_root", BAD, BAD),
    "chroot": lambda: call("chroot", BAD),
    "open_tree": lambda: call("open_tree", -1, BAD, 1),
    "open_tree_attr": lambda: call("open_tree_attr", -1, BAD, 1, BAD, 32),
    "move_mount": lambda: call("move_mount", -1, BAD, -1, BAD, 0),
    "fsopen": lambda: call("fsopen", BAD, 0),
    "fsconfig": lambda: call("fsconfig", -1, 0, BAD, BAD, 0),
    "fsmount": lambda: call("fsmount", -1, 0, 0),
    "fspick": lambda: call("fspick", -1, BAD, 0),
    "mount_setattr": lambda: call("mount_setattr", -1, BAD, 0, BAD, 32),
    "statmount": lambda: call("statmount", BAD, BAD, 0, 0),
    # The machine.
    "acct": lambda: call("acct", BAD),
    "clock_settime": lambda: call("clock_settime", 99, BAD),
    "settimeofday": lambda: call("settimeofday", BAD, BAD),
    "delete_module": lambda: call("delete_module", BAD, 0),
    "init_module": lambda: call("init_module", BAD, 0, BAD),
    "finit_module": lambda: call("finit_module", -1, BAD, 0),
    "kexec_load": lambda: call("kexec_load", 0, 99, BAD, -1),
    "iopl": lambda: call("iopl", 99),
    "ioperm": lambda: call("ioperm", -1, 1, 1),
    "quotactl": lambda: call("quotactl", -1, BAD, 0, BAD),
    "reboot": lambda: call("reboot", 0, 0, 0, 0),
    "swapon": lambda: call("swapon", BAD, 0),
    "syslog": lambda: call("syslog", 3, BAD, -1),
    "sethostname": lambda: call("sethostname", BAD, -1),
    # Other processes.
    "kill": lambda: call("kill", PID, 0),
    "tgkill": lambda: call("tgkill", PID, PID, 0),
    "pidfd_open": lambda: call("pidfd_open", PID, 0),
    "pidfd_getfd": lambda: call("pidfd_getfd", -1, 0, 0),
    "rt_sigqueueinfo": lambda: call("rt_sigqueueinfo", PID, 0, BAD),
    "ptrace-seize": lambda: call("ptrace", 0x4206, PID, 0, 0),
    "process_vm_readv": lambda: call("process_vm_readv", PID, BAD, 0, BAD, 0, 0),
    "kcmp": lambda: call("kcmp", PID, PID, 0, 0, 0),
    "prlimit64": lambda: call("prlimit64", PID, 7, 0, 0),
    "setpriority": lambda: call("setpriority", 0, PID, 19),
    "sched_setaffinity": lambda: call("sched_setaffinity", PID, 8, BAD),
    # Set-id bits, on a path that does not exist.
    "fchmodat-setuid": lambda: call("fchmodat", -1, BAD, 0o4755),
    "mkdirat-setgid": lambda: call("mkdirat", -1, BAD, 0o2755),
    "mknodat-char": lambda: call("mknodat", AT_FDCWD, BAD, 0o020666, 0x0103),
    "openat-setuid": lambda: call("openat", -1, BAD, 0o100 | 1, 0o4755),
    "openat2": lambda: call("openat2", -1, BAD, BAD, 24),
    # Other calling conventions: mov eax, 20 (getpid); int 0x80; ret, and getpid of x32.
    "int80": lambda: machine_code(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"),
    "x32": lambda: machine_code(b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"),
}


def answer(act):
    """Runs one act in a child and says how the kernel answered."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            ACTS[act]()
            text = "ok"
        except Absent:
            text = "absent"
        except OSError as error:
            text = errno.errorcode.get(error.errno, str(error.errno))
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    text = os.read(read, 64).decode()
    os.close(read)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "signal " + signal.Signals(os.WTERMSIG(status)).name
    return text


def main(words):
    global PID
    if words[:1] == ["--pid"]:
        PID, words = int(words[1]), words[2:]
    if words == ["--list"]:
        words = []
        print("\n".join(ACTS))
    unknown = [word for word in words if word not in ACTS]
    if unknown:
        sys.exit(f"probe: no such act: {', '.join(unknown)}")
    for act in words:
        print(act, answer(act), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
