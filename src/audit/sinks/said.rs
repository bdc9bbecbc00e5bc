//! What an event says to those who take no JSON.

use std::borrow::Cow;

use serde::Deserialize;

use super::super::recorder::Line;
use crate::audit::event::{Code, Process};
use crate::error::printable;

/// What is read of a line.
#[derive(Debug, Deserialize)]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    pub(super) time: Cow<'a, str>,
    pub(super) seq: u64,
    #[serde(borrow)]
    pub(super) run: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) op: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) target: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) verdict: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) code: Cow<'a, str>,
    process: Option<Process>,
}

/// How much it matters; the numbers are those of syslog(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    Error = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
}

impl<'a> Said<'a> {
    pub(super) fn of(line: &'a Line) -> std::io::Result<Self> {
        Ok(serde_json::from_str(&line.text)?)
    }

    pub(super) fn severity(&self) -> Severity {
        let is = |code: Code| self.code == code.name();
        match self.verdict.as_deref() {
            _ if is(Code::RunRefused) => Severity::Error,
            _ if is(Code::EventsDropped) => Severity::Warning,
            Some("denied" | "failed") => Severity::Warning,
            _ if self.kind == "weakening" => Severity::Notice,
            _ => Severity::Info,
        }
    }

    /// Returns it in one line, without a control character of a name.
    pub(super) fn message(&self) -> String {
        let verdict = self
            .verdict
            .as_deref()
            .map(|verdict| format!("{verdict}: "));
        let target = self.target.as_deref().map(|target| format!(" {target}"));
        let exe = self
            .process
            .as_ref()
            .and_then(|process| process.exe.as_deref());
        let exe = exe.map(|exe| format!(" by {exe}"));
        printable(&format!(
            "{}{} {}{} ({}){}",
            verdict.unwrap_or_default(),
            self.kind,
            self.op,
            target.unwrap_or_default(),
            self.code,
            exe.unwrap_or_default()
        ))
    }
}
