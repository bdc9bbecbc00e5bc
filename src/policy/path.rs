//! Paths of rules: absolute, with every link resolved, and known by what they name.

mod folding;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

pub(super) use folding::{finds_any_case, folded};

use super::host::Host;
use crate::error::{Error, Kind, Result};
use crate::settings::{Entry, quoted, shown};

/// A path that exists: absolute, free of links, `.` and `..`, with the identity of what it
/// named when it was resolved. A launch that finds something else there ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealPath {
    /// First: most paths differ in it, and to compare two is to take them apart.
    id: FileId,
    path: PathBuf,
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
        let bytes = self.path.as_os_str().as_bytes();
        // One stands before each name.
        let slashes = bytes.iter().filter(|byte| **byte == b'/').count();
        if bytes == b"/" { 0 } else { slashes }
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

/// A symbolic link, as it was when it was followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The real path of its directory, and its name.
    pub path: PathBuf,
    /// What it says.
    pub target: PathBuf,
    dev: u64,
    ino: u64,
}

impl Link {
    /// Makes a link that is nowhere, for tests of what is pure.
    #[cfg(test)]
    pub(crate) fn unchecked(path: &str, target: &str) -> Self {
        Self {
            path: path.into(),
            target: target.into(),
            dev: 0,
            ino: 0,
        }
    }

    /// Returns device and inode number. A number is used again, so that the target counts too.
    pub fn id(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.path))
    }
}

/// The way a path takes: for protection the names on it matter as much as where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// Every link on it.
    pub links: Vec<Link>,
    /// Directories that a `..` behind a link left: with another one in its place, the way would
    /// end elsewhere.
    pub crossed: Vec<PathBuf>,
    /// Where it ends, free of links, whether or not something is there.
    pub end: PathBuf,
    /// What is there.
    pub found: Result<FileId, Errno>,
    /// How many names (hard links) it has.
    pub names: u64,
    /// A directory on the way that finds names in any case, of which the kernel knows one alone:
    /// what is mounted there does not cover the others.
    pub uncovered: Option<PathBuf>,
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

/// As [`way`], to the names that directories have, whatever case they are asked for in.
pub fn way_as_listed(path: &Path) -> Way {
    Resolver::default().way_as_listed(path)
}

/// As many links as the kernel follows before it answers ELOOP; see path_resolution(7).
const MAX_LINKS: usize = 40;

/// Follows many paths: what several have in common is looked at once.
#[derive(Debug, Default)]
pub struct Resolver {
    /// What is at paths that others go through, by paths free of links but for the last name.
    /// As strings, since to compare paths is to take them apart; sorted, since a hash of each
    /// takes longer than comparing with a few.
    seen: BTreeMap<OsString, Found>,
    /// The way to a directory, by its path as written.
    directories: BTreeMap<OsString, Walked>,
    /// Whether a directory finds a name in any case, by its path.
    folding: BTreeMap<OsString, bool>,
}

/// A part of a way.
#[derive(Debug, Clone, Default)]
struct Walked {
    links: Vec<Link>,
    crossed: Vec<PathBuf>,
    end: PathBuf,
}

