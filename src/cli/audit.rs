//! `srt ctl audit verify FILE…`: whether the lines of a file of events still follow one another.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::ctl::{Answer, print};
use crate::audit::chain::{Hash, Report, verify};
use crate::error::{Error, Kind, Result, printable};

/// What `srt ctl audit` was asked for.
#[derive(Debug, Clone, Args)]
#[non_exhaustive]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, Subcommand)]
enum Action {
    /// say whether the lines of chained event files are all there, as they were written
    Verify {
        /// each with the file.1 that it was rotated to
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,

        /// the hash of a line that must be in one of them, as an earlier run of this printed it
        #[arg(long, value_name = "hash", value_parser = hash)]
        has: Option<Hash>,
    },
}

fn hash(text: &str) -> std::result::Result<Hash, &'static str> {
    Hash::parse(text).ok_or("a hash is 64 hexadecimal digits")
}

pub(super) fn run(options: &Options) -> Result<Answer> {
    let Action::Verify { files, has } = &options.action;
    let (mut answer, mut is_found) = (Answer::Yes, has.is_none());
    let mut errors = Vec::new();
    for file in files {
        let name = printable(&file.display().to_string());
        match verify(file, has.as_ref()) {
            Ok(report) => {
                is_found |= report.is_found;
                if report.broken.is_some() || report.lines == 0 {
                    answer = Answer::No;
                }
                print(&format!("{name}: {}\n", said(&report)))?;
            }
            Err(error) => errors.push(
                Error::new(Kind::Usage, format!("cannot verify {}", file.display())).source(error),
            ),
        }
    }
    if let Some(error) = Error::joined(errors) {
        return Err(error);
    }
    if let Some(hash) = has.as_ref().filter(|_| !is_found) {
        print(&format!("no line has the hash {hash}\n"))?;
        answer = Answer::No;
    }
    Ok(answer)
}

fn said(report: &Report) -> String {
    if let Some(broken) = &report.broken {
        let file = printable(&broken.file.display().to_string());
        return format!("broken at {file}:{}: {}", broken.line, broken.fault);
    }
    let Some(last) = &report.last else {
        return "no line is there".to_owned();
    };
    let start = match report.is_whole {
        true => "",
        false => "; what came before them is not there",
    };
    let lines = match report.lines {
        1 => "1 line holds".to_owned(),
        lines => format!("{lines} lines hold"),
    };
    format!("{lines}{start}; the last is {last}")
}
