//! What an earlier run found in directories that have not changed since.
//!
//! A directory is known by device, inode and time of change, which no command can set. The
//! files lie where no command of ours can write.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::names::VERSION;

/// Where the files are: one name for all runs, which no command may write.
pub fn directory(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/srt-found-{uid}"))
}

/// Takes the name, so that no command does.
pub fn claim(directory: &Path) {
    drop(fs::DirBuilder::new().mode(0o700).create(directory));
}

/// Tells whether a directory is ours alone: anybody can make what lies in `/tmp`.
pub fn is_private(directory: &Path, uid: u32) -> bool {
    let found = fs::symlink_metadata(directory);
    found.is_ok_and(|found| found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0)
}

/// A directory as it was when it was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) dev: u64,
    pub(super) ino: u64,
    pub(super) changed: (i64, u32),
}

/// What was found in one: how many names, and those that matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) count: u32,
    names: Vec<u8>,
}

/// A name that matters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a [u8],
    pub(super) is_directory: bool,
    /// It could be one of the table, by what it is in.
    pub(super) is_candidate: bool,
}

const IS_DIRECTORY: u8 = 1;
const IS_CANDIDATE: u8 = 2;

/// Bytes of a record before its names.
const HEAD: usize = 36;

/// Larger files are not read: a run would be faster without.
const MAX_SIZE: u64 = 1 << 28;

/// Seconds within which a change may leave the time as it was.
const UNSURE: u64 = 1;

/// Directories of a root that is worth a file.
const WORTH: usize = 200;

/// Roots that are kept.
const MOST: usize = 64;

impl Listing {
    /// Tells whether nothing in the directory matters.
    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn push(&mut self, entry: Entry<'_>) {
        let length = u8::try_from(entry.name.len()).unwrap_or(u8::MAX);
        let mut kind = 0;
        kind |= if entry.is_directory { IS_DIRECTORY } else { 0 };
        kind |= if entry.is_candidate { IS_CANDIDATE } else { 0 };
        self.names.extend([kind, length]);
        // No name is longer than NAME_MAX, which is 255.
        self.names.extend(&entry.name[..usize::from(length)]);
    }

    /// Returns what was pushed.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut rest = self.names.as_slice();
        std::iter::from_fn(move || {
            let (head, after) = rest.split_at_checked(2)?;
            let (name, after) = after.split_at_checked(usize::from(head[1]))?;
            rest = after;
            Some(Entry {
                name,
                is_directory: head[0] & IS_DIRECTORY != 0,
                is_candidate: head[0] & IS_CANDIDATE != 0,
            })
        })
    }
}

/// What is known of the directories below one root.
#[derive(Debug, Default)]
pub(super) struct Cache {
    file: Option<PathBuf>,
    root: PathBuf,
    known: Vec<u8>,
    /// Where the record starts that is probably asked for next: a search goes the same way.
    next: usize,
    /// Where the record of a directory starts, made when one is not the next.
    index: Option<HashMap<(u64, u64), usize>>,
    kept: Vec<u8>,
    has_new: bool,
    /// Directories that are kept.
    count: usize,
    /// How many are worth a file.
    pub(super) worth: usize,
    since: u64,
}

impl Cache {
    /// Reads what is known of `root`; nothing, if the file is not as it was written. The search
    /// begins at `since`.
    pub(super) fn open(directory: Option<&Path>, root: &Path, since: SystemTime) -> Self {
        let since = since.duration_since(UNIX_EPOCH);
        let mut cache = Self {
            root: root.to_owned(),
            since: since.map_or(0, |since| since.as_secs()),
            worth: WORTH,
            ..Self::default()
        };
        let Some(directory) = directory else {
            return cache;
        };
        let mut hasher = DefaultHasher::new();
        root.hash(&mut hasher);
        let file = directory.join(format!("{:016x}", hasher.finish()));
        if let Ok(bytes) = read(&file)
            && bytes.starts_with(&cache.title())
        {
            cache.known = bytes;
            cache.next = cache.title().len();
        }
        cache.file = Some(file);
        cache
    }

