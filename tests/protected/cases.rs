//! What users of such tools ran into, as they ran into it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::harness::{Scratch, Srt};
use super::{git_inside, git_outside, repository, snapshot};

fn in_dir(scratch: &Scratch, dir: &Path) -> Srt {
    Srt::new(scratch).allow_write(".").current_dir(dir)
}

#[test]
fn a_checkout_shows_nothing_that_is_not_there() {
    let scratch = Scratch::new("fw03");
    let dir = scratch.dir("g");
    git_outside(&dir, &["init", "-q"]).succeeds();
    scratch.file("g/a", "a");
    let script =
        "git status --porcelain; git add -A; echo add=$?; git commit -qm c; echo commit=$?; ls -A";
    let ran = git_inside(in_dir(&scratch, &dir), script).succeeds();
    assert_eq!(ran.stdout, "?? a\nadd=0\ncommit=0\n.git\na\n");
}

#[test]
fn a_linked_tree_says_what_to_grant_and_works_with_it() {
    let scratch = Scratch::new("fw13");
    let main = repository(&scratch, "main");
    let tree = scratch.path("wt");
    git_outside(&main, &["worktree", "add", "-q", "../wt", "-b", "w"]).succeeds();
    let before = snapshot(&main);
    let alone = in_dir(&scratch, &tree);
    let ran = git_inside(alone, "echo z >z; git add z").fails();
    let hint = format!("{}", main.join(".git").display());
    assert!(
        ran.stderr.contains("filesystem.allowWrite") && ran.stderr.contains(&hint),
        "{}",
        ran.stderr
    );
    assert_eq!(snapshot(&main), before);

    let granted = in_dir(&scratch, &tree).allow_write(main.join(".git"));
    let script = "git add z && git commit -qm z; echo commit=$?
        echo x >../main/.git/hooks/pre-commit; git config core.fsmonitor /bin/false; true";
    let ran = git_inside(granted, script).succeeds();
    assert_eq!(ran.stdout, "commit=0\n");
    assert!(!ran.stderr.contains("cannot commit"), "{}", ran.stderr);
    let after = snapshot(&main);
    for name in [".git/config", ".git/hooks"] {
        assert_eq!(after.get(&main.join(name)), before.get(&main.join(name)));
    }
    assert!(!main.join(".git/hooks/pre-commit").exists());
    assert_eq!(
        git_outside(&tree, &["log", "--format=%s", "-1"]).stdout,
        "z\n"
    );
}

#[test]
fn a_repository_made_in_one_run_is_protected_in_the_next() {
    let scratch = Scratch::new("fw15");
    repository(&scratch, "cwd/src");
    let cwd = scratch.path("cwd");
    let script = "git init -q new; echo init=$?; git clone -q src copy; echo clone=$?; echo x >copy/.git/hooks/first";
    let ran = git_inside(in_dir(&scratch, &cwd), script).succeeds();
    assert_eq!(ran.stdout, "init=0\nclone=0\n");
    assert!(
        cwd.join("copy/.git/hooks/first").exists(),
        "what a run makes is its own in that run"
    );
    git_inside(
        in_dir(&scratch, &cwd),
        "echo x >copy/.git/hooks/post-checkout",
    )
    .fails();
    assert!(!cwd.join("copy/.git/hooks/post-checkout").exists());
}

#[test]
fn a_branch_that_changes_protected_files_needs_them_opened() {
    let scratch = Scratch::new("fw16");
    let dir = repository(&scratch, "t");
    let put = |text: &str| {
        scratch.file("t/.vscode/settings.json", text);
        scratch.file("t/.idea/x", text);
        git_outside(&dir, &["add", "-A"]).succeeds();
        git_outside(&dir, &["commit", "-qm", text]).succeeds();
    };
    put("1");
    git_outside(&dir, &["switch", "-qc", "b"]).succeeds();
    put("2");
    git_outside(&dir, &["switch", "-q", "main"]).succeeds();
    let ran = git_inside(in_dir(&scratch, &dir), "git switch -q b");
    assert!(
        ran.stderr.contains(".vscode/settings.json"),
        "git names the file: {}",
        ran.stderr
    );
    assert_eq!(
        fs::read_to_string(dir.join(".vscode/settings.json"))
            .ok()
            .as_deref(),
        Some("1")
    );

    git_outside(&dir, &["switch", "-qf", "main"]).succeeds();
    let open = in_dir(&scratch, &dir).set("filesystem.allowProtected", json!([".vscode", ".idea"]));
    let ran = git_inside(open, "git switch -q b; echo rc=$?; git status --porcelain").succeeds();
    assert_eq!(ran.stdout, "rc=0\n");
    assert_eq!(
        fs::read_to_string(dir.join(".idea/x")).ok().as_deref(),
        Some("2")
    );
}

