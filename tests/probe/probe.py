#!/usr/bin/env python3
"""Tries acts that a sandbox refuses, and prints what the kernel answered.

usage: probe.py [OPTION VALUE]... ACT...   one line each: `ACT ANSWER`
       probe.py --list                     the names of the acts

  --pid PID      process for the acts on another process
  --key KEY      key of the System V objects that sysv-* look up
  --queue NAME   POSIX message queue that mq_open looks up, without a slash
  --dir DIR      directory in which make-* leave what they made

ANSWER is `ok`, `absent` (no such call on this architecture), an errno name, `signal NAME`,
or what the act read. Arguments are bad on purpose: EFAULT, EBADF or EINVAL say that the
call reached the kernel, EPERM and ENOSYS that it was refused. Each act runs in a child of
its own. Outside a sandbox, `socket-FAMILY-TYPE` may load kernel modules, and setpriority,
ioprio_set and sched_setaffinity change PID. Linux on x86_64 and aarch64.
"""

import argparse
import ctypes
import errno
import mmap
import os
import platform
import signal
import struct
import sys
import threading
import traceback

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
BAD = ctypes.c_void_p(8)
NULL = ctypes.c_void_p(0)
ARM = platform.machine() == "aarch64"
OPTIONS = argparse.Namespace()

# Name: number on x86_64, on aarch64. From 424 up all architectures share one number.
NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280),
    "chmod": (90, None), "chroot": (161, 51), "clock_adjtime": (305, 266),
    "clock_settime": (227, 112), "clone": (56, 220),
    "clone3": (435, 435), "creat": (85, None), "delete_module": (176, 106),
    "fanotify_init": (300, 262), "fchmod": (91, 52), "fchmodat": (268, 53),
    "fchmodat2": (452, 452), "finit_module": (313, 273), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433), "init_module": (175, 105),
    "inotify_init1": (294, 26), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioperm": (173, None), "iopl": (172, None),
    "ioprio_set": (251, 30), "kcmp": (312, 272), "kexec_file_load": (320, 294),
    "kexec_load": (246, 104), "keyctl": (250, 219), "kill": (62, 129),
    "landlock_create_ruleset": (444, 444), "listmount": (458, 458), "lookup_dcookie": (212, 18),
    "membarrier": (324, 283), "memfd_create": (319, 279), "mkdir": (83, None),
    "mkdirat": (258, 34), "mknod": (133, None), "mknodat": (259, 33), "modify_ldt": (154, None),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "move_pages": (279, 239), "mq_open": (240, 180), "msgget": (68, 186),
    "nfsservctl": (180, 42), "open": (2, None), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "openat": (257, 56),
    "openat2": (437, 437), "perf_event_open": (298, 241), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "pidfd_open": (434, 434), "pivot_root": (155, 41),
    "prctl": (157, 167), "prlimit64": (302, 261), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "remap_file_pages": (216, 234),
    "request_key": (249, 218), "rt_sigqueueinfo": (129, 138), "sched_setaffinity": (203, 122),
    "semget": (64, 190), "sendmmsg": (307, 269), "sendmsg": (46, 211), "sendto": (44, 206),
    "setdomainname": (171, 162), "sethostname": (170, 161), "setns": (308, 268),
    "setpriority": (141, 140), "settimeofday": (164, 170), "shmget": (29, 194),
    "socket": (41, 198), "socketpair": (53, 199), "statmount": (457, 457), "swapoff": (168, 225),
    "swapon": (167, 224), "syslog": (103, 116), "tgkill": (234, 131), "umount2": (166, 39),
    "unshare": (272, 97), "uselib": (134, None), "userfaultfd": (323, 282),
    "vmsplice": (278, 75),
}

AT_FDCWD = -100
O_CREAT, O_WRONLY, O_TMPFILE = 0o100, 0o1, 0o20200000
CLOEXEC = 0o2000000
FASTOPEN = 0x20000000
HIGH = 1 << 32
CLONE_THREAD = 0x00010000
ADJ_TICK = 0x4000
NAMESPACES = {
    "mount": 0x00020000, "cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000,
    "user": 0x10000000, "pid": 0x20000000, "net": 0x40000000,
}
USER = NAMESPACES["user"]


