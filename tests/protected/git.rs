//! Repositories: git goes on working, and what it would run outside stays as it is.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::harness::{Scratch, Srt, run};
use super::{as_somebody, change, git_inside, git_outside, repository, snapshot};

/// A repository with a linked working tree and a submodule.
fn family(scratch: &Scratch) -> [PathBuf; 3] {
    let inner = repository(scratch, "inner");
    let main = repository(scratch, "w/main");
    let tree = scratch.path("w/tree");
    git_outside(
        &main,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            "other",
            tree.to_str().expect("UTF-8"),
        ],
    )
    .succeeds();
    let inner = inner.to_str().expect("UTF-8");
    git_outside(
        &main,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "add",
            inner,
            "libs/sub",
        ],
    )
    .succeeds();
    git_outside(&main, &["commit", "-qm", "submodule"]).succeeds();
    let sub = main.join("libs/sub");
    [main, tree, sub]
}

/// What git reads or runs of a repository of the family.
fn guarded(main: &Path, tree: &Path, sub: &Path) -> Vec<PathBuf> {
    let git = main.join(".git");
    let module = git.join("modules/libs/sub");
    for dir in [&git, &module] {
        fs::create_dir_all(dir.join("info")).expect("it is ours");
        fs::write(dir.join("info/attributes"), "* -text\n").expect("it is ours");
        fs::write(dir.join("config.worktree"), "").expect("it is ours");
        fs::write(dir.join("hooks/kept.sample"), "").expect("it is ours");
    }
    let mut paths = vec![
        tree.join(".git"),
        sub.join(".git"),
        git.join("worktrees/tree/commondir"),
    ];
    for dir in [git, module] {
        paths.extend(
            ["hooks", "config", "config.worktree", "info/attributes"].map(|name| dir.join(name)),
        );
    }
    paths
}

const WORK: &str = "echo new >>file && git status --porcelain && git add -A && git commit -qm work && git log --oneline | wc -l";

#[test]
fn what_git_reads_and_runs_of_every_repository_stays_as_it_is() {
    let scratch = Scratch::new("guarded");
    let [main, tree, sub] = family(&scratch);
    let bare = scratch.dir("w/deep/er/bare.git");
    git_outside(&bare, &["init", "-q", "--bare"]).succeeds();
    let mut paths = guarded(&main, &tree, &sub);
    paths.extend(["hooks", "config"].map(|name| bare.join(name)));
    let before = snapshot(&scratch.path("w"));
    let granted = || Srt::new(&scratch).allow_write(scratch.path("w"));
    change(&scratch, granted().current_dir(&sub), &paths).succeeds();
    assert_eq!(snapshot(&scratch.path("w")), before);

    // Of the working tree alone, what is granted is not what is protected.
    let open = granted().set(
        "filesystem.allowProtected",
        json!([".git", ".git/hooks", ".git/config", ".git/info/attributes"]),
    );
    change(&scratch, open, &paths).succeeds();
    let after = snapshot(&scratch.path("w"));
    let kept: Vec<_> = paths
        .iter()
        .filter(|path| after.get(*path) == before.get(*path))
        .collect();
    assert!(kept.is_empty(), "{kept:?}");
}

#[test]
fn git_works_in_a_repository_a_linked_tree_and_a_submodule() {
    let scratch = Scratch::new("works");
    let [main, tree, sub] = family(&scratch);
    let before: Vec<_> = [&main, &tree, &sub]
        .map(|dir| git_outside(dir, &["rev-parse", "HEAD"]).stdout)
        .into();
    for dir in [&main, &tree, &sub] {
        let srt = Srt::new(&scratch)
            .allow_write(scratch.path("w"))
            .current_dir(dir);
        let ran = git_inside(srt, WORK).succeeds();
        assert_eq!(
            ran.stdout.lines().next(),
            Some(" M file"),
            "{}: {}",
            dir.display(),
            ran.stderr
        );
    }
    let after: Vec<_> = [&main, &tree, &sub]
        .map(|dir| git_outside(dir, &["rev-parse", "HEAD"]).stdout)
        .into();
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| before != after)
    );

    let script = "git init -q new && git clone -q main copy && cd main && \
        git worktree add -q -b third ../third && git submodule --quiet update && git gc -q && git fsck";
    let srt = Srt::new(&scratch)
        .allow_write(scratch.path("w"))
        .current_dir(scratch.path("w"));
    git_inside(srt, script).succeeds();
    assert!(
        git_outside(&scratch.path("w/third"), &["status"])
            .succeeds()
            .shows("third")
    );
    assert!(scratch.path("w/copy/file").exists() && scratch.path("w/new/.git/HEAD").exists());
}

#[test]
fn git_config_is_refused_unless_it_is_allowed_and_hooks_are_not_opened_by_that() {
    let scratch = Scratch::new("config");
    let main = repository(&scratch, "w/main");
    let before = snapshot(&main);
    let script = "git remote add o /x; git config core.fsmonitor 'touch planted'; echo x >.git/hooks/pre-commit; true";
    let srt = || {
        Srt::new(&scratch)
            .allow_write(scratch.path("w"))
            .current_dir(&main)
    };
    git_inside(srt(), script).succeeds();
    assert_eq!(snapshot(&main), before);
    git_outside(&main, &["status"]).succeeds();
    assert!(!main.join("planted").exists());

    for open in [
        srt().set("filesystem.allowGitConfig", json!(true)),
        srt().with("filesystem.allowProtected", ".git/config"),
    ] {
        git_inside(open, "git remote add o /x && echo x >.git/hooks/pre-commit").fails();
        let remotes = git_outside(&main, &["remote"]).stdout;
        assert_eq!(remotes, "o\n");
        assert!(!main.join(".git/hooks/pre-commit").exists());
        git_outside(&main, &["remote", "remove", "o"]).succeeds();
    }
}

