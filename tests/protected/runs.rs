//! Several runs in one directory, and what a run leaves there.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use super::harness::{Scratch, Srt, wait_until};
use super::{change, snapshot};

/// A run that waits for a line, then tries to write, then waits again.
struct Waiting {
    child: Child,
    mark: PathBuf,
}

impl Waiting {
    fn start(scratch: &Scratch, name: &str) -> Self {
        let script = format!(
            "touch {name}.started; read x; echo evil >>.envrc; mv .vscode v; touch {name}.tried; read x; true"
        );
        let srt = Srt::new(scratch).allow_write(".");
        let mut command = srt.into_command(&["sh", "-c", &script]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("srt is built");
        let waiting = Self {
            child,
            mark: scratch.path("cwd").join(name),
        };
        waiting.reaches("started");
        waiting
    }

    fn reaches(&self, what: &str) {
        let mark = self.mark.with_extension(what);
        assert!(wait_until(|| mark.exists()), "{what}");
    }

    fn goes_on(&mut self) {
        let input = self.child.stdin.as_mut().expect("it is piped");
        input.write_all(b"x\n").expect("it waits");
    }

    fn tries(&mut self) {
        self.goes_on();
        self.reaches("tried");
    }

    fn ends(mut self) {
        self.goes_on();
        assert!(self.child.wait().is_ok_and(|status| status.success()));
    }
}

#[test]
fn runs_in_one_directory_start_and_end_in_any_order() {
    for reversed in [false, true] {
        let scratch = Scratch::new("order");
        scratch.file("cwd/.envrc", "kept");
        scratch.file("cwd/.vscode/tasks.json", "kept");
        let cwd = scratch.path("cwd");
        let before = snapshot(&cwd);
        let mut runs: Vec<_> = ["one", "two", "three"]
            .map(|name| Waiting::start(&scratch, name))
            .into();
        if reversed {
            runs.reverse();
        }
        let paths = [cwd.join(".envrc"), cwd.join(".vscode")];
        for mut run in runs {
            // Others have ended.
            run.tries();
            run.ends();
            change(&scratch, Srt::new(&scratch).allow_write("."), &paths).succeeds();
        }
        for mark in ["one", "two", "three"]
            .iter()
            .flat_map(|name| ["started", "tried"].map(|what| format!("{name}.{what}")))
        {
            fs::remove_file(cwd.join(mark)).expect("a run made it");
        }
        assert_eq!(snapshot(&cwd), before);
    }
}

#[test]
fn a_run_leaves_nothing_and_ordinary_renames_beside_what_is_protected_work() {
    let scratch = Scratch::new("beside");
    scratch.file("cwd/a/b/.envrc", "kept");
    scratch.file("cwd/a/b/file", "x");
    scratch.file("cwd/a/other/file", "x");
    let cwd = scratch.path("cwd");
    let before = snapshot(&cwd);
    Srt::new(&scratch)
        .allow_write(".")
        .run(&["true"])
        .succeeds();
    assert_eq!(snapshot(&cwd), before);

    // Renamed, and not by a copy.
    let script = "import os
os.rename('a/b/file', 'a/b/moved'); os.rename('a/other', 'a/renamed'); os.mkdir('a/b/new'); os.rename('a/b/new', 'a/b/newer')
for act in [lambda: os.rename('a', 'z'), lambda: os.rename('a/b', 'a/z'), lambda: os.rename('a/b/.envrc', 'a/b/z')]:
    try:
        act()
    except OSError as error:
        print(error.errno)";
    let ran = Srt::new(&scratch)
        .allow_write(".")
        .run(&["python3", "-c", script])
        .succeeds();
    let busy = format!("{}\n", libc::EBUSY).repeat(3);
    assert_eq!(ran.stdout, busy);
    let names = ["a/b/moved", "a/renamed/file", "a/b/newer", "a/b/.envrc"];
    assert!(names.iter().all(|name| cwd.join(name).exists()));
}

#[test]
fn a_run_starts_while_others_make_and_remove_protected_names() {
    let scratch = Scratch::new("coming");
    scratch.file("cwd/kept/.envrc", "kept");
    let script = "i=0; while [ ! -e stop ] && [ $i -lt 4000 ]; do i=$((i+1)); mkdir -p d/.vscode e; : >d/.envrc; ln -s x e/.bashrc; touch started; rm -rf d e; done";
    let srt = Srt::new(&scratch).allow_write(".");
    let mut command = srt.into_command(&["sh", "-c", script]);
    let mut other = command.stdin(Stdio::null()).spawn().expect("srt is built");
    let cwd = scratch.path("cwd");
    assert!(wait_until(|| cwd.join("started").exists()));
    for _ in 0..30 {
        let ran = Srt::new(&scratch)
            .allow_write(".")
            .sh("echo evil >>kept/.envrc");
        ran.fails();
    }
    fs::write(cwd.join("stop"), "").expect("it is ours");
    drop(other.wait());
    assert_eq!(
        fs::read_to_string(cwd.join("kept/.envrc")).ok().as_deref(),
        Some("kept")
    );
}
