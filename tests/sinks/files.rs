//! Files of events: what is no file, rotation, several runs in one, files that are moved away.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::harness::{Scratch, Srt, nothing_runs_in, outside, run, skip, wait_until, wrapped};
use super::{DENIED, accounted, denied, events, hosts, srt};

#[test]
fn every_sink_gets_every_event() {
    let scratch = Scratch::new("several");
    let [one, two, three] = ["one", "two", "three"].map(|name| scratch.path(name));
    let listed = json!([
        { "type": "file", "path": one },
        { "type": "file", "path": two, "chain": true },
        // The same file once more is one sink.
        { "type": "file", "path": one },
    ]);
    let srt = srt(&scratch, &listed)
        .events(&three)
        .events(scratch.path("four"));
    denied(srt, 100).succeeds();
    let mut of_all = Vec::new();
    for file in [one, two, three, scratch.path("four")] {
        let mut events = events(&file);
        assert_eq!(hosts(&events), 100, "{}", file.display());
        let mode = fs::metadata(&file)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        for event in &mut events {
            event.as_object_mut().expect("an object").remove("prev");
        }
        of_all.push(events);
    }
    assert!(of_all.iter().all(|events| *events == of_all[0]));
}

#[test]
fn what_is_no_file_to_append_to_ends_the_launch_with_a_remedy() {
    let scratch = Scratch::new("no-file");
    let target = scratch.file("target", "");
    symlink(&target, scratch.path("link")).expect("the directory is ours");
    scratch.dir("directory");
    outside(&format!("mkfifo {}", scratch.path("fifo").display())).succeeds();
    let table = [
        ("link", "ELOOP", "it is a link"),
        ("directory", "EISDIR", "name a plain file"),
        ("fifo", "ENXIO", "start its reader"),
        ("gone/file", "ENOENT", "name a plain file"),
    ];
    for (name, errno, remedy) in table {
        let path = scratch.path(name);
        let ran = run(&mut Srt::new(&scratch).events(&path).into_command(&["true"]));
        let ran = ran.is_refused(errno);
        assert!(ran.stderr.contains(remedy), "{}", ran.stderr);

        let control = scratch.path("control");
        let listed = json!([{ "type": "file", "path": path }]);
        let srt = srt(&scratch, &listed).events(&control);
        let ran = run(&mut srt.into_command(&["true"])).is_refused(errno);
        assert!(
            ran.stderr.contains("settings-"),
            "where it stands: {}",
            ran.stderr
        );
        let refused = events(&control).pop().expect("the other sink is told");
        assert_eq!(refused["code"], "lifecycle.run.refused");
    }
    let slash = format!("{}/", target.display());
    run(&mut Srt::new(&scratch).events(slash).into_command(&["true"])).is_refused("ENOTDIR");
    assert_eq!(fs::read_to_string(target).expect("it is there"), "");
}

#[test]
fn settings_that_cannot_be_read_are_recorded() {
    let scratch = Scratch::new("unreadable");
    let broken = scratch.file("broken.json", "{ \"nework\": {} }");
    let file = scratch.path("events");
    let mut srt = Command::new(env!("CARGO_BIN_EXE_srt"));
    srt.arg("-s")
        .arg(broken)
        .arg("--events")
        .arg(&file)
        .arg("true");
    run(&mut srt).is_refused("nework");
    let events = events(&file);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["code"], "lifecycle.run.refused");
}

#[test]
fn a_dry_run_opens_no_sink() {
    let scratch = Scratch::new("dry");
    let file = scratch.path("events");
    let listed = json!([{ "type": "file", "path": file }, { "type": "syslog", "path": "/gone" }]);
    let flags = ["--dry-run", "--events-chain"];
    let dry = srt(&scratch, &listed)
        .events(scratch.path("flag"))
        .flags(&flags);
    run(&mut dry.into_command(&["true"])).succeeds();
    assert!(!file.exists() && !scratch.path("flag").exists());
}

#[test]
fn a_file_that_grows_too_large_is_rotated_and_no_line_is_lost() {
    let scratch = Scratch::new("rotate");
    let (file, rotated) = (scratch.path("events"), scratch.path("events.1"));
    let victim = scratch.file("victim", "victim\n");
    symlink(&victim, &rotated).expect("the directory is ours");
    let listed = json!([{ "type": "file", "path": file, "maxSize": "20K" }]);
    denied(srt(&scratch, &listed), 80).succeeds();
    assert_eq!(
        fs::read_to_string(&victim).expect("it is there"),
        "victim\n"
    );
    for path in [&file, &rotated] {
        let meta = fs::symlink_metadata(path).expect("it was rotated");
        assert!(meta.is_file() && meta.len() <= 20 << 10, "{}", meta.len());
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    }
    let all = [events(&rotated), events(&file)].concat();
    assert_eq!(hosts(&all), 80);
    let numbered = (0..all.len()).all(|at| all[at]["seq"] == at);
    assert!(numbered, "the sequence has no gap");
    let left = outside(&format!("ls {}", scratch.marker())).stdout;
    assert!(!left.contains(".new"), "{left}");
}

