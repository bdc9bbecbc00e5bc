//! Where something is used up or bounded: a run has all it promises, or says what it lacks.

mod harness;

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Ran, Scratch, Srt, canary, is_root, nothing_runs_in, run, skip};
use harness::{with_fault, wrapped};

/// Expects a command that ran and is confined, or a refusal that says `reason`.
#[track_caller]
fn whole_or_refused(what: &str, ran: &Ran, reason: &str) {
    match ran.status {
        0 => assert_eq!(ran.stdout, CONFINED, "{what}: {}", ran.stderr),
        125 => {
            assert!(ran.stderr.contains(reason), "{what}: {}", ran.stderr);
            assert!(ran.stderr.contains("\nhint: "), "{what}: {}", ran.stderr);
        }
        // Before the first instruction of ours: the loader or the kernel found no memory.
        134 | 137 | 139 => assert_eq!(ran.stdout, "", "{what}"),
        other => panic!("{what}: {other} {} {}", ran.stdout, ran.stderr),
    }
}

const CONFINED: &str = "ran\nkept out\n";

/// Says that it ran, and whether it can read what is hidden or write what is not granted.
fn try_rules(scratch: &Scratch, srt: Srt) -> Command {
    let secret = canary();
    let file = scratch.file("hidden/secret", &secret);
    let closed = scratch.dir("closed");
    let script = format!(
        "echo ran; cat {} | grep . || touch {}/new 2>/dev/null || echo kept out",
        file.display(),
        closed.display()
    );
    srt.deny_read(scratch.path("hidden"))
        .into_command(&["sh", "-c", &script])
}

#[test]
fn limits_of_the_caller_leave_a_run_whole_or_refused_by_their_name() {
    let scratch = Scratch::new("limits");
    scratch.file(
        "home/.npmrc",
        "color=true\n//example.org/:_authToken=abcdef0123456789\n",
    );
    let srt = try_rules(&scratch, Srt::new(&scratch));
    let reasons = [
        ("--nproc=1", "ulimit -u"),
        ("--nproc=3", "ulimit -u"),
        ("--as=50000000", "memory"),
        ("--as=20000000", "memory"),
        ("--data=4000000", "memory"),
        ("--fsize=0", "ulimit -f"),
        ("--stack=65536", "ulimit -s"),
        ("--nofile=8", "ulimit -n"),
        ("--nofile=20", "ulimit -n"),
        ("--nofile=40", "ulimit -n"),
        ("--sigpending=0", "-"),
        ("--memlock=0", "-"),
        ("--msgqueue=0", "-"),
        ("--core=0", "-"),
    ];
    let whole = run(&mut wrapped(&["prlimit", "--core=0"], &srt));
    assert_eq!(whole.stdout, CONFINED, "the control: {}", whole.stderr);
    for (limit, reason) in reasons {
        let ran = run(&mut wrapped(&["prlimit", limit], &srt));
        whole_or_refused(limit, &ran, reason);
        nothing_runs_in(&scratch);
        let must_run = reason == "-" || limit == "--as=50000000";
        assert!(!must_run || ran.status == 0, "{limit}: {}", ran.stderr);
    }
    let stack = run(&mut wrapped(&["prlimit", "--stack=65536"], &srt));
    stack.is_refused("ulimit -s");
    if !is_root() {
        let ran = run(&mut wrapped(&["prlimit", "--nproc=1"], &srt));
        ran.is_refused("ulimit -u");
    }
    run(&mut wrapped(&["prlimit", "--fsize=0"], &srt)).is_refused("ulimit -f");
}

#[test]
fn without_memory_for_a_call_there_is_no_command() {
    let scratch = Scratch::new("enomem");
    let mark = scratch.path("cwd/mark");
    let start = || {
        Srt::new(&scratch)
            .allow_write(scratch.dir("cwd"))
            .into_command(&["touch", "mark"])
    };
    run(&mut start()).succeeds();
    fs::remove_file(&mark).expect("the control made it");
    for call in [
        "clone,clone3",
        "mount",
        "open_tree",
        "move_mount",
        "mount_setattr",
        "fsopen",
        "fsconfig",
        "fsmount",
        "pivot_root",
        "socketpair",
        "signalfd4",
        "seccomp",
        "keyctl",
        "bind",
        "listen",
        "landlock_add_rule",
        "landlock_restrict_self",
        "sendmsg",
        "capset",
        "close_range",
        "mkdirat",
        "umount2",
    ] {
        let ran = with_fault("ENOMEM", call, &start());
        assert!(!mark.exists(), "{call}: the command ran");
        assert_eq!(ran.status, 125, "{call}: {}", ran.stderr);
        let said = ran.stderr.contains("ENOMEM") && ran.stderr.contains("\nhint: memory");
        assert!(said, "{call}: {}", ran.stderr);
        nothing_runs_in(&scratch);
    }
}

#[test]
fn in_a_small_control_group_a_run_is_whole_or_ends() {
    let scratch = Scratch::new("group");
    let srt = try_rules(&scratch, Srt::new(&scratch));
    let group = format!("srt-test-{}", std::process::id());
    for bytes in [20_000_000, 4_000_000, 1_000_000] {
        // Version 1, where a machine has it and the test may make a group.
        let script = format!(
            "g=/sys/fs/cgroup/memory/{group}; mkdir $g 2>/dev/null || exit 99; \
             echo {bytes} > $g/memory.limit_in_bytes; \
             sh -c 'echo $$ > '$g'/tasks; exec \"$@\"' sh \"$@\"; status=$?; \
             for i in $(seq 400); do rmdir $g 2>/dev/null && break; sleep 0.1; done; exit $status"
        );
        let ran = run(&mut wrapped(&["sh", "-c", &script, "sh"], &srt));
        if ran.status == 99 {
            return skip("this caller makes no control group of version 1");
        }
        whole_or_refused(&format!("{bytes} bytes"), &ran, "memory");
        nothing_runs_in(&scratch);
    }
}

