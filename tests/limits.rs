//! Limits on time, memory, processes and files: each acts, and nothing is left of what keeps it.

mod harness;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::{
    Ran, Scratch, Srt, content, is_root, nothing_runs_in, outside, processes_with, run, skip,
    wait_until, wrapped,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Returns the events of a run, by their code.
fn events(path: &Path, code: &str) -> Vec<Value> {
    let text = content(path);
    let events = text.lines().map(serde_json::from_str::<Value>);
    let events = events.map(|event| event.expect("each line is an event"));
    events.filter(|event| event["code"] == code).collect()
}

/// Returns what the start event says that keeps a limit.
fn means(path: &Path, key: &str) -> String {
    let start = events(path, "lifecycle.run.start");
    let limits = start[0]["enforced"]["limits"].as_array().cloned();
    let limits = limits.unwrap_or_default();
    let found = limits.iter().find(|bound| bound["limit"] == key);
    found
        .map_or("nothing", |bound| bound["by"].as_str().expect("a word"))
        .to_owned()
}

/// Returns the groups of runs of this user.
fn groups() -> Vec<String> {
    let uid = nix::unistd::getuid();
    let script = format!("find /sys/fs/cgroup -type d -name 'srt-{uid}-*' 2>/dev/null");
    outside(&script).stdout.lines().map(str::to_owned).collect()
}

/// Runs `script` in sh under `flags`.
fn limited(scratch: &Scratch, flags: &[&str], script: &str) -> (Ran, PathBuf) {
    let file = scratch.path("events");
    drop(fs::remove_file(&file));
    let dir = scratch.path("w");
    drop(fs::create_dir(&dir));
    let srt = Srt::new(scratch)
        .allow_write(&dir)
        .current_dir(&dir)
        .flags(flags)
        .events(&file);
    (srt.sh(script), file)
}

#[test]
fn a_command_ends_at_its_time_and_not_before() {
    let scratch = Scratch::new("time");
    let (ran, file) = limited(&scratch, &["--timeout", "1m"], "sleep 1.2; echo done");
    assert_eq!(ran.succeeds().stdout, "done\n");
    assert_eq!(events(&file, "limit.run.time").len(), 0);
    assert_eq!(means(&file, "limits.seconds"), "init");

    let started = Instant::now();
    let (ran, file) = limited(&scratch, &["--timeout", "1"], "sleep 60 & sleep 50");
    assert_eq!(ran.status, 124);
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(1), "{took:?}");
    assert!(took < Duration::from_secs(6), "without the grace: {took:?}");
    assert!(
        ran.stderr.contains("--timeout or `limits.seconds`"),
        "{}",
        ran.stderr
    );
    let event = &events(&file, "limit.run.time")[0];
    assert_eq!(
        (&event["kind"], &event["limit"]),
        (&"limit".into(), &1.into())
    );
    assert_eq!(events(&file, "lifecycle.run.end")[0]["status"], 124);
    nothing_runs_in(&scratch);
}

#[test]
fn a_command_may_clean_up_when_its_time_is_up() {
    let scratch = Scratch::new("clean");
    let script = "trap 'echo cleaned >mark; exit 7' TERM; while :; do sleep 0.05; done";
    let (ran, _) = limited(&scratch, &["-q", "--timeout", "1"], script);
    // The status says whose doing it was, whatever the command made of it.
    assert_eq!((ran.status, ran.stderr.as_str()), (124, ""));
    assert_eq!(content(&scratch.path("w/mark")), "cleaned\n");
}

#[test]
fn a_command_that_ignores_its_end_is_killed_with_all_it_started() {
    let scratch = Scratch::new("ignores");
    let started = Instant::now();
    let script = "trap '' TERM; (while :; do sleep 1; done) & while :; do sleep 1; done";
    let (ran, file) = limited(&scratch, &["--timeout", "1"], script);
    assert_eq!(ran.status, 124);
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(6), "{took:?}");
    assert_eq!(events(&file, "limit.run.time").len(), 1);
    nothing_runs_in(&scratch);
}

