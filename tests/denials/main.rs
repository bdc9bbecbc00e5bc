//! What is said of denials at the end, kept, explained, allowed and shown live.

#[path = "../harness/mod.rs"]
mod harness;

mod allow;
mod hostile;
mod monitor;
mod series;
mod summary;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use harness::{Ran, Scratch, run};
use sandbox_runtime as _;

/// Returns `srt` with these words, for a user without settings.
fn command(scratch: &Scratch, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
    command
        .args(words)
        .current_dir(scratch.dir("cwd"))
        .env("HOME", scratch.dir("home"));
    for name in [
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "TMPDIR",
        "GITHUB_STEP_SUMMARY",
    ] {
        command.env_remove(name);
    }
    command
}

fn srt(scratch: &Scratch, words: &[&str]) -> Ran {
    run(&mut command(scratch, words))
}

/// The records of runs that were denied something.
fn kept(scratch: &Scratch) -> Vec<PathBuf> {
    let dir = scratch.path("home/.local/state/srt/denied");
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .map(|entry| entry.expect("it is readable").path())
        .collect()
}

/// A server on the host's loopback; returns the name and port that lead to it.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            drop(stream.read(&mut head));
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached";
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    format!("app.localhost:{port}")
}

/// The words that ask for a host over the proxy.
fn asking(url: &str) -> [&str; 5] {
    ["curl", "-s", "--noproxy", "", url]
}
