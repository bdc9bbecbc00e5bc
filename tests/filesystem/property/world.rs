//! A tree on the host, and a process that acts on it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::draw::{Act, Names, Node, What};
use crate::harness::{Killed, Ran, wait_until};

/// A directory with a tree in it.
#[derive(Debug)]
pub(super) struct Tree(PathBuf);

/// What is compared of a name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item {
    mode: u32,
    links: u64,
    /// The time that an act sets.
    touched: bool,
    /// Content of a file, target of a link.
    content: String,
}

impl Tree {
    pub(super) fn make(root: &Path, nodes: &[Node]) -> Self {
        let tree = Self(root.to_path_buf());
        for Node { path, what } in nodes {
            let place = tree.place(path);
            match what {
                What::Directory => fs::create_dir_all(place),
                What::File(content) => fs::write(place, content),
                What::Link(target) => symlink(tree.target(target), place),
                What::Name(other) => fs::hard_link(tree.place(other), place),
            }
            .expect("the names are new");
        }
        tree
    }

    pub(super) fn root(&self) -> &Path {
        &self.0
    }

    pub(super) fn place(&self, path: &[u8]) -> PathBuf {
        self.0.join(OsStr::from_bytes(path))
    }

    /// Makes a directory that is in another tree, with those above it.
    pub(super) fn make_as_in(&self, other: &Self, path: &Path) {
        let rest = path.strip_prefix(&other.0).expect("entries lie below");
        let mut above: Vec<_> = rest.ancestors().collect();
        above.reverse();
        for path in above {
            drop(fs::create_dir(self.0.join(path)));
            let mode = fs::metadata(other.0.join(path)).expect("it was made");
            fs::set_permissions(self.0.join(path), mode.permissions()).expect("ours");
        }
    }

    fn target(&self, target: &[u8]) -> PathBuf {
        match target.strip_prefix(b"@") {
            Some(rest) => {
                let whole = [self.0.as_os_str().as_bytes(), rest].concat();
                PathBuf::from(std::ffi::OsString::from_vec(whole))
            }
            None => OsStr::from_bytes(target).into(),
        }
    }
}

/// Sorts the names of a tree by what they are.
pub(super) fn names(state: &BTreeMap<Vec<u8>, Item>) -> Names {
    let is_directory = |item: &Item| item.mode & 0o170_000 == 0o040_000;
    let mut names = Names::default();
    for (name, item) in state {
        match is_directory(item) {
            true => names.directories.push(name.clone()),
            false => names.others.push(name.clone()),
        }
    }
    names
}

/// Looks at a whole tree; a target that names the root is the same in every tree.
pub(super) fn state(tree: &Tree) -> BTreeMap<Vec<u8>, Item> {
    let mut items = BTreeMap::new();
    let mut left = vec![tree.0.clone()];
    while let Some(path) = left.pop() {
        let meta = fs::symlink_metadata(&path).expect("nothing else changes it");
        let content = match () {
            () if meta.is_dir() => {
                let entries = fs::read_dir(&path).expect("its mode lets us");
                left.extend(entries.map(|entry| entry.expect("readable").path()));
                Vec::new()
            }
            () if meta.is_symlink() => {
                let target = fs::read_link(&path).expect("it is a link");
                let target = target.into_os_string().into_vec();
                match target.strip_prefix(tree.0.as_os_str().as_bytes()) {
                    Some(rest) => [b"@", rest].concat(),
                    None => target,
                }
            }
            () => fs::read(&path).expect("its mode lets us"),
        };
        let name = path.strip_prefix(&tree.0).expect("it lies below");
        items.insert(
            name.as_os_str().as_bytes().to_vec(),
            Item {
                mode: meta.mode(),
                links: meta.nlink(),
                touched: meta.mtime() == 1,
                content: content.escape_ascii().to_string(),
            },
        );
    }
    items
}

/// `tests/probe/act.py`, which answers line by line.
pub(super) struct Probe {
    child: Killed,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Probe {
    pub(super) fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child: Child = command.spawn().expect("srt and python3 are there");
        Self {
            input: child.stdin.take(),
            output: BufReader::new(child.stdout.take().expect("piped")),
            child: Killed(child),
        }
    }

    /// Has it act, and returns what it says of that.
    pub(super) fn ask(&mut self, act: &Act) -> String {
        let input = self.input.as_mut().expect("open until the end");
        writeln!(input, "{}", act.line()).expect("the probe listens");
        let mut answer = String::new();
        self.output.read_line(&mut answer).expect("it is ASCII");
        if answer.is_empty() {
            panic!("no answer to {act:?}: {:?}", self.ran());
        }
        answer.trim_end().to_owned()
    }

    /// Has it act on a tree from now on.
    pub(super) fn enter(&mut self, tree: &Tree) {
        let root = tree.0.as_os_str().as_bytes().to_vec();
        assert_eq!(self.ask(&Act::root(root)), "ok");
    }

    pub(super) fn end(mut self) -> Ran {
        let ran = self.ran();
        assert_eq!(ran.status, 0, "{ran:?}");
        ran
    }

    fn ran(&mut self) -> Ran {
        drop(self.input.take());
        let mut stderr = String::new();
        let mut pipe = self.child.0.stderr.take().expect("piped");
        pipe.read_to_string(&mut stderr).expect("it is text");
        let status = self.child.0.wait().expect("our child");
        Ran {
            status: status.code().unwrap_or(-1),
            stdout: String::new(),
            stderr,
        }
    }
}

/// A run that is killed leaves its directory behind, which others would be blamed for.
impl Drop for Probe {
    fn drop(&mut self) {
        drop(self.input.take());
        wait_until(|| !matches!(self.child.0.try_wait(), Ok(None)));
    }
}