class Absent(Exception):
    """The architecture has no such call."""


def call(name, *args):
    """Makes one system call; raises OSError when the kernel says so."""
    number = NUMBERS[name][1 if ARM else 0]
    if number is None:
        raise Absent(name)
    words = [a if isinstance(a, ctypes.c_void_p) else ctypes.c_long(a) for a in args]
    if LIBC.syscall(ctypes.c_long(number), *words) < 0:
        raise OSError(ctypes.get_errno(), name)


def act(name, *args):
    """An act that is one call."""
    return lambda: call(name, *args)


def machine_code(code):
    """Runs bytes of x86 machine code that return what the kernel answered."""
    if ARM:
        raise Absent("x86 code")
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    result = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if result < 0:
        raise OSError(-result, "machine code")


def memory(content):
    """The address of a copy of `content`, kept until the child ends."""
    buffer = ctypes.create_string_buffer(content, len(content))
    memory.kept.append(buffer)
    return ctypes.c_void_p(ctypes.addressof(buffer))


memory.kept = []


def option(name):
    """The value of an option that an act cannot do without."""
    value = getattr(OPTIONS, name)
    if value is None:
        raise SystemExit(f"probe: this act needs --{name}")
    return value


def on_process(name, arguments):
    """An act on the process of --pid; `arguments` makes the list from its id."""
    return lambda: call(name, *arguments(option("pid")))


def between_memories(pid):
    """Arguments of process_vm_*: one byte of ours, and one that no process has."""
    ours, theirs = memory(b"\0").value, BAD.value
    return pid, memory(struct.pack("PN", ours, 1)), 1, memory(struct.pack("PN", theirs, 1)), 1, 0


def queued_signal():
    """A siginfo_t that says sigqueue(3): si_code is SI_QUEUE."""
    return memory(struct.pack("iii", 0, 0, -1).ljust(128, b"\0"))


def own_affinity():
    mask = sum(1 << cpu for cpu in os.sched_getaffinity(0))
    return memory(mask.to_bytes(128, sys.byteorder))


def timex(modes):
    """A struct timex of zeros: a tick of 0 is EINVAL for whoever may set it."""
    return memory(struct.pack("I", modes).ljust(208, b"\0"))


def sysv_objects():
    """Counts the System V objects this namespace lists, below the heading of each file."""
    files = [open(f"/proc/sysvipc/{kind}") for kind in ("shm", "msg", "sem")]
    return str(sum(len(file.readlines()) - 1 for file in files))


def setns_own(kind):
    call("setns", os.open(f"/proc/self/ns/{kind}", os.O_RDONLY), 0)


def make_device():
    """Makes the null device, which has number 1:3."""
    os.mknod(option("dir") + "/device", 0o020666, os.makedev(1, 3))


def make_setuid_by_open():
    os.close(os.open(option("dir") + "/setuid-by-open", O_CREAT | O_WRONLY, 0o4755))


def make_setuid_by_chmod():
    path = option("dir") + "/setuid-by-chmod"
    os.close(os.open(path, O_CREAT | O_WRONLY, 0o755))
    os.chmod(path, 0o4755)


