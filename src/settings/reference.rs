//! The table of keys in words, for documents, manual page and JSON Schema.

use std::fmt::Write;

use super::schema::{self, Effect, Form, Key, Shape, Support};

/// What stands in `docs/settings.md` before the table that is made.
pub(crate) const START: &str = "<!-- made by `make docs`; change src/settings/keys instead -->\n\n";
/// What stands there after it.
pub(crate) const END: &str = "\n<!-- end of what is made -->";

/// Returns the table as Markdown: one heading and table for each section of the top level.
pub fn markdown() -> String {
    let mut text = String::new();
    for (title, about, keys) in sections() {
        // A `String` takes all that is written to it.
        let _ = write!(
            text,
            "### {title}\n\n{about}\n\n| key | value | default | meaning | layers |\n|---|---|---|---|---|\n"
        );
        for key in keys {
            let _ = writeln!(text, "{}", row(key));
        }
        text.push('\n');
    }
    text.trim_end().to_owned() + "\n"
}

/// Returns the sections of the top level: title, what it is for, and its keys.
pub(crate) fn sections() -> Vec<(&'static str, &'static str, Vec<&'static Key>)> {
    let is_section = |key: &&Key| key.section().is_empty() && key.shape == Shape::Section;
    let alone = schema::keys().filter(|key| key.section().is_empty() && !is_section(key));
    let mut sections = vec![("Top level", "Keys of the file itself.", alone.collect())];
    for section in schema::keys().filter(is_section) {
        let inside = |key: &&Key| {
            let rest = key.path.strip_prefix(section.path);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let keys = schema::keys().filter(inside).collect();
        sections.push((section.path, section.about, keys));
    }
    sections
}

fn row(key: &Key) -> String {
    let code = |text: &str| match text {
        "" => String::new(),
        text => format!("`{text}`"),
    };
    format!(
        "| `{}` | {} | {} | {} | {} |",
        key.path,
        value(key),
        code(key.default.unwrap_or_default()),
        meaning(key),
        layers(key)
    )
}

/// Says all there is to say about a key: what it does, its flag, what this version lacks.
pub(crate) fn meaning(key: &Key) -> String {
    let mut text = key.about.to_owned();
    if let Some(flag) = key.flag {
        let _ = write!(text, " Flag: `{flag}`.");
    }
    if let Some(note) = note(key) {
        let _ = write!(text, " {note}");
    }
    text
}

/// Says what this version does not do with a key.
fn note(key: &Key) -> Option<String> {
    let stops = match key.default {
        Some(_) => "another value stops a run",
        None => "a value stops a run",
    };
    match key.support {
        Support::Full => None,
        Support::Ignored(reason) => Some(format!("No effect: {reason}.")),
        Support::Unbuilt => Some(format!("Not built yet: {stops}.")),
        Support::Pending(reason) => Some(format!("Not built yet: {stops}, and {reason}.")),
        Support::Missing(reason) => Some(format!("Not in force yet: {reason}.")),
    }
}

/// Says in a word or two how layers combine it; `docs/settings.md` says more of each.
pub(crate) fn layers(key: &Key) -> String {
    match key.effect {
        Effect::Neutral => String::new(),
        Effect::Grant(_) => "grants".to_owned(),
        Effect::Deny => "denies".to_owned(),
        Effect::Switch(strict) => format!("strict: `{strict}`"),
        Effect::Limit => "less is stricter".to_owned(),
        Effect::Open => "trusted only".to_owned(),
    }
}

/// Says what a key may hold, words to be written as they are in backticks.
pub(crate) fn value(key: &Key) -> String {
    let value = match key.shape {
        Shape::Section | Shape::Asked | Shape::Foreign => "object".to_owned(),
        Shape::Note => "string".to_owned(),
        Shape::Bool => "true or false".to_owned(),
        Shape::Int(low, high) if low == high => format!("`{low}`"),
        Shape::Int(low, u64::MAX) => format!("number from {low}"),
        Shape::Int(low, high) => format!("number from {low} to {high}"),
        Shape::Size => "bytes, or a size such as `512M`, `2G`".to_owned(),
        Shape::Choice(all) => words(all),
        Shape::Switch(all) => format!("true, false, {}", words(all)),
        Shape::Text(form) => singular(form).to_owned(),
        Shape::List(form) => format!("list of {}", plural(form)),
        Shape::Numbers(low, high) => format!("list of numbers from {low} to {high}"),
        Shape::Paths => "list of paths".to_owned(),
        Shape::Map(_) => "object of strings".to_owned(),
        Shape::Lists => "object of lists of strings".to_owned(),
        Shape::Records => "list of objects".to_owned(),
        Shape::Never(_) => "none".to_owned(),
    };
    match key.required {
        true => format!("{value}; required"),
        false => value,
    }
}

fn words(all: &[&str]) -> String {
    let words: Vec<_> = all.iter().map(|word| format!("`\"{word}\"`")).collect();
    words.join(", ")
}

fn singular(form: Form) -> &'static str {
    match form {
        Form::Any | Form::Free => "string",
        Form::Host => "host",
        Form::Path => "path",
        Form::Absolute => "absolute path",
        Form::Network => "address or network",
        Form::Variable => "name of a variable",
        Form::VariablePattern => "name or pattern of variables",
        Form::Url => "URL",
        Form::Regex => "regular expression with a group",
        Form::Service => "name of a service",
        Form::Header => "name of a header",
        Form::Profile => "name of a profile",
    }
}

fn plural(form: Form) -> &'static str {
    match form {
        Form::Any | Form::Free => "strings",
        Form::Host => "hosts",
        Form::Path => "paths",
        Form::Absolute => "absolute paths",
        Form::Network => "addresses or networks",
        Form::Variable => "names of variables",
        Form::VariablePattern => "names or patterns of variables",
        Form::Url => "URLs",
        Form::Regex => "regular expressions with a group",
        Form::Service => "names of services",
        Form::Header => "names of headers",
        Form::Profile => "names of profiles",
    }
}

#[cfg(test)]
mod tests;
