//! Git's configuration files, as far as they name other files; see git-config(1), "Syntax".

use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;

/// A key in lower case, with its section and without the subsection, and its value.
pub(super) type Value = (String, OsString);

/// Reads all values of a file.
///
/// # Errors
/// The line that git would not understand either, or that is not understood here.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Value>, usize> {
    let values = placed(text)?.into_iter();
    Ok(values.map(|(value, _)| value).collect())
}

/// Takes every value of a key out of a file; `None` where it has none, or would not be read as
/// before.
pub(super) fn without(text: &[u8], key: &str) -> Option<Vec<u8>> {
    let values = placed(text).ok()?;
    let mut left = text.to_vec();
    let (taken, kept): (Vec<_>, Vec<_>) =
        values.into_iter().partition(|((name, _), _)| name == key);
    for (_, place) in taken.iter().rev() {
        left.drain(place.clone());
    }
    let kept: Vec<_> = kept.into_iter().map(|(value, _)| value).collect();
    (!taken.is_empty() && parse(&left).is_ok_and(|read| read == kept)).then_some(left)
}

/// Reads all values, each with its place in the file.
fn placed(text: &[u8]) -> Result<Vec<(Value, Range<usize>)>, usize> {
    let mut reader = Reader { text, at: 0 };
    let mut values = Vec::new();
    let mut section = String::new();
    if text.starts_with(b"\xef\xbb\xbf") {
        reader.at = 3;
    }
    while let Some(byte) = reader.next() {
        let start = reader.at - 1;
        let read = match byte {
            byte if is_space(byte) => Some(()),
            b'#' | b';' => {
                reader.skip_line();
                Some(())
            }
            b'[' => reader.section().map(|name| section = name),
            byte if byte.is_ascii_alphabetic() => reader.value(byte).map(|(name, value)| {
                let place = start..reader.at;
                values.extend(value.map(|value| ((format!("{section}.{name}"), value), place)));
            }),
            _ => None,
        };
        if read.is_none() {
            return Err(reader.line());
        }
    }
    Ok(values)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        match self.text.get(self.at..)? {
            [b'\r', b'\n', ..] => Some(b'\n'),
            rest => rest.first().copied(),
        }
    }

    /// Takes a byte; a line may end with two.
    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += match self.text[self.at] {
            b'\r' if byte == b'\n' => 2,
            _ => 1,
        };
        Some(byte)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    fn skip_blanks(&mut self) {
        while self.peek().is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Reads `section]`, `section.sub]` or `section "sub"]`.
    fn section(&mut self) -> Option<String> {
        let mut name = String::new();
        loop {
            match self.next()? {
                b']' => break,
                b' ' | b'\t' => {
                    self.subsection()?;
                    break;
                }
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                _ => return None,
            }
        }
        let end = name.find('.').unwrap_or(name.len());
        name.truncate(end);
        Some(name)
    }

    fn subsection(&mut self) -> Option<()> {
        self.skip_blanks();
        (self.next()? == b'"').then_some(())?;
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => return (self.next()? == b']').then_some(()),
                b'\\' => _ = self.next()?,
                _ => {}
            }
        }
    }

    /// Reads the rest of a key and its value; one without `=` is a switch, and names no file.
    fn value(&mut self, first: u8) -> Option<(String, Option<OsString>)> {
        let mut name = String::from(char::from(first.to_ascii_lowercase()));
        while let Some(byte) = self.peek()
            && (byte.is_ascii_alphanumeric() || byte == b'-')
        {
            name.push(char::from(byte.to_ascii_lowercase()));
            self.at += 1;
        }
        self.skip_blanks();
        match self.next() {
            None | Some(b'\n') => Some((name, None)),
            Some(b'#' | b';') => {
                self.skip_line();
                Some((name, None))
            }
            Some(b'=') => Some((name, Some(self.text()?))),
            Some(_) => None,
        }
    }

    fn text(&mut self) -> Option<OsString> {
        let (mut value, mut kept, mut quoted) = (Vec::new(), 0, false);
        loop {
            match self.next() {
                None | Some(b'\n') if quoted => return None,
                None | Some(b'\n') => break,
                Some(b'"') => {
                    quoted = !quoted;
                    kept = value.len();
                }
                Some(b'#' | b';') if !quoted => {
                    self.skip_line();
                    break;
                }
                Some(b'\\') => {
                    match self.next()? {
                        b'\n' => {}
                        other => value.push(escaped(other)?),
                    }
                    // Blanks before it are part of the value.
                    kept = value.len();
                }
                Some(byte) if is_space(byte) && !quoted && value.is_empty() => {}
                Some(byte) => {
                    value.push(byte);
                    if quoted || !is_space(byte) {
                        kept = value.len();
                    }
                }
            }
        }
        value.truncate(kept);
        Some(OsString::from_vec(value))
    }

    fn line(&self) -> usize {
        let read = &self.text[..self.at.min(self.text.len())];
        let ends = read.iter().filter(|byte| **byte == b'\n').count();
        // What was read last may be the end of the line that is wrong.
        1 + ends - usize::from(read.ends_with(b"\n"))
    }
}

/// What git takes for a space.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn escaped(byte: u8) -> Option<u8> {
    match byte {
        b'"' | b'\\' => Some(byte),
        b'n' => Some(b'\n'),
        b't' => Some(b'\t'),
        b'b' => Some(8),
        _ => None,
    }
}
