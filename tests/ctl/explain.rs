//! Each verdict with its rule, held against what a run does.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use super::harness::{Scratch, run};
use super::{ctl, explained, is_allowed, settings, srt, text};

/// A tree with a file `f` in each directory, and settings with every list.
pub(super) fn world(scratch: &Scratch) -> Value {
    for dir in ["open", "hidden/shown", "hidden", "w/kept", "w"] {
        scratch.file(&format!("cwd/{dir}/f"), "content");
    }
    scratch.file("cwd/w/key", "content");
    json!({
        "network": { "allowedDomains": ["*.b.example:443"], "deniedDomains": ["c.example"] },
        "filesystem": {
            "denyRead": ["hidden"], "allowRead": ["hidden/shown"],
            "allowWrite": ["w"], "denyWrite": ["w/kept"],
        },
        "credentials": { "files": [{ "path": "w/key", "mode": "deny" }] },
    })
}

/// Act, target, status, and a part of what is said.
const VERDICTS: &str = "\
read path:CWD/hidden/f 1 filesystem.denyRead `hidden` (FILE:4:32)
read path:CWD/hidden/shown/f 0 filesystem.allowRead `hidden/shown` (FILE:4:57)
read path:CWD/open/f 0 no rule hides it, and reading is open
read path:CWD/w/key 1 credentials.files[].path `w/key` (FILE:6:40)
write path:CWD/w/f 0 filesystem.allowWrite `w` (FILE:5:20)
write path:CWD/w/new/deep 0 filesystem.allowWrite `w` (FILE:5:20)
write path:CWD/w/kept/f 1 filesystem.denyWrite `w/kept` (FILE:5:40)
write path:CWD/open/f 1 no entry of filesystem.allowWrite covers it
write path:/sys/kernel 1 filesystem.denyWrite `/sys` (built in)
write path:/dev/null 0 a sandbox has /dev and /proc of its own
write path:/dev/sda 1 a sandbox has /dev and /proc of its own
read path:/dev/../etc/passwd 0 no rule hides it, and reading is open
read path:/proc/kcore 1 a sandbox has /dev and /proc of its own
write path:FILE 1 filesystem.denyWrite `FILE` (built in)
connect host:a.b.example:443 0 network.allowedDomains `*.b.example:443` (FILE:2:35)
connect host:a.b.example 0 note: no port was given: 443 is taken
connect host:a.b.example 0 metadata and this host's own addresses
connect host:a.b.example:80 1 no entry of network.allowedDomains covers it
connect host:b.example:443 1 `*.b.example:443` of network.allowedDomains (FILE:2:35) does not cover b.example itself
connect host:c.example:443 1 network.deniedDomains `c.example` (FILE:3:23)
connect host:192.0.2.7:22 0 network.allowedDomains `192.0.2.0/24` (FILE:2:54)
connect host:10.1.2.3:22 1 10.1.2.3 is a private address
connect host:build:80 1 `build` alone cannot be listed
connect socket:/run/no.sock 1 to allow it: add `/run/no.sock` to network.allowUnixSockets
connect socket:CWD/hidden/f 1 filesystem.denyRead `hidden` (FILE:4:32)
connect socket:/dev/log 1 a sandbox has /dev and /proc of its own
connect socket:/srv/a/b.sock 0 network.allowUnixSockets `/srv/a` (FILE:3:
";

#[test]
fn every_verdict_names_the_rule_and_its_place() {
    let scratch = Scratch::new("rules");
    world(&scratch);
    let file = scratch.file(
        "s.json",
        r#"{
  "network": { "allowedDomains": ["*.b.example:443", "192.0.2.0/24"],
    "deniedDomains": ["c.example"], "allowUnixSockets": ["/srv/a"] },
  "filesystem": { "denyRead": ["hidden"], "allowRead": ["hidden/shown"],
    "allowWrite": ["w"], "denyWrite": ["w/kept"] },
  "credentials": { "files": [{ "path": "w/key", "mode": "deny" }] }
}"#,
    );
    let cwd = scratch.path("cwd");
    let (cwd, file) = (text(&cwd), text(&file));
    let table = VERDICTS.lines().map(|line| {
        let mut words = line.splitn(4, ' ');
        [(); 4].map(|()| words.next().expect("a line has four parts"))
    });
    for [act, target, status, reason] in table {
        let status: i32 = status.parse().expect("a number");
        let target = target.replace("CWD", cwd).replace("FILE", file);
        let reason = reason.replace("FILE", file);
        let mut words = vec!["explain", "-s", file, &target];
        words.extend((act == "write").then_some("--write"));
        let ran = ctl(&scratch, &words);
        assert_eq!(
            (ran.status, ran.stderr.as_str()),
            (status, ""),
            "{target}: {ran:?}"
        );
        let verdict = if status == 0 { "allowed" } else { "denied" };
        let first = format!("{verdict}: {act} ");
        assert!(ran.stdout.starts_with(&first), "{target}: {}", ran.stdout);
        assert!(
            ran.stdout.contains(&reason),
            "{target}: {reason}: {}",
            ran.stdout
        );
    }
}

