//! Job control: keys, stopping and continuing, pipelines, background jobs.

use std::fs;
use std::process::Command;

use super::emulator::Emulator;
use super::harness::{
    Scratch, Srt, is_there, nothing_runs_in, probe, processes_with, run, skip, wait_until, wrapped,
};
use super::{foreground, native, put_srt, shell};

/// Returns the states of the processes of a name in the runs of `scratch`, as in proc(5).
fn states(scratch: &Scratch, name: &str) -> Vec<char> {
    let state = |pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let (_, rest) = stat.split_once(&format!("({name}) "))?;
        rest.chars().next()
    };
    let pids = processes_with(scratch.marker());
    pids.into_iter().filter_map(state).collect()
}

fn ends_the_shell(mut terminal: Emulator) {
    terminal.tells("exit 0");
    assert_eq!(terminal.ends(), Some(0), "{}", terminal.screen());
}

#[test]
fn the_quit_key_ends_the_command() {
    let scratch = Scratch::new("quit");
    let words = ["sh", "-c", "echo up; exec sleep 100"];
    for command in [
        native(&scratch, &words),
        Srt::new(&scratch).into_command(&words),
    ] {
        let mut terminal = foreground(&command);
        terminal.shows("up");
        terminal.types("\x1c");
        terminal.shows("ended 131");
    }
}

#[test]
fn all_that_runs_inside_stops_and_goes_on_with_srt() {
    let scratch = Scratch::new("stop-all");
    put_srt(&scratch, Srt::new(&scratch));
    scratch.file("cwd/script", "sleep 1000 & echo up; wait; echo on");
    let mut terminal = shell(&scratch);
    let before = terminal.state();
    terminal.tells("./s sh script");
    terminal.shows("\nup");
    assert!(wait_until(|| states(&scratch, "sleep") == ['S']));
    for round in ["one", "two"] {
        terminal.types("\x1a");
        terminal.shows("Stopped");
        assert!(wait_until(|| states(&scratch, "sleep") == ['T']));
        assert_ne!(states(&scratch, "srt"), [], "the control finds some");
        terminal.tells("clear; bg");
        terminal.shows("&\nouter>");
        assert!(wait_until(|| states(&scratch, "sleep") == ['S']));
        // What a screen showed before is no answer.
        terminal.tells(&format!("clear; echo n''ow {round}; fg"));
        terminal.shows(&format!("now {round}\n./s sh script"));
        terminal.leaves_the_shell();
    }
    terminal.types("\x03");
    terminal.shows("^C");
    assert!(terminal.comes_to(&before));
    assert!(!terminal.screen().contains("\non"), "{}", terminal.screen());
    ends_the_shell(terminal);
    nothing_runs_in(&scratch);
}

#[test]
fn a_job_that_is_brought_to_the_foreground_reads_the_terminal() {
    let scratch = Scratch::new("fg-running");
    put_srt(
        &scratch,
        Srt::new(&scratch).allow_write(scratch.path("cwd")),
    );
    // Nothing is forked while keys are typed: a shell that waits for vfork(2) does not stop.
    scratch.file("cwd/script", "echo up; read y <go; read x; echo got-$x");
    let go = scratch.path("cwd/go");
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).expect("the directory is ours");
    let mut terminal = shell(&scratch);
    // From the start, and after it was in the foreground: with one process group or two.
    for stops_first in [false, true] {
        if stops_first {
            terminal.tells("clear; ./s sh script");
            terminal.shows("up\n");
            terminal.types("\x1a");
            terminal.shows("Stopped");
            terminal.tells("clear; bg");
            terminal.shows("&\nouter>");
            assert!(wait_until(|| states(&scratch, "sh").contains(&'S')));
        } else {
            terminal.tells("clear; ./s sh script &");
            terminal.shows("up\n");
            // For a prompt behind it.
            terminal.types("\r");
        }
        terminal.tells("clear; echo no''w; fg");
        terminal.shows("now\n./s sh script");
        terminal.leaves_the_shell();
        fs::write(&go, "\n").expect("the script reads it");
        terminal.types("word\r");
        terminal.shows("got-word");
    }
    ends_the_shell(terminal);
}

