//! `--dry-run` says what the kernel would be asked, and does nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::harness::{Scratch, is_root, run};
use super::{settings, srt, text};

/// Lists everything below a directory, with the length of files.
fn snapshot(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)
        .expect("the directory is readable")
        .flatten()
    {
        let meta = entry.metadata().expect("it is still there");
        found.push((entry.path(), meta.len()));
        if meta.is_dir() {
            found.extend(snapshot(&entry.path()));
        }
    }
    found.sort();
    found
}

/// Returns a launch with a policy that has every kind of step, in a known environment.
fn launch(scratch: &Scratch, flags: &[&str], command: &[&str]) -> Command {
    for name in ["cwd/w/kept/f", "cwd/hidden/shown/f"] {
        scratch.file(name, "x");
    }
    let file = settings(
        scratch,
        &json!({ "filesystem": {
            "allowWrite": ["w"], "denyWrite": ["w/kept"],
            "denyRead": ["hidden"], "allowRead": ["hidden/shown"],
        }, "env": { "set": { "GIVEN": "canary" } } }),
    );
    let words: Vec<_> = [flags, &["-s", text(&file)], command].concat();
    let mut srt = srt(scratch, &words);
    srt.env_clear()
        .env("HOME", scratch.dir("home"))
        .env("PATH", "/usr/bin:/bin");
    srt.env("TMPDIR", scratch.dir("tmp")).env("DISPLAY", ":7");
    srt
}

const COMMAND: [&str; 4] = ["sh", "-c", "echo \"a  b\" >w/mark", ""];

#[test]
fn nothing_runs_and_nothing_is_left() {
    let scratch = Scratch::new("dry");
    let events = scratch.path("events.jsonl");
    let mark = scratch.path("cwd/w/mark");
    run(&mut launch(
        &scratch,
        &["--events", text(&events)],
        &COMMAND,
    ))
    .succeeds();
    assert!(mark.exists() && events.exists(), "a run does both");
    fs::remove_file(&mark)
        .and_then(|()| fs::remove_file(&events))
        .expect("both were made");

    let mut dry = launch(
        &scratch,
        &["--dry-run", "--events", text(&events)],
        &COMMAND,
    );
    let before = snapshot(scratch.path("").as_path());
    let ran = run(&mut dry).succeeds();
    assert_eq!(ran.stderr, "");
    assert_eq!(snapshot(scratch.path("").as_path()), before);
}

#[test]
fn two_plans_of_one_launch_are_the_same_text() {
    let scratch = Scratch::new("stable");
    // Where other runs are is hidden, and they start and end beside this test.
    let runs = format!("/srt-{}", nix::unistd::geteuid());
    let plan = || {
        let ran = run(&mut launch(&scratch, &["--dry-run"], &COMMAND)).succeeds();
        let lines = ran.stdout.lines().filter(|line| !line.ends_with(&runs));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(plan(), plan());
}

#[test]
fn the_plan_has_a_line_for_each_thing_the_kernel_is_asked() {
    let scratch = Scratch::new("plan");
    let ran = run(&mut launch(&scratch, &["--dry-run"], &COMMAND)).succeeds();
    let uid = nix::unistd::geteuid();
    let gid = nix::unistd::getegid();
    let others = if is_root() { "and all others, " } else { "" };
    let plan = ran.stdout.replace(scratch.marker(), "$T");
    let plan = plan.replace(&format!("srt-{uid}/"), "srt-UID/");
    // How many filters there are is told by the test below; what `/tmp/claude` is, by the host.
    // So are the directories of other runs and the secrets of the machine, which are hidden.
    let runs = format!("/srt-{uid}");
    let is_fixed = |line: &&str| {
        let hides = line.starts_with("mount: hide ") || line.starts_with("mount: without ");
        let of_host = hides && (line.ends_with(&runs) || !line.contains(" $T/"));
        !line.starts_with("seccomp: ") && !line.contains("/tmp/claude") && !of_host
    };
    let plan: Vec<_> = plan.lines().filter(is_fixed).collect();
    let expected = format!(
        r#"namespaces: user mnt pid net ipc uts cgroup
ids: user {uid}, group {gid}, {others}mapped one to one
mount: read-only /
mount: hide $T/cwd/hidden
mount: writable $T/cwd/w
mount: read-only $T/cwd/hidden/shown
mount: read-only $T/cwd/w/kept
mount: writable $T/tmp/srt-UID/RUN
mount: mask files of /sys
mount: new /proc, read-only
mount: new /dev
listen: HTTP proxy on 127.0.0.1 and [::1], port 3128
listen: SOCKS5 proxy on 127.0.0.1 and [::1], port 1080
capture: every other TCP destination, redirected to port 61443
capture: or, where that is not possible, ports 22 80 443
listen: resolver on every address, port 53
rights: no capability, no_new_privs, a new session keyring
landlock: read /
landlock: device /dev
landlock: write /dev/mqueue
landlock: write /dev/shm
landlock: write $T/cwd/w
landlock: write $T/tmp/srt-UID/RUN
landlock: reopen descriptor 0
landlock: reopen descriptor 1
landlock: reopen descriptor 2
descriptors: 0 1 2
cwd: $T/cwd
not passed: DISPLAY: …
env: HOME PATH GIVEN HTTP_PROXY http_proxy …
program: /usr/bin/sh or /bin/sh
argv: "sh" "-c" "echo \"a  b\" >w/mark" """#
    );
    let cut = |line: &str| match line {
        line if line.starts_with("not passed") => line
            .split(": it ")
            .next()
            .map(|start| format!("{start}: …")),
        line if line.starts_with("env: ") => {
            let names: Vec<_> = line.split(' ').take(6).collect();
            Some(format!("{} …", names.join(" ")))
        }
        line => Some(line.to_owned()),
    };
    let plan: Vec<_> = plan.into_iter().filter_map(cut).collect();
    assert_eq!(plan.join("\n"), expected);
    assert!(!ran.stdout.contains("canary"), "values are not shown");
}

#[test]
fn a_root_caller_gets_more_filters() {
    let scratch = Scratch::new("filters");
    let ran = run(&mut launch(&scratch, &["--dry-run"], &COMMAND)).succeeds();
    let filters = ran
        .stdout
        .lines()
        .filter(|line| line.starts_with("seccomp: "));
    let names: Vec<_> = filters.map(|line| line.split([' ', ',']).nth(1)).collect();
    for name in ["refuse", "performed"] {
        assert!(names.contains(&Some(name)), "{names:?}");
    }
    assert_eq!(names.contains(&Some("setid")), is_root(), "{names:?}");
}

#[test]
fn a_launch_that_would_be_refused_is_refused() {
    let scratch = Scratch::new("refused");
    let file = settings(&scratch, &json!({ "filesystem": { "denyRead": ["."] } }));
    let words = ["-s", text(&file), "--dry-run", "true"];
    run(&mut srt(&scratch, &words)).is_refused("the working directory");
    let full = fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("every Linux has it");
    let mut command = launch(&scratch, &["--dry-run"], &COMMAND);
    let status = command
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status();
    assert_eq!(status.expect("srt starts").code(), Some(125));
}
