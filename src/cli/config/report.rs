//! What is in force, put together for people and for programs.

use serde_json::{Value as Json, json};

use super::{mask, survey};
use crate::error::{Error, Result};
use crate::policy::environment::Dropped;
use crate::policy::filesystem::{Protected, Secret, Shown, Survey};
use crate::policy::{Host, Policy};
use crate::settings::schema::{self, Key, Shape};
use crate::settings::values::{Data, Value, Values};
use crate::settings::{InForce, Origin, Settings, quoted, shown};

/// Everything that `config show` says.
#[derive(Debug)]
pub(super) struct Report<'a> {
    settings: &'a Settings,
    values: Vec<Line>,
    warnings: Vec<String>,
    /// Variables of the caller that a command does not get, and why.
    dropped: Vec<(String, String)>,
    /// Stores of secrets that this machine has.
    secrets: Vec<Secret>,
    /// What is protected by its name.
    protected: Vec<Protected>,
    /// What no rule tells of.
    survey: Survey,
    /// Why no command would run.
    stops: Option<String>,
}

/// Protected paths that are named.
const SHOWN: usize = 50;

/// One value, or one entry of a list, and where it was written.
#[derive(Debug)]
struct Line {
    /// Full key; of a map with the name behind it.
    key: String,
    value: Json,
    /// `None` for a default.
    origin: Option<Origin>,
}

impl<'a> Report<'a> {
    /// Collects what differs from the defaults, or `all`.
    pub(super) fn new(
        settings: &'a Settings,
        policy: Result<&Policy, &Error>,
        host: &Host,
        all: bool,
    ) -> Self {
        let mut values = Vec::new();
        for key in schema::keys().filter(|key| is_shown(key)) {
            match settings.values.get(key.path) {
                Some(value) if all || differs(key, value) => values.extend(lines(key.path, value)),
                None if all => values.push(Line::default_of(key)),
                _ => {}
            }
            if all && let Ok(policy) = policy {
                values.extend(built_in(policy, key));
            }
        }
        let own = policy.map(|policy| policy.notes.iter().chain(policy.filesystem.warnings()));
        let warnings = settings.warnings.iter().chain(own.into_iter().flatten());
        let dropped = policy.map(|policy| policy.environment.dropped());
        let dropped = dropped.into_iter().flatten();
        let unbuilt = settings.refuse_unbuilt().err();
        let stops = unbuilt.as_ref().or(policy.err()).map(Error::to_string);
        Self {
            settings,
            values,
            warnings: warnings.cloned().collect(),
            dropped: dropped.map(named_reason).collect(),
            secrets: policy.map_or_else(
                |_| Vec::new(),
                |policy| policy.filesystem.secrets().to_vec(),
            ),
            protected: policy.map_or_else(
                |_| Vec::new(),
                |policy| policy.filesystem.protected().to_vec(),
            ),
            survey: policy.map_or_else(
                |_| Survey::default(),
                |policy| policy.filesystem.survey(&host.cwd),
            ),
            stops,
        }
    }

    /// Puts it into lines: `key = value` in JSON, and everything else behind a `#`.
    pub(super) fn text(&self, origins: bool) -> String {
        let files = self.settings.files.iter();
        let mut lines: Vec<_> = files
            .map(|file| format!("# file: {}", named(file)))
            .collect();
        if lines.is_empty() {
            lines.push("# file: none".to_owned());
        }
        lines.extend(self.values.iter().map(|line| line.text(origins)));
        for (title, values) in self.bounds() {
            let bounds = bounds(values);
            lines.extend(
                bounds
                    .iter()
                    .map(|line| format!("# {title}: {}", line.text(origins))),
            );
        }
        let stops = self.stops.iter().map(|why| format!("a run stops: {why}"));
        let warnings = self.warnings.iter().map(|text| format!("warning: {text}"));
        let dropped = self.dropped.iter();
        let dropped = dropped.map(|(name, why)| format!("not passed: {}: {why}", quoted(name)));
        let secrets = self.secrets.iter();
        let secrets =
            secrets.map(|found| format!("{}: {}: {}", manner(found), found.path, found.reason));
        let protected = self.protected_lines();
        let notes = self.settings.notes();
        let notes = notes.iter().map(|(key, note)| format!("{key} {note}"));
        let said = stops
            .chain(warnings)
            .chain(dropped)
            .chain(secrets)
            .chain(protected)
            .chain(survey::lines(&self.survey))
            .chain(notes);
        // A message may have an excerpt of the file below it.
        lines.extend(said.map(|text| format!("# {}", text.replace('\n', "\n# "))));
        lines.join("\n") + "\n"
    }

