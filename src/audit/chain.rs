//! Lines that each carry the hash of the one before, and whether they still do.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The SHA-256 of a line, without its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Makes the hash of a line.
    pub fn of(line: &[u8]) -> Self {
        Self(Sha256::digest(line).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 2 * bytes.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Adds what stands before it to a line, which is a JSON object.
    pub(super) fn chained(line: &str, before: Option<&Self>) -> String {
        let open = line.strip_suffix('}').unwrap_or(line);
        match before {
            Some(hash) => format!("{open},\"prev\":\"{hash}\"}}"),
            None => format!("{open},\"prev\":null}}"),
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What the lines of a file of events, and of what it was rotated to, say of one another.
#[derive(Debug)]
pub struct Report {
    /// How many lines were read.
    pub lines: u64,
    /// Whether the first of them starts a chain; else what was before it is not there.
    pub is_whole: bool,
    /// The hash of the last line.
    pub last: Option<Hash>,
    /// The first line that does not hold.
    pub broken: Option<Broken>,
    /// Whether the hash that was asked for is one of theirs.
    pub is_found: bool,
}

/// A line that is not as it was written, or not where.
#[derive(Debug)]
pub struct Broken {
    /// The file.
    pub file: PathBuf,
    /// Its number in the file, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is no event.
    NoEvent,
    /// It carries no hash.
    Unchained,
    /// It is not what the next line was written after.
    Changed,
    /// There were others before it.
    Missing,
    /// It is the first of a run here: the line before was changed, or there were others.
    Parted,
    /// It stands in the file before.
    Doubled,
    /// It was written after another line than the one before it.
    Misplaced,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoEvent => "it is no event, or was changed or cut short",
            Self::Unchained => "it carries no `prev`: it was put there, or written without a chain",
            Self::Changed => "it was changed: the next line was written after another text",
            Self::Missing => "lines are missing before it",
            Self::Parted => "the line before it was changed, or lines are missing between",
            Self::Doubled => "it is there twice",
            Self::Misplaced => "it was written after another line than the one before it",
        })
    }
}

#[derive(Deserialize)]
struct Link {
    seq: u64,
    run: String,
    /// `Some(None)` where it starts a chain.
    #[serde(default, deserialize_with = "given")]
    prev: Option<Option<String>>,
}

fn given<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// Reads `path`, after what it was rotated to, up to the first line that does not hold; looks
/// for the line with the hash `wanted`.
///
/// # Errors
/// A file cannot be read.
pub fn verify(path: &Path, wanted: Option<&Hash>) -> io::Result<Report> {
    let mut chain = Chain {
        wanted,
        before: None,
        seen: HashSet::new(),
        report: Report {
            lines: 0,
            is_whole: true,
            last: None,
            broken: None,
            is_found: false,
        },
    };
    let mut rotated = path.as_os_str().to_owned();
    rotated.push(".1");
    match open(Path::new(&rotated)) {
        Ok(file) => chain.read(Path::new(&rotated), file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if chain.report.broken.is_none() {
        chain.read(path, open(path)?)?;
    }
    Ok(chain.report)
}

fn open(path: &Path) -> io::Result<File> {
    // A FIFO would wait for a writer.
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no plain file")),
    }
}

struct Chain<'a> {
    wanted: Option<&'a Hash>,
    before: Option<Before>,
    /// Every hash so far: by them a line that is there twice is told from one put in.
    seen: HashSet<Hash>,
    report: Report,
}

struct Before {
    file: PathBuf,
    line: u64,
    hash: Hash,
    link: Link,
}

/// Longest line that may be an event; a file of other things is not read into memory.
const LONGEST: u64 = 1 << 20;

impl Chain<'_> {
    fn read(&mut self, path: &Path, file: File) -> io::Result<()> {
        let mut reader = BufReader::new(file);
        for number in 1.. {
            let mut line = Vec::new();
            io::Read::take(&mut reader, LONGEST).read_until(b'\n', &mut line)?;
            if line.is_empty() {
                break;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            if let Err((line, file, fault)) = self.add(path, number, &line) {
                self.report.broken = Some(Broken { file, line, fault });
                break;
            }
        }
        Ok(())
    }

    /// Holds a line against the one before it. The error names the line that is wrong.
    fn add(&mut self, path: &Path, number: u64, line: &[u8]) -> Result<(), (u64, PathBuf, Fault)> {
        let here = |fault| (number, path.to_owned(), fault);
        let link: Link = serde_json::from_slice(line).map_err(|_| here(Fault::NoEvent))?;
        let prev = link.prev.as_ref().ok_or_else(|| here(Fault::Unchained))?;
        let prev = prev.as_deref().map(Hash::parse);
        let hash = Hash::of(line);
        match (&self.before, &prev) {
            (None, prev) => self.report.is_whole = prev.is_none(),
            (Some(before), Some(Some(prev))) if *prev == before.hash => {}
            (Some(before), prev) => {
                if self.seen.contains(&hash) {
                    return Err(here(Fault::Doubled));
                }
                let prev = prev.as_ref().and_then(Option::as_ref);
                if prev.is_some_and(|prev| self.seen.contains(prev)) || prev.is_none() {
                    return Err(here(Fault::Misplaced));
                }
                let is_of_run = before.link.run == link.run;
                return Err(match is_of_run {
                    true if before.link.seq + 1 == link.seq => {
                        (before.line, before.file.clone(), Fault::Changed)
                    }
                    true => here(Fault::Missing),
                    false => here(Fault::Parted),
                });
            }
        }
        self.report.lines += 1;
        self.report.is_found |= self.wanted == Some(&hash);
        self.report.last = Some(hash.clone());
        self.seen.insert(hash.clone());
        self.before = Some(Before {
            file: path.to_owned(),
            line: number,
            hash,
            link,
        });
        Ok(())
    }
}
