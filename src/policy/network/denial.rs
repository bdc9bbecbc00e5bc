//! What a refusal says: to the client, which must learn no address, and to the event stream.

use std::net::SocketAddr;

use super::pattern::Rule;
use crate::audit::event::{self, Code};
use crate::policy::address;
use crate::policy::hostname::{Host, Target};
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
    suggest: Option<String>,
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

    /// Returns the entry that would allow it, for the event stream only: it may be the address.
    pub fn suggest(&self) -> Option<event::Suggest<'_>> {
        let add = self.suggest.as_deref()?;
        Some(event::Suggest::adding("network.allowedDomains", add))
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
        let message = match (wildcard, &suggest) {
            (Some(wildcard), Some(entry)) => format!(
                "{target} is blocked: `{}` of network.allowedDomains does not cover {} itself; \
                 add `{entry}`",
                wildcard.in_ascii(),
                target.host
            ),
            (_, Some(entry)) => format!(
                "{target} is blocked: no entry of network.allowedDomains matches; \
                 add `{entry}` to allow it"
            ),
            (_, None) => format!(
                "{target} is blocked: no entry of network.allowedDomains matches; \
                 ask for it by its full name"
            ),
        };
        Self {
            code: Code::HostUnlisted,
            proxy_error: BY_LIST,
            rule: None,
            message,
            suggest,
            range: None,
            reason: None,
        }
    }

    /// `reason` is what the settings have to say of that entry.
    pub(super) fn by_rule(target: &Target, rule: &Rule, reason: Option<&str>) -> Self {
        let entry = rule.in_ascii();
        let reason = reason.map(|reason| format!(": {}", in_one_line(reason)));
        let everything = match &*entry {
            "*" => ", which refuses every host whatever network.allowedDomains says",
            _ => "",
        };
        Self {
            code: Code::HostDenied,
            proxy_error: BY_LIST,
            rule: Some(rule.entry().clone()),
            message: format!(
                "{target} is blocked by the entry `{entry}` of network.deniedDomains\
                 {everything}{}; remove that entry to allow it",
                reason.unwrap_or_default()
            ),
            suggest: None,
            range: None,
            reason: None,
        }
    }

    pub(super) fn by_address_rule(target: &Target, rule: &Rule) -> Self {
        Self {
            code: Code::AddressDenied,
            proxy_error: BY_ADDRESS,
            rule: Some(rule.entry().clone()),
            message: format!(
                "{target} is blocked: it resolves to an address that an entry of {} lists",
                rule.entry().origin.key
            ),
            suggest: None,
            range: Some("a listed address"),
            reason: None,
        }
    }

    /// `what` says what was found inside a connection to `target`.
    pub(super) fn mismatch(target: &Target, what: &str) -> Self {
        let reason = format!(
            "{what}; network.requireHostMatch closes what does not name the host it was allowed for"
        );
        Self {
            code: Code::HostMismatch,
            proxy_error: "host-mismatch",
            rule: None,
            message: format!("{target} is blocked: {reason}"),
            suggest: None,
            range: None,
            reason: Some(reason),
        }
    }

    pub(super) fn guarded(target: &Target, range: &'static str, address: SocketAddr) -> Self {
        let switch = match address::is_private(range) {
            true => ", or set network.allowPrivateNetworks,",
            false => "",
        };
        Self {
            code: Code::AddressDenied,
            proxy_error: BY_ADDRESS,
            rule: None,
            message: format!(
                "{target} is blocked: it resolves to {range}; list that address in \
                 network.allowedDomains{switch} to allow it"
            ),
            suggest: Some(address.to_string()),
            range: Some(range),
            reason: None,
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
