//! Each denied path, attacked from namespaces of the command's own.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::harness::{Killed, Ran, Scratch, canary, is_root, probe, run, wait_until};
use super::{GRADES, graded, probes};

/// Attacks that take every cover off that the attacker made itself. Of the others, some act on
/// one kind of cover, and some are refused by the kernel to whoever has no more rights than a
/// namespace gives.
const UNCOVERING: [&str; 13] = [
    "attached-tree",
    "bind",
    "move",
    "move-mount",
    "old-root",
    "overlay",
    "pivot-root",
    "propagation",
    "rbind",
    "setns",
    "tree",
    "umount",
    "umount-lazy",
];

/// Those that open what is closed, and show nothing of what is hidden.
const OPENING: [&str; 4] = ["bind-itself", "rbind-remount", "remount", "setattr"];

/// Those that free a link which the attacker holds itself.
const FREEING: [&str; 9] = [
    "left-tree",
    "move-mount",
    "moved-name",
    "old-root",
    "pivot-root",
    "propagation",
    "setns",
    "umount",
    "umount-lazy",
];

/// Answers of the probe by attack and prey.
type Answers = BTreeMap<(String, String), String>;

fn answers(ran: &Ran) -> Answers {
    let lines = ran.stdout.lines().map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        let mut word = || words.next().expect("three words");
        ((word(), word()), word())
    });
    lines.collect()
}

fn came_through(answers: &Answers) -> Vec<String> {
    let through = answers
        .iter()
        .filter(|(_, answer)| ["read", "wrote", "moved"].contains(&answer.as_str()));
    through
        .map(|((attack, prey), answer)| format!("{attack} {prey}: {answer}"))
        .collect()
}

/// A tree with something hidden and something closed of each kind, links to both, and what stands
/// there.
struct Prey {
    dir: PathBuf,
    secret: String,
}

impl Prey {
    fn new(scratch: &Scratch, name: &str) -> Self {
        let secret = canary();
        let dir = scratch.dir(name);
        for file in [
            "hidden/key",
            "work/hidden-file",
            "work/hidden-directory/key",
        ] {
            scratch.file(&format!("{name}/{file}"), &secret);
        }
        for file in ["work/closed-file", "work/closed-directory/file"] {
            scratch.file(&format!("{name}/{file}"), "closed");
        }
        symlink("closed-directory", dir.join("work/held-link")).expect("the name is free");
        symlink(
            "../../hidden",
            scratch.dir(&format!("{name}/work/deep")).join("held-link"),
        )
        .expect("the name is free");
        Self { dir, secret }
    }

    fn hidden(&self) -> [PathBuf; 3] {
        ["hidden", "work/hidden-file", "work/hidden-directory"].map(|name| self.dir.join(name))
    }

    fn closed(&self) -> [PathBuf; 2] {
        ["work/closed-file", "work/closed-directory"].map(|name| self.dir.join(name))
    }

    fn held(&self) -> [PathBuf; 2] {
        ["work/held-link", "work/deep/held-link"].map(|name| self.dir.join(name))
    }

    fn words(&self) -> Vec<String> {
        let hidden = self.hidden().map(|path| word("hidden", &path));
        let closed = self.closed().map(|path| word("closed", &path));
        let held = self.held().map(|path| word("held", &path));
        hidden.into_iter().chain(closed).chain(held).collect()
    }

    /// Returns every path of the tree with what is in it.
    fn state(&self) -> BTreeSet<(PathBuf, Option<String>)> {
        let mut state = BTreeSet::new();
        let mut ahead = vec![self.dir.clone()];
        while let Some(path) = ahead.pop() {
            if path.is_dir() && !path.is_symlink() {
                let entries = fs::read_dir(&path).expect("it is ours");
                ahead.extend(entries.map(|entry| entry.expect("it is ours").path()));
            }
            let target = fs::read_link(&path).map(|to| to.display().to_string());
            let content = target.or_else(|_| fs::read_to_string(&path)).ok();
            state.insert((path, content));
        }
        state
    }
}

fn word(kind: &str, path: &Path) -> String {
    format!("{kind}={}", path.display())
}

/// Parts of `/proc` and `/sys` that every run hides or closes, where this kernel has them.
fn of_kernel() -> Vec<String> {
    let hidden = [
        "/proc/keys",
        "/proc/timer_list",
        "/proc/kcore",
        "/sys/firmware",
    ];
    let shows = |path: &&str| match Path::new(path).is_dir() {
        true => fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()),
        false => fs::read(path).is_ok_and(|content| !content.is_empty()) && *path != "/proc/kcore",
    };
    let mut words: Vec<_> = hidden
        .iter()
        .filter(|path| shows(path))
        .map(|path| word("hidden", Path::new(path)))
        .collect();
    // Written with what stands there. An ordinary user is refused by the mode.
    if is_root() {
        words.push(word("closed", Path::new("/proc/sys/vm/swappiness")));
    }
    words
}

