//! Keeps secrets out of what is shown.

use serde_json::Value;

use crate::policy::environment::table;

/// What stands in place of a secret.
const MASK: &str = "***";

/// Parts of the names that variables with secrets have. One too many costs a look into the
/// file; one too few shows a secret.
const SECRET_PARTS: [&str; 11] = [
    "ACCESS",
    "AUTH",
    "COOKIE",
    "CREDENTIAL",
    "DSN",
    "KEY",
    "PASS",
    "PRIVATE",
    "SECRET",
    "SESSION",
    "TOKEN",
];

/// Returns the value of a variable as it may be shown.
pub(super) fn variable(name: &str, value: &str) -> Value {
    let name = name.to_uppercase();
    let is_known = table::SECRETS.iter().any(|row| row.covers(name.as_bytes()));
    match is_known || SECRET_PARTS.iter().any(|part| name.contains(part)) {
        true => MASK.into(),
        false => without_password(value).into(),
    }
}

/// Returns a value as it may be shown: URLs without user and password.
pub(super) fn value(value: Value) -> Value {
    match value {
        Value::String(text) => without_password(&text).into(),
        Value::Array(items) => items.into_iter().map(self::value).collect(),
        Value::Object(map) => {
            let map = map
                .into_iter()
                .map(|(name, item)| (name, self::value(item)));
            map.collect::<serde_json::Map<_, _>>().into()
        }
        other => other,
    }
}

fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{MASK}{}", &rest[at..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_values_are_masked_and_others_are_not() {
        let secret = [
            "API_KEY",
            "GITHUB_TOKEN",
            "db_password",
            "AWS_SECRET_ACCESS_KEY",
            "PGPASSFILE",
        ];
        for name in secret {
            assert_eq!(variable(name, "canary"), MASK, "{name}");
        }
        for name in ["CI", "PWD", "LANG", "NODE_ENV"] {
            assert_eq!(variable(name, "x"), "x", "{name}");
        }
        let shown = variable("UPSTREAM", "postgres://u:p@h/d?x=a@b");
        assert_eq!(shown, "postgres://***@h/d?x=a@b");
    }

    #[test]
    fn urls_lose_their_password_at_any_depth() {
        let given = serde_json::json!([{ "url": "http://u:p@h:1" }, "a@b", true, "http://h/@x"]);
        let shown = serde_json::json!([{ "url": "http://***@h:1" }, "a@b", true, "http://h/@x"]);
        assert_eq!(value(given), shown);
    }
}
