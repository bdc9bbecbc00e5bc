//! What a command may read and write, judged by the state of the host.

#[path = "../harness/mod.rs"]
mod harness;

mod cases;
mod closed;
mod devices;
mod entries;
mod folding;
mod git;
mod leaks;
mod links;
mod mounts;
mod names;
mod odd;
mod patterns;
mod planted;
mod property;
mod reads;
mod redacted;
mod secrets;
mod shape;
mod stores;
mod tmpdir;
mod writes;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;

use harness::{Ran, Srt, content, listing};

/// What a file of the host is: content, inode, mode, size, links, time of change.
fn state(file: &Path) -> (String, [u64; 4], [i64; 2]) {
    let meta = fs::symlink_metadata(file).expect("the test made it");
    let numbers = [meta.ino(), meta.mode().into(), meta.size(), meta.nlink()];
    (content(file), numbers, [meta.mtime(), meta.ctime()])
}

/// Runs a script that prints a line, and has `act` do something with it while the command waits.
#[track_caller]
fn during(srt: Srt, script: &str, act: impl FnOnce(&str)) -> Ran {
    let script = format!("{script}; read line; true");
    let ran = srt.watched(&["sh", "-c", &script], |srt| {
        let srt = srt.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = srt.stderr(Stdio::piped()).spawn().expect("srt is built");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("UTF-8");
        act(line.trim_end());
        drop(child.stdin.take());
        child.wait_with_output().expect("our child").into()
    });
    ran.succeeds()
}

/// Runs a Python script inside, with `words` as its arguments.
fn python(srt: Srt, script: &str, words: &[&Path]) -> Ran {
    let mut all = vec![
        Path::new("/usr/bin/python3"),
        Path::new("-c"),
        Path::new(script),
    ];
    all.extend(words);
    srt.run(&all)
}

/// Runs the same script outside: the positive control.
fn python_outside(script: &str, words: &[&Path]) -> Ran {
    harness::run(
        std::process::Command::new("/usr/bin/python3")
            .args(["-c", script])
            .args(words),
    )
}
