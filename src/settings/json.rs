//! JSON with comments and trailing commas, and the range of every key and value. Knows nothing
//! of settings keys.

use jsonc_parser::ast::{StringLit, Value};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;

use super::source::Source;
use crate::error::{Error, Result};

/// Deeper files are refused: the parser below calls itself once a level.
const DEPTH_LIMIT: usize = 64;

/// Checks the grammar and returns the text to hand to [`parse`], ranges unchanged.
pub(super) fn check(source: &Source) -> Result<String> {
    let plain = without_comments(source)?;
    check_depth(source, &plain)?;
    check_grammar(source, &plain)?;
    without_surrogates(source, plain)
}

/// Parses checked text. Strings are to be taken by [`decode`], not from the tree.
pub(super) fn parse<'a>(source: &Source, checked: &'a str) -> Result<Value<'a>> {
    let strict = ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
    };
    match parse_to_ast(checked, &CollectOptions::default(), &strict) {
        Ok(parsed) => parsed
            .value
            .ok_or_else(|| source.error_at(0, "holds no JSON value")),
        Err(error) => Err(source.error_at(error.range().start, &error.kind().to_string())),
    }
}

/// Returns what a string of checked text stands for.
pub(super) fn decode(source: &Source, lit: &StringLit<'_>) -> String {
    let raw = &source.text[lit.range.start..lit.range.end];
    let inner = &raw[1..raw.len() - 1];
    if !inner.contains('\\') {
        return inner.to_owned();
    }
    serde_json::from_str(raw).expect("the grammar and every escape of the text were checked")
}

/// Replaces comments, and commas before a closing bracket, by blanks: what is left is plain
/// JSON with every byte at its place.
fn without_comments(source: &Source) -> Result<String> {
    let bytes = source.text.as_bytes();
    let mut plain = bytes.to_vec();
    let mut blank = |from: usize, to: usize| {
        let gone = plain[from..to].iter_mut().filter(|byte| **byte != b'\n');
        gone.for_each(|byte| *byte = b' ');
    };
    // The last byte that is neither blank nor comment, and where a comma was it.
    let mut last = (b' ', 0);
    let mut before_comma = b' ';
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'"' => at + string_length(&bytes[at..]),
            b'/' => match comment_length(&source.text[at..]) {
                Some(length) => at + length,
                None => return Err(source.error_at(at, "this comment is not closed")),
            },
            _ => at + 1,
        };
        match bytes[at] {
            b'/' if end > at + 1 => blank(at, end),
            byte if byte.is_ascii_whitespace() => {}
            byte => {
                let after_value = !matches!(before_comma, b'[' | b'{' | b',' | b':' | b' ');
                if matches!(byte, b']' | b'}') && last.0 == b',' && after_value {
                    blank(last.1, last.1 + 1);
                }
                before_comma = last.0;
                last = (byte, at);
            }
        }
        at = end;
    }
    Ok(String::from_utf8(plain).expect("whole characters became blanks"))
}

/// Returns the length of the comment that `text` starts with, or 1 if its slash starts none;
/// `None` if it has no end.
fn comment_length(text: &str) -> Option<usize> {
    match text.as_bytes() {
        [b'/', b'/', ..] => Some(text.find('\n').unwrap_or(text.len())),
        [b'/', b'*', ..] => Some(text[2..].find("*/")? + 4),
        _ => Some(1),
    }
}

/// Returns the length of the string that `text` starts with, to its end if it is not closed.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = false;
    let closing = text.iter().skip(1).position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    });
    closing.map_or(text.len(), |at| at + 2)
}

fn check_depth(source: &Source, plain: &str) -> Result<()> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = plain.as_bytes().get(at) {
        match byte {
            b'"' => at += string_length(&plain.as_bytes()[at..]) - 1,
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_LIMIT {
            let what = format!("nested deeper than {DEPTH_LIMIT} levels");
            return Err(source.error_at(at, &what));
        }
        at += 1;
    }
    Ok(())
}

/// The parser that knows ranges is lenient: it takes a missing comma, single quotes, line
/// breaks inside strings and Unicode spaces. This check allows none of it and does not recurse.
fn check_grammar(source: &Source, plain: &str) -> Result<()> {
    match serde_json::from_str::<IgnoredAny>(plain) {
        Ok(IgnoredAny) => Ok(()),
        Err(error) => Err(grammar_error(source, plain, &error)),
    }
}

fn grammar_error(source: &Source, text: &str, error: &serde_json::Error) -> Error {
    if error.is_eof() {
        return source.error_at(text.trim_end().len(), "the file ends before its JSON does");
    }
    let line_start: usize = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum();
    let offset = text.floor_char_boundary((line_start + error.column()).saturating_sub(1));
    let known = match text[offset..].chars().next() {
        Some('#') => Some("comments start with `//`"),
        Some('\'') => Some("strings stand in double quotes"),
        _ => None,
    };
    if let Some(known) = known {
        return source.error_at(offset, known);
    }
    let message = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    source.error_at(offset, message.strip_suffix(&suffix).unwrap_or(&message))
}

