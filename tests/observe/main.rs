//! What a run tells of: uses of files that the rules refuse, sockets nobody is given, programs.
//!
//! Each act is first shown to come through without the rules.

#[path = "../harness/mod.rs"]
mod harness;

mod acts;
mod ignored;
mod quiet;
mod reads;
mod sockets;
mod variants;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Ran, Scratch, Srt, run};
use sandbox_runtime as _;
use serde_json::Value;

/// Performs acts by name in the working directory, and says how each ended.
const ACTS: &str = include_str!("acts.py");

/// A tree with a directory `w`, to be granted, beside `ro`.
fn tree(scratch: &Scratch, name: &str) -> PathBuf {
    let tree = scratch.dir(name);
    for directory in ["w/dir", "ro/dir", "ro/empty"] {
        fs::create_dir_all(tree.join(directory)).expect("the scratch directory is writable");
    }
    for file in ["w/file", "ro/file", "ro/dir/file"] {
        fs::write(tree.join(file), "before").expect("just made");
    }
    for (link, to) in [
        ("w/filelink", "../ro/file"),
        ("w/dangling", "../ro/missing"),
        ("w/dirlink", "../ro"),
        ("ro/link", "file"),
    ] {
        symlink(to, tree.join(link)).expect("just made");
    }
    tree
}

/// What acts say outside.
fn outside(tree: &Path, acts: &[&str]) -> Ran {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-ISc", ACTS]).args(acts);
    run(python.current_dir(tree))
}

/// As [`outside`], in a sandbox.
fn inside(srt: Srt, tree: &Path, acts: &[&str]) -> Ran {
    let words = ["/usr/bin/python3", "-ISc", ACTS];
    let words: Vec<&str> = words.into_iter().chain(acts.iter().copied()).collect();
    srt.current_dir(tree).run(&words)
}

/// Reads the events of a run.
fn events(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("srt made it");
    let parsed = text.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().expect("each line is JSON")
}

/// Returns those of one kind.
fn of_kind(events: &[Value], kind: &str) -> Vec<Value> {
    let of_kind = events.iter().filter(|event| event["kind"] == kind);
    of_kind.cloned().collect()
}

/// Returns operation, target and code of events about files.
fn told(events: &[Value]) -> Vec<(String, String, String)> {
    let files = of_kind(events, "file");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let told = files.iter().map(|event| {
        (
            text(&event["op"]),
            text(&event["target"]),
            text(&event["code"]),
        )
    });
    told.collect()
}
