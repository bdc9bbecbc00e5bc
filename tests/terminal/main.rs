//! Work at a terminal: keys, job control and pipelines as without a sandbox.

#[path = "../harness/mod.rs"]
mod harness;

mod back;
mod emulator;
mod jobs;
mod odd;
mod screens;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use emulator::Emulator;
use harness::{Ran, Scratch, Srt, probe, run, skip, wrapped};
use sandbox_runtime as _;

/// Starts a command as the foreground job of a terminal, as a shell does, on which nothing is
/// restored afterwards but by the command.
fn foreground(command: &Command) -> Emulator {
    let job = probe("foreground.py");
    let job = job.to_str().expect("the source is in an ASCII path");
    Emulator::start(&wrapped(&["python3", job], command))
}

/// Starts a shell with job control on a terminal.
fn shell(scratch: &Scratch) -> Emulator {
    let words = ["bash", "--norc", "--noprofile", "-i"];
    let mut shell = native(scratch, &words);
    shell.env("PS1", "outer>");
    let mut terminal = Emulator::start(&shell);
    terminal.shows("outer>");
    terminal
}

/// Puts a program `s` into the working directory that is `srt` with its settings.
fn put_srt(scratch: &Scratch, srt: Srt) {
    let line = line(&srt.into_command(&[""; 0]));
    let program = scratch.file("cwd/s", format!("#!/bin/sh\nexec {line} \"$@\"\n"));
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
}

/// A command without `srt`, where it would run with it.
fn native(scratch: &Scratch, words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(scratch.dir("cwd"));
    command.env("HOME", scratch.dir("home"));
    command
}

/// Words of one run, quoted for a shell that is typed to.
fn line(srt: &Command) -> String {
    let words = [srt.get_program()].into_iter().chain(srt.get_args());
    let quote = |word: &std::ffi::OsStr| {
        format!(
            "'{}'",
            word.to_str()
                .expect("test words are UTF-8")
                .replace('\'', r"'\''")
        )
    };
    words.map(quote).collect::<Vec<_>>().join(" ")
}

/// Runs `words` on a terminal and takes the steps of tests/probe/terminal.py.
fn on_a_terminal(scratch: &Scratch, steps: &[&str], words: &[&str]) -> Ran {
    let mut command = Command::new("python3");
    command
        .arg(probe("terminal.py"))
        .args(steps)
        .arg("--")
        .args(words);
    command.env("HOME", scratch.dir("home")).env("TERM", "dumb");
    run(command.current_dir(scratch.dir("cwd")))
}

/// Starts a shell with job control and takes the steps in it.
fn in_a_shell(scratch: &Scratch, steps: &[&str]) -> Ran {
    // Not from our environment: `python3` may be a script of a shell, which drops PS1.
    let shell = ["env", "PS1=outer> ", "bash", "--norc", "--noprofile", "-i"];
    on_a_terminal(scratch, steps, &shell)
}

#[test]
fn the_interrupt_key_reaches_the_command_once() {
    let scratch = Scratch::new("interrupt");
    let script = "
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: os.write(1, b'got it\\n'))
print('ready', flush=True)
end = time.monotonic() + 0.5
while time.monotonic() < end: time.sleep(0.05)
raise SystemExit(7)
";
    let srt = Srt::new(&scratch).into_command(&["python3", "-c", script]);
    let line = format!("exec {}", line(&srt));
    let ran = on_a_terminal(
        &scratch,
        &["see:ready", r"type:\x03", "see:got it"],
        &["sh", "-c", &line],
    );
    assert_eq!(ran.status, 7, "{}", ran.stderr);
    assert_eq!(ran.stdout.matches("got it").count(), 1, "{}", ran.stdout);
}

#[test]
fn the_interrupt_key_ends_a_command_that_does_not_catch_it() {
    let scratch = Scratch::new("interrupt-default");
    // Not a shell: dash loses an interrupt that comes just before it forks.
    let script = "
import signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
print('ready', flush=True)
time.sleep(100)
";
    let srt = Srt::new(&scratch).into_command(&["python3", "-c", script]);
    let line = format!("exec {}", line(&srt));
    let ran = on_a_terminal(&scratch, &["see:ready", r"type:\x03"], &["sh", "-c", &line]);
    assert_eq!(ran.status, 130, "{} {}", ran.stdout, ran.stderr);
}

