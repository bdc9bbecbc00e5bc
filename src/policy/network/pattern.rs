//! One entry of `allowedDomains` or `deniedDomains`: how it is written, and what it covers.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::audit::event;
use crate::error::{Error, Result};
use crate::policy::hostname::{Host, Malformed, Target, canonical, parse_port, split_port};
use crate::policy::path::entry_error;
use crate::settings::Entry;

/// Which list an entry stands in: only a deny list may cover everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Allowed,
    Denied,
}

/// One entry, understood.
#[derive(Debug)]
pub(super) struct Rule {
    hosts: Hosts,
    port: Option<u16>,
    entry: Entry,
}

#[derive(Debug, PartialEq, Eq)]
enum Hosts {
    Any,
    Name(String),
    /// Names below this suffix, which starts with a dot.
    Below(String),
    Address(IpAddr),
    Range(IpNet),
}

impl Rule {
    pub(super) fn parse(entry: &Entry, list: List) -> Result<Self> {
        let (hosts, port) = parse(&entry.text, list).map_err(|problem| problem.at(entry))?;
        Ok(Self {
            hosts,
            port,
            entry: entry.clone(),
        })
    }

    /// Tells whether the target, as asked for, falls under this rule.
    pub(super) fn covers(&self, target: &Target) -> bool {
        self.port.is_none_or(|port| port == target.port)
            && match (&self.hosts, &target.host) {
                (Hosts::Any, _) => true,
                (Hosts::Name(name), Host::Name(asked)) => name == asked,
                // The dot makes it a whole label; the length keeps an empty one out.
                (Hosts::Below(suffix), Host::Name(asked)) => {
                    asked.len() > suffix.len() && asked.ends_with(suffix.as_str())
                }
                (Hosts::Address(_) | Hosts::Range(_), Host::Ip(asked)) => {
                    self.lists(*asked, target.port)
                }
                _ => false,
            }
    }

    /// Tells whether this rule lists the address itself, rather than a name that leads there.
    pub(super) fn lists(&self, address: IpAddr, port: u16) -> bool {
        self.port.is_none_or(|listed| listed == port)
            && match &self.hosts {
                Hosts::Address(listed) => *listed == address,
                Hosts::Range(range) => range.contains(&address),
                _ => false,
            }
    }

    pub(super) fn describe(&self) -> event::Rule<'_> {
        event::Rule::new(&self.entry.text, &self.entry.origin)
    }

    pub(super) fn entry(&self) -> &Entry {
        &self.entry
    }
}

/// What is wrong with an entry, and what to write instead.
struct Problem {
    what: &'static str,
    hint: &'static str,
}

impl Problem {
    fn at(&self, entry: &Entry) -> Error {
        entry_error(entry, self.what).with_hint(self.hint)
    }
}

impl From<Malformed> for Problem {
    fn from(Malformed(what): Malformed) -> Self {
        Self {
            what,
            hint: "write `name.example`, `*.name.example`, an address, or a network, \
                           each with `:port` if need be",
        }
    }
}

fn parse(text: &str, list: List) -> Result<(Hosts, Option<u16>), Problem> {
    if text.contains("://") {
        return Err(Problem {
            what: "is a URL, and rules are about hosts",
            hint: "write the host alone, with `:port` if need be",
        });
    }
    if let Some((address, rest)) = text.split_once('/') {
        return parse_range(address, rest);
    }
    let (host, port) = split_port(text)?;
    let port = port.map(parse_port).transpose()?;
    Ok((parse_hosts(host, list)?, port))
}

fn parse_hosts(text: &str, list: List) -> Result<Hosts, Problem> {
    if text == "*" {
        return match list {
            List::Denied => Ok(Hosts::Any),
            List::Allowed => Err(Problem {
                what: "would allow every host",
                hint: "list the hosts that are needed; `*.name.example` covers all below one",
            }),
        };
    }
    if let Some(name) = text.strip_prefix("*.") {
        return parse_below(name);
    }
    if text.contains('*') {
        return Err(Problem {
            what: "`*` stands for whole labels at the start only",
            hint: "write `*.name.example`",
        });
    }
    match Host::parse(text)? {
        Host::Ip(address) => Ok(Hosts::Address(address)),
        Host::Name(name) if name == "localhost" || name.contains('.') => Ok(Hosts::Name(name)),
        Host::Name(_) => Err(Problem {
            what: "a single label means another host on every network",
            hint: "write the full name, such as `build.example.org`",
        }),
    }
}

fn parse_below(name: &str) -> Result<Hosts, Problem> {
    match Host::parse(name)? {
        Host::Ip(_) => Err(Problem {
            what: "a wildcard stands for names, never for addresses",
            hint: "write a network, such as `10.0.0.0/8`",
        }),
        Host::Name(name) if name.contains('.') => Ok(Hosts::Below(format!(".{name}"))),
        Host::Name(_) => Err(Problem {
            what: "would cover a whole top-level domain",
            hint: "write at least two labels after the star: `*.name.example`",
        }),
    }
}

/// Parses what stands on both sides of a slash: an address, then a length and maybe a port.
fn parse_range(address: &str, rest: &str) -> Result<(Hosts, Option<u16>), Problem> {
    const BAD: Problem = Problem {
        what: "is neither a host nor a network",
        hint: "write a host without a path, or a network such as `10.0.0.0/8` or `[fd00::]/8`",
    };
    let (length, port) = split_port(rest).map_err(|_| BAD)?;
    let port = port.map(parse_port).transpose()?;
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
        return Err(Problem {
            what: "has bits set behind the prefix",
            hint: "write the first address of the network",
        });
    }
    Ok((Hosts::Range(range), port))
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
