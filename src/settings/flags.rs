//! Flags of the command line as one more layer.

use super::form;
use super::schema::{self, Form, Shape};
use super::source::quoted;
use super::values::{Data, Value, Values};
use super::{Entry, Origin};
use crate::error::{Error, Kind, Result};

/// Collects what flags set, checked as a file would be.
#[derive(Debug, Default)]
pub struct Flags(Values);

impl Flags {
    /// Adds an entry to a list.
    ///
    /// # Errors
    /// The text is not what the list may hold.
    ///
    /// # Panics
    /// `key` is not a list of the table.
    pub fn add(&mut self, key: &'static str, text: String) -> Result<()> {
        let form = match schema::get(key).map(|key| key.shape) {
            Some(Shape::List(form)) => form,
            Some(Shape::Paths) => Form::Path,
            other => panic!("`{key}` is no list: {other:?}"),
        };
        let entry = checked(key, form, text)?;
        let data = Data::List(vec![entry]);
        self.put(key, data);
        Ok(())
    }

    /// Sets a variable of the environment.
    ///
    /// # Errors
    /// The name is none a variable can have.
    pub fn set_variable(&mut self, name: String, value: String) -> Result<()> {
        let name = checked("env.set", Form::Variable, name)?;
        let value = checked("env.set", Form::Free, value)?;
        self.put("env.set", Data::Map(vec![(name, value)]));
        Ok(())
    }

    /// Sets a switch.
    pub fn switch(&mut self, key: &'static str, value: bool) {
        self.put(key, Data::Bool(value));
    }

    /// Sets one of the words a key may hold.
    pub fn word(&mut self, key: &'static str, word: &'static str) {
        self.put(key, Data::Text(word.to_owned()));
    }

    /// Sets a bound: a number, or a size. One of seconds may be in minutes or hours.
    ///
    /// # Errors
    /// The text is no number the key may hold.
    ///
    /// # Panics
    /// `key` is no bound of the table.
    pub fn bound(&mut self, key: &'static str, text: &str) -> Result<()> {
        let number = match schema::get(key).map(|key| key.shape) {
            Some(Shape::Size) => form::size(text),
            Some(Shape::Int(low, high)) => {
                let number = match key.to_ascii_lowercase().ends_with("seconds") {
                    true => form::seconds(text),
                    false => form::count(text),
                };
                number.filter(|number| (low..=high).contains(number))
            }
            other => panic!("`{key}` is no bound: {other:?}"),
        };
        let number = number.ok_or_else(|| {
            let expected = match schema::get(key).map(|key| key.shape) {
                Some(Shape::Size) => "a size from 1, such as 512M or 2G",
                _ if key.to_ascii_lowercase().ends_with("seconds") => {
                    "whole seconds from 1, or such as 5m or 2h"
                }
                _ => "a whole number from 1",
            };
            let flag = Origin::flag(key);
            let goal = format!("the value of {} must be {expected}", flag.name());
            Error::new(Kind::Usage, format!("{goal}, found {}", quoted(text)))
        })?;
        self.put(key, Data::Int(number));
        Ok(())
    }

    /// Returns the layer.
    pub fn into_values(self) -> Values {
        self.0
    }

    fn put(&mut self, key: &'static str, data: Data) {
        let origin = Origin::flag(key);
        let mut one = Values::default();
        one.insert(key, Value { data, origin });
        self.0.add(one);
    }
}

fn checked(key: &'static str, form: Form, text: String) -> Result<Entry> {
    let origin = Origin::flag(key);
    form::check(form, &text).map_err(|what| {
        Error::new(
            Kind::Usage,
            format!("the value of {} {what}", origin.name()),
        )
    })?;
    Ok(Entry::new(text, origin))
}
