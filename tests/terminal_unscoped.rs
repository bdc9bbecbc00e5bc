//! Job control where Landlock cannot keep signals inside, as before Linux 6.12.
//!
//! Run with `cargo test --features test-hooks --test terminal_unscoped`. Without the feature all
//! that is left is the test that the switch itself is not built in.

#[cfg(feature = "test-hooks")]
mod harness;

#[cfg(feature = "test-hooks")]
#[path = "terminal/emulator.rs"]
mod emulator;

#[cfg(not(feature = "test-hooks"))]
#[path = "harness/shipped.rs"]
mod shipped;

#[cfg(not(feature = "test-hooks"))]
#[test]
fn the_shipped_binary_has_no_switch_for_the_kernel() {
    shipped::has_no_switch("SRT_TEST_LANDLOCK_ABI");
}

#[cfg(feature = "test-hooks")]
mod before_6_12 {
    use std::process::Command;

    use sandbox_runtime as _;

    use crate::emulator::Emulator;
    use crate::harness::{Scratch, Srt, probe, processes_with, run, wait_until, wrapped};

    const SAID: &str = "the command runs as a background job";

    fn srt(scratch: &Scratch) -> Srt {
        Srt::new(scratch).env("SRT_TEST_LANDLOCK_ABI", "5")
    }

    /// Starts a command as the foreground job of a terminal, as a shell does.
    fn foreground(command: &Command) -> Emulator {
        let job = probe("foreground.py");
        let job = job.to_str().expect("the source is in an ASCII path");
        Emulator::start(&wrapped(&["python3", job], command))
    }

    /// Starts a script in which `"$@"` is the command.
    fn in_script(script: &str, command: &Command) -> Command {
        wrapped(&["sh", "-c", script, "sh"], command)
    }

    #[test]
    fn a_signal_to_the_own_group_stays_inside() {
        let scratch = Scratch::new("unscoped-kill");
        let inside = "trap '' TERM; kill -TERM 0; echo survived";
        let words = ["sh", "-c", inside];
        let caller = |command: &Command| {
            let script = in_script("\"$@\"; echo after", command);
            run(&mut wrapped(&["setsid", "-w"], &script))
        };
        let mut native = Command::new("sh");
        assert_eq!(caller(native.args(["-c", "kill -TERM 0"])).stdout, "");
        let ran = caller(&srt(&scratch).into_command(&words));
        assert_eq!(ran.stdout, "survived\nafter\n");
        assert_eq!(ran.stderr, "", "without a terminal nothing is lost");
    }

    #[test]
    fn a_command_alone_has_the_terminal() {
        let scratch = Scratch::new("unscoped-alone");
        let script = "echo up; read x; echo got-$x; stty raw -echo; kill -KILL $$";
        for start in [Emulator::start, foreground] {
            let mut terminal = start(&srt(&scratch).into_command(&["sh", "-c", script]));
            terminal.shows("up");
            terminal.types("word\r");
            terminal.shows("got-word");
            assert!(terminal.comes_to_modes());
            assert!(!terminal.screen().contains(SAID));
        }
        let words = ["sh", "-c", "echo up; exec sleep 100"];
        let mut terminal = foreground(&srt(&scratch).into_command(&words));
        terminal.shows("up");
        terminal.types("\x03");
        terminal.shows("ended 130");
    }

    #[test]
    fn beside_other_programs_a_command_is_a_background_job_which_is_said_once() {
        let scratch = Scratch::new("unscoped-beside");
        let words = ["sh", "-c", "echo up; stty size </dev/tty; kill -TERM 0"];
        let command = srt(&scratch).into_command(&words);
        let mut terminal = foreground(&in_script("\"$@\"; echo after", &command));
        terminal.shows("\nafter");
        terminal.shows("ended 0");
        let screen = terminal.screen().replace('\n', "");
        assert_eq!(screen.matches(SAID).count(), 1, "{screen}");

        // The pager behind it reads keys.
        let pager = "\"$@\" | sh -c 'cat; read x </dev/tty; echo got-$x'";
        let mut terminal = foreground(&in_script(pager, &command));
        terminal.shows("up");
        terminal.types("word\r");
        terminal.shows("got-word");
        terminal.shows("ended 0");
    }

    #[test]
    fn a_command_that_stays_alone_in_a_pipeline_gets_the_terminal_when_it_reads() {
        let scratch = Scratch::new("unscoped-behind");
        let words = ["sh", "-c", "cat; echo up; read x </dev/tty; echo got-$x"];
        let command = srt(&scratch).into_command(&words);
        // As of a here-document, or of a program that has written all.
        let mut terminal = foreground(&in_script("exec \"$@\" <<E\nin\nE", &command));
        terminal.shows("in\nup");
        terminal.types("word\r");
        terminal.shows("got-word");
        terminal.shows("ended 0");
    }

    #[test]
    fn keys_reach_a_command_in_the_background() {
        let scratch = Scratch::new("unscoped-keys");
        let words = ["sh", "-c", "echo up; exec sleep 100"];
        let command = srt(&scratch).into_command(&words);
        let mut terminal = foreground(&in_script("\"$@\"; echo status $?", &command));
        terminal.shows("up");
        terminal.types("\x1c");
        terminal.shows("ended 131");
        drop(terminal);
        assert!(wait_until(|| processes_with(scratch.marker()).is_empty()));
    }
}
