//! Where events go: files, descriptors, daemons and collectors, and what becomes of a run whose
//! sink is slow, gone or full.

#[path = "../harness/mod.rs"]
mod harness;

mod chain;
mod daemons;
mod descriptors;
mod files;
mod flood;
#[cfg(feature = "otlp")]
mod otlp;
mod secrets;
mod shape;

use std::fs;
use std::path::Path;

use sandbox_runtime as _;
use serde_json::{Value, json};

use harness::{Ran, Scratch, Srt, run};

/// Asks for as many hosts as the first word says, as fast as the proxy reads, and waits for all
/// answers.
const DENIED: &str = r"
import socket, sys, threading
total = int(sys.argv[1])
s = socket.create_connection(('127.0.0.1', 3128))
requests = b''.join(b'GET http://host%d.test/ HTTP/1.1\r\n\r\n' % n for n in range(total))
threading.Thread(target=s.sendall, args=(requests,), daemon=True).start()
answers = s.makefile('rb')
answered = 0
while answered < total:
    answered += next(answers).startswith(b'HTTP/1.1 403')
";

/// A run with these sinks.
fn srt(scratch: &Scratch, sinks: &Value) -> Srt {
    Srt::new(scratch).top("audit", json!({ "sinks": sinks }))
}

/// Has a run denied so many hosts.
fn denied(srt: Srt, count: usize) -> Ran {
    let count = count.to_string();
    run(&mut srt.into_command(&["python3", "-c", DENIED, &count]))
}

/// Reads the events of a file, which are objects, one a line.
fn events(file: &Path) -> Vec<Value> {
    parsed(&fs::read_to_string(file).expect("srt made it"))
}

fn parsed(text: &str) -> Vec<Value> {
    let parsed = text.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().expect("each line is JSON")
}

/// Returns how many of the hosts that a run asked for are in its events, each counted once.
fn hosts(events: &[Value]) -> usize {
    let targets = events.iter().filter_map(|event| event["target"].as_str());
    let mut hosts: Vec<_> = targets
        .filter(|target| target.ends_with(".test:80"))
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.len()
}

/// Returns how many events a sink has, and how many it or `srt` says are lost: together, all
/// that there were. A run that is denied 200 hosts has 202, with its start and its end.
fn accounted(events: &[Value], ran: &Ran) -> u64 {
    let is_loss = |event: &&Value| event["code"] == "lifecycle.events.dropped";
    let (lost, kept): (Vec<_>, Vec<_>) = events.iter().partition(is_loss);
    let counts = lost.iter().filter_map(|event| event["count"].as_u64());
    kept.len() as u64 + counts.sum::<u64>() + unreached(&ran.stderr)
}

/// Returns how many events did not reach a sink, as `srt` says on stderr.
fn unreached(stderr: &str) -> u64 {
    let counts = stderr.lines().filter_map(|line| {
        let (before, _) = line.split_once(" events did not reach")?;
        before.rsplit(' ').next()?.parse::<u64>().ok()
    });
    counts.sum()
}
