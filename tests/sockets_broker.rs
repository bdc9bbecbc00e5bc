//! The broker under attack and in trouble: races, callers that vanish, hosts that refuse.

mod harness;

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::{Killed, Scratch, Srt, compiled, is_root, probe, run, skip, wait_until, with_fault};

/// Takes every connection that waits at a listener of the host, and counts them.
fn arrived(listener: &UnixListener) -> usize {
    listener.set_nonblocking(true).expect("a socket");
    std::iter::from_fn(|| listener.accept().ok()).count()
}

fn bound(path: &Path) -> UnixListener {
    UnixListener::bind(path).expect("the scratch directory is writable")
}

#[test]
fn a_path_that_changes_all_the_time_never_leads_to_a_socket_of_the_host() {
    let scratch = Scratch::new("race");
    let cwd = scratch.dir("cwd");
    let host = bound(&cwd.join("host"));
    let Some(race) = compiled(&scratch, &probe("race.c"), &["-pthread"]) else {
        return skip("there is no C compiler");
    };
    let ran = Srt::new(&scratch).allow_write(&cwd).run(&[race]).succeeds();
    let counts: Vec<u64> = ran.stdout.split_whitespace().flat_map(str::parse).collect();
    let [connected, refused, overtaken, link_flips, memory_flips] = counts[..] else {
        panic!("{}", ran.stdout);
    };
    assert!(connected.min(refused).min(overtaken) > 10_000, "{counts:?}");
    assert!(link_flips.min(memory_flips) >= 100_000, "{counts:?}");
    assert_eq!(arrived(&host), 0, "{counts:?}");
    UnixStream::connect(cwd.join("host")).expect("nothing keeps the host from it");
    assert_eq!(arrived(&host), 1);
}

#[test]
fn a_host_socket_on_the_inode_number_of_a_dead_one_inside_stays_out_of_reach() {
    let scratch = Scratch::new("reuse");
    let cwd = scratch.dir("cwd");
    let script = r"
import errno, os, socket, time
def answer():
    try: socket.socket(socket.AF_UNIX).connect('socket'); return 'ok'
    except OSError as error: return errno.errorcode[error.errno]
for turn in range(20):
    server = socket.socket(socket.AF_UNIX); server.bind('socket'); server.listen(1)
    first = answer()
    number = os.stat('socket').st_ino
    os.unlink('socket'); server.close()
    open('gone', 'w').close()
    while not os.path.exists('taken'): time.sleep(0.001)
    print(first, answer(), os.stat('socket').st_ino == number)
    os.unlink('socket'); os.unlink('taken')
open('end', 'w').close()
";
    let mut command = Srt::new(&scratch)
        .allow_write(&cwd)
        .into_command(&["python3", "-c", script]);
    let (ran, reached) = std::thread::scope(|scope| {
        let ran = scope.spawn(|| run(&mut command));
        let (gone, end) = (cwd.join("gone"), cwd.join("end"));
        let mut hosts = Vec::new();
        while wait_until(|| gone.exists() || end.exists()) && !end.exists() {
            fs::remove_file(&gone).expect("it was just made");
            hosts.push(bound(&cwd.join("socket")));
            fs::write(cwd.join("taken"), "").expect("it is ours");
        }
        let reached: usize = hosts.iter().map(arrived).sum();
        (ran.join().expect("it ran"), reached)
    });
    let ran = ran.succeeds();
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 20);
    assert!(
        lines.iter().all(|line| line.starts_with("ok EACCES ")),
        "{lines:?}"
    );
    assert_eq!(reached, 0);
    if !ran.stdout.contains("True") {
        skip("this file system did not use an inode number again");
    }
}

#[test]
fn a_caller_that_cannot_be_dumped_is_served_and_judged_like_any() {
    let scratch = Scratch::new("dumpable");
    let cwd = scratch.dir("cwd");
    let host = bound(&cwd.join("host"));
    let script = r"
import ctypes, errno, os, socket
libc = ctypes.CDLL(None)
server = socket.socket(socket.AF_UNIX); server.bind('own'); server.listen(8)
for dumpable in (1, 0):
    libc.prctl(4, dumpable, 0, 0, 0)
    for name in ('own', os.getcwd() + '/own', '/proc/self/cwd/own', 'host', '127.0.0.1'):
        try:
            if name[0] == '1': socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect((name, 9))
            else: socket.socket(socket.AF_UNIX).connect(name)
            print(libc.prctl(3, 0, 0, 0, 0), 'ok')
        except OSError as error: print(libc.prctl(3, 0, 0, 0, 0), errno.errorcode[error.errno])
";
    let ran = Srt::new(&scratch)
        .allow_write(&cwd)
        .run(&["python3", "-c", script])
        .succeeds();
    let answers = |dumpable| {
        ["ok", "ok", "ok", "EACCES", "ok"]
            .map(|answer| format!("{dumpable} {answer}\n"))
            .concat()
    };
    assert_eq!(ran.stdout, answers(1) + &answers(0));
    assert_eq!(arrived(&host), 0);
}

