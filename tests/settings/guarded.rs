//! What decides over this run and the next cannot be changed by the command.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::harness::{Ran, run};
use super::{User, quoted};

/// Ways to change a file F or to put another in its place; P is its directory.
const ACTS: [&str; 9] = [
    "echo '{ }' > F",
    "echo >> F",
    "truncate -s 1 F",
    "mv F F.old",
    "rm -f F",
    "echo '{ }' > F.new && mv -f F.new F",
    "echo '{ }' > F.other && ln -f F.other F",
    "chmod 606 F",
    "mv P P.old",
];

const THROUGH_A_LINK: &str = "ln -s F L && echo '{ }' > L";

fn act_on(file: &Path, act: &str) -> String {
    let parent = file.parent().expect("it has one").display().to_string();
    let link = format!("{parent}.link");
    let file = file.display().to_string();
    let words = act.split(' ').map(|word| match word {
        "L" => link.clone(),
        word if word.starts_with("F") => word.replacen('F', &file, 1),
        word if word.starts_with("P") => word.replacen('P', &parent, 1),
        word => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// What a change of a file shows in.
fn state(file: &Path) -> Option<(Vec<u8>, u64, u32)> {
    let metadata = file.symlink_metadata().ok()?;
    Some((fs::read(file).ok()?, metadata.ino(), metadata.mode()))
}

/// Starts `srt` as somebody whose settings lie elsewhere, with the whole scratch granted.
fn as_somebody_else(user: &User, script: &str) -> Ran {
    let mut srt = user.srt(&["--allow-write", user.0.marker(), "sh", "-c", script]);
    srt.env("HOME", user.0.dir("nobody"))
        .current_dir(user.0.dir("nobody"));
    run(&mut srt)
}

/// Expects that no act changes the file at `name` for a command that may write around it, and
/// that each does where the file is none of its settings.
fn is_kept(name: &str, file: &str, settings: &str, flags: &[&str]) {
    for act in ACTS.iter().chain(&[THROUGH_A_LINK]) {
        let [control, user] = [(); 2].map(|()| {
            let user = User::new(name);
            user.write(file, settings);
            user
        });
        let path = control.path(file);
        let before = state(&path);
        let ran = as_somebody_else(&control, &act_on(&path, act));
        assert_ne!(
            state(&path),
            before,
            "{act} changes nothing: {}",
            ran.stderr
        );

        let path = user.path(file);
        let before = state(&path);
        let granted = ["--allow-write", user.0.marker()];
        let script = act_on(&path, act);
        let ran = user.run(&[flags, &granted, &["sh", "-c", &script]].concat());
        ran.fails();
        assert_eq!(state(&path), before, "{act}");
        let beside = format!("echo > {}", user.path("beside").display());
        user.run(&[flags, &granted, &["sh", "-c", &beside]].concat())
            .succeeds();
    }
}

#[test]
fn the_file_that_is_named_is_kept() {
    is_kept(
        "kept-named",
        "project/conf/s.json",
        "{}",
        &["-s", "conf/s.json"],
    );
}

#[test]
fn the_files_of_the_user_are_kept() {
    is_kept("kept-user", "home/.srt-settings.json", "{}", &[]);
    is_kept("kept-xdg", "home/.config/srt/settings.json", "{}", &[]);
}

#[test]
fn the_file_of_the_project_is_kept() {
    is_kept("kept-project", "project/.srt.json", "{}", &[]);
}

#[test]
fn the_trust_file_and_profiles_are_kept() {
    let trust = "home/.local/state/srt/trust.json";
    is_kept("kept-trust", trust, r#"{"projects":{}}"#, &[]);
    is_kept(
        "kept-profile",
        "home/.config/srt/profiles/own.json",
        "{}",
        &[],
    );
}

#[test]
fn files_that_count_for_the_next_run_alone_are_kept_too() {
    let user = User::new("kept-later");
    let files = [
        user.settings("{}"),
        user.project("{}"),
        user.write("home/.config/srt/settings.json", "{}"),
    ];
    let named = user.write(
        "ci.json",
        &format!(
            r#"{{"filesystem":{{"allowWrite":[{}]}}}}"#,
            quoted(&user.path(""))
        ),
    );
    for file in &files {
        let script = format!("echo x > {}", file.display());
        let flags = ["-s", named.to_str().expect("UTF-8")];
        user.run(&[&flags[..], &["sh", "-c", &script]].concat())
            .fails();
        assert_eq!(fs::read_to_string(file).expect("it is there"), "{}");
        as_somebody_else(&user, &script).succeeds();
        assert_eq!(fs::read_to_string(file).expect("it is there"), "x\n");
    }
}

#[test]
fn a_profile_of_another_name_cannot_be_added() {
    let user = User::new("kept-directory");
    user.write("home/.config/srt/profiles/own.json", "{}");
    let added = user.path("home/.config/srt/profiles/new.json");
    let script = format!("echo '{{}}' > {}", added.display());
    user.run(&["--allow-write", "~", "sh", "-c", &script])
        .fails();
    assert!(!added.exists());
    as_somebody_else(&user, &script).succeeds();
    assert!(added.exists());
}

/// The file is kept under the name it is found by, and under its own.
#[test]
fn settings_behind_links_are_kept_by_both_names() {
    let cases: [(&str, &str, &[&str]); 4] = [
        ("project/link.json", "../conf/s.json", &["-s", "link.json"]),
        ("project/dir", "../conf", &["-s", "dir/s.json"]),
        ("home/.srt-settings.json", "../conf/s.json", &[]),
        ("project/.srt.json", "../conf/s.json", &[]),
    ];
    for (name, target, flags) in cases {
        for act in [
            "rm -f L",
            "mv L L.old",
            "ln -sfn X L",
            "mv C C.old",
            "echo x > C/s.json",
        ] {
            let [control, user] = [(); 2].map(|()| {
                let user = User::new("kept-link");
                user.write("conf/s.json", "{}");
                symlink(target, user.path(name)).expect("free");
                user
            });
            let script = |user: &User| {
                let conf = user.path("conf").display().to_string();
                let act = act.replace('C', &conf);
                act.replace('L', &user.path(name).display().to_string())
            };
            let stands = |user: &User| {
                let file = fs::read_to_string(user.path("conf/s.json"));
                let link = fs::read_link(user.path(name));
                file.is_ok_and(|text| text == "{}") && link.is_ok_and(|to| to == Path::new(target))
            };
            as_somebody_else(&control, &script(&control)).succeeds();
            assert!(!stands(&control), "{act} changes nothing: no control");
            let granted = ["--allow-write", user.0.marker()];
            let script = script(&user);
            user.run(&[flags, &granted, &["sh", "-c", &script]].concat())
                .fails();
            assert!(stands(&user), "{name}: {act}");
        }
    }
}

#[test]
fn another_name_of_the_file_is_reported() {
    let user = User::new("kept-names");
    let file = user.settings("{}");
    assert!(!user.runs(&[]).shows("hard links"));
    fs::hard_link(&file, user.path("home/other")).expect("free");
    assert!(user.runs(&[]).shows("has 2 names (hard links)"));
}

#[test]
fn verbose_says_that_the_file_lies_in_a_writable_path() {
    let user = User::new("kept-said");
    user.settings("{}");
    let note = ".srt-settings.json lies in a writable path: it is not written during the run";
    let said = |flags: &[&str]| {
        user.run(&[flags, &["true"]].concat())
            .succeeds()
            .shows(note)
    };
    assert!(said(&["-v", "--allow-write", "~"]));
    assert!(!said(&["-v"]) && !said(&["--allow-write", "~"]));
}

/// Starts a command that waits for a line, calls `meanwhile`, and lets it go on.
fn with_a_pause(mut srt: Command, meanwhile: impl FnOnce()) -> Ran {
    let mut child = srt
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is built");
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("it says that it is ready");
    assert_eq!(line, "ready\n");
    meanwhile();
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"go\n").expect("it waits");
    drop(stdin);
    Ran::from(child.wait_with_output().expect("our child"))
}

#[test]
fn settings_replaced_during_the_run_have_no_effect_on_it() {
    let user = User::new("replaced");
    user.write("project/secret", "key");
    let [a, b] = ["a", "b"].map(|dir| user.0.dir(&format!("project/{dir}")));
    let settings = |grant: &str, hide: &str| {
        format!(r#"{{"filesystem":{{"allowWrite":["{grant}"],"denyRead":["{hide}"]}}}}"#)
    };
    let (first, second) = (settings("a", "secret"), settings("b", "a/none"));
    let script = "echo ready; read line; echo > a/x; echo > b/x; cat secret > a/secret";
    let files = || {
        [a.join("x"), b.join("x"), a.join("secret")].map(|file: PathBuf| {
            let content = fs::read_to_string(&file).ok();
            drop(fs::remove_file(&file));
            content.filter(|content| !content.is_empty())
        })
    };
    let written = |text: &str| Some(text.to_owned());
    user.settings(&second);
    with_a_pause(user.srt(&["sh", "-c", script]), || ());
    assert_eq!(files(), [None, written("\n"), None]);
    let changes: [&dyn Fn(&Path); 3] = [
        &|file| fs::write(file, &second).expect("ours"),
        &|file| {
            fs::write(file.with_extension("new"), &second).expect("ours");
            fs::rename(file.with_extension("new"), file).expect("ours");
        },
        &|file| fs::remove_file(file).expect("ours"),
    ];
    for change in changes {
        let file = user.settings(&first);
        with_a_pause(user.srt(&["sh", "-c", script]), || change(&file));
        assert_eq!(files(), [written("\n"), None, None]);
    }
}
