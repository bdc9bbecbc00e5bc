//! What `srt ctl config show` finds by looking around: hard links and files of variables.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::harness::{Scratch, canary, run};
use super::{ctl, explained, settings, srt, text};

/// Runs `config show` under `content`, as an object.
fn shown(scratch: &Scratch, content: &Value) -> Value {
    let file = settings(scratch, content);
    let ran = ctl(scratch, &["config", "show", "--json", "-s", text(&file)]).succeeds();
    serde_json::from_str(&ran.stdout).expect("it is an object")
}

fn found<'a>(shown: &'a Value, path: &Path) -> Vec<&'a Value> {
    let links = shown["survey"]["hardLinks"].as_array().expect("a list");
    let of = links.iter().filter(|link| link["path"] == text(path));
    of.collect()
}

fn link(from: &Path, to: &Path) {
    fs::hard_link(from, to).expect("one file system, and the name is free");
}

/// What a launch says.
fn warnings(scratch: &Scratch, content: &Value, script: &str) -> (String, String) {
    let file = settings(scratch, content);
    let ran = run(&mut srt(
        scratch,
        &["-s", text(&file), "--", "sh", "-c", script],
    ));
    (ran.stdout, ran.stderr)
}

#[test]
fn a_file_with_a_name_outside_is_found_and_one_with_all_names_inside_is_not() {
    let scratch = Scratch::new("outside-name");
    let work = scratch.dir("work/deep");
    let outside = scratch.file("outside", "outside");
    let (inner, pair) = (work.join("inner"), work.join("pair"));
    link(&outside, &inner);
    fs::write(&pair, "").expect("ours");
    link(&pair, &scratch.path("work/pair"));
    let content = json!({ "filesystem": { "allowWrite": [scratch.path("work")] } });

    let shown = shown(&scratch, &content);
    let links = found(&shown, &inner);
    assert_eq!(links.len(), 1, "{shown}");
    assert_eq!(links[0]["names"], 2);
    assert_eq!(links[0]["deniedAs"], Value::Null);
    assert_eq!(
        shown["survey"]["hardLinks"].as_array().map(Vec::len),
        Some(1),
        "{shown}"
    );
    assert_eq!(shown["survey"]["stoppedAt"], Value::Null);
    // It is true: the name outside is written through the one inside, and no launch walks.
    let script = format!("echo changed > {}", inner.display());
    let (_, said) = warnings(&scratch, &content, &script);
    assert_eq!(
        (fs::read_to_string(&outside).ok().as_deref(), &*said),
        (Some("changed\n"), "")
    );
    // A new name of what lies outside cannot be made.
    let script = format!("ln {} {}/new", outside.display(), work.display());
    let (_, said) = warnings(&scratch, &content, &script);
    assert!(
        said.contains("cross-device") || said.contains("Permission"),
        "{said}"
    );
    assert!(!work.join("new").exists());
}

#[test]
fn another_name_of_what_is_denied_is_found_and_told_by_explain() {
    let scratch = Scratch::new("denied-name");
    let secret = canary();
    let work = scratch.dir("work");
    let key = scratch.file("home/.ssh/id", &secret);
    let netrc = scratch.file("home/.netrc", &secret);
    let kept = scratch.file("work/kept", "kept");
    let hidden = scratch.file("hidden/below/f", &secret);
    for (file, name) in [
        (&key, "key"),
        (&netrc, "net"),
        (&kept, "copy"),
        (&hidden, "h"),
    ] {
        link(file, &work.join(name));
    }
    let content = json!({ "filesystem": {
        "allowWrite": [&work], "denyWrite": [&kept], "denyRead": [scratch.path("hidden")],
    } });

    let shown = shown(&scratch, &content);
    for (file, name) in [
        (&key, "key"),
        (&netrc, "net"),
        (&kept, "copy"),
        (&hidden, "h"),
    ] {
        let links = found(&shown, &work.join(name));
        assert_eq!(links.len(), 1, "{name}: {shown}");
        assert_eq!(links[0]["deniedAs"], text(file));
    }
    let script = format!("cd {}; cat key net h; echo changed > copy", work.display());
    let (out, _) = warnings(&scratch, &content, &script);
    assert_eq!(
        out.matches(&secret).count(),
        3,
        "no other name: nothing to report"
    );
    assert_eq!(fs::read_to_string(&kept).ok().as_deref(), Some("changed\n"));

    let file = settings(&scratch, &content);
    let words = [
        "-s",
        text(&file),
        &format!("path:{}", work.join("net").display()),
    ];
    let notes = explained(&scratch, &words)[0]["notes"].to_string();
    assert!(
        notes.contains("is the same file (a hard link) as"),
        "{notes}"
    );
    let words = [
        "-s",
        text(&file),
        &format!("path:{}", work.join("key").display()),
    ];
    let notes = explained(&scratch, &words)[0]["notes"].to_string();
    assert!(notes.contains("has 2 names (hard links)"), "{notes}");
}