#[test]
fn each_limit_on_namespaces_is_named() {
    let scratch = Scratch::new("namespaces");
    let srt = Srt::new(&scratch).into_command(&["echo", "ran"]);
    let within = |set: &str| {
        let script = format!("{set}; exec \"$@\"");
        run(&mut wrapped(
            &["unshare", "-r", "sh", "-c", &script, "sh"],
            &srt,
        ))
    };
    let control = within(":");
    if control.status != 0 {
        return skip("no user namespace can be made here");
    }
    assert_eq!(control.stdout, "ran\n");
    for name in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let file = format!("/proc/sys/user/max_{name}_namespaces");
        let ran = within(&format!("echo 0 > {file}"));
        let ran = ran.is_refused("ENOSPC");
        let named = format!("user.max_{name}_namespaces");
        assert!(ran.stderr.contains(&named), "{named}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("user.max_").count(), 1, "{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    }
    nothing_runs_in(&scratch);
}

/// That limit is the whole machine's, and so it is simulated.
#[test]
fn the_limit_on_mounts_is_named() {
    let scratch = Scratch::new("mounts");
    let srt = Srt::new(&scratch).into_command(&["echo", "ran"]);
    for call in ["open_tree", "move_mount"] {
        let ran = with_fault("ENOSPC", call, &srt).is_refused("fs.mount-max");
        assert_eq!(ran.stdout, "");
    }
}

/// Runs `srt` where `/tmp` and `/var/tmp` are as `mount` makes them, with nothing of this test
/// in either.
fn with_tmp(scratch: &Scratch, mount: &str, command: &str) -> Option<Ran> {
    let program = Path::new(env!("CARGO_BIN_EXE_srt"));
    let directory = program.parent().expect("it is in a directory");
    let script = format!(
        "mount --bind {} /mnt || exit 99; cd /; {mount}; mount --bind /tmp /var/tmp || exit 99
         {command}",
        directory.display()
    );
    let mut words = Command::new("unshare");
    words.args(["-rm", "sh", "-c", &script]);
    words.env("HOME", "/nonexistent").env_remove("TMPDIR");
    let ran = run(&mut words);
    nothing_runs_in(scratch);
    (ran.status != 99).then_some(ran)
}

#[test]
fn a_full_or_closed_tmp_leaves_a_run_whole_or_refused() {
    let scratch = Scratch::new("tmp");
    let ask = "/mnt/srt -q sh -c 'echo ran; : > /etc/no || echo kept out' 2>/dev/null; :";
    let Some(whole) = with_tmp(&scratch, "mount -t tmpfs none /tmp", ask) else {
        return skip("no mount namespace can be made here");
    };
    // The shell ends where a redirection of a special builtin fails.
    assert_eq!(whole.stdout, "ran\n", "the control: {}", whole.stderr);
    let fill = "mount -t tmpfs -o size=4k,nr_inodes=90 none /tmp; \
                head -c 9000 /dev/zero > /tmp/fill 2>/dev/null";
    let full = with_tmp(
        &scratch,
        fill,
        "df --output=avail /tmp | tail -1; /mnt/srt -q echo ran",
    );
    let full = full.expect("it was mounted before").succeeds();
    assert_eq!(
        full.stdout.split_whitespace().collect::<Vec<_>>(),
        ["0", "ran"]
    );
    for (mount, errno) in [
        ("mount -t tmpfs -o nr_inodes=1 none /tmp", "ENOSPC"),
        ("mount -t tmpfs -o ro none /tmp", "EROFS"),
        ("mount -t tmpfs -o noexec none /tmp", "permission denied"),
    ] {
        let ran = with_tmp(&scratch, mount, "/mnt/srt -q echo ran");
        let ran = ran.expect("it was mounted before").is_refused(errno);
        assert!(
            ran.stderr.contains("hint: set TMPDIR"),
            "{mount}: {}",
            ran.stderr
        );
        assert_eq!(ran.stdout, "", "{mount}");
        // The remedy holds: one is enough, wherever it lies.
        let other = "mkdir -m 700 /run/srt-test || mount -t tmpfs none /run; \
                     TMPDIR=/run /mnt/srt -q echo ran";
        let mount = format!("mount -t tmpfs none /run; {mount}");
        let ran = with_tmp(&scratch, &mount, other).expect("it was mounted before");
        assert_eq!(ran.stdout, "ran\n", "{mount}: {}", ran.stderr);
    }
}

#[test]
fn a_tmpdir_that_the_sandbox_has_of_its_own_is_passed_over() {
    let scratch = Scratch::new("shm");
    for tmpdir in ["/dev/shm", "/proc", "/nonexistent", "relative", ""] {
        let ran = Srt::new(&scratch)
            .env("TMPDIR", tmpdir)
            .sh("echo > \"$TMPDIR/f\" && echo \"$TMPDIR\"")
            .succeeds();
        assert!(
            !ran.stdout.starts_with("/dev"),
            "{tmpdir:?}: {}",
            ran.stdout
        );
    }
    let uid = nix::unistd::geteuid();
    assert!(!Path::new(&format!("/dev/shm/srt-{uid}")).exists());
}
