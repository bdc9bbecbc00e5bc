//! Promises of the JSON Schema: it judges as the reader does.

mod validator;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::fields::Problems;
use super::super::fields::tests::{bad, document, good};
use super::super::source::Source;
use super::super::{Layer, checks, fields};
use super::*;
use validator::problem;

/// What the reader makes of a document.
#[derive(Debug, PartialEq)]
enum Reading {
    Taken,
    /// Each value is right alone, and something between them is not.
    AtOdds,
    Refused,
}

fn reading(text: &str) -> Reading {
    let source = Source::from_bytes(Path::new("s.json"), text.into()).expect("it is UTF-8");
    let Ok(values) = fields::read(&source, Layer::Explicit) else {
        return Reading::Refused;
    };
    let mut problems = Problems::default();
    checks::check(&values, &mut problems);
    match problems.into_result(()) {
        Ok(()) => Reading::Taken,
        Err(_) => Reading::AtOdds,
    }
}

/// Puts what the object of an array must hold beside the key that `path` names.
fn complete(path: &str, json: &mut Value) {
    let Some((array, name)) = path.split_once("[].") else {
        return;
    };
    let pointer = format!("/{}/0", array.replace('.', "/"));
    let object = json.pointer_mut(&pointer).expect("`document` made it");
    let section = format!("{array}[]");
    let siblings = schema::keys().filter(|key| key.section() == section && key.required);
    for key in siblings.filter(|key| key.name() != name) {
        let value = good(key.shape).swap_remove(0);
        object[key.name()] = serde_json::from_str(&value).expect("good values are JSON");
    }
}

/// What a schema cannot say, how many groups a regular expression has, and what only one says
/// of a single value, that required keys are missing.
const BEYOND: &[&str] = &["\"(\"", "[{}]"];

/// Returns one document for every value of every key, and whether the reader takes that value.
fn documents() -> Vec<(String, bool)> {
    let mut all = Vec::new();
    for key in schema::keys() {
        let good = good(key.shape).into_iter().map(|value| (value, true));
        let bad = bad(key.shape).into_iter().map(|(value, _)| (value, false));
        for (value, takes) in good.chain(bad) {
            let (text, _) = document(key.path, &value);
            // A number beyond all bounds is no JSON for a schema to judge.
            let Ok(mut json) = serde_json::from_str(&text) else {
                continue;
            };
            if !BEYOND.contains(&value.as_str()) {
                complete(key.path, &mut json);
                all.push((json.to_string(), takes));
            }
        }
        let misspelt = document(&format!("{}x", key.path), "1").0;
        all.push((misspelt, false));
    }
    all
}

#[test]
fn the_schema_takes_each_value_that_the_reader_takes_and_no_other() {
    let schema = json_schema();
    let documents = documents();
    assert!(documents.len() > 1000, "{}", documents.len());
    for (text, takes) in &documents {
        let json = serde_json::from_str(text).expect("made as JSON");
        let problem = problem(&schema, &json);
        assert_eq!(problem.is_none(), *takes, "{text}: {problem:?}");
        assert_eq!(reading(text) != Reading::Refused, *takes, "{text}");
    }
}

#[test]
fn the_schema_never_refuses_what_the_reader_takes() {
    let schema = json_schema();
    let documents = documents();
    let mut random = Random(0x5eed);
    let mut counts = [0, 0];
    for _ in 0..2000 {
        let mut whole = json!({});
        let mut takes = true;
        for _ in 0..=random.below(4) {
            let (text, good) = &documents[random.below(documents.len())];
            takes &= good;
            merge(
                &mut whole,
                serde_json::from_str(text).expect("made as JSON"),
            );
        }
        let text = whole.to_string();
        let refused = problem(&schema, &whole);
        match reading(&text) {
            Reading::Taken => assert_eq!(refused, None, "{text}"),
            Reading::Refused => assert!(refused.is_some(), "{text}"),
            Reading::AtOdds => {}
        }
        counts[usize::from(takes)] += 1;
    }
    assert!(counts[0] > 100 && counts[1] > 100, "{counts:?}");
}

#[test]
fn required_keys_are_required_by_both() {
    let schema = json_schema();
    for array in schema::keys().filter(|key| key.shape == Shape::Records) {
        let (text, _) = document(array.path, "[{}]");
        let json = serde_json::from_str(&text).expect("made as JSON");
        assert!(problem(&schema, &json).is_some(), "{text}");
        assert_eq!(reading(&text), Reading::AtOdds, "{text}");
    }
}

#[test]
fn every_key_of_the_table_is_in_the_schema_with_its_words() {
    let schema = json_schema();
    for key in schema::keys() {
        let inner = key
            .path
            .replace("[]", ".items")
            .replace('.', "/properties/");
        let pointer = inner.replace("/properties/items", "/items");
        let property = schema.pointer(&format!("/properties/{pointer}"));
        let property = property.unwrap_or_else(|| panic!("{} is not there", key.path));
        let description = property["description"].as_str().unwrap_or_default();
        assert!(description.starts_with(key.about), "{}", key.path);
        let default = key
            .default
            .map(|json| serde_json::from_str(json).expect(json));
        assert_eq!(property.get("default"), default.as_ref(), "{}", key.path);
        let ignored = matches!(key.support, Support::Ignored(_));
        assert_eq!(
            property.get("deprecated").is_some(),
            ignored,
            "{}",
            key.path
        );
    }
}

/// A validator of others agrees with ours, and the schema is one.
#[test]
fn a_validator_of_python_judges_the_same() {
    const SCRIPT: &str = "
import json, sys
from jsonschema import Draft202012Validator as Validator
schema, documents = json.load(sys.stdin)
Validator.check_schema(schema)
validator = Validator(schema)
for text, takes in documents:
    if validator.is_valid(json.loads(text)) != takes:
        print(text, takes)
print('judged', len(documents))
";
    let there = Command::new("python3")
        .args(["-c", "from jsonschema import Draft202012Validator"])
        .stderr(Stdio::null())
        .status();
    if !there.is_ok_and(|status| status.success()) {
        // The test command counts these lines.
        drop(writeln!(
            std::io::stderr(),
            "SKIPPED: python3 has no jsonschema"
        ));
        return;
    }
    let documents = documents();
    let input = json!([json_schema(), documents]).to_string();
    let mut python = Command::new("python3")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was there");
    let mut stdin = python.stdin.take().expect("piped above");
    stdin.write_all(input.as_bytes()).expect("it reads all");
    drop(stdin);
    let output = python.wait_with_output().expect("it is our child");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, format!("judged {}\n", documents.len()));
}

/// Puts one document into another; of two values the later counts.
fn merge(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, value) in part {
                merge(whole.entry(name).or_insert(Value::Null), value);
            }
        }
        (whole, part) => *whole = part,
    }
}

/// xorshift64: the same documents in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a usize")
    }
}
