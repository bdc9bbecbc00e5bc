//! The command line: flags of `srt` before the command word, everything after it untouched.

mod allow;
mod audit;
mod completions;
mod config;
pub mod ctl;
mod doctor;
mod explain;
mod history;
mod init;
mod layers;
mod man;
mod monitor;
mod profile;
pub mod run;
mod schema;
mod sinks;
mod summary;
mod trust;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, Parser, ValueHint, value_parser};
use nix::sys::resource::{Resource, getrlimit};

use crate::audit::Verbosity;
use crate::error::{Error, Kind, Result};
use crate::settings::quoted;
pub use layers::LayerFlags;
pub use summary::Form;

/// What the command line asks for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Invocation {
    /// Run a command in a sandbox.
    Run(Box<RunOptions>),
    /// Do something else of ours: `srt ctl …`.
    Ctl(ctl::Options),
    /// Print this text (help or version, with its line end) to standard output and exit 0.
    Print(String),
}

/// The least stack that this program is known to run on.
const LEAST_STACK: u64 = 512 * 1024;

/// Makes sure of the stack before it is used: one that overflows ends a program without a reason.
///
/// # Errors
/// The limit on it is too low.
pub fn check_stack() -> Result<()> {
    match getrlimit(Resource::RLIMIT_STACK) {
        Ok((soft, _)) if soft < LEAST_STACK => Err(Error::new(
            Kind::Launch,
            format!("the stack is limited to {soft} bytes, and srt needs {LEAST_STACK}"),
        )
        .with_hint("raise the limit on the stack: ulimit -s 8192")),
        _ => Ok(()),
    }
}

/// How to run the command.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// Which settings hold.
    pub layers: LayerFlags,
    /// Directory to run in, instead of the one `srt` is called from.
    pub cwd: Option<PathBuf>,
    /// How much is said on standard error.
    pub verbosity: Verbosity,
    /// Print what the kernel would be asked, and run nothing.
    pub dry_run: bool,
    /// How denials are said at the end.
    pub summary: Form,
    /// Exit status of a command that ended well and was denied something.
    pub fail_on_denied: Option<u8>,
    /// Files the events are appended to.
    pub events: Vec<PathBuf>,
    /// Descriptors the events are written to.
    pub events_fds: Vec<i32>,
    /// Whether each line of those files carries the hash of the one before.
    pub events_chain: bool,
    /// Tell of reads and of programs too.
    pub monitor: bool,
    /// Have the command be user 0, without more rights.
    pub fake_root: bool,
    /// Wait for what the command leaves running.
    pub keep_background: bool,
    /// Descriptors the command inherits besides 0, 1 and 2.
    pub pass_fds: Vec<i32>,
    /// The command itself.
    pub command: CommandLine,
}

/// A command in one of the two ways it can be given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// A program and its arguments, run without a shell. Never empty.
    Argv(Vec<OsString>),
    /// A string for `sh -c`.
    Shell {
        /// The string.
        string: OsString,
        /// What becomes `$0`, `$1` and so on.
        args: Vec<OsString>,
    },
}

impl CommandLine {
    /// Takes a lone argument that holds white space for a shell string, unless `is_program`
    /// says that a program has that very name: `srt "cat README.md"`.
    #[must_use]
    pub fn or_shell_string(self, is_program: impl Fn(&OsStr) -> bool) -> Self {
        match self {
            Self::Argv(mut words) if words.len() == 1 && holds_words(&words[0]) => {
                if is_program(&words[0]) {
                    return Self::Argv(words);
                }
                Self::Shell {
                    string: words.remove(0),
                    args: Vec::new(),
                }
            }
            other => other,
        }
    }
}

/// Tells whether there is white space and something else. White space alone stays a program
/// name that is not found: as a shell string it would do nothing and report success.
fn holds_words(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    bytes.iter().any(u8::is_ascii_whitespace) && !bytes.trim_ascii().is_empty()
}

