//! `srt ctl doctor` tells what this machine gives, and what is missing with its remedy.

mod harness;

use std::collections::BTreeMap;
use std::process::Command;

use harness::{Ran, Scratch, Srt, is_root, run, skip, with_fault};
use sandbox_runtime as _;
use serde_json::Value;

fn doctor(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
    command.args(["ctl", "doctor"]).args(flags);
    command
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("no JSON: {ran:?}"))
}

/// Returns the protections that a run asks for and this machine lacks, with error and hint.
fn missing(answer: &Value) -> BTreeMap<String, (String, String)> {
    let protections = answer["protections"].as_array().expect("a list");
    assert!(protections.len() > 30, "{answer}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let lacking = protections.iter().filter(|protection| {
        protection["enforced"] == false
            && protection["rungs"]
                .as_array()
                .is_some_and(|rungs| !rungs.is_empty())
    });
    lacking
        .map(|lack| {
            let error = format!(
                "{}: {}",
                text(&lack["error"]["call"]),
                text(&lack["error"]["errno"])
            );
            (text(&lack["name"]), (error, text(&lack["hint"])))
        })
        .collect()
}

/// The doctor is right when its word is that of a launch.
fn a_run_starts(errno: &str, calls: &str) -> bool {
    let scratch = Scratch::new("launch");
    let command = Srt::new(&scratch).into_command(&["true"]);
    let ran = with_fault(errno, calls, &command);
    assert!(ran.status == 0 || ran.status == 125, "{calls}: {ran:?}");
    ran.status == 0
}

#[test]
fn this_machine_is_on_rung_1_and_runs_commands() {
    let ran = run(&mut doctor(&[])).succeeds();
    assert!(ran.stdout.starts_with("rung 1 of 3: "), "{}", ran.stdout);
    let command = doctor(&["--json"]);
    let answer = json(&with_fault("EPERM", "kexec_load", &command).succeeds());
    assert_eq!(answer["rung"], 1);
    assert_eq!(missing(&answer), BTreeMap::new());
    assert!(a_run_starts("EPERM", "kexec_load"));
}

#[test]
fn two_answers_are_the_same() {
    for flags in [&[][..], &["--json"], &["--syscalls"]] {
        let (one, two) = (run(&mut doctor(flags)), run(&mut doctor(flags)));
        assert_eq!(one.stdout, two.stdout);
        assert_eq!(one.stderr, "");
    }
}

const MOUNT_CALLS: &str = "allow the mount calls in its seccomp profile";

/// Refused calls, the protections that are missing then, and what each hint says.
const CASES: [(&str, &str, &[&str], &str); 24] = [
    ("EPERM", "openat2", &["paths without links"], "Linux 5.6"),
    (
        "ENOSYS",
        "mount",
        &[
            "attached mounts",
            "copied mounts",
            "message queues",
            "mounts apart from the host's",
            "new /proc",
            "private terminals",
            "private tmpfs",
            "read-only mounts",
            "switch of the root",
        ],
        "",
    ),
    (
        "EPERM",
        "open_tree",
        &[
            "attached mounts",
            "copied mounts",
            "read-only mounts",
            "switch of the root",
        ],
        "",
    ),
    (
        "ENOSYS",
        "mount_setattr",
        &["read-only mounts"],
        MOUNT_CALLS,
    ),
    (
        "EPERM",
        "move_mount",
        &["attached mounts", "switch of the root"],
        "",
    ),
    (
        "EPERM",
        "fsopen",
        &[
            "message queues",
            "new /proc",
            "private terminals",
            "private tmpfs",
        ],
        "",
    ),
    (
        "ENOSYS",
        "fsmount",
        &[
            "message queues",
            "new /proc",
            "private terminals",
            "private tmpfs",
        ],
        "",
    ),
    (
        "EPERM",
        "pivot_root",
        &["switch of the root"],
        "allow pivot_root",
    ),
    (
        "EPERM",
        "umount2",
        &["switch of the root"],
        "allow pivot_root",
    ),
    (
        "ENOSYS",
        "close_range",
        &["closed descriptors"],
        "Linux 5.11",
    ),
    (
        "EDQUOT",
        "keyctl",
        &["session keyring of its own"],
        "/proc/key-users",
    ),
    ("EPERM", "capset", &["no capabilities"], "allow capset"),
    ("EPERM", "prctl:28", &["no capabilities"], "allow capset"),
    (
        "EOPNOTSUPP",
        "landlock_create_ruleset",
        &["Landlock", "Landlock: TCP"],
        "",
    ),
    ("EPERM", "landlock_restrict_self", &["Landlock"], "lsm="),
    (
        "EBUSY",
        "seccomp",
        &["calls that wait for the broker", "system call filter"],
        "",
    ),
    (
        "EPERM",
        "pidfd_getfd",
        &["descriptors of the command"],
        "kernel.yama.ptrace_scope",
    ),
    (
        "EPERM",
        "process_vm_readv",
        &["memory of the command"],
        "kernel.yama.ptrace_scope",
    ),
    (
        "EPERM",
        "socket",
        &["its own Unix sockets, told apart", "loopback of its own"],
        "",
    ),
    ("EPERM", "bind", &["loopback of its own"], ""),
    ("EPERM", "listen", &["loopback of its own"], ""),
    (
        "EPERM",
        "prctl:38",
        &[
            "Landlock",
            "calls that wait for the broker",
            "no_new_privs",
            "system call filter",
        ],
        "",
    ),
    ("ENOSYS", "clone3", &[], ""),
    ("EPERM", "setns", &[], ""),
];

