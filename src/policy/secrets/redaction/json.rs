//! Files that hold one JSON value.

use serde_json::Value;

use super::Redaction;
use super::names::{holds_token, is_secret};
use super::urls::without_userinfo;

/// Returns the value without its secrets, written anew: of a name that is given twice, the
/// last would hide the first from us and not from every reader.
pub(super) fn redact(text: &str) -> Redaction {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return Redaction::Unseparable;
    };
    let left = strip(value.clone());
    if left.as_ref() == Some(&value) && says_no_more(text, &value) {
        return Redaction::Harmless;
    }
    let left = left.and_then(|left| serde_json::to_string_pretty(&left).ok());
    left.map_or(Redaction::Unseparable, Redaction::Part)
}

/// Tells whether a text is the value that it was read as, but for white space and order.
fn says_no_more(text: &str, value: &Value) -> bool {
    let size = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
    size(text) == size(&value.to_string())
}

/// Returns what is left of a value, if anything is.
fn strip(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) => {
            let left = object.into_iter().filter_map(|(name, value)| {
                let is_secret = is_secret(&name) || holds_token(&name);
                let name = without_userinfo(&name).filter(|_| !is_secret)?;
                Some((name, strip(value)?))
            });
            Some(Value::Object(left.collect()))
        }
        Value::Array(values) => {
            let left = values.into_iter().filter_map(strip);
            Some(Value::Array(left.collect()))
        }
        Value::String(text) if holds_token(&text) => None,
        Value::String(text) => without_userinfo(&text).map(Value::String),
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(value),
    }
}