fn attack(control: &[&str], words: &[String]) -> Vec<OsString> {
    let mut all: Vec<OsString> = vec!["/usr/bin/python3".into(), probe("uncover.py").into()];
    all.extend(control.iter().map(OsString::from));
    all.extend(words.iter().map(OsString::from));
    all
}

#[test]
fn covers_of_ones_own_come_off_by_each_attack() {
    let scratch = Scratch::new("control");
    let prey = Prey::new(&scratch, "prey");
    // An ordinary user may find nothing in them without a sandbox either.
    let of_kernel = of_kernel();
    let words = attack(&["--control"], &[prey.words(), of_kernel.clone()].concat());
    let ran = run(Command::new(&words[0]).args(&words[1..])).succeeds();
    let answers = answers(&ran);
    let of = |attack: &str, path: &Path| {
        let key = (attack.to_owned(), path.display().to_string());
        answers.get(&key).map(String::as_str)
    };
    for attack in UNCOVERING {
        for path in prey.hidden() {
            assert_eq!(of(attack, &path), Some("read"), "{attack} {path:?}");
        }
    }
    for attack in UNCOVERING.into_iter().chain(OPENING) {
        for path in prey.closed() {
            assert_eq!(of(attack, &path), Some("wrote"), "{attack} {path:?}");
        }
    }
    for path in prey.hidden().iter().chain(&prey.closed()) {
        assert_eq!(of("moved-name", path), Some("moved"), "{path:?}");
    }
    for attack in FREEING {
        for path in prey.held() {
            assert_eq!(of(attack, &path), Some("moved"), "{attack} {path:?}");
        }
    }
    // What the table of keys shows changes with time.
    let of_proc = of_kernel
        .iter()
        .filter_map(|word| word.strip_prefix("hidden="));
    for path in of_proc.filter(|path| path.starts_with("/proc/t")) {
        for attack in ["new-proc", "fsopen"] {
            assert_eq!(of(attack, Path::new(path)), Some("read"), "{attack} {path}");
        }
    }
    if is_root() {
        let path = Path::new("/proc/sys/vm/swappiness");
        assert_eq!(of("umount", path), Some("wrote"));
    }
}

#[test]
fn no_attack_uncovers_what_settings_deny() {
    for (grade, makes_mounts) in [("userns", false), ("mounts", true)] {
        let scratch = Scratch::new(grade);
        let prey = Prey::new(&scratch, "prey");
        let before = prey.state();
        let mut srt = graded(&scratch, grade).allow_write(prey.dir.join("work"));
        for path in prey.hidden() {
            srt = srt.deny_read(path);
        }
        let [to_closed, to_hidden] = prey.held();
        srt = srt.deny_read(to_hidden);
        for path in prey.closed().into_iter().chain([to_closed]) {
            srt = srt.deny_write(path);
        }
        let words = [prey.words(), of_kernel()].concat();
        let ran = srt
            .env("PYTHONPATH", probes())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .run(&attack(&[], &words))
            .succeeds();
        let answers = answers(&ran);
        // Where an answer was printed: an attack in a pid namespace may print none.
        assert!(answers.len() >= 28 * words.len(), "{}", answers.len());
        assert_eq!(came_through(&answers), [""; 0], "{grade}");
        assert!(!ran.shows(&prey.secret));
        assert_eq!(prey.state(), before, "{grade}");
        // The attacks were made, and not stopped before: mounting itself works or does not.
        let umounts = answers.iter().filter(|((attack, _), _)| attack == "umount");
        let expected = if makes_mounts { "EINVAL" } else { "EPERM" };
        for ((_, prey), answer) in umounts {
            assert_eq!(answer, expected, "{grade} {prey}");
        }
    }
}

