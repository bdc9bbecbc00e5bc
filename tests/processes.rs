//! What the command sees of processes, and how tools for processes work on its own.

mod harness;

use std::process::Command;

use harness::{Killed, Scratch, Srt, outside, run, skip, wrapped};

#[test]
fn numbers_of_processes_are_those_of_proc() {
    let scratch = Scratch::new("numbers");
    let script = "
cat /proc/$$/comm /proc/self/comm
sleep 98 & p=$!
i=0; until [ \"$(cat /proc/$p/comm)\" = sleep ] || [ $((i += 1)) -gt 4000 ]; do sleep 0.01; done
[ \"$(pgrep -x sleep)\" = $p ] && echo pgrep
[ \"$(pidof sleep)\" = $p ] && echo pidof
[ \"$(ps -o pid= -C sleep | tr -d ' ')\" = $p ] && echo ps
top -bn1 | grep -q \"^ *$p .* sleep\" && echo top
[ \"$(cat /proc/$p/stat | cut -d' ' -f4)\" = $$ ] && echo parent
ps ax -o pid= | head -1 | tr -d ' '
pkill -x sleep; wait $p; echo $?; test -e /proc/$p || echo gone";
    if outside("pgrep -V && top -v && pidof -V || which pidof").status != 0 {
        return skip("procps is not installed");
    }
    let ran = Srt::new(&scratch).run(&["bash", "-c", script]).succeeds();
    let expected = "bash\ncat\npgrep\npidof\nps\ntop\nparent\n1\n143\ngone\n";
    assert_eq!(ran.stdout, expected, "{}", ran.stderr);
}

#[test]
fn processes_of_the_host_are_in_no_list() {
    let scratch = Scratch::new("lists");
    let mark = scratch.path("mark");
    // Another process with the mark in its arguments.
    let _victim = Killed(
        Command::new("sh")
            .args(["-c", "sleep 100; true"])
            .arg(&mark)
            .spawn()
            .expect("sh is there"),
    );
    // In brackets, so that the search does not find itself.
    let name = mark.to_str().expect("ASCII");
    let seen = format!("ps axww -o args | grep -c '[/]{}$'", &name[1..]);
    assert_eq!(outside(&seen).stdout.trim(), "1", "the control");
    let ran = Srt::new(&scratch).sh(&seen);
    assert_eq!(ran.stdout.trim(), "0", "{}", ran.stderr);
    let ran = Srt::new(&scratch).sh("ls -d /proc/[0-9]* | wc -l; ps ax | wc -l");
    // Init, the shell, `ls` or `ps`, and `wc`; a heading.
    let counts: Vec<u32> = ran
        .succeeds()
        .stdout
        .split_whitespace()
        .map(|count| count.parse().expect("a number"))
        .collect();
    assert!(counts[0] <= 4 && counts[1] <= 5, "{counts:?}");
}

#[test]
fn a_number_in_a_file_means_the_same_to_kill_and_to_proc() {
    let scratch = Scratch::new("pid-file");
    let victim = Killed(
        Command::new("sleep")
            .arg("100")
            .spawn()
            .expect("sleep is there"),
    );
    let pid = victim.0.id();
    outside(&format!("kill -0 {pid}")).succeeds();
    let ran = Srt::new(&scratch).sh(&format!("kill -0 {pid}; echo $?; test -e /proc/{pid}"));
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (1, "1\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_debugger_runs_and_attaches_to_programs_inside() {
    let scratch = Scratch::new("gdb");
    if outside("gdb --version").status != 0 {
        return skip("gdb is not installed");
    }
    let ran = Srt::new(&scratch).sh("gdb -nx -batch -ex run --args /bin/true 2>&1 | tail -1
         sleep 100 & p=$!
         gdb -nx -batch -ex 'print 6 * 7' -ex detach -p $p 2>&1 | grep -o '^.1 = 42'
         kill $p; wait $p; echo $?");
    assert!(
        ran.stdout.contains("exited normally"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    assert!(
        ran.stdout.ends_with("$1 = 42\n143\n"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
}

#[test]
fn a_tracer_follows_processes_inside() {
    let scratch = Scratch::new("strace");
    if outside("strace -V").status != 0 {
        return skip("strace is not installed");
    }
    let ran = Srt::new(&scratch).sh("strace -f -o \"$TMPDIR/t\" sh -c '(true) & wait'; echo $?
         grep -c 'exited with 0' \"$TMPDIR/t\"");
    assert_eq!(ran.succeeds().stdout, "0\n2\n");
}

#[test]
fn a_run_outlives_the_thread_that_started_it() {
    let scratch = Scratch::new("thread");
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", "sleep 0.5; echo finished"]);
    let script = "
import subprocess, sys, threading
started = []
def start(): started.append(subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE))
thread = threading.Thread(target=start); thread.start(); thread.join()
out, _ = started[0].communicate()
print(out.decode(), started[0].returncode)
";
    let ran = run(&mut wrapped(&["python3", "-c", script], &srt)).succeeds();
    assert_eq!(ran.stdout, "finished\n 0\n");
}

#[test]
fn no_zombie_stays_while_the_command_waits_for_nobody() {
    let scratch = Scratch::new("zombies");
    // Orphans of every sort: forked twice, in a session of their own, killed.
    let script = "
import os, signal, time
for kind in range(3):
    for _ in range(20):
        if os.fork() == 0:
            if os.fork() == 0:
                if kind == 1: os.setsid()
                if kind == 2: os.kill(os.getpid(), signal.SIGKILL)
            os._exit(0)
        os.wait()
def states():
    for name in os.listdir('/proc'):
        if name.isdigit():
            try: yield open(f'/proc/{name}/stat').read().rsplit(')', 1)[1].split()[0]
            except OSError: pass
for _ in range(4000):
    if len(list(states())) == 2: break
    time.sleep(0.01)
print(len(list(states())), 'Z' in states())
";
    let ran = Srt::new(&scratch).run(&["python3", "-c", script]);
    assert_eq!(ran.succeeds().stdout, "2 False\n");
}
