#!/usr/bin/env python3
"""Tries every way to reach a Unix socket, and prints what the kernel answered.

usage: sockets.py DIRECTORY ABSTRACT   one line each: `KIND NAME SIDE ACT ANSWER`

KIND is stream, seqpacket or dgram. NAME says how the target is called: path, abstract, or pair,
where one end of a socket pair is aimed at the target's path. SIDE is whose the target is: inside
is served by this program, host and allowed by whoever bound DIRECTORY/SIDE-KIND.sock and the
abstract name ABSTRACT-SIDE-KIND. ACT is connect, sendto, sendmsg, sendmmsg, or io_uring, which
connects by a ring. ANSWER is `ok` or an errno name. Linux on x86_64 and aarch64.
"""

import ctypes
import errno
import mmap
import os
import platform
import socket
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
KINDS = {"stream": socket.SOCK_STREAM, "seqpacket": socket.SOCK_SEQPACKET, "dgram": socket.SOCK_DGRAM}
SENDMMSG = 269 if platform.machine() == "aarch64" else 307
IO_URING_SETUP, IO_URING_ENTER, IORING_OP_CONNECT, GETEVENTS = 425, 426, 16, 1
CQ_OFFSET, SQES_OFFSET = 0x8000000, 0x10000000


def call(number, *args):
    words = [a if isinstance(a, ctypes.c_void_p) else ctypes.c_long(a) for a in args]
    result = LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return result


def raw(name):
    """A struct sockaddr_un, kept alive by the caller."""
    path = name.encode() if isinstance(name, str) else name
    tail = b"" if path.startswith(b"\0") else b"\0"
    return ctypes.create_string_buffer(struct.pack("=H", socket.AF_UNIX) + path + tail, 3 + len(path) - (not tail))


def sendmmsg(sender, target):
    address, byte = raw(target), ctypes.create_string_buffer(b"x", 1)
    vector = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(byte), 1))
    message = struct.pack(
        "PIxxxxPNPNixxxxIxxxx", ctypes.addressof(address), len(address), ctypes.addressof(vector), 1, 0, 0, 0, 0
    )
    header = ctypes.create_string_buffer(message)
    call(SENDMMSG, sender.fileno(), ctypes.c_void_p(ctypes.addressof(header)), 1, 0)


class Ring:
    """An io_uring for one request at a time."""

    def __init__(self):
        parameters = ctypes.create_string_buffer(120)
        self.fd = call(IO_URING_SETUP, 1, ctypes.c_void_p(ctypes.addressof(parameters)))
        entries, cq_entries = struct.unpack_from("II", parameters, 0)
        self.sq, self.cq = struct.unpack_from("7I", parameters, 40), struct.unpack_from("6I", parameters, 80)
        self.submissions = mmap.mmap(self.fd, self.sq[6] + 4 * entries, offset=0)
        self.completions = mmap.mmap(self.fd, self.cq[5] + 16 * cq_entries, offset=CQ_OFFSET)
        self.requests = mmap.mmap(self.fd, 64 * entries, offset=SQES_OFFSET)

    def connect(self, sender, target):
        address = raw(target)
        self.requests[:64] = struct.pack(
            "=BBHiQQI", IORING_OP_CONNECT, 0, 0, sender.fileno(), len(address), ctypes.addressof(address), 0
        ).ljust(64, b"\0")
        struct.pack_into("I", self.submissions, self.sq[6], 0)
        (tail,) = struct.unpack_from("I", self.submissions, self.sq[1])
        struct.pack_into("I", self.submissions, self.sq[1], tail + 1)
        call(IO_URING_ENTER, self.fd, 1, 1, GETEVENTS, 0, 0)
        (head,) = struct.unpack_from("I", self.completions, self.cq[0])
        (mask,) = struct.unpack_from("I", self.completions, self.cq[2])
        (result,) = struct.unpack_from("i", self.completions, self.cq[5] + 16 * (head & mask) + 8)
        struct.pack_into("I", self.completions, self.cq[0], head + 1)
        if result < 0:
            raise OSError(-result, "ring")


def attempt(kind, name, act, target):
    """Does one act with a new socket."""
    ring = Ring() if act == "io_uring" else None
    if name == "pair":
        sender, _other = socket.socketpair(socket.AF_UNIX, kind)
    else:
        sender = socket.socket(socket.AF_UNIX, kind)
    if act == "connect":
        sender.connect(target)
    elif act == "sendto":
        sender.sendto(b"x", target)
    elif act == "sendmsg":
        sender.sendmsg([b"x"], [], 0, target)
    elif act == "sendmmsg":
        sendmmsg(sender, target)
    else:
        ring.connect(sender, target)


def serve(kind, targets):
    """Binds the targets inside; they are served as long as the result lives."""
    servers = []
    for target in targets:
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(target)
        if kind != socket.SOCK_DGRAM:
            server.listen(64)
        servers.append(server)
    return servers


def main(directory, abstract):
    for word, kind in KINDS.items():
        names = {
            side: (f"{directory}/{side}-{word}.sock", f"\0{abstract}-{side}-{word}")
            for side in ("inside", "host", "allowed")
        }
        try:
            _servers = serve(kind, names["inside"])
        except PermissionError:
            pass
        for name in ("path", "abstract", "pair"):
            for side, (path, unnamed) in names.items():
                for act in ("connect", "sendto", "sendmsg", "sendmmsg", "io_uring"):
                    try:
                        attempt(kind, name, act, unnamed if name == "abstract" else path)
                        answer = "ok"
                    except OSError as error:
                        answer = errno.errorcode.get(error.errno, str(error.errno))
                    print(word, name, side, act, answer, flush=True)
        if os.path.exists(names["inside"][0]):
            os.unlink(names["inside"][0])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
