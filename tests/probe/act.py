#!/usr/bin/python3
"""usage: act.py

Does to files below a root, which the act of that name sets, what its input says, one act a line: its name, then operands in
hexadecimal. A path is relative to the root; a target of a link that starts with `@` is the root's.
Answers each with `ok`, what was read, or the name of an error.
"""

import errno
import os
import sys

ROOT = b"/"


def root(path):
    global ROOT
    ROOT = path


def place(path):
    return os.path.join(ROOT, path) if path else ROOT


def read(path):
    with open(place(path), "rb") as file:
        return file.read()


def names(path):
    return b"/".join(sorted(os.listdir(place(path))))


def write(path, data):
    with open(place(path), "ab") as file:
        file.write(data)


def create(path):
    os.close(os.open(place(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def empty(path):
    os.close(os.open(place(path), os.O_RDONLY | os.O_TRUNC))


def symlink(target, path):
    target = ROOT + target[1:] if target.startswith(b"@") else target
    os.symlink(target, place(path))


def link(old, new):
    os.link(place(old), place(new), follow_symlinks=False)


ACTS = {
    "root": root,
    "read": read,
    "list": names,
    "write": write,
    "create": create,
    "empty": empty,
    "truncate": lambda path: os.truncate(place(path), 1),
    "chmod": lambda path, mode: os.chmod(place(path), int(mode, 8)),
    "touch": lambda path: os.utime(place(path), (1, 1)),
    "mkdir": lambda path: os.mkdir(place(path), 0o755),
    "symlink": symlink,
    "link": link,
    "unlink": lambda path: os.unlink(place(path)),
    "rmdir": lambda path: os.rmdir(place(path)),
    "rename": lambda old, new: os.rename(place(old), place(new)),
}


def answer(line):
    name, *operands = line.split()
    # A dot stands before each operand, since one may be empty.
    operands = [bytes.fromhex(operand[1:]) for operand in operands]
    try:
        found = ACTS[name](*operands)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok" if found is None else "ok ." + found.hex()


for line in sys.stdin:
    print(answer(line), flush=True)
