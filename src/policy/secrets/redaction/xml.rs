//! XML files of package managers.

use super::without_userinfo;

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
const SECRET_WORDS: [&str; 5] = ["apikey", "cleartext", "passphrase", "password", "token"];

/// Returns the text without the elements that hold secrets; `None` where one is left.
pub(super) fn redact(text: &str) -> Option<String> {
    let mut left = text.to_owned();
    for name in SECRET_ELEMENTS {
        left = without(&left, name)?;
    }
    let left = without_userinfo(&left);
    let lower = left.to_lowercase();
    let is_left = SECRET_WORDS.iter().any(|word| lower.contains(word));
    (!is_left).then_some(left)
}

/// Cuts every element of a name; `None` where one has no end.
fn without(text: &str, name: &str) -> Option<String> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(&open) {
        let end = start + rest[start..].find(&close)? + close.len();
        left += &rest[..start];
        rest = &rest[end..];
    }
    Some(left + rest)
}
