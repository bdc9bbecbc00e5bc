//! What a refusal says: to the client, which must learn no address, and to the event stream.

use std::net::SocketAddr;

use super::pattern::Rule;
use crate::audit::event::{self, Code};
use crate::policy::address;
use crate::policy::change::Change;
use crate::policy::hostname::{Host, Target};
use crate::policy::message::Facts;
use crate::settings::Entry;

/// Why a target must not be reached, and what would change that.
#[derive(Debug, Clone)]
pub struct Denial {
    /// Why, as the events say it.
    pub code: Code,
    /// The value of `X-Proxy-Error`, by which a client tells us from the host it asked for.
    pub proxy_error: &'static str,
    rule: Option<Entry>,
    message: String,
    changes: Vec<Change>,
    range: Option<&'static str>,
    reason: Option<String>,
}

const BY_LIST: &str = "blocked-by-allowlist";
const BY_ADDRESS: &str = "blocked-by-sandbox-runtime";

impl Denial {
    /// Returns one line for the client: host, rule, and the setting that decides. Printable
    /// ASCII; holds no address the client did not name itself.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the rule that refused, where one did.
    pub fn rule(&self) -> Option<event::Rule<'_>> {
        self.rule
            .as_ref()
            .map(|entry| event::Rule::new(&entry.text, &entry.origin))
    }

    /// Returns the entry that refused, where one did.
    pub fn entry(&self) -> Option<&Entry> {
        self.rule.as_ref()
    }

    /// Returns what would allow it, for the event stream only: it may be the address.
    pub fn suggest(&self) -> Option<event::Suggest<'_>> {
        Change::suggest(&self.changes)
    }

    /// Returns what kind of address the name led to, where that is the reason.
    pub fn range(&self) -> Option<&'static str> {
        self.range
    }

    /// Returns what was said inside the connection, where that is the reason.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// `wildcard` is a rule for the names below the one asked for.
    pub(super) fn unlisted(target: &Target, wildcard: Option<&Rule>) -> Self {
        let suggest = entry_for(target, wildcard);
        let reason = wildcard.map(|wildcard| {
            format!(
                "`{}` of network.allowedDomains does not cover {} itself",
                wildcard.in_ascii(),
                target.host
            )
        });
        let remedy = match &suggest {
            Some(entry) => format!("add `{entry}` to allow it"),
            None => "ask for it by its full name".to_owned(),
        };
        Self::new(Code::HostUnlisted, BY_LIST, target, None, reason, &remedy)
    }

    /// `reason` is what the settings have to say of that entry.
    pub(super) fn by_rule(target: &Target, rule: &Rule, reason: Option<&str>) -> Self {
        let reason = reason.map(in_one_line);
        let remedy = "remove that entry to allow it";
        let rule = Some(rule);
        Self::new(Code::HostDenied, BY_LIST, target, rule, reason, remedy)
    }

    pub(super) fn by_address_rule(target: &Target, rule: &Rule) -> Self {
        Self {
            range: Some("a listed address"),
            changes: vec![Change::remove(rule.entry())],
            ..Self::new(
                Code::AddressDenied,
                BY_ADDRESS,
                target,
                Some(rule),
                None,
                "",
            )
        }
    }

    /// `what` says what was found inside a connection to `target`.
    pub(super) fn mismatch(target: &Target, what: &str) -> Self {
        let reason = format!(
            "{what}; network.requireHostMatch closes what does not name the host it was allowed for"
        );
        let (code, error) = (Code::HostMismatch, "host-mismatch");
        Self::new(code, error, target, None, Some(reason), "")
    }

    pub(super) fn guarded(target: &Target, range: &'static str, address: SocketAddr) -> Self {
        let switch = match address::is_private(range) {
            true => ", or set network.allowPrivateNetworks,",
            false => "",
        };
        let remedy = format!("list that address in network.allowedDomains{switch} to allow it");
        let reason = Some(range.to_owned());
        Self {
            changes: vec![Change::Add {
                key: "network.allowedDomains",
                entry: address.to_string(),
                literal: false,
            }],
            range: Some(range),
            reason: None,
            ..Self::new(
                Code::AddressDenied,
                BY_ADDRESS,
                target,
                None,
                reason,
                &remedy,
            )
        }
    }

    /// Adds what would turn the verdict round.
    pub(super) fn with_changes(self, changes: Vec<Change>) -> Self {
        Self { changes, ..self }
    }

    fn new(
        code: Code,
        proxy_error: &'static str,
        target: &Target,
        rule: Option<&Rule>,
        reason: Option<String>,
        remedy: &str,
    ) -> Self {
        let entry = rule.map(Rule::in_ascii);
        let key = rule.map(|rule| rule.entry().origin.key);
        let facts = Facts {
            code,
            target: &target.to_string(),
            rule: key.zip(entry.as_deref()),
            reason: reason.as_deref(),
        };
        Self {
            code,
            proxy_error,
            message: facts.message(remedy),
            rule: rule.map(|rule| rule.entry().clone()),
            changes: Vec::new(),
            range: None,
            reason,
        }
    }
}

/// Takes a text to what a status line may hold: printable ASCII, and no longer than clients
/// show.
fn in_one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let plain = |c: char| match c {
        ' '..='~' => c,
        c if c.is_whitespace() => ' ',
        _ => '?',
    };
    let mut line: String = text.chars().take(LONGEST).map(plain).collect();
    if text.chars().nth(LONGEST).is_some() {
        line += "...";
    }
    line
}

/// Returns the entry that would allow a target: as wide in ports as a wildcard beside it. A
/// single label cannot be listed, so that suggesting it would lead nowhere.
pub(super) fn entry_for(target: &Target, wildcard: Option<&Rule>) -> Option<String> {
    let listable = match &target.host {
        Host::Name(name) => name == "localhost" || name.contains('.'),
        Host::Ip(_) => true,
    };
    let on_any_port = wildcard.is_some_and(|rule| rule.is_on_all_ports());
    listable.then(|| match on_any_port {
        true => target.host.to_string(),
        false => target.to_string(),
    })
}
