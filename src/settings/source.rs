//! A settings file as text: opened safely, bounded in size, with line and column of every byte.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use nix::fcntl::OFlag;

use crate::error::{Error, Kind, Result};

/// Larger files are refused unread.
pub(super) const SIZE_LIMIT: u64 = 1024 * 1024;

/// How a file came to be read; decides whose it may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Found {
    /// The caller named it.
    Named,
    /// It was looked for, on behalf of this user.
    By {
        /// The caller.
        uid: u32,
    },
}

impl Found {
    pub(super) fn by(uid: u32) -> Self {
        Self::By { uid }
    }
}

/// The text of one file and where its lines are.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: Arc<Path>,
    pub(super) text: String,
    places: Places,
}

impl Source {
    /// Reads a regular file of UTF-8 text that is not blank, and that nobody else could write.
    pub(super) fn read(path: &Path, found: Found) -> Result<Self> {
        let bytes = read_bounded(path, found)?;
        Self::from_bytes(path, bytes)
    }

    /// Takes the content of `path` as already read.
    pub(super) fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Self> {
        let places = Places::new(&bytes);
        if let Some(encoding) = byte_order_mark(&bytes) {
            return Err(error_at(path, (1, 1), &format!("starts with {encoding}"))
                .with_hint("save the file as UTF-8 without a byte order mark"));
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let bad = error.utf8_error().valid_up_to();
            let place = places.at(error.as_bytes(), bad);
            error_at(path, place, "this byte is not UTF-8")
        })?;
        if text.trim().is_empty() {
            let what = "is empty, and an empty file would mean running without its rules";
            return Err(Error::new(
                Kind::Settings,
                format!("settings file {} {what}", shown(path)),
            )
            .with_hint("write {} for the defaults, or remove the file"));
        }
        Ok(Self {
            file: path.into(),
            text,
            places,
        })
    }

    /// Returns line and column, both from 1, of a byte of the text.
    pub(super) fn place(&self, offset: usize) -> (u32, u32) {
        self.places.at(self.text.as_bytes(), offset)
    }

    /// Makes a message of `file:line:column: message` and the line it is about.
    pub(super) fn message_at(&self, range: Range<usize>, message: &str) -> String {
        let (line, column) = self.place(range.start);
        let excerpt = self.excerpt(range, line);
        format!("{}:{line}:{column}: {message}{excerpt}", shown(&self.file))
    }

    /// Makes an error of one such message.
    pub(super) fn error_at(&self, offset: usize, message: &str) -> Error {
        let end = self
            .text
            .ceil_char_boundary((offset + 1).min(self.text.len()));
        Error::of_lines(
            Kind::Settings,
            self.message_at(offset..end, message).lines(),
        )
    }

    /// Draws the line with a mark below; nothing where it could drive or flood a terminal.
    fn excerpt(&self, range: Range<usize>, number: u32) -> String {
        let start = self.text[..range.start].rfind('\n').map_or(0, |at| at + 1);
        let rest = &self.text[start..];
        let line = rest.lines().next().unwrap_or_default();
        if line.len() > 1000 || line.chars().any(|c| c.is_control() && c != '\t') {
            return String::new();
        }
        let mark = (range.start - start).min(line.len())..(range.end - start).min(line.len());
        let snippet = Snippet::source(line)
            .line_start(number.try_into().unwrap_or(usize::MAX))
            .annotation(AnnotationKind::Primary.span(mark));
        let group = Group::with_level(Level::ERROR).element(snippet);
        format!("\n{}", Renderer::plain().render(&[group]))
    }
}

fn error_at(path: &Path, (line, column): (u32, u32), message: &str) -> Error {
    Error::new(
        Kind::Settings,
        format!("{}:{line}:{column}: {message}", shown(path)),
    )
}

fn read_bounded(path: &Path, found: Found) -> Result<Vec<u8>> {
    let goal = || {
        Error::new(
            Kind::Settings,
            format!("cannot read settings file {}", shown(path)),
        )
    };
    // Without O_NONBLOCK the open of a FIFO waits for a writer that may never come. std adds
    // O_CLOEXEC. Type and content are taken from this one descriptor, so that no other file
    // can be put in its place between the look and the read.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(|error| match odd_kind(path) {
            // A socket cannot be opened at all; ENXIO alone tells nobody why.
            Some(kind) => not_regular(path, kind),
            None => goal().call("open", error),
        })?;
    let metadata = file
        .metadata()
        .map_err(|error| goal().call("fstat", error))?;
    if let Some(kind) = kind_unless_regular(metadata.file_type()) {
        return Err(not_regular(path, kind));
    }
    refuse_foreign(path, &metadata, found)?;
    if metadata.len() > SIZE_LIMIT {
        return Err(too_large(path));
    }
    read_at_most(&file, SIZE_LIMIT)
        .map_err(|error| goal().call("read", error))?
        .ok_or_else(|| too_large(path))
}

