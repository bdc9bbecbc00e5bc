//! `srt ctl trust`: lets a project's file widen what is allowed, as long as its text is this.

use std::path::{Path, PathBuf};

use clap::Args;

use super::ctl::{Answer, ask, print};
use super::layers::search;
use super::usage;
use crate::error::Result;
use crate::policy::Host;
use crate::settings::trust::Trust;
use crate::settings::{Search, Settings, shown};

/// What `srt ctl trust` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// the project's file; without it the one that would be found here
    file: Option<PathBuf>,

    /// do not ask
    #[arg(short, long)]
    yes: bool,

    /// trust it no longer
    #[arg(long, conflicts_with = "list")]
    revoke: bool,

    /// list the files that are trusted
    #[arg(long, conflicts_with = "file")]
    list: bool,
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    let host = Host::read()?;
    refuse_inside(&host, "change what is trusted")?;
    let search = search(&host);
    let mut trust = Trust::read(&search)?;
    if options.list {
        for file in trust.projects() {
            print(&format!("{}\n", shown(file)))?;
        }
        return Ok(Answer::Yes);
    }
    let file = match &options.file {
        Some(file) => host.cwd.join(file),
        None => search.project_file().ok_or_else(|| {
            usage(format!("there is no {} here or above", Search::PROJECT))
                .with_hint("name the file: srt ctl trust FILE")
        })?,
    };
    if options.revoke {
        return trust.remove(&file).map(|was| match was {
            true => Answer::Yes,
            false => Answer::No,
        });
    }
    let (_, text) = Settings::read_with_text(&file)?;
    if trust.holds(&file, &text) {
        print(&format!("{} is trusted already\n", shown(&file)))?;
        return Ok(Answer::Yes);
    }
    if !options.yes && !confirm(&file, &text)? {
        return Ok(Answer::No);
    }
    trust.add(&file, &text)?;
    print(&format!("{} is trusted as it is now\n", shown(&file)))?;
    Ok(Answer::Yes)
}

/// A command inside must not open the door for the next run.
pub(super) fn refuse_inside(host: &Host, act: &str) -> Result<()> {
    if host.var("SANDBOX_RUNTIME").is_none() {
        return Ok(());
    }
    Err(usage(format!("a sandboxed command may not {act}")))
}

fn confirm(file: &Path, text: &str) -> Result<bool> {
    let visible: String = text.chars().flat_map(visible).collect();
    ask(
        &format!("{visible}\ntrust {} with this text?", shown(file)),
        "read the file, then: srt ctl trust --yes",
    )
}

/// Keeps a text from driving the terminal it is shown on, and from showing as another.
fn visible(c: char) -> Vec<char> {
    // Marks that change the direction of text, and what takes no room.
    let hides = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
    );
    match c {
        '\n' | '\t' => vec![c],
        c if c.is_control() || hides => c.escape_default().collect(),
        c => vec![c],
    }
}