#[test]
fn a_background_job_takes_no_key_and_is_not_stopped() {
    let scratch = Scratch::new("background");
    put_srt(
        &scratch,
        Srt::new(&scratch).allow_write(scratch.path("cwd")),
    );
    scratch.file(
        "cwd/script",
        "until [ -e go ]; do sleep 0.05; done; echo bg-done",
    );
    let mut terminal = shell(&scratch);
    terminal.tells("./s sh script &");
    terminal.shows("[1] ");
    terminal.tells("read -p ask: x");
    terminal.shows("\nask:");
    terminal.types("mine\r");
    scratch.file("cwd/go", "");
    terminal.shows("bg-done\n");
    // For a prompt behind it.
    terminal.types("\r");
    terminal.tells("wait; clear; echo got=$x; jobs");
    terminal.shows("got=mine\nouter>");
    assert!(!terminal.screen().contains("Stopped"));
    ends_the_shell(terminal);
}

#[test]
fn a_pager_and_an_editor_beside_a_command_have_the_terminal() {
    let scratch = Scratch::new("pager");
    put_srt(
        &scratch,
        Srt::new(&scratch).allow_write(scratch.path("cwd")),
    );
    let mut terminal = shell(&scratch);
    let before = terminal.state();
    if is_there("less") {
        terminal.tells("./s seq 500 | less");
        terminal.shows("23\n:");
        // Behind its end, as much as before.
        assert!(wait_until(|| states(&scratch, "srt").is_empty()));
        terminal.types("G");
        terminal.shows("500\n(END)");
        terminal.types("q");
        terminal.shows("outer>");
    } else {
        skip("less is not installed");
    }
    if is_there("vim") {
        terminal.tells("seq 300 | ./s vim -u NONE -i NONE -n -");
        terminal.shows("23\n");
        terminal.types("G:s/$/-changed/\r:w out\r");
        terminal.shows("written");
        terminal.types(":q!\r");
        terminal.shows("outer>");
        let written = fs::read_to_string(scratch.path("cwd/out")).expect("it was written");
        assert!(written.ends_with("\n300-changed\n"), "{written}");
    } else {
        skip("vim is not installed");
    }
    assert!(terminal.waits_until(|screen| screen.contains("outer>")));
    assert!(terminal.comes_to(&before));
    ends_the_shell(terminal);
}

/// The modes of a terminal are those of the whole pipeline.
#[test]
fn the_end_of_one_command_leaves_the_terminal_to_the_rest_of_a_pipeline() {
    let scratch = Scratch::new("pipeline-modes");
    put_srt(&scratch, Srt::new(&scratch));
    scratch.file("cwd/first", "until [ -e set ]; do sleep 0.05; done");
    scratch.file(
        "cwd/second",
        "stty -echo </dev/tty; : >set; cat; stty -a </dev/tty | grep -o -e ' -echo '; stty echo </dev/tty",
    );
    let mut terminal = shell(&scratch);
    terminal.tells("./s sh first | sh second; echo status $?");
    terminal.shows("\n -echo\nstatus 0");
    ends_the_shell(terminal);
}

/// Leaves a program in its group, as a shell would which did not have it ignore the keys.
const LEAVE: &str = "import subprocess; subprocess.Popen(['sleep', '100']); print('up')";

#[test]
fn keys_end_what_a_command_has_left_where_that_is_waited_for() {
    let scratch = Scratch::new("left");
    let words = ["python3", "-c", LEAVE];
    let srt = Srt::new(&scratch).flags(&["--keep-background"]);
    let mut terminal = foreground(&srt.into_command(&words));
    terminal.shows("up");
    let job = terminal.job();
    assert!(wait_until(|| terminal.state().group() == job));
    assert_eq!(states(&scratch, "sleep"), ['S']);
    terminal.types("\x03");
    terminal.shows("ended 0");
    assert_eq!(terminal.state().group(), job);
}

