//! `srt ctl init`: what it writes works, and what is there it leaves alone.

mod harness;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use harness::{Ran, Scratch, Srt, probe, run};

/// Runs `srt` in the scratch project, as a user with no settings.
fn srt(scratch: &Scratch, words: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
    run(in_project(scratch, command.args(words)))
}

fn in_project<'a>(scratch: &Scratch, command: &'a mut Command) -> &'a mut Command {
    command
        .env("HOME", scratch.dir("home"))
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME")
        .env_remove("TMPDIR")
        .current_dir(scratch.dir("project"))
}

#[test]
fn what_it_writes_runs_narrowed_at_first_and_as_it_says_once_trusted() {
    let projects: [(&[&str], &str); 5] = [
        (&["package.json"], "\"extends\": [\"node\"]"),
        (&["Cargo.toml"], "\"extends\": [\"rust\"]"),
        (&["requirements.txt"], "\"extends\": [\"python\"]"),
        (
            &["package.json", "Cargo.toml", "pyproject.toml", "go.mod"],
            "\"extends\": [\"node\", \"rust\", \"python\"",
        ),
        (&[], "// \"extends\": [\"git\"]"),
    ];
    for (marks, expected) in projects {
        let scratch = Scratch::new("init");
        for mark in marks {
            scratch.file(&format!("project/{mark}"), "");
        }
        let said = srt(&scratch, &["ctl", "init", "--yes"]).succeeds().stdout;
        let file = scratch.path("project/.srt.json");
        let text = fs::read_to_string(&file).expect("it was written");
        assert!(text.contains(expected), "{marks:?}\n{text}");
        assert!(
            said.starts_with(&text) && said.contains("srt ctl trust"),
            "{said}"
        );

        srt(&scratch, &["true"]).succeeds();
        srt(&scratch, &["touch", "made"]).fails();
        assert!(!scratch.path("project/made").exists());
        srt(&scratch, &["ctl", "trust", "--yes"]).succeeds();
        srt(&scratch, &["touch", "made"]).succeeds();
        assert!(scratch.path("project/made").exists());
    }
}

#[test]
fn others_may_read_the_file_and_not_write_it() {
    let scratch = Scratch::new("mode");
    let script = format!("umask 0; '{}' ctl init --yes", env!("CARGO_BIN_EXE_srt"));
    run(in_project(
        &scratch,
        Command::new("sh").args(["-c", &script]),
    ))
    .succeeds();
    let metadata = scratch.path("project/.srt.json").metadata();
    let mode = metadata.expect("it was written").permissions().mode();
    assert_eq!(mode & 0o7777, 0o644);
}

#[test]
fn what_is_there_is_left_alone() {
    let scratch = Scratch::new("there");
    let file = scratch.file("project/.srt.json", "mine");
    let refused = |kind: &str| {
        let ran = srt(&scratch, &["ctl", "init", "--yes"]);
        assert_eq!(ran.status, 2, "{kind}: {}", ran.stderr);
        assert!(ran.stderr.contains("is there already"), "{}", ran.stderr);
        assert_eq!(ran.stdout, "", "{kind}");
    };
    refused("file");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "mine");
    fs::remove_file(&file).expect("it is ours");

    symlink("elsewhere", &file).expect("nothing is there");
    refused("dangling link");
    assert!(!scratch.path("project/elsewhere").exists());
    fs::remove_file(&file).expect("it is ours");

    fs::create_dir(&file).expect("nothing is there");
    refused("directory");
    fs::remove_dir(&file).expect("it is empty");

    srt(&scratch, &["ctl", "init", "--yes"]).succeeds();
}

#[test]
fn it_writes_only_after_a_yes() {
    let scratch = Scratch::new("ask");
    let file = scratch.path("project/.srt.json");
    let ran = srt(&scratch, &["ctl", "init"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("no terminal"), "{}", ran.stderr);
    assert!(!file.exists());

    for (answer, status) in [("n", 1), ("", 1), ("y", 0)] {
        let mut command = Command::new("python3");
        command.arg(probe("terminal.py")).arg("see:[y/N]");
        command.arg(format!("type:{answer}\\n")).arg("--");
        command.args([env!("CARGO_BIN_EXE_srt"), "ctl", "init"]);
        let ran = run(in_project(&scratch, &mut command));
        assert_eq!(ran.status, status, "{answer}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("\"allowWrite\""), "{}", ran.stdout);
        assert_eq!(file.exists(), status == 0, "{answer}");
    }
}

#[test]
fn a_command_inside_cannot_write_settings_for_the_next_run() {
    let scratch = Scratch::new("inside");
    let project = scratch.dir("cwd");
    let binary = env!("CARGO_BIN_EXE_srt");
    let inside = Srt::new(&scratch).allow_write(&project);
    let ran = inside.sh(&format!("touch writable && '{binary}' ctl init --yes"));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("sandboxed command"), "{}", ran.stderr);
    let is_there = |name: &str| Path::new(&project).join(name).exists();
    assert!(is_there("writable") && !is_there(".srt.json"));
}

#[test]
fn a_file_further_up_that_counts_no_longer_is_named() {
    let scratch = Scratch::new("above");
    scratch.dir(".git");
    let above = scratch.file(".srt.json", "{}");
    let said = srt(&scratch, &["ctl", "init", "--yes"]).succeeds().stdout;
    let expected = format!("{} no longer counts here\n", above.display());
    assert!(said.ends_with(&expected), "{said}");
    assert_eq!(fs::read_to_string(above).expect("it is there"), "{}");
}
