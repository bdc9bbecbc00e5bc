//! `srt ctl trust`: whose word lets a project's file widen.

use std::fs;
use std::process::Command;

use super::User;
use super::harness::{Ran, probe, run, wrapped};

/// Runs `srt ctl trust` on a terminal and answers what it asks.
fn on_a_terminal(user: &User, answer: &str) -> Ran {
    let answer = format!("type:{answer}\\n");
    let probe = probe("terminal.py");
    let probe = probe.to_str().expect("UTF-8");
    let words = ["python3", probe, "see:[y/N]", &answer, "--"];
    run(&mut wrapped(&words, &user.srt(&["ctl", "trust"])))
}

fn granted(user: &User) -> bool {
    user.writes(&[], "project/a/x")
}

fn with_a_grant(name: &str) -> User {
    let user = User::new(name);
    user.0.dir("project/a");
    user.project("{\"filesystem\":{\"allowWrite\":[\"a\"]}} // for the build\n");
    user
}

#[test]
fn trust_is_asked_for_on_a_terminal_and_no_is_no() {
    let user = with_a_grant("asks");
    assert!(!granted(&user));
    for no in ["", "n", "yellow"] {
        let ran = on_a_terminal(&user, no);
        assert_eq!(ran.status, 1, "{}", ran.stdout);
        assert!(
            ran.shows("// for the build"),
            "the text is shown: {}",
            ran.stdout
        );
        assert!(!granted(&user), "{no:?}");
    }
    on_a_terminal(&user, "y").succeeds();
    assert!(granted(&user));
}

