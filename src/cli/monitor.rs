//! `srt ctl monitor`: what a run does, live, and at its end the rules it would take.

mod show;
mod source;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, ValueHint};
use serde_json::Value;

use super::ctl::Answer;
use super::summary;
use super::usage;
use crate::audit::{Denials, FoundChange};
use crate::error::{Result, printable};
use crate::policy::Host;
use show::Show;
use source::Source;

/// What `srt ctl monitor` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// event file of a run to follow until it has ended, - for standard input
    #[arg(value_name = "file", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// show only these kinds and verdicts: net,file,denied
    #[arg(long, value_name = "what", value_delimiter = ',')]
    only: Vec<String>,

    /// run srt with these flags and this command, and follow that
    #[arg(
        last = true,
        value_name = "srt flags and command",
        conflicts_with = "file"
    )]
    words: Vec<OsString>,
}

const KINDS: [&str; 8] = [
    "lifecycle",
    "net",
    "dns",
    "file",
    "socket",
    "exec",
    "limit",
    "weakening",
];
const VERDICTS: [&str; 3] = ["allowed", "denied", "failed"];

/// What is to be shown: of the kinds that are named, and of the verdicts that are.
#[derive(Debug, Default)]
struct Filter {
    kinds: Vec<String>,
    verdicts: Vec<String>,
}

impl Filter {
    fn parse(words: &[String]) -> Result<Self> {
        let mut filter = Self::default();
        for word in words {
            match word.as_str() {
                kind if KINDS.contains(&kind) => filter.kinds.push(word.clone()),
                verdict if VERDICTS.contains(&verdict) => filter.verdicts.push(word.clone()),
                _ => {
                    let known = [KINDS.as_slice(), &VERDICTS].concat().join(", ");
                    return Err(usage(format!("--only does not know `{}`", printable(word)))
                        .with_hint(format!("it knows {known}")));
                }
            }
        }
        Ok(filter)
    }

    fn shows(&self, event: &Value) -> bool {
        let is_of = |names: &[String], key: &str| {
            names.is_empty() || names.iter().any(|name| event[key] == name.as_str())
        };
        is_of(&self.kinds, "kind") && is_of(&self.verdicts, "verdict")
    }
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    let filter = Filter::parse(&options.only)?;
    let host = Host::read()?;
    let (mut source, to_stderr) = match (&options.file, options.words.as_slice()) {
        (Some(file), _) if file.as_os_str() == "-" => (Source::stdin(), false),
        (Some(file), _) => (Source::file(host.cwd.join(file))?, false),
        (None, []) => {
            return Err(usage("nothing is to be followed")
                .with_hint("srt ctl monitor FILE, or srt ctl monitor -- COMMAND"));
        }
        // Standard output is the command's.
        (None, words) => (Source::command(words)?, true),
    };
    let is_terminal = match to_stderr {
        true => io::stderr().is_terminal(),
        false => io::stdout().is_terminal(),
    };
    let show = Show::new(is_terminal && host.var("NO_COLOR").is_none());
    let say = |text: &str| match to_stderr {
        true => io::stderr().write_all(text.as_bytes()),
        false => io::stdout().write_all(text.as_bytes()),
    };
    let mut denials = Denials::default();
    while let Some(line) = source.next_line()? {
        let Ok(event) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        denials.count_line(&line);
        if filter.shows(&event) && say(&(show.event(&event) + "\n")).is_err() {
            // Whoever read it has gone.
            break;
        }
    }
    drop(say(&rules(&denials)));
    source.finish()
}

/// Lists what would have to change for nothing to be denied.
fn rules(denials: &Denials) -> String {
    let groups = denials.groups().iter();
    let changes: BTreeSet<FoundChange> = groups.flat_map(|group| group.changes.clone()).collect();
    if changes.is_empty() {
        return match denials.is_empty() {
            true => "nothing was denied\n".to_owned(),
            false => "no setting allows what was denied\n".to_owned(),
        };
    }
    let lines = changes.iter().map(|change| {
        let change = std::slice::from_ref(change);
        format!(
            "  {}\n",
            printable(&summary::remedy(change).unwrap_or_default())
        )
    });
    format!(
        "to allow all that was denied:\n{}",
        lines.collect::<String>()
    )
}
