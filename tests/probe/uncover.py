#!/usr/bin/env python3
"""Tries to get behind mounts that hide or close a path, each time in new namespaces.

usage: uncover.py [--control] PREY...    one line each: `ATTACK PREY ANSWER`
       uncover.py --list                 the names of the attacks

PREY is KIND=PATH or KIND=PATH//BELOW. KIND is `hidden`, a directory or file that shows nothing,
`filtered`, a file that shows no `canary`, `closed`, one that is not to be written, or `held`, a link that
is not to be moved. The attack is on PATH, and what counts is what BELOW it shows or takes. ANSWER is
`read`, where a hidden path showed something or a filtered one that word, `wrote`, where a closed one took
a write, `moved`, where its name could be moved away, `kept` where none of it came, or the errno name of
the step that was refused. What `wrote` wrote is what stood there, or a file named `uncovered`; what was
`moved` is moved back.

With --control the covers are made by this program, in the namespaces in which it attacks them:
there they are its own to take away. Each attack runs in a child of its own. Linux on x86_64 and
aarch64.
"""

import contextlib
import ctypes
import errno
import os
import platform
import struct
import sys
import tempfile

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
ARM = platform.machine() == "aarch64"
MOUNT, UMOUNT, PIVOT_ROOT, SETNS = (40, 39, 41, 268) if ARM else (165, 166, 155, 308)
OPEN_TREE, MOVE_MOUNT, FSOPEN, FSCONFIG, FSMOUNT, MOUNT_SETATTR = 428, 429, 430, 431, 432, 442
UNSHARE, OPEN_BY_HANDLE_AT, NAME_TO_HANDLE_AT = (97, 265, 264) if ARM else (272, 304, 303)
NEWNS, NEWUSER, NEWPID, NEWNET = 0x20000, 0x10000000, 0x20000000, 0x40000000
RDONLY, REMOUNT, BIND, MOVE, REC, SHARED = 1, 32, 4096, 8192, 16384, 1 << 20
DETACH, CLONE, RECURSIVE, EMPTY_PATH, AT_FDCWD = 2, 1, 0x8000, 0x1000, -100
# A path that is a link means the link, wherever a call can be told so.
UMOUNT_NOFOLLOW, NOFOLLOW, FROM_EMPTY, TO_EMPTY = 8, 0x100, 4, 0x40
CONTROL = False


def call(number, *args):
    words = []
    for arg in args:
        if isinstance(arg, str):
            arg = ctypes.c_char_p(os.fsencode(arg))
        elif isinstance(arg, bytes):
            arg = ctypes.c_char_p(arg)
        elif isinstance(arg, int):
            arg = ctypes.c_long(arg)
        words.append(ctypes.c_void_p(0) if arg is None else arg)
    result = LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        raise OSError(ctypes.get_errno(), "syscall")
    return result


def mount(source, target, kind=None, flags=0, data=None):
    call(MOUNT, source, target, kind, flags, data)


def umount(target, flags=0):
    call(UMOUNT, target, flags | UMOUNT_NOFOLLOW)


