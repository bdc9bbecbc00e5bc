//! The tree around the command: `/`, `/dev`, `/proc`, `/sys`.

use super::harness::{Scratch, Srt, is_root, outside, skip};
use super::{listing, python, python_outside};

#[test]
fn nothing_is_left_of_the_root_switch() {
    let scratch = Scratch::new("root-switch");
    let script = "ls -d /oldroot /newroot /.old* /.pivot* 2>/dev/null
        cd / && cd ../../../../.. && test $(stat -c %d:%i .) = $(stat -c %d:%i /) && echo same
        test $(stat -c %d:%i /..) = $(stat -c %d:%i /) && echo same
        chroot / true 2>/dev/null && echo CHROOT; true";
    assert_eq!(outside("unshare -r chroot / echo yes").stdout, "yes\n");
    assert_eq!(Srt::new(&scratch).sh(script).stdout, "same\nsame\n");
}

#[test]
fn dev_holds_a_fixed_list_and_nothing_can_be_added() {
    let scratch = Scratch::new("dev");
    let expected = "fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero ";
    let ran = Srt::new(&scratch).sh("ls -A /dev | tr '\\n' ' '; ls -A /dev/pts /dev/mqueue >&2");
    assert_eq!(ran.stdout, expected);

    let script = "echo x > /dev/null && head -c 4 /dev/zero | wc -c; echo x > /dev/shm/mine && cat /dev/shm/mine
        touch /dev/new 2>/dev/null && echo MADE; mkdir /dev/new 2>/dev/null && echo MADE; rm -f /dev/null 2>/dev/null && echo REMOVED; true";
    assert_eq!(Srt::new(&scratch).sh(script).stdout, "4\nx\n");
}

#[test]
fn device_nodes_cannot_be_made() {
    let scratch = Scratch::new("mknod");
    let work = scratch.dir("work");
    let script = format!(
        "mknod {0}/c c 1 3; mknod {0}/b b 7 0; mknod {0}/f p",
        work.display()
    );
    if is_root() {
        let mounted = format!("mount -t tmpfs t {0} && {script} && ls {0}", work.display());
        let control = outside(&format!("unshare -m sh -c '{mounted}'"));
        assert_eq!(control.stdout, "b\nc\nf\n", "{}", control.stderr);
    } else {
        skip("the kernel lets nobody but root make device nodes: no control");
    }
    Srt::new(&scratch).allow_write(&work).sh(&script).succeeds();
    assert_eq!(listing(&work), ["f"], "a FIFO is no device and can be made");
}

/// Opens and never writes: an open that works is the proof, and harms nothing.
const OPEN_FOR_WRITING: &str = "
import os, sys
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_WRONLY))
        print('open', path)
    except OSError as error:
        print(error.strerror, path)
";

const KERNEL_FILES: [&str; 16] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sysrq-trigger",
    "/proc/self/uid_map",
    "/proc/self/gid_map",
    "/proc/self/setgroups",
    "/proc/self/oom_score_adj",
    "/proc/self/coredump_filter",
    "/proc/self/attr/current",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
];

#[test]
fn files_of_the_kernel_cannot_be_opened_for_writing() {
    let scratch = Scratch::new("kernel-files");
    let files = KERNEL_FILES.map(std::path::Path::new);

    let control = python_outside(OPEN_FOR_WRITING, &files);
    assert!(control.stdout.contains("open /proc/self/oom_score_adj"));
    for srt in [Srt::new(&scratch), Srt::new(&scratch).allow_write("/")] {
        let ran = python(srt, OPEN_FOR_WRITING, &files).succeeds();
        assert_eq!(ran.stdout.lines().count(), files.len());
        assert!(!ran.stdout.contains("open "), "{}", ran.stdout);
    }
}

#[test]
fn release_agents_of_control_groups_cannot_be_written() {
    let scratch = Scratch::new("cgroups");
    let script = "for file in $(find /sys/fs/cgroup -name release_agent -o -name cgroup.procs 2>/dev/null | head -50); do
        (exec 3>>$file) 2>/dev/null && echo \"open $file\"; done; true";
    let control = outside(script);
    if !control.stdout.contains("open ") {
        skip("no file of a control group can be opened by this user: no control");
    }
    for srt in [Srt::new(&scratch), Srt::new(&scratch).allow_write("/")] {
        assert_eq!(srt.sh(script).stdout, "");
    }
}

#[test]
fn denies_below_sys_hold_when_everything_is_granted() {
    let scratch = Scratch::new("sys");
    let script = "ls -A /sys/kernel | wc -l; ls -A /sys/firmware 2>/dev/null";

    let control = Srt::new(&scratch).allow_write("/").sh(script);
    assert_ne!(control.stdout, "0\n");
    let ran = Srt::new(&scratch)
        .allow_write("/")
        .deny_read("/sys/kernel")
        .sh(script);
    assert_eq!(ran.stdout, "0\n", "{}", ran.stderr);
}

#[test]
fn the_root_and_every_made_directory_are_read_only() {
    let scratch = Scratch::new("made");
    let (hidden, shown) = (scratch.dir("hidden"), scratch.dir("hidden/deep/shown"));
    let attack = format!(
        "for d in / /etc /usr /bin /dev {0} {0}/deep; do
            touch $d/srt-new 2>/dev/null && echo \"touch $d\"; mkdir $d/srt-new 2>/dev/null && echo \"mkdir $d\"; ln -sfn /tmp $d/srt-new 2>/dev/null && echo \"ln $d\"; done
        rm -rf {0}/deep 2>/dev/null; echo x > {1}/f && ls {0}",
        hidden.display(),
        shown.display()
    );
    let ran = Srt::new(&scratch)
        .deny_read(&hidden)
        .allow_write(&shown)
        .sh(&attack);
    assert_eq!(ran.stdout, "deep\n", "{}", ran.stderr);
    assert_eq!(listing(&shown), ["f"], "the grant below works");
    assert_eq!(listing(&hidden), ["deep"]);
}