#[test]
fn each_missing_protection_is_named_with_its_error_and_remedy() {
    for (errno, calls, expected, hint) in CASES {
        let ran = with_fault(errno, calls, &doctor(&["--json"]));
        let answer = json(&ran);
        let missing = missing(&answer);
        let names: Vec<_> = missing.keys().map(String::as_str).collect();
        assert_eq!(names, expected, "{calls}");
        for (error, given) in missing.values() {
            assert!(error.ends_with(&format!(": {errno}")), "{calls}: {error}");
            assert!(given.len() > 20 && given.contains(hint), "{calls}: {given}");
        }
        let is_whole = expected.is_empty();
        assert_eq!(answer["rung"] == 1, is_whole, "{calls}");
        assert_eq!(ran.status, i32::from(!is_whole), "{calls}");
        assert_eq!(a_run_starts(errno, calls), is_whole, "{calls}");
    }
}

#[test]
fn what_a_run_does_without_is_named_with_what_that_costs() {
    let ran = with_fault("EPERM", "socket:2=12", &doctor(&["--json"]));
    let answer = json(&ran.succeeds());
    let protections = answer["protections"].as_array().expect("a list");
    let name = "redirected connections";
    let found = protections
        .iter()
        .find(|protection| protection["name"] == name);
    let found = found.expect("it is asked for");
    assert_eq!(found["error"]["errno"], "EPERM", "{found}");
    let hint = found["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("no server can have these inside"), "{found}");
    assert_eq!(missing(&answer), BTreeMap::new());
    assert!(a_run_starts("EPERM", "socket:2=12"));
}

#[test]
fn without_namespaces_it_is_rung_2_and_the_remedy_fits_the_error() {
    for (errno, hint) in [
        ("EPERM", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("ENOSPC", "user.max_user_namespaces"),
        ("EINVAL", "CONFIG_USER_NS"),
    ] {
        let ran = with_fault(errno, "clone,clone3", &doctor(&["--json"]));
        let answer = json(&ran);
        assert_eq!((ran.status, &answer["rung"]), (1, &2.into()), "{errno}");
        let missing = missing(&answer);
        for name in ["user", "mount", "pid", "network", "ipc", "uts", "cgroup"] {
            let (error, given) = &missing[&format!("{name} namespace")];
            assert_eq!(error, &format!("clone3: {errno}"));
            assert!(given.contains(hint), "{given}");
        }
        for name in ["Landlock", "system call filter", "no_new_privs"] {
            assert!(!missing.contains_key(name), "{name}");
        }
        assert!(!a_run_starts(errno, "clone,clone3"));
    }
}

#[test]
fn without_namespaces_and_landlock_nothing_is_left() {
    let calls = "clone,clone3,landlock_restrict_self";
    let ran = with_fault("EPERM", calls, &doctor(&[]));
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.starts_with("rung 3 of 3: "), "{}", ran.stdout);
    let line = "  no   Landlock: landlock_restrict_self: EPERM (Operation not permitted)\n       hint: srt needs Landlock";
    assert!(ran.stdout.contains(line), "{}", ran.stdout);
}

#[test]
fn a_machine_that_starts_no_process_is_an_error() {
    let ran = with_fault("EPERM", "pidfd_open", &doctor(&[]));
    assert_eq!(ran.status, 2, "{ran:?}");
    assert!(
        ran.stderr
            .starts_with("srt: cannot start a process: fork: EPERM"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout, "");
}

#[test]
fn no_act_leaves_a_trace_on_the_host() {
    let scratch = Scratch::new("trace");
    let look = || {
        let script =
            "cat /proc/self/mountinfo; hostname; ls /sys/fs/cgroup; cut -d: -f1 /proc/net/route";
        run(Command::new("sh").args(["-c", script])).stdout
    };
    // Other tests of this file make their groups meanwhile, each for a moment.
    let has_group = || look().contains("srt-doctor-");
    assert!(harness::wait_until(|| !has_group()));
    let before = look();
    let mut command = doctor(&[]);
    command.env("HOME", scratch.dir("home"));
    run(&mut command);
    assert!(harness::wait_until(|| look() == before), "{before}");
    harness::nothing_runs_in(&scratch);
    let left = std::fs::read_dir(scratch.path("home"))
        .expect("we made it")
        .count();
    assert_eq!(left, 0);
}

#[test]
fn the_table_of_system_calls_is_that_of_the_profile_in_force() {
    let scratch = Scratch::new("table");
    let home = scratch.dir("home");
    let strict = scratch.file("strict.json", r#"{ "seccompProfile": "strict" }"#);
    let open = scratch.file(
        "open.json",
        r#"{ "network": { "allowAllUnixSockets": true } }"#,
    );
    let table = |settings: Option<&std::path::Path>| {
        let mut command = doctor(&["--syscalls"]);
        if let Some(file) = settings {
            command.arg("--settings").arg(file);
        }
        command.env("HOME", &home).current_dir(&home);
        run(&mut command).succeeds().stdout
    };
    let default = table(None);
    let has = |table: &str, start: &str| table.lines().any(|line| line.starts_with(start));
    for line in [
        "add_key\tEPERM\tkeyrings are not namespaced",
        "clone3\tENOSYS\t",
        "connect\tbroker\t",
        "ioctl if args[1] == 0x5412\tEPERM\tTIOCSTI types",
        "socketpair if args[0] != 0x1 (AF_UNIX)\tEPERM\t",
    ] {
        assert!(has(&default, line), "{line} is not in\n{default}");
    }
    let mut sorted: Vec<&str> = default
        .lines()
        .filter_map(|line| line.split([' ', '\t']).next())
        .collect();
    let calls = sorted.clone();
    sorted.sort_unstable();
    assert_eq!(calls, sorted);
    assert_eq!(has(&default, "fchmod if "), is_root());
    assert!(!has(&default, "ptrace\t"));
    assert!(has(&table(Some(&strict)), "ptrace\tEPERM\t"));
    assert!(!has(&table(Some(&open)), "connect\t"));
}

#[test]
fn the_table_as_json_has_a_reason_for_every_call() {
    let answer = json(&run(&mut doctor(&["--syscalls", "--json"])).succeeds());
    let calls = answer["calls"].as_array().expect("a list");
    assert!(calls.len() > 80, "{}", calls.len());
    for call in calls {
        for key in ["name", "action", "reason", "filter"] {
            assert!(
                call[key].as_str().is_some_and(|text| !text.is_empty()),
                "{call}"
            );
        }
    }
}

#[test]
fn an_unknown_flag_is_an_error() {
    let ran = run(&mut doctor(&["--cure"]));
    assert_eq!(ran.status, 2);
    assert!(ran.stderr.contains("--cure"), "{}", ran.stderr);
}

#[test]
fn a_sandbox_inside_is_told_to_be_none() {
    let scratch = Scratch::new("inside");
    let srt = env!("CARGO_BIN_EXE_srt");
    let ran = Srt::new(&scratch).run(&[srt, "ctl", "doctor"]);
    if ran.status == 126 || ran.status == 127 {
        return skip("srt itself cannot be executed inside");
    }
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(
        ran.stdout.contains("  no   user namespace: clone3: E"),
        "{}",
        ran.stdout
    );
}
