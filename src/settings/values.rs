//! Values as read, by key: the form in which layers are merged and shown.

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use super::schema::{self, Key, Shape};
use super::{Entry, Origin};

/// The values of one layer or of several merged, by full key.
#[derive(Debug, Clone, Default)]
pub struct Values(BTreeMap<&'static str, Value>);

/// One value and where it was written.
#[derive(Debug, Clone)]
pub struct Value {
    /// What was written.
    pub data: Data,
    /// Where; for a list that several layers add to, the first of them.
    pub origin: Origin,
}

/// What a key holds, checked against its shape.
#[derive(Debug, Clone)]
pub enum Data {
    /// True or false.
    Bool(bool),
    /// A number, also a size in bytes.
    Int(u64),
    /// A string, also one of a set of words.
    Text(String),
    /// An array of strings.
    List(Vec<Entry>),
    /// Names the writer chose, each with a text.
    Map(Vec<(Entry, Entry)>),
    /// Names the writer chose, each with several.
    Lists(Vec<(Entry, Vec<Entry>)>),
    /// An array of objects.
    Records(Vec<Record>),
    /// An object that is there.
    Present,
}

/// One object of an array.
#[derive(Debug, Clone)]
pub struct Record {
    /// Where it starts.
    pub origin: Origin,
    /// Its values, by their names alone.
    pub fields: BTreeMap<&'static str, Value>,
}

impl Values {
    /// Returns the value of a key, if any layer holds one.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Returns all values with their keys, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Key, &Value)> {
        self.0.iter().map(|(path, value)| {
            let key = schema::get(path).expect("values are read by the table");
            (key, value)
        })
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.0.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: &'static str, value: Value) {
        self.0.insert(key, value);
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    /// Puts a later layer over this one: lists add up, of other values the later counts.
    pub(super) fn add(&mut self, later: Self) {
        for (key, value) in later.0 {
            match self.0.get_mut(key) {
                Some(earlier) => earlier.add(value),
                None => drop(self.0.insert(key, value)),
            }
        }
    }

    /// Returns the entries of a list; none where it is absent.
    pub fn list(&self, key: &str) -> &[Entry] {
        self.list_if_given(key).unwrap_or_default()
    }

    /// Returns the entries of a list, also where it is empty; `None` where it is absent.
    pub fn list_if_given(&self, key: &str) -> Option<&[Entry]> {
        match &self.get(key)?.data {
            Data::List(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the entries of a list to be changed; `None` where it is absent.
    pub fn list_mut(&mut self, key: &str) -> Option<&mut Vec<Entry>> {
        match &mut self.0.get_mut(key)?.data {
            Data::List(entries) => Some(entries),
            _ => None,
        }
    }

    /// Returns the objects of an array; none where it is absent.
    pub fn records(&self, key: &str) -> &[Record] {
        match self.get(key) {
            Some(Value {
                data: Data::Records(records),
                ..
            }) => records,
            _ => &[],
        }
    }

    /// Returns the lists of an object by their names; none where it is absent.
    pub fn lists(&self, key: &str) -> &[(Entry, Vec<Entry>)] {
        match self.get(key) {
            Some(Value {
                data: Data::Lists(pairs),
                ..
            }) => pairs,
            _ => &[],
        }
    }

    /// Returns the pairs of a map; none where it is absent.
    pub fn map(&self, key: &str) -> &[(Entry, Entry)] {
        match self.get(key) {
            Some(Value {
                data: Data::Map(pairs),
                ..
            }) => pairs,
            _ => &[],
        }
    }

    /// Returns a switch, or `default` where it is absent.
    pub fn bool_or(&self, key: &str, default: bool) -> bool {
        match self.get(key) {
            Some(Value {
                data: Data::Bool(value),
                ..
            }) => *value,
            _ => default,
        }
    }

    /// Returns a number, if there is one.
    pub fn int(&self, key: &str) -> Option<u64> {
        match self.get(key)?.data {
            Data::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Returns a string, if there is one.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::text)
    }
}

impl Value {
    fn add(&mut self, later: Self) {
        match (&mut self.data, later) {
            (
                Data::List(all),
                Self {
                    data: Data::List(more),
                    ..
                },
            ) => all.extend(more),
            (
                Data::Records(all),
                Self {
                    data: Data::Records(more),
                    ..
                },
            ) => all.extend(more),
            (
                Data::Lists(all),
                Self {
                    data: Data::Lists(more),
                    ..
                },
            ) => all.extend(more),
            (
                Data::Map(all),
                Self {
                    data: Data::Map(more),
                    ..
                },
            ) => {
                all.retain(|(name, _)| !more.iter().any(|(other, _)| other.text == name.text));
                all.extend(more);
            }
            (_, later) => *self = later,
        }
    }

    /// Returns the string this is.
    pub fn text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns how far a switch of several words is turned on, 0 for not at all; `None` for
    /// other shapes, whose values are on or off.
    pub fn grade(&self, key: &Key) -> Option<usize> {
        let Shape::Switch(words) = key.shape else {
            return None;
        };
        let at = words.iter().position(|word| self.text() == Some(word));
        Some(at.map_or(0, |at| at + 1))
    }

    /// Returns the value as JSON, as it would be written.
    pub fn to_json(&self) -> Json {
        self.data.to_json()
    }
}

impl Data {
    fn to_json(&self) -> Json {
        match self {
            Self::Bool(value) => json!(value),
            Self::Int(value) => json!(value),
            Self::Text(text) => json!(text),
            Self::List(entries) => entries.iter().map(Entry::to_json).collect(),
            Self::Map(pairs) => object(pairs, |entry| json!(entry.text)),
            Self::Lists(pairs) => object(pairs, |list| list.iter().map(Entry::to_json).collect()),
            Self::Records(records) => records.iter().map(Record::to_json).collect(),
            Self::Present => json!({}),
        }
    }
}

impl Record {
    /// Returns a string of the object, if it has one.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::text)
    }

    /// Returns the entries of a list; none where it is absent.
    pub fn list(&self, name: &str) -> &[Entry] {
        match self.fields.get(name) {
            Some(Value {
                data: Data::List(entries),
                ..
            }) => entries,
            _ => &[],
        }
    }

    /// Returns the object as it would be written.
    pub fn to_json(&self) -> Json {
        let fields = self.fields.iter();
        fields
            .map(|(name, value)| ((*name).to_owned(), value.to_json()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

fn object<T>(pairs: &[(Entry, T)], json: impl Fn(&T) -> Json) -> Json {
    let pairs = pairs
        .iter()
        .map(|(name, item)| (name.text.clone(), json(item)));
    pairs.collect::<serde_json::Map<_, _>>().into()
}

impl Entry {
    /// Returns the entry as it would be written.
    pub fn to_json(&self) -> Json {
        match self.literal {
            true => json!({ "path": self.text, "literal": true }),
            false => json!(self.text),
        }
    }
}
