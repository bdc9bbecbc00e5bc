//! Files with a setting a line.

use std::borrow::Cow;

use super::Redaction;
use super::names::{holds_token, is_secret, is_variable};
use super::urls::without_userinfo;

/// Returns the text without its secrets, and, if there are any, without comments: programs read
/// none, and people leave old secrets in them.
pub(super) fn redact(text: &str) -> Redaction {
    let mut left = String::with_capacity(text.len());
    let mut is_whole = true;
    let mut below = None;
    let mut lines = settings(text).into_iter();
    while let Some(line) = lines.next() {
        let joined = joined(line);
        let goes_on = below
            .as_ref()
            .is_some_and(|secret: &Secret| secret.goes_on_in(&joined));
        if goes_on {
            is_whole &= joined.trim().is_empty();
            continue;
        }
        below = None;
        let (setting, comment) = match joined == line {
            true => split_comment(line),
            false => (&*joined, ""),
        };
        is_whole &= !tells_of_a_secret(comment);
        let clean = without_userinfo(setting);
        let found = secret(clean.as_deref().unwrap_or(setting));
        // What was cut from several lines cannot be put back into them.
        let is_one = joined == line || clean.as_deref() == Some(setting);
        match (found, &clean) {
            _ if setting.is_empty() => {}
            (None, Some(clean)) if is_one && !holds_token(clean) => {
                is_whole &= *clean == setting;
                left += match joined == line {
                    true => clean,
                    false => line,
                };
                left += line_end(comment);
            }
            (Some(value), _) if is_open(value) => return Redaction::Unseparable,
            (Some(value), _) => {
                is_whole = false;
                if !skip_brackets(&joined, &mut lines) {
                    return Redaction::Unseparable;
                }
                below = Some(Secret::at(&joined, value));
            }
            (None, _) => is_whole = false,
        }
    }
    match is_whole {
        true => Redaction::Harmless,
        false => Redaction::Part(left),
    }
}

/// Splits a text into settings, each with the lines that a backslash at the end adds to it.
fn settings(text: &str) -> Vec<&str> {
    let mut settings = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < text.len() {
        let end = text[at..].find(['\n', '\r']);
        let end = end.map_or(text.len(), |end| at + end);
        let line = &text[at..end];
        // A carriage return alone ends a line too, to npm and to Python.
        let ending = match &text[end..] {
            rest if rest.starts_with("\r\n") => 2,
            rest => rest.len().min(1),
        };
        at = end + ending;
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        let is_first = text[start..end].len() == line.len();
        if backslashes.is_multiple_of(2) || is_first && is_comment(line) {
            settings.push(&text[start..at]);
            start = at;
        }
    }
    if start < text.len() {
        settings.push(&text[start..]);
    }
    settings
}

/// Puts the lines of a setting into one, as its reader does.
fn joined(line: &str) -> Cow<'_, str> {
    let bare = line.trim_end_matches(['\n', '\r']);
    if !bare.contains(['\n', '\r']) {
        return Cow::Borrowed(line);
    }
    let mut parts = bare.split(['\n', '\r']).filter(|part| !part.is_empty());
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        joined.truncate(joined.trim_end_matches('\\').len());
        joined += part.trim_start();
    }
    joined += line_end(line);
    Cow::Owned(joined)
}

/// Splits the comment off a line, which takes its end along.
fn split_comment(line: &str) -> (&str, &str) {
    if is_comment(line) {
        return ("", line);
    }
    let mut quote = None;
    let mut before = ' ';
    let mut start = line.len();
    for (at, character) in line.char_indices() {
        match (quote, character) {
            (Some(started), _) if started == character => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '#' | ';') if before.is_whitespace() && start == line.len() => start = at,
            _ => {}
        }
        before = character;
    }
    // What looks like a comment stands in a string that was opened by an apostrophe.
    match quote {
        Some(_) => (line, ""),
        None => (line[..start].trim_end_matches([' ', '\t']), &line[start..]),
    }
}

fn line_end(line: &str) -> &str {
    &line[line.trim_end_matches(['\n', '\r']).len()..]
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    // `//host/:name=value` is a setting of npm.
    let slashes = line.starts_with("//") && !line.contains('=');
    line.starts_with(['#', ';', '!']) || slashes
}

fn tells_of_a_secret(comment: &str) -> bool {
    secret(comment).is_some()
        || holds_token(comment)
        || without_userinfo(comment).as_deref() != Some(comment)
}

/// A setting that was left out, with what may belong to it.
struct Secret {
    indent: usize,
    is_empty: bool,
}

impl Secret {
    fn at(line: &str, value: &str) -> Self {
        Self {
            indent: indent(line),
            is_empty: value.is_empty(),
        }
    }

