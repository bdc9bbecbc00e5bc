//! Which files there are, and how their values combine: each layer over the ones below it.

use std::io;
use std::path::{Path, PathBuf};

use super::fields::{self, Problems};
use super::schema::{self, Effect, Form, Key, Relation, Shape};
use super::source::{Found, Source, shown};
use super::trust::Trust;
use super::values::{Data, Value, Values};
use super::{Entry, FilePath, Layer, Settings, checks, profile};
use crate::error::{Error, Kind, Result};

/// Where files are looked for.
#[derive(Debug, Clone)]
pub struct Search<'a> {
    /// Working directory; the project is the one it lies in.
    pub cwd: &'a Path,
    /// Home directory, if it is known.
    pub home: Option<&'a Path>,
    /// `XDG_CONFIG_HOME`; `~/.config` without it.
    pub config_home: Option<&'a Path>,
    /// `XDG_STATE_HOME`; `~/.local/state` without it.
    pub state_home: Option<&'a Path>,
    /// The caller.
    pub uid: u32,
    /// The file of the system.
    pub system: &'a Path,
}

/// A file whose values count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// The file, as it was named or found.
    pub path: FilePath,
    /// Its layer.
    pub layer: Layer,
    /// Not trusted, so that it may only narrow.
    pub narrows: bool,
}

impl Search<'_> {
    /// The file of the system.
    pub const SYSTEM: &'static str = "/etc/srt/settings.json";
    /// Name of the user's file in the home directory.
    pub const USER: &'static str = ".srt-settings.json";
    /// Name of a project's file.
    pub const PROJECT: &'static str = ".srt.json";

    /// Returns the directory of the user's settings and profiles.
    pub fn config_dir(&self) -> Option<PathBuf> {
        let base = self.config_home.filter(|path| path.is_absolute());
        let base = base.map(Path::to_path_buf);
        Some(
            base.or_else(|| Some(self.home?.join(".config")))?
                .join("srt"),
        )
    }

    /// Returns the directory of what runs leave behind.
    pub fn state_dir(&self) -> Option<PathBuf> {
        let base = self.state_home.filter(|path| path.is_absolute());
        let base = base.map(Path::to_path_buf);
        Some(
            base.or_else(|| Some(self.home?.join(".local/state")))?
                .join("srt"),
        )
    }

    /// Returns the files of the user that there are, the one that counts first.
    pub fn user_files(&self) -> Vec<PathBuf> {
        let config = self.config_dir().map(|dir| dir.join("settings.json"));
        let home = self.home.map(|home| home.join(Self::USER));
        let candidates = config.into_iter().chain(home);
        candidates.filter(|path| is_there(path)).collect()
    }

    /// Returns the directories of the user's settings and of what runs leave behind.
    fn own(&self) -> impl Iterator<Item = PathBuf> {
        self.config_dir().into_iter().chain(self.state_dir())
    }

    /// Returns what decides over later runs and is there, in force in this one or not.
    fn guarded(&self, users: Vec<PathBuf>, project: Option<PathBuf>) -> Vec<PathBuf> {
        let paths = self.own().chain(users).chain(project);
        // A link that dangles leads to nothing that could be kept.
        paths.filter(|path| path.metadata().is_ok()).collect()
    }

    /// Returns the project's file: the nearest on the way up to the root of the repository;
    /// outside a repository only that of the working directory counts.
    pub fn project_file(&self) -> Option<PathBuf> {
        let way = self.cwd.ancestors().map(Path::to_path_buf);
        let root = self
            .cwd
            .ancestors()
            .position(|dir| is_there(&dir.join(".git")));
        let mut way = way.take(root.unwrap_or(0) + 1);
        way.find_map(|dir| Some(dir.join(Self::PROJECT)).filter(|path| is_there(path)))
    }
}

/// Not following links: one that dangles was meant to lead to rules, and running without them
/// would be weaker than what its owner wrote.
fn is_there(path: &Path) -> bool {
    let error = path.symlink_metadata().err();
    error.is_none_or(|error| error.kind() != io::ErrorKind::NotFound)
}

