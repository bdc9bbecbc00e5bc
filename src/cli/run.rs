//! `srt CMD`: from the flags to the end of the command.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Write;
use std::os::fd::RawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use nix::fcntl::OFlag;

use super::history::Run;
use super::{CommandLine, Form, RunOptions, ctl, sinks, summary};
use crate::audit::{Audit, Denials, Verbosity};
use crate::backend::{Command, Observed, Outcome};
use crate::error::{Error, Kind, Result};
use crate::policy::Host;
use crate::sandbox::{self, events};

/// Runs the command that `options` ask for and returns how it ended.
///
/// # Errors
/// The command did not run; see [`sandbox::run`].
pub fn run(options: RunOptions) -> Result<Outcome> {
    // Before anything is opened: a number that is free now would be taken by a file of ours,
    // and that one passed.
    sandbox::check_kept(&options.pass_fds, "--pass-fd 3 CMD 3<file")?;
    sandbox::check_kept(&options.events_fds, "--events-fd 3 CMD 3>>file")?;
    let mut host = Host::read()?;
    let caller_cwd = host.cwd.clone();
    let verbosity = verbosity(&options, &host);
    let run_id = run_id()?;
    let entered = options.cwd.as_deref().map_or(Ok(()), |cwd| host.enter(cwd));
    let settings = entered.and_then(|()| options.layers.load(&host, &caller_cwd));
    // Likewise: a job server that is gone is told by its numbers alone.
    let mut command = command(options.command.clone(), options.pass_fds.clone(), &host);
    command.fake_root = options.fake_root;
    command.keep_background = options.keep_background;
    command.observed = match sinks::are_asked_for(&options, settings.as_ref().ok()) {
        _ if options.monitor => Observed::Everything,
        true => Observed::Writes,
        false => Observed::Nothing,
    };
    if options.dry_run {
        let audit = Audit::none(verbosity);
        ctl::print(&sandbox::dry_run(&settings?, &host, &command, &audit)?)?;
        return Ok(Outcome::Exited(0));
    }
    let files = settings
        .as_ref()
        .map_or_else(|_| Vec::new(), |settings| settings.files.clone());
    let (sinks, settings) = sinks::open(&options, settings, &host, &caller_cwd, &command.keep_fds)?;
    let audit = Audit::new(&run_id, sinks, verbosity);
    let step_summary = match options.summary {
        Form::Github => host.var("GITHUB_STEP_SUMMARY").and_then(step_summary),
        _ => None,
    };
    let ran = sandbox::run(settings, &host, &command, &audit);
    audit.finish();
    let denials = audit.denials();
    if !denials.is_empty() {
        let program = events::program(&command);
        let run = Run::new(&run_id, program, &host, &denials).under(&files, &caller_cwd);
        if let Err(error) = run.keep(&host) {
            audit.verbose(format_args!("cannot keep what was denied: {error}"));
        }
    }
    let outcome = ran.map_err(|error| match own_word(&error, &command) {
        Some(word) => error.with_hint(format!("srt's own word is `srt ctl {word}`")),
        None => error,
    });
    let outcome = outcome.map(|outcome| match (outcome, options.fail_on_denied) {
        (Outcome::Exited(0), Some(code)) if !denials.is_empty() => Outcome::Exited(code),
        (outcome, _) => outcome,
    });
    if !denials.is_empty() && audit.verbosity() > Verbosity::Quiet {
        let has_failed = !matches!(outcome, Ok(Outcome::Exited(0)));
        say(options.summary, &denials, has_failed, step_summary);
    }
    outcome
}

/// Says what was denied, on standard error and where GitHub Actions shows it.
fn say(form: Form, denials: &Denials, has_failed: bool, step_summary: Option<File>) {
    let said = match form {
        Form::None => return,
        Form::Text => summary::text(denials),
        Form::Markdown => summary::markdown(denials),
        Form::Github => {
            let table = summary::markdown(denials);
            let kept = step_summary.map(|mut file| file.write_all(table.as_bytes()));
            let annotations = summary::annotations(denials, has_failed);
            match kept {
                Some(Ok(())) => annotations,
                _ => annotations + &table,
            }
        }
    };
    // A closed stderr must not end the run.
    drop(std::io::stderr().write_all(said.as_bytes()));
}

