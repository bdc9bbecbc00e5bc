//! Device nodes, which are the host's own.

use std::fs::File;
use std::process::Command;

use super::harness::{Ran, Scratch, Srt, is_root, run, skip};

/// Prints mode, numbers and times of the nodes of a `/dev` of the test's own, whose null is
/// standard input of what changes them.
const NODES: &str = r#"
    mount -t tmpfs dev "$1" && cd "$1" || exit 99
    mknod null c 1 3 && mknod zero c 1 5 && mknod full c 1 7 && mknod random c 1 8 || exit 99
    mknod urandom c 1 9 && mknod tty c 5 0 && mkdir shm pts && ln -s /proc/self/fd . || exit 99
    chmod 666 null zero full random urandom tty && touch -d @7 * && mount --move . /dev || exit 99
    cd /; shift; "$@" </dev/null >/dev/full 2>/dev/zero
    exec stat -c '%n %a %t:%T %Y %u' /dev/null /dev/zero /dev/full /dev/random /dev/urandom
"#;

const CHANGES: &str = "
import os
devices = ['null', 'zero', 'full', 'random', 'urandom']
for device in ['/dev/' + name for name in devices] + [0, 1, 2] + [f'/proc/self/fd/{n}' for n in range(3)]:
    for act in (lambda d: os.utime(d, (9, 9)), lambda d: os.chown(d, 0, 0), lambda d: os.chmod(d, 0o600)):
        try: act(device)
        except OSError: pass
for device in devices:
    fd = os.open('/dev/' + device, os.O_RDONLY)
    for act in (lambda: os.utime(fd, (9, 9)), lambda: os.fchmod(fd, 0o600)):
        try: act()
        except OSError: pass
";

#[test]
fn the_nodes_of_the_host_keep_modes_and_times() {
    if !is_root() {
        return skip("nobody but root owns device nodes");
    }
    let scratch = Scratch::new("nodes");
    let dev = scratch.dir("dev");
    let changed = |command: &Command| {
        let mut all = Command::new("unshare");
        all.args(["-m", "sh", "-c", NODES, "sh"]).arg(&dev);
        all.arg(command.get_program()).args(command.get_args());
        run(all.current_dir("/"))
    };
    let states = |ran: &Ran| -> Vec<_> {
        let lines = ran.stdout.lines().map(|line| line.split_once(' '));
        let states = lines.map(|parts| parts.expect("a name and more").1.to_owned());
        states.collect()
    };
    let mut control = Command::new("python3");
    control.args(["-ISc", CHANGES]);
    let numbers = ["1:3", "1:5", "1:7", "1:8", "1:9"];
    let with = |before: &str, behind: &str| numbers.map(|one| format!("{before} {one} {behind}"));
    assert_eq!(states(&changed(&control)), with("600", "9 0"));
    let words = ["python3", "-ISc", CHANGES];
    let ran = Srt::new(&scratch).watched(&words, |srt| changed(srt));
    assert_eq!(states(&ran), with("666", "7 0"), "{ran:?}");
}

#[test]
fn a_device_as_standard_stream_works_as_it_did() {
    let scratch = Scratch::new("streams");
    let script = "head -c 3 | od -An -tx1; (echo x >&0) 2>/dev/null || echo for reading";
    let ran = Srt::new(&scratch).sh(&format!("exec </dev/zero; {script}"));
    assert_eq!(ran.stdout, " 00 00 00\nfor reading\n");
    let from_zero = |srt: &mut Command| {
        let zero = File::open("/dev/zero").expect("any host has it");
        let output = srt.stdin(zero).output().expect("it was built");
        Ran::from(output)
    };
    let ran = Srt::new(&scratch).watched(&["sh", "-c", script], from_zero);
    assert_eq!(ran.stdout, " 00 00 00\nfor reading\n", "{ran:?}");
}
