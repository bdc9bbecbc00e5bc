//! Odd terminals and callers: closed ones, none, stopped launchers, ignored signals.

use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};

use super::emulator::Emulator;
use super::harness::{
    Killed, Scratch, Srt, is_there, nothing_runs_in, processes_with, run, skip, wait_until, wrapped,
};
use super::{foreground, line, put_srt, shell};

#[test]
fn nothing_is_left_when_the_terminal_is_closed() {
    let scratch = Scratch::new("hangup");
    let words = ["sh", "-c", "echo up; sleep 100 & exec sleep 101"];
    let srt = || Srt::new(&scratch).into_command(&words);
    // As the first process of the session, and as one that nobody tells of the end.
    for start in [Emulator::start, foreground] {
        let mut terminal = start(&srt());
        terminal.shows("up");
        terminal.close();
        terminal.ends();
        assert!(wait_until(|| processes_with(scratch.marker()).is_empty()));
    }
    put_srt(&scratch, Srt::new(&scratch));
    let mut terminal = shell(&scratch);
    terminal.tells("./s sh -c 'echo u''p; sleep 100 & exec sleep 101'");
    terminal.shows("\nup");
    terminal.close();
    terminal.ends();
    assert!(wait_until(|| processes_with(scratch.marker()).is_empty()));
}

#[test]
fn a_command_may_outlive_its_terminal_as_without_a_sandbox() {
    let scratch = Scratch::new("nohup");
    let script = "trap '' HUP; echo up; until [ -e go ]; do sleep 0.05; done; echo x >lived";
    let srt = Srt::new(&scratch).allow_write(scratch.path("cwd"));
    let mut terminal = Emulator::start(&srt.into_command(&["sh", "-c", script]));
    terminal.shows("up");
    terminal.close();
    scratch.file("cwd/go", "");
    terminal.ends();
    assert!(scratch.path("cwd/lived").exists());
    nothing_runs_in(&scratch);
}

#[test]
fn a_stopped_launcher_goes_on_with_the_terminal() {
    let scratch = Scratch::new("sigstop");
    put_srt(&scratch, Srt::new(&scratch));
    // It is not stopped with it: one that reads would take keys from the shell.
    let script =
        "echo up; until [ -e go ]; do sleep 0.05; done; read x; echo got-$x; exec sleep 100";
    scratch.file("cwd/script", script);
    let mut terminal = shell(&scratch);
    terminal.tells("./s sh script");
    terminal.shows("\nup");
    kill(terminal.job(), Signal::SIGSTOP).expect("it is ours");
    terminal.shows("Stopped");
    terminal.tells("clear; echo no''w; fg");
    terminal.shows("now\n./s sh");
    terminal.leaves_the_shell();
    scratch.file("cwd/go", "");
    terminal.types("word\r");
    terminal.shows("got-word");
    terminal.types("\x03");
    terminal.shows("^C");
    terminal.tells("exit 0");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn input_without_an_end_ends_with_the_command() {
    let scratch = Scratch::new("endless");
    let mut srt = Srt::new(&scratch).into_command(&["head", "-c", "4"]);
    let mut yes = Killed(
        Command::new("yes")
            .stdout(Stdio::piped())
            .spawn()
            .expect("yes is there"),
    );
    let input = yes.0.stdout.take().expect("piped above");
    let output = srt.stdin(input).output().expect("srt is built");
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(0), &b"y\ny\n"[..])
    );
    // One that says nothing either.
    let mut srt = Srt::new(&scratch).into_command(&["true"]);
    let child = srt.stdin(Stdio::piped()).spawn().expect("srt is built");
    let mut child = Killed(child);
    assert!(wait_until(|| child
        .0
        .try_wait()
        .is_ok_and(|end| end.is_some())));
}

#[test]
fn a_caller_that_ignores_or_blocks_signals_gets_the_status() {
    let scratch = Scratch::new("ignoring");
    let callers = [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
        "[signal.signal(s, signal.SIG_IGN) for s in signal.valid_signals() - {9, 19, 32, 33}]",
        "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())",
    ];
    for caller in callers {
        let script =
            format!("import os, signal, sys\n{caller}\nos.execvp(sys.argv[1], sys.argv[1:])");
        let words = ["sh", "-c", "sleep 0.1; (exit 3); echo $?; exit 5"];
        let srt = Srt::new(&scratch).into_command(&words);
        let ran = run(&mut wrapped(&["python3", "-c", &script], &srt));
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (5, "3\n"),
            "{caller}: {}",
            ran.stderr
        );
        // A parent that waits for nobody: all that can be seen is that it has run, and is gone.
        let script = format!(
            "
import os, signal, subprocess, sys
{caller}
child = subprocess.Popen(sys.argv[1:])
try: os.waitpid(child.pid, 0)
except ChildProcessError: pass
"
        );
        let ran = run(&mut wrapped(&["python3", "-c", &script], &srt));
        assert_eq!(ran.stdout, "3\n", "{caller}");
        nothing_runs_in(&scratch);
    }
}

#[test]
fn without_a_terminal_a_command_finds_none() {
    let scratch = Scratch::new("setsid");
    let script =
        "(: </dev/tty) 2>&1 | grep -o 'No such device'; tty; ps -o tty= -p $$; read x; echo got-$x";
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", script]);
    let mut detached = wrapped(&["setsid", "-w"], &srt);
    let ran = super::harness::run_with_input(&mut detached, b"word\n").succeeds();
    assert_eq!(
        ran.stdout, "No such device\nnot a tty\n?\ngot-word\n",
        "{}",
        ran.stderr
    );
}

#[test]
fn under_script_a_command_has_its_terminal() {
    let scratch = Scratch::new("script");
    let inside = "test -t 0 && test -t 1 && echo terminal; echo x >/dev/tty; exit 9";
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", inside]);
    let ran = run(Command::new("script")
        .args(["-qec", &line(&srt), "/dev/null"])
        .current_dir(scratch.path("cwd")));
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (9, "terminal\r\nx\r\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_multiplexer_outside_runs_a_command() {
    if !is_there("tmux") {
        return skip("tmux is not installed");
    }
    let scratch = Scratch::new("tmux");
    let socket = scratch.path("socket");
    put_srt(&scratch, Srt::new(&scratch));
    scratch.file("cwd/script", "stty size; echo in''side; read x");
    let mut tmux = super::native(&scratch, &["tmux", "-f", "/dev/null", "-S"]);
    tmux.arg(&socket).args(["new-session", "./s sh script"]);
    let mut terminal = Emulator::start(&tmux);
    terminal.shows("23 80\ninside");
    terminal.types("\r");
    assert_eq!(terminal.ends(), Some(0));
    assert!(fs::symlink_metadata(&socket).is_ok(), "it was that server");
}