#[test]
fn a_stopped_command_is_ended_too() {
    let scratch = Scratch::new("stopped");
    let (ran, _) = limited(&scratch, &["--timeout", "1"], "kill -STOP $$; echo went on");
    assert_eq!((ran.status, ran.stdout.as_str()), (124, ""));
    nothing_runs_in(&scratch);
}

#[test]
fn a_command_ends_at_its_time_while_srt_is_stopped() {
    let scratch = Scratch::new("launcher");
    let mut command = Srt::new(&scratch)
        .flags(&["--timeout", "1"])
        .into_command(&["sh", "-c", "sleep 77.5 & wait"]);
    let mut srt = command.stderr(Stdio::null()).spawn().expect("srt is built");
    let pid = Pid::from_raw(srt.id().cast_signed());
    let sleeps = || outside("pgrep -fx 'sleep 77.5'").status == 0;
    assert!(wait_until(sleeps), "the command runs");
    kill(pid, Signal::SIGSTOP).expect("it is our child");
    assert!(wait_until(|| !sleeps()), "it ended while srt was stopped");
    kill(pid, Signal::SIGCONT).expect("it is our child");
    let status = srt.wait().expect("it is our child");
    assert_eq!(status.code(), Some(124));
}

#[test]
fn what_is_no_limit_is_refused_as_a_flag_and_in_a_file() {
    let scratch = Scratch::new("bad");
    let seconds = ("whole seconds", ["0", "-1", "5x", "", "1.5", "0s"]);
    let size = ("a size", ["0", "-1", "1x", "", "1.5G", "0M"]);
    let number = ("a whole number", ["0", "-1", "1x", "", "5m", "+1"]);
    for (flag, (what, values)) in [
        ("--timeout", seconds),
        ("--cpu-time", seconds),
        ("--max-memory", size),
        ("--max-file-size", size),
        ("--max-procs", number),
        ("--max-files", number),
    ] {
        for value in values {
            let ran = Srt::new(&scratch).flags(&[flag, value]).run(&["true"]);
            ran.is_refused(&format!("the value of {flag} must be {what}"));
        }
    }
    for (key, value) in [
        ("seconds", Value::from(0)),
        ("seconds", (-1).into()),
        ("seconds", "5m".into()),
        ("memory", 0.into()),
        ("memory", "1x".into()),
        ("processes", 0.5.into()),
        ("files", "8".into()),
        ("fileSize", (-1).into()),
        ("cpuSeconds", true.into()),
    ] {
        let limits = serde_json::json!({ key: value });
        let ran = Srt::new(&scratch).top("limits", limits).run(&["true"]);
        ran.is_refused(&format!("limits.{key}"));
    }
}

/// Writes to memory of its own, and says so.
fn allocator(mebibytes: u32) -> String {
    format!("python3 -c 'x = bytearray({mebibytes} << 20); print(len(x) >> 20)'")
}

#[test]
fn an_allocator_is_held_to_its_bound() {
    let scratch = Scratch::new("memory");
    let (ran, _) = limited(&scratch, &[], &allocator(256));
    assert_eq!(ran.succeeds().stdout, "256\n");

    // What fits goes on.
    let (ran, file) = limited(&scratch, &["--max-memory", "512M"], &allocator(256));
    assert_eq!(ran.succeeds().stdout, "256\n");
    assert_eq!(events(&file, "limit.memory.exceeded").len(), 0);

    let (ran, file) = limited(&scratch, &["--max-memory", "64M"], &allocator(256));
    assert_eq!(ran.fails().stdout, "");
    match means(&file, "limits.memory").as_str() {
        "rlimit" => assert!(!is_root(), "root makes groups here"),
        _ => {
            let event = &events(&file, "limit.memory.exceeded")[0];
            assert_eq!(event["limit"], 64 << 20);
        }
    }
}

