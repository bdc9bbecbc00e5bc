//! Host names and ports as text, in one canonical form for settings and requests alike.
//!
//! Judges no host: two spellings of one destination become equal here, and nothing else does.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where a connection is to go.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target {
    /// The host, canonical.
    pub host: Host,
    /// The port, never 0.
    pub port: u16,
}

/// A host in its one canonical spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A DNS name: lower case ASCII, no trailing dot. Only [`Host::parse`] makes a canonical one.
    Name(String),
    /// An address; IPv4 in IPv6 clothing is IPv4.
    Ip(IpAddr),
}

/// Why a text is not a host or a target. Never repeats the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl Target {
    /// Joins a host and a port.
    ///
    /// # Errors
    /// The port is 0, which nothing can listen on.
    pub fn new(host: Host, port: u16) -> Result<Self, Malformed> {
        match port {
            0 => Err(Malformed("port 0 cannot be reached")),
            port => Ok(Self { host, port }),
        }
    }

    /// Parses `host`, `host:port`, `[v6]` or `[v6]:port`; without `default_port` the port must
    /// be there.
    ///
    /// # Errors
    /// The text can be understood in no way, or in more than one.
    pub fn parse(text: &str, default_port: Option<u16>) -> Result<Self, Malformed> {
        let (host, port) = split_port(text)?;
        let host = Host::parse(host)?;
        match port {
            Some(port) => Self::new(host, parse_port(port)?),
            None => Self::new(host, default_port.ok_or(Malformed("the port is missing"))?),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Host {
    /// Parses a name in any script, an IPv4 address in any spelling of the URL standard, or
    /// `[v6]`. The one way from text to host, for entries of the settings and for requests.
    ///
    /// # Errors
    /// The text is no host, or holds anything that another parser may take for a separator.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner
                .strip_suffix(']')
                .ok_or(Malformed("the bracket of the IPv6 address is not closed"))?;
            return parse_v6(inner).map(Self::from);
        }
        let ascii = to_ascii(text)?;
        check_characters(&ascii)?;
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        check_labels(name)?;
        if ends_in_number(name) {
            return parse_v4(name).map(|address| Self::Ip(address.into()));
        }
        Ok(Self::Name(name.to_owned()))
    }

    /// Tells whether this is `localhost` or a name below it, which lead to loopback only.
    pub fn is_localhost(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Self::Ip(_) => false,
        }
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Ip(canonical(address))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(address)) => address.fmt(f),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

/// Splits a port off. A second colon outside brackets is refused, not guessed at.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<&str>), Malformed> {
    if let Some(end) = text.strip_prefix('[').and_then(|inner| inner.find(']')) {
        let (host, rest) = text.split_at(end + 2);
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(Malformed(
                "only a port may follow the bracket of an IPv6 address",
            )),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Err(Malformed("an IPv6 address needs brackets")),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

/// Parses 1 to 65535 in decimal, without sign or leading zero.
pub(super) fn parse_port(text: &str) -> Result<u16, Malformed> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || text.starts_with('0') {
        return Err(Malformed("the port is not a number from 1 to 65535"));
    }
    text.parse()
        .map_err(|_| Malformed("the port is not a number from 1 to 65535"))
}

/// Turns IPv4 in IPv6 clothing (mapped, or the old compatible form) into IPv4.
pub(super) fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, _, _] => IpAddr::V4(low_v4(v6)),
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        [0, 0, 0, 0, 0, 0, _, _] => IpAddr::V4(low_v4(v6)),
        _ => address,
    }
}

/// Returns the IPv4 address in the last four bytes.
pub(super) fn low_v4(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

fn parse_v6(text: &str) -> Result<IpAddr, Malformed> {
    if text.contains('%') {
        return Err(Malformed("an IPv6 zone is not accepted"));
    }
    let address: Ipv6Addr = text
        .parse()
        .map_err(|_| Malformed("the text in brackets is not an IPv6 address"))?;
    Ok(canonical(address.into()))
}

/// Takes a name to lower case ASCII as URLs do: UTS #46 without transitional rules, so that
/// `ß` stays itself. An `xn--` label that no name encodes to is refused.
fn to_ascii(text: &str) -> Result<Cow<'_, str>, Malformed> {
    if is_plain(text) {
        return Ok(Cow::Borrowed(text));
    }
    // What comes out is checked more strictly than any of idna's own lists would.
    idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::EMPTY).map_err(|_| {
        Malformed("the host holds a character or an `xn--` label that no international name has")
    })
}

/// Tells whether a name is its own ASCII form, as most of ten thousand entries are.
fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    text.bytes().all(plain) && !text.as_bytes().windows(4).any(|part| part == b"xn--")
}

/// Lets letters, digits, `-`, `_` and `.` through. Everything else is either a separator to
/// some parser (`@`, `\`, `#`, `;`, `,`, `%`), or a way to break a log line.
fn check_characters(text: &str) -> Result<(), Malformed> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.bytes().all(good) {
        return Ok(());
    }
    Err(Malformed(match text.contains('@') {
        true => "user and password are not accepted in a host",
        false => "the host holds a character that no host name has",
    }))
}

fn check_labels(name: &str) -> Result<(), Malformed> {
    if name.is_empty() {
        return Err(Malformed("the host is empty"));
    }
    if name.len() > MAX_NAME {
        return Err(Malformed("the host is longer than 253 characters"));
    }
    for label in name.as_bytes().split(|byte| *byte == b'.') {
        if label.is_empty() {
            return Err(Malformed("the host has an empty label"));
        }
        if label.len() > MAX_LABEL {
            return Err(Malformed(
                "a label of the host is longer than 63 characters",
            ));
        }
    }
    Ok(())
}

/// Tells whether the URL standard reads this as IPv4: resolvers do, so `0x7f.1` is no name.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let hex = last.strip_prefix("0x");
    last.bytes().all(|byte| byte.is_ascii_digit())
        || hex.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Parses one to four parts, each decimal, octal (`0…`) or hex (`0x…`); the last fills the rest.
fn parse_v4(text: &str) -> Result<Ipv4Addr, Malformed> {
    const BAD: Malformed = Malformed("the host ends in a number and is not an IPv4 address");
    let mut parts = Vec::with_capacity(4);
    for part in text.split('.') {
        parts.push(parse_v4_part(part).ok_or(BAD)?);
    }
    let (last, first) = parts.split_last().ok_or(BAD)?;
    if first.len() > 3 || first.iter().any(|part| *part > 255) {
        return Err(BAD);
    }
    let mut address = 0;
    for (part, shift) in first.iter().zip([24, 16, 8]) {
        address |= part << shift;
    }
    let room = [u32::MAX, 0x00ff_ffff, 0xffff, 0xff][first.len()];
    if *last > room {
        return Err(BAD);
    }
    Ok(Ipv4Addr::from(address | last))
}

fn parse_v4_part(part: &str) -> Option<u32> {
    let (digits, radix) = match part.strip_prefix("0x") {
        Some("") => return Some(0),
        Some(hex) => (hex, 16),
        None if part.len() > 1 && part.starts_with('0') => (&part[1..], 8),
        None => (part, 10),
    };
    // `from_str_radix` takes a sign, which no host has: `check_characters` let none through but
    // `-`, and an unsigned number refuses that.
    u32::from_str_radix(digits, radix).ok()
}

const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

#[cfg(test)]
#[path = "hostname/tests.rs"]
mod tests;
