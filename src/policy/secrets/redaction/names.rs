//! Names of settings whose values are secrets, and values that are secrets whatever their names.

/// Parts of names, without what separates words and in lower case, whose value is a secret.
const SECRET_PARTS: [&str; 19] = [
    "accesskey",
    "accountkey",
    "apikey",
    "authident",
    "authorization",
    "bearer",
    "connectionstring",
    "cookie",
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

/// Last words of such names.
const SECRET_ENDS: [&str; 4] = ["auth", "key", "pass", "pat"];

/// Such names as a whole.
const SECRET_NAMES: [&str; 8] = [
    "extraheader",
    "header",
    "headers",
    "httpheaders",
    "jwt",
    "login",
    "otp",
    "proxyheader",
];

/// Ends of names that hold one of these and say how to ask for a secret, not what it is, or that
/// end so by chance.
const HARMLESS: [&str; 9] = [
    "alwaysauth",
    "bypass",
    "compass",
    "credentialprovider",
    "credentialproviders",
    "credsstore",
    "credhelpers",
    "keyringprovider",
    "usehttppath",
];

/// Tells whether a setting of this name holds a secret.
pub(super) fn is_secret(name: &str) -> bool {
    // `\u0061` in a name is a letter to some readers.
    if name.contains('\\') {
        return true;
    }
    let last = name.rsplit(['/', '.', ':']).next().unwrap_or(name);
    let letters = last.chars().filter(|character| character.is_alphanumeric());
    let plain: String = letters.flat_map(char::to_lowercase).collect();
    let is_one = SECRET_NAMES.contains(&&*plain)
        || plain.ends_with("pass")
        || SECRET_PARTS.iter().any(|part| plain.contains(part))
        || SECRET_ENDS.contains(&last_word(last).as_str());
    is_one && !HARMLESS.iter().any(|harmless| plain.ends_with(harmless))
}

/// Returns the last word of a name, in lower case: `key` of `myKey`, `my_key` and `my-key`, not of
/// `monkey`.
fn last_word(name: &str) -> String {
    let name = name.trim_end_matches(|character: char| !character.is_alphanumeric());
    let mut start = 0;
    let mut before = '_';
    for (at, character) in name.char_indices() {
        if !character.is_alphanumeric() {
            start = at + character.len_utf8();
        } else if character.is_uppercase() && !before.is_uppercase() {
            start = at;
        }
        before = character;
    }
    name[start..].to_lowercase()
}

/// What tokens of well-known services start with, and how many characters follow at least.
const TOKENS: [(&str, usize); 21] = [
    ("AIza", 30),
    ("AKIA", 16),
    ("ASIA", 16),
    ("cio", 32),
    ("dop_v1_", 32),
    ("eyJ", 40),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghr_", 30),
    ("ghs_", 30),
    ("ghu_", 30),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("hf_", 30),
    ("npm_", 30),
    ("pypi-", 40),
    ("rk_live_", 20),
    ("sk-", 20),
    ("sk_live_", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
];

/// Tells whether a text holds what can be told to be a token or a key by itself.
pub(super) fn holds_token(text: &str) -> bool {
    let words = text.split(|character: char| {
        !(character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.'))
    });
    let is_token = |word: &str| {
        TOKENS.iter().any(|(start, least)| {
            // Nearly every word is too short, which takes least to tell.
            word.len() >= start.len() + least
                && word
                    .strip_prefix(start)
                    .is_some_and(|rest| rest.contains(|c: char| c.is_ascii_digit()))
        })
    };
    text.contains("-----BEGIN") || words.into_iter().any(is_token)
}

/// Tells whether a value names a variable that holds the secret, as npm and yarn take it.
pub(super) fn is_variable(value: &str) -> bool {
    let value = value.trim().trim_matches(['"', '\'']);
    let name = value
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    let name = name.map(|name| name.strip_suffix('?').unwrap_or(name));
    name.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}