/// Reads one file and nothing else.
pub(super) fn single(path: &Path) -> Result<(Settings, String)> {
    let mut stack = Stack::default();
    let text = stack.push_file(path, Layer::Explicit, Found::Named, None)?;
    Ok((stack.into_settings()?, text))
}

pub(super) fn load(
    search: &Search<'_>,
    explicit: Option<&Path>,
    flags: Values,
) -> Result<Settings> {
    let mut stack = Stack::default();
    let profiles = search.config_dir().map(|dir| dir.join("profiles"));
    let profiles = profiles.as_deref();
    if is_there(search.system) {
        // Of profiles only those that are built in: the user's are the user's to write.
        stack.push_file(search.system, Layer::System, Found::by(search.uid), None)?;
    }
    let (users, project) = (search.user_files(), search.project_file());
    match explicit {
        Some(file) => drop(stack.push_file(file, Layer::Explicit, Found::Named, profiles)?),
        None => {
            stack.push_user(search, &users, profiles)?;
            stack.push_project(search, project.as_deref(), profiles)?;
        }
    }
    stack.push_flags(flags, profiles)?;
    Ok(Settings {
        guarded: search.guarded(users, project),
        own: search.own().collect(),
        ..stack.into_settings()?
    })
}

/// The layers so far.
#[derive(Default)]
struct Stack {
    values: Values,
    system: Values,
    ceiling: Values,
    narrowing: Values,
    files: Vec<InForce>,
    warnings: Vec<String>,
    problems: Problems,
}

