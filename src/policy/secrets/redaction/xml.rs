//! XML files of package managers.

use super::Redaction;
use super::names::{holds_token, is_secret};
use super::urls::without_userinfo;

/// Elements that hold secrets, with all that is in them.
const SECRET_ELEMENTS: [&str; 8] = [
    "apikeys",
    "clientCertificates",
    "packageSourceCredentials",
    "passphrase",
    "password",
    "privateKey",
    "servers",
    "username",
];

/// What may not be left: an element or attribute that was not taken apart.
const SECRET_WORDS: [&str; 7] = [
    "apikey",
    "authorization",
    "cleartext",
    "passphrase",
    "password",
    "secret",
    "token",
];

pub(super) fn redact(text: &str) -> Redaction {
    match without_secrets(text) {
        None => Redaction::Unseparable,
        Some(left) if left == text => Redaction::Harmless,
        // Programs read no comments; people leave old passwords in them.
        Some(left) => match without(&left, "<!--", "-->") {
            None => Redaction::Unseparable,
            Some(left) => Redaction::Part(left),
        },
    }
}

/// Returns the text without the elements that hold secrets; `None` where one may be left.
fn without_secrets(text: &str) -> Option<String> {
    // An entity of the file's own may stand for a secret.
    if text.contains("<!ENTITY") || text.contains("<![CDATA[") {
        return None;
    }
    let mut left = text.to_owned();
    for name in SECRET_ELEMENTS {
        left = without(&left, &format!("<{name}>"), &format!("</{name}>"))?;
    }
    let left = without_userinfo(&left)?;
    let lower = left.to_lowercase();
    let is_left = SECRET_WORDS.iter().any(|word| lower.contains(word))
        || elements(&left).any(|name| is_secret(name) || SECRET_ELEMENTS.contains(&name))
        || holds_token(&left);
    (!is_left).then_some(left)
}

/// Names every element that starts or ends.
fn elements(text: &str) -> impl Iterator<Item = &str> {
    text.split('<').skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        let end = rest.find(|c: char| c.is_whitespace() || c == '>' || c == '/')?;
        Some(&rest[..end])
    })
}

/// Cuts everything from `open` to `close`, as often as it is there; `None` where one has no end.
fn without(text: &str, open: &str, close: &str) -> Option<String> {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let end = start + rest[start..].find(close)? + close.len();
        left += &rest[..start];
        rest = &rest[end..];
    }
    Some(left + rest)
}
