//! A checkout of git: what is added inside is what is added outside.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::harness::{Ran, Scratch, Srt, run, skip};

/// The same for every run, so that commits have the same names.
const SOMEBODY: [(&str, &str); 8] = [
    ("GIT_AUTHOR_NAME", "t"),
    ("GIT_AUTHOR_EMAIL", "t@example.test"),
    ("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_COMMITTER_NAME", "t"),
    ("GIT_COMMITTER_EMAIL", "t@example.test"),
    ("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
];

/// Names that later commands, editors and agents execute or take their settings from.
const PROTECTED: [&str; 8] = [
    ".bashrc",
    ".envrc",
    ".mcp.json",
    ".vscode/tasks.json",
    ".github/workflows/build.yml",
    ".husky/pre-commit",
    ".claude/settings.json",
    "deep/er/.idea/workspace.xml",
];

/// Where in a family of repositories git is called.
const CHECKOUTS: [&str; 3] = ["main", "tree", "main/libs/sub"];

fn git(dir: &Path, words: &str) -> Ran {
    let mut git = Command::new("git");
    git.current_dir(dir).envs(SOMEBODY).args(words.split(' '));
    run(&mut git)
}

/// Makes a repository with a linked working tree and a submodule.
fn family(scratch: &Scratch) -> PathBuf {
    let inner = scratch.dir("inner");
    let main = scratch.dir("w/main");
    for dir in [&inner, &main] {
        std::fs::write(dir.join("file"), "one\n").expect("it is ours");
        for words in ["init -q -b main", "add file", "commit -qm first"] {
            git(dir, words).succeeds();
        }
    }
    git(&main, "worktree add -q -b other ../tree").succeeds();
    let add = "submodule --quiet add ../../inner libs/sub";
    git(&main, &format!("-c protocol.file.allow=always {add}")).succeeds();
    git(&main, "commit -qm submodule").succeeds();
    scratch.path("w")
}

/// Changes a checkout in every way that is added.
fn change(dir: &Path, has_protected: bool) {
    let write = |name: &str, text: &str| {
        let file = dir.join(name);
        std::fs::create_dir_all(file.parent().expect("it has one"))
            .and_then(|()| std::fs::write(file, text))
            .expect("it is ours");
    };
    write("file", "two\n");
    write("src/new", "new");
    write(".gitignore", "ignored\n");
    write("ignored", "");
    symlink("src/new", dir.join("link")).expect("the name is free");
    symlink("/nowhere", dir.join("src/dangling")).expect("the name is free");
    if has_protected {
        PROTECTED.iter().for_each(|name| write(name, "x"));
        symlink(".bashrc", dir.join(".profile")).expect("the name is free");
    }
}

#[test]
fn a_repository_with_a_configuration_for_each_working_tree_is_usable() {
    if run(Command::new("git").arg("--version")).status != 0 {
        return skip("git is not installed");
    }
    let scratch = Scratch::new("worktree-config");
    let main = family(&scratch).join("main");
    git(&main, "config extensions.worktreeConfig true").succeeds();
    git(&main, "config --worktree core.abbrev 9").succeeds();
    let srt = Srt::new(&scratch).allow_write(&main).current_dir(&main);
    let script = "git status --porcelain -uno && git config core.abbrev";
    assert_eq!(srt.sh(script).succeeds().stdout, "9\n");
}

#[test]
fn an_index_made_inside_is_the_one_made_outside() {
    if run(Command::new("git").arg("--version")).status != 0 {
        return skip("git is not installed");
    }
    for has_protected in [false, true] {
        let (ours, theirs) = (Scratch::new("index-in"), Scratch::new("index-out"));
        let (inside, outside) = (family(&ours), family(&theirs));
        for checkout in CHECKOUTS {
            let [inside, outside] = [&inside, &outside].map(|family| family.join(checkout));
            change(&inside, has_protected);
            change(&outside, has_protected);
            let untracked = |dir: &Path| git(dir, "status --porcelain -uall --ignored").stdout;
            let seen = untracked(&outside);
            assert!(seen.contains("?? src/new"), "{seen}");

            git(&outside, "add -A").succeeds();
            let srt = || {
                let srt = Srt::new(&ours).allow_write(ours.path("w"));
                let somebody = SOMEBODY.into_iter();
                somebody
                    .fold(srt, |srt, (name, value)| srt.env(name, value))
                    .current_dir(&inside)
            };
            let status = ["git", "status", "--porcelain", "-uall", "--ignored"];
            assert_eq!(srt().run(&status).succeeds().stdout, seen, "{checkout}");
            srt().run(&["git", "add", "-A"]).succeeds();

            let index = |dir: &Path| git(dir, "ls-files --stage -v").succeeds().stdout;
            assert_eq!(index(&inside), index(&outside), "{checkout}");
            assert_eq!(
                index(&inside).contains(".mcp.json"),
                has_protected,
                "{checkout}"
            );
            assert_eq!(untracked(&inside), untracked(&outside), "{checkout}");
        }
    }
}

#[test]
fn a_hidden_file_that_git_tracks_is_told_of() {
    let scratch = Scratch::new("tracked");
    let told = |name: &str| format!("{name} is tracked by git: what was committed of it");
    for (at, init) in [
        ("plain", "-c index.version=2 init -q"),
        ("short", "-c index.version=4 init -q"),
        ("sha256", "init -q --object-format=sha256"),
    ] {
        let dir = scratch.dir(at);
        for name in [".env", ".envrc", "keys/one.pem", "keys/two.pem", "other"] {
            scratch.file(&format!("{at}/{name}"), "secret");
        }
        let add = "add .env .envrc keys/one.pem";
        let words = match at {
            "short" => format!("-c index.version=4 {add}"),
            _ => add.to_owned(),
        };
        for words in [init, &words, "commit -qm first"] {
            git(&dir, words).succeeds();
        }
        let says = |entry: &str, name: &str| {
            let srt = Srt::new(&scratch).deny_read(dir.join(entry)).flags(&["-v"]);
            srt.run(&["true"]).succeeds().shows(&told(name))
        };
        assert!(says(".env", ".env") && says("keys", "keys"), "{at}");
        assert!(says("keys/*.pem", "one.pem"), "{at}");
        for (entry, name) in [
            ("keys/*.pem", "two.pem"),
            ("other", "other"),
            (".git", ".git"),
        ] {
            assert!(!says(entry, name), "{at}: {name}");
        }
        let quiet = Srt::new(&scratch).deny_read(dir.join(".env"));
        assert!(!quiet.run(&["true"]).succeeds().shows("tracked"), "{at}");
    }
    git(&scratch.path("plain"), "worktree add -q ../tree").succeeds();
    let srt = Srt::new(&scratch).deny_read(scratch.path("tree/.env"));
    let ran = srt.flags(&["-v"]).run(&["true"]);
    assert!(ran.succeeds().shows(&told("tree/.env")));
}
