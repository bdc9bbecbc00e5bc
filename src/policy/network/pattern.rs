//! One entry of `allowedDomains` or `deniedDomains`: how it is written, and what it covers.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use psl::Psl;

use super::hosts::Hosts;
use super::ports::Ports;
use crate::audit::event;
use crate::error::{Error, Result};
use crate::policy::hostname::{Host, Malformed, canonical, split_port};
use crate::policy::path::entry_error;
use crate::settings::Entry;

/// Which list an entry stands in: only a deny list may cover everything, or all sites of
/// everybody who registered below a public suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Allowed,
    Denied,
}

/// One entry, understood.
#[derive(Debug, Clone)]
pub struct Rule {
    hosts: Hosts,
    ports: Ports,
    entry: Entry,
}

impl Rule {
    pub(crate) fn parse(entry: &Entry, list: List) -> Result<Self> {
        let (hosts, ports) = parse(&entry.text, list).map_err(|problem| problem.at(entry))?;
        Ok(Self {
            hosts,
            ports,
            entry: entry.clone(),
        })
    }

    /// Parses an entry of `deniedResolvedAddresses`: an address or a network, without brackets
    /// or port. Bits behind the prefix do not count.
    pub(crate) fn parse_network(entry: &Entry) -> Result<Self> {
        let text = &entry.text;
        let range = match text.split_once('/') {
            Some((address, length)) => address.parse().ok().zip(length.parse().ok()),
            None => text.parse().ok().map(|address: IpAddr| {
                let whole = IpNet::from(address).max_prefix_len();
                (address, whole)
            }),
        };
        let range = range.and_then(|(address, length)| canonical_range(address, length));
        match range {
            Some(range) => Ok(Self {
                hosts: Hosts::Range(range.trunc()),
                ports: Ports::ALL,
                entry: entry.clone(),
            }),
            None => Err(entry_error(entry, "is neither an address nor a network")
                .with_hint("write `10.0.0.5`, `10.0.0.0/8` or `fd00::/8`")),
        }
    }

    /// Tells whether this rule is about that port too.
    pub(super) fn on(&self, port: u16) -> bool {
        self.ports.hold(port)
    }

    /// Tells whether `other` covers every target that this rule covers.
    pub(crate) fn is_covered_by(&self, other: &Self) -> bool {
        other.hosts.hold(&self.hosts) && other.ports.cover(self.ports)
    }

    /// Tells whether this rule is about every port.
    pub(crate) fn is_on_all_ports(&self) -> bool {
        self.ports == Ports::ALL
    }

    pub(super) fn ports(&self) -> Ports {
        self.ports
    }

    pub(super) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// Returns the entry as written if that is ASCII, as texts for clients must be.
    pub(super) fn in_ascii(&self) -> Cow<'_, str> {
        match self.entry.text.is_ascii() {
            true => Cow::Borrowed(&self.entry.text),
            false => Cow::Owned(self.to_string()),
        }
    }

    pub(super) fn describe(&self) -> event::Rule<'_> {
        event::Rule::new(&self.entry.text, &self.entry.origin)
    }

    /// Returns the entry as written.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }
}

/// Returns the rule that covers what both cover; it stands where `outer` does.
pub(crate) fn intersection(outer: &Rule, inner: &Rule) -> Option<Rule> {
    if outer.is_covered_by(inner) {
        return Some(outer.clone());
    }
    let hosts = match outer.hosts.hold(&inner.hosts) {
        true => &inner.hosts,
        false if inner.hosts.hold(&outer.hosts) => &outer.hosts,
        false => return None,
    };
    let ports = outer.ports.shared(inner.ports)?;
    let mut both = Rule {
        hosts: hosts.clone(),
        ports,
        entry: outer.entry.clone(),
    };
    both.entry = outer.entry.with_text(both.to_string());
    Some(both)
}

/// The entry in its canonical spelling, which is ASCII.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hosts.fmt(f)?;
        self.ports.fmt(f)
    }
}

/// What is wrong with an entry, and what to write instead.
struct Problem {
    what: &'static str,
    hint: Cow<'static, str>,
}

impl Problem {
    const fn new(what: &'static str, hint: &'static str) -> Self {
        Self {
            what,
            hint: Cow::Borrowed(hint),
        }
    }

    fn at(&self, entry: &Entry) -> Error {
        entry_error(entry, self.what).with_hint(self.hint.clone())
    }
}

impl From<Malformed> for Problem {
    fn from(Malformed(what): Malformed) -> Self {
        Self::new(
            what,
            "write `name.example`, `*.name.example`, an address, or a network, \
             each with `:port` or `:first-last` if need be",
        )
    }
}