    /// Returns what was found in a directory that is as it was.
    pub(super) fn get(&mut self, state: State) -> Option<Listing> {
        let is_next = record(&self.known[self.next..]).is_some_and(|next| next.state == state);
        let start = match is_next {
            true => self.next,
            false => *self.index().get(&(state.dev, state.ino))?,
        };
        let record = record(&self.known[start..]).filter(|record| record.state == state)?;
        self.count += 1;
        let end = start + record.size();
        self.next = end;
        self.kept.extend(&self.known[start..end]);
        Some(Listing {
            count: record.count,
            names: record.names.to_vec(),
        })
    }

    /// Keeps what was found in a directory, unless it may have changed since unseen.
    pub(super) fn put(&mut self, state: State, listing: &Listing) {
        let (seconds, nanoseconds) = state.changed;
        let is_past = u64::try_from(seconds).is_ok_and(|at| at + UNSURE < self.since);
        let (Ok(size), true) = (u32::try_from(listing.names.len()), is_past) else {
            return;
        };
        if self.file.is_none() {
            return;
        }
        self.has_new = true;
        self.count += 1;
        self.kept.extend(state.dev.to_ne_bytes());
        self.kept.extend(state.ino.to_ne_bytes());
        self.kept.extend(seconds.to_ne_bytes());
        self.kept.extend(nanoseconds.to_ne_bytes());
        self.kept.extend(listing.count.to_ne_bytes());
        self.kept.extend(size.to_ne_bytes());
        self.kept.extend(&listing.names);
    }

    /// Writes what the next run may know. One that cannot is slower, no more.
    pub(super) fn close(self) {
        let Some(file) = &self.file else {
            return;
        };
        let title = self.title();
        let is_other = self.has_new || title.len() + self.kept.len() != self.known.len();
        if is_other
            && self.count >= self.worth
            && let Some(directory) = file.parent()
        {
            claim(directory);
            drop(write(file, &[&title, &self.kept]));
            forget_oldest(directory);
        }
    }

    /// What a file starts with: other names to look for are another file.
    fn title(&self) -> Vec<u8> {
        let mut title = VERSION.to_ne_bytes().to_vec();
        title.extend(self.root.as_os_str().len().to_ne_bytes());
        title.extend(self.root.as_os_str().as_bytes());
        title
    }

    fn index(&mut self) -> &HashMap<(u64, u64), usize> {
        let title = self.title().len();
        self.index.get_or_insert_with(|| {
            let mut index = HashMap::new();
            let mut at = title;
            while let Some(record) = self.known.get(at..).and_then(record) {
                index.insert((record.state.dev, record.state.ino), at);
                at += record.size();
            }
            index
        })
    }
}

struct Record<'a> {
    state: State,
    count: u32,
    names: &'a [u8],
}

impl Record<'_> {
    fn size(&self) -> usize {
        HEAD + self.names.len()
    }
}

fn record(bytes: &[u8]) -> Option<Record<'_>> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let long = |at: usize| Some(u64::from_ne_bytes(head[at..at + 8].try_into().ok()?));
    let short = |at: usize| Some(u32::from_ne_bytes(head[at..at + 4].try_into().ok()?));
    let length = usize::try_from(short(32)?).ok()?;
    Some(Record {
        state: State {
            dev: long(0)?,
            ino: long(8)?,
            changed: (long(16)?.cast_signed(), short(24)?),
        },
        count: short(28)?,
        names: rest.get(..length)?,
    })
}

/// Removes what was written longest ago where there is much.
fn forget_oldest(directory: &Path) {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let dated = entries.filter_map(|entry| {
        let written = entry.metadata().and_then(|found| found.modified()).ok()?;
        Some((written, entry.path()))
    });
    let mut files: Vec<_> = dated.collect();
    if files.len() > MOST {
        files.sort();
        let old = &files[..files.len() - MOST];
        old.iter().for_each(|(_, path)| drop(fs::remove_file(path)));
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() > MAX_SIZE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file as a whole: another run may read it meanwhile, or write it too.
fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(name);
    drop(fs::remove_file(&new));
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&new)?;
    let written = parts.iter().try_for_each(|part| file.write_all(part));
    let moved = written.and_then(|()| fs::rename(&new, path));
    if moved.is_err() {
        drop(fs::remove_file(&new));
    }
    moved
}
