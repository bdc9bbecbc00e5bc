//! Profiles: settings under a name, built in or the user's own, that other settings extend.

use std::path::{Path, PathBuf};

use super::fields;
use super::source::{Found, Source, quoted, shown};
use super::values::{Data, Values};
use super::{Entry, Layer, Origin, nearest_word};
use crate::error::{Error, Result};

/// The profiles of this program, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("agent", include_str!("../../data/profiles/agent.json")),
    ("git", include_str!("../../data/profiles/git.json")),
    ("go", include_str!("../../data/profiles/go.json")),
    ("jvm", include_str!("../../data/profiles/jvm.json")),
    ("node", include_str!("../../data/profiles/node.json")),
    ("python", include_str!("../../data/profiles/python.json")),
    (
        "read-closed",
        include_str!("../../data/profiles/read-closed.json"),
    ),
    ("rust", include_str!("../../data/profiles/rust.json")),
];

/// A profile that can be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// What it says of itself.
    pub description: String,
    /// The user's file; `None` for one that is built in.
    pub file: Option<PathBuf>,
    /// Its text.
    pub text: String,
}

/// Returns the names of the profiles of this program.
pub fn built_in() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// Returns every profile, sorted; `dir` holds the user's.
///
/// # Errors
/// A file of the user's cannot be read.
pub fn all(dir: Option<&Path>) -> Result<Vec<Profile>> {
    let mut names: Vec<String> = BUILT_IN
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let files = dir
        .and_then(|dir| dir.read_dir().ok())
        .into_iter()
        .flatten();
    let files = files.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.extend(files.filter_map(|file| Some(file.strip_suffix(".json")?.to_owned())));
    names.sort();
    names.dedup();
    names.iter().map(|name| named(name, dir)).collect()
}

/// Returns one profile.
///
/// # Errors
/// There is none of that name, or its file cannot be read.
pub fn named(name: &str, dir: Option<&Path>) -> Result<Profile> {
    let source = find(name, dir)?.ok_or_else(|| unknown(name, dir))?;
    let built_in = BUILT_IN.iter().any(|(known, _)| *known == name);
    Ok(Profile {
        name: name.to_owned(),
        description: fields::note(&source, "description").unwrap_or_default(),
        file: (!built_in).then(|| source.file.to_path_buf()),
        text: source.text,
    })
}

/// Tells whether something stands in a profile of this program, which its user did not write.
pub fn is_built_in(origin: &Origin) -> bool {
    let file = origin.file.as_deref();
    file.is_some_and(|file| BUILT_IN.iter().any(|(name, _)| file == shown_as(name)))
}

/// Reads the profiles that `names` lists and all they extend, and merges them in that order.
pub(super) fn expand(names: &[Entry], layer: Layer, dir: Option<&Path>) -> Result<Values> {
    let mut values = Values::default();
    for name in names {
        expand_into(&mut values, name, layer, dir, &mut Vec::new())?;
    }
    Ok(values)
}

fn expand_into(
    values: &mut Values,
    name: &Entry,
    layer: Layer,
    dir: Option<&Path>,
    way: &mut Vec<String>,
) -> Result<()> {
    if way.contains(&name.text) {
        let way = way.join(" -> ");
        return Err(Error::settings(format!(
            "{}: profile `{}` extends itself: {way} -> {}",
            name.origin, name.text, name.text
        )));
    }
    let source = find(&name.text, dir)?;
    let source = source.ok_or_else(|| {
        let error = unknown(&name.text, dir);
        Error::settings(format!("{}: {error}", name.origin))
            .with_hint(error.hint().unwrap_or_default())
    })?;
    let own = fields::read(&source, layer)?;
    refuse_relative(&own)?;
    way.push(name.text.clone());
    for below in own.list("extends") {
        expand_into(values, below, layer, dir, way)?;
    }
    way.pop();
    values.add(own);
    Ok(())
}

/// A profile serves many projects: a relative path would mean another place in each. Those of
/// this program mean the working directory.
fn refuse_relative(values: &Values) -> Result<()> {
    for (key, value) in values
        .iter()
        .filter(|(key, _)| key.path.starts_with("filesystem."))
    {
        let Data::List(entries) = &value.data else {
            continue;
        };
        if let Some(entry) = entries
            .iter()
            .find(|entry| !entry.text.starts_with(['/', '~']) && !is_built_in(&entry.origin))
        {
            return Err(Error::settings(format!(
                "{}: {} {} is relative, which a profile's paths must not be",
                entry.origin,
                key.path,
                quoted(&entry.text)
            )));
        }
    }
    Ok(())
}

fn find(name: &str, dir: Option<&Path>) -> Result<Option<Source>> {
    let own = dir.map(|dir| dir.join(format!("{name}.json")));
    let own = own.filter(|file| file.symlink_metadata().is_ok());
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name);
    match (own, built_in) {
        (Some(file), Some(_)) => Err(Error::settings(format!(
            "{} has the name of a profile that is built in",
            shown(&file)
        ))
        .with_hint("rename the file: `--profile` and `extends` then name it so")),
        (Some(file), None) => Source::read(&file, Found::Named).map(Some),
        (None, Some((_, text))) => {
            Source::from_bytes(&shown_as(name), text.as_bytes().to_vec()).map(Some)
        }
        (None, None) => Ok(None),
    }
}

/// Names a built-in profile where messages name a file.
fn shown_as(name: &str) -> PathBuf {
    PathBuf::from(format!("profile {name}"))
}

fn unknown(name: &str, dir: Option<&Path>) -> Error {
    let known = BUILT_IN.iter().map(|(known, _)| (*known, *known));
    let advice = match nearest_word(known, name) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    let place = match dir {
        Some(dir) => format!("; your own would be in {}", shown(dir)),
        None => String::new(),
    };
    Error::settings(format!("there is no profile {}{advice}", quoted(name)))
        .with_hint(format!("`srt ctl profile list` names all{place}"))
}