fn parse(text: &str, list: List) -> Result<(Hosts, Ports), Problem> {
    if let Some((address, rest)) = text.split_once('/') {
        if let Some((_, rest)) = text.split_once("://") {
            return Err(host_alone("is a URL, and rules are about hosts", rest));
        }
        let host = split_port(address).map(|(host, _)| Host::parse(host));
        if let Ok(Ok(Host::Name(_))) = host {
            return Err(host_alone("is a host with a path", text));
        }
        return parse_range(address, rest);
    }
    let (host, port) = split_port(text)?;
    let ports = port.map_or(Ok(Ports::ALL), Ports::parse)?;
    Ok((parse_hosts(host, list)?, ports))
}

/// Proposes the host that a URL begins with, where it would be an entry.
fn host_alone(what: &'static str, text: &str) -> Problem {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let host = &text[..end];
    let mut problem = Problem::new(what, "write the host alone, with `:port` if need be");
    if !host.is_empty() && parse(host, List::Allowed).is_ok() {
        problem.hint = format!("write `{host}`").into();
    }
    problem
}

fn parse_hosts(text: &str, list: List) -> Result<Hosts, Problem> {
    if text == "*" {
        return match list {
            List::Denied => Ok(Hosts::Any),
            List::Allowed => Err(Problem::new(
                "would allow every host",
                "list the hosts that are needed; `*.name.example` covers all below one",
            )),
        };
    }
    if let Some(name) = text.strip_prefix("*.") {
        return parse_below(name, list);
    }
    if text.contains('*') {
        return Err(Problem::new(
            "`*` stands for whole labels at the start only",
            "write `*.name.example`",
        ));
    }
    match Host::parse(text)? {
        Host::Ip(address) => Ok(address.into()),
        Host::Name(name) if name == "localhost" || name.contains('.') => Ok(Hosts::Name(name)),
        Host::Name(_) => Err(Problem::new(
            "a single label means another host on every network",
            "write the full name, such as `build.example.org`",
        )),
    }
}

fn parse_below(name: &str, list: List) -> Result<Hosts, Problem> {
    match Host::parse(name)? {
        Host::Ip(_) => Err(Problem::new(
            "a wildcard stands for names, never for addresses",
            "write a network, such as `10.0.0.0/8`",
        )),
        Host::Name(name) if !name.contains('.') => Err(Problem::new(
            "would cover a whole top-level domain",
            "write at least two labels after the star: `*.name.example`",
        )),
        Host::Name(name) if list == List::Allowed && is_public_suffix(&name) => Err(Problem::new(
            "would allow a host of anybody: everyone can register a name directly below that one",
            "list the names that are needed; `*.name` below it is one owner's",
        )),
        Host::Name(name) => Ok(Hosts::Below(format!(".{name}"))),
    }
}

/// Tells whether names directly below this one belong to whoever registers them, by the
/// public suffix list (<https://publicsuffix.org>), its private part included.
fn is_public_suffix(name: &str) -> bool {
    let suffix = psl::List.suffix(name.as_bytes());
    suffix.is_some_and(|suffix| suffix.is_known() && suffix.as_bytes() == name.as_bytes())
}

/// Parses what stands on both sides of a slash: an address, then a length and maybe a port.
fn parse_range(address: &str, rest: &str) -> Result<(Hosts, Ports), Problem> {
    const BAD: Problem = Problem::new(
        "is neither a host nor a network",
        "write a host without a path, or a network such as `10.0.0.0/8` or `[fd00::]/8`",
    );
    let (length, port) = split_port(rest).map_err(|_| BAD)?;
    let ports = port.map_or(Ok(Ports::ALL), Ports::parse)?;
    let bare = address
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'));
    let address: IpAddr = match bare {
        Some(v6) => IpAddr::V6(v6.parse().map_err(|_| BAD)?),
        None => address.parse().map_err(|_| BAD)?,
    };
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BAD);
    }
    let length: u8 = length.parse().map_err(|_| BAD)?;
    let range = canonical_range(address, length).ok_or(BAD)?;
    if range.network() != range.addr() {
        return Err(Problem::new(
            "has bits set behind the prefix",
            "write the first address of the network",
        ));
    }
    Ok((Hosts::Range(range), ports))
}

/// Takes a network of IPv4 in IPv6 clothing as IPv4, as every address asked for is taken.
fn canonical_range(address: IpAddr, length: u8) -> Option<IpNet> {
    let plain = canonical(address);
    let length = match (address, plain) {
        (IpAddr::V6(_), IpAddr::V4(_)) => length.checked_sub(96)?,
        _ => length,
    };
    IpNet::new(plain, length).ok()
}

#[cfg(test)]
mod tests;
