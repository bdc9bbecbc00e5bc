//! `srt ctl explain`: how a path, a host or a socket is decided, by which rule, and what would
//! decide it otherwise.
//!
//! Takes no decision: it asks the functions that a run asks.

mod last;
mod show;
mod target;
mod verdict;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::LayerFlags;
use super::ctl::{Answer, print};
use super::usage;
use crate::audit::Audit;
use crate::audit::Verbosity;
use crate::error::Result;
use crate::policy::filesystem::Right;
use crate::policy::{Host, Policy};
use crate::sandbox;
use crate::settings::Settings;
use target::Target;
use verdict::{Judge, Verdict};

/// What `srt ctl explain` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// path:/x, host:example.org:443 or socket:/x; several are answered in turn
    #[arg(value_name = "target")]
    targets: Vec<OsString>,

    /// ask whether the paths may be written, not read
    #[arg(short, long)]
    write: bool,

    /// print one JSON object a line
    #[arg(long)]
    json: bool,

    /// say what the last n runs that were denied something were denied, and why
    #[arg(long, value_name = "n", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["targets", "events"])]
    last: Option<u16>,

    /// the same of each run in an event file
    #[arg(long, value_name = "file", value_hint = clap::ValueHint::FilePath, conflicts_with = "targets")]
    events: Option<PathBuf>,

    #[command(flatten)]
    layers: LayerFlags,
}

const STOPS: &str = "a run stops with these settings";

pub(super) fn run(options: &Options) -> Result<Answer> {
    let host = Host::read()?;
    if let Some(count) = options.last {
        return last::run(&host, count.into(), options.json);
    }
    if let Some(file) = &options.events {
        return last::events(&host.cwd.join(file), options.json);
    }
    if options.targets.is_empty() {
        return Err(usage("nothing is asked for").with_hint(target::FORMS));
    }
    let targets = options.targets.iter();
    let targets: Vec<_> = targets
        .map(|text| target::parse(text, &host))
        .collect::<Result<_>>()?;
    let right = match options.write {
        true => Right::Write,
        false => Right::Read,
    };
    if options.write
        && !targets
            .iter()
            .any(|target| matches!(target, Target::Path(_)))
    {
        return Err(usage("--write is about paths, and none is asked for")
            .with_hint("name one: srt ctl explain --write path:/x"));
    }
    let settings = options.layers.load(&host, &host.cwd)?;
    let audit = Audit::none(Verbosity::Warnings);
    for warning in &settings.warnings {
        audit.warn(format_args!("{warning}"));
    }
    if let Err(error) = settings.refuse_unbuilt() {
        audit.warn(format_args!("{STOPS}: {error}"));
    }
    let policy = policy(&settings, &host, &targets, &audit)?;
    let judge = Judge {
        settings: &settings,
        policy: &policy,
        host: &host,
    };
    let mut answer = Answer::Yes;
    for target in &targets {
        let verdict = judge.judge(target, right)?;
        if verdict.answer == verdict::Answer::Denied {
            answer = Answer::No;
        }
        print(&shown(&verdict, options.json))?;
    }
    Ok(answer)
}

/// Makes the policy, as far as the targets need it: rules for files that a run refuses decide no
/// host.
fn policy(settings: &Settings, host: &Host, targets: &[Target], audit: &Audit) -> Result<Policy> {
    let only_hosts = targets
        .iter()
        .all(|target| matches!(target, Target::Host { .. }));
    let policy = match sandbox::policy(settings, host) {
        Err(error) if only_hosts => {
            audit.warn(format_args!("{STOPS}: {error}"));
            sandbox::policy(&settings.without_files(), host)?
        }
        policy => policy?,
    };
    let of_files = policy.filesystem.warnings().iter().filter(|_| !only_hosts);
    for warning in policy.notes.iter().chain(of_files) {
        audit.warn(format_args!("{warning}"));
    }
    Ok(policy)
}

fn shown(verdict: &Verdict, json: bool) -> String {
    match json {
        true => format!("{}\n", show::json(verdict)),
        false => show::text(verdict),
    }
}
