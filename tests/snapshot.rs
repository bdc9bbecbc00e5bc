//! The comparison of the host before and after each run: it notices every kind of change.

mod harness;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use harness::{Killed, Scratch, Srt, Surroundings, outside, run, skip, wait_until};

type Act = fn(&Path);

/// Each kind of change, in a directory with the file `f` and the directory `d`.
const ACTS: [(&str, Act); 16] = [
    ("a new file", |x| write(x, "new", "")),
    ("a placeholder", |x| {
        write(x, "placeholder", "");
        mode(x, "placeholder", 0o444);
    }),
    ("a new directory", |x| {
        fs::create_dir(x.join("n")).expect("free")
    }),
    ("a new link", |x| symlink("f", x.join("l")).expect("free")),
    ("another name", |x| {
        fs::hard_link(x.join("f"), x.join("h")).expect("free")
    }),
    ("a new FIFO", |x| {
        sh(&format!("mkfifo {}/p", x.display()));
    }),
    ("removal", |x| fs::remove_file(x.join("f")).expect("there")),
    ("renaming", |x| {
        fs::rename(x.join("f"), x.join("g")).expect("there")
    }),
    ("replacement by the same", |x| {
        write(x, "g", "content");
        fs::rename(x.join("g"), x.join("f")).expect("there");
    }),
    ("content of the same length", |x| write(x, "f", "CONTENT")),
    ("content with the time put back", |x| {
        let file = fs::File::options().write(true).open(x.join("f"));
        let file = file.expect("there");
        let before = file.metadata().and_then(|meta| meta.modified());
        write(x, "f", "CONTENT");
        file.set_modified(before.expect("there")).expect("ours");
    }),
    ("length", |x| {
        let file = fs::File::options().write(true).open(x.join("f"));
        file.and_then(|file| file.set_len(3)).expect("there");
    }),
    ("mode of a file", |x| mode(x, "f", 0o600)),
    ("mode of a directory", |x| mode(x, "d", 0o700)),
    ("time", |x| {
        let file = fs::File::options().write(true).open(x.join("f"));
        file.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH))
            .expect("there");
    }),
    ("a file that came and went", |x| {
        write(x, "d/passing", "");
        fs::remove_file(x.join("d/passing")).expect("there");
    }),
];

fn write(x: &Path, name: &str, text: &str) {
    fs::write(x.join(name), text).expect("the directory is ours");
}

fn mode(x: &Path, name: &str, mode: u32) {
    fs::set_permissions(x.join(name), Permissions::from_mode(mode)).expect("ours");
}

fn sh(script: &str) {
    outside(script).succeeds();
}

/// Runs `true` and `act` beside it; returns what was said of the host, if anything was.
fn said_of(srt: Srt, act: impl FnOnce()) -> Option<String> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        srt.watched(&["true"], |command| {
            act();
            run(command)
        })
        .succeeds();
    }));
    let said = ran.err()?;
    let said = said.downcast_ref::<String>().expect("it has a message");
    assert!(said.starts_with("the host is not as it was"), "{said}");
    Some(said.clone())
}

/// Makes what the acts change.
fn target(scratch: &Scratch, name: &str) -> std::path::PathBuf {
    scratch.file(&format!("{name}/f"), "content");
    scratch.dir(&format!("{name}/d"));
    let target = scratch.path(name);
    mode(&target, "f", 0o644);
    mode(&target, "d", 0o755);
    target
}

#[test]
fn each_change_that_is_not_granted_is_noticed() {
    for (number, (what, act)) in ACTS.iter().enumerate() {
        let scratch = Scratch::new("noticed");
        let x = target(&scratch, &number.to_string());
        let said = said_of(Srt::new(&scratch), || act(&x));
        let said = said.unwrap_or_else(|| panic!("{what} was not noticed"));
        assert!(said.contains(&x.display().to_string()), "{what}: {said}");
        assert_eq!(said_of(Srt::new(&scratch), || ()), None, "nothing changed");

        let x = target(&scratch, &format!("{number}-granted"));
        let granted = Srt::new(&scratch).allow_write(&x);
        assert_eq!(said_of(granted, || act(&x)), None, "{what}");
        let x = target(&scratch, &format!("{number}-denied"));
        let denied = Srt::new(&scratch)
            .allow_write(&x)
            .deny_write(x.join("d"))
            .deny_write(x.join("f"));
        let inside = [
            "removal",
            "mode",
            "content",
            "length",
            "time",
            "a file that",
        ];
        if inside.iter().any(|start| what.starts_with(start)) {
            assert!(said_of(denied, || act(&x)).is_some(), "{what}");
        }
        let x = target(&scratch, &format!("{number}-excused"));
        let excused = Srt::new(&scratch).host_changes(&x, "the test makes the change itself");
        assert_eq!(said_of(excused, || act(&x)), None, "{what}");
    }
}

