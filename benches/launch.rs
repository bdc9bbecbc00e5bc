//! Launch of `true`: `srt` with its proxies up, against bare `bwrap` with the same view.

mod report;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use report::{Limit, Line, median, publish};

/// Runs of each, in turns.
const RUNS: usize = 80;

fn main() -> ExitCode {
    let scratch = std::env::temp_dir().join(format!("srt-bench-{}", std::process::id()));
    let writable = scratch.join("W");
    std::fs::create_dir_all(&writable).expect("the temporary directory is writable");
    let settings = scratch.join("settings.json");
    let text = format!(
        r#"{{"network":{{"allowedDomains":["example.org"]}},"filesystem":{{"allowWrite":["{}"]}}}}"#,
        writable.display()
    );
    std::fs::write(&settings, text).expect("the temporary directory is writable");

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        theirs.push(time(&mut bwrap(&writable)));
        ours.push(time(
            Command::new(env!("CARGO_BIN_EXE_srt"))
                .arg("-s")
                .arg(&settings)
                .arg("true"),
        ));
    }
    std::fs::remove_dir_all(&scratch).expect("it is ours");

    let (ours, theirs) = (median(ours), median(theirs));
    let lines = [
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
    ];
    if publish("Launch", &lines) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
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
    let start = Instant::now();
    let status = command.status().expect("bwrap and srt are installed");
    let taken = start.elapsed().as_secs_f64();
    assert!(status.success(), "{command:?}");
    taken
}
