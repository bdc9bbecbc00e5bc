//! What this version makes of the values: which stop a run, and which say less than they seem.

use super::Settings;
use super::fields::Problems;
use super::schema::{self, Key, Support};
use super::values::{Data, Value};
use crate::error::Result;

impl Settings {
    /// Refuses values that ask for what this version lacks; only a run needs this.
    ///
    /// # Errors
    /// Names every such value with its place.
    pub fn refuse_unbuilt(&self) -> Result<()> {
        let mut problems = Problems::default();
        for (key, value) in self.values.iter() {
            if asks_for_unbuilt(key, value) {
                problems.add(|| unbuilt(key, value));
            }
            for record in self.values.records(key.path) {
                if let Some(mode) = record.fields.get("mode").filter(|mode| is_mask(mode)) {
                    problems.add(|| {
                        format!(
                            "{}: `{}` of mode \"mask\" is not supported by this version yet; \
                             \"deny\" is",
                            mode.origin, key.path
                        )
                    });
                }
            }
        }
        problems.into_result(())
    }

    /// Says of which keys the writer might expect more than this version does, each with why.
    pub fn notes(&self) -> Vec<(&'static str, String)> {
        let notes = schema::keys().filter_map(|key| {
            let is_given = self.values.get(key.path).is_some();
            let text = match key.support {
                Support::Ignored(reason) if is_given => format!("has no effect: {reason}"),
                Support::Pending(reason) | Support::Missing(reason) => {
                    format!("not in force: {reason}")
                }
                _ => return None,
            };
            Some((key.path, text))
        });
        notes.collect()
    }
}

fn asks_for_unbuilt(key: &Key, value: &Value) -> bool {
    match key.support {
        Support::Unbuilt | Support::Pending(_) => {
            let default = key.default.and_then(|json| serde_json::from_str(json).ok());
            default != Some(value.to_json())
        }
        Support::Full | Support::Ignored(_) | Support::Missing(_) => false,
    }
}

fn is_mask(mode: &Value) -> bool {
    matches!(&mode.data, Data::Text(text) if text == "mask")
}

fn unbuilt(key: &Key, value: &Value) -> String {
    let remedy = match key.default {
        Some(default) => format!("remove it or set it to its default ({default})"),
        None => "remove it".to_owned(),
    };
    let path = key.path;
    format!(
        "{}: `{path}` is not supported by this version yet; {remedy}",
        value.origin
    )
}