#[test]
fn attributes_are_compared() {
    let scratch = Scratch::new("attributes");
    let file = target(&scratch, "x").join("f");
    let script = "import os, sys; os.setxattr(sys.argv[1], 'user.a', b'1')";
    let set = || {
        let mut python = Command::new("python3");
        run(python.args(["-c", script]).arg(&file)).status == 0
    };
    if !set() {
        return skip("files have no attributes on this file system");
    }
    fs::write(&file, "content").expect("ours");
    sh(&format!(
        "python3 -c \"import os; os.removexattr('{}', 'user.a')\"",
        file.display()
    ));
    let said = said_of(Srt::new(&scratch), || assert!(set()));
    assert!(said.expect("noticed").contains("attributes"));
}

#[test]
fn the_times_of_a_directory_may_follow_what_was_made_in_it_alone() {
    let scratch = Scratch::new("parents");
    let work = scratch.dir("work");
    let new = format!("{}/new/", work.display());
    assert_eq!(
        said_of(Srt::new(&scratch).allow_write(&new), || ()),
        None,
        "the launcher made it"
    );
    assert!(work.join("new").is_dir());
    let beside = || write(&work, "beside", "");
    let said = said_of(Srt::new(&scratch).allow_write(&new), beside).expect("noticed");
    assert!(said.contains("beside: new"), "{said}");
}

#[test]
fn what_a_run_could_leave_elsewhere_is_noticed() {
    let scratch = Scratch::new("elsewhere");
    let runs = [scratch.dir("runs")];
    let patience = Duration::from_millis(50);
    let before = Surroundings::seen_by("self", &runs);
    let name = scratch.path("").file_name().map(ToOwned::to_owned);
    let name = name.expect("it has one").to_string_lossy().into_owned();
    let abandoned = scratch.dir(&format!("runs/{name}"));
    let memory = Path::new("/dev/shm").join(&name);
    fs::write(&memory, "").expect("shared memory is there");
    let held = scratch.dir("runs/held");
    let lock = fs::File::open(&held).expect("it was made");
    lock.lock_shared().expect("nobody holds it");
    let mounting = format!(
        "mount -t tmpfs {name} {} && read line",
        scratch.dir("point").display()
    );
    let mut mounting = Command::new("unshare")
        .args(["-rm", "sh", "-c", &mounting])
        .stdin(Stdio::piped())
        .spawn()
        .map(Killed)
        .expect("unshare is installed");
    let pid = mounting.0.id().to_string();
    let seen = || {
        before
            .left_in(&Surroundings::seen_by(&pid, &runs), patience)
            .join("\n")
    };
    let noticed = |what: &str| seen().contains(&format!("{what}: ")) && seen().contains(&name);

    assert!(wait_until(|| noticed("mount")), "{}", seen());
    assert!(noticed("shared memory"), "{}", seen());
    assert!(noticed("directory of a run"), "{}", seen());
    assert!(seen().contains(&abandoned.display().to_string()));
    assert!(
        !seen().contains(&held.display().to_string()),
        "a run that lives"
    );
    drop(mounting.0.stdin.take());
    mounting.end();
    fs::remove_file(memory).expect("ours");

    let made = outside("ipcmk -M 64");
    let Some(id) = made
        .stdout
        .split_whitespace()
        .next_back()
        .filter(|_| made.status == 0)
    else {
        return skip("ipcmk is missing");
    };
    let left = before
        .left_in(&Surroundings::seen_by("self", &runs), patience)
        .join("\n");
    sh(&format!("ipcrm -m {id}"));
    assert!(left.contains("System V object: shm"), "{left}");
}
