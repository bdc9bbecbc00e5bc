//! Connections that block: they wait, hold up no other, and end with their caller.

mod harness;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Killed, Scratch, Srt, wait_until};

/// Makes a listener whose queue is full, and `blocked` clients in it that wait.
const FULL: &str = r"
import errno, os, signal, socket, sys, threading, time
def full(name):
    server = socket.socket(socket.AF_UNIX); server.bind(name); server.listen(0)
    client = socket.socket(socket.AF_UNIX); client.connect(name)
    return server, client
";

#[test]
fn a_connection_to_a_full_queue_waits_and_is_made_when_there_is_room() {
    let scratch = Scratch::new("full");
    let script = format!(
        r"{FULL}
server, first = full('\0full')
started = time.monotonic()
def late():
    time.sleep(0.5); server.accept()
threading.Thread(target=late).start()
client = socket.socket(socket.AF_UNIX); client.connect('\0full')
print(0.4 < time.monotonic() - started < 5)
"
    );
    let ran = Srt::new(&scratch).run(&["python3", "-c", &script]);
    assert_eq!(ran.succeeds().stdout, "True\n");
}

#[test]
fn calls_that_block_hold_up_no_other_and_end_with_their_caller() {
    let scratch = Scratch::new("blocked");
    // Eighty callers wait for a full queue; others connect meanwhile; the eighty are killed,
    // which nothing may keep them from, and 200 more that wait are more than there is room for.
    let script = format!(
        r"{FULL}
server, first = full('\0full')
tcp = socket.socket(); tcp.bind(('127.0.0.1', 0)); tcp.listen(8)
other = socket.socket(socket.AF_UNIX); other.bind('\0other'); other.listen(8)
def wait_in_child():
    child = os.fork()
    if child == 0:
        socket.socket(socket.AF_UNIX).connect('\0full'); os._exit(0)
    return child
def quick():
    started = time.monotonic()
    for _ in range(5):
        with socket.socket(socket.AF_UNIX) as client: client.connect('\0other')
        with socket.create_connection(tcp.getsockname()): pass
        other.accept(); tcp.accept()
    return time.monotonic() - started < 2
for count in (80, 200):
    children = [wait_in_child() for _ in range(count)]
    time.sleep(0.5)
    print(count, 'waiting', all(os.waitpid(child, os.WNOHANG) == (0, 0) for child in children))
    if count < 128: print('others connect', quick())
    started = time.monotonic()
    for child in children: os.kill(child, signal.SIGKILL)
    ended = [os.waitpid(child, 0)[1] for child in children]
    print('killed', set(ended) == {{signal.SIGKILL}}, time.monotonic() - started < 5)
    time.sleep(1)
    print('others connect', quick())
"
    );
    let ran = Srt::new(&scratch).run(&["python3", "-c", &script]);
    assert_eq!(
        ran.succeeds().stdout,
        "80 waiting True\nothers connect True\nkilled True True\nothers connect True\n\
         200 waiting True\nkilled True True\nothers connect True\n"
    );
}

#[test]
fn a_blocked_connection_of_tcp_holds_up_no_other() {
    let scratch = Scratch::new("blocked-tcp");
    // The first call that blocks is taken by the thread that takes all others.
    let script = r"
import socket, threading, time
full = socket.socket(); full.bind(('127.0.0.1', 0)); full.listen(0)
first = socket.create_connection(full.getsockname())
other = socket.socket(); other.bind(('127.0.0.1', 0)); other.listen(64)
waiting = []
def wait():
    with socket.create_connection(full.getsockname()) as client: waiting.append(client.recv(1))
thread = threading.Thread(target=wait); thread.start()
time.sleep(0.3)
started = time.monotonic()
for _ in range(50):
    with socket.create_connection(other.getsockname()): other.accept()[0].close()
print(len(waiting), time.monotonic() - started < 0.9)
for _ in range(2): full.accept()[0].close()
thread.join()
print(waiting)
";
    let ran = Srt::new(&scratch).run(&["python3", "-c", script]);
    assert_eq!(ran.succeeds().stdout, "0 True\n[b'']\n");
}

#[test]
fn a_blocked_connection_to_a_listed_host_socket_ends_with_its_caller() {
    let scratch = Scratch::new("blocked-host");
    let path = scratch.dir("x").join("busy");
    let script = format!(
        r"{FULL}
children = []
for _ in range(4):
    child = os.fork()
    if child == 0: socket.socket(socket.AF_UNIX).connect(sys.argv[1]); signal.pause()
    children.append(child)
time.sleep(0.5)
for child in children: os.kill(child, signal.SIGKILL)
print({{os.waitpid(child, 0)[1] for child in children}}, threading.active_count())
"
    );
    // A queue of one: std takes 128.
    let host = Command::new("python3")
        .args(["-c", "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(0); time.sleep(60)"])
        .arg(&path)
        .stdin(Stdio::null())
        .spawn()
        .expect("python3 is there");
    let mut host = Killed(host);
    assert!(wait_until(|| path.exists()));
    let started = Instant::now();
    let ran = Srt::new(&scratch).allow_socket(&path).run(&[
        "python3",
        "-c",
        &script,
        path.to_str().expect("ASCII"),
    ]);
    host.end();
    assert_eq!(ran.succeeds().stdout, "{9} 1\n");
    assert!(started.elapsed() < Duration::from_secs(50));
}
