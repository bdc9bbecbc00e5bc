"""Mounts a file system whose server finds names in any case, and runs a command.

    folding_mount.py PLACE CONTENT COMMAND…

In PLACE are `Secret.ENV`, `.mcp.json` and `Sub/Key.Pem`, all with CONTENT.
"""

import ctypes
import errno
import os
import struct
import subprocess
import sys
import threading

NOSUID_NODEV = 6
FORGET, BATCH_FORGET, INTERRUPT = 2, 42, 36
LOOKUP, GETATTR, OPEN, READ, INIT, OPENDIR, READDIR = 1, 3, 14, 15, 26, 27, 28
DONE = [18, 25, 29]  # RELEASE, FLUSH, RELEASEDIR

# By number: what is in a directory, or `None` for a file.
NODES = {1: {"Secret.ENV": 2, ".mcp.json": 3, "Sub": 4}, 2: None, 3: None, 4: {"Key.Pem": 5}, 5: None}

place, content, command = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]


def attributes(node):
    is_directory = NODES[node] is not None
    mode, size = (0o40755, 0) if is_directory else (0o100644, len(content))
    return struct.pack("6Q3I7I", node, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)


def entries(node, offset, size):
    listed = b""
    for at, (name, number) in enumerate(list(NODES[node].items())[offset:], offset + 1):
        name = name.encode()
        entry = struct.pack("QQII", number, at, len(name), 0) + name
        entry += bytes(-len(entry) % 8)
        if len(listed) + len(entry) > size:
            break
        listed += entry
    return listed


def answer(opcode, node, body):
    """See fuse(4) and linux/fuse.h."""
    if opcode == INIT:
        return struct.pack("4I2H2I2H8I", 7, 31, 0, 0, 1, 1, 4096, 1, 1, *[0] * 9)
    if opcode == LOOKUP:
        name = body.rstrip(b"\0").decode(errors="replace").lower()
        found = [number for other, number in NODES[node].items() if other.lower() == name]
        return struct.pack("4Q2I", found[0], 0, 0, 0, 0, 0) + attributes(found[0]) if found else errno.ENOENT
    if opcode == GETATTR:
        return struct.pack("Q2I", 0, 0, 0) + attributes(node)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("Q2I", 0, 0, 0)
    if opcode in (READ, READDIR):
        _, offset, size = struct.unpack_from("QQI", body)
        return entries(node, offset, size) if opcode == READDIR else content[offset : offset + size]
    return b"" if opcode in DONE else errno.ENOSYS


def serve(device):
    while True:
        request = os.read(device, 1 << 20)
        _, opcode, unique, node = struct.unpack_from("IIQQ", request)
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            continue
        said = answer(opcode, node, request[40:])
        code, said = (-said, b"") if isinstance(said, int) else (0, said)
        os.write(device, struct.pack("IiQ", 16 + len(said), code, unique) + said)


libc = ctypes.CDLL(None, use_errno=True)
device = os.open("/dev/fuse", os.O_RDWR)
data = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
if libc.mount(b"folding", place.encode(), b"fuse", NOSUID_NODEV, data.encode()):
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
threading.Thread(target=serve, args=[device], daemon=True).start()
ended = subprocess.run(command)
os._exit(ended.returncode)