/// The parser that knows ranges refuses the escaped surrogate pairs that JSON writes characters
/// beyond U+FFFF with; it is shown a replacement of the same length.
fn without_surrogates(source: &Source, plain: String) -> Result<String> {
    let mut text = plain.clone().into_bytes();
    let mut from = 0;
    while let Some(found) = plain[from..].find('\\') {
        let at = from + found;
        from = at
            + match (escaped_unit(&plain, at), escaped_unit(&plain, at + 6)) {
                (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
                    text[at..at + 12].copy_from_slice(b"\\uFFFD\\uFFFD");
                    12
                }
                (Some(0xd800..=0xdfff), _) => {
                    return Err(source.error_at(at, "half of a surrogate pair stands alone"));
                }
                // A backslash is followed by one ASCII character at least.
                _ => 2,
            };
    }
    Ok(String::from_utf8(text).expect("ASCII became ASCII"))
}

/// Returns the UTF-16 unit if a `\uXXXX` stands at `at`.
fn escaped_unit(text: &str, at: usize) -> Option<u16> {
    let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn check_text(text: &str) -> Result<String> {
        check(&Source::from_bytes(Path::new("s"), text.into()).expect("the text is UTF-8"))
    }

    fn message(text: &str) -> String {
        let message = check_text(text).expect_err(text).to_string();
        message.lines().next().expect("it is not empty").to_owned()
    }

    #[test]
    fn comments_and_trailing_commas_become_blanks_and_nothing_else_moves() {
        let table = [
            ("{\"a\": [1,],}", "{\"a\": [1 ] }"),
            ("{\"a\": 1, // x\n}", "{\"a\": 1      \n}"),
            ("/* ä\n*/{}", "     \n  {}"),
            (
                "[\"//\", \"/* */\", \"\\\"//\", \",]\"]",
                "[\"//\", \"/* */\", \"\\\"//\", \",]\"]",
            ),
            ("[1, /* , */ ]", "[1          ]"),
            ("[[], {},]", "[[], {} ]"),
            ("[\"x\", // ]\n]", "[\"x\"      \n]"),
        ];
        for (text, expected) in table {
            assert_eq!(check_text(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_strict_json_is_refused_where_it_stands() {
        let table = [
            ("{\"a\": 1", "s:1:8: the file ends before its JSON does"),
            ("{\"a\": 1\n\n", "s:1:8: the file ends before its JSON does"),
            ("{\"a\": [,]}", "s:1:8: expected value"),
            ("{\"a\": [1,,]}", "s:1:10: expected value"),
            ("{,}", "s:1:2: key must be a string"),
            ("{\"a\":,}", "s:1:6: expected value"),
            ("{} /* no", "s:1:4: this comment is not closed"),
            ("{} /", "s:1:4: trailing characters"),
            ("# no\n{}", "s:1:1: comments start with `//`"),
            ("{'a': 1}", "s:1:2: strings stand in double quotes"),
            ("{a: 1}", "s:1:2: key must be a string"),
            ("{\"a\": 'x'}", "s:1:7: strings stand in double quotes"),
            ("[\"a\" \"b\"]", "s:1:6: expected `,` or `]`"),
            ("{\"a\": 1 \"b\": 2}", "s:1:9: expected `,` or `}`"),
            ("[01]", "s:1:3: invalid number"),
            ("[NaN]", "s:1:2: expected value"),
            ("{} {}", "s:1:4: trailing characters"),
            ("{\u{a0}}", "s:1:2: key must be a string"),
            ("[\"ä\" x]", "s:1:6: expected `,` or `]`"),
            ("[\"\\x\"]", "s:1:4: invalid escape"),
            (
                "[\"\\ud800\"]",
                "s:1:3: half of a surrogate pair stands alone",
            ),
            (
                "[\"\\udc00\\ud800\"]",
                "s:1:3: half of a surrogate pair stands alone",
            ),
            (
                "[\"\\ud800x\"]",
                "s:1:3: half of a surrogate pair stands alone",
            ),
        ];
        for (text, expected) in table {
            assert_eq!(message(text), expected, "{text}");
        }
    }

    #[test]
    fn control_characters_are_refused_inside_and_outside_strings() {
        for text in ["[\"a\nb\"]", "[\"a\0b\"]", "{}\0", "\0{}", "[\"\t\"]"] {
            assert!(message(text).starts_with("s:"), "{text:?}");
        }
    }

    #[test]
    fn sixty_four_levels_pass_and_sixty_five_do_not() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(check_text(&nested(64)).is_ok());
        assert_eq!(message(&nested(65)), "s:1:65: nested deeper than 64 levels");
        assert_eq!(
            message(&"{\"a\":[".repeat(100_000)),
            "s:1:193: nested deeper than 64 levels"
        );
    }

    #[test]
    fn brackets_inside_strings_are_not_nesting() {
        assert!(check_text(&format!("[\"\\\"{}\"]", "[{".repeat(200))).is_ok());
    }

    #[test]
    fn escapes_decode_to_what_they_stand_for() {
        let text = r#"["\ud83d\ude00 \u00e9 \\ud800 \\\ud83d\ude00 \n"]"#;
        let source = Source::from_bytes(Path::new("s"), text.into()).expect("the text is UTF-8");
        let checked = check(&source).expect("the text is strict JSON");
        let value = parse(&source, &checked).expect("the text is strict JSON");
        let lit = value
            .as_array()
            .and_then(|array| array.elements[0].as_string_lit());
        let lit = lit.expect("the array holds one string");
        assert_eq!(decode(&source, lit), "😀 é \\ud800 \\😀 \n");
    }
}
