//! What a command leaves running, where `srt` is to wait for it: `--keep-background`.

mod harness;

use std::fs;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use harness::{Live, Scratch, Srt, nothing_runs_in, wait_until};
use nix::sys::signal::{Signal, kill, killpg};

/// Longer than anything here takes, and short of the hang that a test is ended for.
const PATIENCE: Duration = Duration::from_secs(100);

fn keeping(scratch: &Scratch) -> Srt {
    let made = scratch.dir("made");
    Srt::new(scratch)
        .allow_write(made)
        .flags(&["--keep-background"])
}

#[test]
fn what_is_left_running_is_waited_for_and_the_status_is_the_commands() {
    let scratch = Scratch::new("waited");
    let made = scratch.path("made");
    // In a session of its own, an orphan, and a child of an orphan.
    let script = format!(
        "cd {}; (sleep 0.4; echo > plain) & setsid sh -c 'sleep 0.4; echo > session' & \
         (sh -c 'sleep 0.2; echo > orphan; (sleep 0.4; echo > grandchild) &' &); exit 7",
        made.display()
    );
    let ran = keeping(&scratch).sh(&script);
    assert_eq!(ran.status, 7, "{}", ran.stderr);
    let all = ["plain", "session", "orphan", "grandchild"];
    for name in all {
        assert!(made.join(name).exists(), "{name}");
        fs::remove_file(made.join(name)).expect("it was made");
    }
    nothing_runs_in(&scratch);
    // The control: without the flag, all of it ends with the command.
    let ran = Srt::new(&scratch).allow_write(&made).sh(&script);
    assert_eq!(ran.status, 7, "{}", ran.stderr);
    nothing_runs_in(&scratch);
    assert!(!made.join("grandchild").exists());
}

#[test]
fn a_command_that_leaves_nothing_ends_at_once() {
    let scratch = Scratch::new("nothing");
    let started = Instant::now();
    assert_eq!(keeping(&scratch).sh("exit 3").status, 3);
    assert_eq!(keeping(&scratch).sh("kill -9 $$").status, 137);
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn the_broker_and_the_proxies_serve_what_is_left_running() {
    let scratch = Scratch::new("served");
    let made = scratch.dir("made");
    // The first connection has the executor started, which is not waited for.
    let script = format!(
        "import os, socket, time
server = socket.socket(socket.AF_UNIX)
server.bind('{0}/socket'); server.listen()
if os.fork(): os._exit(4)
time.sleep(0.3)
for _ in range(2):
    client = socket.socket(socket.AF_UNIX)
    client.connect('{0}/socket')
    server.accept()[0].send(b'x')
    open('{0}/got', 'ab').write(client.recv(1))
",
        made.display()
    );
    let ran = keeping(&scratch).run(&["python3", "-c", &script]);
    assert_eq!(ran.status, 4, "{}", ran.stderr);
    assert_eq!(fs::read(made.join("got")).ok(), Some(b"xx".to_vec()));
    nothing_runs_in(&scratch);
}

/// Leaves two processes, one of which is in a session of its own, and names the signals they get.
const LEAVE_TWO: &str = "
import os, signal, sys, time
command = os.getpid()
def wait(name):
    def say(number, _):
        os.write(1, f'{name} {signal.Signals(number).name}\\n'.encode())
        if number == signal.SIGTERM: os._exit(0)
    for number in (signal.SIGUSR1, signal.SIGTERM): signal.signal(number, say)
    while os.path.exists(f'/proc/{command}'): time.sleep(0.01)
    print('ready', flush=True)
    while True: signal.pause()
if not os.fork(): wait('group')
if not os.fork():
    os.setsid()
    wait('session')
sys.exit(5)
";

#[test]
fn signals_reach_what_is_left_running_once() {
    for to_group in [false, true] {
        let scratch = Scratch::new("signals");
        let mut command = keeping(&scratch).into_command(&["python3", "-c", LEAVE_TWO]);
        command.process_group(0);
        let mut live = Live::start(command);
        assert_eq!((live.line(), live.line()), ("ready".into(), "ready".into()));
        for signal in [Signal::SIGUSR1, Signal::SIGTERM] {
            match to_group {
                true => killpg(live.pid(), signal),
                false => kill(live.pid(), signal),
            }
            .expect("it runs");
            let mut said = [live.line(), live.line()];
            said.sort();
            assert_eq!(
                said,
                ["group", "session"].map(|who| format!("{who} {signal}"))
            );
        }
        let ran = live.end();
        assert_eq!((ran.status, ran.stdout.as_str()), (5, ""), "{}", ran.stderr);
        nothing_runs_in(&scratch);
    }
}

#[test]
fn the_time_limit_holds_for_what_is_left_running() {
    let scratch = Scratch::new("timeout");
    let started = Instant::now();
    let ran = keeping(&scratch)
        .flags(&["--timeout", "1"])
        .sh("sleep 200 & setsid sleep 200 & exit 0");
    assert_eq!(ran.status, 124, "{}", ran.stderr);
    assert!(ran.stderr.contains("--timeout"), "{}", ran.stderr);
    assert!(started.elapsed() < PATIENCE);
    nothing_runs_in(&scratch);
}

#[test]
fn nothing_is_left_running_when_srt_is_killed() {
    let scratch = Scratch::new("killed");
    let command = keeping(&scratch).into_command(&["sh", "-c", "sleep 200 & echo left"]);
    let mut live = Live::start(command);
    assert_eq!(live.line(), "left");
    kill(live.pid(), Signal::SIGKILL).expect("it runs");
    assert_eq!(live.end().status, 137);
    assert!(wait_until(
        || harness::processes_with(scratch.marker()).is_empty()
    ));
}

#[test]
fn what_is_denied_later_stands_before_the_end_in_the_events() {
    let scratch = Scratch::new("events");
    let events = scratch.path("events");
    scratch.dir("closed");
    let late = scratch.path("closed/late");
    let ran = keeping(&scratch)
        .events(&events)
        .sh(&format!("(sleep 0.3; echo > {}) & exit 0", late.display()));
    let ran = ran.succeeds();
    assert!(ran.stderr.contains("closed/late"), "{}", ran.stderr);
    let text = fs::read_to_string(&events).expect("events are written");
    let line = |what: &str| text.lines().position(|line| line.contains(what));
    let (denied, end) = (line("closed/late"), line("\"run.end\"").or(line("\"end\"")));
    assert!(denied.is_some() && denied < end, "{text}");
    assert!(!late.exists());
}

#[test]
fn a_run_inside_a_sandbox_waits_for_its_own_alone() {
    let scratch = Scratch::new("inner");
    let made = scratch.dir("made");
    let srt = env!("CARGO_BIN_EXE_srt");
    let inner = scratch.file("inner.json", r#"{"nested": "inner"}"#);
    let script = format!(
        "sleep 200 & '{srt}' -s {} --allow-write {1} --keep-background sh -c \
         '(sleep 0.4; echo > {1}/late) & exit 6'; echo $?; test -e {1}/late && echo made",
        inner.display(),
        made.display()
    );
    let ran = Srt::new(&scratch).allow_write(&made).sh(&script);
    assert_eq!(ran.succeeds().stdout, "6\nmade\n");
    nothing_runs_in(&scratch);
}
