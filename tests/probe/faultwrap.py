#!/usr/bin/env python3
"""Runs a command on a kernel that refuses some calls.

usage: faultwrap.py ERRNO CALL[,CALL...] -- COMMAND...

Installs a seccomp filter that answers ERRNO (EPERM, ENOSYS, ...) to each CALL, as an older
kernel or a container would, then executes COMMAND. DONE in place of an errno answers that all is
well, and does nothing. `clone` is refused only with namespace
flags, so that the command can still fork; `clone3` always, because its flags lie in memory;
`prctl:28` only with that first argument, `socket:2=12` only with that third one. x86_64 and
aarch64.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

# Name: number on x86_64, on aarch64.
CALLS = {
    "accept4": (288, 242), "bind": (49, 200), "capset": (126, 91), "chdir": (80, 49),
    "clone": (56, 220), "clone3": (435, 435), "close_range": (436, 436), "connect": (42, 203),
    "fchdir": (81, 50), "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430),
    "getrandom": (318, 278), "ioctl": (16, 29), "kexec_load": (246, 104), "keyctl": (250, 219),
    "landlock_add_rule": (445, 445), "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446), "listen": (50, 201), "mkdirat": (258, 34),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429),
    "open_tree": (428, 428), "openat2": (437, 437), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "prctl": (157, 167),
    "prlimit64": (302, 261), "process_vm_readv": (310, 270), "recvmsg": (47, 212), "seccomp": (317, 277), "sendmsg": (46, 211),
    "setns": (308, 268), "setsid": (112, 157), "signalfd4": (289, 74), "socket": (41, 198),
    "socketpair": (53, 199), "statx": (332, 291), "symlinkat": (266, 36), "umount2": (166, 39),
    "unshare": (272, 97), "waitid": (247, 95),
}
LOAD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER, FIRST_ARGUMENT = 0, 16
# From CLONE_NEWCGROUP up to CLONE_NEWNET, and CLONE_NEWNS.
NAMESPACES = 0x7E020000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def program(calls, answer):
    """Builds the filter as (code, jt, jf, k) tuples."""
    column = 1 if platform.machine() == "aarch64" else 0
    code = []
    for call in calls:
        call, _, argument = call.partition(":")
        index, _, value = argument.rpartition("=")
        offset = FIRST_ARGUMENT + 8 * int(index or 0)
        number, refuse = CALLS[call][column], (RETURN, 0, 0, ERRNO | answer)
        code.append((LOAD, 0, 0, NUMBER))
        if call == "clone":
            code += [(JUMP_EQUAL, 0, 3, number), (LOAD, 0, 0, FIRST_ARGUMENT)]
            code += [(JUMP_SET, 0, 1, NAMESPACES), refuse]
        elif argument:
            code += [(JUMP_EQUAL, 0, 3, number), (LOAD, 0, 0, offset)]
            code += [(JUMP_EQUAL, 0, 1, int(value)), refuse]
        else:
            code += [(JUMP_EQUAL, 0, 1, number), refuse]
    return code + [(RETURN, 0, 0, ALLOW)]


class Program(ctypes.Structure):
    """struct sock_fprog of linux/filter.h."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def install(code):
    data = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
    fprog = Program(len(code), ctypes.addressof(data))
    libc = ctypes.CDLL(None, use_errno=True)
    # Root needs no no_new_privs for a filter, and a test may ask whether srt sets it.
    refused = os.geteuid() != 0 and libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if refused or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(fprog), 0, 0):
        sys.exit(f"faultwrap: cannot install the filter: {os.strerror(ctypes.get_errno())}")


def main(words):
    if len(words) < 4 or words[2] != "--":
        sys.exit(__doc__)
    answer = 0 if words[0] == "DONE" else getattr(errno, words[0], None)
    calls, command = words[1].split(","), words[3:]
    unknown = [call for call in calls if call.split(":")[0] not in CALLS]
    if unknown or not isinstance(answer, int):
        sys.exit(f"faultwrap: unknown: {', '.join(unknown) or words[0]}")
    install(program(calls, answer))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
