//! The lifecycle events of a run, and what is said on stderr before it.

use serde_json::{Map, Value, json};

use crate::audit::Audit;
use crate::audit::event::{Code, Event, Kind, Verdict};
use crate::backend::{Command, Outcome, Report};
use crate::error::Result;
use crate::policy::Policy;
use crate::settings::Settings;

/// Says what the caller should know before the command runs.
pub(super) fn warn(settings: &Settings, policy: &Policy, audit: &Audit) {
    for warning in settings.warnings.iter().chain(policy.filesystem.warnings()) {
        audit.warn(format_args!("{warning}"));
    }
    for (key, note) in settings.notes() {
        audit.verbose(format_args!("`{key}` {note}"));
    }
    for note in policy.notes.iter().chain(policy.filesystem.notes()) {
        audit.verbose(format_args!("{note}"));
    }
    for dropped in policy.environment.dropped() {
        audit.verbose(format_args!("{dropped}"));
    }
}

/// Records each protection that the settings switch off, and says it.
pub(super) fn record_weakenings(policy: &Policy, audit: &Audit) {
    if policy.sockets.all_are_open() {
        let key = "network.allowAllUnixSockets";
        audit.warn(format_args!(
            "`{key}` opens every Unix socket of the host: its agents and services can act for the command"
        ));
        audit.record(&Event {
            target: Some(key),
            ..Event::new(Kind::Weakening, "start", Code::SocketsAll)
        });
    }
}

/// Records that the sandbox stands, with what was asked and what is in force.
pub(super) fn record_start(audit: &Audit, command: &Command, report: &Report) {
    let program = program(command);
    audit.debug(format_args!("enforced {}", json!(report.enforced)));
    audit.record(&Event {
        target: Some(&program),
        detail: Some(details(json!(report))),
        ..Event::new(Kind::Lifecycle, "start", Code::RunStart)
    });
}

/// Records how the run ended: the command's status, or why it did not run.
pub(super) fn record_end(audit: &Audit, result: &Result<Outcome>) {
    match result {
        Ok(outcome) => {
            let detail = match outcome {
                Outcome::Exited(status) => json!({ "status": status }),
                Outcome::Signaled(signal) => json!({ "signal": signal }),
            };
            audit.record(&Event {
                detail: Some(details(detail)),
                ..Event::new(Kind::Lifecycle, "end", Code::RunEnd)
            });
        }
        Err(error) => audit.record(&Event {
            verdict: Some(Verdict::Denied),
            detail: Some(details(json!({
                "status": error.exit_code(),
                "reason": error.to_string(),
                "hint": error.hint(),
            }))),
            ..Event::new(Kind::Lifecycle, "start", Code::RunRefused)
        }),
    }
}

/// The program alone: arguments may hold secrets.
fn program(command: &Command) -> String {
    match (&command.shell_string, command.argv.first()) {
        (Some(_), _) => "shell string".to_owned(),
        (None, Some(word)) => word.to_string_lossy().into_owned(),
        (None, None) => String::new(),
    }
}

fn details(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => Map::from_iter([("detail".to_owned(), other)]),
    }
}
