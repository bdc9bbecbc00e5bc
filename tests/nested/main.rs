//! Namespaces that a command makes for itself, and runs of `srt` inside a run.

#[path = "../harness/mod.rs"]
mod harness;

mod covers;
mod grades;
mod inner;
mod sockets;
mod tools;

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Ran, Scratch, Srt, probe, run};
use serde_json::{Value, json};

const GRADES: [&str; 2] = ["userns", "mounts"];

/// A launch whose command may make namespaces.
fn graded(scratch: &Scratch, grade: &str) -> Srt {
    Srt::new(scratch).top("allowNestedUserNamespaces", json!(grade))
}

/// Runs a Python script, which may import the probes, without a sandbox.
fn python(script: &str, words: &[&Path]) -> Ran {
    run(Command::new("/usr/bin/python3")
        .args(["-c", script])
        .args(words)
        .env("PYTHONPATH", probes()))
}

/// As [`python`], inside.
fn python_in(srt: Srt, script: &str, words: &[&Path]) -> Ran {
    let fixed = ["/usr/bin/python3", "-c", script].map(Path::new);
    let all: Vec<&Path> = fixed.into_iter().chain(words.iter().copied()).collect();
    srt.env("PYTHONPATH", probes())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .run(&all)
}

fn probes() -> std::path::PathBuf {
    let probe = probe("uncover.py");
    probe.parent().expect("it lies in a directory").to_owned()
}

fn events(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).expect("srt wrote it");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}
