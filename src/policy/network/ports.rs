//! The ports that one entry is about.

use std::fmt;

use crate::policy::hostname::{Malformed, parse_port};

/// Ports from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    first: u16,
    last: u16,
}

impl Ports {
    /// Every port there is.
    pub(super) const ALL: Self = Self {
        first: 1,
        last: u16::MAX,
    };

    /// Parses `443` or `8000-8099`.
    pub(super) fn parse(text: &str) -> Result<Self, Malformed> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let ports = Self {
            first: parse_port(first)?,
            last: parse_port(last)?,
        };
        match ports.first <= ports.last {
            true => Ok(ports),
            false => Err(Malformed("the range of ports ends before it starts")),
        }
    }

    pub(super) fn first(self) -> u16 {
        self.first
    }

    /// Returns the lowest port above these.
    pub(super) fn after(self) -> Option<u16> {
        self.last.checked_add(1)
    }

    /// Lists the ports of a short range; a long one means many, not each of them.
    pub(super) fn if_few(self) -> impl Iterator<Item = u16> {
        const FEW: u16 = 16;
        let is_short = self.last - self.first < FEW;
        (self.first..=self.last).filter(move |_| is_short)
    }

    pub(super) fn hold(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Tells whether every port of `other` is one of these.
    pub(super) fn cover(self, other: Self) -> bool {
        self.hold(other.first) && self.hold(other.last)
    }

    /// Returns the ports that both have.
    pub(super) fn shared(self, other: Self) -> Option<Self> {
        let first = self.first.max(other.first);
        let last = self.last.min(other.last);
        (first <= last).then_some(Self { first, last })
    }
}

/// As an entry says it, behind the host.
impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ALL => Ok(()),
            Self { first, last } if first == last => write!(f, ":{first}"),
            Self { first, last } => write!(f, ":{first}-{last}"),
        }
    }
}
