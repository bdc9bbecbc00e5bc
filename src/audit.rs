//! The event stream: every verdict, one JSON object a line, and who gets it.

pub mod chain;
pub(crate) mod code;
mod denials;
pub mod event;
mod ignored;
pub(crate) mod line;
mod queue;
mod recorder;
pub mod schema;
mod sender;
mod sinks;
pub mod verbosity;

use std::fmt;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::error::printable;
pub use denials::{Denials, FoundChange, FoundRule, Group};
pub use event::Event;
use event::Process;
pub use ignored::Ignored;
use recorder::Recorder;
pub(crate) use sender::Recorded;
use sender::Sender;
pub use sinks::{FileOptions, Sink};
pub use verbosity::Verbosity;

/// Records events and, under `--debug`, says on stderr what happens.
///
/// Cheap to call where nobody listens, and never waits for a sink: what cannot be kept is
/// counted, and the count is an event. A copy records in the same place.
#[derive(Debug, Clone)]
pub struct Audit {
    target: Target,
    verbosity: Verbosity,
}

#[derive(Debug, Clone)]
enum Target {
    None,
    Recorder(Arc<Recorder>),
    Launcher(Arc<Sender>),
}

impl Audit {
    /// Records nothing.
    pub fn none(verbosity: Verbosity) -> Self {
        Self {
            target: Target::None,
            verbosity,
        }
    }

    /// Counts denials, and gives every event of the run with the name `run` to `sinks`.
    pub fn new(run: &str, sinks: Vec<Sink>, verbosity: Verbosity) -> Self {
        Self {
            target: Target::Recorder(Arc::new(Recorder::new(run, sinks))),
            verbosity,
        }
    }

    /// Returns one for another process, which sends what it records over `line`, a
    /// SOCK_SEQPACKET, to the launcher; where nobody records, it is closed.
    #[must_use]
    pub fn sent_over(&self, line: OwnedFd) -> Self {
        let target = match &self.target {
            Target::None => Target::None,
            _ => Target::Launcher(Arc::new(Sender::new(line, self.is_recording()))),
        };
        Self {
            target,
            verbosity: self.verbosity,
        }
    }

    /// Gives each sink a thread of its own. Until then whoever records writes.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(&self) -> io::Result<()> {
        match &self.target {
            Target::Recorder(recorder) => recorder.start(),
            _ => Ok(()),
        }
    }

    /// Has every sink write what it holds, for a few seconds at most.
    pub fn finish(&self) {
        if let Target::Recorder(recorder) = &self.target {
            recorder.finish();
        }
    }

    /// Leaves denials out of all that is reported from here on.
    pub fn leave_out(&self, ignored: Ignored) {
        if let Target::Recorder(recorder) = &self.target {
            recorder.leave_out(ignored);
        }
    }

    /// Returns what was denied so far.
    pub fn denials(&self) -> Denials {
        match &self.target {
            Target::Recorder(recorder) => recorder.denials(),
            _ => Denials::default(),
        }
    }

    /// Returns the files that sinks write.
    pub fn paths(&self) -> Vec<PathBuf> {
        match &self.target {
            Target::Recorder(recorder) => recorder.paths(),
            _ => Vec::new(),
        }
    }

    /// Tells whether a sink wants every event. Denials are wanted in any run.
    pub fn is_recording(&self) -> bool {
        match &self.target {
            Target::None => false,
            Target::Recorder(recorder) => recorder.has_sinks(),
            Target::Launcher(sender) => sender.sends_all(),
        }
    }

    /// Returns how much is said on stderr.
    pub fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Records one event. A sink that fails is said once on stderr, and the run goes on: an
    /// event is a report, never a decision.
    pub fn record(&self, event: &Event<'_>) {
        let _recorded = self.record_attributed(event);
    }

    /// Records one event, and tells when the process that holds its socket has been found, for
    /// which that has to be there still.
    pub(crate) fn record_attributed(&self, event: &Event<'_>) -> Recorded {
        match &self.target {
            Target::None => Recorded::default(),
            Target::Recorder(recorder) => {
                recorder.record(event);
                Recorded::default()
            }
            Target::Launcher(sender) => sender.record(event),
        }
    }

    /// Records an event that one of our own processes sent with [`Audit::sent_over`].
    /// `owner_of` finds the process that holds a socket. Returns the answer that the sender
    /// waits for.
    fn record_received(
        &self,
        datagram: &[u8],
        owner_of: &dyn Fn(u64) -> Option<Process>,
    ) -> Option<u32> {
        match &self.target {
            Target::Recorder(recorder) => recorder.record_received(datagram, owner_of),
            _ => None,
        }
    }

    /// Prints lines to stderr under `--debug`: `srt: debug: …`.
    pub fn debug(&self, lines: fmt::Arguments<'_>) {
        self.say(Verbosity::Debug, || {
            let text = format!("debug: {lines}");
            let lines: Vec<_> = text.lines().map(printable).collect();
            lines.join("\n")
        });
    }

    /// Prints one line to stderr under `--verbose`.
    pub fn verbose(&self, line: fmt::Arguments<'_>) {
        self.say(Verbosity::Verbose, || printable(&line.to_string()));
    }

    /// Prints one line to stderr unless it is to be quiet: `srt: warning: …`.
    pub fn warn(&self, line: fmt::Arguments<'_>) {
        self.say(Verbosity::Warnings, || {
            printable(&format!("warning: {line}"))
        });
    }

    fn say(&self, from: Verbosity, text: impl FnOnce() -> String) {
        if self.verbosity >= from {
            // A closed stderr must not end the run.
            drop(writeln!(io::stderr(), "srt: {}", text()));
        }
    }
}

/// Says on stderr what became of events.
fn complain(what: fmt::Arguments<'_>) {
    // A closed stderr must not end the run.
    drop(writeln!(
        io::stderr(),
        "srt: warning: {}",
        printable(&what.to_string())
    ));
}

pub(crate) fn now() -> String {
    let now = OffsetDateTime::now_utc();
    // Microseconds, always six digits, so that lines sort as text.
    let micros = now.microsecond();
    let seconds = now.replace_nanosecond(0).unwrap_or(now);
    let text = seconds.format(&Rfc3339).unwrap_or_default();
    format!("{}.{micros:06}Z", text.trim_end_matches('Z'))
}
