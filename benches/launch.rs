//! Launch of `true`: `srt` with its proxies up, against bare `bwrap` with the same view, and with
//! very many rules against none.

mod report;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use report::{Limit, Line, median, publish};

/// Runs of each, in turns.
const RUNS: usize = 80;

/// Launches of each, and how many of them at a time.
const LAUNCHES: usize = 1_000;
const AT_A_TIME: usize = 8;

/// Launches before the other has its turn.
const TURN: usize = 100;

/// Runs of each with many rules.
const RULED_RUNS: usize = 20;

fn main() -> ExitCode {
    let scratch = std::env::temp_dir().join(format!("srt-bench-{}", std::process::id()));
    let writable = scratch.join("W");
    std::fs::create_dir_all(&writable).expect("the temporary directory is writable");
    let mut lines = against_bwrap(&scratch, &writable);
    lines.extend(at_once(&scratch, &writable));
    lines.extend(against_no_rules(&scratch));
    std::fs::remove_dir_all(&scratch).expect("it is ours");
    if publish("Launch", &lines) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn against_bwrap(scratch: &Path, writable: &Path) -> Vec<Line> {
    let text = format!(
        r#"{{"network":{{"allowedDomains":["example.org"]}},"filesystem":{{"allowWrite":["{}"]}}}}"#,
        writable.display()
    );
    let settings = write(scratch, "settings.json", &text);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        theirs.push(time(&mut bwrap(writable)));
        ours.push(time(&mut srt(&settings)));
    }
    let (ours, theirs) = (median(ours), median(theirs));
    vec![
        Line {
            what: "`srt true` / `bwrap … true`",
            value: ours / theirs,
            unit: "",
            limit: Limit::AtMost(1.5),
        },
        Line {
            what: "`srt true`, median",
            value: ours * 1e3,
            unit: " ms",
            limit: Limit::None,
        },
        Line {
            what: "`bwrap … true`, median",
            value: theirs * 1e3,
            unit: " ms",
            limit: Limit::None,
        },
    ]
}

/// Launches a thousand of each, eight at a time; one that fails ends the benchmark.
fn at_once(scratch: &Path, writable: &Path) -> Vec<Line> {
    let settings = scratch.join("settings.json");
    let (mut ours, mut theirs) = (0.0, 0.0);
    for _ in 0..LAUNCHES / TURN {
        theirs += time_of(|| launch_at_once(|| bwrap(writable)));
        ours += time_of(|| launch_at_once(|| srt(&settings)));
    }
    vec![Line {
        what: "1,000 launches, 8 at a time, `srt` / `bwrap`, rate",
        value: theirs / ours,
        unit: "",
        limit: Limit::AtLeast(1.0),
    }]
}

fn launch_at_once(command: impl Fn() -> Command + Sync) {
    let left = AtomicUsize::new(TURN);
    let take = || {
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        })
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while take().is_ok() {
                    time(&mut command());
                }
            });
        }
    });
}

fn against_no_rules(scratch: &Path) -> Vec<Line> {
    let directories: Vec<_> = (0..5_000)
        .map(|number| scratch.join(format!("many/{number}")))
        .collect();
    for directory in &directories {
        std::fs::create_dir_all(directory).expect("the temporary directory is writable");
    }
    let hosts =
        |letter: char| list((0..5_000).map(|number| format!("{letter}{number}.example.org")));
    let paths = |paths: &[PathBuf]| list(paths.iter().map(|path| path.display().to_string()));
    let (granted, hidden) = directories.split_at(2_500);
    let domains = format!(
        r#"{{"network":{{"allowedDomains":{},"deniedDomains":{}}}}}"#,
        hosts('a'),
        hosts('d')
    );
    let idle = format!(
        r#"{{"filesystem":{{"denyWrite":{}}}}}"#,
        paths(&directories)
    );
    let mounted = format!(
        r#"{{"filesystem":{{"allowWrite":{},"denyRead":{}}}}}"#,
        paths(granted),
        paths(hidden)
    );
    let files = [
        write(scratch, "empty.json", "{}"),
        write(scratch, "domains.json", &domains),
        write(scratch, "idle.json", &idle),
        write(scratch, "mounted.json", &mounted),
    ];
    let mut times = [const { Vec::new() }; 4];
    let mut looks = Vec::new();
    for _ in 0..RULED_RUNS {
        for (file, times) in files.iter().zip(&mut times) {
            times.push(time(&mut srt(file)));
        }
        looks.push(time_of(|| {
            for directory in &directories {
                std::fs::symlink_metadata(directory).expect("it was made");
            }
        }));
    }
    let [empty, domains, idle, mounted] = times.map(median);
    let line = |what, value: f64, limit| Line {
        what,
        value: value / empty,
        unit: "",
        limit,
    };
    vec![
        line("10,000 domains / no rules", domains, Limit::AtMost(2.0)),
        line(
            "5,000 paths that change nothing / no rules",
            idle,
            Limit::None,
        ),
        line(
            "5,000 paths with a mount each / no rules",
            mounted,
            Limit::None,
        ),
        // What no launch that honours a path can do without.
        line("5,000 bare lstat / no rules", median(looks), Limit::None),
    ]
}

fn list(texts: impl Iterator<Item = String>) -> String {
    let quoted: Vec<_> = texts.map(|text| format!("\"{text}\"")).collect();
    format!("[{}]", quoted.join(","))
}

fn write(scratch: &Path, name: &str, text: &str) -> PathBuf {
    let file = scratch.join(name);
    std::fs::write(&file, text).expect("the temporary directory is writable");
    file
}

fn srt(settings: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
    command.arg("-q").arg("-s").arg(settings).arg("true");
    command
}

fn bwrap(writable: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args([
        "--unshare-all",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
    ]);
    command.args(["--proc", "/proc", "--tmpfs", "/dev/shm", "--bind"]);
    command.arg(writable).arg(writable).arg("true");
    command
}

fn time(command: &mut Command) -> f64 {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut status = None;
    let taken = time_of(|| status = Some(command.status().expect("bwrap and srt are installed")));
    assert!(status.is_some_and(|status| status.success()), "{command:?}");
    taken
}

fn time_of(act: impl FnOnce()) -> f64 {
    let start = Instant::now();
    act();
    start.elapsed().as_secs_f64()
}
