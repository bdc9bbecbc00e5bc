//! `srt ctl init`: a first settings file for the project in the working directory.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use clap::Args;
use nix::fcntl::OFlag;

use super::ctl::{Answer, ask, print};
use super::layers::search;
use super::trust::refuse_inside;
use super::usage;
use crate::error::{Error, Kind, Result};
use crate::policy::Host;
use crate::settings::{Search, profile, shown};

/// What `srt ctl init` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// do not ask
    #[arg(short, long)]
    yes: bool,
}

/// The files that tell what a project is made with, and the profile for that.
const MARKS: [(&str, &str); 9] = [
    ("package.json", "node"),
    ("Cargo.toml", "rust"),
    ("pyproject.toml", "python"),
    ("requirements.txt", "python"),
    ("setup.py", "python"),
    ("go.mod", "go"),
    ("pom.xml", "jvm"),
    ("build.gradle", "jvm"),
    ("build.gradle.kts", "jvm"),
];

pub(super) fn run(options: &Options) -> Result<Answer> {
    let host = Host::read()?;
    refuse_inside(&host, "write settings for the next run")?;
    let file = host.cwd.join(Search::PROJECT);
    // Before anything is shown and asked; the open below decides.
    if file.symlink_metadata().is_ok() {
        return Err(is_there(&file));
    }
    let text = starter(&found(&host.cwd));
    print(&format!("{text}\n"))?;
    let question = format!("write this to {}?", shown(&file));
    if !options.yes && !ask(&question, "to write it: srt ctl init --yes")? {
        return Ok(Answer::No);
    }
    let above = search(&host).project_file();
    write_new(&file, &text)?;
    print(&format!(
        "wrote {}; it can only narrow what other settings allow until: srt ctl trust\n",
        shown(&file)
    ))?;
    if let Some(above) = above {
        print(&format!("{} no longer counts here\n", shown(&above)))?;
    }
    Ok(Answer::Yes)
}

/// Returns the marks that lie in this directory.
fn found(dir: &Path) -> Vec<(&'static str, &'static str)> {
    let marks = MARKS.into_iter();
    marks.filter(|(file, _)| dir.join(file).is_file()).collect()
}

/// Returns the text for a project with these marks.
fn starter(marks: &[(&str, &str)]) -> String {
    let is_built_in = |name: &&str| profile::built_in().any(|known| known == *name);
    let mut names: Vec<&str> = marks.iter().map(|(_, profile)| *profile).collect();
    names.dedup();
    let (known, unknown): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_built_in);
    let files: Vec<&str> = marks.iter().map(|(file, _)| *file).collect();
    let seen = match files.as_slice() {
        [] => "Nothing here tells which profiles fit; srt ctl profile list names them.".to_owned(),
        files => format!("Found here: {}.", files.join(", ")),
    };
    let missing = unknown.iter().map(|name| {
        format!("  // This version has no profile \"{name}\": list hosts and caches below.\n")
    });
    let missing: String = missing.collect();
    let extends = match known.as_slice() {
        [] => "  // \"extends\": [\"git\"],".to_owned(),
        names => {
            let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!("  \"extends\": [{}],", names.join(", "))
        }
    };
    format!("{HEAD}  // {seen}\n{PROFILES}{missing}{extends}\n{REST}")
}

const HEAD: &str = "\
// What a command may do here: srt COMMAND. Every key: man srt-settings, or srt ctl schema.
// Comments and a comma before a closing bracket are allowed.
//
// This file only narrows what other settings allow, until you trust it: srt ctl trust
{
";

const PROFILES: &str =
    "  // A profile holds the hosts and caches of its tools: srt ctl profile show NAME\n";

// An empty list that grants would narrow to nothing while the file is not trusted: those are
// comments.
const REST: &str = r#"
  "filesystem": {
    // All of the project.
    "allowWrite": ["."],
    // Parts of it that stay as they are.
    "denyWrite": [
      // "deploy",
    ],
    // Hidden. All else may be read.
    "denyRead": [
      // ".env",
    ],
  },

  "network": {
    // More hosts, each with any port or with one.
    // "allowedDomains": ["api.example.org:443"],
    "deniedDomains": [],
  },
}
"#;

/// Writes a file that was not there, whole or not at all.
fn write_new(file: &Path, text: &str) -> Result<()> {
    let goal = || format!("cannot write {}", shown(file));
    // O_EXCL alone follows no link either; O_NOFOLLOW keeps that true whatever becomes of it.
    let mut out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(file)
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => is_there(file),
            _ => Error::new(Kind::Settings, goal()).call("open", error),
        })?;
    out.write_all(text.as_bytes()).map_err(|error| {
        // Half of it would stop every run here. Its removal may fail too, which is less news.
        drop(fs::remove_file(file));
        Error::new(Kind::Settings, goal()).call("write", error)
    })
}

fn is_there(file: &Path) -> Error {
    usage(format!("{} is there already", shown(file)))
        .with_hint("it is left as it is; move it away to start anew")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_named_once_in_the_order_of_the_marks() {
        let text = starter(&MARKS[..5]);
        let extends = "\n  \"extends\": [\"node\", \"rust\", \"python\"],\n";
        assert!(text.contains(extends), "{text}");
        assert!(text.contains("\n  // A profile"), "{text}");
        let files = "package.json, Cargo.toml, pyproject.toml, requirements.txt, setup.py";
        assert!(
            text.contains(&format!("// Found here: {files}.\n")),
            "{text}"
        );
    }

    #[test]
    fn a_mark_without_a_profile_is_said_to_have_none() {
        for (file, name) in MARKS {
            let known = profile::built_in().any(|known| known == name);
            let text = starter(&[(file, name)]);
            let extends = text.contains(&format!("\n  \"extends\": [\"{name}\"],\n"));
            let missing = text.contains(&format!("no profile \"{name}\""));
            assert_eq!((extends, missing), (known, !known), "{file}\n{text}");
        }
    }
}
