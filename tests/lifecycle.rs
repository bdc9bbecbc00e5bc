//! Signals, ends and deaths: nothing outlives a run, and nothing is left of it.

mod harness;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use harness::{
    Live, Scratch, Srt, nothing_runs_in, outside, processes_with, run, wait_until, wrapped,
};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// Prints the name of every signal it gets, until its input ends.
const LOG_SIGNALS: &str = "
import os, signal, sys
for s in (1, 2, 3, 10, 12, 15, 28):
    signal.signal(s, lambda n, _: os.write(1, (signal.Signals(n).name + '\\n').encode()))
print('ready', flush=True)
while os.read(0, 1): pass
";

const FORWARDED: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

#[test]
fn every_signal_to_srt_reaches_the_command_once() {
    let scratch = Scratch::new("signals");
    let command = Srt::new(&scratch).into_command(&["python3", "-c", LOG_SIGNALS]);
    let mut live = Live::start(command);
    assert_eq!(live.line(), "ready");
    for signal in FORWARDED {
        kill(live.pid(), signal).expect("it runs");
        assert_eq!(live.line(), signal.as_str());
    }
    let ran = live.end().succeeds();
    assert_eq!(ran.stdout, "", "nothing came twice");
}

#[test]
fn a_signal_to_the_whole_process_group_reaches_the_command_once() {
    let scratch = Scratch::new("group");
    let mut command = Srt::new(&scratch).into_command(&["python3", "-c", LOG_SIGNALS]);
    command.process_group(0);
    let mut live = Live::start(command);
    assert_eq!(live.line(), "ready");
    for signal in FORWARDED {
        killpg(live.pid(), signal).expect("the group is ours");
        assert_eq!(live.line(), signal.as_str());
    }
    let ran = live.end().succeeds();
    assert_eq!(ran.stdout, "", "nothing came twice");
}

#[test]
fn a_signal_to_the_group_reaches_a_command_that_left_it() {
    let scratch = Scratch::new("left-group");
    let script = format!("import os; os.setpgid(0, 0)\n{LOG_SIGNALS}");
    let mut command = Srt::new(&scratch).into_command(&["python3", "-c", &script]);
    command.process_group(0);
    let mut live = Live::start(command);
    assert_eq!(live.line(), "ready");
    killpg(live.pid(), Signal::SIGTERM).expect("the group is ours");
    assert_eq!(live.line(), "SIGTERM");
    assert_eq!(live.end().succeeds().stdout, "");
}

#[test]
fn timeout_ends_a_command_and_reports_124() {
    let scratch = Scratch::new("timeout");
    let command = Srt::new(&scratch).into_command(&["sleep", "100"]);
    let started = Instant::now();
    let ran = run(&mut wrapped(&["timeout", "1"], &command));
    assert_eq!(ran.status, 124, "{}", ran.stderr);
    assert!(started.elapsed() < Duration::from_secs(50));
}

#[test]
fn a_trap_decides_the_status() {
    let scratch = Scratch::new("trap");
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut live = Live::start(Srt::new(&scratch).into_command(&["sh", "-c", script]));
    assert_eq!(live.line(), "ready");
    kill(live.pid(), Signal::SIGTERM).expect("it runs");
    assert_eq!(live.end().status, 5);
}

#[test]
fn a_signal_before_the_command_runs_stops_the_launch() {
    let scratch = Scratch::new("early");
    let ran = scratch.path("cwd/ran");
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut stopped = 0;
    // The moment is found by trying: from before srt blocks signals to after it has ended.
    for delay in (0..40).map(|step| Duration::from_micros(step * 500)) {
        let script = format!("echo > {}; sleep 0.1", ran.display());
        let command = Srt::new(&scratch)
            .allow_write(scratch.path("cwd"))
            .into_command(&["sh", "-c", &script]);
        let live = Live::start(command);
        std::thread::sleep(delay);
        kill(live.pid(), Signal::SIGTERM).expect("not waited for yet");
        assert_eq!(live.end().status, 143);
        stopped += u32::from(!ran.exists());
        drop(fs::remove_file(&ran));
        assert!(Instant::now() < deadline);
    }
    assert!(stopped > 0, "one of them came before the command");
    assert!(wait_until(|| processes_with(scratch.marker()).is_empty()));
}

