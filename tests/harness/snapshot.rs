//! What stands below a directory before and after a run, and whether the run was allowed to
//! change what differs.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Files up to this size are compared byte by byte; of longer ones size and times.
const COMPARED: u64 = 64 * 1024;

/// More are not followed, by the kernel either.
const MOST_LINKS: usize = 40;

/// All that stands below a directory, by path.
#[derive(Debug)]
pub struct Snapshot(BTreeMap<PathBuf, Entry>);

/// What is compared of one name, links not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    inode: (u64, u64),
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: u64,
    modified: (i64, i64),
    /// Every change that the others miss: a name that was replaced and put back, times set back.
    changed: (i64, i64),
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    content: Option<u64>,
}

/// What a run may change of the host.
#[derive(Debug, Default)]
pub struct Allowance {
    /// Writing below these is granted.
    pub granted: Vec<PathBuf>,
    /// Nothing below these is written, whatever is granted.
    pub kept: Vec<PathBuf>,
    /// Below these nothing is seen.
    pub hidden: Vec<PathBuf>,
    /// Below these something is seen again.
    pub shown: Vec<PathBuf>,
    /// Below these a pattern shows something again or grants it, however deep.
    pub opened: Vec<PathBuf>,
    /// Directories that are made on the way to a grant.
    pub made: Vec<PathBuf>,
    /// Directories in which the launcher makes its own and removes it again.
    pub passing: Vec<PathBuf>,
    /// What the test lets the host change meanwhile.
    pub excused: Vec<PathBuf>,
}

impl Snapshot {
    /// Looks at `root` and at all that can be listed below it.
    pub fn of(root: &Path) -> Self {
        let mut entries = BTreeMap::new();
        let mut left = vec![root.to_path_buf()];
        while let Some(path) = left.pop() {
            // What a process left over by an earlier run removes meanwhile is not there.
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            if meta.is_dir() {
                let found = fs::read_dir(&path).into_iter().flatten().flatten();
                left.extend(found.map(|entry| entry.path()));
            }
            entries.insert(path.clone(), Entry::of(&path, &meta));
        }
        Self(entries)
    }

    /// Lists what differs in `after` without being allowed, a line each.
    pub fn forbidden_changes(&self, after: &Self, allowance: &Allowance) -> Vec<String> {
        let names: BTreeSet<_> = self.0.keys().chain(after.0.keys()).collect();
        let renewed = self.parents_of_what_came_or_went(after, allowance);
        let mut changes = Vec::new();
        for path in names {
            let what = match (self.0.get(path), after.0.get(path)) {
                (Some(before), Some(now)) if before == now => continue,
                (Some(before), Some(now)) => before.differences(now, renewed.contains(&**path)),
                (Some(_), None) => vec!["removed".to_owned()],
                (None, _) => vec!["new".to_owned()],
            };
            if !what.is_empty() && !allowance.covers(path) {
                changes.push(format!("{}: {}", path.display(), what.join(", ")));
            }
        }
        changes
    }

    /// The times of a directory follow what is made and removed in it.
    fn parents_of_what_came_or_went(
        &self,
        after: &Self,
        allowance: &Allowance,
    ) -> BTreeSet<PathBuf> {
        let id = |side: &Self, path: &Path| side.0.get(path).map(|entry| entry.inode);
        let names = self.0.keys().chain(after.0.keys());
        let moved = names.filter(|path| id(self, path) != id(after, path));
        let parents = moved
            .filter(|path| allowance.covers(path))
            .filter_map(|path| path.parent())
            .map(Path::to_path_buf);
        parents.chain(allowance.passing.iter().cloned()).collect()
    }
}

impl Entry {
    fn of(path: &Path, meta: &fs::Metadata) -> Self {
        let is_short = meta.is_file() && meta.len() <= COMPARED;
        Self {
            inode: (meta.dev(), meta.ino()),
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            links: meta.nlink(),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
            attributes: attributes(path),
            content: is_short.then(|| hash_of(path)).flatten(),
        }
    }

