//! Sockets by path on file systems whose inodes `UNIX_DIAG` cannot tell apart: it knows 32 bits
//! of a number, and the device of the whole file system.

mod harness;

use harness::{Ran, Scratch, Srt, is_root, outside, run, skip, wrapped};

/// Serves `b/host`, connects to it once itself, runs the words, and prints how many came.
const HOST: &str = r"
import os, socket, subprocess, sys
for name in 'ab': os.makedirs(name, exist_ok=True)
# Others may have the first numbers where every tree has its own.
for number in range(20): open(f'b/{number}', 'w').close()
host = socket.socket(socket.AF_UNIX); host.bind('b/host'); host.listen(64)
socket.socket(socket.AF_UNIX).connect('b/host')
status = subprocess.run(sys.argv[1:]).returncode
host.setblocking(False)
reached = 0
try:
    while True: host.accept(); reached += 1
except BlockingIOError: print('reached', reached)
sys.exit(status)
";

/// Serves sockets until one has a number like that of `b/host`, and connects to both.
const COMMAND: &str = r"
import errno, os, socket
def answer(name):
    try: socket.socket(socket.AF_UNIX).connect(name); return 'ok'
    except OSError as error: return errno.errorcode[error.errno]
def number(name): return os.stat(name).st_ino & 0xffffffff
def alike(turn):
    os.makedirs(f'a/{turn // 100}', exist_ok=True)
    name = f'a/{turn // 100}/{turn}'
    server = socket.socket(socket.AF_UNIX); server.bind(name); server.listen(8)
    if turn == 0 or number(name) == number('b/host'): print(answer(name), answer('b/host'))
    return number(name) == number('b/host')
print('alike', any(alike(turn) for turn in range(2000)))
";

/// Runs both in a mount namespace of its own, in `m` of the scratch directory, after `prepare`.
fn after(prepare: &str, scratch: &Scratch) -> Ran {
    let work = scratch.dir("m");
    let srt = Srt::new(scratch).allow_write(&work).current_dir(&work);
    let srt = srt.into_command(&["python3", "-c", COMMAND]);
    let script = format!("cd .. && {prepare} && cd m && exec \"$@\"");
    let namespace = if is_root() { "-m" } else { "-rm" };
    let words = ["unshare", namespace, "sh", "-c", &script, "sh"];
    let words = [&words[..], &["python3", "-c", HOST]].concat();
    run(&mut wrapped(&words, &srt))
}

fn is_there(program: &str) -> bool {
    outside(&format!("command -v {program}")).status == 0
}

#[test]
fn sockets_work_on_a_file_system_in_memory() {
    let scratch = Scratch::new("tmpfs");
    let ran = after("mount -t tmpfs none m", &scratch).succeeds();
    assert_eq!(ran.stdout, "ok EACCES\nalike False\nreached 1\n");
}

#[test]
fn sockets_work_on_layers_of_two_file_systems() {
    let scratch = Scratch::new("overlay");
    let prepare = "mkdir lower upper && mount -t tmpfs none upper && mkdir upper/u upper/w \
                   && mount -t overlay -o lowerdir=lower,upperdir=upper/u,workdir=upper/w none m";
    let ran = after(prepare, &scratch).succeeds();
    assert_eq!(ran.stdout, "ok EACCES\nalike False\nreached 1\n");
}

#[test]
fn a_socket_of_the_host_with_the_same_number_in_another_subvolume_is_out_of_reach() {
    let scratch = Scratch::new("btrfs");
    if !is_root() || !is_there("mkfs.btrfs") {
        return skip("only root can mount a btrfs image, and needs mkfs.btrfs");
    }
    let prepare = "truncate -s 256M image && mkfs.btrfs -q image && mount -o loop image m \
                   && btrfs -q subvolume create m/a && btrfs -q subvolume create m/b";
    let ran = after(prepare, &scratch).succeeds();
    assert!(
        ran.stdout.ends_with("ok EACCES\nalike True\nreached 1\n"),
        "{ran:?}"
    );
}

#[test]
fn a_socket_of_the_host_whose_number_has_the_same_lower_half_is_out_of_reach() {
    let scratch = Scratch::new("xfs");
    if !is_root() || !is_there("mkfs.xfs") {
        return skip("only root can mount an XFS image, and needs mkfs.xfs");
    }
    // So large that the number of an allocation group is in the upper half.
    let prepare = "truncate -s 8T image && mkfs.xfs -q -l size=64m image && mount -o loop image m";
    let ran = after(prepare, &scratch).succeeds();
    assert_eq!(ran.stdout, "ok EACCES\nok EACCES\nalike True\nreached 1\n");
}