#[test]
fn a_link_that_is_held_is_named() {
    let scratch = Scratch::new("held");
    scratch.file("cwd/w/real", "content");
    for name in ["denied", "free"] {
        symlink("real", scratch.path("cwd/w").join(name)).expect("the name is free");
    }
    let file = settings(
        &scratch,
        &json!({ "filesystem": { "allowWrite": ["w"], "denyWrite": ["w/denied"] } }),
    );
    let explain = |name: &str| {
        let target = format!("path:{}", text(&scratch.path("cwd/w").join(name)));
        let words = ["explain", "-s", text(&file), "--write", &target];
        let ran = ctl(&scratch, &words);
        assert_eq!(ran.status, 1, "{}", ran.stderr);
        ran.stdout
    };
    let held = "w/denied is held in its place: a command can neither remove nor replace it";
    assert!(explain("denied").contains(held), "{}", explain("denied"));
    assert!(!explain("free").contains("is held"), "{}", explain("free"));
}

#[test]
fn the_changes_that_are_named_turn_the_verdict() {
    let scratch = Scratch::new("changes");
    let world = world(&scratch);
    let cwd = scratch.path("cwd");
    let path = |name: &str| format!("path:{}", text(&cwd.join(name)));
    let targets = [
        (path("open/f"), "read"),
        (path("open/f"), "write"),
        (path("hidden/f"), "read"),
        (path("hidden/shown/f"), "read"),
        (path("w/f"), "write"),
        (path("w/kept/f"), "write"),
        (path("w/key"), "read"),
        ("host:a.b.example:443".to_owned(), "connect"),
        ("host:b.example:443".to_owned(), "connect"),
        ("host:c.example:443".to_owned(), "connect"),
        ("host:d.example:8080".to_owned(), "connect"),
    ];
    for (target, act) in targets {
        let mut content = world.clone();
        let ask = |content: &Value| {
            let file = settings(&scratch, content);
            let mut words = vec!["-s", text(&file), &target];
            words.extend((act == "write").then_some("--write"));
            explained(&scratch, &words).remove(0)
        };
        let before = ask(&content);
        let changes = before["changes"].as_array().expect("a list");
        assert!(!changes.is_empty(), "{before}");
        for change in changes {
            apply(&mut content, change);
        }
        assert_ne!(is_allowed(&before), is_allowed(&ask(&content)), "{before}");
    }
}

/// Does to settings what a change says.
fn apply(settings: &mut Value, change: &Value) {
    let key = change["key"].as_str().expect("a key");
    let list = key
        .trim_end_matches("[].path")
        .split('.')
        .fold(settings, |at, name| &mut at[name]);
    let list = list.as_array_mut().expect("the key is a list");
    match change["action"].as_str() {
        Some("add") => list.push(change["entry"].clone()),
        Some("remove") => {
            let before = list.len();
            list.retain(|entry| *entry != change["entry"] && entry["path"] != change["entry"]);
            assert_eq!(list.len() + 1, before, "{change}");
        }
        other => panic!("{other:?} is no action"),
    }
}