def enter(flags=NEWUSER | NEWNS):
    """Makes namespaces and maps user 0 into them, as `unshare -rm` does."""
    uid, gid = os.geteuid(), os.getegid()
    call(UNSHARE, flags)
    for name, text in (("setgroups", "deny"), ("gid_map", f"0 {gid} 1"), ("uid_map", f"0 {uid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def cover(kind, path):
    """Covers a path as a sandbox does."""
    mount(None, "/", None, 1 << 18 | REC)
    if kind == "held":
        link = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        copy = tree(path, NOFOLLOW)
        call(MOVE_MOUNT, copy, "", link, "", FROM_EMPTY | TO_EMPTY)
        os.close(copy)
        os.close(link)
    elif kind == "closed":
        mount(path, path, None, BIND | REC)
        mount(None, path, None, REMOUNT | BIND | RDONLY)
    elif os.path.isdir(path):
        mount("none", path, "tmpfs", RDONLY)
    else:
        mount("/dev/null", path, None, BIND)


def place():
    """A new directory of a tmpfs to mount at."""
    mount("none", "/dev/shm" if os.path.isdir("/dev/shm") else "/tmp", "tmpfs")
    return tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else "/tmp")


def tree(path, flags=0):
    return call(OPEN_TREE, AT_FDCWD, path, CLONE | flags)


def attach(fd, target):
    call(MOVE_MOUNT, fd, "", AT_FDCWD, target, 4)


# Each attack returns the paths at which the prey may be uncovered now.


def as_it_stands(path):
    return [path]


def new_user_namespace(path):
    return [path]


def by_umount(path):
    umount(path)
    return [path]


def by_lazy_umount(path):
    umount(path, DETACH)
    return [path]


def by_umount_of_all(path):
    """From the bottom of the tree up, whatever is there."""
    with open("/proc/self/mountinfo") as table:
        places = [line.split()[4] for line in table]
    for point in reversed(places):
        with contextlib.suppress(OSError):
            umount(point, DETACH if point != "/" else 0)
    return [path]


def by_bind(path):
    point = place()
    mount(os.path.dirname(path), point, None, BIND)
    return [os.path.join(point, os.path.basename(path))]


def by_bind_of_itself(path):
    point = place()
    if not os.path.isdir(path) or os.path.islink(path):
        point += "/file"
        open(point, "w").close()
    mount(path, point, None, BIND)
    with contextlib.suppress(OSError):
        mount(None, point, None, REMOUNT | BIND)
    return [point]


def by_recursive_bind(path):
    point = place()
    mount(os.path.dirname(path), point, None, BIND | REC)
    copy = os.path.join(point, os.path.basename(path))
    umount(copy, DETACH)
    return [copy]


def by_recursive_bind_and_remount(path):
    point = place()
    mount(os.path.dirname(path), point, None, BIND | REC)
    copy = os.path.join(point, os.path.basename(path))
    mount(None, copy, None, REMOUNT | BIND)
    return [copy]


def by_remount(path):
    mount(None, path, None, REMOUNT | BIND)
    return [path]


def by_mount_setattr(path):
    attributes = ctypes.create_string_buffer(struct.pack("QQQQ", 0, 1, 0, 0))
    call(MOUNT_SETATTR, AT_FDCWD, path, RECURSIVE, attributes, 32)
    return [path]


def by_move(path):
    point = place()
    if not os.path.isdir(path) or os.path.islink(path):
        point += "/file"
        open(point, "w").close()
    mount(path, point, None, MOVE)
    return [path]


def by_move_mount(path):
    point = place()
    if not os.path.isdir(path) or os.path.islink(path):
        point += "/file"
        open(point, "w").close()
    call(MOVE_MOUNT, AT_FDCWD, path, AT_FDCWD, point, 0)
    return [path]


def by_move_of_parent(path):
    point = place()
    call(MOVE_MOUNT, AT_FDCWD, os.path.dirname(path), AT_FDCWD, point, 0)
    return [os.path.join(point, os.path.basename(path)), path]


def by_tree(path):
    fd = tree(os.path.dirname(path))
    return [f"/proc/self/fd/{fd}/{os.path.basename(path)}"]


def by_attached_tree(path):
    point = place()
    attach(tree(os.path.dirname(path), RECURSIVE), point)
    copy = os.path.join(point, os.path.basename(path))
    umount(copy, DETACH)
    return [copy]


def by_overlay(path):
    point = place()
    for name in ("upper", "work", "merged"):
        os.mkdir(f"{point}/{name}")
    layers = f"lowerdir={os.path.dirname(path)},upperdir={point}/upper,workdir={point}/work"
    mount("none", f"{point}/merged", "overlay", 0, layers + ",userxattr")
    return [f"{point}/merged/{os.path.basename(path)}"]


def by_overlay_over(path):
    """The directory itself is the upper layer: what is written to the top goes there."""
    parent = os.path.dirname(path)
    point = place()
    os.mkdir(f"{point}/lower")
    work = tempfile.mkdtemp(dir=os.path.dirname(parent))
    try:
        layers = f"lowerdir={point}/lower,upperdir={parent},workdir={work}"
        mount("none", parent, "overlay", 0, layers + ",userxattr")
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(work)
    return [path]


def by_pivot_root(path):
    point = place()
    mount("/", point, None, BIND | REC)
    os.chdir(point)
    call(PIVOT_ROOT, ".", ".")
    umount(".", DETACH)
    os.chdir("/")
    umount(path, DETACH)
    return [path]


def leave_tree():
    """Pivots into a tmpfs; the old root is below `/old` there."""
    point = place()
    mount("none", point, "tmpfs")
    os.mkdir(f"{point}/old")
    call(PIVOT_ROOT, point, f"{point}/old")
    os.chdir("/")


def by_old_root(path):
    leave_tree()
    with contextlib.suppress(OSError):
        umount("/old" + path, DETACH)
    return ["/old" + path]


def by_left_tree(path):
    """Looks into a tree that is mounted nowhere any more."""
    parent = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    proc = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY)
    leave_tree()
    umount("/old", DETACH)
    os.fchdir(proc)
    return [f"{parent}/{os.path.basename(path)}"]


