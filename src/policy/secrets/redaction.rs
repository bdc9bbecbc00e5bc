//! A file without its secrets: what is left are settings that programs need to work.
//!
//! Errs on the side of leaving out: a line too many costs a setting, one too few a token.

use std::borrow::Cow;

use serde_json::Value;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A setting a line: INI, properties, TOML, flat YAML, and XML with an element a line.
    Lines,
    /// One JSON value.
    Json,
}

/// What is left of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redacted {
    /// It holds no secret.
    Whole,
    /// This may be shown in its place.
    Part(String),
    /// No part of it can be told to be harmless.
    Nothing,
}

/// Parts of names whose value is a secret.
const SECRET_NAMES: [&str; 8] = [
    "_auth",
    "authorization",
    "identitytoken",
    "passphrase",
    "password",
    "passwd",
    "secret",
    "token",
];

/// Starts of values that go on in the next line.
const LONG_VALUES: [&str; 4] = ["\"\"\"", "'''", "|", ">"];

/// Takes the secrets out of the text of a file.
pub fn redact(form: Form, text: &str) -> Redacted {
    let left = match form {
        Form::Lines => lines(text),
        Form::Json => json(text),
    };
    match left {
        None => Redacted::Nothing,
        Some(left) if left == text => Redacted::Whole,
        Some(left) => Redacted::Part(left),
    }
}

fn lines(text: &str) -> Option<String> {
    let mut left = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        match secret_value(line) {
            None => left += &without_userinfo(line),
            Some(value) if LONG_VALUES.contains(&value) || value.is_empty() => return None,
            Some(_) => {}
        }
    }
    Some(left)
}

/// Returns the value of the first setting of a line whose name tells that it is a secret.
fn secret_value(line: &str) -> Option<&str> {
    let mut rest = line;
    while let Some(at) = rest.find(['=', ':', '>', ' ']) {
        let (name, after) = rest.split_at(at);
        rest = &after[1..];
        if is_secret(name) {
            return Some(rest.trim().trim_start_matches(['=', ':', ' ']));
        }
    }
    None
}

fn is_secret(name: &str) -> bool {
    let name = name
        .trim()
        .trim_matches(['"', '\'', '<', '{', ','])
        .to_ascii_lowercase();
    let last = name.rsplit(['/', '.', ' ']).next().unwrap_or(&name);
    SECRET_NAMES.iter().any(|part| last.contains(part))
}

/// Takes name and password out of the URLs of a line.
fn without_userinfo(line: &str) -> Cow<'_, str> {
    let mut left = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + 3);
        let authority = url.find(['/', '?', '#', '"', '\'', ' ', '\n', '<']);
        let (authority, after) = url.split_at(authority.unwrap_or(url.len()));
        left += before;
        left += authority.rsplit('@').next().unwrap_or(authority);
        rest = after;
    }
    match left.is_empty() {
        true => Cow::Borrowed(line),
        false => Cow::Owned(left + rest),
    }
}

fn json(text: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    match strip(&mut value) {
        false => Some(text.to_owned()),
        true => serde_json::to_string_pretty(&value).ok(),
    }
}

/// Takes the secrets out of every object; tells whether there were any.
fn strip(value: &mut Value) -> bool {
    match value {
        Value::Object(object) => {
            let before = object.len();
            object
                .retain(|name, value| !(value.is_string() && (name == "auth" || is_secret(name))));
            let mut changed = object.len() != before;
            for value in object.values_mut() {
                changed |= strip(value);
            }
            changed
        }
        Value::Array(values) => values
            .iter_mut()
            .fold(false, |changed, value| strip(value) | changed),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_secret_go_and_settings_stay() {
        let table = [
            (
                "registry=https://r.example/\n//r.example/:_authToken=abc\nfund=false\n",
                "registry=https://r.example/\nfund=false\n",
            ),
            ("_auth = abc\nalways-auth=true\n", "always-auth=true\n"),
            (
                "[global]\nindex-url = https://me:pw@p.example/simple\n",
                "[global]\nindex-url = https://p.example/simple\n",
            ),
            (
                "extra-index-url =\n    https://me@p.example/a\n    http://q.example/b\n",
                "extra-index-url =\n    https://p.example/a\n    http://q.example/b\n",
            ),
            (
                "[registries.my]\nindex = \"sparse+https://x.example/\"\ntoken = \"abc\"\n",
                "[registries.my]\nindex = \"sparse+https://x.example/\"\n",
            ),
            ("my = { index = \"i\", token = \"abc\" }\n", ""),
            (
                "[registry]\nglobal-credential-providers = [\"cargo:token\"]\n",
                "[registry]\nglobal-credential-providers = [\"cargo:token\"]\n",
            ),
            (
                "nexusPassword=abc\norg.gradle.jvmargs=-Xmx2g\n",
                "org.gradle.jvmargs=-Xmx2g\n",
            ),
            (
                "<server>\n  <password>abc</password>\n</server>\n",
                "<server>\n</server>\n",
            ),
            ("npmAuthToken: abc\nnodeLinker: pnp\n", "nodeLinker: pnp\n"),
            (
                "BUNDLE_X__EXAMPLE: \"https://me:pw@x.example/\"\n",
                "BUNDLE_X__EXAMPLE: \"https://x.example/\"\n",
            ),
            ("NPM_TOKEN=abc", ""),
            ("\"//r.example/:_password\" \"abc\"\n", ""),
        ];
        for (text, expected) in table {
            let expected = match expected == text {
                true => Redacted::Whole,
                false => Redacted::Part(expected.to_owned()),
            };
            assert_eq!(redact(Form::Lines, text), expected, "{text}");
        }
    }

    #[test]
    fn a_secret_of_several_lines_leaves_nothing() {
        for text in [
            "token = \"\"\"\nabc\"\"\"\n",
            "password:\n  abc\n",
            "<password>\nabc</password>\n",
            "secret: |\n  abc\n",
        ] {
            assert_eq!(redact(Form::Lines, text), Redacted::Nothing, "{text}");
        }
    }

    #[test]
    fn objects_lose_their_secrets_at_any_depth() {
        let text = r#"{"auths":{"r.example":{"auth":"abc","email":"a@b"}},"credsStore":"pass","HttpHeaders":{"Authorization":"abc"}}"#;
        let Redacted::Part(left) = redact(Form::Json, text) else {
            panic!("it holds secrets")
        };
        assert!(
            !left.contains("abc") && left.contains("credsStore") && left.contains("r.example"),
            "{left}"
        );
        assert_eq!(redact(Form::Json, r#"{"auths":{},"x":1}"#), Redacted::Whole);
        assert_eq!(redact(Form::Json, "no JSON"), Redacted::Nothing);
    }
}