#[test]
fn signal_dispositions_and_mask_are_the_callers() {
    let scratch = Scratch::new("dispositions");
    let show = "import os,sys; [print(l, end='') for l in open('/proc/self/status') \
                if l.startswith(('SigBlk', 'SigIgn'))]";
    let callers = [
        "",
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)",
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)",
        "[signal.signal(s, signal.SIG_IGN) for s in (2, 3, 10, 17, 18, 20, 21, 22)]",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {1, 10, 13, 15, 17, 20, 40})",
    ];
    for caller in callers {
        let script =
            format!("import os, signal, sys\n{caller}\nos.execvp(sys.argv[1], sys.argv[1:])");
        let caller_words = ["python3", "-c", &script];
        // Not Python inside: it ignores SIGPIPE itself.
        let words = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"];
        let native = run(Command::new("python3").args(["-c", &script]).args(words)).succeeds();
        let inside = Srt::new(&scratch).into_command(&words);
        let inside = run(&mut wrapped(&caller_words, &inside)).succeeds();
        assert_eq!(native.stdout, inside.stdout, "{caller} {show:.0}");
    }
}

#[test]
fn background_children_end_with_the_command_and_close_its_output() {
    let scratch = Scratch::new("background");
    let started = Instant::now();
    let ran = Srt::new(&scratch)
        .sh("sleep 100 & setsid sleep 100 & echo hi")
        .succeeds();
    assert_eq!(ran.stdout, "hi\n");
    assert!(started.elapsed() < Duration::from_secs(50));
    nothing_runs_in(&scratch);
}

