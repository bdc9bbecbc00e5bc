//! `srt ctl config show`: the settings in force, each value with the place it comes from.

mod mask;
mod report;
mod survey;

use clap::{Args, Subcommand};

use super::LayerFlags;
use super::ctl::{Answer, print};
use crate::error::Result;
use crate::policy::Host;
use crate::sandbox;
use report::Report;

/// What `srt ctl config` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// print every key that differs from its default
    Show(Box<Show>),
}

#[derive(Debug, Clone, Args)]
struct Show {
    /// say where each value was written
    #[arg(long)]
    origin: bool,

    /// print the keys that have their default too
    #[arg(long)]
    all: bool,

    /// print one JSON object, with the places
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    layers: LayerFlags,
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    let Action::Show(show) = &options.action;
    let host = Host::read()?;
    let settings = show.layers.load(&host, &host.cwd)?;
    let policy = sandbox::policy(&settings, &host);
    let report = Report::new(&settings, policy.as_ref(), &host, show.all);
    let text = match show.json {
        true => format!("{}\n", report.json()),
        false => report.text(show.origin),
    };
    print(&text)?;
    Ok(Answer::Yes)
}
