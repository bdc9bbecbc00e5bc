//! Compares the host before and after each run: what differs has to be granted, or excused.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::snapshot::{self, Allowance};
use super::{Ran, Snapshot, Srt, Surroundings};

/// Longest that another run may take to lock or to remove its directory.
const PATIENCE: Duration = Duration::from_secs(20);

impl Srt {
    /// Lets `path`, and all below it, change during the run; `reason` is for the reader.
    #[must_use]
    pub fn host_changes(mut self, path: impl AsRef<Path>, reason: &str) -> Self {
        assert!(!reason.is_empty());
        self.excused.push(path.as_ref().to_path_buf());
        self
    }

    /// Has `run` run the words, as [`Srt::run`] does, and compares the host.
    #[track_caller]
    pub fn watched(
        mut self,
        words: &[impl AsRef<OsStr>],
        run: impl FnOnce(&mut Command) -> Ran,
    ) -> Ran {
        self.prepare(words);
        let allowance = self.allowance();
        let root = snapshot::real(&self.root).expect("the scratch directory is there");
        let around = Surroundings::now();
        let before = Snapshot::of(&root);
        let ran = run(&mut self.command);
        let mut changes = before.forbidden_changes(&Snapshot::of(&root), &allowance);
        changes.extend(around.left_in(&Surroundings::now(), PATIENCE));
        assert!(
            changes.is_empty(),
            "the host is not as it was:\n{}\nsettings: {}\nstderr: {}",
            changes.join("\n"),
            self.settings,
            ran.stderr
        );
        ran
    }

    /// Reads from the settings what the run may change.
    fn allowance(&self) -> Allowance {
        let cwd = self.command.get_current_dir().unwrap_or(Path::new("/"));
        let home = self.variable("HOME").filter(|home| home.is_absolute());
        let home = home.as_deref();
        let entries = |list: &str| -> Vec<(String, bool)> {
            let entries = self.settings["filesystem"][list].as_array();
            entries.into_iter().flatten().filter_map(entry).collect()
        };
        let there =
            |(text, literal): &(String, bool)| snapshot::resolved(text, *literal, cwd, home);
        // What a pattern fits is not known here: less is said to be denied than is, and more
        // to be opened.
        let of = |list, is_pattern| -> Vec<PathBuf> {
            let entries = entries(list).into_iter();
            entries
                .filter(|(text, literal)| snapshot::is_pattern(text, *literal) == is_pattern)
                .filter_map(|entry| there(&entry))
                .collect()
        };
        let opened = [of("allowRead", true), of("allowWrite", true)].concat();
        let grants = entries("allowWrite");
        let defaults = ["~/.npm/_logs", "~/.claude/debug"].map(|text| (text.to_owned(), true));
        let mut allowance = Allowance {
            granted: grants.iter().chain(&defaults).filter_map(there).collect(),
            kept: of("denyWrite", false),
            hidden: of("denyRead", false),
            shown: of("allowRead", false),
            opened,
            excused: self.excused.clone(),
            ..Allowance::default()
        };
        for (text, _) in grants.iter().filter(|entry| there(entry).is_none()) {
            let made = snapshot::to_be_made(text, cwd, home);
            let Some((end, steps)) = made else { continue };
            allowance.granted.push(end);
            allowance.made.extend(steps);
        }
        // The launcher's own record of what was denied.
        let state = home.map(|home| snapshot::real(home).map(|home| home.join(".local/state/srt")));
        if let Some(Ok(state)) = state {
            let steps = state.ancestors().skip(1).take(2).map(Path::to_path_buf);
            allowance.made.extend(steps);
            allowance.excused.push(state);
        }
        let temporary = self.variable("TMPDIR");
        allowance
            .passing
            .extend(temporary.and_then(|dir| snapshot::real(&dir).ok()));
        allowance
    }

    fn variable(&self, name: &str) -> Option<PathBuf> {
        let mut set = self.command.get_envs();
        let (_, value) = set.find(|(found, _)| *found == OsStr::new(name))?;
        value.map(PathBuf::from)
    }
}

/// Reads an entry of a list: a string, or an object that says it is no pattern.
fn entry(value: &Value) -> Option<(String, bool)> {
    match value {
        Value::String(text) => Some((text.clone(), false)),
        _ => {
            let path = value["path"].as_str()?.to_owned();
            Some((path, value["literal"].as_bool().unwrap_or(false)))
        }
    }
}
