//! The JSON Schema of an event, and its codes in words: `docs/events.md` holds them.

use std::fmt::Write;

use serde_json::{Value, json};

use super::event::{Code, Kind, Verdict};

/// What a kind of event adds: name, schema, meaning.
fn details() -> [(&'static str, Value, &'static str); 9] {
    let object = || json!({ "type": "object" });
    [
        ("asked", object(), "What the launch asked for."),
        ("enforced", object(), "What is in force."),
        (
            "status",
            integer(),
            "Exit status of the command, or of `srt`.",
        ),
        ("signal", integer(), "The signal that ended the command."),
        ("reason", text(), "More about the cause."),
        ("hint", nullable(text()), "What to do about it."),
        ("range", text(), "The addresses that are out of bounds."),
        (
            "count",
            integer(),
            "How often the same came since it was told last, or how many events were lost.",
        ),
        (
            "limit",
            integer(),
            "The bound, in seconds, bytes or a number.",
        ),
    ]
}

/// Returns the schema of one line.
pub fn json_schema() -> Value {
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
    let properties = [
        ("v", json!({ "const": 1 }), "Version of the format."),
        ("time", time(), "When it was recorded, in UTC."),
        ("seq", integer(), "Its place in the run, from 0."),
        ("run", text(), "The run, by a number of its own."),
        (
            "kind",
            json!({ "enum": Kind::ALL }),
            "What part of the sandbox speaks.",
        ),
        ("op", text(), "What was attempted."),
        ("target", nullable(text()), "What it was attempted on."),
        (
            "verdict",
            nullable(json!({ "enum": Verdict::ALL })),
            "How it was decided.",
        ),
        ("code", json!({ "enum": codes }), "Why; never renamed."),
        ("rule", nullable(rule()), "The rule that decided."),
        (
            "suggest",
            nullable(suggest(Beside::Others)),
            "The setting that would allow it.",
        ),
        ("process", nullable(process()), "The process that asked."),
    ];
    let required: Vec<_> = properties.iter().map(|(name, ..)| *name).collect();
    let optional = [
        (
            "predicted",
            json!({ "const": true }),
            "The settings decided it here, and the kernel by itself.",
        ),
        (
            "prev",
            nullable(json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })),
            "SHA-256 of the line before, in a chained file.",
        ),
    ];
    let mut all = serde_json::Map::new();
    for (name, schema, meaning) in properties.iter().chain(&optional).chain(&details()) {
        let mut schema = schema.clone();
        schema["description"] = json!(meaning);
        all.insert((*name).to_owned(), schema);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "srt event",
        "description": "One line of the event stream of srt.",
        "type": "object",
        "properties": all,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns the codes as a table of Markdown.
pub fn codes() -> String {
    let mut text = "| code | meaning |\n|---|---|\n".to_owned();
    for code in Code::ALL {
        // A `String` takes all that is written to it.
        let _ = writeln!(text, "| `{}` | {} |", code.name(), code.meaning());
    }
    text
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn integer() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn nullable(mut schema: Value) -> Value {
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
        return schema;
    }
    json!({ "anyOf": [{ "const": null }, schema] })
}

fn time() -> Value {
    let pattern = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z$";
    json!({ "type": "string", "format": "date-time", "pattern": pattern })
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn rule() -> Value {
    let properties = json!({
        "key": text(),
        "entry": text(),
        "file": nullable(text()),
        "line": integer(),
    });
    object(properties, &["key", "entry", "file", "line"])
}

/// Whether a change may have others beside it.
enum Beside {
    Others,
    Nothing,
}

/// A change may have others beside it, which have none.
fn suggest(beside: Beside) -> Value {
    let mut properties = json!({
        "key": text(),
        "add": text(),
        "literal": { "const": true },
        "remove": text(),
    });
    if let Beside::Others = beside {
        properties["also"] = json!({ "type": "array", "items": suggest(Beside::Nothing) });
    }
    object(properties, &["key"])
}

fn process() -> Value {
    let properties = json!({
        "pid": integer(),
        "exe": nullable(text()),
        "arg1": nullable(text()),
    });
    object(properties, &["pid", "exe", "arg1"])
}

#[cfg(test)]
mod tests;