#[test]
fn directories_of_hooks_and_included_files_are_found_by_the_configuration() {
    let scratch = Scratch::new("included");
    let main = repository(&scratch, "w/main");
    let paths = [
        scratch.file("w/main/tools/hooks/pre-commit", "kept"),
        scratch.file(
            "w/local.inc",
            "[include]\n\tpath = \"main/more \\\\ inc\"\n",
        ),
        scratch.file("w/main/more \\ inc", "[core]\n\tautocrlf = false\n"),
        scratch.file("w/work.inc", "[user]\n"),
        scratch.file("w/shared/post-commit", "kept"),
        scratch.file("w/user-hooks/commit-msg", "kept"),
    ];
    let config = main.join(".git/config");
    let mut text = fs::read_to_string(&config).expect("git made it");
    text += "[core] hooksPath = tools/hooks ; of the project\n[include]\n path = ../../local.inc\n\
             [includeIf \"gitdir:/never/\"]\n path = ../../work.inc\n[a \"]\\\"[\"] b\n";
    fs::write(&config, text).expect("it is ours");
    let second = repository(&scratch, "w/second");
    fs::remove_dir_all(second.join(".git/hooks")).expect("git made it");
    symlink("../../shared", second.join(".git/hooks")).expect("the name is free");
    scratch.file(
        "home/.gitconfig",
        format!(
            "[core]\n\thooksPath = {}\n",
            scratch.path("w/user-hooks").display()
        ),
    );

    let before = snapshot(&scratch.path("w"));
    let granted = || Srt::new(&scratch).allow_write(scratch.path("w"));
    let ran = change(&scratch, granted(), &paths).succeeds();
    assert_eq!(snapshot(&scratch.path("w")), before, "{}", ran.stderr);
    let open = granted().set(
        "filesystem.allowProtected",
        json!([".git/hooks", ".git/config"]),
    );
    change(&scratch, open, &paths).succeeds();
    let after = snapshot(&scratch.path("w"));
    assert!(paths.iter().all(|path| after.get(path) != before.get(path)));
}

#[test]
fn odd_repositories_stop_no_start_and_hold_nothing_up() {
    let scratch = Scratch::new("odd-git");
    let main = repository(&scratch, "w/main");
    let script = "mkfifo w/main/.git/config.worktree; mkdir -p w/f w/loop w/dangling w/mark w/dir/.git w/big w/bad/.git
        mkfifo w/f/.git; ln -s .git w/loop/.git; echo 'gitdir: /nope/x' >w/dangling/.git; : >w/mark/.git
        head -c 3000000 /dev/zero >w/big/.git; mkdir -p w/self; echo 'gitdir: .' >w/self/.git
        echo '[core' >w/bad/.git/config; echo ref: refs/heads/x >w/bad/.git/HEAD
        printf '[include]\\n path = config\\n' >w/dir/.git/config; echo ../.git >w/dir/.git/commondir; touch w/.claude
        git -C w/main config core.hooksPath .";
    let script = format!("cd {} && {script}", scratch.marker());
    run(std::process::Command::new("sh").args(["-c", &script])).succeeds();
    let srt = Srt::new(&scratch)
        .allow_write(scratch.path("w"))
        .current_dir(&main);
    let ran = git_inside(
        srt,
        "echo started; echo x >../mark/.git; echo y >new; echo z >pre-commit",
    )
    .succeeds();
    assert_eq!(ran.stdout, "started\n");
    assert!(
        ran.shows("w/bad/.git/config:1 is not understood"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        fs::read_to_string(scratch.path("w/mark/.git"))
            .ok()
            .as_deref(),
        Some("x\n")
    );
    assert!(main.join("new").exists(), "a whole tree is not closed");
}

#[test]
fn an_index_made_inside_is_the_one_made_outside() {
    let scratch = Scratch::new("index");
    for name in ["plain", "protected"] {
        let trees = [(); 2].map(|()| {
            let scratch = Scratch::new("index-tree");
            let main = repository(&scratch, "w/main");
            if name == "protected" {
                scratch.file("w/main/.vscode/tasks.json", "{}");
                scratch.file("w/main/.envrc", "x");
                scratch.file("w/main/.mcp.json", "{}");
            }
            scratch.file("w/main/src/new", "new");
            (scratch, main)
        });
        let [(_, outside), (inside_scratch, inside)] = &trees;
        git_outside(outside, &["add", "-A"]).succeeds();
        let srt = Srt::new(inside_scratch)
            .allow_write(inside_scratch.path("w"))
            .current_dir(inside);
        git_inside(srt, "git add -A").succeeds();
        let [one, two] =
            [outside, inside].map(|dir| git_outside(dir, &["ls-files", "--stage"]).stdout);
        assert_eq!(one, two);
        let status = git_outside(inside, &["status", "--porcelain"]).stdout;
        assert!(!status.contains("??"), "{status}");
    }
    let mut git = std::process::Command::new("git");
    assert!(run(as_somebody(git.arg("--version"))).shows("git version"));
    drop(scratch);
}
