//! The document key by key: every value either lands in [`Settings`] or is a problem.

use std::collections::HashMap;

use jsonc_parser::ast::{Array, Object, ObjectProp, ObjectPropName, Value};
use jsonc_parser::common::Ranged;

use super::json::{check, decode, parse};
use super::schema::{self, Key, Shape};
use super::source::{Source, quoted};
use super::{Entry, Origin, Settings};
use crate::error::{Error, Kind, Result};

/// Reads the settings a file holds, or all that is wrong with it.
pub(super) fn read(source: &Source) -> Result<Settings> {
    let checked = check(source)?;
    let root = parse(source, &checked)?;
    let Value::Object(root) = root else {
        let what = format!("settings are one object, found {}", kind_of(&root));
        return Err(source.error_at(root.start(), &what));
    };
    let settings = Settings {
        file: Some(source.file.clone()),
        ..Settings::default()
    };
    let mut reader = Reader {
        source,
        settings,
        problems: Problems::default(),
    };
    reader.section("", &root);
    reader.problems.into_result(reader.settings)
}

struct Reader<'a> {
    source: &'a Source,
    settings: Settings,
    problems: Problems,
}

impl Reader<'_> {
    fn section(&mut self, section: &'static str, object: &Object<'_>) {
        for (name, prop) in self.unique_keys(object) {
            match schema::find(section, &name) {
                Some(key) => self.value(key, &prop.value),
                None => self.problem(&prop.name, || {
                    let inside = match section {
                        "" => String::new(),
                        _ => format!(" in `{section}`"),
                    };
                    let advice = schema::advice(section, &name);
                    format!("unknown key {}{inside}{advice}", quoted(&name))
                }),
            }
        }
    }

    /// Returns each key with its value once; parsers differ in which of two they take.
    fn unique_keys<'o, 't>(&mut self, object: &'o Object<'t>) -> Vec<(String, &'o ObjectProp<'t>)> {
        let mut first = HashMap::new();
        let mut keys = Vec::new();
        for prop in &object.properties {
            let ObjectPropName::String(lit) = &prop.name else {
                self.problem(&prop.name, || "a key must be a string".to_owned());
                continue;
            };
            let name = decode(self.source, lit);
            if let Some(offset) = first.get(&name) {
                let (line, column) = self.source.place(*offset);
                self.problem(&prop.name, || {
                    format!(
                        "duplicate key {}, given first at {line}:{column}",
                        quoted(&name)
                    )
                });
                continue;
            }
            first.insert(name.clone(), prop.name.start());
            keys.push((name, prop));
        }
        keys
    }

    fn value(&mut self, key: &'static Key, value: &Value<'_>) {
        match (&key.shape, value) {
            (Shape::Section, Value::Object(object)) => self.section(key.path, object),
            (Shape::Note, Value::StringLit(_)) => {}
            (Shape::Hosts(list), Value::Array(array)) => {
                let entries = self.entries(key.path, array, Self::host);
                *list(&mut self.settings) = entries;
            }
            (Shape::Paths(list), Value::Array(array)) => {
                let entries = self.entries(key.path, array, Self::path);
                *list(&mut self.settings) = entries;
            }
            (Shape::Unbuilt(default), _) => self.unbuilt(key.path, *default, value),
            (Shape::Section, _) => self.wrong_type(key.path, "an object", value),
            (Shape::Note, _) => self.wrong_type(key.path, "a string", value),
            (Shape::Hosts(_) | Shape::Paths(_), _) => {
                self.wrong_type(key.path, "an array of strings", value);
            }
        }
    }

    fn unbuilt(&mut self, path: &str, default: Option<&str>, value: &Value<'_>) {
        let range = value.range();
        let written = as_json(&self.source.text[range.start..range.end]);
        if written.is_some() && written == default.and_then(as_json) {
            return;
        }
        self.problem(value, || {
            let remedy = match default {
                Some(default) => format!("remove it or set it to its default ({default})"),
                None => "remove it".to_owned(),
            };
            format!("`{path}` is not supported by this version yet; {remedy}")
        });
    }

    fn entries(
        &mut self,
        key: &'static str,
        array: &Array<'_>,
        one: fn(&mut Self, &'static str, &Value<'_>) -> Option<(String, bool)>,
    ) -> Vec<Entry> {
        let mut entries = Vec::new();
        for element in &array.elements {
            if let Some((text, literal)) = one(self, key, element) {
                let (line, column) = self.source.place(element.start());
                let file = Some(self.source.file.clone());
                entries.push(Entry {
                    text,
                    literal,
                    origin: Origin {
                        key,
                        file,
                        line,
                        column,
                    },
                });
            }
        }
        entries
    }

    fn host(&mut self, key: &'static str, value: &Value<'_>) -> Option<(String, bool)> {
        Some((self.text(key, "a string", value)?, false))
    }

    fn path(&mut self, key: &'static str, value: &Value<'_>) -> Option<(String, bool)> {
        const PATH: &str = "a string or { \"path\": …, \"literal\": true }";
        let Value::Object(object) = value else {
            return Some((self.text(key, PATH, value)?, false));
        };
        let mut path = None;
        let mut literal = false;
        for (name, prop) in self.unique_keys(object) {
            match (name.as_str(), &prop.value) {
                ("path", value) => path = Some(self.text(key, "a string as `path`", value)?),
                ("literal", Value::BooleanLit(lit)) if lit.value => literal = true,
                ("literal", value) => {
                    self.problem(value, || "`literal` must be true".to_owned());
                    return None;
                }
                _ => {
                    self.problem(&prop.name, || {
                        format!("unknown key {} in an entry of `{key}`", quoted(&name))
                    });
                    return None;
                }
            }
        }
        if path.is_none() || !literal {
            self.problem(value, || format!("an entry of `{key}` must be {PATH}"));
            return None;
        }
        Some((path?, literal))
    }

    fn text(&mut self, key: &str, expected: &str, value: &Value<'_>) -> Option<String> {
        let Value::StringLit(lit) = value else {
            self.problem(value, || {
                format!(
                    "an entry of `{key}` must be {expected}, found {}",
                    kind_of(value)
                )
            });
            return None;
        };
        let text = decode(self.source, lit);
        if text.is_empty() {
            // Neither "everything" nor "here": an empty variable in whatever wrote the file.
            self.problem(value, || format!("an entry of `{key}` must not be empty"));
            return None;
        }
        if text.contains('\0') {
            self.problem(value, || {
                format!("an entry of `{key}` holds a NUL character, which no name can")
            });
            return None;
        }
        Some(text)
    }

    fn wrong_type(&mut self, path: &str, expected: &str, value: &Value<'_>) {
        self.problem(value, || {
            format!("`{path}` must be {expected}, found {}", kind_of(value))
        });
    }

    fn problem(&mut self, at: &impl Ranged, message: impl FnOnce() -> String) {
        let source = self.source;
        self.problems.add(|| source.line_at(at.start(), &message()));
    }
}

/// What is wrong with a file, in the order of the file.
#[derive(Default)]
struct Problems {
    lines: Vec<String>,
    left_out: usize,
}

impl Problems {
    const SHOWN: usize = 20;

    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < Self::SHOWN {
            self.lines.push(line());
        } else {
            self.left_out += 1;
        }
    }

    fn into_result(mut self, settings: Settings) -> Result<Settings> {
        if self.lines.is_empty() {
            return Ok(settings);
        }
        if self.left_out > 0 {
            self.lines.push(format!("and {} more", self.left_out));
        }
        Err(Error::new(Kind::Settings, self.lines.join("\n")))
    }
}

fn as_json(text: &str) -> Option<serde_json::Value> {
    serde_json::from_str(text).ok()
}

fn kind_of(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "a string",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "a boolean",
        Value::Object(_) => "an object",
        Value::Array(_) => "an array",
        Value::NullKeyword(_) => "null",
    }
}

#[cfg(test)]
mod tests;
