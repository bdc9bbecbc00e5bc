//! Sets of hosts. Of any two, one holds the other or they share nothing, so that all sets
//! that hold a given one form a single line upwards.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::policy::hostname::Host;

/// The hosts that one entry is about, whatever the port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Hosts {
    /// Every name and every address.
    Any,
    /// One name, canonical.
    Name(String),
    /// Names below this suffix, which starts with a dot.
    Below(String),
    /// A network; a single address is the longest one. No host bit is set.
    Range(IpNet),
}

impl Hosts {
    /// Returns the names below a name, which a wildcard written with it stands for.
    pub(super) fn below(host: &Host) -> Option<Self> {
        match host {
            Host::Name(name) => Some(Self::Below(format!(".{name}"))),
            Host::Ip(_) => None,
        }
    }

    /// Tells whether every host of `other` is one of these.
    pub(super) fn hold(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Name(one), Self::Name(other)) => one == other,
            // The dot makes it a whole label; the length keeps an empty one out.
            (Self::Below(suffix), Self::Name(name)) => {
                name.len() > suffix.len() && name.ends_with(suffix.as_str())
            }
            (Self::Below(suffix), Self::Below(deeper)) => deeper.ends_with(suffix.as_str()),
            (Self::Range(range), Self::Range(part)) => range.contains(part),
            _ => false,
        }
    }

    /// Returns every set that holds this one, narrowest first: itself, then up to [`Hosts::Any`].
    pub(super) fn upwards(&self) -> impl Iterator<Item = Self> + use<> {
        std::iter::successors(Some(self.clone()), Self::wider)
    }

    /// Returns the next wider set.
    fn wider(&self) -> Option<Self> {
        let below = |name: &str| match name.find('.') {
            Some(dot) => Self::Below(name[dot..].to_owned()),
            None => Self::Any,
        };
        match self {
            Self::Any => None,
            Self::Name(name) => Some(below(name)),
            Self::Below(suffix) => Some(below(&suffix[1..])),
            Self::Range(range) => Some(range.supernet().map_or(Self::Any, Self::Range)),
        }
    }
}

impl From<&Host> for Hosts {
    fn from(host: &Host) -> Self {
        match host {
            Host::Name(name) => Self::Name(name.clone()),
            Host::Ip(address) => Self::from(*address),
        }
    }
}

impl From<IpAddr> for Hosts {
    fn from(address: IpAddr) -> Self {
        Self::Range(address.into())
    }
}

/// As an entry of the settings says it.
impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Name(name) => f.write_str(name),
            Self::Below(suffix) => write!(f, "*{suffix}"),
            Self::Range(range) => {
                match range.addr() {
                    IpAddr::V4(address) => write!(f, "{address}")?,
                    IpAddr::V6(address) => write!(f, "[{address}]")?,
                }
                match range.prefix_len() == range.max_prefix_len() {
                    true => Ok(()),
                    false => write!(f, "/{}", range.prefix_len()),
                }
            }
        }
    }
}
