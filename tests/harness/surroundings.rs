//! What runs could leave on the machine besides files of a test: mounts, shared memory, objects
//! of System V, directories of runs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is looked at; only what is new counts, since other runs end meanwhile.
#[derive(Debug, Default)]
pub struct Surroundings {
    mounts: BTreeSet<String>,
    memory: BTreeSet<String>,
    objects: BTreeSet<String>,
    runs: BTreeSet<PathBuf>,
}

impl Surroundings {
    /// Tells whether these are tests of files.
    pub fn count() -> bool {
        env!("CARGO_CRATE_NAME").starts_with("filesystem")
    }

    /// Looks at them, in tests of files; other tests make such things themselves.
    pub fn now() -> Self {
        if !Self::count() {
            return Self::default();
        }
        let uid = nix::unistd::geteuid();
        let runs = ["/tmp", "/var/tmp"].map(|base| Path::new(base).join(format!("srt-{uid}")));
        Self::seen_by("self", &runs)
    }

    /// Looks at them, with the mounts as a process has them and runs where they keep their
    /// directories.
    pub fn seen_by(process: &str, runs: &[PathBuf]) -> Self {
        let entries = runs
            .iter()
            .flat_map(|parent| fs::read_dir(parent).into_iter().flatten().flatten());
        Self {
            mounts: mounts(process),
            memory: memory(),
            objects: objects(),
            runs: entries.map(|entry| entry.path()).collect(),
        }
    }

    /// Lists what is in `after` and was not here, a line each. A run that starts or ends gets
    /// some `patience`.
    pub fn left_in(&self, after: &Self, patience: Duration) -> Vec<String> {
        let mut left = new("mount", &self.mounts, &after.mounts);
        left.extend(new("shared memory", &self.memory, &after.memory));
        left.extend(new("System V object", &self.objects, &after.objects));
        let runs = after.runs.difference(&self.runs);
        let runs = runs.filter(|run| is_abandoned(run, patience));
        left.extend(runs.map(|run| format!("directory of a run: {}", run.display())));
        left
    }
}

fn new(what: &str, before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let new = after.difference(before);
    new.map(|line| format!("{what}: {line}")).collect()
}

/// The mounts of a namespace, without the numbers that the kernel uses anew.
fn mounts(process: &str) -> BTreeSet<String> {
    let table = fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
    let fields = |line: &str| line.split(' ').skip(2).collect::<Vec<_>>().join(" ");
    table.lines().map(fields).collect()
}

fn memory() -> BTreeSet<String> {
    let uid = nix::unistd::geteuid().as_raw();
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.metadata().is_ok_and(|meta| meta.uid() == uid));
    own.map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Kind, key and id of each object, which stay what they are while it is used.
fn objects() -> BTreeSet<String> {
    let kinds = ["shm", "sem", "msg"];
    let lines = kinds.into_iter().flat_map(|kind| {
        let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
        let name = move |line: &str| {
            let mut fields = line.split_whitespace();
            Some(format!("{kind} {} {}", fields.next()?, fields.next()?))
        };
        table.lines().skip(1).filter_map(name).collect::<Vec<_>>()
    });
    lines.collect()
}

/// A run that lives has locked its directory, but for the moment after it made it and the moment
/// before it removes it. On a busy machine these take a while.
fn is_abandoned(run: &Path, patience: Duration) -> bool {
    let end = Instant::now() + patience;
    while Instant::now() < end {
        let Ok(meta) = fs::symlink_metadata(run) else {
            return false;
        };
        // Read, not tried: a lock of ours would be in the way of a run that starts.
        let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
        let inode = format!(":{} ", meta.ino());
        if locks
            .lines()
            .any(|line| line.contains("FLOCK") && line.contains(&inode))
        {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}
