//! The event stream: every verdict is in it, whatever the command does.

mod harness;

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Scratch, Srt, nothing_runs_in, run, skip, wrapped};
use sandbox_runtime as _;
use serde_json::Value;

/// Asks for as many hosts as the first word says, over eight connections at once, as fast as
/// the proxy reads, and waits for all answers.
const FLOOD: &str = r"
import socket, sys, threading
total = int(sys.argv[1])
def flood(first, last):
    s = socket.create_connection(('127.0.0.1', 3128))
    get = b'GET http://host%d.test/ HTTP/1.1\r\n\r\n'
    requests = b''.join(get % number for number in range(first, last))
    threading.Thread(target=s.sendall, args=(requests,), daemon=True).start()
    answers = s.makefile('rb')
    answered = 0
    while answered < last - first:
        answered += next(answers).startswith(b'HTTP/1.1 403')
each = total // 8
threads = [threading.Thread(target=flood, args=(n * each, n * each + each)) for n in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
";

/// Reads the events of a run, which are objects, one a line.
fn events(file: &std::path::Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("srt made it");
    let parsed = text.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().expect("each line is JSON")
}

#[test]
fn every_verdict_is_recorded_however_many_there_are() {
    let scratch = Scratch::new("flood");
    let file = scratch.path("events");
    let words = ["python3", "-c", FLOOD, "8000"];
    Srt::new(&scratch).events(&file).run(&words).succeeds();
    let events = events(&file);
    let mut targets: Vec<_> = events
        .iter()
        .filter_map(|event| event["target"].as_str())
        .collect();
    targets.retain(|target| target.ends_with(".test:80"));
    targets.sort_unstable();
    targets.dedup();
    assert_eq!(targets.len(), 8000);
    let numbered = (0..events.len()).all(|at| events[at]["seq"] == at);
    assert!(numbered, "the sequence has no gap");
}

#[test]
fn every_refused_socket_is_recorded_however_many_threads_ask_before_the_end() {
    let scratch = Scratch::new("sockets");
    let file = scratch.path("events");
    // Long paths fill the line to the launcher, and each thread waits for room in it.
    let cwd = scratch.dir(&format!("cwd/{}", vec!["x".repeat(200); 15].join("/")));
    let _host =
        UnixListener::bind(scratch.path("host")).expect("the scratch directory is writable");
    fs::hard_link(scratch.path("host"), cwd.join("host")).expect("one file system");
    let script = r"
import os, socket, threading
def ask():
    for _ in range(40):
        try: socket.socket(socket.AF_UNIX).connect('host')
        except PermissionError: refused.append(1)
refused = []
threads = [threading.Thread(target=ask) for _ in range(64)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(refused), flush=True); os._exit(0)
";
    let srt = Srt::new(&scratch).events(&file).current_dir(&cwd);
    let ran = srt.run(&["python3", "-c", script]).succeeds();
    assert_eq!(ran.stdout, "2560\n");
    let events = events(&file);
    let refused = events.iter().filter(|event| event["kind"] == "socket");
    assert_eq!(refused.count(), 2560);
}

#[test]
fn a_rule_from_a_file_of_any_name_is_recorded() {
    let scratch = Scratch::new("any-name");
    let file = scratch.path("events");
    let directory = scratch
        .dir("x")
        .with_file_name(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&directory).expect("the scratch directory is writable");
    let settings = directory.join("settings.json");
    let denied = r#"{ "network": { "deniedDomains": ["host1.test"] } }"#;
    fs::write(&settings, denied).expect("just made");
    let mut srt = Command::new(env!("CARGO_BIN_EXE_srt"));
    srt.arg("-s").arg(&settings).arg("--events").arg(&file);
    run(srt.args(["python3", "-c", FLOOD, "16"])).succeeds();
    let events = events(&file);
    let event = events
        .iter()
        .find(|event| event["target"] == "host1.test:80");
    let event = event.expect("the verdict is recorded");
    assert_eq!(event["rule"]["entry"], "host1.test");
    let shown = event["rule"]["file"].as_str().expect("it is text");
    assert!(shown.ends_with("/caf\u{fffd}/settings.json"), "{shown}");
}

#[test]
fn what_reached_a_server_is_recorded_although_the_command_did_not_wait() {
    let scratch = Scratch::new("leave");
    let server = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = server.local_addr().expect("it is bound").to_string();
    server.set_nonblocking(true).expect("it is a socket");
    let script = "
import socket, sys
connect = b'CONNECT %s HTTP/1.1\\r\\n\\r\\n' % sys.argv[1].encode()
for _ in range(8): socket.create_connection(('127.0.0.1', 3128)).sendall(connect)
";
    let (mut reached, mut recorded) = (0, 0);
    for round in 0..20 {
        let file = scratch.path(&format!("events-{round}"));
        let srt = Srt::new(&scratch).allow_host(&address).events(&file);
        srt.run(&["python3", "-c", script, &address]).succeeds();
        reached += std::iter::from_fn(|| server.accept().ok()).count();
        recorded += events(&file)
            .iter()
            .filter(|event| event["target"] == *address)
            .count();
    }
    assert!(reached > 0, "no request arrived: the test shows nothing");
    assert!(
        recorded >= reached,
        "{reached} reached the server, {recorded} are recorded"
    );
}

#[test]
fn a_flood_of_verdicts_keeps_no_signal_from_the_command() {
    let scratch = Scratch::new("flood-signal");
    let words = ["python3", "-c", FLOOD, "80000000"];
    let mut command = Srt::new(&scratch).events("/dev/null").into_command(&words);
    let mut srt = command.stdin(Stdio::null()).spawn().expect("srt is built");
    std::thread::sleep(Duration::from_secs(1));
    let started = Instant::now();
    let pid = srt.id().to_string();
    run(Command::new("kill").args(["-TERM", &pid])).succeeds();
    let status = srt.wait().expect("it is our child");
    assert_eq!(status.code(), Some(143));
    assert!(started.elapsed() < Duration::from_secs(40));
    nothing_runs_in(&scratch);
}

#[test]
fn events_that_no_longer_fit_on_the_disk_are_said_once() {
    let scratch = Scratch::new("full-disk");
    let small = scratch.dir("small");
    let words = ["python3", "-c", FLOOD, "800"];
    let srt = Srt::new(&scratch)
        .events(small.join("events"))
        .into_command(&words);
    let script = format!(
        "mount -t tmpfs -o size=16k t {} && exec \"$0\" \"$@\"",
        small.display()
    );
    let ran = run(&mut wrapped(&["unshare", "-rm", "sh", "-c", &script], &srt));
    if ran.stderr.contains("unshare: ") {
        return skip("this user cannot make a mount namespace");
    }
    let ran = ran.succeeds();
    assert_eq!(
        ran.stderr
            .matches("srt: warning: cannot write events to ")
            .count(),
        1,
        "{}",
        ran.stderr
    );
}

#[test]
fn a_command_cannot_touch_the_file_its_events_go_to() {
    let scratch = Scratch::new("events-in-a-grant");
    let work = scratch.dir("work");
    let file = work.join("events");
    let acts = "echo forged >>events; true >events; rm -f events; mv events moved; mv ../work ../w";
    let srt = || Srt::new(&scratch).allow_write(&work).current_dir(&work);
    fs::write(&file, "old\n").expect("the directory is ours");
    srt().sh(": >events").succeeds();
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "");

    let ran = srt().events("events").sh(&format!("{acts}; echo ran"));
    assert_eq!(ran.stdout, "ran\n", "{}", ran.stderr);
    let lines = events(&file);
    assert_eq!(lines.first().expect("start")["op"], "start");
    assert_eq!(lines.last().expect("end")["op"], "end");
    assert!(!work.join("moved").exists());
}

