//! Very many launches, killed or at once: none fails, and nothing is left of any.
//!
//! `SRT_TEST_KILLS` and `SRT_TEST_LAUNCHES` say how many; see `.ci/run` for the full numbers.

mod harness;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use harness::{
    Scratch, Srt, nothing_runs_in, processes_with, run_within, say, wait_until, wrapped,
};

/// Longest that any number of them takes.
const LIMIT: Duration = Duration::from_secs(1200);

#[allow(
    clippy::disallowed_methods,
    reason = "says how long a test takes, not what is done"
)]
fn number(name: &str, usual: u32) -> u32 {
    let given = std::env::var(name).ok();
    given.map_or(usual, |text| text.parse().expect("a number"))
}

/// What a run could leave on the machine besides processes and files.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    mounts: String,
    groups: BTreeSet<String>,
    keyrings: usize,
}

impl Left {
    fn now() -> Self {
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let mut groups = BTreeSet::new();
        let mut next = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
        while let Some(directory) = next.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    if name.starts_with("srt-") && !name.starts_with("srt-test-") {
                        groups.insert(name);
                    }
                    next.push(entry.path());
                }
            }
        }
        let mounts = read("/proc/self/mountinfo");
        Self {
            // Others may mount something too.
            mounts: mounts
                .lines()
                .filter(|line| line.contains("srt-"))
                .collect(),
            groups,
            // Those that are still some process's are of other tests.
            keyrings: read("/proc/keys")
                .lines()
                .filter(|key| key.contains("_ses"))
                .count(),
        }
    }

    /// Waits until no more is there than was `before`: keys are collected when there is time.
    #[track_caller]
    fn is_as(before: &Self) {
        let as_before = || {
            let now = Self::now();
            now.mounts == before.mounts
                && now.groups.is_subset(&before.groups)
                && now.keyrings <= before.keyrings + OTHERS
        };
        assert!(wait_until(as_before), "{before:?} {:?}", Self::now());
    }
}

/// Key rings that other tests may have at the moment.
const OTHERS: usize = 16;

/// Starts what it is told to, kills it at a moment that is drawn, and looks for what is left. In a
/// network namespace of its own, so that every Unix socket there is ours.
const KILL: &str = "
import os, random, subprocess, sys, time
count, words = int(sys.argv[1]), sys.argv[2:]
seed = random.randrange(1 << 32)
random.seed(seed)
reached = 0
for _ in range(count):
    srt = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
    if random.random() < 0.2: srt.stdout.readline()
    else: time.sleep(random.random() * 0.08)
    srt.kill()
    reached += srt.stdout.read() != b''
    srt.wait()
for _ in range(400):
    sockets = len(open('/proc/net/unix').readlines()) - 1
    if sockets == 0: break
    time.sleep(0.1)
print('sockets', sockets)
print('seed', seed, 'of', count, 'moments', reached, 'in the command', file=sys.stderr)
";

#[test]
fn killed_at_any_moment_srt_leaves_nothing_behind() {
    let scratch = Scratch::new("kills");
    let tmp = scratch.dir("tmp");
    let count = number("SRT_TEST_KILLS", 60).to_string();
    let before = Left::now();
    let srt = Srt::new(&scratch)
        .env("TMPDIR", &tmp)
        .flags(&[
            "--keep-background",
            "--max-procs",
            "500",
            "--max-memory",
            "4G",
        ])
        .into_command(&["sh", "-c", "sleep 100 & setsid sleep 100 & echo; sleep 100"]);
    let words = ["unshare", "-cn", "python3", "-c", KILL, &count];
    let words = match harness::is_root() {
        // As root the limits are kept by control groups, where there are some.
        true => ["env", "unshare", "-n", "python3", "-c", KILL, &count].to_vec(),
        false => words.to_vec(),
    };
    let ran = run_within(&mut wrapped(&words, &srt), b"", LIMIT).succeeds();
    say(ran.stderr.trim_end());
    assert_eq!(ran.stdout, "sockets 0\n", "{}", ran.stderr);
    assert!(wait_until(|| processes_with(scratch.marker()).is_empty()));
    // The next run removes the directories and groups of those that were killed.
    Srt::new(&scratch)
        .env("TMPDIR", &tmp)
        .flags(&["--max-procs", "500", "--max-memory", "4G"])
        .host_changes(&tmp, "it removes what killed runs left")
        .run(&["true"])
        .succeeds();
    assert_eq!(fs::read_dir(&tmp).expect("we made it").count(), 0);
    Left::is_as(&before);
}

#[test]
fn of_many_launches_at_once_none_fails_and_nothing_is_left() {
    let scratch = Scratch::new("launches");
    let tmp = scratch.dir("tmp");
    let count = number("SRT_TEST_LAUNCHES", 120);
    let before = Left::now();
    let script = format!("seq {count} | xargs -P 8 -n 1 \"$@\" && echo all");
    let srt = Srt::new(&scratch).env("TMPDIR", &tmp).into_command(&[
        "sh",
        "-c",
        "[ $# = 1 ] && echo ran",
        "sh",
    ]);
    let words = ["sh", "-c", &script, "sh"];
    let ran = run_within(&mut wrapped(&words, &srt), b"", LIMIT);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(ran.stderr, "");
    let ran_to_the_end = ran.stdout.lines().filter(|line| *line == "ran").count();
    assert_eq!(ran_to_the_end, usize::try_from(count).expect("small"));
    assert!(ran.stdout.ends_with("all\n"));
    say(&format!("{count} launches, 8 at a time"));
    nothing_runs_in(&scratch);
    assert_eq!(fs::read_dir(&tmp).expect("we made it").count(), 0);
    Left::is_as(&before);
}