#[test]
fn a_group_bounds_the_memory_of_all_processes_together() {
    let scratch = Scratch::new("together");
    // Five children hold 40 MiB each until all have them or one is gone.
    let script = "exec python3 -c '
import os, select
told, tell = os.pipe()
gate, opener = os.pipe()
for _ in range(5):
    if os.fork() == 0:
        os.close(opener)
        x = bytearray(40 << 20)
        os.write(tell, b\"x\")
        os.read(gate, 1)
        os._exit(0)
have, dead = 0, 0
while have + dead < 5:
    if select.select([told], [], [], 0.05)[0]: have += len(os.read(told, 5))
    dead += os.waitpid(-1, os.WNOHANG)[0] > 0
os.close(opener)
lived = 0
for _ in range(5 - dead): lived += os.wait()[1] == 0
print(lived)'";
    let (ran, _) = limited(&scratch, &[], script);
    assert_eq!(ran.succeeds().stdout, "5\n");

    let (ran, file) = limited(&scratch, &["--max-memory", "128M"], script);
    if means(&file, "limits.memory") == "rlimit" {
        assert_eq!(ran.succeeds().stdout, "5\n", "each has a bound of its own");
        return skip("this user makes no control group");
    }
    assert_ne!(ran.stdout, "5\n", "{ran:?}");
    assert_eq!(events(&file, "limit.memory.exceeded").len(), 1);
}

/// Forks until it is refused or has `most` children, says how many it had, and ends them.
fn bomb(most: u32) -> String {
    format!(
        "exec python3 -c '
import os, signal
made = []
try:
    for _ in range({most}):
        pid = os.fork()
        if not pid: signal.pause()
        made.append(pid)
except OSError as error:
    print(error.strerror)
print(len(made))
for pid in made: os.kill(pid, 9)
'"
    )
}

#[test]
fn a_fork_bomb_stays_below_its_bound_and_ends_with_the_run() {
    let scratch = Scratch::new("bomb");
    let (ran, _) = limited(&scratch, &[], &bomb(300));
    assert_eq!(ran.succeeds().stdout, "300\n");

    let (ran, file) = limited(&scratch, &["--max-procs", "100"], &bomb(300));
    let text = ran.succeeds().stdout;
    let (reason, count) = text.trim().split_once('\n').expect("it was refused");
    assert_eq!(reason, "Resource temporarily unavailable");
    let count: u32 = count.parse().expect("a number");
    // Without a group the kernel counts a process or two of the sandbox's own.
    assert!((98..=101).contains(&count), "{count}");
    if means(&file, "limits.processes") != "rlimit" {
        assert_eq!(count, 99, "with the command itself: 100");
        assert_eq!(events(&file, "limit.processes.exceeded").len(), 1);
    }
    nothing_runs_in(&scratch);
}

#[test]
fn a_bound_on_processes_counts_those_of_this_run_alone() {
    let scratch = Scratch::new("alone");
    // Two at once, each within its bound, both beyond it.
    let one = || {
        let scratch = Scratch::new("one");
        limited(&scratch, &["--max-procs", "60"], &bomb(50)).0
    };
    let other = std::thread::spawn(one);
    let (ran, _) = limited(&scratch, &["--max-procs", "60"], &bomb(50));
    assert_eq!(ran.succeeds().stdout, "50\n");
    assert_eq!(other.join().expect("it ran").succeeds().stdout, "50\n");
}

#[test]
fn files_their_size_and_processor_time_are_bounded() {
    let scratch = Scratch::new("rlimits");
    let open = "exec python3 -c '
made = []
try:
    while len(made) < 100: made.append(open(\"/dev/null\"))
except OSError as error: print(error.strerror)
print(len(made))'";
    let (ran, _) = limited(&scratch, &[], open);
    assert_eq!(ran.succeeds().stdout, "100\n");
    let (ran, _) = limited(&scratch, &["--max-files", "20"], open);
    assert_eq!(ran.succeeds().stdout, "Too many open files\n17\n");

    let write = "exec dd if=/dev/zero of=big bs=64k count=32 2>/dev/null";
    let big = scratch.path("w/big");
    let size = || fs::metadata(&big).expect("it was written").len();
    limited(&scratch, &[], write).0.succeeds();
    assert_eq!(size(), 2 << 20);
    let (ran, file) = limited(&scratch, &["--max-file-size", "1M"], write);
    assert_eq!((ran.status, size()), (128 + 25, 1 << 20));
    assert_eq!(events(&file, "limit.filesize.exceeded").len(), 1);
    assert!(ran.stderr.contains("--max-file-size"), "{}", ran.stderr);

    let burn = "exec python3 -c '
import time
while time.process_time() < 1.3: pass
print(1)'";
    let (ran, _) = limited(&scratch, &[], burn);
    assert_eq!(ran.succeeds().stdout, "1\n");
    let (ran, file) = limited(&scratch, &["--cpu-time", "1"], burn);
    assert_eq!((ran.status, ran.stdout.as_str()), (128 + 24, ""));
    assert_eq!(events(&file, "limit.cpu.exceeded").len(), 1);
    assert!(ran.stderr.contains("--cpu-time"), "{}", ran.stderr);
}

#[test]
fn the_command_cannot_raise_its_limits() {
    let scratch = Scratch::new("raise");
    let raise = "python3 -c '
import resource as r
for which in (r.RLIMIT_NOFILE, r.RLIMIT_FSIZE):
    try: r.setrlimit(which, (4096, 4096)); print(\"raised\")
    except (ValueError, OSError): print(\"kept\")
'; g=$(find /sys/fs/cgroup -type d -name \"srt-*\" 2>/dev/null)
for file in $(find $g -name pids.max -o -name memory.limit_in_bytes -o -name cgroup.procs -o -name memory.max); do
    (echo 12345 >$file) 2>/dev/null && echo raised; done; true";
    let flags = [
        "--max-files",
        "64",
        "--max-file-size",
        "1K",
        "--max-memory",
        "1G",
    ];
    let (ran, _) = limited(&scratch, &flags, raise);
    assert_eq!(ran.succeeds().stdout, "kept\nkept\n");
}

#[test]
fn limits_of_the_settings_act_and_flags_go_over_them() {
    let scratch = Scratch::new("settings");
    let limits = serde_json::json!({ "files": 30, "memory": "1G", "seconds": 60 });
    let srt = || Srt::new(&scratch).top("limits", limits.clone());
    assert_eq!(srt().sh("ulimit -n").succeeds().stdout, "30\n");
    let ran = srt().flags(&["--max-files", "25"]).sh("ulimit -n");
    assert_eq!(ran.succeeds().stdout, "25\n");
}

#[test]
fn without_control_groups_setrlimit_holds_or_the_command_does_not_run() {
    if !is_root() {
        return skip("only root has control groups to lose here");
    }
    let scratch = Scratch::new("without");
    let covered = |flags: &[&str], script: &str| {
        let srt = Srt::new(&scratch)
            .flags(flags)
            .into_command(&["sh", "-c", script]);
        let cover = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
        let words = ["unshare", "-m", "sh", "-c", cover, "sh"];
        run(&mut wrapped(&words, &srt))
    };
    covered(&["--max-memory", "512M"], &allocator(256)).succeeds();
    let ran = covered(&["--max-memory", "64M"], &allocator(256));
    assert!(ran.fails().stderr.contains("MemoryError"));
    covered(&[], "true").succeeds();
    covered(&["--max-procs", "60"], "true").is_refused("cannot keep `limits.processes`");
}

#[test]
fn limits_hold_in_a_run_inside_a_run_and_with_an_open_network() {
    let scratch = Scratch::new("inner");
    let inner = scratch.file("inner.json", r#"{"nested":"inner"}"#);
    let srt = env!("CARGO_BIN_EXE_srt");
    let inner = inner.to_str().expect("ASCII");
    let script =
        format!("{srt} -q -s {inner} --timeout 1 --max-files 20 sh -c 'ulimit -n; sleep 9'");
    let ran = Srt::new(&scratch).top("nested", "inner".into()).sh(&script);
    assert_eq!((ran.status, ran.stdout.as_str()), (124, "20\n"), "{ran:?}");
    limited(&scratch, &[], &allocator(256)).0.succeeds();
    let ran = Srt::new(&scratch)
        .set("network.mode", "open".into())
        .flags(&["--max-memory", "64M"])
        .sh(&allocator(256));
    assert_eq!(ran.fails().stdout, "");
}

#[test]
fn no_control_group_is_left_by_a_run_or_by_one_that_was_killed() {
    let scratch = Scratch::new("left");
    let flags = ["--max-memory", "1G", "--max-procs", "60"];
    let (ran, file) = limited(&scratch, &flags, "exit 3");
    assert_eq!(ran.status, 3);
    if means(&file, "limits.memory") == "rlimit" {
        return skip("this user makes no control group");
    }
    // Which of them are whose is told by who is in them.
    let of = |pid: i32| -> Vec<String> {
        let holds = |group: &String| {
            let members = fs::read_to_string(format!("{group}/cgroup.procs")).unwrap_or_default();
            members.lines().any(|line| line == pid.to_string())
        };
        groups().into_iter().filter(holds).collect()
    };
    let sleeper = || {
        let found = outside("pgrep -fx 'sleep 88.25'").stdout;
        found.trim().parse::<i32>().ok()
    };
    let mut command = Srt::new(&scratch)
        .flags(&flags)
        .into_command(&["sleep", "88.25"]);
    let mut srt = command.stdout(Stdio::null()).spawn().expect("srt is built");
    assert!(wait_until(
        || sleeper().is_some_and(|pid| !of(pid).is_empty())
    ));
    let used = of(sleeper().expect("it runs"));
    // Another run does not take one that is used.
    limited(&scratch, &flags, "true").0.succeeds();
    assert!(
        used.iter()
            .all(|group| fs::exists(group).is_ok_and(|is| is)),
        "{used:?}"
    );
    srt.kill().expect("it is our child");
    srt.wait().expect("it is our child");
    assert!(
        wait_until(|| sleeper().is_none()),
        "the command ended with srt"
    );
    assert!(!used.is_empty());
    limited(&scratch, &flags, "true").0.succeeds();
    assert!(
        !used
            .iter()
            .any(|group| fs::exists(group).is_ok_and(|is| is)),
        "{used:?}"
    );
    assert!(processes_with(scratch.marker()).is_empty());
}

#[test]
fn where_no_limit_is_set_no_control_group_is_looked_for() {
    let scratch = Scratch::new("none");
    let trace = |flags: &[&str]| {
        let srt = Srt::new(&scratch).flags(flags).into_command(&["true"]);
        let strace = [
            "strace",
            "-f",
            "-qq",
            "-e",
            "trace=openat,mkdir,access,setrlimit,prlimit64",
        ];
        let ran = run(&mut wrapped(&strace, &srt));
        (ran.status == 0).then_some(ran.stderr)
    };
    let Some(with) = trace(&["--max-memory", "1G"]) else {
        return skip("strace does not work here");
    };
    assert!(with.contains("/proc/self/cgroup"), "{with}");
    let without = trace(&[]).expect("it worked with a limit");
    assert!(!without.contains("cgroup"), "{without}");
}

#[test]
fn ten_thousand_forks_are_bounded() {
    let scratch = Scratch::new("ten");
    let started = Instant::now();
    let (ran, file) = limited(&scratch, &["--max-procs", "200"], &bomb(10_000));
    let (_, count) = ran.stdout.trim().split_once('\n').expect("it was refused");
    harness::say(&format!(
        "bomb of 10000 under 200 by {}: {count} in {:?}",
        means(&file, "limits.processes"),
        started.elapsed(),
    ));
    assert!(count.parse::<u32>().expect("a number") <= 201);
}

#[test]
fn two_gigabytes_are_bounded() {
    let scratch = Scratch::new("two");
    let started = Instant::now();
    let (ran, file) = limited(&scratch, &["--max-memory", "128M"], &allocator(2048));
    harness::say(&format!(
        "allocator of 2 GiB under 128M by {}: status {} in {:?}",
        means(&file, "limits.memory"),
        ran.status,
        started.elapsed()
    ));
    assert_eq!(ran.fails().stdout, "");
}