/// Opens the file that GitHub Actions shows, before the command can put a link or a FIFO in its
/// place. What is no file to append to gets nothing: all is said on standard error then.
fn step_summary(file: &OsStr) -> Option<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = File::options()
        .append(true)
        .create(true)
        .custom_flags(flags.bits())
        .open(file)
        .ok()?;
    file.metadata().ok().filter(Metadata::is_file).map(|_| file)
}

/// Returns the word of `srt ctl` that a program which was not found has the name of.
fn own_word<'a>(error: &Error, command: &'a Command) -> Option<&'a str> {
    let word = command.argv.first()?.to_str()?;
    let is_own = error.kind() == Kind::NotFound && command.shell_string.is_none();
    (is_own && ctl::is_word(word)).then_some(word)
}

fn verbosity(options: &RunOptions, host: &Host) -> Verbosity {
    match host.var("SRT_DEBUG") {
        Some(_) if options.verbosity != Verbosity::Quiet => Verbosity::Debug,
        _ => options.verbosity,
    }
}

fn run_id() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(Kind::Launch, "cannot name the run")
            .call("getrandom", std::io::Error::other(error))
    })?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

fn command(line: CommandLine, pass_fds: Vec<RawFd>, host: &Host) -> Command {
    let mut command = Command::default();
    match line.or_shell_string(|word| host.is_program(word)) {
        CommandLine::Argv(words) => command.argv = words,
        CommandLine::Shell { string, args } => {
            command.shell_string = Some(string);
            command.argv = args;
        }
    }
    command.keep_fds = pass_fds;
    match host.var("MAKEFLAGS").and_then(job_server) {
        Some(JobServer::Pipes(fds)) if fds.into_iter().all(Host::is_pipe) => {
            command.keep_fds.extend(fds);
        }
        Some(JobServer::Fifo(path)) => command.job_server = Some(path),
        _ => {}
    }
    command.keep_fds.sort_unstable();
    command.keep_fds.dedup();
    command
}

/// How a make that runs `srt` shares its job slots; see the GNU make manual, "POSIX Jobserver".
#[derive(Debug, PartialEq, Eq)]
enum JobServer {
    Pipes([RawFd; 2]),
    Fifo(PathBuf),
}

fn job_server(flags: &OsStr) -> Option<JobServer> {
    // The last one counts: a nested make appends its own.
    let words = flags.as_encoded_bytes().split(|&byte| byte == b' ');
    let mut values = words.filter_map(|word| {
        let rest = word.strip_prefix(b"--jobserver-auth=");
        rest.or_else(|| word.strip_prefix(b"--jobserver-fds="))
    });
    let value = values.next_back()?;
    if let Some(path) = value.strip_prefix(b"fifo:") {
        use std::os::unix::ffi::OsStringExt;
        return Some(JobServer::Fifo(OsString::from_vec(path.to_vec()).into()));
    }
    let (read, write) = std::str::from_utf8(value).ok()?.split_once(',')?;
    Some(JobServer::Pipes([read.parse().ok()?, write.parse().ok()?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_job_server_of_makeflags_counts() {
        let flags = OsStr::new(" -j4 --jobserver-fds=3,4 --jobserver-auth=5,6");
        assert_eq!(job_server(flags), Some(JobServer::Pipes([5, 6])));
    }

    #[test]
    fn a_job_server_can_be_a_named_fifo() {
        let flags = OsStr::new("-j --jobserver-auth=fifo:/tmp/GMfifo7");
        assert_eq!(
            job_server(flags),
            Some(JobServer::Fifo("/tmp/GMfifo7".into()))
        );
    }

    #[test]
    fn makeflags_without_a_job_server_pass_nothing() {
        assert_eq!(job_server(OsStr::new("-k -j1")), None);
        assert_eq!(job_server(OsStr::new("--jobserver-auth=x,y")), None);
    }
}