/// Returns the number that the start event has for a limit under `side`.
fn limit(file: &std::path::Path, side: &str, key: &str) -> Option<u64> {
    let events = events(file);
    let start = events
        .iter()
        .find(|event| event["code"] == "lifecycle.run.start")?;
    let limits = start[side]["limits"].as_array()?;
    limits.iter().find(|bound| bound["limit"] == key)?["value"].as_u64()
}

#[test]
fn the_start_event_has_the_limit_that_the_kernel_keeps() {
    let scratch = Scratch::new("kept");
    let file = scratch.path("events");
    let srt = Srt::new(&scratch)
        .flags(&["--max-files", "200"])
        .events(&file)
        .into_command(&["sh", "-c", "ulimit -n"]);
    let ran = run(&mut wrapped(&["env"], &srt));
    assert_eq!(ran.succeeds().stdout, "200\n");
    let both = || ["asked", "enforced"].map(|side| limit(&file, side, "limits.files"));
    assert_eq!(both(), [Some(200), Some(200)]);
    fs::remove_file(&file).expect("srt made it");
    let less = ["sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"];
    let ran = run(&mut wrapped(&less, &srt));
    assert_eq!(ran.succeeds().stdout, "100\n");
    assert_eq!(both(), [Some(200), Some(100)]);
}
