//! What the broker costs: a launch, ordinary work, and connections one after another.
//!
//! Without it runs the same `srt` under `allowAllUnixSockets`, where no call is stopped.

mod report;
mod work;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use report::{Limit, Line, median, publish};
use work::{Build, repository, time};

/// Runs of each, in turns.
const LAUNCHES: usize = 80;
const WALKS: usize = 20;
const BUILDS: usize = 20;
const ROUNDS: usize = 5;

/// Prints the seconds that 10,000 connections over loopback take.
const CONNECT: &str = r"
import socket, time
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(16)
started = time.perf_counter()
for _ in range(10000):
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\1\0\0\0\0\0\0\0')
    client.connect(server.getsockname())
    server.accept()[0].close(); client.close()
print(time.perf_counter() - started)
";

fn main() -> ExitCode {
    let scratch = std::env::temp_dir().join(format!("srt-bench-broker-{}", std::process::id()));
    let repository = repository(&scratch);
    let with = Srt::new(&scratch, "with", "false");
    let without = Srt::new(&scratch, "without", "true");

    let launch = compare(LAUNCHES, &with, &without, |srt| {
        time(&mut srt.command(&["true"]))
    });
    let status = compare(WALKS, &with, &without, |srt| {
        let path = repository
            .to_str()
            .expect("the temporary directory is UTF-8");
        time(&mut srt.command(&["git", "-C", path, "status", "--short"]))
    });
    let build = Build::new(&scratch);
    let built = compare(BUILDS, &with, &without, |srt| {
        build.time(|words| srt.command(words))
    });
    let words = ["python3", "-c", CONNECT];
    let mut direct = Command::new(words[0]);
    direct.args(&words[1..]);
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        outside.push(printed(&mut direct));
        inside.push(printed(&mut with.command(&words)));
    }
    let connects = median(inside) / median(outside);
    std::fs::remove_dir_all(&scratch).expect("it is ours");

    let line = |what, value, limit| Line {
        what,
        value,
        unit: "",
        limit,
    };
    let lines = [
        line(
            "`srt true`, with / without the broker",
            launch,
            Limit::AtMost(1.10),
        ),
        line(
            "`git status` on 50,000 files, with / without",
            status,
            Limit::AtMost(1.02),
        ),
        line(
            "`cargo build` of 7 small crates, with / without",
            built,
            Limit::AtMost(1.02),
        ),
        line(
            "10,000 TCP connects, inside / direct",
            connects,
            Limit::AtMost(3.0),
        ),
    ];
    if publish("Broker", &lines) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// One way to start `srt`.
struct Srt(PathBuf);

impl Srt {
    fn new(scratch: &Path, name: &str, all: &str) -> Self {
        let settings = scratch.join(format!("{name}.json"));
        let text = format!(
            r#"{{"network":{{"allowAllUnixSockets":{all}}},"filesystem":{{"allowWrite":[{scratch:?}]}}}}"#
        );
        std::fs::write(&settings, text).expect("the temporary directory is writable");
        Self(settings)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
        command.arg("-s").arg(&self.0).arg("--").args(words);
        command
    }
}

/// Returns the ratio of the medians of runs in turns.
fn compare(runs: usize, one: &Srt, other: &Srt, measure: impl Fn(&Srt) -> f64) -> f64 {
    let (mut ones, mut others) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        others.push(measure(other));
        ones.push(measure(one));
    }
    median(ones) / median(others)
}

fn printed(command: &mut Command) -> f64 {
    let output = command.stdin(Stdio::null()).output().expect("it was built");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect("the script prints seconds")
}
