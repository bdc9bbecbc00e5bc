//! Paths of rules: absolute, with every link resolved, and known by what they name.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

use super::host::Host;
use crate::error::{Error, Kind, Result};
use crate::settings::{Entry, shown};

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
    pub fn resolve(path: &Path) -> io::Result<Self> {
        way(path).real()
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
        f.write_str(&shown(&self.path))
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
    /// What is there.
    pub found: Result<FileId, Errno>,
    /// How many names (hard links) it has.
    pub names: u64,
}

impl Way {
    /// Returns the path that exists at the end.
    ///
    /// # Errors
    /// Nothing is there, or it cannot be looked at.
    pub fn real(&self) -> io::Result<RealPath> {
        Ok(RealPath {
            path: self.end.clone(),
            id: self.found?,
        })
    }
}

/// Follows an absolute path link by link, also where it leads to nothing.
pub fn way(path: &Path) -> Way {
    Resolver::default().way(path)
}

/// As many links as the kernel follows before it answers ELOOP; see path_resolution(7).
const MAX_LINKS: usize = 40;

/// Follows many paths: what several have in common is looked at once.
#[derive(Debug, Default)]
pub struct Resolver {
    /// What is at paths that others go through, by paths free of links but for the last name.
    /// As strings: to hash a path is to take it apart.
    seen: HashMap<OsString, Found>,
    /// The links and the end of the way to a directory, by its path as written.
    directories: HashMap<OsString, (Vec<PathBuf>, PathBuf)>,
}

/// What is at a path, without following it.
#[derive(Debug, Clone)]
enum Found {
    Link(PathBuf),
    File(FileId, u64),
    Nothing(Errno),
}

impl Resolver {
    /// Follows an absolute path link by link, also where it leads to nothing. `..` leads to the
    /// directory above what was named before, even if that is missing: a deny that is written
    /// so covers what its text says.
    pub fn way(&mut self, path: &Path) -> Way {
        let mut directory = path.parent();
        let known = directory.and_then(|directory| self.directories.get(directory.as_os_str()));
        let (mut links, mut end, mut ahead) = match known {
            Some((links, end)) => {
                directory = None;
                let last: PathBuf = path.components().next_back().into_iter().collect();
                (links.clone(), end.clone(), backwards(&last))
            }
            None => (Vec::new(), PathBuf::from("/"), backwards(path)),
        };
        while let Some(name) = ahead.pop() {
            if ahead.is_empty()
                && let Some(directory) = directory.take()
            {
                let way = (links.clone(), end.clone());
                self.directories.insert(directory.into(), way);
            }
            if name == ".." {
                end.pop();
                continue;
            }
            end.push(&name);
            let found = match ahead.is_empty() {
                true => look(&end),
                false => self.look(&end),
            };
            match found {
                Found::Link(target) if links.len() < MAX_LINKS => {
                    links.push(end.clone());
                    match target.is_absolute() {
                        true => end = PathBuf::from("/"),
                        false => _ = end.pop(),
                    }
                    ahead.extend(backwards(&target));
                }
                // The kernel gives up here too, whatever it is about to find.
                Found::Link(_) => {
                    let rest = ahead.iter().rev();
                    rest.for_each(|name| match name == ".." {
                        true => _ = end.pop(),
                        false => end.push(name),
                    });
                    return arrive(links, end, Found::Nothing(Errno::ELOOP));
                }
                found if ahead.is_empty() => return arrive(links, end, found),
                _ => {}
            }
        }
        let found = self.look(&end);
        arrive(links, end, found)
    }

    /// Tells whether something is at `path`, which is free of links but for its last name.
    pub fn is_there(&mut self, path: &Path) -> bool {
        !matches!(self.look(path), Found::Nothing(_))
    }

    fn look(&mut self, path: &Path) -> Found {
        if let Some(found) = self.seen.get(path.as_os_str()) {
            return found.clone();
        }
        let found = look(path);
        self.seen.insert(path.into(), found.clone());
        found
    }
}

fn look(path: &Path) -> Found {
    let errno = |error: io::Error| {
        let code = error.raw_os_error();
        Found::Nothing(code.map_or(Errno::EINVAL, Errno::from_raw))
    };
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => match std::fs::read_link(path) {
            Ok(target) => Found::Link(target),
            Err(error) => errno(error),
        },
        Ok(meta) => Found::File(FileId::of(&meta), meta.nlink()),
        Err(error) => errno(error),
    }
}

