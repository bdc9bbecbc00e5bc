//! What is drawn from a seed: trees, entries of settings, acts.

use std::fmt;
use std::path::Path;

/// Numbers that look drawn: SplitMix64.
pub(super) struct Draw {
    state: u64,
    /// Names that have entries: more is drawn near them.
    ruled: Vec<Vec<u8>>,
}

/// One name of a tree, with its path relative to the root.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) path: Vec<u8>,
    pub(super) what: What,
}

#[derive(Debug, Clone)]
pub(super) enum What {
    Directory,
    File(String),
    /// A target; `@` stands for the root.
    Link(Vec<u8>),
    /// Another name of a file.
    Name(Vec<u8>),
}

/// The names that are there now.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) directories: Vec<Vec<u8>>,
    pub(super) others: Vec<Vec<u8>>,
}

/// An entry of a list.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) text: String,
    pub(super) literal: bool,
}

/// What a probe does, with its operands.
pub(super) struct Act {
    pub(super) name: &'static str,
    operands: Vec<Vec<u8>>,
}

pub(super) const LISTS: [&str; 4] = [
    "filesystem.denyRead",
    "filesystem.allowRead",
    "filesystem.allowWrite",
    "filesystem.denyWrite",
];

const NAMES: [&[u8]; 13] = [
    b"a",
    b"b",
    b"c",
    b"a b",
    b"x\ny",
    b"[x]",
    b"x",
    "\u{e9}".as_bytes(),
    b"\xff\xfe",
    b"{a,b}",
    b"*",
    b"-x",
    b"a\\b",
];

const PATTERNS: [&str; 12] = [
    "*", "*/*", "*/a", "**/b", "?", "a*", "[ab]/c", "{a,b}", "**/[x]", "*/**/c", "[!a]*", "b/**",
];