#[test]
fn a_signal_to_the_own_group_stays_inside() {
    let scratch = Scratch::new("kill-0");
    let inside = "trap '' TERM; kill -TERM 0; kill -TERM -1; echo survived";
    let words = ["sh", "-c", inside];
    // Of a caller, in whose group the command is, without a terminal and with one.
    let caller = |command: &Command| {
        wrapped(
            &["setsid", "-w", "sh", "-c", "\"$@\"; echo after", "sh"],
            command,
        )
    };
    assert_eq!(
        run(&mut caller(&native(
            &scratch,
            &["sh", "-c", "kill -TERM 0"]
        )))
        .stdout,
        ""
    );
    let srt = Srt::new(&scratch).into_command(&words);
    assert_eq!(run(&mut caller(&srt)).stdout, "survived\nafter\n");

    let mut terminal = foreground(&wrapped(&["sh", "-c", "\"$@\"; echo after", "sh"], &srt));
    terminal.shows("survived\nafter\nended 0");
    let mut terminal = foreground(&srt);
    terminal.shows("survived\nended 0");
}

#[test]
fn a_resize_reaches_the_command_once() {
    let scratch = Scratch::new("winch");
    let script = "
import os, signal, time
signal.signal(signal.SIGWINCH, lambda *_: print('size', *os.get_terminal_size()))
print('up')
while input() != 'end': pass
";
    let mut terminal = foreground(&Srt::new(&scratch).into_command(&["python3", "-uc", script]));
    terminal.shows("up");
    terminal.resize(30, 100);
    terminal.shows("size 100 30");
    terminal.types("end\r");
    terminal.shows("ended 0");
    assert_eq!(
        terminal.screen().matches("size").count(),
        1,
        "{}",
        terminal.screen()
    );
}

#[test]
fn a_password_is_asked_for_without_an_echo() {
    let scratch = Scratch::new("password");
    let script = "
import getpass
print('got', getpass.getpass('pw: ')[::-1])
print(open('/dev/tty', 'w').write('x' * 3 + '\\n'))
";
    let words = ["sh", "-c", "exec python3 -c \"$0\" </dev/null", script];
    let mut terminal = foreground(&Srt::new(&scratch).into_command(&words));
    terminal.shows("pw:");
    terminal.types("secret\r");
    terminal.shows("got terces");
    terminal.shows("ended 0");
    let screen = terminal.screen();
    assert!(
        screen.contains("\nxxx\n") && !screen.contains("secret"),
        "{screen}"
    );
}

#[test]
fn a_shell_that_leads_its_session_has_job_control_and_gives_the_terminal_back() {
    let scratch = Scratch::new("leader");
    let words = ["bash", "--norc", "--noprofile", "-i"];
    let srt = Srt::new(&scratch).env("PS1", "inner>");
    // What a container or ssh -t starts; then a shell from within another program.
    let mut terminal = Emulator::start(&srt.into_command(&words));
    terminal.shows("inner>");
    terminal.types("cat\r");
    terminal.shows("inner>cat");
    assert!(wait_until(|| states(&scratch, "cat") == ['S']));
    terminal.types("\x1a");
    terminal.shows("Stopped");
    terminal.types("fg\r");
    assert!(wait_until(|| states(&scratch, "cat") == ['S']));
    terminal.types("\x03");
    terminal.shows("^C\ninner>");
    terminal.types("exit 7\r");
    assert_eq!(terminal.ends(), Some(7));
    let screen = terminal.screen();
    assert!(
        !screen.contains("job control") && !screen.contains("process group"),
        "{screen}"
    );
}

#[test]
fn a_program_that_started_a_shell_reads_the_terminal_afterwards() {
    let scratch = Scratch::new("subshell");
    let script = "PS1='inner>' bash --norc --noprofile -i; printf ask:; read x; echo got-$x";
    let srt = || Srt::new(&scratch).into_command(&["sh", "-c", script]);
    for mut terminal in [Emulator::start(&srt()), foreground(&srt())] {
        terminal.shows("inner>");
        terminal.types("exit\r");
        terminal.shows("\nask:");
        terminal.types("word\r");
        terminal.shows("got-word");
    }
}

/// Nobody would continue it.
#[test]
fn the_suspend_key_does_nothing_where_there_is_no_shell() {
    let scratch = Scratch::new("orphaned");
    let words = ["sh", "-c", "echo up; read x; echo got-$x"];
    for command in [
        native(&scratch, &words),
        Srt::new(&scratch).into_command(&words),
    ] {
        let mut terminal = Emulator::start(&command);
        terminal.shows("up");
        terminal.types("\x1a");
        terminal.shows("^Z");
        terminal.types("word\r");
        terminal.shows("got-word");
        assert_eq!(terminal.ends(), Some(0));
    }
}

