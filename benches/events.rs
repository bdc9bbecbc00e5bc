//! What it costs to tell of denials: the same work with an events file, with `--monitor` as
//! well, and with neither.
//!
//! The packages are made here and lie beside the project: no registry is asked.

mod report;
mod work;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use report::{Limit, Line, median, publish};
use work::{Build, time};

/// Runs of each, in turns.
const RUNS: usize = 16;

/// Packages that are installed, and files of each.
const PACKAGES: usize = 60;
const FILES: usize = 40;

/// Prints the seconds that 10,000 files take to be written, alone and while another process
/// asks for what is refused as often as it can.
const FLOOD: &str = r"
import os, signal, time
def files():
    started = time.perf_counter()
    for number in range(10000):
        with open('file%d' % (number % 100), 'w') as file: file.write('x')
    return time.perf_counter() - started
alone = files()
child = os.fork()
if child == 0:
    while True:
        try: os.mkdir('/usr/refused')
        except OSError: pass
beside = files()
os.kill(child, signal.SIGKILL)
child = os.fork()
if child == 0:
    while True:
        try: os.stat('/usr/refused')
        except OSError: pass
busy = files()
os.kill(child, signal.SIGKILL)
print(alone, beside, busy)
";

/// What is told of.
#[derive(Clone, Copy)]
enum Told {
    Nothing,
    Writes,
    Everything,
}

fn main() -> ExitCode {
    let scratch = std::env::temp_dir().join(format!("srt-bench-events-{}", std::process::id()));
    fs::create_dir_all(&scratch).expect("the temporary directory is writable");
    let settings = scratch.join("settings.json");
    let text = format!(r#"{{"filesystem":{{"allowWrite":[{scratch:?}]}}}}"#);
    fs::write(&settings, text).expect("just made");
    let srt = |told: Told, words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
        command.arg("-s").arg(&settings);
        if !matches!(told, Told::Nothing) {
            command.arg("--events").arg(scratch.join("events"));
        }
        if matches!(told, Told::Everything) {
            command.arg("--monitor");
        }
        command.arg("--").args(words).current_dir(&scratch);
        command
    };
    let build = Build::new(&scratch);
    let built = compare(|told| build.time(|words| srt(told, words)));
    let project = Project::new(&scratch);
    let installed = compare(|told| project.time(|words| srt(told, words)));
    let launched = compare(|told| time(&mut srt(told, &["true"])));
    let flooded = (0..5).map(|_| flood(srt(Told::Writes, &["python3", "-ISc", FLOOD])));
    let flooded = median(flooded.collect());
    fs::remove_dir_all(&scratch).expect("it is ours");

    let line = |what, value, limit| Line {
        what,
        value,
        unit: "",
        limit,
    };
    let lines = [
        line(
            "`cargo build` of 7 small crates, events on / off",
            built.0,
            Limit::AtMost(1.05),
        ),
        line("the same, `--monitor` / off", built.1, Limit::AtMost(1.25)),
        line(
            "`npm install` of 60 packages from tarballs, events on / off",
            installed.0,
            Limit::AtMost(1.05),
        ),
        line(
            "the same, `--monitor` / off",
            installed.1,
            Limit::AtMost(1.25),
        ),
        line("`srt true`, events on / off", launched.0, Limit::None),
        line("the same, `--monitor` / off", launched.1, Limit::None),
        line(
            "10,000 files written, beside a flood of denials / beside a busy process",
            flooded,
            Limit::AtMost(1.5),
        ),
    ];
    if publish("Events", &lines) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the ratios of the medians of runs in turns: of writes told of, and of everything, to
/// nothing.
fn compare(measure: impl Fn(Told) -> f64) -> (f64, f64) {
    let mut taken = [Vec::new(), Vec::new(), Vec::new()];
    for run in 0..RUNS {
        let mut turns = [Told::Nothing, Told::Writes, Told::Everything];
        // None of them always comes behind the same one.
        turns.rotate_left(run % 3);
        for told in turns {
            taken[told as usize].push(measure(told));
        }
    }
    let [nothing, writes, everything] = taken.map(median);
    (writes / nothing, everything / nothing)
}

fn flood(mut command: Command) -> f64 {
    let output = command.stdin(Stdio::null()).output().expect("it was built");
    let text = String::from_utf8_lossy(&output.stdout);
    let seconds: Vec<f64> = text.split_whitespace().flat_map(str::parse).collect();
    let [_, beside, busy] = seconds[..] else {
        panic!("the script prints seconds, not {output:?}");
    };
    beside / busy
}

/// A project with packages to install from files.
struct Project(PathBuf);

impl Project {
    fn new(scratch: &Path) -> Self {
        let project = scratch.join("project");
        fs::create_dir_all(&project).expect("the directory is ours");
        let mut listed = String::new();
        for number in 0..PACKAGES {
            let package = scratch.join("packages").join(number.to_string());
            let lib = package.join("package/lib");
            fs::create_dir_all(&lib).expect("the directory is ours");
            let manifest = format!(r#"{{"name":"part{number}","version":"1.0.{number}"}}"#);
            fs::write(package.join("package/package.json"), manifest).expect("just made");
            for file in 0..FILES {
                let text = format!("module.exports = {file};\n").repeat(100);
                fs::write(lib.join(format!("{file}.js")), text).expect("just made");
            }
            let archive = package.with_extension("tgz");
            let mut tar = Command::new("tar");
            tar.arg("-C").arg(&package).arg("-czf").arg(&archive);
            assert!(
                tar.arg("package")
                    .status()
                    .is_ok_and(|status| status.success())
            );
            let separator = if number == 0 { "" } else { "," };
            let _written = write!(
                listed,
                r#"{separator}"part{number}":"file:{}""#,
                archive.display()
            );
        }
        let manifest =
            format!(r#"{{"name":"whole","version":"1.0.0","dependencies":{{{listed}}}}}"#);
        fs::write(project.join("package.json"), manifest).expect("just made");
        Self(project)
    }

    /// Installs with an empty cache with the command that `start` makes, and returns the seconds.
    fn time(&self, start: impl FnOnce(&[&str]) -> Command) -> f64 {
        for made in ["node_modules", "cache"] {
            drop(fs::remove_dir_all(self.0.join(made)));
        }
        drop(fs::remove_file(self.0.join("package-lock.json")));
        let words = ["npm", "install", "--offline", "--no-audit", "--no-fund"];
        let mut command = start(&words);
        command
            .current_dir(&self.0)
            .env("npm_config_cache", self.0.join("cache"));
        let taken = time(&mut command);
        assert!(self.0.join("node_modules/part7/lib/39.js").exists());
        taken
    }
}