    /// Puts it into one object.
    pub(super) fn json(&self) -> Json {
        let files = self.settings.files.iter().map(|file| {
            json!({
                "path": file.path.to_string_lossy(),
                "layer": file.layer.name(),
                "narrows": file.narrows,
            })
        });
        let notes = self.settings.notes();
        let notes = notes
            .iter()
            .map(|(key, note)| json!({ "key": key, "note": note }));
        let dropped = self.dropped.iter();
        let dropped = dropped.map(|(name, why)| json!({ "name": name, "reason": why }));
        let secrets = self.secrets.iter().map(|found| {
            json!({
                "path": found.path.to_string(),
                "shown": manner(found),
                "reason": found.reason,
            })
        });
        let protected = self.protected.iter().map(|found| {
            json!({
                "path": found.path.to_string(),
                "name": found.name.text,
                "reason": found.name.reason,
            })
        });
        let [ceiling, narrowing] = self.bounds().map(|(_, values)| {
            let lines = bounds(values);
            lines.iter().map(Line::json).collect::<Json>()
        });
        json!({
            "v": 1,
            "files": files.collect::<Json>(),
            "values": self.values.iter().map(Line::json).collect::<Json>(),
            "ceiling": ceiling,
            "narrowing": narrowing,
            "stops": self.stops,
            "warnings": self.warnings,
            "dropped": dropped.collect::<Json>(),
            "secrets": secrets.collect::<Json>(),
            "protected": protected.collect::<Json>(),
            "survey": survey::json(&self.survey),
            "notes": notes.collect::<Json>(),
        })
    }

    /// Names what is protected; of a great many the first.
    fn protected_lines(&self) -> Vec<String> {
        let first = self.protected.iter().take(SHOWN);
        let mut lines: Vec<_> = first
            .map(|found| {
                format!(
                    "protected: {}: `{}`: {}",
                    found.path, found.name.text, found.name.reason
                )
            })
            .collect();
        let more = self.protected.len().saturating_sub(SHOWN);
        if more > 0 {
            lines.push(format!("protected: and {more} more; --json lists all"));
        }
        lines
    }

    fn bounds(&self) -> [(&'static str, &Values); 2] {
        [
            ("at most", &self.settings.ceiling),
            ("narrowed to", &self.settings.narrowing),
        ]
    }
}

impl Line {
    fn new(key: impl Into<String>, value: Json, origin: &Origin) -> Self {
        Self {
            key: key.into(),
            value: mask::value(value),
            origin: Some(origin.clone()),
        }
    }

    fn default_of(key: &Key) -> Self {
        let default = key.default.and_then(|json| serde_json::from_str(json).ok());
        Self {
            key: key.path.to_owned(),
            value: default.unwrap_or_default(),
            origin: None,
        }
    }

    fn text(&self, origins: bool) -> String {
        let Self { key, value, origin } = self;
        match origin {
            _ if !origins => format!("{key} = {value}"),
            None => format!("{key} = {value}  # default"),
            Some(origin) => format!("{key} = {value}  # {}", place(origin)),
        }
    }