#[test]
fn a_shell_of_a_script_gets_the_terminal_back() {
    let scratch = Scratch::new("outer-reads");
    put_srt(&scratch, Srt::new(&scratch));
    let mut terminal = shell(&scratch);
    let before = terminal.state();
    terminal.tells("PS1='inner>' ./s bash --norc --noprofile -i");
    terminal.shows("\ninner>");
    terminal.types("stty -echo; exit\r");
    terminal.shows("exit\nouter>");
    assert!(terminal.comes_to(&before));
    terminal.tells("cat");
    assert!(wait_until(|| states(&scratch, "cat") == ['S']));
    terminal.types("typed\r");
    terminal.shows("typed\ntyped");
    terminal.types("\x04");
    ends_the_shell(terminal);
}

#[test]
fn terminals_can_be_made_inside() {
    let scratch = Scratch::new("inside");
    let srt = || Srt::new(&scratch).set("network.allowAllUnixSockets", false.into());
    let script = "script -qec 'tty; stty size' /dev/null; \
                  python3 -c 'import pty; pty.spawn([\"sh\", \"-c\", \"tty; echo spawned\"])'";
    let mut terminal = foreground(&srt().into_command(&["sh", "-c", script]));
    terminal.shows("/dev/pts/0\n24 80\n/dev/pts/0\nspawned\nended 0");

    if !is_there("tmux") {
        return skip("tmux is not installed");
    }
    let socket = scratch.dir("cwd/private").join("tmux");
    let socket = socket.to_str().expect("the name is ASCII");
    let words = [
        "tmux",
        "-f",
        "/dev/null",
        "-S",
        socket,
        "new-session",
        "echo in''side; read x",
    ];
    let srt = srt().allow_write(scratch.path("cwd"));
    let mut terminal = foreground(&srt.into_command(&words));
    terminal.shows("inside");
    terminal.resize(30, 100);
    assert!(terminal.waits_until(|screen| {
        screen
            .lines()
            .nth(29)
            .is_some_and(|line| line.contains("[0]"))
    }));
    terminal.types("\r");
    terminal.shows("ended 0");
    assert!(terminal.comes_to_modes());
}

#[test]
fn programs_that_watch_processes_fill_the_screen() {
    for (program, words) in [("top", ["top", "-d", "1"]), ("htop", ["htop", "-d", "10"])] {
        if !is_there(program) {
            skip(&format!("{program} is not installed"));
            continue;
        }
        let scratch = Scratch::new(program);
        let mut terminal = foreground(&Srt::new(&scratch).into_command(&words));
        terminal.shows("PID");
        terminal.shows(program);
        terminal.types("q");
        terminal.shows("ended 0");
    }
}

/// What the terminal's own session cannot do without the key: see TIOCSTI.
#[test]
fn no_call_on_the_terminal_reaches_beyond_the_sandbox() {
    let scratch = Scratch::new("ioctls");
    let ioctls = fs::read_to_string(probe("ioctls.py")).expect("it is ours");
    // As root, the others would take the console, or end the session.
    let harmless = ["TIOCSETD", "TIOCSPGRP"];
    let all = [
        "TIOCSETD",
        "TIOCSPGRP",
        "TIOCSTI",
        "TIOCLINUX",
        "TIOCCONS",
        "TIOCSCTTY",
        "TIOCVHANGUP",
    ];
    let tried = |calls: &[&str], srt: Option<Srt>| {
        let words = [&["python3", "-c", &ioctls], calls].concat();
        let command = match srt {
            Some(srt) => srt.into_command(&words),
            None => native(&scratch, &words),
        };
        let mut terminal = foreground(&command);
        scratch.file("cwd/group", terminal.pid().to_string());
        terminal.shows("ended 0");
        terminal.screen()
    };
    let outside = tried(&harmless, None);
    assert_eq!(outside.matches("done").count(), harmless.len(), "{outside}");
    let inside = tried(&all, Some(Srt::new(&scratch)));
    assert_eq!(inside.matches("refused").count(), all.len(), "{inside}");
}
