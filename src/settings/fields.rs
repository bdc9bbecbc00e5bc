//! The document key by key: every value either lands in [`Values`] or is a problem.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use jsonc_parser::ast::{Array, Object, ObjectProp, ObjectPropName, Value as Node};
use jsonc_parser::common::Ranged;

use super::form;
use super::json::{check, decode, parse};
use super::schema::{self, Form, Key, Shape};
use super::source::{Source, quoted};
use super::values::{Data, Record, Value, Values};
use super::{Entry, Layer, Origin};
use crate::error::{Error, Kind, Result};

/// Reads the values a file holds, or all that is wrong with it.
pub(super) fn read(source: &Source, layer: Layer) -> Result<Values> {
    let checked = check(source)?;
    let root = parse(source, &checked)?;
    let Node::Object(root) = root else {
        let what = format!("settings are one object, found {}", kind_of(&root));
        return Err(source.error_at(root.start(), &what));
    };
    let mut reader = Reader {
        source,
        layer,
        problems: Problems::default(),
    };
    let mut values = Values::default();
    reader.section("", &root, &mut |key, value| values.insert(key.path, value));
    reader.problems.into_result(values)
}

/// Returns a string of the top level that has no meaning here.
pub(super) fn note(source: &Source, name: &str) -> Option<String> {
    let checked = check(source).ok()?;
    let root = parse(source, &checked).ok()?;
    let lit = root.as_object()?.get(name)?.value.as_string_lit()?;
    Some(decode(source, lit))
}

struct Reader<'a> {
    source: &'a Source,
    layer: Layer,
    problems: Problems,
}

