//! Paths of rules: absolute, with every link resolved, and known by what they name.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::host::Host;
use crate::error::{Error, Kind, Result};
use crate::settings::{Entry, Layer};

/// A path that exists: absolute, free of links, `.` and `..`, with the identity of what it
/// named when it was resolved. A launch that finds something else there ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealPath {
    path: PathBuf,
    id: FileId,
}

/// What the kernel knows a file by, as far as a path rule cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// Device number.
    pub dev: u64,
    /// Inode number on it.
    pub ino: u64,
    /// Directory or not.
    pub kind: FileKind,
}

/// Whether a stand-in has to be a directory or a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// Anything else: file, device, FIFO, socket.
    File,
}

impl RealPath {
    /// Resolves every link of `path`, which must be absolute.
    ///
    /// # Errors
    /// As `realpath(3)`: `ENOENT`, `EACCES`, `ELOOP`, …
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the one place that resolves paths"
    )]
    pub fn resolve(path: &Path) -> io::Result<Self> {
        let path = std::fs::canonicalize(path)?;
        let id = FileId::of(&std::fs::symlink_metadata(&path)?);
        Ok(Self { path, id })
    }

    /// Takes a path that need not exist, for tests of what is pure.
    #[cfg(test)]
    pub(crate) fn unchecked(path: &str) -> Self {
        let id = FileId {
            dev: 0,
            ino: 0,
            kind: FileKind::Directory,
        };
        Self {
            path: path.into(),
            id,
        }
    }

    /// Returns the resolved path.
    pub fn as_path(&self) -> &Path {
        &self.path
    }

    /// Returns what was found there.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Counts the components below `/`.
    pub fn depth(&self) -> usize {
        depth(&self.path)
    }
}

impl fmt::Display for RealPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())
    }
}

impl FileId {
    fn of(meta: &std::fs::Metadata) -> Self {
        let kind = if meta.is_dir() {
            FileKind::Directory
        } else {
            FileKind::File
        };
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            kind,
        }
    }
}

/// The way a path takes: for protection the names on it matter as much as where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// Every link on it, by the real path of its directory and its name.
    pub links: Vec<PathBuf>,
    /// Where it ends, free of links, whether or not something is there.
    pub end: PathBuf,
}

/// As many links as the kernel follows before it answers ELOOP; see path_resolution(7).
const MAX_LINKS: usize = 40;

/// Follows an absolute path link by link, also where it leads to nothing.
pub fn way(path: &Path) -> Way {
    let mut links = Vec::new();
    let mut end = PathBuf::from("/");
    let mut ahead: Vec<PathBuf> = backwards(path);
    while let Some(name) = ahead.pop() {
        if name.as_os_str() == ".." {
            end.pop();
            continue;
        }
        let next = end.join(&name);
        match std::fs::read_link(&next) {
            Ok(target) if links.len() < MAX_LINKS => {
                if target.is_absolute() {
                    end = PathBuf::from("/");
                }
                ahead.extend(backwards(&target));
                links.push(next);
            }
            _ => end = next,
        }
    }
    Way { links, end }
}

fn backwards(path: &Path) -> Vec<PathBuf> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<_> = names.collect();
    names.reverse();
    names
}

/// Counts the components below `/`; the deeper of two rules is the more specific one.
pub fn depth(path: &Path) -> usize {
    path.components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .count()
}

/// Makes the path of an entry absolute: `~` is the home directory, a relative path starts at
/// the working directory. Links and `..` are left for [`RealPath::resolve`].
///
/// # Errors
/// The entry needs a home directory and there is none, or holds pattern characters.
pub fn absolute(entry: &Entry, host: &Host) -> Result<PathBuf> {
    let text = entry.text.as_str();
    if !entry.literal && text.contains(['*', '?', '[', ']', '{', '}']) {
        return Err(entry_error(entry, "patterns are not supported by this version").with_hint(
            "name each path, or write { \"path\": …, \"literal\": true } for a name that holds such a character",
        ));
    }
    let rest = match text.strip_prefix('~') {
        None => {
            let base = entry.origin.base().unwrap_or(&host.cwd);
            return Ok(plain(&base.join(text)));
        }
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
        Some(_) => {
            return Err(entry_error(entry, "`~name` is not supported")
                .with_hint("write the path of that home directory"));
        }
    };
    let home = host.home.as_ref().ok_or_else(|| {
        entry_error(
            entry,
            "`~` needs HOME to be an absolute path, and it is not",
        )
        .with_hint("set HOME, or write the path out")
    })?;
    Ok(plain(&home.join(rest)))
}

/// Drops `.` and the slashes at the end: the kernel takes `file/` for a directory that does
/// not exist (ENOTDIR), and a deny that was written so would cover nothing.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Starts an error about one entry, with the place it stands at.
pub fn entry_error(entry: &Entry, what: &str) -> Error {
    let origin = &entry.origin;
    let place = match origin.layer {
        Layer::Flags | Layer::BuiltIn => String::new(),
        _ => format!("{origin}: "),
    };
    let name = origin.name();
    Error::new(
        Kind::Settings,
        format!("{place}{name} `{}`: {what}", entry.text),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_way_of_a_path_names_every_link_and_the_end() {
        let dir = Path::new("/tmp").join(format!("srt-way-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("a/b")).expect("the name is ours");
        let dir = RealPath::resolve(&dir).expect("just made").path;
        symlink("../b-link", dir.join("a/up")).expect("the name is free");
        symlink(dir.join("a/b"), dir.join("b-link")).expect("the name is free");
        symlink("nowhere/x", dir.join("dangling")).expect("the name is free");
        symlink("loop", dir.join("loop")).expect("the name is free");

        let found = way(&dir.join("a/./up/../up/file"));
        let links = ["a/up", "b-link", "a/up", "b-link"].map(|link| dir.join(link));
        assert_eq!(
            (found.links.as_slice(), found.end),
            (links.as_slice(), dir.join("a/b/file"))
        );

        let nowhere = way(&dir.join("dangling"));
        assert_eq!(nowhere.end, dir.join("nowhere/x"));
        assert_eq!(way(&dir.join("loop")).links.len(), MAX_LINKS);
        assert_eq!(way(Path::new("/../..")).end, Path::new("/"));
        std::fs::remove_dir_all(&dir).expect("the name is ours");
    }
}