#[test]
fn no_attack_brings_back_what_a_hidden_root_has_no_name_for() {
    let attacked = Path::new("/tmp");
    for grade in GRADES {
        let scratch = Scratch::new("root");
        let secret = canary();
        let file = scratch.file("hidden/key", &secret);
        let around = scratch.path("hidden");
        let relative = file.strip_prefix(attacked).expect("tests work there");
        let words = [
            format!("hidden={}//{}", attacked.display(), relative.display()),
            format!("hidden=/./{}", file.display()),
            format!("hidden={}//hidden/key", scratch.marker()),
            word("hidden", &around),
        ];
        let srt = || {
            let srt = graded(&scratch, grade).deny_read("/").allow_read(".");
            srt.allow_read(probes()).env("PYTHONPATH", probes())
        };
        let ran = srt().run(&attack(&[], &words)).succeeds();
        let answers = answers(&ran);
        assert!(answers.len() >= 60, "{} {}", answers.len(), ran.stderr);
        assert_eq!(came_through(&answers), [""; 0], "{grade}");
        assert!(!ran.shows(&secret));
        assert_eq!(fs::read_to_string(&file).expect("it is there"), secret);
        // The same attacks on what is shown read it: the file is no different.
        let shown = srt().allow_read(&around);
        let ran = shown.run(&attack(&[], &words)).succeeds();
        assert!(
            came_through(&self::answers(&ran)).len() > 5,
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn stores_of_secrets_stay_hidden_and_filtered() {
    let scratch = Scratch::new("stores");
    let secret = canary();
    let whole = scratch.file("home/.aws/credentials", &secret);
    let store = whole.parent().expect("it has one");
    let text = format!("registry=https://example.org\n//example.org/:_authToken={secret}\n");
    let mixed = scratch.file("home/.npmrc", &text);
    let words = [word("hidden", store), word("filtered", &mixed)];
    let control = attack(&["--control"], &words);
    let native = run(Command::new(&control[0]).args(&control[1..])).succeeds();
    for path in [store, &mixed] {
        let key = ("umount".to_owned(), path.display().to_string());
        assert_eq!(answers(&native)[&key], "read", "{path:?}");
    }
    for grade in ["userns", "mounts"] {
        let srt = graded(&scratch, grade).allow_write(scratch.path("home"));
        let ran = srt.env("PYTHONPATH", probes()).run(&attack(&[], &words));
        let ran = ran.succeeds();
        assert_eq!(came_through(&answers(&ran)), [""; 0], "{grade}");
        assert!(!ran.shows(&secret));
    }
    assert_eq!(fs::read_to_string(&mixed).expect("it is there"), text);
    assert_eq!(fs::read_to_string(&whole).expect("it is there"), secret);
}

#[test]
fn settings_and_runs_of_others_stay_covered() {
    let scratch = Scratch::new("ours");
    let secret = canary();
    // A run whose private directory holds a secret.
    let ready = scratch.path("cwd/ready");
    let script = format!(
        "printf {secret} > $TMPDIR/key && printf %s $TMPDIR > {} && sleep 60",
        ready.display()
    );
    let mut other = graded(&scratch, "mounts")
        .allow_write(scratch.path("cwd"))
        .into_command(&["sh", "-c", &script]);
    let mut other = Killed(other.stdin(Stdio::null()).spawn().expect("it was built"));
    assert!(wait_until(
        || fs::read(&ready).is_ok_and(|text| !text.is_empty())
    ));
    let tmpdir = PathBuf::from(fs::read_to_string(&ready).expect("it was written"));
    assert_eq!(
        fs::read_to_string(tmpdir.join("key")).expect("ours"),
        secret
    );
    let runs = tmpdir.parent().expect("RUNS/RUN");
    let below = tmpdir.strip_prefix(runs).expect("RUN").join("key");

    let settings = scratch.path("settings.json");
    let whole = scratch.path(".");
    let hidden = format!("hidden={}//{}", runs.display(), below.display());
    let words = attack(&[], &[hidden, word("closed", &settings)]);
    let text = format!(
        r#"{{"filesystem":{{"allowWrite":[{whole:?}]}},"allowNestedUserNamespaces":"mounts"}}"#
    );
    fs::write(&settings, &text).expect("it is ours");
    let mut command = graded(&scratch, "mounts").into_command(&["true"]);
    command = {
        let mut plain = Command::new(command.get_program());
        plain.current_dir(scratch.path("cwd"));
        plain.env("HOME", scratch.path("home")).env_remove("TMPDIR");
        plain
            .arg("--settings")
            .arg(&settings)
            .arg("--")
            .args(&words);
        plain
    };
    let ran = run(&mut command).succeeds();
    other.end();
    let answers = answers(&ran);
    assert!(answers.len() >= 50, "{}", ran.stderr);
    assert_eq!(came_through(&answers), [""; 0]);
    assert!(!ran.shows(&secret));
    assert_eq!(fs::read_to_string(&settings).expect("it is there"), text);
}