#[test]
fn a_denied_file_whose_other_name_is_nowhere_to_be_seen_is_found() {
    let scratch = Scratch::new("unseen-name");
    let key = scratch.file("home/.ssh/id", "k");
    let same = scratch.file("home/.ssh/a", "k");
    link(&same, &scratch.path("home/.ssh/b"));
    link(&key, &scratch.path("elsewhere"));
    let shown = shown(&scratch, &json!({}));
    let links = found(&shown, &key);
    assert_eq!(links.len(), 1, "{shown}");
    assert_eq!(links[0]["denied"], true);
    assert_eq!(
        shown["survey"]["hardLinks"].as_array().map(Vec::len),
        Some(1),
        "{shown}"
    );
    let text = ctl(&scratch, &["config", "show"]).succeeds().stdout;
    assert!(
        text.contains("is denied and has 2 names, which are not all denied"),
        "{text}"
    );
}

#[test]
fn a_launch_tells_of_other_names_of_files_that_lists_and_stores_name() {
    let scratch = Scratch::new("launch-names");
    let work = scratch.dir("work");
    let netrc = scratch.file("home/.netrc", "n");
    let npmrc = scratch.file("home/.npmrc", "_auth=x\n");
    let granted = scratch.file("granted", "g");
    let denied = scratch.file("work/denied", "d");
    let content = json!({ "filesystem": {
        "allowWrite": [&work, &granted], "denyWrite": [&denied],
    } });
    assert_eq!(warnings(&scratch, &content, "true").1, "");

    link(&netrc, &scratch.path("net"));
    link(&npmrc, &scratch.path("npm"));
    let (_, said) = warnings(&scratch, &content, "true");
    for file in [&netrc, &npmrc] {
        assert!(said.contains(text(file)), "{said}");
    }
    assert_eq!(
        said.matches("has 2 names (hard links): only this one is covered")
            .count(),
        2
    );

    link(&granted, &scratch.path("g2"));
    let (_, said) = warnings(&scratch, &content, "true");
    assert!(
        said.contains("what is written to it changes them all"),
        "{said}"
    );

    // One name granted, another denied.
    fs::remove_file(&granted).expect("ours");
    link(&denied, &granted);
    let (_, said) = warnings(&scratch, &content, "true");
    let same = format!("is the same file (a hard link) as {}", denied.display());
    assert!(said.contains(&same), "{said}");
    // Where all names are denied, there is nothing to say.
    let content = json!({ "filesystem": {
        "allowWrite": [&work], "denyWrite": [&denied, &granted],
    } });
    let (_, said) = warnings(&scratch, &content, "true");
    assert!(
        !said.contains(text(&denied)) && !said.contains("granted"),
        "{said}"
    );
}

#[test]
fn files_of_variables_stay_readable_and_are_named() {
    let scratch = Scratch::new("env-files");
    let secret = canary();
    let cwd = scratch.dir("cwd");
    let named = ["cwd/.env", "cwd/a/b/.env.local", "work/.env.production"];
    let others = [
        "cwd/.env.example",
        "cwd/.envrc",
        "cwd/hidden/.env",
        "elsewhere/.env",
    ];
    for file in named.iter().chain(&others) {
        scratch.file(file, &secret);
    }
    std::os::unix::fs::symlink(scratch.path("elsewhere"), cwd.join("way")).expect("free");
    let content = json!({ "filesystem": {
        "allowWrite": [scratch.path("work")], "denyRead": [cwd.join("hidden")],
    } });

    let shown = shown(&scratch, &content);
    let mut expected: Vec<_> = named.iter().map(|name| scratch.path(name)).collect();
    expected.sort();
    let expected: Vec<_> = expected.iter().map(|path| text(path)).collect();
    assert_eq!(shown["survey"]["envFiles"], json!(expected));
    let (out, _) = warnings(&scratch, &content, "cat .env a/b/.env.local");
    assert_eq!(out, secret.repeat(2), "what is named is readable");
    let said = ctl(&scratch, &["config", "show"]).succeeds().stdout;
    let line = format!("# stays readable: {}/.env\n", cwd.display());
    assert!(said.contains(&line), "{said}");
}

#[test]
fn looking_around_ends_at_a_bound_which_is_said_and_shallow_names_come_first() {
    let scratch = Scratch::new("bound");
    let cwd = scratch.dir("cwd");
    for dir in 0..40 {
        let dir = scratch.dir(&format!("cwd/deep/{dir}"));
        let file = scratch.file("one", "");
        for name in 0..2600 {
            // Names of one file are cheap to make.
            link(&file, &dir.join(name.to_string()));
        }
        fs::remove_file(file).expect("ours");
    }
    scratch.file("cwd/z/.env", "x");
    let start = Instant::now();
    let said = ctl(&scratch, &["config", "show"]).succeeds().stdout;
    assert!(
        start.elapsed() < Duration::from_secs(50),
        "{:?}",
        start.elapsed()
    );
    assert!(
        said.contains("looked at 100000 names and no further"),
        "{said}"
    );
    let line = format!("# stays readable: {}\n", cwd.join("z/.env").display());
    assert!(said.contains(&line), "{said}");
}