#[test]
fn ten_thousand_orphans_leave_no_zombie() {
    let scratch = Scratch::new("orphans");
    let script = r#"
i=0
while [ $i -lt 10000 ]; do (true &); i=$((i+1)); done
i=0
set -- /proc/[0-9]*
while [ $# -gt 2 ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); set -- /proc/[0-9]*; done
grep -hs '^State:.Z' /proc/[0-9]*/status
echo $# processes
"#;
    let ran = Srt::new(&scratch).sh(script).succeeds();
    assert_eq!(ran.stdout, "2 processes\n");
}

#[test]
fn process_1_is_init_and_the_command_is_another() {
    let scratch = Scratch::new("init");
    let ran = Srt::new(&scratch)
        .sh("cat /proc/1/comm; echo $$; ls /proc/1/fd/0 /proc/1/cwd/ /proc/1/root/ 2>&1; true");
    let mut lines = ran.stdout.lines();
    assert_eq!(lines.next(), Some("srt"));
    let pid: u32 = lines
        .next()
        .and_then(|pid| pid.parse().ok())
        .expect("a pid");
    assert!(pid >= 2);
    let rest: Vec<_> = lines.collect();
    assert!(
        rest.iter().all(|line| line.contains("Permission denied")),
        "{rest:?}"
    );
    assert_eq!(rest.len(), 3, "{rest:?}");
}

#[test]
fn the_command_cannot_end_or_trace_init() {
    let scratch = Scratch::new("kill-init");
    let script = "
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for s in range(1, 65):
    if s in (32, 33): continue
    try: os.kill(1, s)
    except PermissionError: pass
print('ptrace', libc.ptrace(16, 1, 0, 0), libc.ptrace(0x4206, 1, 0, 0))
try: os.kill(-1, 0)
except OSError as error: print(error.strerror)
for name in ('mem', 'environ', 'maps', 'exe', 'ns/net', 'map_files'):
    try: open('/proc/1/' + name) if name != 'map_files' else os.listdir('/proc/1/map_files'); print('opened', name)
    except OSError: pass
";
    let ran = Srt::new(&scratch)
        .run(&["python3", "-c", script])
        .succeeds();
    assert!(ran.stdout.starts_with("ptrace -1 -1\n"), "{}", ran.stdout);
    assert!(!ran.shows("opened"), "{}", ran.stdout);
}

#[test]
fn killing_srt_at_any_moment_leaves_nothing_but_a_directory_the_next_start_removes() {
    let scratch = Scratch::new("kill");
    let tmp = scratch.dir("tmp");
    // In a network namespace of its own, so that every Unix socket seen there is ours.
    let script = "
import os, random, signal, subprocess, sys, time
before = open('/proc/self/mountinfo').read()
for _ in range(200):
    srt = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(random.random() * 0.05)
    srt.kill()
    srt.wait()
time.sleep(2)
print('mounts', open('/proc/self/mountinfo').read() == before)
print('sockets', len(open('/proc/net/unix').readlines()) - 1)
";
    let srt = Srt::new(&scratch)
        .env("TMPDIR", &tmp)
        .into_command(&["sleep", "100"]);
    let ran = run(&mut wrapped(
        &["unshare", "-cn", "python3", "-c", script],
        &srt,
    ));
    nothing_runs_in(&scratch);
    assert_eq!(ran.succeeds().stdout, "mounts True\nsockets 0\n");

    let parent = fs::read_dir(&tmp).expect("we made it").flatten().next();
    let parent = parent.expect("a killed run left its directory").path();
    assert!(fs::read_dir(&parent).is_ok_and(|found| found.count() > 0));
    Srt::new(&scratch)
        .env("TMPDIR", &tmp)
        .host_changes(&tmp, "it removes what killed runs left")
        .run(&["true"])
        .succeeds();
    assert_eq!(fs::read_dir(&tmp).expect("we made it").count(), 0);
}

#[test]
fn a_name_taken_by_somebody_else_is_no_obstacle() {
    let scratch = Scratch::new("taken");
    let tmp = scratch.dir("tmp");
    let uid = nix::unistd::geteuid();
    // Not closed to others, as a directory of theirs would not be.
    let taken = scratch.dir(&format!("tmp/srt-{uid}"));
    fs::set_permissions(&taken, fs::Permissions::from_mode(0o777)).expect("it is ours");
    let swept = "it removes what killed runs left";
    let start = || {
        Srt::new(&scratch)
            .env("TMPDIR", &tmp)
            .host_changes(&tmp, swept)
    };
    let ran = start().sh("echo $TMPDIR").succeeds();
    let private = ran.stdout.lines().next().unwrap_or_default();
    assert!(
        private.starts_with(&format!("{}/srt-{uid}-", tmp.display())),
        "{private}"
    );
    assert_eq!(fs::read_dir(&taken).expect("we made it").count(), 0);
    assert_eq!(
        fs::read_dir(&tmp).expect("we made it").count(),
        1,
        "only what was taken"
    );

    let mut live = Live::start(start().into_command(&["sh", "-c", "echo ready; cat"]));
    assert_eq!(live.line(), "ready");
    kill(live.pid(), Signal::SIGKILL).expect("it runs");
    drop(live.end());
    assert_eq!(fs::read_dir(&tmp).expect("we made it").count(), 2);
    assert!(wait_until(|| processes_with(scratch.marker()).is_empty()));
    start().run(&["true"]).succeeds();
    assert_eq!(fs::read_dir(&tmp).expect("we made it").count(), 1);
}

#[test]
fn the_directory_of_a_living_run_stays() {
    let scratch = Scratch::new("living");
    let tmp = scratch.dir("tmp");
    let start = || {
        Srt::new(&scratch)
            .env("TMPDIR", &tmp)
            .host_changes(&tmp, "directories of runs come and go")
    };
    let command = start().into_command(&[
        "sh",
        "-c",
        "echo $TMPDIR; echo kept > $TMPDIR/file; echo; cat; cat $TMPDIR/file",
    ]);
    let mut live = Live::start(command);
    let private = live.line();
    assert_eq!(live.line(), "");
    for _ in 0..3 {
        start().run(&["true"]).succeeds();
    }
    assert_eq!(
        fs::read_to_string(format!("{private}/file")).ok(),
        Some("kept\n".to_owned())
    );
    assert_eq!(live.end().succeeds().stdout, "kept\n");
    assert!(fs::symlink_metadata(&private).is_err());
    assert_eq!(fs::read_dir(&tmp).expect("we made it").count(), 0);
}

#[test]
fn a_stopped_srt_goes_on_when_continued() {
    let scratch = Scratch::new("stopped");
    let command = Srt::new(&scratch).into_command(&[
        "sh",
        "-c",
        "echo ready; read line; echo $line; exec sleep 100",
    ]);
    let mut live = Live::start(command);
    assert_eq!(live.line(), "ready");
    kill(live.pid(), Signal::SIGSTOP).expect("it runs");
    // Open to the end: `cat` must not end by the end of its input.
    let mut input = live.input.take().expect("not closed yet");
    input.write_all(b"passed\n").expect("cat reads");
    assert_eq!(live.line(), "passed", "the command needs srt for nothing");
    kill(live.pid(), Signal::SIGTERM).expect("it is stopped");
    kill(live.pid(), Signal::SIGCONT).expect("it is stopped");
    assert_eq!(live.end().status, 143);
}

#[test]
fn a_command_without_a_terminal_cannot_stop_srt() {
    let scratch = Scratch::new("stop-self");
    let script = "echo ready; kill -STOP $$; echo on";
    let command = Srt::new(&scratch).into_command(&["sh", "-c", script]);
    let mut live = Live::start(wrapped(&["setsid", "--wait"], &command));
    assert_eq!(live.line(), "ready");
    let states = || -> Vec<(i32, String)> {
        let state = |pid: i32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after_name = stat.rsplit(") ").next().unwrap_or_default();
            (pid, after_name.chars().take(1).collect())
        };
        processes_with(scratch.marker())
            .into_iter()
            .map(state)
            .collect()
    };
    let stopped = || states().iter().filter(|(_, state)| state == "T").count();
    assert!(wait_until(|| stopped() == 1), "{:?}", states());
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(stopped(), 1, "the command alone: {:?}", states());
    // The signal is passed on by whoever runs as srt.
    for (pid, _) in states() {
        let _passed_on_or_gone = kill(Pid::from_raw(pid), Signal::SIGCONT);
    }
    assert_eq!(live.end().succeeds().stdout, "on\n");
}

