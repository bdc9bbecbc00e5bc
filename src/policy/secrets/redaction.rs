//! A file without its secrets: what is left are settings that programs need to work.
//!
//! Errs on the side of leaving out: a line too many costs a setting, one too few a token.

mod json;
mod lines;
mod xml;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A setting a line: INI, properties, TOML, flat YAML.
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
    let left = match form {
        Form::Lines => lines::redact(text),
        Form::Json => json::redact(text),
        Form::Xml => xml::redact(text),
    };
    match left {
        None => Redaction::Unseparable,
        Some(left) if left == text => Redaction::Harmless,
        Some(left) => Redaction::Part(left),
    }
}

/// Parts of names, without `-` and `_` and in lower case, whose value is a secret.
const SECRET_PARTS: [&str; 15] = [
    "accesskey",
    "apikey",
    "authident",
    "authorization",
    "credential",
    "identitytoken",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "signingkey",
    "storepass",
    "token",
];

/// Ends of such names.
const SECRET_ENDS: [&str; 4] = ["auth", "key", "pass", "pat"];

/// Names that hold one of these and say how to ask for a secret, not what it is.
const HARMLESS: [&str; 6] = [
    "alwaysauth",
    "credentialprovider",
    "credsstore",
    "credhelpers",
    "globalcredentialproviders",
    "keyringprovider",
];

/// Tells whether a setting of this name holds a secret.
fn is_secret(name: &str) -> bool {
    let last = name.rsplit(['/', '.', ':']).next().unwrap_or(name);
    let plain: String = last
        .chars()
        .filter(|character| !matches!(character, '-' | '_' | '"' | '\'' | '`' | ' '))
        .collect();
    let plain = plain.to_ascii_lowercase();
    let has_end = match plain.as_str() {
        // Otherwise a word that ends so by chance, as `monkey` does.
        "auth" | "key" | "pass" | "pat" => true,
        _ => {
            last.rsplit(['-', '_']).next().is_some_and(|end| {
                end != last && SECRET_ENDS.contains(&end.to_ascii_lowercase().as_str())
            }) || last.ends_with("Key")
        }
    };
    let has_part = SECRET_PARTS.iter().any(|part| plain.contains(part));
    (has_end || has_part) && !HARMLESS.contains(&plain.as_str())
}

/// Takes user and password, tokens in paths and all that follows a `?` out of the URLs of a
/// text, and what stands as `user:password@host` without being one.
fn without_userinfo(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut word = String::new();
    for character in text.chars() {
        match character {
            '=' if word.contains("://") => word.push(character),
            ' ' | '\t' | '\n' | '\r' | '"' | '\'' | '<' | '>' | '=' | ',' | '(' | ')' => {
                left += &cleaned(&word);
                word.clear();
                left.push(character);
            }
            _ => word.push(character),
        }
    }
    left + &cleaned(&word)
}

fn cleaned(word: &str) -> String {
    let (scheme, rest) = match word.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), word),
    };
    let mut rest = rest.to_owned();
    if let Some(at) = rest.rfind('@') {
        let before = &rest[..at];
        let is_path = before.contains('/') && !has_password(before);
        let is_userinfo = !scheme.is_empty() && !is_path || has_password(before);
        if is_userinfo {
            rest.drain(..=at);
        }
    }
    if scheme.is_empty() {
        return rest;
    }
    if let Some(query) = rest.find('?') {
        rest.truncate(query);
    }
    // https://host/t/TOKEN/channel, as conda writes it.
    if let Some((before, after)) = rest.split_once("/t/")
        && let Some((_token, after)) = after.split_once('/')
    {
        rest = format!("{before}/{after}");
    }
    scheme + &rest
}

/// Tells whether what stands before an `@` is a user and a password, and no host with a port.
fn has_password(before: &str) -> bool {
    before.split_once(':').is_some_and(|(user, password)| {
        let port = password.split('/').next().unwrap_or(password);
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let is_host = is_port && password.contains('/');
        !(user.is_empty() || password.is_empty() || is_host)
    })
}

#[cfg(test)]
mod tests;
