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

/// Returns one argument of a command as it may be recorded: cut short, without what looks like a
/// secret.
pub fn redact_argument(text: &str) -> String {
    const LONGEST: usize = 200;
    /// Of `-sS` or `-jar`; in what is longer a value may follow the letter, as in `-pSECRET`.
    const LONGEST_LETTERS: usize = 4;
    let named = ['=', ':'].into_iter().find_map(|between| {
        let (name, value) = text.split_once(between)?;
        let is_secret = !value.is_empty() && names::is_secret(name.trim_start_matches('-'));
        // `http://user:password@host/?token=x` has a name, and more before it.
        let shown = || urls::without_userinfo(name).map(|name| format!("{name}{between}"));
        is_secret.then(|| shown().unwrap_or_default() + LEFT_OUT)
    });
    let has_letters = text.starts_with('-') && !text.starts_with("--");
    let shown = match urls::without_userinfo(text) {
        _ if names::holds_token(text) => LEFT_OUT.to_owned(),
        _ if named.is_some() => named.unwrap_or_default(),
        _ if has_letters && text.chars().count() > LONGEST_LETTERS => {
            let letter: String = text.chars().take(2).collect();
            format!("{letter}{LEFT_OUT}")
        }
        Some(shown) => shown,
        None => LEFT_OUT.to_owned(),
    };
    let plain = |c: char| if c.is_control() { '?' } else { c };
    shown.chars().take(LONGEST).map(plain).collect()
}

/// What stands for a secret.
const LEFT_OUT: &str = "\u{2026}";

#[cfg(test)]
mod tests;