    /// Names what differs; a directory that was `renewed` has other times, links and size.
    fn differences(&self, now: &Self, renewed: bool) -> Vec<String> {
        let mut found = Vec::new();
        let mut compare = |what: &str, differs: bool, from: String, to: String| {
            if differs {
                found.push(format!("{what} {from} -> {to}"));
            }
        };
        macro_rules! compared {
            ($what:literal, $field:ident) => {
                compare(
                    $what,
                    self.$field != now.$field,
                    format!("{:?}", self.$field),
                    format!("{:?}", now.$field),
                )
            };
        }
        compared!("inode", inode);
        compare(
            "mode",
            self.mode != now.mode,
            format!("{:o}", self.mode),
            format!("{:o}", now.mode),
        );
        compared!("owner", owner);
        compared!("attributes", attributes);
        compared!("content", content);
        if !renewed {
            compared!("links", links);
            compared!("size", size);
            compared!("mtime", modified);
            compared!("ctime", changed);
        }
        found
    }
}

impl Allowance {
    fn covers(&self, path: &Path) -> bool {
        let below = |roots: &[PathBuf]| roots.iter().any(|root| path.starts_with(root));
        below(&self.excused) || self.made.iter().any(|made| made == path) || self.may_write(path)
    }

    /// The precedence of the four lists, as the documentation has it.
    fn may_write(&self, path: &Path) -> bool {
        let deepest = |roots: &[PathBuf]| {
            let covering = roots.iter().filter(|root| path.starts_with(root));
            covering.map(|root| root.components().count()).max()
        };
        let granted = deepest(&self.granted);
        let is_seen = deepest(&self.opened).is_some()
            || deepest(&self.hidden) <= granted.max(deepest(&self.shown));
        granted.is_some() && deepest(&self.kept).is_none() && is_seen
    }
}

fn hash_of(path: &Path) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    fs::read(path).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

/// Reads the extended attributes that this user may see.
fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0_u8; 4096];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0);
    let read = |name: &[u8]| {
        let mut value = vec![0_u8; 4096];
        let length = rustix::fs::lgetxattr(path, CString::new(name).ok()?, &mut value[..]).ok()?;
        value.truncate(length);
        Some((name.to_vec(), value))
    };
    names
        .filter(|name| !name.is_empty())
        .filter_map(read)
        .collect()
}

/// Resolves an entry of the settings as the documentation has it; `None` where nothing is there.
///
/// Of a pattern the directory it starts from is returned, which is more than it fits: itself too,
/// where a name is written like that.
pub fn resolved(text: &str, literal: bool, cwd: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let plain = |part: &&str| literal || !has_pattern(part.as_bytes());
    let start: Vec<_> = text.split('/').take_while(plain).collect();
    let start = match start.join("/") {
        // An absolute one: the text before its first slash is empty.
        start if start.is_empty() && text.starts_with('/') => "/".to_owned(),
        start => start,
    };
    // Without the slash at the end, which a file may have too.
    let named: PathBuf = absolute(&start, cwd, home)?.components().collect();
    real(&named).ok()
}

/// Follows all links, as the kernel does: the library's own way is what is tested.
#[allow(
    clippy::disallowed_methods,
    reason = "what is compared is not to rest on the code under test"
)]
pub fn real(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path)
}

/// Tells whether an entry is a pattern, so that what it fits is not known here.
pub fn is_pattern(text: &str, literal: bool) -> bool {
    !literal && has_pattern(text.as_bytes())
}

/// Returns where an entry that ends in a slash is made, and what is made on the way: at the end of
/// a link, where one leads to what is missing.
pub fn to_be_made(text: &str, cwd: &Path, home: Option<&Path>) -> Option<(PathBuf, Vec<PathBuf>)> {
    let mut named = absolute(text.strip_suffix('/')?, cwd, home)?;
    for _ in 0..MOST_LINKS {
        let (there, real) = named
            .ancestors()
            .find_map(|path| Some((path, real(path).ok()?)))?;
        let mut rest = named.strip_prefix(there).ok()?.components();
        let first = real.join(rest.next()?);
        if let Ok(target) = fs::read_link(&first) {
            named = real.join(target).join(rest);
            continue;
        }
        let mut end = first;
        for part in rest {
            match part {
                Component::ParentDir => drop(end.pop()),
                part => end.push(part),
            }
        }
        let steps = end.ancestors().take_while(|path| *path != real);
        let made = steps.map(Path::to_path_buf).collect();
        return Some((end, made));
    }
    None
}

fn absolute(text: &str, cwd: &Path, home: Option<&Path>) -> Option<PathBuf> {
    match text.strip_prefix('~') {
        Some(rest) => Some(home?.join(rest.trim_start_matches('/'))),
        None => Some(cwd.join(text)),
    }
}

fn has_pattern(text: &[u8]) -> bool {
    text.iter().any(|byte| b"*?[{".contains(byte))
}