#[test]
fn a_project_nobody_trusts_may_close_reading_and_shows_no_more_than_itself() {
    let user = User::new("closes");
    for name in ["project/own", "project/kept", "other/file", "home/notes"] {
        user.write(name, "text\n");
    }
    let reads = |name| user.reads(&[], name);
    assert!(reads("project/own") && reads("other/file") && reads("home/notes"));
    let grants = r#"".", "../other", "kept", "~/notes""#;
    for closing in [
        format!(r#"{{"filesystem":{{"denyRead":["/"],"allowRead":[{grants}]}}}}"#),
        r#"{"extends":["read-closed"]}"#.to_owned(),
    ] {
        user.project(&closing);
        user.settings("{}");
        assert!(reads("project/own") && reads("project/kept"), "{closing}");
        assert!(!reads("other/file") && !reads("home/notes"), "{closing}");
        // What the user hides stays hidden.
        user.settings(r#"{"filesystem":{"denyRead":["../project/kept"]}}"#);
        assert!(reads("project/own") && !reads("project/kept"), "{closing}");
        user.settings(r#"{"filesystem":{"denyRead":["/"],"allowRead":["../project/own"]}}"#);
        let ran = user.run(&["true"]);
        ran.is_refused("is hidden by `filesystem.denyRead`");
    }
    user.settings("{}");
    user.project(&format!(
        r#"{{"filesystem":{{"denyRead":["/"],"allowRead":[{grants}]}}}}"#
    ));
    user.trust();
    assert!(reads("project/own") && reads("other/file") && reads("home/notes"));
}

#[test]
fn without_a_terminal_there_is_no_question() {
    let user = with_a_grant("no-terminal");
    let ran = user.run(&["ctl", "trust"]);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(
        ran.shows("there is no terminal to ask on"),
        "{}",
        ran.stderr
    );
    assert!(!granted(&user));
    user.trust();
    assert!(granted(&user));
    assert!(user.trust().shows("is trusted already"));
}

#[test]
fn text_that_would_hide_itself_is_shown_as_it_is() {
    let user = User::new("hidden-text");
    user.project("{} // \u{1b}[2K\u{202e}lmx.\u{2066}\u{200b}\u{7f}\r\n");
    let shown = on_a_terminal(&user, "n").stdout;
    for escaped in [
        "\\u{1b}",
        "\\u{202e}",
        "\\u{2066}",
        "\\u{200b}",
        "\\u{7f}",
        "\\r",
    ] {
        assert!(shown.contains(escaped), "{escaped}: {shown:?}");
    }
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{2066}', '\u{200b}']));
}

#[test]
fn a_file_that_changes_is_trusted_no_longer() {
    let user = with_a_grant("changes");
    user.trust();
    assert!(granted(&user));
    let text = fs::read_to_string(user.path("project/.srt.json")).expect("it is there");
    user.project(&format!("{text} "));
    assert!(!granted(&user));
    user.project(&text);
    assert!(granted(&user), "the text counts, not the time");
}

#[test]
fn trust_belongs_to_the_place_and_not_to_the_text_alone() {
    let user = with_a_grant("place");
    user.trust();
    let text = fs::read_to_string(user.path("project/.srt.json")).expect("it is there");
    user.0.dir("clone/a");
    user.write("clone/.srt.json", &text);
    let script = "echo > a/x";
    let ran = run(&mut user.srt_in("clone", &["sh", "-c", script]));
    assert!(ran.status != 0 && !user.path("clone/a/x").exists());
    run(&mut user.srt_in("project", &["sh", "-c", script])).succeeds();
    assert!(user.path("project/a/x").exists());
}

#[test]
fn trust_can_be_listed_and_taken_back() {
    let user = with_a_grant("list");
    let list = || user.run(&["ctl", "trust", "--list"]).succeeds().stdout;
    assert_eq!(list(), "");
    user.trust();
    assert_eq!(
        list(),
        format!("{}\n", user.path("project/.srt.json").display())
    );
    user.run(&["ctl", "trust", "--revoke"]).succeeds();
    assert!(!granted(&user));
    assert_eq!(list(), "");
    assert_eq!(user.run(&["ctl", "trust", "--revoke"]).status, 1);
}

#[test]
fn a_file_that_is_wrong_is_not_trusted() {
    let user = User::new("wrong");
    let refused = |reason: &str| {
        let ran = user.run(&["ctl", "trust", "--yes"]);
        assert_eq!(ran.status, 2, "{}", ran.stdout);
        assert!(ran.shows(reason), "{}", ran.stderr);
    };
    refused("there is no .srt.json here or above");
    user.project(r#"{"filesystem":{"allowWrit":["a"]}}"#);
    refused("did you mean `allowWrite`?");
    user.project("{}");
    user.trust();
}

#[test]
fn a_damaged_trust_file_ends_the_run_and_is_kept() {
    let user = with_a_grant("damaged");
    user.trust();
    let file = user.path("home/.local/state/srt/trust.json");
    for damage in ["", "{", "{\"projects\":[]}", "{\"projects\":{},\"x\":1}"] {
        fs::write(&file, damage).expect("ours");
        user.is_refused(&[], "trust.json");
        assert_eq!(user.run(&["ctl", "trust", "--yes"]).status, 2, "{damage}");
        assert_eq!(fs::read_to_string(&file).expect("it is there"), damage);
    }
}

#[test]
fn a_command_inside_cannot_trust() {
    let user = with_a_grant("inside");
    let srt = env!("CARGO_BIN_EXE_srt");
    let asked = format!("{srt} ctl trust --yes; echo $?");
    let ran = user
        .run(&["--allow-write", "~", "sh", "-c", &asked])
        .succeeds();
    assert_eq!(ran.stdout, "2\n");
    assert!(
        ran.shows("a sandboxed command may not change what is trusted"),
        "{}",
        ran.stderr
    );
    assert!(!granted(&user));

    // Without the mark of the sandbox it is the file that is kept.
    user.write("other/.srt.json", "{}");
    run(&mut user.srt_in("other", &["ctl", "trust", "--yes"])).succeeds();
    let sly = format!("env -u SANDBOX_RUNTIME {asked}");
    let ran = user
        .run(&["--allow-write", "~", "sh", "-c", &sly])
        .succeeds();
    assert_eq!(ran.stdout, "2\n", "{}", ran.stderr);
    assert!(!granted(&user));
    let mut outside = Command::new("sh");
    outside.args(["-c", &sly]).current_dir(user.path("project"));
    run(outside.env("HOME", user.path("home"))).succeeds();
    assert!(granted(&user));
}