    /// Tells whether a line goes on with the value: deeper, or an item of a list. What stands
    /// between decides nothing.
    fn goes_on_in(&self, line: &str) -> bool {
        let trimmed = line.trim();
        let is_item =
            self.is_empty && trimmed.starts_with(['-', ':']) && indent(line) == self.indent;
        trimmed.is_empty() || is_comment(line) || indent(line) > self.indent || is_item
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Passes the lines up to the bracket that closes the last one open in `line`; tells whether
/// what is left has as many that open as that close.
fn skip_brackets<'a>(line: &str, lines: &mut impl Iterator<Item = &'a str>) -> bool {
    let line = line.trim();
    let (_, value) = first_setting(line);
    // Elsewhere a bracket is a part of a password.
    let is_table = value.starts_with(['{', '[']) || line.ends_with(['{', '[', '}', ']']);
    let mut open = match is_table {
        true => unclosed(line),
        false => 0,
    };
    while open > 0 {
        let Some(line) = lines.next() else {
            return false;
        };
        open += unclosed(line);
    }
    open == 0
}

/// Counts the brackets that are opened outside of quotes, less those that are closed.
fn unclosed(text: &str) -> i32 {
    let mut quote = None;
    let mut open = 0;
    for character in text.chars() {
        match (quote, character) {
            (Some(started), _) if started == character => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '{' | '[') => open += 1,
            (None, '}' | ']') => open -= 1,
            _ => {}
        }
    }
    open
}

/// Returns the value of the first setting of a line whose name tells that it is a secret.
fn secret(line: &str) -> Option<&str> {
    let bare = line.trim_start_matches([' ', '\t', '#', ';', '!']).trim();
    if let Some(value) = short_option(bare) {
        return Some(value);
    }
    let trimmed = bare.trim_start_matches(['-', '?', ' ', '\t']);
    let is_header = trimmed.starts_with('[') && trimmed.ends_with(']') && !trimmed.contains('=');
    if is_header {
        return None;
    }
    let (name, value) = first_setting(trimmed);
    let is_option = is_secret_option(name, value);
    if (is_secret(name) || is_option) && !is_variable(value) {
        return Some(value);
    }
    // Settings further on, as those of an inline table are.
    let mut rest = trimmed;
    while let Some(at) = rest.find(['=', ':']) {
        let word = rest[..at].trim_end_matches(|c: char| c.is_whitespace() || "\"'[]".contains(c));
        let start = word.rfind(|c: char| !(c.is_alphanumeric() || "-_.\\".contains(c)));
        let word = start.map_or(word, |start| {
            &word[start + word[start..].chars().next().map_or(1, char::len_utf8)..]
        });
        let after = &rest[at..];
        // A colon alone may be a part of a word, as in `cargo:token`.
        let is_assignment = after.starts_with('=')
            || rest[..at].ends_with(['"', '\''])
            || after[1..].starts_with([' ', '\t', '"', '\''])
            || after.len() == 1;
        rest = &rest[at + 1..];
        if is_assignment && is_secret(word) && !is_variable(rest) {
            return Some(rest.trim());
        }
    }
    None
}

/// Options of curl whose value is a secret, as they are written with one letter.
const SHORT: [char; 5] = ['E', 'H', 'U', 'b', 'u'];

/// Returns the value of `-u me:secret`, which may follow without a space.
fn short_option(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('-')?;
    rest.strip_prefix(SHORT).map(str::trim)
}

/// Tells whether an option of curl or wget holds a secret, whose name is harmless elsewhere.
fn is_secret_option(name: &str, value: &str) -> bool {
    match name {
        // A certificate may have the password of its key behind it, as a user has his.
        "user" | "proxy-user" | "cert" | "proxy-cert" => value.contains(':'),
        _ => false,
    }
}

/// Splits a line into the name it starts with and what follows.
fn first_setting(line: &str) -> (&str, &str) {
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let rest = line.strip_prefix(quote)?;
        rest.split_once(quote)
    });
    let (name, rest) = match quoted {
        Some(split) => split,
        None => {
            let end = line.char_indices().find(|(at, character)| match character {
                '=' | ' ' | '\t' => true,
                // A colon ends a name of YAML and of properties, and is part of npm's.
                ':' => {
                    let after = &line[at + 1..];
                    let is_npm = line.starts_with("//") || line.starts_with('@');
                    !is_npm || after.is_empty()
                }
                _ => false,
            });
            line.split_at(end.map_or(line.len(), |(at, _)| at))
        }
    };
    (name, rest.trim_start_matches([' ', '\t', '=', ':']).trim())
}

/// Tells whether a value may go on in lines that cannot be told by how far they are indented.
fn is_open(value: &str) -> bool {
    let unclosed = |quote: char| value.matches(quote).count() % 2 == 1;
    // A star stands for what YAML has named elsewhere.
    let starts = ["\"\"\"", "'''", "<<", "*"];
    let is_start = starts.iter().any(|start| value.starts_with(start));
    is_start || unclosed('"') || unclosed('\'')
}
