//! What the broker costs: a launch, ordinary work, and connections one after another.
//!
//! Without it runs the same `srt` under `allowAllUnixSockets`, where no call is stopped.

mod report;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use report::{Limit, Line, median, publish};

/// Runs of each, in turns.
const LAUNCHES: usize = 80;
const WALKS: usize = 20;
const BUILDS: usize = 20;
const ROUNDS: usize = 5;

const FILES: usize = 50_000;

/// Libraries of the crate that is built, each by a compiler of its own.
const LIBRARIES: usize = 6;

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
    let built = compare(BUILDS, &with, &without, |srt| build.time_with(srt));
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

fn repository(scratch: &Path) -> PathBuf {
    let path = scratch.join("repository");
    for number in 0..FILES {
        let directory = path.join((number / 500).to_string());
        if number % 500 == 0 {
            std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
        }
        std::fs::write(directory.join(number.to_string()), "x").expect("the directory is ours");
    }
    for words in [&["init", "-q"][..], &["add", "-A"]] {
        let mut git = Command::new("git");
        let status = git.arg("-C").arg(&path).args(words).status();
        assert!(status.expect("git is installed").success());
    }
    path
}

/// A workspace without dependencies to fetch.
struct Build {
    path: PathBuf,
    cargo: PathBuf,
}

impl Build {
    fn new(scratch: &Path) -> Self {
        let path = scratch.join("crates");
        let write = |name: String, text: String| {
            let file = path.join(name);
            let parent = file.parent().expect("a file has one");
            std::fs::create_dir_all(parent).expect("the temporary directory is writable");
            std::fs::write(file, text).expect("the directory is ours");
        };
        let package = |name: &str| {
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n")
        };
        let mut manifest = package("whole") + "[workspace]\n[dependencies]\n";
        for number in 0..LIBRARIES {
            let name = format!("part{number}");
            write(format!("{name}/Cargo.toml"), package(&name));
            let text = "pub fn sorted(mut all: Vec<String>) -> Vec<String> { all.sort(); all }\n";
            write(format!("{name}/src/lib.rs"), text.to_owned());
            manifest += &format!("{name} = {{ path = \"{name}\" }}\n");
        }
        write("Cargo.toml".to_owned(), manifest);
        let text = "fn main() { std::process::exit(part0::sorted(Vec::new()).len() as i32) }\n";
        write("src/main.rs".to_owned(), text.to_owned());
        // The command of that name on PATH may need a HOME.
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
        let sysroot = sysroot.expect("rustc built this").stdout;
        let sysroot = String::from_utf8(sysroot).expect("the path is UTF-8");
        Self {
            path,
            cargo: Path::new(sysroot.trim()).join("bin/cargo"),
        }
    }

    /// Builds all of it and returns the seconds.
    fn time_with(&self, srt: &Srt) -> f64 {
        let target = self.path.join("target");
        drop(std::fs::remove_dir_all(&target));
        let cargo = self.cargo.to_str().expect("the path is UTF-8");
        let mut command = srt.command(&[cargo, "build", "--offline", "--quiet"]);
        command
            .current_dir(&self.path)
            .env("CARGO_HOME", self.path.join("home"))
            .env("CARGO_TARGET_DIR", &target)
            .env("RUSTC", self.cargo.with_file_name("rustc"));
        time(&mut command)
    }
}

fn time(command: &mut Command) -> f64 {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("srt was built");
    let taken = start.elapsed().as_secs_f64();
    assert!(status.success(), "{command:?}");
    taken
}

fn printed(command: &mut Command) -> f64 {
    let output = command.stdin(Stdio::null()).output().expect("it was built");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect("the script prints seconds")
}