    fn json(&self) -> Json {
        let origin = self.origin.as_ref();
        let file = origin.and_then(|origin| origin.file.as_deref());
        let in_file = |number: fn(&Origin) -> u32| origin.filter(|_| file.is_some()).map(number);
        json!({
            "key": self.key,
            "value": self.value,
            "layer": origin.map_or("default", |origin| origin.layer.name()),
            "file": file.map(|file| file.to_string_lossy()),
            "line": in_file(|origin| origin.line),
            "column": in_file(|origin| origin.column),
        })
    }
}

/// A key that holds something by itself: sections and the fields of records do not.
fn is_shown(key: &Key) -> bool {
    let holds = !matches!(key.shape, Shape::Section | Shape::Note | Shape::Never(_));
    holds && !key.path.contains("[]")
}

fn differs(key: &Key, value: &Value) -> bool {
    let default = key.default.and_then(|json| serde_json::from_str(json).ok());
    default != Some(value.to_json())
}

fn bounds(values: &Values) -> Vec<Line> {
    values
        .iter()
        .flat_map(|(key, value)| lines(key.path, value))
        .collect()
}

/// Takes a value apart, as far as its parts have places of their own.
fn lines(key: &'static str, value: &Value) -> Vec<Line> {
    let lines: Vec<_> = match &value.data {
        Data::List(entries) => {
            let entries = entries.iter();
            entries
                .map(|entry| Line::new(key, entry.to_json(), &entry.origin))
                .collect()
        }
        Data::Records(records) => {
            let records = records.iter();
            records
                .map(|record| Line::new(key, record.to_json(), &record.origin))
                .collect()
        }
        Data::Map(pairs) => {
            let line = |name: &str, text: &str, origin| match key {
                "env.set" => Line::new(format!("{key}.{name}"), mask::variable(name, text), origin),
                _ => Line::new(format!("{key}.{name}"), json!(text), origin),
            };
            let pairs = pairs.iter();
            pairs
                .map(|(name, text)| line(&name.text, &text.text, &text.origin))
                .collect()
        }
        _ => Vec::new(),
    };
    match lines.is_empty() {
        true => vec![Line::new(key, value.to_json(), &value.origin)],
        false => lines,
    }
}

/// Returns the rules on files that no setting holds.
fn built_in(policy: &Policy, key: &Key) -> Vec<Line> {
    let rules = policy.filesystem.rules();
    let own = rules.filter(|rule| rule.is_built_in() && rule.origin.key == key.path);
    own.map(|rule| Line::new(key.path, json!(rule.entry), &rule.origin))
        .collect()
}

fn named_reason(dropped: &Dropped) -> (String, String) {
    let name = dropped.name.to_string_lossy().into_owned();
    (name, dropped.reason.to_string())
}

/// Says how much of a store a command sees.
fn manner(found: &Secret) -> &'static str {
    match found.shown {
        Shown::Hidden => "hidden",
        Shown::Redacted => "without its secrets",
        Shown::Opened => "opened",
    }
}

fn named(file: &InForce) -> String {
    let trust = match file.narrows {
        true => ", not trusted: narrows",
        false => "",
    };
    format!("{} ({}{trust})", shown(&file.path), file.layer.name())
}

/// Names layer and place; of a flag the flag.
fn place(origin: &Origin) -> String {
    match &origin.file {
        Some(_) => format!("{}: {origin}", origin.layer.name()),
        None if origin.name() == origin.key => origin.to_string(),
        None => format!("{origin}: {}", origin.name()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::Search;

    #[test]
    fn the_bounds_of_the_system_are_shown_apart_from_what_is_granted() {
        let dir = Path::new("/tmp").join(format!("srt-report-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("the name is ours");
        let (system, own) = (dir.join("system.json"), dir.join("own.json"));
        std::fs::write(&system, r#"{"network":{"allowedDomains":["*.a.example"]}}"#)
            .and_then(|()| {
                std::fs::write(&own, r#"{"network":{"allowedDomains":["x.a.example"]}}"#)
            })
            .expect("the directory is ours");
        let search = Search {
            cwd: &dir,
            home: None,
            config_home: None,
            state_home: None,
            uid: nix::unistd::geteuid().as_raw(),
            system: &system,
        };
        let settings = Settings::load(&search, Some(&own), Values::default());
        let settings = settings.expect("both files are good");
        let refused = Error::new(crate::error::Kind::Settings, "for a test");
        let host = Host {
            cwd: dir.clone(),
            home: None,
            env: Vec::new(),
            uid: search.uid,
            gid: 0,
            program: None,
        };
        let report = Report::new(&settings, Err(&refused), &host, false);
        let shown = report.text(true).replace(dir.to_str().expect("ASCII"), "D");
        let shown: Vec<_> = shown.lines().take(5).collect();
        let expected = [
            "# file: D/system.json (system)",
            "# file: D/own.json (--settings)",
            r#"network.allowedDomains = "x.a.example"  # --settings: D/own.json:1:31"#,
            r#"# at most: network.allowedDomains = "*.a.example"  # system: D/system.json:1:31"#,
            "# a run stops: for a test",
        ];
        assert_eq!(shown, expected);
        let json = report.json();
        assert_eq!(json["ceiling"][0]["layer"], "system");
        assert_eq!(json["narrowing"], json!([]));
        std::fs::remove_dir_all(&dir).expect("the name is ours");
    }
}