def by_moved_name(path):
    """Moves the name where nothing is mounted on it: in a tree that was left."""
    parent = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    leave_tree()
    umount("/old", DETACH)
    name = os.path.basename(path)
    os.rename(name, name + ".moved", src_dir_fd=parent, dst_dir_fd=parent)
    os.rename(name + ".moved", name, src_dir_fd=parent, dst_dir_fd=parent)
    return None


def by_propagation(path):
    mount(None, "/", None, SHARED | REC)
    call(UNSHARE, NEWNS)
    umount(path, DETACH)
    return [path]


def by_third_namespace(path):
    for _ in range(3):
        enter()
    umount(path, DETACH)
    return [path]


def by_chroot(path):
    os.chroot(os.path.dirname(path))
    return ["/" + os.path.basename(path)]


def by_root_of_process(path):
    return [f"/proc/{pid}/{way}{path}" for pid in ("self", "1", os.getppid()) for way in ("root", "cwd/../../../../..")]


def by_setns(path):
    """Joins the mount namespace of every process, the first of which has the covers unlocked."""
    answers, joined = [], False
    for pid in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        for name, kind in (("user", NEWUSER), ("mnt", NEWNS)):
            try:
                fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
                call(SETNS, fd, kind)
                joined = joined or name == "mnt"
            except OSError as error:
                answers.append(error)
    if joined:
        umount(path, DETACH)
    elif answers:
        raise answers[0]
    return [path]


def by_handle(path):
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    identity = ctypes.create_string_buffer(4)
    call(NAME_TO_HANDLE_AT, AT_FDCWD, path, handle, identity, 0)
    root = os.open("/", os.O_RDONLY)
    fd = call(OPEN_BY_HANDLE_AT, root, handle, os.O_RDONLY)
    return [f"/proc/self/fd/{fd}"]


def new_file_system(name, flags=0):
    """A new view of the same kernel objects, in which nothing is covered."""

    def attack(path):
        top = {"proc": "/proc", "sysfs": "/sys"}[name]
        if not path.startswith(top + "/"):
            return []
        point = place()
        mount("none", point, name, flags)
        return [point + path[len(top):]]

    return attack


def by_fsopen(path):
    if not path.startswith("/proc/"):
        return []
    context = call(FSOPEN, "proc", 0)
    call(FSCONFIG, context, 6, None, None, 0)
    fd = call(FSMOUNT, context, 0, 0)
    return [f"/proc/self/fd/{fd}{path[5:]}"]


