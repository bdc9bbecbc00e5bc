//! What a later command would execute stays as it is, wherever it may be written; judged by the
//! state of the host.

#[path = "../harness/mod.rs"]
mod harness;

mod cases;
mod git;
mod names;
mod runs;
mod search;
mod settings;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Ran, Scratch, Srt};
use serde_json::Value;

/// The names of one table of `data/protected.json`.
fn names(table: &str) -> Vec<String> {
    let data: Value = serde_json::from_str(include_str!("../../data/protected.json"))
        .expect("the build reads it too");
    let groups = data[table].as_array().expect("a table is an array");
    let names = groups.iter().flat_map(|group| {
        let names = group["names"].as_array().expect("a group has names");
        names
            .iter()
            .map(|name| name.as_str().expect("a name is text").to_owned())
    });
    names.collect()
}

/// What every path below `dir` is: kind and mode, content or target, inode.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>, u64)> {
    let mut all = BTreeMap::new();
    let mut ahead = vec![dir.to_owned()];
    while let Some(path) = ahead.pop() {
        let meta = path.symlink_metadata().expect("it was listed");
        let content = match meta.file_type() {
            kind if kind.is_dir() => {
                let entries = fs::read_dir(&path).expect("the test made it");
                ahead.extend(entries.map(|entry| entry.expect("it is readable").path()));
                Vec::new()
            }
            kind if kind.is_symlink() => {
                let target = fs::read_link(&path).expect("it is a link");
                target.into_os_string().into_encoded_bytes()
            }
            kind if kind.is_file() => fs::read(&path).expect("the test made it"),
            _ => Vec::new(),
        };
        all.insert(path, (meta.mode(), content, meta.ino()));
    }
    all
}

/// Tries to change each path that stands as a line in a file, in every way there is.
const CHANGE: &str = r#"
import os, shutil, sys
def attempt(act, *words):
    try:
        act(*words)
    except OSError:
        pass
def write(path, text):
    with open(path, 'a') as file:
        file.write(text)
for path in open(sys.argv[1]).read().split('\n'):
    if not path:
        continue
    if os.path.isdir(path):
        attempt(write, path + '/planted', 'planted')
        attempt(os.mkdir, path + '/made')
        attempt(os.chmod, path, 0o700)
        for name in os.listdir(path):
            attempt(write, path + '/' + name, 'planted')
            attempt(os.unlink, path + '/' + name)
        attempt(os.mkdir, path + '.new')
        attempt(write, path + '.new/planted', 'planted')
    else:
        attempt(write, path, 'planted')
        attempt(os.chmod, path, 0o700)
        attempt(write, path + '.new', 'planted')
    attempt(os.rename, path, path + '.old')
    attempt(os.unlink, path)
    attempt(os.rename, path + '.new', path)
    attempt(os.rename, os.path.dirname(path), os.path.dirname(path) + '.moved')
    for rest in ('.new', '.old'):
        attempt(os.unlink, path + rest)
        shutil.rmtree(path + rest, ignore_errors=True)
"#;

/// Runs [`CHANGE`] inside on `paths`.
fn change(scratch: &Scratch, srt: Srt, paths: &[PathBuf]) -> Ran {
    let lines: Vec<_> = paths
        .iter()
        .map(|path| path.to_str().expect("UTF-8"))
        .collect();
    let list = scratch.file("paths", lines.join("\n"));
    srt.run(&[
        Path::new("/usr/bin/python3"),
        Path::new("-c"),
        Path::new(CHANGE),
        &list,
    ])
}

/// Runs git outside, as somebody, without any configuration of this machine.
fn git_outside(dir: &Path, words: &[&str]) -> Ran {
    let mut git = Command::new("git");
    git.current_dir(dir).args(words);
    harness::run(as_somebody(&mut git))
}

fn as_somebody(git: &mut Command) -> &mut Command {
    for name in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{name}_NAME"), "t")
            .env(format!("GIT_{name}_EMAIL"), "t@example.test");
    }
    git.env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
}

/// Runs git inside, with the same surroundings.
fn git_inside(srt: Srt, script: &str) -> Ran {
    let mut command = srt.into_command(&["sh", "-c", script]);
    harness::run(as_somebody(&mut command))
}

/// Makes a repository with one commit.
fn repository(scratch: &Scratch, name: &str) -> PathBuf {
    let dir = scratch.dir(name);
    git_outside(&dir, &["init", "-q", "-b", "main"]).succeeds();
    scratch.file(&format!("{name}/file"), "one\n");
    git_outside(&dir, &["add", "file"]).succeeds();
    git_outside(&dir, &["commit", "-qm", "first"]).succeeds();
    dir
}
