//! What opens a protected name, what says so, and what of ours is protected.

use std::fs;

use serde_json::{Value, json};

use super::harness::{Scratch, Srt, run};

#[test]
fn a_name_that_is_not_protected_cannot_be_opened() {
    let scratch = Scratch::new("unknown");
    let open = |name: &str| {
        Srt::new(&scratch)
            .with("filesystem.allowProtected", name)
            .run(&["true"])
    };
    open(".vscod").is_refused("did you mean `.vscode`?");
    open("/etc/passwd").is_refused("is no protected name");
    open("*").is_refused("is no protected name");
    open(".vscode/").succeeds();
    open("~/.local/bin").succeeds();
}

#[test]
fn a_grant_that_names_a_protected_path_does_not_open_it_and_says_what_does() {
    let scratch = Scratch::new("granted");
    let file = scratch.file("cwd/.envrc", "kept");
    let ran = Srt::new(&scratch)
        .allow_write(&file)
        .sh("echo evil >>.envrc")
        .fails();
    assert!(
        ran.stderr
            .contains("filesystem.allowProtected `.envrc` opens it"),
        "{}",
        ran.stderr
    );
    assert_eq!(fs::read_to_string(&file).ok().as_deref(), Some("kept"));
}

fn ask(scratch: &Scratch, words: &[&str]) -> (i32, String) {
    let settings = scratch.file(
        "s.json",
        json!({"filesystem": {"allowWrite": ["."]}}).to_string(),
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_srt"));
    command
        .current_dir(scratch.dir("cwd"))
        .env("HOME", scratch.dir("home"));
    let ran = run(command
        .arg("ctl")
        .args(words)
        .arg("--settings")
        .arg(settings));
    (ran.status, ran.stdout)
}

#[test]
fn explain_names_the_reason_and_what_opens_a_name() {
    let scratch = Scratch::new("explain");
    scratch.file("cwd/sub/.envrc", "");
    scratch.dir("cwd/.vscode");
    for (path, name, reason) in [
        (
            "sub/.envrc",
            ".envrc",
            "shells run it when its directory is entered",
        ),
        (".vscode/tasks.json", ".vscode", "editors run tasks"),
    ] {
        let path = format!("path:{}", scratch.path("cwd").join(path).display());
        let (status, said) = ask(&scratch, &["explain", "--write", &path]);
        assert_eq!(status, 1, "{said}");
        assert!(
            said.contains(reason)
                && said.contains(&format!("add `{name}` to filesystem.allowProtected")),
            "{said}"
        );
    }
    for (path, name) in [
        ("sub/.bashrc", ".bashrc"),
        (".idea/x", ".idea"),
        ("n/.git/hooks/pre-commit", ".git/hooks"),
        ("n/.git/modules/a/b/config", ".git/config"),
    ] {
        let path = format!("path:{}", scratch.path("cwd").join(path).display());
        let (status, said) = ask(&scratch, &["explain", "--write", &path]);
        assert_eq!(status, 0, "{said}");
        assert!(
            said.contains(&format!("`{name}` is a protected name"))
                && said.contains("from the next run on"),
            "{said}"
        );
    }
    let (_, said) = ask(
        &scratch,
        &[
            "explain",
            "--write",
            &format!("path:{}", scratch.path("cwd/sub/other").display()),
        ],
    );
    assert!(!said.contains("protected"), "{said}");
}

#[test]
fn config_show_lists_what_is_protected() {
    let scratch = Scratch::new("show");
    let file = scratch.file("cwd/sub/.envrc", "");
    let (_, said) = ask(&scratch, &["config", "show"]);
    let line = format!("# protected: {}: `.envrc`: shells run it", file.display());
    assert!(said.contains(&line), "{said}");
    let (_, said) = ask(&scratch, &["config", "show", "--json"]);
    let said: Value = serde_json::from_str(&said).expect("it is JSON");
    let expected = json!([{"path": file, "name": ".envrc", "reason": "shells run it when its directory is entered"}]);
    assert_eq!(said["protected"], expected);
}

#[test]
fn neither_srt_nor_a_settings_file_in_force_can_be_written() {
    let scratch = Scratch::new("own");
    let srt = scratch.path("cwd/bin/srt");
    scratch.dir("cwd/bin");
    fs::copy(env!("CARGO_BIN_EXE_srt"), &srt).expect("it is built");
    let settings = scratch.file(
        "cwd/conf/s.json",
        json!({"filesystem": {"allowWrite": ["."]}}).to_string(),
    );
    let read = || {
        [
            fs::read(&srt).expect("it stays"),
            fs::read(&settings).expect("it stays"),
        ]
    };
    let before = read();
    let script = "for f in bin/srt conf/s.json; do echo evil >>$f; rm -f $f; mv $f x; ln -f $f y; done; mv bin b; mv conf c; echo >free";
    let mut command = std::process::Command::new(&srt);
    command
        .current_dir(scratch.path("cwd"))
        .env("HOME", scratch.dir("home"));
    run(command
        .arg("--settings")
        .arg(&settings)
        .args(["sh", "-c", script]))
    .succeeds();
    assert_eq!(read(), before);
    assert!(scratch.path("cwd/free").exists());
}

#[test]
fn without_rules_for_files_nothing_is_protected() {
    let scratch = Scratch::new("off");
    let file = scratch.file("cwd/.envrc", "kept");
    let srt = Srt::new(&scratch).set("filesystem.disabled", json!(true));
    let mut command = srt.into_command(&["sh", "-c", "echo evil >>.envrc"]);
    assert!(command.status().is_ok_and(|status| status.success()));
    assert!(fs::read_to_string(&file).ok().as_deref() != Some("kept"));
}