#[test]
fn a_thread_with_descriptors_of_its_own_has_those_connected() {
    let scratch = Scratch::new("thread");
    // unshare(CLONE_FILES) in a thread: its descriptor 9 is another socket than the process's.
    let script = r"
import ctypes, os, socket, threading
libc = ctypes.CDLL(None, use_errno=True)
server = socket.socket(socket.AF_UNIX); server.bind('\0own'); server.listen(8)
outer = socket.socket(socket.AF_UNIX); os.dup2(outer.fileno(), 99)
def thread():
    print('unshared', libc.unshare(0x400))
    inner = socket.socket(socket.AF_UNIX); os.dup2(inner.fileno(), 99)
    socket.socket(fileno=os.dup(99)).connect('\0own')
    client = socket.socket(fileno=os.dup(99)); print('inner', len(client.getpeername()))
started = threading.Thread(target=thread); started.start(); started.join()
try: outer.getpeername()
except OSError as error: print('outer', error.strerror)
";
    let ran = Srt::new(&scratch)
        .run(&["python3", "-c", script])
        .succeeds();
    assert_eq!(
        ran.stdout,
        "unshared 0\ninner 4\nouter Transport endpoint is not connected\n"
    );
}

#[test]
fn callers_that_die_in_a_storm_leave_nothing_open_and_no_call_unjudged() {
    let scratch = Scratch::new("storm");
    let cwd = scratch.dir("cwd");
    let host = bound(&cwd.join("host"));
    let script = r"
import os, random, signal, socket, time
own = socket.socket(socket.AF_UNIX); own.bind('own'); own.listen(4096)
for _ in range(600):
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            while True:
                for name in ('own', 'host', 'missing', '/proc/self/cwd/host'):
                    with socket.socket(socket.AF_UNIX) as client:
                        try: client.connect(name)
                        except OSError: pass
        children.append(child)
    time.sleep(random.random() * 0.005)
    for child in children: os.kill(child, signal.SIGKILL)
    for child in children: os.waitpid(child, 0)
    own.setblocking(False)
    try:
        while True: own.accept()
    except BlockingIOError: pass
open('ready', 'w').close()
while not os.path.exists('go'): time.sleep(0.01)
";
    let mut command = Srt::new(&scratch)
        .allow_write(&cwd)
        .into_command(&["python3", "-c", script]);
    command.stdin(Stdio::null());
    let mut srt = Killed(command.spawn().expect("it was built"));
    let deadline = Instant::now() + Duration::from_secs(120);
    while !cwd.join("ready").exists() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(cwd.join("ready").exists());
    // The launcher is not dumpable: only root may list what it holds open.
    let count = || fs::read_dir(format!("/proc/{}/fd", srt.0.id())).map(Iterator::count);
    // One for each of at most 128 threads, 64 callers that are remembered, and what the launcher
    // has; each thread holds more until it has seen that its caller is dead.
    let few = wait_until(|| count().map_or(true, |count| count < 256));
    let open = count();
    fs::write(cwd.join("go"), "").expect("it is ours");
    assert!(srt.0.wait().expect("it is our child").success());
    assert_eq!(arrived(&host), 0);
    match open {
        Ok(count) => assert!(few, "{count} descriptors are open"),
        Err(_) => skip("only root can count the descriptors of the launcher"),
    }
}

#[test]
fn descriptors_stay_the_same_over_a_hundred_thousand_calls() {
    if !is_root() {
        return skip("only root can count the descriptors of the launcher");
    }
    let scratch = Scratch::new("count");
    let cwd = scratch.dir("cwd");
    let script = r"
import os, socket, time
own = socket.socket(socket.AF_UNIX); own.bind('own'); own.listen(8)
def wait_for(name):
    while not os.path.exists(name): time.sleep(0.01)
def connect(count):
    for number in range(count):
        with socket.socket(socket.AF_UNIX) as client:
            try: client.connect(('own', 'missing')[number % 2])
            except OSError: continue
            own.accept()[0].close()
connect(100); open('first', 'w').close(); wait_for('go')
connect(100000); open('second', 'w').close(); wait_for('end')
";
    let mut command = Srt::new(&scratch)
        .allow_write(&cwd)
        .into_command(&["python3", "-c", script]);
    command.stdin(Stdio::null());
    let mut srt = Killed(command.spawn().expect("it was built"));
    let fds = format!("/proc/{}/fd", srt.0.id());
    let count_at = |mark: &str| {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !cwd.join(mark).exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        fs::read_dir(&fds).expect("it runs").count()
    };
    let first = count_at("first");
    fs::write(cwd.join("go"), "").expect("it is ours");
    let second = count_at("second");
    fs::write(cwd.join("end"), "").expect("it is ours");
    assert!(srt.0.wait().expect("it is our child").success());
    // A thread of the broker that serves for the first time opens its line to the executor.
    assert!(second <= first + 2, "{first} descriptors, then {second}");
}

