//! The command line as a user types it.

mod harness;

use std::process::Command;

use harness::{Scratch, Srt, run};

/// Runs `srt` with these words and no settings file of its own.
fn srt(scratch: &Scratch, words: &[&str]) -> harness::Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
    command.args(words).env("HOME", scratch.dir("home"));
    run(command.current_dir(scratch.dir("cwd")))
}

#[test]
fn a_command_keeps_its_own_flags() {
    let scratch = Scratch::new("flags");
    let ran = Srt::new(&scratch)
        .run(&["python3", "-c", "print(1)"])
        .succeeds();
    assert_eq!(ran.stdout, "1\n");
}

#[test]
fn flags_after_the_command_are_the_commands() {
    let scratch = Scratch::new("after");
    let ran = srt(
        &scratch,
        &["printf", "<%s>", "--settings", "-h", "--version", "--"],
    )
    .succeeds();
    assert_eq!(ran.stdout, "<--settings><-h><--version><-->");
}

#[test]
fn a_double_dash_makes_any_word_a_program() {
    let scratch = Scratch::new("dash");
    let ran = srt(&scratch, &["--", "printf", "%s", "x"]).succeeds();
    assert_eq!(ran.stdout, "x");
    let ran = srt(&scratch, &["--", "--help"]);
    assert_eq!(ran.status, 127, "{}", ran.stderr);
}

#[test]
fn a_string_runs_in_a_shell_only_when_asked_for() {
    let scratch = Scratch::new("string");
    let ran = srt(&scratch, &["-c", "echo $((6 * 7)); exit 4"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (4, "42\n"));
    let ran = srt(&scratch, &["echo", "$((6 * 7)); exit 4"]).succeeds();
    assert_eq!(ran.stdout, "$((6 * 7)); exit 4\n");
}

#[test]
fn help_and_version_are_data_on_standard_output() {
    let scratch = Scratch::new("help");
    for flag in ["--help", "-h", "--version"] {
        let ran = srt(&scratch, &[flag]).succeeds();
        assert!(ran.stdout.contains("srt"), "{flag}: {}", ran.stdout);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn an_unknown_flag_is_our_failure_and_runs_nothing() {
    let scratch = Scratch::new("unknown");
    let ran = srt(&scratch, &["--no-such-flag", "touch", "mark"]);
    assert_eq!(ran.status, 125, "{}", ran.stderr);
    assert!(ran.stderr.contains("--no-such-flag"), "{}", ran.stderr);
    assert!(!scratch.path("cwd/mark").exists());
}

#[test]
fn a_launcher_with_more_rights_than_its_caller_refuses() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new("setuid");
    let copy = scratch.path("srt");
    if !harness::is_root() {
        return harness::skip("only root can make a set-uid root program");
    }
    std::fs::copy(env!("CARGO_BIN_EXE_srt"), &copy).expect("the scratch directory is writable");
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).expect("it is ours");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    command
        .arg(&copy)
        .arg("true")
        .current_dir(scratch.dir("cwd"));
    run(&mut command).is_refused("set-uid");
}
