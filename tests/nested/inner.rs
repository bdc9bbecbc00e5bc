//! `srt` inside `srt`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::harness::{Ran, Scratch, Srt, canary, outside, run, wait_until};
use super::{GRADES, events, graded};

const SRT: &str = env!("CARGO_BIN_EXE_srt");

/// Writes settings for a run inside.
fn settings(scratch: &Scratch, name: &str, value: &Value) -> PathBuf {
    scratch.file(&format!("{name}.json"), value.to_string())
}

/// Words that run `script` by an `srt` of its own.
fn inner(settings: &Path, script: &str) -> Vec<String> {
    let settings = settings.to_str().expect("ASCII");
    let words = [SRT, "-s", settings, "--", "sh", "-c", script];
    words.map(str::to_owned).to_vec()
}

/// Every way to run outside: without namespaces, and by each grade.
fn outer(scratch: &Scratch) -> Vec<Srt> {
    let grades = GRADES.iter().map(|grade| graded(scratch, grade));
    [Srt::new(scratch)].into_iter().chain(grades).collect()
}

#[test]
fn a_run_inside_a_run_is_refused() {
    let scratch = Scratch::new("refused");
    let cwd = scratch.dir("cwd");
    let plain = settings(&scratch, "plain", &json!({}));
    for srt in outer(&scratch) {
        let ran = srt.allow_write(&cwd).run(&inner(&plain, "echo > ran"));
        let ran = ran.is_refused("srt runs inside a sandbox of srt");
        assert!(
            ran.stderr.contains("set `nested` to \"inner\""),
            "{}",
            ran.stderr
        );
        assert!(!cwd.join("ran").exists());
    }
}

#[test]
fn the_doctor_says_where_it_is() {
    let scratch = Scratch::new("doctor");
    let said = "inside a sandbox of srt";
    assert!(!run(std::process::Command::new(SRT).args(["ctl", "doctor"])).shows(said));
    let ran = Srt::new(&scratch).run(&[SRT, "ctl", "doctor"]);
    assert!(ran.shows(said), "{} {}", ran.stdout, ran.stderr);
}

#[test]
fn an_inner_run_adds_rules_and_never_widens() {
    let scratch = Scratch::new("adds");
    let cwd = scratch.dir("cwd");
    for name in ["cwd/narrow", "cwd/wide", "elsewhere"] {
        scratch.dir(name);
    }
    let granted = json!([scratch.path("cwd/narrow"), scratch.path("elsewhere")]);
    let narrow = settings(
        &scratch,
        "inner",
        &json!({ "nested": "inner", "filesystem": { "allowWrite": granted } }),
    );
    let script = format!(
        "echo > narrow/$1; echo > wide/$1; echo > {}/$1; touch $TMPDIR/x && echo own; exit 7",
        scratch.path("elsewhere").display()
    );
    for (turn, srt) in outer(&scratch).into_iter().enumerate() {
        let turn = turn.to_string();
        let mut words = inner(&narrow, &script);
        words.extend(["sh".to_owned(), turn.clone()]);
        let ran = srt.allow_write(&cwd).run(&words);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (7, "own\n"),
            "{}",
            ran.stderr
        );
        assert!(cwd.join("narrow").join(&turn).exists());
        assert!(!cwd.join("wide").join(&turn).exists());
        assert!(!scratch.path("elsewhere").join(&turn).exists());
    }
    // The control: the outer run alone may write what the inner one may not.
    let srt = Srt::new(&scratch).allow_write(&cwd);
    srt.sh("echo > wide/outer").succeeds();
    assert!(cwd.join("wide/outer").exists());
}

#[test]
fn a_rule_that_landlock_cannot_keep_is_refused_unless_the_outer_run_keeps_it() {
    let scratch = Scratch::new("rules");
    let cwd = scratch.dir("cwd");
    let secret = canary();
    let hidden = scratch.file("hidden/key", &secret);
    let kept = scratch.file("cwd/kept", "kept");
    let directory = scratch.path("hidden");
    let rules = settings(
        &scratch,
        "inner",
        &json!({ "nested": "inner", "filesystem": {
            "allowWrite": [cwd], "denyWrite": [kept], "denyRead": [directory],
        }}),
    );
    let words = inner(
        &rules,
        &format!("cat {}; echo x > kept; echo x > new", hidden.display()),
    );
    for srt in outer(&scratch) {
        let ran = srt.allow_write(&cwd).run(&words);
        let ran = ran.is_refused(&format!(
            "cannot keep {} from being read",
            directory.display()
        ));
        let also = format!("cannot keep {} from being written", kept.display());
        assert!(ran.stderr.contains(&also), "{}", ran.stderr);
    }
    for srt in outer(&scratch) {
        let srt = srt
            .allow_write(&cwd)
            .deny_write(&kept)
            .deny_read(&directory);
        let ran = srt.run(&words).succeeds();
        assert!(!ran.shows(&secret));
        assert_eq!(fs::read_to_string(&kept).expect("it is there"), "kept");
        fs::remove_file(cwd.join("new")).expect("the inner run made it");
    }
}