fn arrive(links: Vec<PathBuf>, end: PathBuf, found: Found) -> Way {
    let (found, names) = match found {
        Found::File(id, names) => (Ok(id), names),
        Found::Nothing(errno) => (Err(errno), 0),
        Found::Link(_) => (Err(Errno::ELOOP), 0),
    };
    Way {
        links,
        end,
        found,
        names,
    }
}

fn backwards(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
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
/// The entry needs a home directory and there is none, or is a pattern.
pub fn absolute(entry: &Entry, host: &Host) -> Result<PathBuf> {
    if let Some(found) = &entry.found {
        return Ok(found.clone());
    }
    if !entry.literal && has_pattern(&entry.text) {
        return Err(entry_error(entry, "patterns are not supported here").with_hint(
            "name each path, or write { \"path\": …, \"literal\": true } for a name that holds such a character",
        ));
    }
    anchored(entry, host)
}

/// As [`absolute`], whatever characters the entry holds.
///
/// # Errors
/// The entry needs a home directory and there is none.
pub(super) fn anchored(entry: &Entry, host: &Host) -> Result<PathBuf> {
    let text = entry.text.as_str();
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

/// Tells whether a text holds pattern characters, which mean themselves in literal entries alone.
pub fn has_pattern(text: &str) -> bool {
    text.contains(['*', '?', '[', ']', '{', '}'])
}

/// Drops `.` and the slashes at the end: the kernel takes `file/` for a directory that does
/// not exist (ENOTDIR), and a deny that was written so would cover nothing.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Starts an error about one entry, with the place it stands at.
pub fn entry_error(entry: &Entry, what: &str) -> Error {
    let origin = &entry.origin;
    let place = match origin.file {
        Some(_) => format!("{origin}: "),
        None => String::new(),
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
    fn a_resolver_that_knows_the_directories_finds_the_same_ways() {
        let own = Path::new("/tmp").join(format!("srt-ways-{}", std::process::id()));
        // Deep enough for every `..` to stay in what is ours.
        let dir = own.join("1/2/3/4/5/6/7/8/9");
        std::fs::create_dir_all(dir.join("a/b/c")).expect("the name is ours");
        let own = RealPath::resolve(&own).expect("just made").path;
        let dir = RealPath::resolve(&dir).expect("just made").path;
        std::fs::write(dir.join("a/file"), "").expect("just made");
        std::fs::hard_link(dir.join("a/file"), dir.join("a/b/same")).expect("the name is free");
        symlink("a/b", dir.join("to-b")).expect("the name is free");
        symlink("../../to-b", dir.join("a/b/round")).expect("the name is free");
        symlink("missing/../x", dir.join("odd")).expect("the name is free");

        let names = [
            "a", "b", "c", "file", "same", "to-b", "round", "odd", "missing", "..",
        ];
        let mut generator = crate::policy::generator::Generator(7);
        let mut resolver = Resolver::default();
        let (mut found, mut linked) = (0, 0);
        for _ in 0..2_000 {
            let mut path = dir.join(generator.pick(&names));
            path.extend(generator.some(&names, 5));
            let known = resolver.way(&path);
            assert_eq!(known, way(&path), "{}", path.display());
            if let Ok(real) = known.real() {
                // The kernel agrees wherever it finds something at all.
                if let Ok(meta) = std::fs::metadata(&path) {
                    assert_eq!(meta.ino(), real.id().ino, "{}", path.display());
                    found += 1;
                }
            }
            linked += usize::from(!known.links.is_empty());
        }
        assert!(found > 100 && linked > 100, "{found} {linked}");
        let same = way(&dir.join("a/b/same"));
        assert_eq!(
            (same.names, same.found.map(|id| id.kind)),
            (2, Ok(FileKind::File))
        );
        std::fs::remove_dir_all(&own).expect("the name is ours");
    }

    #[test]
    fn more_links_than_the_kernel_follows_lead_nowhere() {
        let dir = Path::new("/tmp").join(format!("srt-links-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("d")).expect("the name is ours");
        let dir = RealPath::resolve(&dir).expect("just made").path;
        symlink(".", dir.join("d/l")).expect("the name is free");
        let through = |count: usize| {
            let mut path = dir.join("d");
            path.extend(std::iter::repeat_n("l", count));
            way(&path.join("x/../y"))
        };
        assert_eq!(through(MAX_LINKS).found, Err(Errno::ENOENT));
        let lost = through(MAX_LINKS + 1);
        assert_eq!(
            (lost.found, lost.end),
            (Err(Errno::ELOOP), dir.join("d/l/y"))
        );
        std::fs::remove_dir_all(&dir).expect("the name is ours");
    }

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