impl Reader<'_> {
    fn section(
        &mut self,
        section: &'static str,
        object: &Object<'_>,
        store: &mut dyn FnMut(&'static Key, Value),
    ) {
        for (name, prop) in self.unique_keys(object) {
            let Some(key) = schema::find(section, &name) else {
                self.problem_at(&prop.name, || {
                    let inside = match section {
                        "" => String::new(),
                        _ => format!(" in `{section}`"),
                    };
                    let advice = schema::advice(section, &name);
                    format!("unknown key {}{inside}{advice}", quoted(&name))
                });
                continue;
            };
            if let (Shape::Section | Shape::Asked, Node::Object(object)) = (key.shape, &prop.value)
            {
                self.section(key.path, object, store);
            }
            if let Some(data) = self.data(key, &prop.value) {
                let origin = self.origin(key.path, &prop.value);
                store(key, Value { data, origin });
            }
        }
    }

    /// Returns each key with its value once; parsers differ in which of two they take.
    fn unique_keys<'o, 't>(&mut self, object: &'o Object<'t>) -> Vec<(String, &'o ObjectProp<'t>)> {
        let mut first = HashMap::new();
        let mut keys = Vec::new();
        for prop in &object.properties {
            let ObjectPropName::String(lit) = &prop.name else {
                self.problem_at(&prop.name, || "a key must be a string".to_owned());
                continue;
            };
            let name = decode(self.source, lit);
            if let Some(offset) = first.get(&name) {
                let (line, column) = self.source.place(*offset);
                self.problem_at(&prop.name, || {
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

    /// Returns what the value stands for; `None` if it is wrong, or has no meaning of its own.
    fn data(&mut self, key: &'static Key, node: &Node<'_>) -> Option<Data> {
        let expected = expected(key.shape);
        let data = match (key.shape, node) {
            (Shape::Section, Node::Object(_)) => return None,
            (Shape::Asked | Shape::Foreign, Node::Object(_)) => Data::Present,
            (Shape::Note, Node::StringLit(_)) => return None,
            (Shape::Bool, Node::BooleanLit(lit)) => Data::Bool(lit.value),
            (Shape::Int(low, high), Node::NumberLit(lit)) => {
                Data::Int(self.number(key, lit.value, low..=high, node)?)
            }
            (Shape::Size, Node::NumberLit(lit)) => {
                Data::Int(self.number(key, lit.value, 1..=u64::MAX, node)?)
            }
            (Shape::Size, Node::StringLit(lit)) => {
                let size = form::size(&decode(self.source, lit));
                if size.is_none() {
                    self.wrong_type(key, &expected, node);
                }
                Data::Int(size?)
            }
            (Shape::Choice(words) | Shape::Switch(words), Node::StringLit(lit)) => {
                let text = decode(self.source, lit);
                if !words.contains(&text.as_str()) {
                    self.problem_at(node, || {
                        format!("`{}` must be {expected}, found {}", key.path, quoted(&text))
                    });
                    return None;
                }
                Data::Text(text)
            }
            (Shape::Switch(words), Node::BooleanLit(lit)) => match lit.value {
                true => Data::Text(words.first()?.to_string()),
                false => Data::Bool(false),
            },
            (Shape::Text(form), Node::StringLit(_)) => {
                Data::Text(self.text(key, form, node, Whole::Value)?)
            }
            (Shape::List(form), Node::Array(array)) => Data::List(self.list(key, form, array)),
            (Shape::Numbers(low, high), Node::Array(array)) => {
                Data::List(self.numbers(key, low, high, array))
            }
            (Shape::Paths, Node::Array(array)) => Data::List(self.paths(key, array)),
            (Shape::Map(form), Node::Object(object)) => Data::Map(self.map(key, form, object)),
            (Shape::Lists, Node::Object(object)) => Data::Lists(self.lists(key, object)),
            (Shape::Records, Node::Array(array)) => Data::Records(self.records(key, array)),
            (Shape::Never(reason), _) => {
                let what = format!("`{}` cannot be set here: {reason}", key.path);
                self.problem_at(node, || what);
                return None;
            }
            _ => {
                self.wrong_type(key, &expected, node);
                return None;
            }
        };
        Some(data)
    }

    fn number(
        &mut self,
        key: &Key,
        text: &str,
        bounds: std::ops::RangeInclusive<u64>,
        node: &Node<'_>,
    ) -> Option<u64> {
        // An integer may be written as 1.0 or 1e3: the same number in JSON.
        let number = serde_json::from_str::<serde_json::Number>(text).ok();
        let whole = number.and_then(|number| number.as_u64().or_else(|| whole(number.as_f64()?)));
        let found = whole.filter(|number| bounds.contains(number));
        if found.is_none() {
            let expected = expected(key.shape);
            self.problem_at(node, || {
                format!("`{}` must be {expected}, found {}", key.path, quoted(text))
            });
        }
        found
    }

    fn list(&mut self, key: &'static Key, form: Form, array: &Array<'_>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for node in &array.elements {
            if let Some(text) = self.text(key, form, node, Whole::Entry) {
                entries.push(self.entry(key, node, text, false));
            }
        }
        entries
    }

    fn numbers(&mut self, key: &'static Key, low: u64, high: u64, array: &Array<'_>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for node in &array.elements {
            match node {
                Node::NumberLit(lit) => {
                    if let Some(number) = self.number(key, lit.value, low..=high, node) {
                        entries.push(self.entry(key, node, number.to_string(), false));
                    }
                }
                _ => self.wrong_entry(key, "a whole number", node),
            }
        }
        entries
    }

    fn paths(&mut self, key: &'static Key, array: &Array<'_>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for node in &array.elements {
            let found = match node {
                Node::Object(object) => self.literal_path(key, object, node),
                Node::StringLit(_) => self
                    .text(key, Form::Path, node, Whole::Entry)
                    .map(|text| (text, false)),
                _ => {
                    self.wrong_entry(key, PATH, node);
                    None
                }
            };
            if let Some((text, literal)) = found {
                entries.push(self.entry(key, node, text, literal));
            }
        }
        entries
    }

    fn literal_path(
        &mut self,
        key: &'static Key,
        object: &Object<'_>,
        node: &Node<'_>,
    ) -> Option<(String, bool)> {
        let mut path = None;
        let mut literal = false;
        for (name, prop) in self.unique_keys(object) {
            match (name.as_str(), &prop.value) {
                ("path", Node::StringLit(_)) => {
                    path = Some(self.text(key, Form::Path, &prop.value, Whole::Entry)?);
                }
                ("path", other) => {
                    self.wrong_entry(key, "a string as `path`", other);
                    return None;
                }
                ("literal", Node::BooleanLit(lit)) if lit.value => literal = true,
                ("literal", other) => {
                    self.problem_at(other, || "`literal` must be true".to_owned());
                    return None;
                }
                _ => {
                    self.problem_at(&prop.name, || {
                        let known = [("path", "path"), ("literal", "literal")];
                        let near = schema::nearest_word(known.into_iter(), &name);
                        let advice = near.map(|near| format!("; did you mean `{near}`?"));
                        format!(
                            "unknown key {} in an entry of `{}`{}",
                            quoted(&name),
                            key.path,
                            advice.unwrap_or_default()
                        )
                    });
                    return None;
                }
            }
        }
        if path.is_none() || !literal {
            self.problem_at(node, || {
                format!("an entry of `{}` must be {PATH}", key.path)
            });
            return None;
        }
        Some((path?, literal))
    }

    fn map(&mut self, key: &'static Key, form: Form, object: &Object<'_>) -> Vec<(Entry, Entry)> {
        let mut pairs = Vec::new();
        for (name, prop) in self.unique_keys(object) {
            if let Some(text) = self.text(key, form, &prop.value, Whole::Entry) {
                let name = self.entry(key, &prop.name, name, true);
                pairs.push((name, self.entry(key, &prop.value, text, true)));
            }
        }
        pairs
    }

    fn lists(&mut self, key: &'static Key, object: &Object<'_>) -> Vec<(Entry, Vec<Entry>)> {
        let mut pairs = Vec::new();
        for (name, prop) in self.unique_keys(object) {
            match &prop.value {
                Node::Array(array) => {
                    let list = self.list(key, Form::Any, array);
                    pairs.push((self.entry(key, &prop.name, name, true), list));
                }
                other => self.wrong_entry(key, "an array of strings", other),
            }
        }
        pairs
    }

    fn records(&mut self, key: &'static Key, array: &Array<'_>) -> Vec<Record> {
        let section = record_section(key);
        let mut records = Vec::new();
        for node in &array.elements {
            let Node::Object(object) = node else {
                self.wrong_entry(key, "an object", node);
                continue;
            };
            let mut fields = BTreeMap::new();
            self.section(section, object, &mut |key, value| {
                fields.insert(key.name(), value);
            });
            records.push(Record {
                origin: self.origin(key.path, node),
                fields,
            });
        }
        records
    }

    fn text(&mut self, key: &Key, form: Form, node: &Node<'_>, whole: Whole) -> Option<String> {
        let Node::StringLit(lit) = node else {
            self.wrong_entry(key, "a string", node);
            return None;
        };
        let text = decode(self.source, lit);
        if let Err(what) = form::check(form, &text) {
            self.problem_at(node, || match whole {
                Whole::Value => format!("`{}` {what}", key.path),
                Whole::Entry => format!("an entry of `{}` {what}", key.path),
            });
            return None;
        }
        Some(text)
    }

    fn entry(&self, key: &Key, node: &impl Ranged, text: String, literal: bool) -> Entry {
        let origin = self.origin(key.path, node);
        match literal {
            true => Entry::literal(text, origin),
            false => Entry::new(text, origin),
        }
    }

    fn origin(&self, key: &'static str, node: &impl Ranged) -> Origin {
        let (line, column) = self.source.place(node.start());
        Origin {
            key,
            file: Some(self.source.file.clone()),
            line,
            column,
            layer: self.layer,
        }
    }

    fn wrong_type(&mut self, key: &Key, expected: &str, node: &Node<'_>) {
        self.problem_at(node, || {
            format!("`{}` must be {expected}, found {}", key.path, kind_of(node))
        });
    }

    fn wrong_entry(&mut self, key: &Key, expected: &str, node: &Node<'_>) {
        self.problem_at(node, || {
            format!(
                "an entry of `{}` must be {expected}, found {}",
                key.path,
                kind_of(node)
            )
        });
    }

    fn problem_at(&mut self, node: &impl Ranged, message: impl FnOnce() -> String) {
        let range = node.range();
        self.problem(range.start..range.end, message);
    }

    fn problem(&mut self, range: Range<usize>, message: impl FnOnce() -> String) {
        let source = self.source;
        self.problems.add(|| source.message_at(range, &message()));
    }
}

/// Whether a string is all of a value or one of several.
#[derive(Clone, Copy)]
enum Whole {
    Value,
    Entry,
}

const PATH: &str = "a string or { \"path\": …, \"literal\": true }";

/// The section under which the objects of an array have their keys.
fn record_section(key: &'static Key) -> &'static str {
    let below = schema::keys().map(Key::section);
    let mut sections = below.filter(|section| section.strip_suffix("[]") == Some(key.path));
    sections
        .next()
        .expect("the table lists what such objects hold")
}

/// What is wrong with settings, in the order of the files.
#[derive(Default)]
pub(super) struct Problems {
    messages: Vec<String>,
    left_out: usize,
}

impl Problems {
    const SHOWN: usize = 20;

    pub(super) fn add(&mut self, message: impl FnOnce() -> String) {
        if self.messages.len() < Self::SHOWN {
            self.messages.push(message());
        } else {
            self.left_out += 1;
        }
    }

    /// Returns `value` if there are none.
    pub(super) fn into_result<T>(mut self, value: T) -> Result<T> {
        if self.messages.is_empty() {
            return Ok(value);
        }
        if self.left_out > 0 {
            self.messages.push(format!("and {} more", self.left_out));
        }
        let lines = self.messages.iter().flat_map(|text| text.lines());
        Err(Error::of_lines(Kind::Settings, lines))
    }
}

/// Returns the whole number that a number with a fraction or an exponent is.
fn whole(number: f64) -> Option<u64> {
    // `Display` writes all digits and no exponent.
    let digits = (number >= 0.0).then(|| number.abs().to_string());
    digits?.parse().ok()
}

fn expected(shape: Shape) -> String {
    let words = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| format!("\"{word}\"")).collect();
        words.join(" or ")
    };
    match shape {
        Shape::Section | Shape::Asked | Shape::Foreign => "an object".to_owned(),
        Shape::Note | Shape::Text(_) => "a string".to_owned(),
        Shape::Bool => "true or false".to_owned(),
        Shape::Int(low, u64::MAX) => format!("a whole number from {low}"),
        Shape::Int(low, high) if low == high => format!("{low}"),
        Shape::Int(low, high) => format!("a whole number from {low} to {high}"),
        Shape::Size => "a size such as 512M or 2G".to_owned(),
        Shape::Choice(all) => words(all),
        Shape::Switch(all) => format!("true, false or {}", words(all)),
        Shape::List(_) => "an array of strings".to_owned(),
        Shape::Numbers(low, high) => format!("an array of whole numbers from {low} to {high}"),
        Shape::Paths => "an array of strings".to_owned(),
        Shape::Map(_) => "an object of strings".to_owned(),
        Shape::Lists => "an object of arrays of strings".to_owned(),
        Shape::Records => "an array of objects".to_owned(),
        Shape::Never(_) => "left out".to_owned(),
    }
}

fn kind_of(value: &Node<'_>) -> &'static str {
    match value {
        Node::StringLit(_) => "a string",
        Node::NumberLit(_) => "a number",
        Node::BooleanLit(_) => "a boolean",
        Node::Object(_) => "an object",
        Node::Array(_) => "an array",
        Node::NullKeyword(_) => "null",
    }
}

#[cfg(test)]
pub(super) mod tests;
