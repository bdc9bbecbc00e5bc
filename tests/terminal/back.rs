//! The terminal afterwards: set as before, with the same process group in its foreground,
//! however a run ends.

use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::emulator::Emulator;
use super::harness::{Ran, Scratch, Srt, nothing_runs_in, outside};
use super::{foreground, native};

/// Sets every sort of mode that a program sets, and says that it did.
const SPOIL: &str = "stty raw -echo intr ^A min 7; printf 'spoilt\\r\\n'";

#[test]
fn the_terminal_is_as_before_however_the_command_ends() {
    let scratch = Scratch::new("back");
    let ways = [
        ("exit 0", 0),
        ("exit 3", 3),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
        ("exec setsid -w sleep 0", 0),
        ("exec sleep 100", 124),
        ("while :; do :; done", 152),
    ];
    for (way, status) in ways {
        let script = format!("{SPOIL}; {way}");
        let words = ["sh", "-c", &script];
        let ended = format!("ended {status}");
        let flags = match status {
            124 => ["--timeout", "1"].as_slice(),
            152 => &["--cpu-time", "1"],
            _ => &[],
        };
        if flags.is_empty() {
            let mut terminal = foreground(&native(&scratch, &words));
            terminal.shows("spoilt");
            terminal.shows(&ended);
            assert_ne!(
                terminal.state().modes(),
                terminal.first().modes(),
                "{way}: the control"
            );
        }
        let mut terminal = foreground(&Srt::new(&scratch).flags(flags).into_command(&words));
        terminal.shows("spoilt");
        terminal.shows(&ended);
        assert_eq!(terminal.state().modes(), terminal.first().modes(), "{way}");
        // That of `srt`, which the probe made the foreground.
        assert_eq!(terminal.ended_job(), terminal.state().group(), "{way}");
        assert_eq!(terminal.screen().matches("spoilt").count(), 1);
    }
}

#[test]
fn the_terminal_is_as_before_when_srt_or_its_first_process_is_ended() {
    let scratch = Scratch::new("back-killed");
    let script = format!("{SPOIL}; exec sleep 100");
    let children = |pid: i32| -> Vec<i32> {
        let Ran { stdout, .. } = outside(&format!("cat /proc/{pid}/task/{pid}/children"));
        stdout
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect()
    };
    for (of_init, signal, status) in [(false, Signal::SIGTERM, 143), (true, Signal::SIGKILL, 137)] {
        let mut terminal = foreground(&Srt::new(&scratch).into_command(&["sh", "-c", &script]));
        terminal.shows("spoilt");
        let srt = terminal.job().as_raw();
        let init = || {
            children(srt)
                .into_iter()
                .find(|pid| !children(*pid).is_empty())
        };
        let target = if of_init {
            init().expect("it has started the command")
        } else {
            srt
        };
        kill(Pid::from_raw(target), signal).expect("it is ours");
        terminal.shows(&format!("ended {status}"));
        assert_eq!(terminal.state().modes(), terminal.first().modes());
        assert_eq!(terminal.state().group().as_raw(), srt);
    }
    nothing_runs_in(&scratch);
}

/// Nobody is left who could: shells set the terminal again themselves, as after any program.
#[test]
fn a_shell_sets_the_terminal_again_when_srt_was_killed() {
    let scratch = Scratch::new("back-kill-9");
    super::put_srt(&scratch, Srt::new(&scratch));
    scratch.file("cwd/script", format!("{SPOIL}; exec sleep 100"));
    let mut terminal = super::shell(&scratch);
    let before = terminal.state();
    terminal.tells("./s sh script");
    terminal.shows("spoilt");
    kill(terminal.job(), Signal::SIGKILL).expect("it is ours");
    terminal.shows("Killed");
    assert!(terminal.comes_to(&before), "{}", terminal.screen());
    terminal.tells("exit 0");
    assert_eq!(terminal.ends(), Some(0));
    nothing_runs_in(&scratch);
}

#[test]
fn a_terminal_that_was_closed_to_others_and_stopped_is_open_and_goes_on() {
    let scratch = Scratch::new("back-excl");
    let script = "
import fcntl, termios
fcntl.ioctl(0, termios.TIOCEXCL)
termios.tcflow(0, termios.TCOOFF)
";
    let exclusive = |terminal: &Emulator| {
        let ask = "import fcntl; print(fcntl.ioctl(0, 0x80045440, bytes(4))[0])";
        let mut ask_for = Command::new("python3");
        ask_for.args(["-c", ask]).stdin(terminal.far());
        String::from_utf8(ask_for.output().expect("python is there").stdout)
    };
    let closing = &script[..script.rfind("termios.tcflow").expect("it is there")];
    let mut terminal = foreground(&native(&scratch, &["python3", "-c", closing]));
    terminal.shows("ended 0");
    assert_eq!(exclusive(&terminal).as_deref(), Ok("1\n"));
    let srt = Srt::new(&scratch).into_command(&["python3", "-c", script]);
    let mut terminal = foreground(&srt);
    terminal.shows("ended 0");
    assert_eq!(exclusive(&terminal).as_deref(), Ok("0\n"));
}

/// A program that waits for `srt` and works with the terminal otherwise, as an editor does.
#[test]
fn a_terminal_that_the_command_was_not_given_stays_as_others_set_it() {
    let scratch = Scratch::new("back-others");
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", "read x; stty -a </dev/tty"]);
    let script = "
import subprocess, sys
run = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
subprocess.run(['stty', '-echo'])
run.communicate(b'go\\n')
";
    let caller = super::harness::wrapped(&["python3", "-c", script], &srt);
    let mut terminal = foreground(&caller);
    terminal.shows("ended 0");
    assert_ne!(terminal.state().modes(), terminal.first().modes());
}