#[test]
fn nothing_runs_on_when_init_is_killed() {
    let scratch = Scratch::new("kill-init-outside");
    let mut live =
        Live::start(Srt::new(&scratch).into_command(&["sh", "-c", "echo ready; sleep 100"]));
    assert_eq!(live.line(), "ready");
    // Init is the child of our srt that has a child of its own.
    let children = |pid: i32| outside(&format!("cat /proc/{pid}/task/{pid}/children")).stdout;
    let srt = live.pid().as_raw();
    let init = children(srt)
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .find(|pid| !children(*pid).trim().is_empty())
        .expect("init is a child of srt");
    kill(Pid::from_raw(init), Signal::SIGKILL).expect("it is our own");
    assert_eq!(live.end().status, 137);
    nothing_runs_in(&scratch);
}

#[test]
fn fifty_runs_leave_the_host_as_it_was() {
    let scratch = Scratch::new("soak");
    let tmp = scratch.dir("tmp");
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let before = mounts();
    for _ in 0..50 {
        Srt::new(&scratch)
            .env("TMPDIR", &tmp)
            .run(&["true"])
            .succeeds();
    }
    assert_eq!(mounts(), before);
    nothing_runs_in(&scratch);
    assert_eq!(fs::read_dir(&tmp).expect("we made it").count(), 0);
}