#[test]
fn flags_count_and_are_named_as_typed() {
    let scratch = Scratch::new("flags");
    let table: [(&[&str], i32, &str); 5] = [
        (
            &["--allow-domain", "a.example", "host:a.example:443"],
            0,
            "by --allow-domain `a.example` (command line)",
        ),
        (
            &[
                "--no-network",
                "--allow-domain",
                "a.example",
                "host:a.example:443",
            ],
            1,
            "leave out --deny-domain `*`, or --no-network",
        ),
        (
            &["--deny-read", "/etc", "path:/etc/passwd"],
            1,
            "by --deny-read `/etc` (command line)",
        ),
        (
            &["host:a.example:8080"],
            1,
            "or for one run --allow-domain a.example:8080",
        ),
        (&["path:/a b"], 0, "or for one run --deny-read '/a b'"),
    ];
    for (words, status, expected) in table {
        let words: Vec<_> = ["explain"].iter().chain(words).copied().collect();
        let ran = ctl(&scratch, &words);
        assert_eq!(ran.status, status, "{words:?}: {ran:?}");
        assert!(ran.stdout.contains(expected), "{words:?}: {}", ran.stdout);
    }
}

#[test]
fn of_several_targets_one_that_is_denied_is_a_no() {
    let scratch = Scratch::new("several");
    let ran = ctl(&scratch, &["explain", "path:/etc/passwd", "path:/usr"]).succeeds();
    assert_eq!(ran.stdout.matches("allowed: read").count(), 2);
    let ran = ctl(
        &scratch,
        &["explain", "path:/usr", "host:a.example", "path:/etc"],
    );
    assert_eq!(ran.status, 1, "{ran:?}");
    let first = ran.stdout.lines().filter(|line| !line.starts_with(' '));
    let words: Vec<_> = first
        .map(|line| line.split(':').next().unwrap_or_default())
        .collect();
    assert_eq!(words, ["allowed", "denied", "allowed"]);
}

