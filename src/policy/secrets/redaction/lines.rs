//! Files with a setting a line.

use super::{is_secret, without_userinfo};

/// Returns the text without its secrets; `None` where a value goes on in lines that cannot be
/// told apart.
pub(super) fn redact(text: &str) -> Option<String> {
    let mut left = String::with_capacity(text.len());
    let mut secret_above = false;
    for line in text.split_inclusive('\n') {
        let clean = without_userinfo(line);
        let goes_on = secret_above && line.starts_with([' ', '\t']) && !line.trim().is_empty();
        if goes_on {
            continue;
        }
        secret_above = false;
        match secret(&clean) {
            None => left += &clean,
            Some(_) if is_comment(line) => {}
            Some("") => secret_above = true,
            Some(value) if is_open(value) => return None,
            Some(_) => {}
        }
    }
    Some(left)
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    let slashes = line.starts_with("//") && !line.contains(":_");
    line.starts_with(['#', ';', '!']) || slashes
}

/// Returns the value of the first setting of a line whose name tells that it is a secret.
fn secret(line: &str) -> Option<&str> {
    let trimmed = line
        .trim_start_matches([' ', '\t', '#', ';', '-'])
        .trim_end();
    if trimmed.starts_with('[') && trimmed.ends_with(']') {
        return None;
    }
    let (name, value) = first_setting(trimmed);
    if is_secret(name) {
        return Some(value);
    }
    // Settings further on, as those of an inline table are.
    let mut rest = trimmed;
    while let Some(at) = rest.find(['=', ':']) {
        let word = rest[..at].trim_end_matches([' ', '"', '\'']);
        let start = word.rfind(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)));
        let word = start.map_or(word, |start| {
            &word[start + word[start..].chars().next().map_or(1, char::len_utf8)..]
        });
        let is_assignment = rest[at..].starts_with('=') || rest[at..].starts_with(": ");
        rest = &rest[at + 1..];
        if is_assignment && is_secret(word) {
            return Some(rest.trim());
        }
    }
    None
}

/// Splits a line into the name it starts with and what follows.
fn first_setting(line: &str) -> (&str, &str) {
    let quoted = line.strip_prefix('"').and_then(|rest| rest.split_once('"'));
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

/// Tells whether a value may go on in the next line.
fn is_open(value: &str) -> bool {
    let unclosed = |quote: char| value.matches(quote).count() % 2 == 1;
    let starts = ["\"\"\"", "'''", "|", ">", "<<", "{", "["];
    let is_start = starts.iter().any(|start| value.starts_with(start));
    let is_closed = value.ends_with(['}', ']']) && value.starts_with(['{', '[']);
    (is_start && !is_closed) || unclosed('"') || unclosed('\'') || value.ends_with('\\')
}
