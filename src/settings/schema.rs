//! What a settings key may hold and what it does to a policy. The keys stand in `keys`.

use super::keys::GROUPS;
use super::source::quoted;

/// One key: the one definition that reading, layers, the JSON Schema and the docs are made of.
#[derive(Debug)]
pub struct Key {
    /// Full name, with the sections it stands in: `network.allowedDomains`. A `[]` marks what
    /// stands in the objects of an array: `credentials.files[].path`.
    pub path: &'static str,
    /// What it may hold.
    pub shape: Shape,
    /// One sentence on what it does.
    pub about: &'static str,
    /// What holds without it, as JSON; `None` where that is nothing at all.
    pub default: Option<&'static str>,
    /// What it does to a policy.
    pub effect: Effect,
    /// What this version makes of it.
    pub support: Support,
    /// The flag that sets it.
    pub flag: Option<&'static str>,
    /// Whether an object of an array must hold it.
    pub required: bool,
}

/// What a key may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An object of further keys.
    Section,
    /// An object of further keys whose presence means something, even empty.
    Asked,
    /// An object of further keys whose content is for another system.
    Foreign,
    /// A string without meaning here.
    Note,
    /// True or false.
    Bool,
    /// A whole number between two others.
    Int(u64, u64),
    /// Bytes, as a number or as text such as `2G`.
    Size,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// False, or one of these words; true is the first of them.
    Switch(&'static [&'static str]),
    /// A string.
    Text(Form),
    /// An array of strings.
    List(Form),
    /// An array of whole numbers between two others.
    Numbers(u64, u64),
    /// An array of strings and `{ "path": …, "literal": true }`.
    Paths,
    /// An object of names the writer chooses, each with a string.
    Map(Form),
    /// An object of names the writer chooses, each with an array of strings.
    Lists,
    /// An array of objects, whose keys stand in the table as `path[].name`.
    Records,
    /// Not to be written in a file.
    Never(&'static str),
}

/// What a string must look like. Hosts are judged by the policy, which knows their grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Anything but nothing.
    Any,
    /// Anything, also nothing.
    Free,
    /// A host with an optional port.
    Host,
    /// A path.
    Path,
    /// A path that starts with `/`.
    Absolute,
    /// An address or a network in CIDR notation.
    Network,
    /// The name of an environment variable.
    Variable,
    /// A name of environment variables, with `*` for any part, or `@secrets`.
    VariablePattern,
    /// An `http://` or `https://` URL.
    Url,
    /// An ECMAScript regular expression with at least one group.
    Regex,
    /// The name of a service, maybe with one `*` at its end.
    Service,
    /// The name of a header.
    Header,
    /// The name of a profile.
    Profile,
}

/// What a key does to a policy; decides how layers combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Neither widens nor narrows.
    Neutral,
    /// Grants what it lists.
    Grant(Relation),
    /// Takes away what it lists.
    Deny,
    /// Is strictest at this value, written as JSON.
    Switch(&'static str),
    /// Bounds something: less is stricter.
    Limit,
    /// Changes what is allowed in a way of its own.
    Open,
}

/// When one entry of a granting list covers another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// By host pattern and port.
    Hosts,
    /// By directory.
    Paths,
    /// When they are the same.
    Same,
}

/// What this version makes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It is acted on.
    Full,
    /// Checked, without effect on this system, for this reason.
    Ignored(&'static str),
    /// A run stops unless the value is the default.
    Unbuilt,
    /// As [`Support::Unbuilt`], and what the default promises does not hold yet either.
    Pending(&'static str),
    /// No value stops a run, and this does not hold yet.
    Missing(&'static str),
}

impl Key {
    /// Starts a key that is acted on, without default and effect on what is allowed.
    pub(super) const fn new(path: &'static str, shape: Shape, about: &'static str) -> Self {
        Self {
            path,
            shape,
            about,
            default: None,
            effect: Effect::Neutral,
            support: Support::Full,
            flag: None,
            required: false,
        }
    }

    pub(super) const fn default(mut self, json: &'static str) -> Self {
        self.default = Some(json);
        self
    }

    pub(super) const fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    pub(super) const fn support(mut self, support: Support) -> Self {
        self.support = support;
        self
    }

    pub(super) const fn flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    pub(super) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// The name without its sections.
    pub fn name(&self) -> &'static str {
        self.path
            .rsplit_once('.')
            .map_or(self.path, |(_, name)| name)
    }

    /// The sections, `""` for the top.
    pub fn section(&self) -> &'static str {
        self.path
            .rsplit_once('.')
            .map_or("", |(section, _)| section)
    }
}

/// Returns every key, sections before what stands in them.
pub fn keys() -> impl Iterator<Item = &'static Key> + Clone {
    GROUPS.iter().copied().flatten()
}

/// Finds a key by its full name.
pub(super) fn get(path: &str) -> Option<&'static Key> {
    keys().find(|key| key.path == path)
}

/// Finds a key by its section (`""` for the top) and name.
pub(super) fn find(section: &str, name: &str) -> Option<&'static Key> {
    keys().find(|key| key.section() == section && key.name() == name)
}

/// Says what an unknown key may have been meant as.
pub(super) fn advice(section: &str, name: &str) -> String {
    let here = keys().filter(|key| key.section() == section);
    let elsewhere = keys().find(|key| key.name() == name);
    let is_written_out = |key: &&Key| key.path == name && !key.section().is_empty();
    if let Some(key) = keys().find(is_written_out) {
        return format!(
            "; write `{}` inside the object of `{}`",
            key.name(),
            key.section()
        );
    }
    // A near name in the same object is the likelier slip, if the letters are the same.
    let same_letters = |key: &&Key| key.name().eq_ignore_ascii_case(name);
    if let Some(key) = here.clone().find(same_letters) {
        return format!("; did you mean {}?", quoted(key.name()));
    }
    if let Some(key) = elsewhere {
        return match key.section() {
            "" => "; it belongs at the top level".to_owned(),
            home => format!("; it belongs in `{home}`"),
        };
    }
    if let Some(key) = nearest(here, name) {
        return format!("; did you mean {}?", quoted(key.name()));
    }
    match nearest(keys(), name) {
        Some(key) => format!("; did you mean {}?", quoted(key.path)),
        None => String::new(),
    }
}

fn nearest(keys: impl Iterator<Item = &'static Key>, name: &str) -> Option<&'static Key> {
    let near = nearest_word(keys.map(|key| (key.name(), key)), name)?;
    Some(near)
}

/// Returns what stands beside the word that `name` is nearest to, unless all are far from it.
pub(crate) fn nearest_word<'a, T>(
    words: impl Iterator<Item = (&'a str, T)>,
    name: &str,
) -> Option<T> {
    // A longer name cannot be near any, and is not worth the time.
    if name.len() > 64 {
        return None;
    }
    let lower = name.to_lowercase();
    words
        .map(|(word, item)| {
            (
                strsim::osa_distance(&word.to_lowercase(), &lower),
                word,
                item,
            )
        })
        .filter(|(far, word, _)| *far <= 1 + word.len() / 5)
        // Of two that are as near, letters swapped are likelier than one left out.
        .min_by_key(|(far, word, _)| (*far, word.len().abs_diff(name.len())))
        .map(|(_, _, item)| item)
}

#[cfg(test)]
mod tests;