/// Parses the arguments of the process, the program name first.
///
/// # Errors
/// [`Kind::Usage`]: a flag before the command is unknown or lacks its value, there is no
/// command, or the first word is reserved.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation> {
    let args: Vec<OsString> = args.into_iter().collect();
    let flags = match Flags::try_parse_from(&args) {
        Ok(flags) => flags,
        Err(error) => return print_or_usage(&error),
    };
    if flags.string.is_none() && reserved(&flags.words, &args) == Some("ctl") {
        return ctl::parse(&args, &flags.words);
    }
    let verbosity = flags.verbosity();
    let command = match flags.string {
        Some(string) if string.is_empty() => {
            return Err(usage("the string of -c is empty").with_hint(SEE_HELP));
        }
        Some(string) => CommandLine::Shell {
            string,
            args: flags.words,
        },
        None => program(flags.words, &args)?,
    };
    Ok(Invocation::Run(Box::new(RunOptions {
        layers: flags.layers,
        cwd: flags.cwd,
        verbosity,
        dry_run: flags.dry_run,
        events: flags.events,
        summary: flags.summary,
        fail_on_denied: flags.fail_on_denied,
        events_fds: flags.events_fds,
        events_chain: flags.events_chain,
        monitor: flags.monitor,
        fake_root: flags.fake_root,
        keep_background: flags.keep_background,
        pass_fds: flags.pass_fds,
        command,
    })))
}

/// Words that are no programs of the user: a typed `srt ctl …` must never end up running
/// something else that happens to have the name.
const RESERVED: [&str; 2] = ["proxy", "ctl"];

const SEE_HELP: &str = "srt [flags] [--] command…; srt --help lists the flags";

fn program(words: Vec<OsString>, args: &[OsString]) -> Result<CommandLine> {
    if words.is_empty() {
        return Err(usage("no command given").with_hint(SEE_HELP));
    }
    match reserved(&words, args) {
        Some(word) => Err(usage(format!(
            "`{word}` is reserved for srt itself and this version has no such command"
        ))
        .with_hint(format!("to run a program of that name: srt -- {word} …"))),
        None => Ok(CommandLine::Argv(words)),
    }
}

/// Returns the reserved word that the command position holds, unless `--` stands before it.
fn reserved(words: &[OsString], args: &[OsString]) -> Option<&'static str> {
    let first = words.first()?;
    // Everything after the first word is taken as it is, so the words are the tail of `args`
    // and what stands before them is the last thing that was read as a flag.
    let before = args.len() - words.len();
    let after_dashes = before > 1 && args[before - 1] == "--";
    let word = RESERVED.into_iter().find(|word| first == *word)?;
    (!after_dashes).then_some(word)
}

fn print_or_usage(error: &clap::Error) -> Result<Invocation> {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Invocation::Print(text)),
        ErrorKind::UnknownArgument => {
            let flag = match error.get(ContextKind::InvalidArg) {
                Some(ContextValue::String(flag)) => flag.as_str(),
                _ => "-",
            };
            Err(
                usage(format!("unknown flag {}", quoted(flag))).with_hint(format!(
                    "to run a program whose name starts with a dash: srt -- {flag} …"
                )),
            )
        }
        _ => {
            let line = text.lines().next().unwrap_or_default();
            Err(usage(line.strip_prefix("error: ").unwrap_or(line)).with_hint(SEE_HELP))
        }
    }
}

fn usage(goal: impl Into<String>) -> Error {
    Error::new(Kind::Usage, goal)
}

#[derive(Debug, Parser)]
#[command(
    name = "srt",
    bin_name = "srt",
    version,
    about = "runs a command confined: it writes only where the settings allow, cannot read\n\
             what they hide, and reaches the network only through filtering proxies",
    disable_help_flag = true,
    disable_version_flag = true,
    help_template = "{about}\n\nusage: srt [flags] [--] command [argument…]\n       \
                     srt [flags] -c string [name [argument…]]\n       \
                     srt ctl word …\n\nflags:\n{options}{after-help}",
    after_help = AFTER_HELP
)]
struct Flags {
    /// run a shell string, as sh -c does
    #[arg(short = 'c', value_name = "string", allow_hyphen_values = true, value_hint = ValueHint::CommandString)]
    string: Option<OsString>,

