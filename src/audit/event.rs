//! What one event says, and the table of codes it may carry.

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Serialize};

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
    /// A connection to a Unix socket of the host.
    Socket,
    /// A protection the settings switch off.
    Weakening,
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

/// Why, as `kind.subject.cause`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Code {
    /// The sandbox stands and the command is about to start.
    #[serde(rename = "lifecycle.run.start")]
    RunStart,
    /// The command did not run.
    #[serde(rename = "lifecycle.run.refused")]
    RunRefused,
    /// The command ended.
    #[serde(rename = "lifecycle.run.end")]
    RunEnd,
    /// The host is listed and the address passed.
    #[serde(rename = "net.host.listed")]
    HostListed,
    /// No entry of `network.allowedDomains` matches.
    #[serde(rename = "net.host.unlisted")]
    HostUnlisted,
    /// An entry of `network.deniedDomains` matches.
    #[serde(rename = "net.host.denied")]
    HostDenied,
    /// The host or the request cannot be understood in one way only.
    #[serde(rename = "net.request.malformed")]
    RequestMalformed,
    /// The name leads to an address that is out of bounds.
    #[serde(rename = "net.address.denied")]
    AddressDenied,
    /// What is said inside the connection names another host, or none that can be told.
    #[serde(rename = "net.host.mismatch")]
    HostMismatch,
    /// The host is allowed and could not be reached.
    #[serde(rename = "net.upstream.failed")]
    UpstreamFailed,
    /// The request needs something the proxies do not do: UDP, BIND.
    #[serde(rename = "net.command.unsupported")]
    CommandUnsupported,
    /// As many connections are open as `network.limits.connections` allows.
    #[serde(rename = "net.connection.limit")]
    ConnectionLimit,
    /// No entry of `network.allowedDomains` matches the name that was asked for.
    #[serde(rename = "dns.name.unlisted")]
    NameUnlisted,
    /// An entry of `network.deniedDomains` matches the name that was asked for.
    #[serde(rename = "dns.name.denied")]
    NameDenied,
    /// The question is for what is not a host's name.
    #[serde(rename = "dns.query.malformed")]
    QueryMalformed,
    /// The question is for other records than addresses.
    #[serde(rename = "dns.query.type")]
    QueryType,
    /// An entry of `network.allowUnixSockets` covers the socket.
    #[serde(rename = "socket.path.listed")]
    SocketListed,
    /// No entry of `network.allowUnixSockets` covers the socket.
    #[serde(rename = "socket.path.unlisted")]
    SocketUnlisted,
    /// `network.allowAllUnixSockets` opens every socket.
    #[serde(rename = "weakening.sockets.all")]
    SocketsAll,
    /// `network.mode` shares the host's network.
    #[serde(rename = "weakening.network.open")]
    NetworkOpen,
    /// `network.allowPrivateNetworks` lets names lead to private addresses.
    #[serde(rename = "weakening.network.private")]
    NetworkPrivate,
    /// `network.requireHostMatch` is off: requests may name another host than was judged.
    #[serde(rename = "weakening.network.hostmatch")]
    HostsUnmatched,
    /// `filesystem.disabled` switches the rules for files off.
    #[serde(rename = "weakening.filesystem.disabled")]
    FilesOpen,
    /// `filesystem.protectSecrets` shows the stores of secrets.
    #[serde(rename = "weakening.filesystem.secrets")]
    SecretsShown,
    /// `allowNestedUserNamespaces` lets user namespaces be made, without mounts.
    #[serde(rename = "weakening.nesting.userns")]
    NestingUserns,
    /// `allowNestedUserNamespaces` lets mounts be made; Landlock leaves files alone.
    #[serde(rename = "weakening.nesting.mounts")]
    NestingMounts,
    /// A run inside a sandbox, without namespaces of its own.
    #[serde(rename = "weakening.nested.inner")]
    NestedInner,
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

/// The setting that would allow what was refused.
#[derive(Debug, Clone, Serialize)]
pub struct Suggest<'a> {
    /// Key of the settings file.
    pub key: &'static str,
    /// Entry to add to it.
    pub add: &'a str,
}
