//! `srt ctl WORD`: everything `srt` does beside running a command.

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal, Write};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use super::{
    Invocation, allow, audit, completions, config, doctor, explain, init, man, monitor, profile,
    schema, trust, usage,
};
use crate::error::{Error, Result};

/// What `srt ctl` was asked for.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "srt ctl",
    bin_name = "srt ctl",
    about = "what srt does beside running a command",
    disable_help_subcommand = true,
    help_template = "{about}\n\nusage: srt ctl word …\n\nwords:\n{subcommands}\n\n\
                     srt ctl word --help says more; exit status: 0 yes, 1 no, 2 an error"
)]
#[non_exhaustive]
pub struct Options {
    /// Which word.
    #[command(subcommand)]
    pub word: Word,
}

/// The words.
#[derive(Debug, Clone, Subcommand)]
#[non_exhaustive]
pub enum Word {
    /// add to the settings what the last runs were denied
    Allow(allow::Options),
    /// verify event files
    Audit(audit::Options),
    /// print the script by which a shell completes srt
    Completions(completions::Options),
    /// show the settings in force
    Config(config::Options),
    /// tell what this machine gives, and what is missing
    Doctor(Box<doctor::Options>),
    /// say whether a path, host or socket is allowed, and why
    Explain(Box<explain::Options>),
    /// write a first settings file for the project here
    Init(init::Options),
    /// print a manual page, for man -l -
    Man(man::Options),
    /// show a run's events live, and the rules it would take
    Monitor(monitor::Options),
    /// list profiles, or show one
    Profile(profile::Options),
    /// print the JSON Schema of settings files, for editors, or of events
    Schema(schema::Options),
    /// trust a project's file as it is now
    Trust(trust::Options),
}

/// The answer of a word; an error is the third.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Exit status 0.
    Yes,
    /// Exit status 1.
    No,
}

impl Answer {
    /// Returns the exit status.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
        }
    }
}

/// Exit status of a word that failed.
const FAILED: u8 = 2;

/// Tells whether this is a word of `srt ctl`.
pub(super) fn is_word(word: &str) -> bool {
    Options::command().find_subcommand(word).is_some()
}

/// Parses what follows `ctl`; flags before it are none of its own.
pub(super) fn parse(args: &[OsString], words: &[OsString]) -> Result<Invocation> {
    let flags_end = args.len() - words.len();
    if flags_end > 1 {
        let error = usage("flags stand behind the word: srt ctl word --flag");
        return Err(error.with_exit_code(FAILED));
    }
    match Options::try_parse_from(words) {
        Ok(options) => Ok(Invocation::Ctl(options)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                Ok(Invocation::Print(error.render().to_string()))
            }
            _ => {
                let text = error.render().to_string();
                let line = text.lines().next().unwrap_or_default();
                let line = line.strip_prefix("error: ").unwrap_or(line);
                let error = usage(line).with_hint("srt ctl --help lists the words");
                Err(error.with_exit_code(FAILED))
            }
        },
    }
}

/// Does what was asked for.
///
/// # Errors
/// It could not be done.
pub fn run(options: &Options) -> Result<Answer> {
    let answer = match &options.word {
        Word::Allow(options) => allow::run(options),
        Word::Audit(options) => audit::run(options),
        Word::Config(options) => config::run(options),
        Word::Doctor(options) => doctor::run(options),
        Word::Explain(options) => explain::run(options),
        Word::Completions(options) => completions::run(options),
        Word::Init(options) => init::run(options),
        Word::Man(options) => man::run(options),
        Word::Monitor(options) => monitor::run(options),
        Word::Profile(options) => profile::run(options),
        Word::Schema(options) => schema::run(options),
        Word::Trust(options) => trust::run(options),
    };
    answer.map_err(|error| error.with_exit_code(FAILED))
}

/// Writes to standard output; that a reader left early is no failure.
pub(super) fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::new(
            crate::error::Kind::Launch,
            "cannot write the answer",
        )
        .call("write", error)),
        _ => Ok(()),
    }
}

/// Asks a question that is answered with yes or no; anything but yes is no.
///
/// # Errors
/// There is no terminal to ask on; `remedy` says what to do without one.
pub(super) fn ask(question: &str, remedy: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Err(usage("there is no terminal to ask on").with_hint(remedy));
    }
    print(&format!("{question} [y/N] "))?;
    drop(std::io::stdout().flush());
    let mut answer = String::new();
    drop(std::io::stdin().lock().read_line(&mut answer));
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
