//! `srt ctl explain`, `srt ctl config show` and `--dry-run`: what they say is what a run does.

#[path = "../harness/mod.rs"]
mod harness;

mod agreement;
mod config;
mod dry_run;
mod example;
mod explain;
mod survey;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Ran, Scratch, run};
use serde_json::Value;

/// Returns `srt` with these words, in the scratch directory's `cwd`, with its `home`.
fn srt(scratch: &Scratch, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
    command.args(words).current_dir(scratch.dir("cwd"));
    command
        .env("HOME", scratch.dir("home"))
        .env_remove("TMPDIR");
    for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "DISPLAY"] {
        command.env_remove(name);
    }
    command
}

/// Runs `srt ctl` with these words.
fn ctl(scratch: &Scratch, words: &[&str]) -> Ran {
    let words: Vec<_> = ["ctl"].iter().chain(words).copied().collect();
    run(&mut srt(scratch, &words))
}

/// Returns what `srt ctl explain --json` says, one object a target.
fn explained(scratch: &Scratch, words: &[&str]) -> Vec<Value> {
    let words: Vec<_> = ["explain", "--json"].iter().chain(words).copied().collect();
    let ran = ctl(scratch, &words);
    assert!(ran.status < 2, "{words:?}: {ran:?}");
    let lines = ran.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect()
}

fn is_allowed(verdict: &Value) -> bool {
    match verdict["verdict"].as_str() {
        Some("allowed") => true,
        Some("denied") => false,
        other => panic!("{other:?} is no verdict"),
    }
}

/// Puts a path into an argument.
fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// Writes settings and returns the words that name them.
fn settings(scratch: &Scratch, content: &Value) -> PathBuf {
    scratch.file(
        "settings.json",
        serde_json::to_string_pretty(content).expect("it is JSON"),
    )
}
