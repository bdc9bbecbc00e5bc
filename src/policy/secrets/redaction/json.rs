//! Files that hold one JSON value.

use serde_json::Value;

use super::{is_secret, without_userinfo};

/// Returns the value without its secrets, written anew: of a name that is given twice, the
/// last would hide the first from us and not from every reader.
pub(super) fn redact(text: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(text).ok()?;
    strip(&mut value);
    serde_json::to_string_pretty(&value).ok()
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|name, value| !(is_scalar(value) && is_secret(name)));
            object.values_mut().for_each(strip);
        }
        Value::Array(values) => values.iter_mut().for_each(strip),
        Value::String(text) => *text = without_userinfo(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// An object of such a name holds secrets by their hosts, which are looked at one by one.
fn is_scalar(value: &Value) -> bool {
    !value.is_object()
}
