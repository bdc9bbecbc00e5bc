//! `srt ctl allow`: writes into the user's settings what earlier runs were denied.

mod edit;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use clap::Args;
use similar::{ChangeTag, TextDiff};

use super::ctl::{Answer, ask, print};
use super::history::{self, Run};
use super::layers::search;
use super::summary::step;
use super::trust::refuse_inside;
use crate::audit::FoundChange;
use crate::error::{Error, Kind, Result, printable};
use crate::policy::{Host, wide};
use crate::settings::{Layer, Search, Settings, shown};

/// What `srt ctl allow` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// how many of the last runs to allow what they were denied
    #[arg(long, value_name = "n", num_args = 0..=1, default_missing_value = "1", default_value = "1",
          value_parser = clap::value_parser!(u16).range(1..))]
    last: u16,

    /// do not ask
    #[arg(short, long)]
    yes: bool,
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    let host = Host::read()?;
    refuse_inside(&host, "change what is allowed")?;
    let runs = history::last(&host, options.last.into())?;
    let (wide, narrow): (Vec<_>, Vec<_>) = changes(&runs)
        .into_iter()
        .partition(|change| reach(change, &host).is_some());
    for change in &wide {
        let covers = reach(change, &host).unwrap_or_default();
        let left = match options.yes {
            true => "; left out: run it without --yes",
            false => "",
        };
        print(&format!(
            "careful: {}: it covers {covers}{left}\n",
            printable(&step(change))
        ))?;
    }
    let wanted = match options.yes {
        true => narrow,
        false => [wide, narrow].concat(),
    };
    if wanted.is_empty() {
        print("no run was denied anything that a setting allows\n")?;
        return Ok(Answer::No);
    }
    if let Some(named) = runs.iter().find_map(Run::named_settings) {
        print(&format!(
            "--settings {} was in force, which is left as it is; to allow it there:\n",
            shown(named)
        ))?;
        for change in &wanted {
            print(&format!("  {}\n", printable(&step(change))))?;
        }
        return Ok(Answer::Yes);
    }
    let file = target(&runs, &host)?;
    let old = match file.symlink_metadata() {
        Ok(_) => Settings::read_with_text(&file)?.1,
        Err(_) => String::new(),
    };
    // The other file is read by other programs too, for which a comment may be an error.
    let is_own = file.file_name() != Some(Search::USER.as_ref());
    let note = is_own.then_some("srt ctl allow");
    let edited = edit::edit(&old, &wanted, note);
    for left in &edited.left {
        print(&format!(
            "not in {}: {}\n",
            shown(&file),
            printable(&step(left))
        ))?;
    }
    if edited.text == old {
        print(&format!("{} allows all the rest already\n", shown(&file)))?;
        return Ok(Answer::No);
    }
    print(&diff(&file, &old, &edited.text))?;
    let question = format!("write this to {}?", shown(&file));
    if !options.yes && !ask(&question, "to write it: srt ctl allow --last --yes")? {
        return Ok(Answer::No);
    }
    replace(&file, &old, &edited.text)?;
    print(&format!("wrote {}\n", shown(&file)))?;
    Ok(Answer::Yes)
}

/// Lists that a denial may name to add to.
const GRANTS: [&str; 5] = [
    "filesystem.allowProtected",
    "filesystem.allowRead",
    "filesystem.allowWrite",
    "network.allowUnixSockets",
    "network.allowedDomains",
];

/// Says what the change opens that a task does not need.
fn reach(change: &FoundChange, host: &Host) -> Option<&'static str> {
    let path = change
        .add
        .as_deref()
        .filter(|_| change.key == "filesystem.allowWrite")?;
    wide::reach(Path::new(path), host)
}

/// Collects what would allow all that the runs were denied, each change once, sorted.
fn changes(runs: &[Run]) -> Vec<FoundChange> {
    let groups = runs.iter().flat_map(|run| &run.denied);
    let changes = groups.flat_map(|group| &group.changes);
    // Nothing else is ever suggested, whatever a record says.
    let possible = |change: &&FoundChange| match &change.add {
        Some(_) => GRANTS.contains(&&*change.key),
        None => change.remove.is_some(),
    };
    let changes: BTreeSet<_> = changes.filter(possible).cloned().collect();
    changes.into_iter().collect()
}

/// Returns the user's own file that was in force, or the one to make. A project's file is for
/// all who work on it, and never written here.
fn target(runs: &[Run], host: &Host) -> Result<PathBuf> {
    let used = runs.iter().flat_map(|run| &run.files);
    let mut own = used.filter(|used| used.layer == Layer::User.name());
    let search = search(host);
    let users = search.user_files();
    let found = own.find_map(|used| users.iter().find(|own| **own == used.path).cloned());
    let made = || search.config_dir().map(|dir| dir.join("settings.json"));
    let existing = || search.user_files().into_iter().next();
    let file = found.or_else(existing).or_else(made).ok_or_else(|| {
        Error::new(Kind::Usage, "there is no settings file of yours to write")
            .with_hint("set HOME or XDG_CONFIG_HOME to an absolute path")
    })?;
    match file.metadata() {
        Ok(found) if found.uid() != host.uid => Err(Error::new(
            Kind::Usage,
            format!("{} belongs to another user", shown(&file)),
        )
        .with_hint("add what srt ctl explain --last names where it shall count")),
        _ => Ok(file),
    }
}

/// Shows the lines that change, with three around each.
fn diff(file: &Path, old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let mut shown_lines = format!("{}\n", shown(file));
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            let line = change.value().trim_end_matches('\n');
            shown_lines += &format!("{sign} {}\n", printable(line));
        }
    }
    shown_lines
}

/// Puts the new text in the place of the old in one step, if the old is still there and the new
/// is one that a run would take.
fn replace(file: &Path, old: &str, new: &str) -> Result<()> {
    let cannot =
        |error| Error::new(Kind::Settings, format!("cannot write {}", shown(file))).source(error);
    // A link to the file stays one.
    let file = &file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    let dir = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir).map_err(cannot)?;
    let mode = file
        .metadata()
        .map_or(0o644, |found| found.permissions().mode());
    let next = dir.join(format!(".srt-settings.{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut out = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&next)?;
        out.write_all(new.as_bytes())?;
        out.sync_all()
    };
    let written = write().map_err(cannot);
    let taken = written.and_then(|()| Settings::read_with_text(&next).map(drop));
    let is_same = || match fs::read_to_string(file) {
        Ok(text) => text == old,
        Err(_) => old.is_empty(),
    };
    let replaced = taken.and_then(|()| match is_same() {
        true => fs::rename(&next, file).map_err(cannot),
        false => Err(Error::new(
            Kind::Settings,
            format!("{} was changed meanwhile", shown(file)),
        )),
    });
    if replaced.is_err() {
        drop(fs::remove_file(&next));
    }
    replaced
}
