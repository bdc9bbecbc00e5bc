//! Which destinations may be reached: the one decision every proxy asks for.

mod denial;
mod pattern;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub use denial::Denial;

use super::address;
use super::hostname::Target;
use crate::audit::event;
use crate::error::Result;
use crate::settings;
use pattern::{List, Rule};

/// Which hosts may be reached. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Network(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    allowed: Vec<Rule>,
    denied: Vec<Rule>,
    own_addresses: Vec<IpAddr>,
}

/// Proof that the policy lets a target be reached; the only thing that is ever dialled.
#[derive(Debug, Clone)]
pub struct Permit {
    rules: Arc<Rules>,
    target: Target,
    allowed_by: usize,
}

impl Network {
    /// Reads the entries of `network`. `host_addresses` are those of this host's interfaces,
    /// which no name may lead to.
    ///
    /// # Errors
    /// An entry is not a host pattern, or allows more than one can mean.
    pub fn from_settings(
        settings: &settings::Network,
        host_addresses: Vec<IpAddr>,
    ) -> Result<Self> {
        let read = |entries: &[settings::Entry], list| -> Result<Vec<Rule>> {
            entries
                .iter()
                .map(|entry| Rule::parse(entry, list))
                .collect()
        };
        Ok(Self(Arc::new(Rules {
            allowed: read(&settings.allowed_domains, List::Allowed)?,
            denied: read(&settings.denied_domains, List::Denied)?,
            own_addresses: host_addresses,
        })))
    }

    /// Decides on one target, before any name is resolved.
    ///
    /// # Errors
    /// A deny rule matches, or no allow rule does.
    pub fn check(&self, target: Target) -> Result<Permit, Denial> {
        let Self(rules) = self;
        if let Some(rule) = rules.denied.iter().find(|rule| rule.covers(&target)) {
            return Err(Denial::by_rule(&target, rule));
        }
        if let Some(allowed_by) = rules.allowed.iter().position(|rule| rule.covers(&target)) {
            return Ok(Permit {
                rules: Arc::clone(rules),
                target,
                allowed_by,
            });
        }
        Err(Denial::unlisted(&target))
    }
}

impl Permit {
    /// Returns where the connection is to go.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the rule that allows it.
    pub fn rule(&self) -> event::Rule<'_> {
        self.rules.allowed[self.allowed_by].describe()
    }

    /// Decides on one address that the target's name leads to.
    ///
    /// # Errors
    /// A deny rule lists the address, or it is out of bounds and no allow rule lists it.
    pub fn admit(&self, address: IpAddr) -> Result<SocketAddr, Denial> {
        let port = self.target.port;
        let readings = address::readings(address);
        let lists = |rule: &&Rule| readings.iter().any(|address| rule.lists(*address, port));
        if let Some(rule) = self.rules.denied.iter().find(lists) {
            return Err(Denial::by_address_rule(&self.target, rule));
        }
        let canonical = readings[0];
        let admitted = SocketAddr::new(canonical, port);
        if self
            .rules
            .allowed
            .iter()
            .any(|rule| rule.lists(canonical, port))
        {
            return Ok(admitted);
        }
        // An entry `localhost` can mean nothing but loopback, and must not mean more.
        if self.target.host.is_localhost() {
            return match address::is_loopback(canonical) {
                true => Ok(admitted),
                false => Err(Denial::guarded(
                    &self.target,
                    "no loopback address",
                    admitted,
                )),
            };
        }
        match address::guarded(canonical, &self.rules.own_addresses) {
            None => Ok(admitted),
            Some(range) => Err(Denial::guarded(&self.target, range, admitted)),
        }
    }
}

#[cfg(test)]
mod tests;
