//! What one event says.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use super::code::Code;
use crate::settings::Origin;

/// One recorded decision or turn of the run. [`crate::Audit`] adds time, sequence and run id.
#[derive(Debug, Serialize)]
pub struct Event<'a> {
    /// What part of the sandbox speaks.
    pub kind: Kind,
    /// What was attempted: `connect`, `start`, `end`.
    pub op: &'a str,
    /// What it was attempted on: `no.example.org:443`.
    pub target: Option<&'a str>,
    /// How it was decided; `None` where nothing was decided.
    pub verdict: Option<Verdict>,
    /// Why, as `kind.subject.cause`. Never renamed.
    pub code: Code,
    /// The rule that decided, where one did.
    pub rule: Option<Rule<'a>>,
    /// The process that asked; `None` where it cannot be told. Written behind all else, once
    /// the launcher knows it.
    #[serde(skip)]
    pub process: Option<Process>,
    /// The socket it asked over, by its inode, for the launcher to find the process.
    #[serde(skip)]
    pub socket: Option<u64>,
    /// The settings decided it here, and the kernel by itself: it may have come out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub predicted: bool,
    /// The setting that would allow it.
    pub suggest: Option<Suggest<'a>>,
    /// What this kind of event adds, inlined: `asked` and `enforced`, or `status`.
    #[serde(flatten)]
    pub detail: Option<serde_json::Map<String, serde_json::Value>>,
}

impl<'a> Event<'a> {
    /// Starts an event from what it is about; the rest is filled in by struct update.
    pub fn new(kind: Kind, op: &'a str, code: Code) -> Self {
        Self {
            kind,
            op,
            target: None,
            verdict: None,
            code,
            rule: None,
            process: None,
            socket: None,
            predicted: false,
            suggest: None,
            detail: None,
        }
    }
}

/// What part of the sandbox speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Start, refusal and end of a run.
    Lifecycle,
    /// A connection asked of the proxies.
    Net,
    /// A question for a name.
    Dns,
    /// A read or a write of a file that the rules refuse.
    File,
    /// A socket that reaches out otherwise: to a Unix socket of the host, raw, by datagrams.
    Socket,
    /// A program that was started.
    Exec,
    /// A limit that ended the run or a call of it.
    Limit,
    /// A protection the settings switch off.
    Weakening,
}

impl Kind {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Lifecycle,
        Self::Net,
        Self::Dns,
        Self::File,
        Self::Socket,
        Self::Exec,
        Self::Limit,
        Self::Weakening,
    ];
}

/// How it was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It may happen.
    Allowed,
    /// A rule, or the lack of one, refused it.
    Denied,
    /// It was allowed and then failed for another reason.
    Failed,
}

impl Verdict {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Allowed, Self::Denied, Self::Failed];
}

/// The rule that decided, and where it stands.
#[derive(Debug, Clone, Serialize)]
pub struct Rule<'a> {
    /// `network.allowedDomains`
    pub key: &'static str,
    /// The entry as written.
    pub entry: &'a str,
    /// The settings file; `None` for a built-in rule. Bytes that are not UTF-8 are shown as
    /// U+FFFD: JSON has none.
    pub file: Option<Cow<'a, str>>,
    /// Line in it, counted from 1.
    pub line: u32,
}

impl<'a> Rule<'a> {
    /// Points at the entry of a settings file.
    pub fn new(entry: &'a str, origin: &'a Origin) -> Self {
        Self {
            key: origin.key,
            entry,
            file: origin.file.as_deref().map(Path::to_string_lossy),
            line: origin.line,
        }
    }
}

/// The process that asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Process {
    /// Process id as the sandbox sees it.
    pub pid: u32,
    /// Path of its program.
    pub exe: Option<String>,
    /// Its first argument, without what looks like a secret.
    pub arg1: Option<String>,
}

/// The change of settings that would allow what was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suggest<'a> {
    /// Key of the settings file.
    pub key: &'static str,
    /// Entry to add to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<Cow<'a, str>>,
    /// Whether it has to be written as a path that is no pattern.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub literal: bool,
    /// Entry to take out of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<Cow<'a, str>>,
    /// What has to be changed beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Self>,
}

impl<'a> Suggest<'a> {
    /// Suggests to add an entry.
    pub fn adding(key: &'static str, entry: impl Into<Cow<'a, str>>) -> Self {
        Self {
            key,
            add: Some(entry.into()),
            literal: false,
            remove: None,
            also: Vec::new(),
        }
    }

    /// Suggests to take an entry out.
    pub fn removing(key: &'static str, entry: impl Into<Cow<'a, str>>) -> Self {
        Self {
            key,
            add: None,
            literal: false,
            remove: Some(entry.into()),
            also: Vec::new(),
        }
    }
}
