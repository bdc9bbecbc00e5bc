//! How protected names are looked for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use super::harness::{Scratch, Srt, is_root, run, skip};
use super::{change, snapshot};

#[test]
fn thousands_of_repositories_at_any_depth_are_found() {
    let scratch = Scratch::new("many");
    let mut paths = Vec::new();
    for at in 0..1000 {
        let dir = format!("w/{}/{at}/.git", at % 10);
        for name in ["HEAD", "objects/x", "refs/x"] {
            scratch.file(&format!("{dir}/{name}"), "");
        }
        paths.push(scratch.file(&format!("{dir}/hooks/pre-commit"), "kept"));
        paths.push(scratch.file(&format!("{dir}/config"), ""));
    }
    let deep = "w/1/2/3/4/5/6/7/8/9/10/11/12";
    paths.push(scratch.file(&format!("{deep}/.git/hooks/pre-push"), "kept"));
    scratch.file(&format!("{deep}/.git/HEAD"), "");
    let root = scratch.path("w");
    let before = snapshot(&root);
    let srt = Srt::new(&scratch).allow_write(&root);
    change(&scratch, srt, &paths).succeeds();
    assert_eq!(snapshot(&root), before);
}

#[test]
fn what_cannot_be_listed_is_not_written_either() {
    if is_root() {
        return skip("root lists every directory");
    }
    let scratch = Scratch::new("shut");
    let file = scratch.file("w/shut/.envrc", "kept");
    let shut = scratch.path("w/shut");
    let mode = |mode| fs::set_permissions(&shut, fs::Permissions::from_mode(mode)).expect("ours");
    mode(0o300);
    let srt = Srt::new(&scratch).allow_write(scratch.path("w"));
    srt.sh(&format!(
        "chmod 700 {0}; echo evil >>{0}/.envrc; mv {0} {0}2",
        shut.display()
    ))
    .fails();
    mode(0o700);
    assert_eq!(fs::read_to_string(file).ok().as_deref(), Some("kept"));
}

/// Makes a root that is worth keeping.
fn large(scratch: &Scratch) -> PathBuf {
    for at in 0..300 {
        scratch.dir(&format!("w/{at}"));
    }
    scratch.path("w")
}

/// Nothing is kept of what has just changed.
fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(2_100));
}

fn kept() -> PathBuf {
    let uid = nix::unistd::geteuid();
    PathBuf::from(format!("/tmp/srt-found-{uid}"))
}

#[test]
fn what_was_found_is_no_commands_to_read_or_change() {
    let scratch = Scratch::new("kept");
    let root = large(&scratch);
    settle();
    Srt::new(&scratch)
        .allow_write(&root)
        .run(&["true"])
        .succeeds();
    let kept = kept();
    let count = || fs::read_dir(&kept).map_or(0, Iterator::count);
    assert!(count() > 0, "it is worth keeping");
    let script = "ls -A $0; touch $0/new; rm -rf $0; mv $0 $0.old; chmod 777 $0";
    // Of an entry that names it, the reader knows what it is.
    let named = kept.to_str().expect("UTF-8");
    for (grant, reads) in [("/tmp", false), ("/tmp/srt-found-*", true), (named, true)] {
        let srt = Srt::new(&scratch).allow_write(grant);
        let ran = srt.run(&["sh", "-c", script, kept.to_str().expect("UTF-8")]);
        assert!(
            ran.status != 125 && (ran.stdout.is_empty() || reads),
            "{grant}: {ran:?}"
        );
        assert!(
            kept.is_dir() && count() > 0 && !kept.join("new").exists(),
            "{grant}"
        );
        let mode = fs::metadata(&kept).map(|meta| meta.permissions().mode() & 0o777);
        assert_eq!(mode.ok(), Some(0o700));
    }
}

#[test]
fn what_appears_after_a_search_is_found_by_the_next() {
    let scratch = Scratch::new("later");
    let root = large(&scratch);
    settle();
    let srt = || Srt::new(&scratch).allow_write(&root);
    srt().run(&["true"]).succeeds();
    // By the command and by others; right away, in the same second as the search.
    let script = format!(
        "cd {}; echo kept >7/.envrc; mkdir -p 8/.husky; mkdir -p x/y; mv x 9/; echo kept >9/x/y/.bashrc",
        root.display()
    );
    srt().sh(&script).succeeds();
    let outside = scratch.file("w/10/.vscode/tasks.json", "kept");
    let paths = ["7/.envrc", "8/.husky", "9/x/y/.bashrc", "10/.vscode"].map(|name| root.join(name));
    let before = snapshot(&root);
    for _ in 0..2 {
        change(&scratch, srt(), &paths).succeeds();
        assert_eq!(snapshot(&root), before);
    }
    fs::remove_file(outside).expect("it is ours");
}

#[test]
fn links_that_lead_round_or_out_are_not_followed() {
    let scratch = Scratch::new("round");
    let root = scratch.dir("w/a");
    symlink("..", root.join("up")).expect("the name is free");
    symlink("/", root.join("root")).expect("the name is free");
    let file = scratch.file("w/a/.envrc", "kept");
    let srt = Srt::new(&scratch).allow_write(scratch.path("w"));
    let ran = srt.sh(&format!(
        "echo evil >>{0}/up/a/up/a/.envrc; mv {0}/up/a {0}/up/b; echo x >{0}/new",
        root.display()
    ));
    assert!(ran.status != 125, "{}", ran.stderr);
    assert_eq!(fs::read_to_string(file).ok().as_deref(), Some("kept"));
    assert!(root.join("new").exists());
}

#[test]
fn case_variants_hold_on_a_file_system_that_folds_case() {
    if !is_root() {
        return skip("only root mounts a file system image");
    }
    let scratch = Scratch::new("fold");
    let image = scratch.path("image");
    let script = format!(
        "truncate -s 32M {0} && mkfs.ext4 -q -O casefold {0}",
        image.display()
    );
    let made = run(std::process::Command::new("sh").args(["-c", &script]));
    if made.status != 0 {
        return skip(&format!("no file system that folds case: {}", made.stderr));
    }
    let dir = scratch.dir("m");
    let attack = "cd \"$1\" && mkdir w && chattr +F w && cd w && mkdir -p .git/hooks && : >.git/HEAD && echo kept >.mcp.json && echo kept >.git/hooks/pre-commit || exit 99
        for f in .MCP.JSON .Mcp.json .GIT/HOOKS/Pre-Commit; do \"$2\" --allow-write . -- sh -c 'echo evil >>\"$0\"; mv \"$0\" gone; rm -f \"$0\"' $f; done 2>/dev/null
        \"$2\" --allow-write . -- sh -c 'mv .GIT gone; rm -rf .GIT' 2>/dev/null
        cat .mcp.json .git/hooks/pre-commit";
    let script = format!(
        "mount -o loop {} \"$1\" 2>/dev/null || exit 98; {attack}",
        image.display()
    );
    let srt = Path::new(env!("CARGO_BIN_EXE_srt"));
    let words = [
        Path::new("-c"),
        Path::new(&script),
        Path::new("sh"),
        &dir,
        srt,
    ];
    let ran = run(std::process::Command::new("unshare")
        .args(["-m", "sh"])
        .args(words)
        .env("HOME", scratch.dir("home")));
    match ran.status {
        98 | 99 => skip(&format!(
            "no file system that folds case is mounted here: {}",
            ran.stderr
        )),
        _ => assert_eq!(ran.stdout, "kept\nkept\n", "{}", ran.stderr),
    }
}
