//! Processes of the tests and of their runs.

use std::fs;
use std::process::Child;
use std::time::{Duration, Instant};

use super::Scratch;

/// Finds the living processes that have `marker` in their arguments or environment.
///
/// The path of a [`Scratch`] marks every process of its runs: it is in the launcher's
/// arguments and in the command's HOME.
pub fn processes_with(marker: &str) -> Vec<i32> {
    let found = fs::read_dir("/proc").expect("/proc is mounted");
    let pids = found
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let marked = |pid: &i32| {
        ["cmdline", "environ"].iter().any(|file| {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            text.windows(marker.len())
                .any(|window| window == marker.as_bytes())
        })
    };
    pids.filter(marked).collect()
}

/// Expects that no process of the runs in `scratch` is alive.
#[track_caller]
pub fn nothing_runs_in(scratch: &Scratch) {
    let alive = processes_with(scratch.marker());
    assert!(alive.is_empty(), "still alive: {alive:?}");
}

/// Waits until `holds`, for at most forty seconds; tells whether it came.
pub fn wait_until(mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(40);
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// A process of the test, ended with it.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Killed {
    /// Ends it and waits for its end.
    pub fn end(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.end();
    }
}