#[test]
fn the_suspend_key_stops_the_command_and_fg_continues_it() {
    let scratch = Scratch::new("suspend");
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", "echo re''ady; read x; echo read-$x"]);
    let line = format!(r"type:{}\n", line(&srt).replace('\\', r"\\"));
    let steps = [
        "see:outer> ",
        &line,
        "see:ready",
        r"type:\x1a",
        "see:Stopped",
        r"type:fg\n",
        "see:srt",
        r"type:word\n",
        "see:read-word",
        "see:outer> ",
        r"type:exit\n",
    ];
    let ran = in_a_shell(&scratch, &steps);
    assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
}

#[test]
fn a_command_that_suspends_itself_gives_the_terminal_back() {
    let scratch = Scratch::new("suspend-self");
    let script = "import os, signal; os.kill(0, signal.SIGTSTP); print('on' + '-again')";
    let srt = Srt::new(&scratch).into_command(&["python3", "-c", script]);
    let line = format!(r"type:{}\n", line(&srt).replace('\\', r"\\"));
    let steps = [
        "see:outer> ",
        &line,
        "see:Stopped",
        r"type:fg\n",
        "see:on-again",
        "see:outer> ",
        r"type:exit\n",
    ];
    let ran = in_a_shell(&scratch, &steps);
    assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
}

#[test]
fn a_shell_inside_has_job_control_and_returns_the_terminal() {
    let scratch = Scratch::new("shell");
    let srt = Srt::new(&scratch).env("PS1", "inner> ").into_command(&[
        "bash",
        "--norc",
        "--noprofile",
        "-i",
    ]);
    // A script that goes on to read: without the terminal it would be stopped.
    let script = format!("PS1='inner> ' {}; read x; echo read-$x", line(&srt));
    let steps = [
        "see:inner> ",
        r"type:sleep 100\n",
        "pause:0.3",
        r"type:\x1a",
        "see:Stopped",
        "see:inner> ",
        r"type:fg\n",
        "see:sleep 100",
        "pause:0.2",
        r"type:\x03",
        "see:inner> ",
        r"type:exit\n",
        "pause:0.5",
        r"type:word\n",
        "see:read-word",
    ];
    let ran = on_a_terminal(&scratch, &steps, &["sh", "-c", &script]);
    assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
}

#[test]
fn a_pipeline_with_a_command_inside_reads_the_terminal() {
    let scratch = Scratch::new("pipeline");
    let srt = line(&Srt::new(&scratch).into_command(&[
        "sh",
        "-c",
        "read x; echo $x > /dev/stdout; test -t 0 && echo tty >/dev/tty",
    ]));
    let line = format!(
        "type:{srt} | tr a-z A-Z | {srt_cat}\\n",
        srt_cat = line(&Srt::new(&scratch).into_command(&["cat"]))
    );
    let steps = [
        "see:outer> ",
        &line,
        "pause:0.3",
        r"type:word\n",
        "see:WORD",
        "see:outer> ",
        r"type:exit\n",
    ];
    let ran = in_a_shell(&scratch, &steps);
    assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
    assert!(ran.shows("tty\r\n"), "{}", ran.stdout);
}

#[test]
fn standard_output_on_a_terminal_can_be_opened_by_name() {
    let scratch = Scratch::new("tty-stdout");
    let srt = Srt::new(&scratch).into_command(&[
        "sh",
        "-c",
        "echo one >/dev/stdout; echo two >/dev/stderr; echo three >/dev/tty; cat /dev/stdin",
    ]);
    let line = format!("exec {}", line(&srt));
    let ran = on_a_terminal(
        &scratch,
        &["see:three", r"type:four\n\x04"],
        &["sh", "-c", &line],
    );
    assert_eq!(ran.status, 0, "{} {}", ran.stdout, ran.stderr);
    for word in ["one\r\n", "two\r\n", "three\r\n", "four\r\nfour\r\n"] {
        assert!(ran.stdout.contains(word), "{word:?}: {}", ran.stdout);
    }
}

#[test]
fn the_terminal_cannot_be_typed_into() {
    let scratch = Scratch::new("tiocsti");
    let script = "
import fcntl, sys
for byte in b'injected': fcntl.ioctl(0, 0x5412, bytes([byte]))
";
    let native = on_a_terminal(&scratch, &[], &["python3", "-c", script]);
    let srt = Srt::new(&scratch).into_command(&["python3", "-c", script]);
    let ran = on_a_terminal(
        &scratch,
        &[],
        &["sh", "-c", &format!("exec {}", line(&srt))],
    );
    assert!(
        !ran.shows("injected\r\n") && ran.status == 1,
        "{}",
        ran.stdout
    );
    assert!(ran.shows("PermissionError"), "{}", ran.stdout);
    if native.status != 0 {
        skip("this kernel refuses TIOCSTI to everybody: see dev.tty.legacy_tiocsti");
    }
}