/// What is at a path, without following it.
#[derive(Debug, Clone)]
enum Found {
    Link(Link),
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
        let (mut way, mut ahead) = match known {
            Some(known) => {
                directory = None;
                let last = path.components().next_back();
                (known.clone(), backwards(last.into_iter()))
            }
            None => (Walked::start(), backwards(path.components())),
        };
        while let Some(name) = ahead.pop() {
            if ahead.is_empty()
                && let Some(directory) = directory.take()
            {
                self.directories.insert(directory.into(), way.clone());
            }
            if name == ".." {
                way.leave();
                continue;
            }
            way.end.push(&name);
            let found = match ahead.is_empty() {
                true => look(&way.end),
                false => self.look(&way.end),
            };
            match found {
                Found::Link(link) if way.links.len() < MAX_LINKS => {
                    match link.target.is_absolute() {
                        true => way.end = PathBuf::from("/"),
                        false => _ = way.end.pop(),
                    }
                    ahead.extend(backwards(link.target.components()));
                    way.links.push(link);
                }
                // The kernel gives up here too, whatever it is about to find.
                Found::Link(_) => {
                    let rest = ahead.iter().rev();
                    rest.for_each(|name| match name == ".." {
                        true => _ = way.end.pop(),
                        false => way.end.push(name),
                    });
                    return way.arrive(Found::Nothing(Errno::ELOOP));
                }
                found if ahead.is_empty() => return way.arrive(found),
                _ => {}
            }
        }
        let found = self.look(&way.end);
        way.arrive(found)
    }

    /// As [`Resolver::way`], to the names that directories have, whatever case they are asked for
    /// in: rules for one file have to name it alike.
    pub fn way_as_listed(&mut self, path: &Path) -> Way {
        let mut way = self.way(path);
        let mut end = PathBuf::from("/");
        for name in way.end.iter().skip(1) {
            if !self.folds(&end, name) {
                end.push(name);
                continue;
            }
            if way.uncovered.is_none() && self.is_uncovered(&end, name) {
                way.uncovered = Some(end.clone());
            }
            end.push(folding::listed(&end, name).as_deref().unwrap_or(name));
        }
        way.end = end;
        way
    }

    /// Tells whether a directory finds one of its names in any case and the kernel does not know.
    pub fn is_uncovered(&mut self, dir: &Path, name: &OsStr) -> bool {
        self.folds(dir, name) && !folding::is_one_to_the_kernel(dir, name)
    }

    fn folds(&mut self, dir: &Path, name: &OsStr) -> bool {
        if let Some(known) = self.folding.get(dir.as_os_str()) {
            return *known;
        }
        let told = finds_any_case(dir, name);
        self.folding.extend(told.map(|told| (dir.into(), told)));
        told.unwrap_or(false)
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

impl Walked {
    fn start() -> Self {
        Self {
            end: PathBuf::from("/"),
            ..Self::default()
        }
    }

    fn leave(&mut self) {
        // Before any link, the text alone says where `..` leads.
        if !self.links.is_empty() {
            self.crossed.push(self.end.clone());
        }
        self.end.pop();
    }

    fn arrive(self, found: Found) -> Way {
        let Self {
            links,
            crossed,
            end,
        } = self;
        let (found, names) = match found {
            Found::File(id, names) => (Ok(id), names),
            Found::Nothing(errno) => (Err(errno), 0),
            Found::Link(_) => (Err(Errno::ELOOP), 0),
        };
        Way {
            links,
            crossed,
            end,
            found,
            names,
            uncovered: None,
        }
    }
}

/// Resolves a path of a protection that has nothing to cover where nothing is there.
///
/// # Errors
/// What is there cannot be told: the protection would be weaker in silence.
pub(super) fn resolve_if_there(path: &Path) -> Result<Option<RealPath>> {
    match RealPath::resolve(path) {
        Ok(real) => Ok(Some(real)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(
            Error::new(Kind::Unsupported, "cannot close what is never written")
                .call(format!("realpath({})", path.display()), error)
                .with_hint("let srt enter every directory on the way to it"),
        ),
    }
}

fn look(path: &Path) -> Found {
    let errno = |error: io::Error| {
        let code = error.raw_os_error();
        Found::Nothing(code.map_or(Errno::EINVAL, Errno::from_raw))
    };
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_symlink() => match std::fs::read_link(path) {
            Ok(target) => Found::Link(Link {
                path: path.to_owned(),
                target,
                dev: meta.dev(),
                ino: meta.ino(),
            }),
            Err(error) => errno(error),
        },
        Ok(meta) => Found::File(FileId::of(&meta), meta.nlink()),
        Err(error) => errno(error),
    }
}

fn backwards<'a>(parts: impl DoubleEndedIterator<Item = Component<'a>>) -> Vec<OsString> {
    let names = parts.rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
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

/// A text from this length on, in bytes, is shown in part.
const LONG: usize = 512;

/// Starts an error about one entry, with the place it stands at.
pub fn entry_error(entry: &Entry, what: &str) -> Error {
    let origin = &entry.origin;
    let place = match origin.file {
        Some(_) => format!("{origin}: "),
        None => String::new(),
    };
    let name = origin.name();
    let text = match entry.text.len() {
        0..LONG => format!("`{}`", entry.text),
        _ => quoted(&entry.text),
    };
    Error::new(Kind::Settings, format!("{place}{name} {text}: {what}"))
}

#[cfg(test)]
mod tests;