/// Refuses a file whose text others than the caller and root can choose.
fn refuse_foreign(path: &Path, metadata: &Metadata, found: Found) -> Result<()> {
    let refused = |what: &str, hint: String| {
        let what = format!("settings file {} {what}", shown(path));
        Err(Error::new(Kind::Settings, what).with_hint(hint))
    };
    if metadata.mode() & 0o002 != 0 {
        let hint = format!("take that right away: chmod o-w {}", shown(path));
        return refused("can be written by every user", hint);
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    // Behind a link it lies in another directory, where its name could be replaced as well.
    let unknown = |call: &str, error| {
        let goal = format!("cannot tell who may replace {}", shown(path));
        Error::new(Kind::Settings, goal).call(call, error)
    };
    let target = path
        .canonicalize()
        .map_err(|error| unknown("realpath", error))?;
    for directory in [Some(parent), target.parent()].into_iter().flatten() {
        let metadata = directory
            .metadata()
            .map_err(|error| unknown("stat", error))?;
        // In a sticky directory only the owner of a name may replace it.
        if metadata.mode() & 0o1002 == 0o002 {
            let hint = format!("take that right away: chmod o-w {}", shown(directory));
            return refused("lies in a directory that every user can write", hint);
        }
    }
    let (Found::By { uid }, Ok(directory)) = (found, parent.metadata()) else {
        return Ok(());
    };
    let owner = metadata.uid();
    // Whoever owns the directory could put any file there, as its own.
    if [uid, 0, directory.uid()].contains(&owner) {
        return Ok(());
    }
    let hint = format!("if you trust it, name it: srt --settings {}", shown(path));
    refused(
        &format!("belongs to uid {owner}, which is neither you, root nor the directory's owner"),
        hint,
    )
}

/// Reads to the end; `None` if the file grew past the limit while it was read.
fn read_at_most(file: &File, limit: u64) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(u64::try_from(read)
        .is_ok_and(|read| read <= limit)
        .then_some(bytes))
}

fn odd_kind(path: &Path) -> Option<&'static str> {
    kind_unless_regular(path.metadata().ok()?.file_type())
}

fn kind_unless_regular(kind: FileType) -> Option<&'static str> {
    if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_fifo() {
        Some("a FIFO")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}

fn not_regular(path: &Path, kind: &str) -> Error {
    let what = format!(
        "settings file {} is {kind}, not a regular file",
        shown(path)
    );
    Error::new(Kind::Settings, what)
}

fn too_large(path: &Path) -> Error {
    let what = format!("settings file {} is larger than 1 MiB", shown(path));
    Error::new(Kind::Settings, what)
}

fn byte_order_mark(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => Some("a byte order mark"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("the byte order mark of UTF-16"),
        _ => None,
    }
}

/// Line and column at every [`STEP`]th byte: a place is found in constant time, also in a file
/// of one long line with a hundred thousand entries.
#[derive(Debug)]
struct Places(Vec<(u32, u32)>);

const STEP: usize = 64;

impl Places {
    fn new(bytes: &[u8]) -> Self {
        let mut place = (1, 1);
        let mut marks = vec![place];
        for chunk in bytes.chunks(STEP) {
            place = chunk.iter().fold(place, advance);
            marks.push(place);
        }
        Self(marks)
    }

    fn at(&self, bytes: &[u8], offset: usize) -> (u32, u32) {
        let mark = offset / STEP;
        bytes[mark * STEP..offset]
            .iter()
            .fold(self.0[mark], advance)
    }
}

fn advance((line, column): (u32, u32), byte: &u8) -> (u32, u32) {
    match byte {
        b'\n' => (line + 1, 1),
        // The later bytes of one character.
        0x80..=0xbf => (line, column),
        _ => (line, column + 1),
    }
}

/// Puts text of others into a message: in backticks, control characters escaped so that it
/// cannot act on a terminal, cut where it is long.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 80;
    let mut out = String::from("`");
    for (count, c) in text.chars().enumerate() {
        if count == LONGEST {
            out.push('…');
            break;
        }
        push_visible(&mut out, c);
    }
    out.push('`');
    out
}

/// Puts a path into a message, control characters escaped.
pub(crate) fn shown(path: &Path) -> String {
    let mut out = String::new();
    path.to_string_lossy()
        .chars()
        .for_each(|c| push_visible(&mut out, c));
    out
}

fn push_visible(out: &mut String, c: char) {
    if c.is_control() {
        out.extend(c.escape_default());
    } else {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::from_bytes(Path::new("s.json"), text.into()).expect("the text is UTF-8")
    }

    #[test]
    fn columns_count_characters_not_bytes() {
        let text = "{\n \"ä→😀\": 1}";
        assert_eq!(source(text).place(text.find('1').unwrap()), (2, 9));
    }

    #[test]
    fn places_are_right_around_every_mark_and_at_the_end() {
        let text = "aé\n".repeat(2000);
        let source = source(&text);
        let mut expected = (1, 1);
        for (offset, c) in text.char_indices() {
            assert_eq!(source.place(offset), expected, "byte {offset}");
            expected = if c == '\n' {
                (expected.0 + 1, 1)
            } else {
                (expected.0, expected.1 + 1)
            };
        }
        assert_eq!(source.place(text.len()), expected);
    }

    #[test]
    fn a_place_in_a_text_that_ends_on_a_mark_is_found() {
        let text = "x".repeat(STEP);
        assert_eq!(source(&text).place(STEP), (1, 65));
    }

    #[test]
    fn quoted_text_cannot_drive_a_terminal_or_flood_it() {
        assert_eq!(quoted("a\u{1b}[2J\n"), "`a\\u{1b}[2J\\n`");
        assert_eq!(quoted(&"x".repeat(1000)).chars().count(), 83);
    }
}