impl Stack {
    fn push_user(
        &mut self,
        search: &Search<'_>,
        files: &[PathBuf],
        profiles: Option<&Path>,
    ) -> Result<()> {
        if let [first, second, ..] = files {
            self.warnings.push(format!(
                "{} counts, {} is not read: keep one of them",
                shown(first),
                shown(second)
            ));
        }
        match files.first() {
            Some(file) => {
                self.push_file(file, Layer::User, Found::by(search.uid), profiles)?;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn push_project(
        &mut self,
        search: &Search<'_>,
        file: Option<&Path>,
        profiles: Option<&Path>,
    ) -> Result<()> {
        let Some(file) = file else {
            return Ok(());
        };
        let source = Source::read(file, Found::by(search.uid))?;
        let values = self.values_of(&source, Layer::Project, profiles)?;
        let trusted = Trust::read(search)?.holds(file, &source.text);
        self.files.push(InForce {
            path: source.file.clone(),
            layer: Layer::Project,
            narrows: !trusted,
        });
        match trusted {
            true => self.add(values),
            false => self.narrow(values),
        }
        Ok(())
    }

    fn push_file(
        &mut self,
        path: &Path,
        layer: Layer,
        found: Found,
        profiles: Option<&Path>,
    ) -> Result<String> {
        let source = Source::read(path, found)?;
        let values = self.values_of(&source, layer, profiles)?;
        self.files.push(InForce {
            path: source.file.clone(),
            layer,
            narrows: false,
        });
        match layer {
            Layer::System => self.set_ceiling(values),
            _ => self.add(values),
        }
        Ok(source.text)
    }

    fn push_flags(&mut self, flags: Values, profiles: Option<&Path>) -> Result<()> {
        let values = self.on_profiles(flags, Layer::Flags, profiles)?;
        self.add(values);
        Ok(())
    }

    /// Reads a file with the profiles it extends below it.
    fn values_of(
        &mut self,
        source: &Source,
        layer: Layer,
        profiles: Option<&Path>,
    ) -> Result<Values> {
        self.on_profiles(fields::read(source, layer)?, layer, profiles)
    }

    /// Puts the profiles that a layer extends below it.
    fn on_profiles(
        &mut self,
        own: Values,
        layer: Layer,
        profiles: Option<&Path>,
    ) -> Result<Values> {
        let mut values = profile::expand(own.list("extends"), layer, profiles)?;
        values.add(own);
        self.check_paths(&values, layer);
        Ok(values)
    }

    /// Takes the granting lists as bounds, and the rest as the lowest layer.
    fn set_ceiling(&mut self, mut values: Values) {
        for key in schema::keys() {
            if matches!(key.effect, Effect::Grant(_))
                && let Some(value) = values.remove(key.path)
            {
                self.ceiling.insert(key.path, value);
            }
        }
        self.system = values.clone();
        self.values.add(values);
    }

    /// Adds a layer that may widen, as far as the ceiling goes.
    fn add(&mut self, values: Values) {
        for (key, value) in values.iter() {
            self.check_ceiling(key, value);
        }
        self.values.add(values);
    }

    /// Adds a layer that may only narrow.
    fn narrow(&mut self, values: Values) {
        let mut rest = Values::default();
        for (key, value) in values.iter() {
            match key.effect {
                Effect::Grant(relation) => self.narrow_grant(key, relation, value.clone()),
                Effect::Neutral | Effect::Deny => rest.insert(key.path, value.clone()),
                _ if self.is_narrower(key, value) => rest.insert(key.path, value.clone()),
                _ => self.problems.add(|| untrusted(key, value)),
            }
        }
        self.values.add(rest);
    }

    fn narrow_grant(&mut self, key: &'static Key, relation: Relation, value: Value) {
        if relation != Relation::Same {
            self.narrowing.insert(key.path, value);
            return;
        }
        let below = self.values.get_mut(key.path).map(|below| &mut below.data);
        if let (Data::List(allowed), Some(Data::List(entries))) = (&value.data, below) {
            entries.retain(|entry| allowed.iter().any(|other| other.text == entry.text));
        }
    }

    fn is_narrower(&self, key: &Key, value: &Value) -> bool {
        match (key.effect, &value.data) {
            (Effect::Switch(strict), _) => {
                let current = self.values.get(key.path).and_then(|now| now.grade(key));
                let grade = value.grade(key);
                is_json(value, strict) || grade.is_some_and(|grade| current >= Some(grade))
            }
            (Effect::Limit, Data::Int(limit)) => {
                let current = self.values.get(key.path).map(|value| &value.data);
                let default = key.default.and_then(|json| json.parse().ok());
                match (current, default) {
                    (Some(Data::Int(current)), _) => limit <= current,
                    (_, Some(default)) => *limit <= default,
                    _ => true,
                }
            }
            _ => false,
        }
    }

    /// Keeps a strict switch and a limit of the system, and its lists of names.
    fn check_ceiling(&mut self, key: &'static Key, value: &Value) {
        if let Some(bound) = self.bound_that_ends(key.path, value) {
            self.problems.add(|| {
                format!(
                    "{}: `{}` is {}, which would end the bounds of {bound}",
                    value.origin,
                    value.origin.name(),
                    value.to_json(),
                )
            });
            return;
        }
        let (above, below) = match (key.effect, self.system.get(key.path)) {
            (Effect::Switch(strict), Some(system)) => {
                let ends = is_json(system, strict) && !is_json(value, strict);
                (ends || value.grade(key) > system.grade(key), system)
            }
            (Effect::Limit, Some(system)) => match (&system.data, &value.data) {
                (Data::Int(bound), Data::Int(limit)) => (limit > bound, system),
                _ => return,
            },
            _ => return self.check_names(key, value),
        };
        if above {
            let message = format!(
                "{}: `{}` is {}, and {} keeps it at {}",
                value.origin,
                value.origin.name(),
                value.to_json(),
                below.origin,
                below.to_json()
            );
            self.problems.add(|| message);
        }
    }

    /// Returns the place of a list of the system that a switch would make void, unless the
    /// system itself allows the switch.
    fn bound_that_ends(&self, key: &str, value: &Value) -> Option<String> {
        let (_, loose, lists) = VOIDING.iter().find(|(switch, ..)| *switch == key)?;
        if !is_json(value, loose) || self.system.get(key).is_some() {
            return None;
        }
        let bound = |key: &&str| self.ceiling.get(key).or_else(|| self.system.get(key));
        let mut bounds = lists.iter().filter_map(bound);
        bounds.next().map(|bound| bound.origin.to_string())
    }

    fn check_names(&mut self, key: &'static Key, value: &Value) {
        let (Effect::Grant(Relation::Same), Some(ceiling)) =
            (key.effect, self.ceiling.get(key.path))
        else {
            return;
        };
        let (Data::List(entries), Data::List(allowed)) = (&value.data, &ceiling.data) else {
            return;
        };
        let beyond = entries
            .iter()
            .filter(|entry| !allowed.iter().any(|other| other.text == entry.text));
        for entry in beyond {
            self.problems.add(|| {
                format!(
                    "{}: {} `{}` goes beyond what {} allows",
                    entry.origin,
                    entry.origin.name(),
                    entry.text,
                    ceiling.origin
                )
            });
        }
    }

    /// Refuses relative paths of the system, and what looks like a variable nobody expanded.
    fn check_paths(&mut self, values: &Values, layer: Layer) {
        for (key, value) in values.iter() {
            let Data::List(entries) = &value.data else {
                continue;
            };
            if !matches!(key.shape, Shape::Paths | Shape::List(Form::Path)) {
                continue;
            }
            for entry in entries {
                let text = entry.text.as_str();
                if layer == Layer::System && !text.starts_with(['/', '~']) {
                    self.problems
                        .add(|| problem(entry, "must be absolute in this file"));
                }
                if entry.literal || !holds_variable(text) {
                    continue;
                }
                const WHAT: &str = "holds a variable, and variables are not expanded: write the \
                                    path out, or { \"path\": …, \"literal\": true } for such a name";
                match key.effect {
                    Effect::Deny => self.problems.add(|| problem(entry, WHAT)),
                    _ => self.warnings.push(problem(entry, WHAT)),
                }
            }
        }
    }

    fn into_settings(self) -> Result<Settings> {
        let mut problems = self.problems;
        checks::check(&self.values, &mut problems);
        problems.into_result(())?;
        Ok(Settings {
            ceiling: self.ceiling,
            narrowing: self.narrowing,
            files: self.files,
            warnings: self.warnings,
            ..Settings::from_values(self.values)
        })
    }
}

fn problem(entry: &Entry, what: &str) -> String {
    let origin = &entry.origin;
    format!("{origin}: {} `{}` {what}", origin.name(), entry.text)
}

fn untrusted(key: &Key, value: &Value) -> String {
    let file = value.origin.file.as_deref().unwrap_or(Path::new(""));
    format!(
        "{}: `{}` widens what is allowed, which a project file may do only once it is trusted: \
         read it, then `srt ctl trust {}`",
        value.origin,
        key.path,
        shown(file)
    )
}

fn is_json(value: &Value, json: &str) -> bool {
    serde_json::from_str(json).is_ok_and(|json: serde_json::Value| json == value.to_json())
}

/// Switches, the value that makes other keys void, and those keys.
const VOIDING: [(&str, &str, &[&str]); 3] = [
    (
        "filesystem.disabled",
        "true",
        &["filesystem.allowWrite", "filesystem.allowRead"],
    ),
    (
        "network.mode",
        "\"open\"",
        &[
            "network.allowedDomains",
            "network.deniedDomains",
            "network.deniedResolvedAddresses",
            "network.strictAllowlist",
        ],
    ),
    (
        "network.allowAllUnixSockets",
        "true",
        &["network.allowUnixSockets"],
    ),
];

/// Tells whether there is a `$NAME` or `${…}` in a path.
fn holds_variable(text: &str) -> bool {
    let mut rest = text.split('$').skip(1);
    rest.any(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '{'))
}

impl Error {
    /// Starts an error about settings.
    pub(super) fn settings(goal: impl Into<String>) -> Self {
        Self::new(Kind::Settings, goal)
    }
}

#[cfg(test)]
mod tests;
