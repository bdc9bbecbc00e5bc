//! A file without its secrets: what is left are settings that programs need to work.
//!
//! Errs on the side of leaving out: a line too many costs a setting, one too few a token.

mod json;
mod lines;
mod names;
mod urls;
mod xml;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A setting a line: INI, properties, TOML, flat YAML, options of curl.
    Lines,
    /// One JSON value.
    Json,
    /// XML, of which whole elements are left out.
    Xml,
}

/// What is left of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redaction {
    /// It holds no secret.
    Harmless,
    /// This may be shown in its place.
    Part(String),
    /// No part of it can be told to be harmless.
    Unseparable,
}

/// Takes the secrets out of the text of a file.
pub fn redact(form: Form, text: &str) -> Redaction {
    // A mark at the start would be part of the first name.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // Two bytes a letter: no name would be known.
    if text.contains('\0') {
        return Redaction::Unseparable;
    }
    match form {
        Form::Lines => lines::redact(text),
        Form::Json => json::redact(text),
        Form::Xml => xml::redact(text),
    }
}

#[cfg(test)]
mod tests;