def trace_own_child():
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        call("ptrace", 0x4206, child, 0, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def filter_self():
    """Installs a seccomp filter that allows all, as a sandbox inside the sandbox would."""
    LIBC.prctl(38, 1, 0, 0, 0)
    allow = memory(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    call("prctl", 22, 2, memory(struct.pack("HP", 1, allow.value)))


def spawn():
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)


def run_thread():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


ACTS = {
    # Sockets: AF_UNIX, AF_VSOCK and rare families; a pair of any kind.
    "socket-unix": act("socket", 1, 1, 0),
    "socket-unix-high-bits": act("socket", 1 | HIGH, 1, 0),
    "socket-unix-raw": act("socket", 1, 3, 0),
    "socket-vsock": act("socket", 40, 1, 0),
    "socket-vsock-seqpacket": act("socket", 40, 5, 0),
    "socket-vsock-dgram": act("socket", 40, 2, 0),
    "socket-packet": act("socket", 17, 3, 0),
    "socket-alg": act("socket", 38, 5, 0),
    "socket-netlink-netfilter": act("socket", 16, 3, 12),
    "socket-inet": act("socket", 2, 1, 0),
    "socket-netlink-route": act("socket", 16, 3, 0),
    "socketpair-dgram": act("socketpair", 1, 2, 0, BAD),
    "socketpair-dgram-cloexec": act("socketpair", 1, 2 | CLOEXEC, 0, BAD),
    "socketpair-raw": act("socketpair", 1, 3, 0, BAD),
    "socketpair-tipc": act("socketpair", 30, 5, 0, BAD),
    "socketpair-vsock": act("socketpair", 40, 1, 0, BAD),
    "socketpair-stream": act("socketpair", 1, 1, 0, BAD),
    "socketpair-seqpacket": act("socketpair", 1, 5, 0, BAD),
    "sendto-fastopen": act("sendto", -1, BAD, 1, FASTOPEN, BAD, 16),
    "sendmsg-fastopen": act("sendmsg", -1, BAD, FASTOPEN),
    "sendmmsg-fastopen": act("sendmmsg", -1, BAD, 1, FASTOPEN),
    # The terminal.
    "tiocsti": act("ioctl", -1, 0x5412, BAD),
    "tiocsti-high-bits": act("ioctl", -1, 0x5412 | HIGH, BAD),
    "tioclinux": act("ioctl", -1, 0x541C, BAD),
    "tioclinux-high-bits": act("ioctl", -1, 0x541C | HIGH, BAD),
    "tiocsetd": act("ioctl", -1, 0x5423, BAD),
    "kdskbent": act("ioctl", -1, 0x4B47, BAD),
    # Rings, keys, and calls that open kernel code nobody here needs.
    "io_uring_setup": act("io_uring_setup", 1, BAD),
    "io_uring_enter": act("io_uring_enter", -1, 0, 0, 0, 0, 0),
    "io_uring_register": act("io_uring_register", -1, 0, BAD, 0),
    "add_key": act("add_key", BAD, BAD, BAD, 1, -3),
    "request_key": act("request_key", BAD, BAD, BAD, -3),
    "keyctl": act("keyctl", 0, -3, 0),
    "bpf": act("bpf", 0, BAD, 8),
    "perf_event_open": act("perf_event_open", BAD, 0, -1, -1, 0),
    "userfaultfd": act("userfaultfd", -1),
    "fanotify_init": act("fanotify_init", -1, 0),
    "lookup_dcookie": act("lookup_dcookie", 0, BAD, 1),
    "vmsplice": act("vmsplice", -1, BAD, 1, 0),
    "remap_file_pages": act("remap_file_pages", 1, 1, 0, 0, 0),
    "nfsservctl": act("nfsservctl", 0, BAD, BAD),
    "uselib": act("uselib", BAD),
    "modify_ldt": act("modify_ldt", 0, BAD, 8),
    "personality-implies-exec": act("personality", 0x0400000),
    "personality-no-randomize": act("personality", 0x0040000),
    "set-mm": act("prctl", 35, 99, 0, 0, 0),
    "open_by_handle_at": act("open_by_handle_at", -1, BAD, 0),
    # Namespaces and mounts. CLONE_THREAD alone is EINVAL: what is reached makes no process.
    "unshare-time": act("unshare", 0x80),
    "unshare-user-high-bits": act("unshare", USER | 0x7 << 32),
    "clone-user-high-bits": act("clone", USER | CLONE_THREAD | HIGH, 0, BAD, 0, 0),
    "clone3": act("clone3", BAD, 64),
    "setns": act("setns", -1, 0),
    "setns-user": lambda: setns_own("user"),
    "setns-mount": lambda: setns_own("mnt"),
    "mount": act("mount", BAD, BAD, BAD, 0, BAD),
    "umount2": act("umount2", BAD, 2),
    "pivot_root": act("pivot_root", BAD, BAD),
    "chroot": act("chroot", BAD),
    "open_tree": act("open_tree", -1, BAD, 1),
    "open_tree_attr": act("open_tree_attr", -1, BAD, 1, BAD, 32),
    "move_mount": act("move_mount", -1, BAD, -1, BAD, 0),
    "fsopen": act("fsopen", BAD, 0),
    "fsconfig": act("fsconfig", -1, 0, BAD, BAD, 0),
    "fsmount": act("fsmount", -1, 0, 0),
    "fspick": act("fspick", -1, BAD, 0),
    "mount_setattr": act("mount_setattr", -1, BAD, 0, BAD, 32),
    "statmount": act("statmount", BAD, BAD, 0, 0),
    "listmount": act("listmount", BAD, BAD, 0, 0),
    # The machine.
    "acct": act("acct", BAD),
    "adjtimex": act("adjtimex", BAD),
    "adjtimex-read": lambda: call("adjtimex", timex(0)),
    "adjtimex-bad-tick": lambda: call("adjtimex", timex(ADJ_TICK)),
    "clock_adjtime-bad-tick": lambda: call("clock_adjtime", 0, timex(ADJ_TICK)),
    "clock_settime": act("clock_settime", 99, BAD),
    "settimeofday": act("settimeofday", BAD, BAD),
    "delete_module": act("delete_module", BAD, 0),
    "init_module": act("init_module", BAD, 0, BAD),
    "finit_module": act("finit_module", -1, BAD, 0),
    "kexec_load": act("kexec_load", 0, 99, BAD, -1),
    "kexec_file_load": act("kexec_file_load", -1, -1, 0, BAD, -1),
    "iopl": act("iopl", 99),
    "ioperm": act("ioperm", -1, 1, 1),
    "quotactl": act("quotactl", -1, BAD, 0, BAD),
    "quotactl_fd": act("quotactl_fd", -1, -1, 0, BAD),
    "reboot": act("reboot", 0, 0, 0, 0),
    "swapon": act("swapon", BAD, 0),
    "swapoff": act("swapoff", BAD),
    "syslog": act("syslog", 3, BAD, -1),
    "sethostname": act("sethostname", BAD, -1),
    "setdomainname": act("setdomainname", BAD, -1),
    # Another process. Signal 0 asks only whether it could be sent.
    "kill": on_process("kill", lambda pid: (pid, 0)),
    "tgkill": on_process("tgkill", lambda pid: (pid, pid, 0)),
    "rt_sigqueueinfo": on_process("rt_sigqueueinfo", lambda pid: (pid, 0, queued_signal())),
    "pidfd_open": on_process("pidfd_open", lambda pid: (pid, 0)),
    "pidfd_getfd": act("pidfd_getfd", -1, 0, 0),
    "ptrace-seize": on_process("ptrace", lambda pid: (0x4206, pid, 0, 0)),
    "process_vm_readv": on_process("process_vm_readv", between_memories),
    "process_vm_writev": on_process("process_vm_writev", between_memories),
    "move_pages": on_process("move_pages", lambda pid: (pid, 0, NULL, NULL, NULL, 0)),
    "kcmp": on_process("kcmp", lambda pid: (pid, pid, 0, 0, 0)),
    "prlimit64": on_process("prlimit64", lambda pid: (pid, 7, 0, 0)),
    "setpriority": on_process("setpriority", lambda pid: (0, pid, 19)),
    "ioprio_set": on_process("ioprio_set", lambda pid: (1, pid, 2 << 13 | 4)),
    "sched_setaffinity": on_process("sched_setaffinity", lambda pid: (pid, 128, own_affinity())),
    # Objects outside the file tree.
    "sysv-shm": lambda: call("shmget", option("key"), 0, 0),
    "sysv-msg": lambda: call("msgget", option("key"), 0),
    "sysv-sem": lambda: call("semget", option("key"), 0, 0),
    "sysv-list": sysv_objects,
    "mq_open": lambda: call("mq_open", memory(option("queue").encode() + b"\0"), 0, 0, 0),
    # Set-id bits, on a path that cannot be read.
    "chmod-setuid": act("chmod", BAD, 0o4755),
    "creat-setuid": act("creat", BAD, 0o4755),
    "fchmod-setuid": act("fchmod", -1, 0o4755),
    "fchmodat-setuid": act("fchmodat", -1, BAD, 0o4755),
    "fchmodat2-setuid": act("fchmodat2", -1, BAD, 0o4755, 0),
    "mkdir-setgid": act("mkdir", BAD, 0o2755),
    "mkdirat-setgid": act("mkdirat", -1, BAD, 0o2755),
    "mknod-setuid": act("mknod", BAD, 0o104755, 0),
    "mknodat-setuid": act("mknodat", -1, BAD, 0o104755, 0),
    "open-setuid": act("open", BAD, O_CREAT | O_WRONLY, 0o4755),
    "openat-setuid": act("openat", -1, BAD, O_CREAT | O_WRONLY, 0o4755),
    "openat-setgid-tmpfile": act("openat", -1, BAD, O_TMPFILE | O_WRONLY, 0o2755),
    "openat2": act("openat2", -1, BAD, BAD, 24),
    # The same for real, and a device.
    "make-device": make_device,
    "make-setuid-by-open": make_setuid_by_open,
    "make-setuid-by-chmod": make_setuid_by_chmod,
    # What has to keep working.
    "own-spawn": spawn,
    "own-thread": run_thread,
    "own-child-traced": trace_own_child,
    "own-filter": filter_self,
    "own-landlock": act("landlock_create_ruleset", NULL, 0, 1),
    "own-memfd": act("memfd_create", memory(b"probe\0"), 0),
    "own-inotify": act("inotify_init1", 0),
    "own-membarrier": act("membarrier", 0, 0, 0),
    "own-unshared-files": act("unshare", 0x400),
    # Other calling conventions: mov eax, 20 (getpid); int 0x80; ret, and getpid of x32.
    "int80": lambda: machine_code(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"),
    "x32": lambda: machine_code(b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"),
}
for kind, flag in NAMESPACES.items():
    ACTS[f"unshare-{kind}"] = act("unshare", flag)
    ACTS[f"clone-{kind}"] = act("clone", flag | CLONE_THREAD, 0, BAD, 0, 0)
for family in range(46):
    for kind in range(1, 6):
        ACTS[f"socket-{family}-{kind}"] = act("socket", family, kind, 0)
for kind in range(16):
    ACTS[f"socketpair-{kind}"] = act("socketpair", 1, kind, 0, BAD)


def attempt(name):
    """Does one act, in the child, and puts the answer into a word."""
    try:
        return ACTS[name]() or "ok"
    except Absent:
        return "absent"
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))


def answer(name):
    """Runs one act in a child and says how the kernel answered."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(write, attempt(name).encode())
            status = 0
        except SystemExit as missing:
            print(missing, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(write)
    text = os.read(read, 64).decode()
    os.close(read)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "signal " + signal.Signals(os.WTERMSIG(status)).name
    if status != 0:
        sys.exit(f"probe: {name} could not be tried")
    return text


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--key", type=int)
    parser.add_argument("--queue")
    parser.add_argument("--dir")
    parser.add_argument("acts", nargs="*")
    parser.parse_args(namespace=OPTIONS)
    if OPTIONS.list:
        print("\n".join(ACTS))
    unknown = [name for name in OPTIONS.acts if name not in ACTS]
    if unknown:
        sys.exit(f"probe: no such act: {', '.join(unknown)}")
    for name in OPTIONS.acts:
        print(name, answer(name), flush=True)


if __name__ == "__main__":
    main()