#[test]
fn a_link_is_held_inside_where_the_outer_run_holds_it() {
    let scratch = Scratch::new("links");
    let cwd = scratch.dir("cwd");
    let real = scratch.file("real/f", "real");
    let link = cwd.join("link");
    symlink("../real", &link).expect("the name is free");
    let rules = settings(
        &scratch,
        "inner",
        &json!({ "nested": "inner", "filesystem": {
            "allowWrite": [cwd], "denyWrite": [link],
        }}),
    );
    let words = inner(&rules, "rm link; cat link/f");
    for srt in outer(&scratch) {
        let ran = srt.allow_write(&cwd).run(&words);
        let reason = format!(
            "cannot keep the link {} from being replaced",
            link.display()
        );
        ran.is_refused(&reason);
    }
    for srt in outer(&scratch) {
        let ran = srt.allow_write(&cwd).deny_write(&link).run(&words);
        assert_eq!(ran.succeeds().stdout, "real");
        assert!(link.is_symlink());
    }
    // What is mounted at the link is the link: a rule for what is around it reaches no further.
    let around = settings(
        &scratch,
        "around",
        &json!({ "nested": "inner", "filesystem": { "denyRead": [cwd] } }),
    );
    for srt in outer(&scratch) {
        let srt = srt.allow_write(&cwd).deny_write(&link).flags(&["-v"]);
        let words = inner(&around, "true");
        let ran = srt.run(&words);
        assert!(!ran.shows(&real.display().to_string()), "{}", ran.stderr);
    }
}

#[test]
fn stores_of_secrets_are_those_the_outer_run_hides() {
    let scratch = Scratch::new("stores");
    let secret = canary();
    let store = scratch.file("home/.aws/credentials", &secret);
    let mixed = scratch.file("home/.npmrc", format!("//e.org/:_authToken={secret}\n"));
    let rules = settings(&scratch, "inner", &json!({ "nested": "inner" }));
    let words = inner(&rules, "cat ~/.aws/* ~/.npmrc; true");
    for srt in outer(&scratch) {
        let ran = srt.run(&words).succeeds();
        assert!(!ran.shows(&secret), "{}", ran.stdout);
    }
    for srt in outer(&scratch) {
        let srt = srt.set("filesystem.protectSecrets", false.into());
        let ran = srt
            .run(&words)
            .is_refused("from being read inside a sandbox");
        let mixed = format!("cannot keep {} from being read whole", mixed.display());
        assert!(ran.shows(&mixed) && store.exists(), "{}", ran.stderr);
    }
}

#[test]
fn reading_is_closed_by_the_outer_run_and_not_by_the_inner() {
    let scratch = Scratch::new("closed");
    let cwd = scratch.dir("cwd");
    let secret = canary();
    scratch.file("cwd/mine", "mine\n");
    let other = scratch.file("other/f", &secret);
    let closed =
        json!({ "nested": "inner", "filesystem": { "denyRead": ["/"], "allowRead": ["."] }});
    let closed = settings(&scratch, "closed", &closed);
    let open = settings(&scratch, "open", &json!({ "nested": "inner" }));
    let script = "cat mine ../other/f; ls ..; test -e /home || echo closed";
    for srt in outer(&scratch) {
        let ran = srt.run(&inner(&open, script));
        assert!(ran.shows(&secret), "{}", ran.stderr);
    }
    for srt in outer(&scratch) {
        let ran = srt.run(&inner(&closed, "cat mine"));
        let ran = ran.is_refused("cannot hide / inside a sandbox");
        assert!(
            ran.stderr.contains("settings of the sandbox around"),
            "{}",
            ran.stderr
        );
    }
    let grants = [cwd, SRT.into(), open.clone()];
    for srt in outer(&scratch) {
        let srt = grants.iter().fold(srt.deny_read("/"), Srt::allow_read);
        let ran = srt.run(&inner(&open, script)).succeeds();
        assert_eq!(
            ran.stdout, "mine\ncwd\nopen.json\nclosed\n",
            "{}",
            ran.stderr
        );
    }
    assert_eq!(fs::read_to_string(other).expect("it is there"), secret);
}