const ACTS: [&str; 22] = [
    "read", "read", "read", "read", "read", "list", "list", "write", "write", "create", "create",
    "empty", "truncate", "chmod", "touch", "mkdir", "symlink", "link", "unlink", "rmdir", "rename",
    "rename",
];

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            state: seed,
            ruled: Vec::new(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        usize::try_from(bits % end as u64).expect("it is below a length")
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Draws a tree of four levels at most below `base`.
    pub(super) fn tree(&mut self, base: &str) -> Vec<Node> {
        let mut nodes = vec![Node {
            path: base.into(),
            what: What::Directory,
        }];
        let mut directories = vec![(base.as_bytes().to_vec(), 0)];
        let has_names = self.chance(50);
        while let Some((directory, depth)) = directories.pop() {
            let mut free = NAMES.to_vec();
            for _ in 0..3 + self.below(4) {
                let name = free.swap_remove(self.below(free.len()));
                let path = [&directory, &b"/"[..], name].concat();
                let what = self.what(&nodes, depth, has_names);
                if matches!(what, What::Directory) {
                    directories.push((path.clone(), depth + 1));
                }
                nodes.push(Node { path, what });
            }
        }
        nodes
    }

    fn what(&mut self, nodes: &[Node], depth: usize, has_names: bool) -> What {
        let files: Vec<_> = nodes
            .iter()
            .filter(|node| matches!(node.what, What::File(_)))
            .collect();
        match self.below(100) {
            0..45 if depth < 3 => What::Directory,
            0..78 => What::File(format!("content {}", nodes.len())),
            78..85 if has_names && !files.is_empty() => What::Name(self.pick(&files).path.clone()),
            _ => {
                let other = self.pick(nodes).path.clone();
                What::Link(self.target(&other, depth))
            }
        }
    }

    /// Draws a target that leads to `other`, absolutely or not, or to nothing.
    fn target(&mut self, other: &[u8], depth: usize) -> Vec<u8> {
        let name = other
            .rsplit(|byte| *byte == b'/')
            .next()
            .expect("one at least");
        match self.below(4) {
            0 => name.to_vec(),
            1 if depth > 0 => [b"../".repeat(self.below(depth) + 1), name.to_vec()].concat(),
            _ => [b"@/", other].concat(),
        }
    }

    /// Draws the entries of one list, in a tree whose base, the first node, is at `place`.
    pub(super) fn entries(&mut self, list: &str, nodes: &[Node], place: &Path) -> Vec<Entry> {
        let count = match list {
            "filesystem.denyRead" => 1 + self.below(4),
            _ => self.below(4),
        };
        let drawn = (0..count).filter_map(|_| self.entry(nodes, place));
        let mut entries: Vec<_> = drawn.collect();
        // Else most runs could do nothing.
        if list == "filesystem.allowWrite" && self.chance(60) {
            entries.push(Entry {
                text: ".".to_owned(),
                literal: false,
            });
        }
        entries
    }

    /// Draws an entry; a name that is not UTF-8 cannot be written as one.
    fn entry(&mut self, nodes: &[Node], place: &Path) -> Option<Entry> {
        let plain = |text: &str| Entry {
            text: text.to_owned(),
            literal: false,
        };
        match self.below(100) {
            0..4 => return Some(plain(".")),
            4..20 => return Some(plain(self.pick::<&str>(&PATTERNS))),
            20 => return Some(plain("..")),
            _ => {}
        }
        let paths: Vec<_> = nodes.iter().map(|node| &node.path).collect();
        let node = self.near(&paths);
        self.ruled.push(node.clone());
        let base = &nodes[0].path;
        let path = node.strip_prefix(&**base).expect("all lie below");
        let mut text = String::from_utf8(path.to_vec()).ok()?;
        text = format!(".{text}");
        if self.chance(4) {
            text += *self.pick::<&str>(&["/missing", "/missing/", "/missing/below/", "/../b"]);
        }
        if self.chance(10) {
            text.push('/');
        }
        if self.chance(20) {
            text = format!("{}/{text}", place.display());
        }
        let literal = self.chance(50) && text.contains(['[', '{', '*']);
        Some(Entry { text, literal })
    }

    /// Draws a path, mostly below one that has an entry: rules meet there.
    fn near(&mut self, paths: &[impl AsRef<[u8]>]) -> Vec<u8> {
        if !self.ruled.is_empty() && self.chance(60) {
            let ruled = self.pick(&self.ruled.clone()).clone();
            let below = paths.iter().map(AsRef::as_ref);
            let below: Vec<_> = below.filter(|path| path.starts_with(&ruled)).collect();
            if !below.is_empty() {
                return self.pick(&below).to_vec();
            }
        }
        self.pick(paths).as_ref().to_vec()
    }

    /// Draws an act on names that are there, mostly such that it could succeed.
    pub(super) fn act(&mut self, there: &Names) -> Act {
        let name = *self.pick(&ACTS);
        let operands = match name {
            "write" => {
                let text = format!("w{}", self.below(1000));
                vec![self.file(there), text.into_bytes()]
            }
            "chmod" => {
                let mode = self.pick(&["700", "750", "755"]).as_bytes().to_vec();
                vec![self.any(there), mode]
            }
            "symlink" => {
                let other = self.any(there);
                vec![self.target(&other, 1), self.unused(there)]
            }
            "create" | "mkdir" => vec![self.unused(there)],
            "link" => vec![self.file(there), self.unused(there)],
            "rename" => {
                let new = match self.chance(70) {
                    true => self.unused(there),
                    false => self.any(there),
                };
                vec![self.any(there), new]
            }
            "list" | "rmdir" => vec![self.directory(there)],
            "touch" => vec![self.any(there)],
            _ => vec![self.file(there)],
        };
        Act { name, operands }
    }

    fn any(&mut self, there: &Names) -> Vec<u8> {
        match self.below(10) {
            0 => self.unused(there),
            1..4 => self.directory(there),
            _ => self.file(there),
        }
    }

    fn file(&mut self, there: &Names) -> Vec<u8> {
        match !there.others.is_empty() && self.chance(95) {
            true => self.near(&there.others),
            false => self.directory(there),
        }
    }

    fn directory(&mut self, there: &Names) -> Vec<u8> {
        self.near(&there.directories)
    }

    fn unused(&mut self, there: &Names) -> Vec<u8> {
        let below = match self.chance(90) {
            true => self.directory(there),
            // A link that leads to one.
            false => self.file(there),
        };
        [&below, &b"/"[..], *self.pick(&NAMES)].concat()
    }
}

impl fmt::Debug for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands = self.operands.iter().map(|bytes| bytes.escape_ascii());
        f.debug_tuple(self.name)
            .field(&operands.map(|text| text.to_string()).collect::<Vec<_>>())
            .finish()
    }
}

impl Act {
    /// Has a probe act on another tree.
    pub(super) fn root(path: Vec<u8>) -> Self {
        Self {
            name: "root",
            operands: vec![path],
        }
    }

    pub(super) fn reads(&self) -> bool {
        matches!(self.name, "read" | "list")
    }

    /// Returns the operands that name what is acted on.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        let from = usize::from(self.name == "symlink");
        let to = match self.name {
            "write" | "chmod" => 1,
            _ => self.operands.len(),
        };
        self.operands[from..to].iter().map(Vec::as_slice)
    }

    /// Writes it as the probe reads it.
    pub(super) fn line(&self) -> String {
        let hex = |bytes: &Vec<u8>| -> String {
            let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
            format!(" .{}", digits.collect::<String>())
        };
        let operands: String = self.operands.iter().map(hex).collect();
        format!("{}{operands}", self.name)
    }
}