    #[command(flatten)]
    layers: LayerFlags,

    /// directory to run in; relative rules start there
    #[arg(long, value_name = "dir", value_hint = ValueHint::DirPath)]
    cwd: Option<PathBuf>,

    /// print what the kernel would be asked, no more
    #[arg(long)]
    dry_run: bool,

    /// say nothing on standard error but errors
    #[arg(short, long, conflicts_with_all = ["verbose", "debug"])]
    quiet: bool,

    /// say also what is not in force or left out
    #[arg(short, long)]
    verbose: bool,

    /// say also what is decided
    #[arg(short, long)]
    debug: bool,

    /// append what is decided to a file, as JSON lines
    #[arg(long, value_name = "file", value_hint = ValueHint::FilePath)]
    events: Vec<PathBuf>,

    /// write it to descriptor n ≥ 3, for srt alone
    #[arg(long = "events-fd", value_name = "n", value_parser = value_parser!(i32).range(3..))]
    events_fds: Vec<i32>,

    /// chain the lines of those files by their hashes
    #[arg(long, requires = "events")]
    events_chain: bool,

    /// say denials as text, markdown, github, or none
    #[arg(
        long,
        value_name = "form",
        value_enum,
        default_value_t,
        hide_default_value = true,
        hide_possible_values = true
    )]
    summary: Form,

    /// exit with n, or 90, where 0 would hide a denial
    #[arg(long, value_name = "n", num_args = 0..=1, require_equals = true, default_missing_value = "90",
          value_parser = value_parser!(u8).range(1..))]
    fail_on_denied: Option<u8>,

    /// tell of refused reads and of programs too
    #[arg(long)]
    monitor: bool,

    /// be user 0 inside, with no more rights
    #[arg(long)]
    fake_root: bool,

    /// wait for what the command leaves running
    #[arg(long)]
    keep_background: bool,

    /// let the command inherit descriptor n ≥ 3
    #[arg(long = "pass-fd", value_name = "n", value_parser = value_parser!(i32).range(3..))]
    pass_fds: Vec<i32>,

    /// print the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// print this help
    #[arg(short, long, action = ArgAction::Help)]
    help: Option<bool>,

    // Without allow_hyphen_values a flag in first place is an error and not a program name;
    // trailing_var_arg takes all that follows the first word unread.
    #[arg(trailing_var_arg = true, hide = true)]
    words: Vec<OsString>,
}

/// Returns the definition of all that `srt` itself understands, for what is generated from it;
/// the words of the command to run are not part of it.
fn whole_command() -> clap::Command {
    let flags = Flags::command();
    // clap adds the flags for help and version to whatever has none.
    let is_own = |argument: &&clap::Arg| {
        !argument.is_positional() && !["help", "version"].contains(&argument.get_id().as_str())
    };
    let own = flags.get_arguments().filter(is_own);
    clap::Command::new("srt")
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .args(own.cloned())
        .subcommand(ctl::Options::command().name("ctl"))
}

impl Flags {
    fn verbosity(&self) -> Verbosity {
        match self {
            Self { debug: true, .. } => Verbosity::Debug,
            Self { verbose: true, .. } => Verbosity::Verbose,
            Self { quiet: true, .. } => Verbosity::Quiet,
            _ => Verbosity::Warnings,
        }
    }
}

const AFTER_HELP: &str = "\
flags end at the command word: what follows belongs to the command;
those that take a value, but for -c, -s and --cwd, may be repeated

exit status: that of the command; 128+n if signal n ended it
  124  --timeout ended the command
  125  srt could not start the command (usage, settings, system)
  126  the command cannot be executed
  127  the command was not found

examples:
  srt npm test
  srt -s ci.json -c 'make && make check'
  srt --allow-write . --allow-domain example.org make

srt ctl --help lists what else srt does: explain, config, schema, profile, ...
";

#[cfg(test)]
mod tests;