#[test]
fn an_empty_file_is_not_taken_for_a_hidden_one() {
    let scratch = Scratch::new("empty");
    let file = scratch.file("empty", "");
    let rules = json!({ "nested": "inner", "filesystem": { "denyRead": [file] }});
    let rules = settings(&scratch, "inner", &rules);
    let ran = Srt::new(&scratch).run(&inner(&rules, "true"));
    ran.is_refused("from being read");
}

#[test]
fn hosts_and_sockets_cannot_be_granted_inside() {
    let scratch = Scratch::new("grants");
    for (key, entry) in [
        ("allowedDomains", "example.org"),
        ("allowUnixSockets", "/run/agent.sock"),
    ] {
        let rules = json!({ "nested": "inner", "network": { key: [entry] }});
        let rules = settings(&scratch, "inner", &rules);
        let ran = Srt::new(&scratch).run(&inner(&rules, "true"));
        let ran = ran.is_refused("cannot be granted inside a sandbox");
        assert!(ran.stderr.contains(entry), "{}", ran.stderr);
    }
}

/// Makes a socket of each family, and connects to a server of the outer run.
const NETWORK: &str = "
import os, socket, sys
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6):
    try: socket.socket(family); print('made')
    except OSError as error: print(os.strerror(error.errno))
try: socket.create_connection(('127.0.0.1', 8000)); print('connected')
except OSError as error: print(os.strerror(error.errno))
";

#[test]
fn an_inner_run_has_no_network_or_that_of_the_outer() {
    let scratch = Scratch::new("network");
    let cwd = scratch.dir("cwd");
    fs::write(cwd.join("act.py"), NETWORK).expect("it is ours");
    let refused = "Operation not permitted\n";
    let closed = refused.repeat(4);
    let open = format!("{refused}made\nmade\nconnected\n");
    for (mode, expected) in [("filtered", closed), ("open", open)] {
        let rules = json!({ "nested": "inner", "network": { "mode": mode }});
        let rules = settings(&scratch, mode, &rules);
        let serve = format!(
            "import socket, subprocess, sys
server = socket.create_server(('127.0.0.1', 8000))
print(subprocess.run([{SRT:?}, '-q', '-s', {:?}, '--', 'python3', 'act.py']).returncode)",
            rules.display().to_string()
        );
        for srt in outer(&scratch) {
            let ran = srt.run(&["python3", "-c", &serve]).succeeds();
            assert_eq!(
                ran.stdout,
                format!("{expected}0\n"),
                "{mode} {}",
                ran.stderr
            );
        }
    }
}

#[test]
fn an_inner_run_is_said_and_recorded() {
    let scratch = Scratch::new("events");
    let cwd = scratch.dir("cwd");
    let rules = settings(&scratch, "inner", &json!({ "nested": "inner" }));
    let rules = rules.to_str().expect("ASCII");
    let words = [SRT, "--events", "events", "-s", rules, "--", "true"];
    let ran = Srt::new(&scratch).allow_write(&cwd).run(&words).succeeds();
    assert!(
        ran.stderr
            .contains("`nested` has this run inside a sandbox"),
        "{}",
        ran.stderr
    );
    let events = events(&cwd.join("events"));
    let codes: Vec<_> = events.iter().map(|event| &event["code"]).collect();
    assert_eq!(codes[0], "weakening.nested.inner");
    let start = events
        .iter()
        .find(|event| event["code"] == "lifecycle.run.start")
        .expect("it started");
    assert_eq!(start["enforced"]["namespaces"], json!([]));
    assert_eq!(start["enforced"]["landlock_files"], true);
}

/// Runs the command after a filter that gives one answer to every prctl(2) it does not know.
const FOREIGN_FILTER: &str = r"
import ctypes, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
number = 167 if platform.machine() == 'aarch64' else 157
code = b''.join(struct.pack('=HBBI', *op) for op in [
    (0x20, 0, 0, 0), (0x15, 0, 3, number),
    (0x20, 0, 0, 16), (0x25, 0, 1, 0xffff), (0x06, 0, 0, 0x50000 | int(sys.argv[1])),
    (0x06, 0, 0, 0x7fff0000)])
