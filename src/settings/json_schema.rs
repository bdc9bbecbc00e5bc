//! The table of keys as JSON Schema, draft 2020-12, by which editors complete and check.
//!
//! It never refuses what the reader takes. What the reader refuses beyond it is what a schema
//! cannot say: bounds of a size, groups of a regular expression, keys that need each other.

use serde_json::{Map, Value, json};

use super::profile;
use super::reference::meaning;
use super::schema::{self, Form, Key, Shape, Support};

/// Returns the schema of a settings file.
pub fn json_schema() -> Value {
    let mut root = section("");
    let extra = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "srt settings",
        "description": "What a command that srt runs may do; see srt-settings(5).",
        // Words of editors, not of the standard: the file is JSON with comments.
        "allowComments": true,
        "allowTrailingCommas": true,
    });
    root.extend(extra.as_object().cloned().unwrap_or_default());
    root.into()
}

/// Returns the schema of an object whose keys the table lists under this section.
fn section(path: &str) -> Map<String, Value> {
    let keys = schema::keys().filter(|key| key.section() == path);
    let properties = keys
        .clone()
        .map(|key| (key.name().to_owned(), property(key)));
    let required = keys.filter(|key| key.required).map(Key::name);
    let mut object = Map::new();
    object.insert("type".to_owned(), json!("object"));
    object.insert("properties".to_owned(), Value::Object(properties.collect()));
    object.insert("additionalProperties".to_owned(), json!(false));
    let required: Vec<_> = required.collect();
    if !required.is_empty() {
        object.insert("required".to_owned(), json!(required));
    }
    object
}

fn property(key: &Key) -> Value {
    let mut property = shape(key);
    property.insert("description".to_owned(), json!(meaning(key)));
    let default = key.default.and_then(|json| serde_json::from_str(json).ok());
    if let Some(default) = default {
        property.insert("default".to_owned(), default);
    }
    if matches!(key.support, Support::Ignored(_)) {
        property.insert("deprecated".to_owned(), json!(true));
    }
    property.into()
}

fn shape(key: &Key) -> Map<String, Value> {
    let value = match key.shape {
        Shape::Section | Shape::Asked => return section(key.path),
        Shape::Foreign => json!({ "type": "object" }),
        Shape::Note => json!({ "type": "string" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Int(low, high) => number(low, high),
        Shape::Size => json!({ "anyOf": [
            number(1, u64::MAX),
            { "type": "string", "pattern": "^0*[1-9][0-9]*[KMGT]?$" },
        ] }),
        Shape::Choice(words) => json!({ "enum": words }),
        Shape::Switch(words) => {
            let words = words.iter().map(|word| json!(word));
            let all: Vec<_> = [json!(false), json!(true)]
                .into_iter()
                .chain(words)
                .collect();
            json!({ "enum": all })
        }
        Shape::Text(form) => text(form),
        Shape::List(form) => json!({ "type": "array", "items": text(form) }),
        Shape::Numbers(low, high) => json!({ "type": "array", "items": number(low, high) }),
        Shape::Paths => json!({ "type": "array", "items": { "anyOf": [text(Form::Path), {
            "type": "object",
            "properties": { "path": text(Form::Path), "literal": { "const": true } },
            "required": ["path", "literal"],
            "additionalProperties": false,
        }] } }),
        Shape::Map(form) => json!({ "type": "object", "additionalProperties": text(form) }),
        Shape::Lists => json!({
            "type": "object",
            "additionalProperties": { "type": "array", "items": text(Form::Any) },
        }),
        Shape::Records => {
            let items = section(&format!("{}[]", key.path));
            json!({ "type": "array", "items": items })
        }
        Shape::Never(_) => json!({ "not": {} }),
    };
    value.as_object().cloned().unwrap_or_default()
}

fn number(low: u64, high: u64) -> Value {
    json!({ "type": "integer", "minimum": low, "maximum": high })
}

fn text(form: Form) -> Value {
    let mut text = json!({ "type": "string", "pattern": pattern(form) });
    match form {
        Form::Free => {}
        Form::Regex => {
            text["minLength"] = json!(1);
            text["format"] = json!("regex");
        }
        Form::Profile => {
            text["minLength"] = json!(1);
            text["examples"] = profile::built_in().collect();
        }
        _ => text["minLength"] = json!(1),
    }
    text
}

/// Returns what [`super::form::check`] asks of a string, as ECMAScript writes it.
fn pattern(form: Form) -> &'static str {
    match form {
        Form::Any | Form::Free | Form::Host | Form::Path => r"^[^\u0000]*$",
        Form::Absolute => r"^/[^\u0000]*$",
        Form::Network => NETWORK,
        Form::Variable => r"^[A-Za-z_][A-Za-z0-9_]*$",
        Form::VariablePattern => r"^(@secrets|[^@=\u0000][^=\u0000]*)$",
        Form::Url => r"^https?://([^\s/?#\u0000]*@)?[^\s/?#@\u0000]+([/?#][^\s\u0000]*)?$",
        Form::Regex => r"^[^\u0000]*\([^\u0000]*$",
        Form::Service => r"^[^*\u0000]*\*?$",
        Form::Header => r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
        Form::Profile => "^[a-z0-9-]+$",
    }
}

/// Exact for IPv4; of IPv6 only which characters there are.
const NETWORK: &str = concat!(
    r"^(((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}",
    r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])(/0*(3[0-2]|[12]?[0-9]))?",
    r"|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(/0*(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?)$"
);

#[cfg(test)]
mod tests;
