#!/usr/bin/env python3
"""Runs a command on a kernel that refuses some calls.

usage: faultwrap.py ERRNO CALL[,CALL...] -- COMMAND...

Installs a seccomp filter that answers ERRNO (EPERM, ENOSYS, ...) to each CALL, as an older
kernel or a container would, then executes COMMAND. `clone` is refused only with namespace
flags, so that the command can still fork; `prctl:28` only with that first argument.
x86_64 and aarch64.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

# Number on x86_64, on aarch64.
CALLS = {
    "capset": (126, 91), "clone": (56, 220), "clone3": (435, 435), "close_range": (436, 436),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430), "keyctl": (250, 219),
    "landlock_add_rule": (445, 445), "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "open_tree": (428, 428), "openat2": (437, 437),
    "pivot_root": (155, 41), "seccomp": (317, 277), "sendmsg": (46, 211), "umount2": (166, 39),
    "unshare": (272, 97), "setsid": (112, 157), "signalfd4": (289, 74), "bind": (49, 200),
    "chdir": (80, 49), "symlinkat": (266, 36), "mkdirat": (258, 34),
    "kexec_load": (246, 104), "listen": (50, 201), "prctl": (157, 167), "socket": (41, 198),
    "socketpair": (53, 199),
}
LOAD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NAMESPACES = 0x7E020000


def program(calls, number):
    """Builds the filter as (code, jt, jf, k) tuples."""
    column = 1 if platform.machine() == "aarch64" else 0
    code = []
    for call in calls:
        if call == "clone":
            code += [(LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 3, CALLS[call][column])]
            code += [(LOAD, 0, 0, 16), (JUMP_SET, 0, 1, NAMESPACES), (RETURN, 0, 0, ERRNO | number)]
        elif ":" in call:
            name, value = call.split(":")
            code += [(LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 3, CALLS[name][column])]
            code += [(LOAD, 0, 0, 16), (JUMP_EQUAL, 0, 1, int(value)), (RETURN, 0, 0, ERRNO | number)]
        else:
            code += [(LOAD, 0, 0, 0), (JUMP_EQUAL, 0, 1, CALLS[call][column])]
            code += [(RETURN, 0, 0, ERRNO | number)]
    return code + [(RETURN, 0, 0, ALLOW)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


def main(words):
    if len(words) < 4 or words[2] != "--":
        sys.exit(__doc__)
    calls = words[1].split(",")
    unknown = [call for call in calls if call.split(":")[0] not in CALLS]
    if unknown or not hasattr(errno, words[0]):
        sys.exit(f"faultwrap: unknown: {unknown or words[0]}")
    code = program(calls, getattr(errno, words[0]))
    data = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in code))
    filter = Program(len(code), ctypes.addressof(data))
    libc = ctypes.CDLL(None, use_errno=True)
    # PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with SECCOMP_MODE_FILTER.
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(filter), 0, 0):
        sys.exit(f"faultwrap: {os.strerror(ctypes.get_errno())}")
    os.execvp(words[3], words[3:])


if __name__ == "__main__":
    main(sys.argv[1:])