#[test]
fn what_cannot_be_asked_is_an_error_with_a_remedy() {
    let scratch = Scratch::new("bad");
    let bad = scratch.file("bad.json", r#"{ "filesystem": { "denyReed": [] } }"#);
    let pattern = scratch.file(
        "pattern.json",
        r#"{ "filesystem": { "denyRead": ["[.key"] } }"#,
    );
    let table: [(&[&str], &str, &str); 12] = [
        (&[], "nothing is asked for", "path:/x"),
        (&[""], "names no kind", "path:/x"),
        (
            &["path:src"],
            "is not absolute",
            &format!("path:{}", text(&scratch.path("cwd/src"))),
        ),
        (&["socket:x.sock"], "is not absolute", "socket:"),
        (&["path:"], "is empty", "path:/x"),
        (&["dir:/x"], "no kind of target `dir`", "path:/x"),
        (&["host:a..example"], "empty label", "host:example.org:443"),
        (
            &["host:https://a.example/x"],
            "cannot take",
            "host:a.example:443",
        ),
        (
            &["path:/etc", "host:"],
            "the host is empty",
            "host:example.org:443",
        ),
        (
            &["--write", "host:a.example"],
            "--write is about paths",
            "path:/x",
        ),
        (
            &["-s", text(&bad), "path:/x"],
            "did you mean `denyRead`?",
            "",
        ),
        (
            &["-s", text(&pattern), "path:/x"],
            "bracket without its other",
            "literal",
        ),
    ];
    for (words, reason, remedy) in table {
        let words: Vec<_> = ["explain"].iter().chain(words).copied().collect();
        let ran = ctl(&scratch, &words);
        assert_eq!(
            (ran.status, ran.stdout.as_str()),
            (2, ""),
            "{words:?}: {ran:?}"
        );
        assert!(ran.stderr.contains(reason), "{words:?}: {}", ran.stderr);
        let hint = ran.stderr.split_once("hint: ").map_or("", |(_, hint)| hint);
        assert!(hint.contains(remedy), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn settings_that_stop_a_run_are_explained_and_said_to() {
    let scratch = Scratch::new("unbuilt");
    let file = settings(
        &scratch,
        &json!({ "filesystem": { "privateTmp": true }, "network": { "allowedDomains": ["a.example"] } }),
    );
    let ran = ctl(&scratch, &["explain", "-s", text(&file), "host:a.example"]).succeeds();
    assert!(
        ran.stderr.contains("a run stops with these settings"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("filesystem.privateTmp"),
        "{}",
        ran.stderr
    );
    run(&mut srt(&scratch, &["-s", text(&file), "true"])).is_refused("filesystem.privateTmp");
}

#[test]
fn hosts_are_explained_where_rules_for_files_stop_a_run() {
    let scratch = Scratch::new("hosts-only");
    let file = settings(
        &scratch,
        &json!({
            "filesystem": { "denyRead": ["[.key"] },
            "network": { "allowedDomains": ["a.example"] },
        }),
    );
    let words = ["explain", "-s", text(&file), "host:a.example"];
    let ran = ctl(&scratch, &words).succeeds();
    assert!(ran.stderr.contains("bracket without its other"), "{ran:?}");
    let both = ["explain", "-s", text(&file), "host:a.example", "path:/x"];
    assert_eq!(ctl(&scratch, &both).status, 2);
}

#[test]
fn rules_of_every_layer_are_told_apart() {
    let scratch = Scratch::new("layers");
    let user = scratch.file(
        "home/.srt-settings.json",
        r#"{"filesystem":{"allowWrite":["."]}}"#,
    );
    scratch.dir("cwd/src");
    let project = scratch.file(
        "cwd/.srt.json",
        r#"{"filesystem":{"allowWrite":["src"],"denyRead":["src/key"]}}"#,
    );
    scratch.file("cwd/src/key", "x");
    let cwd = scratch.path("cwd");
    let path = |name: &str| format!("path:{}", text(&cwd.join(name)));
    let ask = |words: &[&str]| {
        let words: Vec<_> = ["explain"].iter().chain(words).copied().collect();
        ctl(&scratch, &words)
    };

    let ran = ask(&[&path("src/key")]);
    let place = format!("filesystem.denyRead `src/key` ({}:1:", text(&project));
    assert!(ran.stdout.contains(&place), "{ran:?}");
    let outside_src = path("new");
    let ran = ask(&["--write", &outside_src]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.stderr.contains("is narrowed to"), "{ran:?}");
    let ran = ask(&["--write", &path("src/new")]).succeeds();
    assert!(ran.stdout.contains(text(&user)), "{ran:?}");

    ctl(&scratch, &["trust", "--yes"]).succeeds();
    let ran = ask(&["--write", &outside_src]).succeeds();
    assert!(ran.stdout.contains(text(&user)), "{ran:?}");
    let ran = ask(&["--write", &path("src/new")]).succeeds();
    assert!(ran.stdout.contains(text(&project)), "{ran:?}");
    let own = ask(&["--write", &path(".srt.json")]);
    assert!(own.stdout.contains("(built in)"), "{own:?}");
    assert!(own.stdout.contains("to allow it: no entry does"), "{own:?}");
}

#[test]
fn objects_have_the_documented_fields() {
    let scratch = Scratch::new("json");
    let world = world(&scratch);
    let file = settings(&scratch, &world);
    let hidden = scratch.path("cwd/hidden/f");
    let target = format!("path:{}", text(&hidden));
    let said = explained(&scratch, &["-s", text(&file), &target, "host:x.example:80"]);
    let rule = &said[0]["rule"];
    assert!(rule["line"].is_u64() && rule["column"].is_u64(), "{rule}");
    let mut expected = json!({
        "v": 1, "kind": "path", "act": "read", "target": text(&hidden), "verdict": "denied",
        "rule": {
            "key": "filesystem.denyRead", "entry": "hidden", "layer": "--settings",
            "file": text(&file), "line": rule["line"], "column": rule["column"],
        },
        "reason": null,
        "changes": [{
            "action": "add", "key": "filesystem.allowRead", "entry": text(&hidden),
            "literal": false,
        }],
        "notes": [],
    });
    assert_eq!(said[0], expected);
    expected = json!({
        "v": 1, "kind": "host", "act": "connect", "target": "x.example:80",
        "verdict": "denied", "rule": null,
        "reason": "no entry of network.allowedDomains covers it",
        "changes": [{
            "action": "add", "key": "network.allowedDomains", "entry": "x.example:80",
            "literal": false,
        }],
        "notes": [],
    });
    assert_eq!(said[1], expected);
}

#[test]
fn switches_that_end_all_rules_are_the_rule() {
    let scratch = Scratch::new("switches");
    let file = scratch.file(
        "s.json",
        r#"{ "network": { "mode": "open" }, "filesystem": { "disabled": true } }"#,
    );
    let open = ["explain", "-s", text(&file), "host:a.example:80"];
    let ran = ctl(&scratch, &open).succeeds();
    let place = format!("network.mode `\"open\"` ({}:1:", text(&file));
    assert!(ran.stdout.contains(&place), "{ran:?}");
    let open = ["explain", "-s", text(&file), "--write", "path:/var/x"];
    let ran = ctl(&scratch, &open).succeeds();
    let place = format!("filesystem.disabled `true` ({}:1:", text(&file));
    assert!(ran.stdout.contains(&place), "{ran:?}");
    let kernel = ["explain", "-s", text(&file), "--write", "path:/sys/kernel"];
    assert_eq!(ctl(&scratch, &kernel).status, 1);
}

#[test]
fn directories_of_other_runs_are_hidden() {
    let scratch = Scratch::new("runs");
    let uid = nix::unistd::geteuid();
    let file = scratch.file(&format!("tmp/srt-{uid}/other/f"), "x");
    let target = format!("path:{}", text(&file));
    let mut command = srt(&scratch, &["ctl", "explain", &target]);
    let ran = run(command.env("TMPDIR", scratch.path("tmp")));
    assert_eq!(ran.status, 1, "{ran:?}");
    let rule = format!("filesystem.denyRead `{}", text(&scratch.path("tmp")));
    assert!(ran.stdout.contains(&rule), "{ran:?}");
    ctl(&scratch, &["explain", &target]).succeeds();
}

#[test]
fn names_that_are_not_text_are_explained_too() {
    use std::os::unix::ffi::OsStrExt;
    let scratch = Scratch::new("bytes");
    let mut command = srt(&scratch, &["ctl", "explain"]);
    command.arg(std::ffi::OsStr::from_bytes(b"path:/tmp/\xff\x1b[2J"));
    let ran = run(&mut command).succeeds();
    assert!(!ran.stdout.contains('\x1b'), "{:?}", ran.stdout);
    assert!(ran.stdout.contains("to deny it: no entry does"), "{ran:?}");
    assert!(Path::new("/tmp").exists());
}

#[test]
fn a_hidden_file_that_git_tracks_has_a_copy() {
    let scratch = Scratch::new("tracked");
    world(&scratch);
    let file = settings(
        &scratch,
        &json!({ "filesystem": { "denyRead": ["hidden"] } }),
    );
    let notes = |path: &str| {
        let path = format!("path:{}", scratch.path("cwd").join(path).display());
        let said = explained(&scratch, &["-s", text(&file), &path]);
        said[0]["notes"].to_string()
    };
    assert!(!notes("hidden/f").contains("tracked by git"));
    for words in ["init -q", "add hidden/f open/f"] {
        let mut git = std::process::Command::new("git");
        let git = git.current_dir(scratch.path("cwd")).args(words.split(' '));
        run(git).succeeds();
    }
    assert!(notes("hidden/f").contains("tracked by git"));
    assert!(!notes("open/f").contains("tracked by git"));
    assert!(!notes("hidden/shown/f").contains("tracked by git"));
}
