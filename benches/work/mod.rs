//! Ordinary work that is measured inside and outside.

#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Files of the tree that is walked.
const FILES: usize = 50_000;

/// Libraries of the crate that is built, each by a compiler of its own.
const LIBRARIES: usize = 6;

/// Makes a repository of [`FILES`] files, all of them added.
pub(crate) fn repository(scratch: &Path) -> PathBuf {
    let path = scratch.join("repository");
    for number in 0..FILES {
        let directory = path.join((number / 500).to_string());
        if number % 500 == 0 {
            std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
        }
        std::fs::write(directory.join(number.to_string()), "x").expect("the directory is ours");
    }
    for words in [&["init", "-q"][..], &["add", "-A"]] {
        let mut git = Command::new("git");
        let status = git.arg("-C").arg(&path).args(words).status();
        assert!(status.expect("git is installed").success());
    }
    path
}

/// A workspace without dependencies to fetch.
pub(crate) struct Build {
    path: PathBuf,
    cargo: PathBuf,
}

impl Build {
    pub(crate) fn new(scratch: &Path) -> Self {
        let path = scratch.join("crates");
        let write = |name: String, text: String| {
            let file = path.join(name);
            let parent = file.parent().expect("a file has one");
            std::fs::create_dir_all(parent).expect("the temporary directory is writable");
            std::fs::write(file, text).expect("the directory is ours");
        };
        let package = |name: &str| {
            format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n")
        };
        let mut manifest = package("whole") + "[workspace]\n[dependencies]\n";
        for number in 0..LIBRARIES {
            let name = format!("part{number}");
            write(format!("{name}/Cargo.toml"), package(&name));
            let text = "pub fn sorted(mut all: Vec<String>) -> Vec<String> { all.sort(); all }\n";
            write(format!("{name}/src/lib.rs"), text.to_owned());
            manifest += &format!("{name} = {{ path = \"{name}\" }}\n");
        }
        write("Cargo.toml".to_owned(), manifest);
        let text = "fn main() { std::process::exit(part0::sorted(Vec::new()).len() as i32) }\n";
        write("src/main.rs".to_owned(), text.to_owned());
        // The command of that name on PATH may need a HOME.
        let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
        let sysroot = sysroot.expect("rustc built this").stdout;
        let sysroot = String::from_utf8(sysroot).expect("the path is UTF-8");
        Self {
            path,
            cargo: Path::new(sysroot.trim()).join("bin/cargo"),
        }
    }

    /// Builds all of it with the command that `start` makes of words, and returns the seconds.
    pub(crate) fn time(&self, start: impl FnOnce(&[&str]) -> Command) -> f64 {
        let target = self.path.join("target");
        drop(std::fs::remove_dir_all(&target));
        let cargo = self.cargo.to_str().expect("the path is UTF-8");
        let mut command = start(&[cargo, "build", "--offline", "--quiet"]);
        command
            .current_dir(&self.path)
            .env("CARGO_HOME", self.path.join("home"))
            .env("CARGO_TARGET_DIR", &target)
            .env("RUSTC", self.cargo.with_file_name("rustc"));
        time(&mut command)
    }
}

/// Runs a command and returns the seconds.
pub(crate) fn time(command: &mut Command) -> f64 {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("srt was built");
    let taken = start.elapsed().as_secs_f64();
    assert!(status.success(), "{command:?}");
    taken
}
