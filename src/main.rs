//! Parses the command line, runs the command, prints one message and sets the exit status.

use std::io::{self, Write};
use std::process::ExitCode;

use sandbox_runtime::cli::{self, Invocation};
use sandbox_runtime::error::{Error, Kind};

fn main() -> ExitCode {
    if let Err(error) = cli::check_stack() {
        return report(&error);
    }
    match cli::parse(std::env::args_os()) {
        Ok(Invocation::Print(text)) => print(&text),
        Ok(Invocation::Run(options)) => match cli::run::run(*options) {
            Ok(outcome) => outcome.exit_code().into(),
            Err(error) => report(&error),
        },
        Ok(Invocation::Ctl(options)) => match cli::ctl::run(&options) {
            Ok(answer) => answer.exit_code().into(),
            Err(error) => report(&error),
        },
        // The library may come to know more words than this program.
        Ok(_) => report(&Error::new(Kind::Usage, "this command is not known here")),
        Err(error) => report(&error),
    }
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        // `srt --help | head -1` is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => 125.into(),
        _ => ExitCode::SUCCESS,
    }
}

fn report(error: &Error) -> ExitCode {
    // Where stderr is closed or full, the status alone has to tell.
    drop(io::stderr().write_all(error.report().as_bytes()));
    error.exit_code().into()
}
