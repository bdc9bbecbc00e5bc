//! `srt ctl profile list|show`.

use clap::{Args, Subcommand};

use super::ctl::{Answer, print};
use super::layers::search;
use crate::error::Result;
use crate::policy::Host;
use crate::settings::profile;

/// What `srt ctl profile` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// list all profiles, your own and those of srt
    List,
    /// print a profile as a settings file
    Show {
        /// its name
        name: String,
    },
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    let host = Host::read()?;
    let dir = search(&host).config_dir().map(|dir| dir.join("profiles"));
    match &options.action {
        Action::List => {
            let profiles = profile::all(dir.as_deref())?;
            let width = profiles.iter().map(|profile| profile.name.len()).max();
            let width = width.unwrap_or_default();
            for profile in &profiles {
                let own = if profile.file.is_some() {
                    " (yours)"
                } else {
                    ""
                };
                print(&format!(
                    "{:width$}  {}{own}\n",
                    profile.name, profile.description
                ))?;
            }
        }
        Action::Show { name } => print(&profile::named(name, dir.as_deref())?.text)?,
    }
    Ok(Answer::Yes)
}
