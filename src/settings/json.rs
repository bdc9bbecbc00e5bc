//! Strict JSON with the range of every key and value. Knows nothing of settings keys.

use jsonc_parser::ast::{StringLit, Value};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde::de::IgnoredAny;

use super::source::Source;
use crate::error::{Error, Result};

/// Deeper files are refused: the parser below calls itself once a level.
const DEPTH_LIMIT: usize = 64;

/// Checks the grammar and returns the text to hand to [`parse`], ranges unchanged.
pub(super) fn check(source: &Source) -> Result<String> {
    check_depth(source)?;
    check_grammar(source)?;
    without_surrogates(source)
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
    serde_json::from_str(raw).expect("the grammar and every escape of the text were checked")
}

fn check_depth(source: &Source) -> Result<()> {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut bytes = source.text.bytes().enumerate();
    while let Some((offset, byte)) = bytes.next() {
        match byte {
            b'\\' if in_string => {
                bytes.next();
            }
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_LIMIT {
            let what = format!("nested deeper than {DEPTH_LIMIT} levels");
            return Err(source.error_at(offset, &what));
        }
    }
    Ok(())
}

/// The parser that knows ranges is lenient: it takes a missing comma, single quotes, line
/// breaks inside strings and Unicode spaces. This check allows none of it and does not recurse.
fn check_grammar(source: &Source) -> Result<()> {
    match serde_json::from_str::<IgnoredAny>(&source.text) {
        Ok(IgnoredAny) => Ok(()),
        Err(error) => Err(grammar_error(source, &error)),
    }
}

fn grammar_error(source: &Source, error: &serde_json::Error) -> Error {
    let text = source.text.as_str();
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
        Some('/' | '#') => Some("JSON has no comments"),
        Some('\'') => Some("JSON strings stand in double quotes"),
        Some(']' | '}') if text[..offset].trim_end().ends_with(',') => {
            Some("JSON has no comma before a closing bracket")
        }
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
fn without_surrogates(source: &Source) -> Result<String> {
    let mut text = source.text.clone();
    let mut from = 0;
    while let Some(found) = source.text[from..].find('\\') {
        let at = from + found;
        from = at
            + match (
                escaped_unit(&source.text, at),
                escaped_unit(&source.text, at + 6),
            ) {
                (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
                    text.replace_range(at..at + 12, "\\uFFFD\\uFFFD");
                    12
                }
                (Some(0xd800..=0xdfff), _) => {
                    return Err(source.error_at(at, "half of a surrogate pair stands alone"));
                }
                // A backslash is followed by one ASCII character at least.
                _ => 2,
            };
    }
    Ok(text)
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
        check_text(text).expect_err(text).to_string()
    }

    #[test]
    fn what_is_not_strict_json_is_refused_where_it_stands() {
        let table = [
            ("{\"a\": 1", "s:1:8: the file ends before its JSON does"),
            ("{\"a\": 1\n\n", "s:1:8: the file ends before its JSON does"),
            (
                "{\"a\": [1,]}",
                "s:1:10: JSON has no comma before a closing bracket",
            ),
            (
                "{\"a\": 1,\n}",
                "s:2:1: JSON has no comma before a closing bracket",
            ),
            ("{\n  // no\n}", "s:2:3: JSON has no comments"),
            ("{} /* no */", "s:1:4: JSON has no comments"),
            ("# no\n{}", "s:1:1: JSON has no comments"),
            ("{'a': 1}", "s:1:2: JSON strings stand in double quotes"),
            ("{a: 1}", "s:1:2: key must be a string"),
            ("{\"a\": 'x'}", "s:1:7: JSON strings stand in double quotes"),
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