#[test]
fn a_caller_without_room_for_descriptors_connects_all_the_same() {
    let scratch = Scratch::new("nofile");
    let script = r"
import os, resource, socket
own = socket.socket(socket.AF_UNIX); own.bind('\0own'); own.listen(8)
client = socket.socket(socket.AF_UNIX)
while True:
    try: os.dup(0)
    except OSError: break
client.connect('\0own'); print(client.getpeername())
";
    let ran = Srt::new(&scratch).run(&["sh", "-c", "ulimit -n 64; exec python3 -c \"$0\"", script]);
    assert_eq!(ran.succeeds().stdout, "b'\\x00own'\n");
}

#[test]
fn a_stopped_broker_delays_and_a_dead_one_ends_the_sandbox() {
    let scratch = Scratch::new("stopped");
    let cwd = scratch.dir("cwd");
    let host = bound(&cwd.join("host"));
    let script = r"
import errno, os, socket, time
while True:
    for name in ('host', 'missing'):
        try: socket.socket(socket.AF_UNIX).connect(name); open('reached', 'w').close()
        except OSError as error: open('answer-' + errno.errorcode[error.errno], 'w').close()
    open('round', 'w').close()
";
    let mut command = Srt::new(&scratch)
        .allow_write(&cwd)
        .into_command(&["python3", "-c", script]);
    command.stdin(Stdio::null());
    let mut srt = Killed(command.spawn().expect("it was built"));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(srt.0.id()).expect("a pid"));
    let signal = |signal| nix::sys::signal::kill(pid, signal).expect("our own child");
    let round = cwd.join("round");
    assert!(wait_until(|| round.exists()));
    signal(nix::sys::signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(300));
    drop(fs::remove_file(&round));
    std::thread::sleep(Duration::from_millis(500));
    assert!(
        !round.exists(),
        "a call was answered though nobody judged it"
    );
    signal(nix::sys::signal::SIGCONT);
    assert!(wait_until(|| round.exists()));
    srt.end();
    assert!(wait_until(
        || harness::processes_with(scratch.marker()).is_empty()
    ));
    let mut left: Vec<_> = fs::read_dir(&cwd)
        .expect("it is ours")
        .flatten()
        .map(|entry| entry.file_name().into_string().expect("ASCII"))
        .collect();
    left.sort();
    // What the kernel answers between the end of the broker and that of the sandbox.
    left.retain(|name| name != "answer-ENOSYS");
    assert_eq!(left, ["answer-EACCES", "answer-ENOENT", "host", "round"]);
    assert_eq!(arrived(&host), 0);
}

#[test]
fn a_host_that_refuses_to_take_arguments_or_descriptors_is_named_with_the_remedy() {
    let scratch = Scratch::new("refused");
    for call in ["pidfd_getfd", "process_vm_readv"] {
        let srt = Srt::new(&scratch).into_command(&["true"]);
        let ran = with_fault("EPERM", call, &srt).is_refused("the broker cannot act");
        assert!(
            ran.stderr.contains("kernel.yama.ptrace_scope"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn the_command_holds_no_listener_of_its_own_calls() {
    let scratch = Scratch::new("listener");
    let script = r"
import os
def link(name):
    try: return os.readlink(name)
    except OSError: return ''
print(len([fd for fd in os.listdir('/proc/self/fd') if link('/proc/self/fd/' + fd)]) >= 3)
print([fd for fd in os.listdir('/proc/self/fd') if 'seccomp' in link('/proc/self/fd/' + fd)])
try: os.fstat(3); print('descriptor 3 is open')
except OSError: print('nothing above 2')
";
    let ran = Srt::new(&scratch).run(&["python3", "-S", "-c", script]);
    assert_eq!(ran.succeeds().stdout, "True\n[]\nnothing above 2\n");
}

#[test]
fn two_sandboxes_in_one_directory_do_not_reach_each_other() {
    let scratch = Scratch::new("two");
    let cwd = scratch.dir("cwd");
    let server = r"
import os, socket, time
own = socket.socket(socket.AF_UNIX); own.bind('served'); own.listen(8)
client = socket.socket(socket.AF_UNIX); client.connect('served'); own.accept()
open('ready', 'w').close()
while not os.path.exists('go'): time.sleep(0.01)
own.setblocking(False)
try: own.accept(); open('reached', 'w').close()
except BlockingIOError: pass
";
    let mut command = Srt::new(&scratch)
        .allow_write(&cwd)
        .into_command(&["python3", "-c", server]);
    command.stdin(Stdio::null());
    let mut first = Killed(command.spawn().expect("it was built"));
    assert!(wait_until(|| cwd.join("ready").exists()));
    let client = r"
import errno, os, socket
try: socket.socket(socket.AF_UNIX).connect('served'); print('ok')
except OSError as error: print(errno.errorcode[error.errno])
";
    let ran = Srt::new(&scratch)
        .allow_write(&cwd)
        .run(&["python3", "-c", client]);
    fs::write(cwd.join("go"), "").expect("it is ours");
    assert!(first.0.wait().expect("it is our child").success());
    assert_eq!(ran.succeeds().stdout, "ECONNREFUSED\n");
    assert!(!cwd.join("reached").exists());
}