#[test]
fn a_mark_called_git_is_no_repository() {
    let scratch = Scratch::new("fw18");
    scratch.dir("cwd/cache/sdists-v9");
    for word in ["one", "two"] {
        let srt = Srt::new(&scratch).allow_write(".").allow_write("cache");
        let ran = srt
            .sh(&format!(": >cache/sdists-v9/.git && echo {word}"))
            .succeeds();
        assert_eq!(ran.stdout, format!("{word}\n"));
    }
}

#[test]
fn a_home_is_protected_from_a_project_below_it() {
    let scratch = Scratch::new("fw19");
    let project = scratch.dir("home/proj");
    scratch.dir("home/other");
    let names = [
        ".bashrc",
        ".profile",
        ".gitconfig",
        ".zshrc",
        ".config/git/config",
        "other/.bashrc",
    ];
    let files = names.map(|name| scratch.file(&format!("home/{name}"), ""));
    let script = "for f in .bashrc .profile .gitconfig .zshrc .config/git/config other/.bashrc; do
        echo evil >>~/$f; mv ~/$f ~/moved; done; rm -rf ~/.config/git; echo fine >~/file";
    let srt = Srt::new(&scratch).allow_write("~").current_dir(&project);
    srt.sh(script).succeeds();
    for file in &files {
        assert_eq!(
            fs::read_to_string(file).ok().as_deref(),
            Some(""),
            "{}",
            file.display()
        );
    }
    assert!(scratch.path("home/file").exists());
}

#[test]
fn links_of_a_repository_keep_what_they_lead_to_and_their_place() {
    let scratch = Scratch::new("fw21");
    let cwd = scratch.path("cwd");
    let hooks = scratch.dir("cwd/hk");
    let [linked, separate, tree] =
        ["r", "sep", "s"].map(|name| scratch.dir(&format!("cwd/{name}")));
    for dir in [&linked, &separate] {
        git_outside(dir, &["init", "-q"]).succeeds();
    }
    fs::remove_dir_all(linked.join(".git/hooks")).expect("git made it");
    symlink(&hooks, linked.join(".git/hooks")).expect("the name is free");
    symlink(separate.join(".git"), tree.join(".git")).expect("the name is free");
    let before = snapshot(&cwd);
    let script = "echo ran; cd r
        echo x >.git/hooks/pre-commit; rm .git/hooks; mv .git/hooks .git/h; mkdir .git/hooks && echo x >.git/hooks/pre-commit
        cd ../s; echo x >.git/hooks/pre-commit; rm .git; mkdir .git; mv .git .g; git config a.b c; true";
    let ran = git_inside(in_dir(&scratch, &cwd), script).succeeds();
    assert_eq!(ran.stdout, "ran\n");
    assert_eq!(snapshot(&cwd), before);
    let ran = git_inside(in_dir(&scratch, &cwd), "cd s; git status --porcelain").succeeds();
    assert_eq!(ran.stdout, "");
}

#[test]
fn odd_parents_of_protected_names_stop_no_start() {
    for (at, script) in [
        "true",
        "touch .claude",
        "echo 'gitdir: /nope/x' >.git",
        "mkdir .git",
        "ln -s nowhere .vscode",
        "ln -s .envrc .envrc",
    ]
    .iter()
    .enumerate()
    {
        let scratch = Scratch::new(&format!("fw22-{at}"));
        let dir = scratch.dir("w");
        let made = std::process::Command::new("sh")
            .args(["-c", script])
            .current_dir(&dir)
            .status();
        assert!(made.is_ok_and(|status| status.success()));
        let ran = in_dir(&scratch, &dir)
            .sh("echo started; touch file")
            .succeeds();
        assert_eq!(ran.stdout, "started\n", "{script}");
        assert!(dir.join("file").exists());
    }
}
