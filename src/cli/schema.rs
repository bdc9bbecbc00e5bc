//! `srt ctl schema`: the JSON Schema of settings files, and that of events.

use clap::{Args, ValueEnum};

use super::ctl::{Answer, print};
use crate::audit::schema;
use crate::error::Result;
use crate::settings::json_schema::json_schema;

/// What `srt ctl schema` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// of what
    #[arg(default_value = "settings")]
    of: Of,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Of {
    Settings,
    Events,
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    let schema = match options.of {
        Of::Settings => json_schema(),
        Of::Events => schema::json_schema(),
    };
    // `#` pretty-prints.
    print(&format!("{schema:#}\n")).map(|()| Answer::Yes)
}