code = ctypes.create_string_buffer(code, len(code))
program = ctypes.create_string_buffer(struct.pack('HP', len(code) // 8, ctypes.addressof(code)))
assert libc.prctl(22, 2, program, 0, 0) == 0
assert libc.prctl(0x73727401, 0, 0, 0, 0) == -1 and ctypes.get_errno() == int(sys.argv[1])
os.execvp(sys.argv[2], sys.argv[2:])
";

#[test]
fn nothing_outside_makes_a_run_take_itself_for_an_inner_one() {
    let scratch = Scratch::new("forged");
    let whole = |ran: Ran| {
        let ran = ran.succeeds();
        assert_eq!(ran.stdout, "1\n", "{}", ran.stderr);
        assert!(!ran.stderr.contains("inside a sandbox"));
    };
    // The parent of the command is process 1 of the sandbox.
    let words = ["sh", "-c", "ps -o ppid= -p $$ | tr -d ' '"];
    let names = [
        "SANDBOX_RUNTIME",
        "SRT_NESTED",
        "SRT_INNER",
        "SRT_SANDBOX",
        "SRT_TEST_LAYERS",
    ];
    for value in ["1", "inner", "true"] {
        let mut srt = Srt::new(&scratch).top("nested", json!("inner"));
        for name in names {
            srt = srt.env(name, value);
        }
        whole(srt.run(&words));
    }
    for errno in ["1", "38", "22"] {
        let srt = Srt::new(&scratch).top("nested", json!("inner"));
        let command = srt.into_command(&words);
        let filter = ["python3", "-c", FOREIGN_FILTER, errno];
        whole(run(&mut super::harness::wrapped(&filter, &command)));
    }
}

#[test]
fn what_an_inner_run_leaves_behind_ends_with_it() {
    let scratch = Scratch::new("left");
    let rules = settings(&scratch, "inner", &json!({ "nested": "inner" }));
    let rules = rules.display();
    let leave = "(sleep 4321 &) ; setsid sleep 4321 & echo ran";
    let count = "sleep 0.1; cat /proc/[0-9]*/comm | grep -cx sleep";
    let script = format!("{SRT} -q -s {rules} -- sh -c '{leave}'; {count}");
    let ran = Srt::new(&scratch).sh(&script);
    assert_eq!(ran.stdout, "ran\n0\n", "{}", ran.stderr);
    // The control: without the inner run they stay.
    let control = format!("sh -c '{leave}'; {count}");
    assert_eq!(Srt::new(&scratch).sh(&control).stdout, "ran\n2\n");
}

#[test]
fn an_inner_launcher_that_is_killed_takes_its_command_along() {
    let scratch = Scratch::new("killed");
    let cwd = scratch.dir("cwd");
    let rules = json!({ "nested": "inner", "filesystem": { "allowWrite": [cwd] }});
    let rules = settings(&scratch, "inner", &rules);
    let script = format!(
        "{SRT} -q -s {} -- sh -c 'echo > started; sleep 2; echo > survived' & \
         while [ ! -e started ]; do sleep 0.01; done; kill -KILL $!; sleep 3",
        rules.display()
    );
    Srt::new(&scratch).allow_write(&cwd).sh(&script).succeeds();
    assert!(cwd.join("started").exists());
    assert!(!cwd.join("survived").exists());
    assert!(wait_until(|| super::harness::processes_with(
        scratch.marker()
    )
    .is_empty()));
}

#[test]
fn too_many_runs_inside_each_other_are_refused() {
    let scratch = Scratch::new("deep");
    let rules = settings(&scratch, "inner", &json!({ "nested": "inner" }));
    let rules = rules.to_str().expect("ASCII");
    let levels = |count: usize| {
        let mut words = [SRT, "-q", "-s", rules, "--"].repeat(count);
        words.push("true");
        Srt::new(&scratch).run(&words)
    };
    levels(3).succeeds();
    // Landlock has room for 16 layers.
    let ran = levels(17).is_refused("Landlock");
    assert!(ran.stderr.contains("E2BIG"), "{}", ran.stderr);
}

#[test]
fn namespaces_cannot_be_made_inside_an_inner_run() {
    let scratch = Scratch::new("inner-grade");
    let rules = json!({ "nested": "inner", "allowNestedUserNamespaces": "mounts" });
    let rules = settings(&scratch, "inner", &rules);
    let script = "unshare -r true";
    outside(script).succeeds();
    for grade in GRADES {
        graded(&scratch, grade).sh(script).succeeds();
        graded(&scratch, grade).run(&inner(&rules, script)).fails();
    }
}