ATTACKS = {
    "as-it-stands": (None, as_it_stands),
    "user-namespace": (NEWUSER, new_user_namespace),
    "handle": (NEWUSER, by_handle),
    "process-root": (NEWUSER, by_root_of_process),
    "chroot": (NEWUSER, by_chroot),
    "umount": (NEWUSER | NEWNS, by_umount),
    "umount-lazy": (NEWUSER | NEWNS, by_lazy_umount),
    "umount-all": (NEWUSER | NEWNS, by_umount_of_all),
    "bind": (NEWUSER | NEWNS, by_bind),
    "bind-itself": (NEWUSER | NEWNS, by_bind_of_itself),
    "rbind": (NEWUSER | NEWNS, by_recursive_bind),
    "rbind-remount": (NEWUSER | NEWNS, by_recursive_bind_and_remount),
    "remount": (NEWUSER | NEWNS, by_remount),
    "setattr": (NEWUSER | NEWNS, by_mount_setattr),
    "move": (NEWUSER | NEWNS, by_move),
    "move-mount": (NEWUSER | NEWNS, by_move_mount),
    "move-parent": (NEWUSER | NEWNS, by_move_of_parent),
    "tree": (NEWUSER | NEWNS, by_tree),
    "attached-tree": (NEWUSER | NEWNS, by_attached_tree),
    "overlay": (NEWUSER | NEWNS, by_overlay),
    "overlay-over": (NEWUSER | NEWNS, by_overlay_over),
    "pivot-root": (NEWUSER | NEWNS, by_pivot_root),
    "old-root": (NEWUSER | NEWNS, by_old_root),
    "left-tree": (NEWUSER | NEWNS, by_left_tree),
    "moved-name": (NEWUSER | NEWNS, by_moved_name),
    "propagation": (NEWUSER | NEWNS, by_propagation),
    "third-namespace": (NEWUSER | NEWNS, by_third_namespace),
    "setns": (NEWUSER | NEWNS, by_setns),
    "new-proc": (NEWUSER | NEWNS | NEWPID, new_file_system("proc")),
    "new-proc-read-only": (NEWUSER | NEWNS | NEWPID, new_file_system("proc", RDONLY)),
    "new-sysfs": (NEWUSER | NEWNS | NEWNET, new_file_system("sysfs", RDONLY)),
    "fsopen": (NEWUSER | NEWNS | NEWPID, by_fsopen),
}


def shows(path):
    """Tells whether a hidden path shows something."""
    with contextlib.suppress(OSError):
        if os.path.isdir(path):
            return any(True for _ in os.scandir(path))
        with open(path, "rb") as file:
            return file.read(1) != b""
    return False


def tells(path):
    """Tells whether a filtered file shows what is taken out of it."""
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return b"canary" in file.read()
    return False


def takes(path):
    """Tells whether a closed path takes a write that changes nothing, or a new file."""
    with contextlib.suppress(OSError):
        if os.path.isdir(path):
            open(os.path.join(path, "uncovered"), "w").close()
            return True
        with open(path, "rb") as file:
            content = file.read()
        with open(path, "r+b", buffering=0) as file:
            file.write(content)
        return True
    return False


def moves(path):
    """Tells whether a link can be put elsewhere."""
    with contextlib.suppress(OSError):
        os.rename(path, path + ".moved")
        os.rename(path + ".moved", path)
        return True
    return False


def attempt(name, kind, path):
    path, _, below = path.partition("//")
    flags, attack = ATTACKS[name]
    try:
        if CONTROL:
            enter((flags or 0) | NEWUSER | NEWNS)
            cover(kind, path)
        elif flags:
            enter(flags)
        if flags and flags & NEWPID and os.fork():
            return None if os.waitstatus_to_exitcode(os.wait()[1]) == 0 else "kept"
        found = attack(path)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error.errno))
    if found is None:
        return "moved"
    judge = {"hidden": shows, "filtered": tells, "closed": takes, "held": moves}[kind]
    words = {"hidden": "read", "filtered": "read", "closed": "wrote", "held": "moved"}
    came = any(judge(os.path.join(place, below) if below else place) for place in found)
    return words[kind] if came else "kept"


def main(words):
    global CONTROL
    if words == ["--list"]:
        print("\n".join(ATTACKS))
        return
    CONTROL = words[:1] == ["--control"]
    preys = [word.partition("=") for word in words[CONTROL:]]
    for name in ATTACKS:
        for kind, _, path in preys:
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                answer = attempt(name, kind, path)
                if answer:
                    print(name, path, answer, flush=True)
                os._exit(0)
            os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