#[test]
fn a_file_that_cannot_be_rotated_grows_on_and_that_is_said_once() {
    let scratch = Scratch::new("rotate-not");
    let file = scratch.path("events");
    scratch.dir("events.1/in-the-way");
    let listed = json!([{ "type": "file", "path": file, "maxSize": "4K" }]);
    let ran = denied(srt(&scratch, &listed), 80).succeeds();
    assert_eq!(
        ran.stderr.matches("cannot rotate").count(),
        1,
        "{}",
        ran.stderr
    );
    assert_eq!(hosts(&events(&file)), 80);
}

#[test]
fn runs_that_write_one_file_mix_and_lose_no_line_and_keep_its_chain() {
    let scratch = Scratch::new("one-file");
    let file = scratch.path("events");
    let listed = json!([{ "type": "file", "path": file, "chain": true, "maxSize": "500K" }]);
    let runs: Vec<_> = (0..3)
        .map(|_| {
            let words = ["python3", "-c", DENIED, "500"];
            let mut command = srt(&scratch, &listed).into_command(&words);
            let command = command.stdin(Stdio::null()).stderr(Stdio::null());
            command.spawn().expect("srt is built")
        })
        .collect();
    for mut run in runs {
        assert!(run.wait().expect("it is our child").success());
    }
    let rotated = scratch.path("events.1");
    let all = [events(&rotated), events(&file)].concat();
    let mut runs: Vec<_> = all.iter().map(|event| event["run"].clone()).collect();
    runs.sort_unstable_by_key(Value::to_string);
    runs.dedup();
    assert_eq!(runs.len(), 3);
    for id in runs {
        let of_run: Vec<_> = all
            .iter()
            .filter(|event| event["run"] == id)
            .cloned()
            .collect();
        assert_eq!(hosts(&of_run), 500);
        assert!((0..of_run.len()).all(|at| of_run[at]["seq"] == at));
    }
    let mut verify = Command::new(env!("CARGO_BIN_EXE_srt"));
    let ran = run(verify.args(["ctl", "audit", "verify"]).arg(&file)).succeeds();
    assert!(ran.shows("lines hold; the last is "), "{}", ran.stdout);
}

#[test]
fn a_file_that_is_moved_away_is_opened_again_by_its_name() {
    let scratch = Scratch::new("moved");
    let work = scratch.dir("work");
    let (file, moved) = (scratch.path("events"), scratch.path("moved"));
    let listed = json!([{ "type": "file", "path": file }]);
    let script = "curl -s http://before.test/; touch ready; until test -e go; do sleep 0.02; done; \
                  curl -s http://after.test/; true";
    let srt = srt(&scratch, &listed).allow_write(&work).current_dir(&work);
    let mut command = srt.into_command(&["sh", "-c", script]);
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().expect("srt is built");
    assert!(wait_until(|| work.join("ready").exists()));
    fs::rename(&file, &moved).expect("it is ours");
    fs::write(work.join("go"), "").expect("it is ours");
    assert!(child.wait().expect("it is our child").success());
    let of = |file| fs::read_to_string(file).expect("it is there");
    assert!(of(&moved).contains("before.test:80"));
    assert!(of(&file).contains("after.test:80"));
    assert!(!of(&moved).contains("after.test:80"));
    nothing_runs_in(&scratch);
}

/// The command can read the file, and whoever can read it can lock it.
#[test]
fn a_command_that_holds_the_lock_hides_nothing() {
    let scratch = Scratch::new("locked");
    let work = scratch.dir("work");
    let file = work.join("events");
    let listed = json!([{ "type": "file", "path": file }]);
    let script = "exec 9<events; flock -x 9; python3 -c \"$0\" 50; sleep 0.6; flock -u 9";
    let srt = srt(&scratch, &listed).allow_write(&work).current_dir(&work);
    let ran = run(&mut srt.into_command(&["sh", "-c", script, DENIED])).succeeds();
    assert_eq!(
        ran.stderr.matches("holds the lock").count(),
        1,
        "{}",
        ran.stderr
    );
    assert_eq!(hosts(&events(&file)), 50);
}

#[test]
fn a_full_disk_cuts_no_line_and_what_is_lost_is_counted() {
    let scratch = Scratch::new("full");
    let small = scratch.dir("small");
    let file = small.join("events");
    let copy = scratch.path("copy");
    let listed = json!([{ "type": "file", "path": file }]);
    let words = ["python3", "-c", DENIED, "200"];
    let srt = srt(&scratch, &listed).into_command(&words);
    let script = format!(
        "mount -t tmpfs -o size=16k t {small} && \"$0\" \"$@\" && cp {file} {copy}",
        small = small.display(),
        file = file.display(),
        copy = copy.display()
    );
    let ran = run(&mut wrapped(&["unshare", "-rm", "sh", "-c", &script], &srt));
    if ran.stderr.contains("unshare: ") {
        return skip("this user cannot make a mount namespace");
    }
    let ran = ran.succeeds();
    let kept = events(&copy);
    assert!(hosts(&kept) > 10, "{}", kept.len());
    assert_eq!(accounted(&kept, &ran), 202, "{}", ran.stderr);
}
