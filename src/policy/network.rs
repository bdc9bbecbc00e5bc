//! Which destinations may be reached: the one decision every proxy asks for.

mod agreement;
mod decision;
mod denial;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod hosts;
mod limits;
mod local_names;
mod pattern;
mod ports;
mod table;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

pub use agreement::Hello;
pub use decision::Decision;
pub use denial::Denial;
pub use limits::Limits;
pub use pattern::Rule;
pub(crate) use pattern::{List, intersection};
pub(crate) use table::Table;

use super::address;
use super::hostname::{Host, Target};
use crate::audit::event;
use crate::error::Result;
use crate::settings::{self, Entry};
use hosts::Hosts;

/// Which hosts may be reached. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Network(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    allowed: Table,
    denied: Table,
    /// `deniedResolvedAddresses`: where no name may lead.
    denied_addresses: Table,
    /// What to say when an entry refuses, by the entry.
    reasons: HashMap<String, String>,
    /// Names may lead to private addresses.
    opens_private: bool,
    /// Programs that know no proxy are served too.
    transparent: bool,
    /// `requireHostMatch`: what is said inside a connection must name the same host.
    requires_host_match: bool,
    limits: Limits,
    /// Those of this host's interfaces; asked for where something is to be dialled.
    own_addresses: OnceLock<Vec<IpAddr>>,
}

/// Proof that the policy lets a target be reached; the only thing that is ever dialled.
#[derive(Debug, Clone)]
pub struct Permit {
    rules: Arc<Rules>,
    target: Target,
    allowed_by: Rule,
}

impl Network {
    /// Returns an entry that allows a host, if there is one.
    pub fn any_allowed(&self) -> Option<&Entry> {
        self.0.allowed.rules().first().map(Rule::entry)
    }

    /// Returns the entry that denies every host, where others are there to allow some.
    pub fn makes_allowing_vain(&self) -> Option<&Entry> {
        self.any_allowed()?;
        let denied = self.0.denied.rules().iter().map(Rule::entry);
        denied.into_iter().find(|entry| entry.text == "*")
    }

    /// Reads the entries of `network`.
    ///
    /// # Errors
    /// An entry is not a host pattern, or allows more than one can mean.
    pub fn from_settings(settings: &settings::Network) -> Result<Self> {
        Ok(Self(Arc::new(Rules {
            allowed: Table::parse(&settings.allowed_domains, List::Allowed)?,
            denied: Table::parse(&settings.denied_domains, List::Denied)?,
            denied_addresses: Table::parse_networks(&settings.denied_addresses)?,
            reasons: settings.denied_reasons.iter().map(text_of_both).collect(),
            opens_private: settings.allow_private_networks,
            transparent: settings.transparent,
            requires_host_match: settings.requires_host_match,
            limits: settings.limits.into(),
            own_addresses: OnceLock::new(),
        })))
    }

    /// Returns how much of the proxies may be taken up.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Takes the addresses of this host's interfaces, which no name may lead to. Without them
    /// no address is admitted.
    pub fn learn_own_addresses(&self, addresses: Vec<IpAddr>) {
        self.0.own_addresses.get_or_init(|| addresses);
    }

    /// Decides on one target, before any name is resolved. Deny rules win; no rule means no.
    pub fn decide(&self, target: &Target) -> Decision<'_> {
        let Self(rules) = self;
        let hosts = Hosts::from(&target.host);
        if let Some(rule) = rules.denied.first(&hosts, target.port) {
            return Decision::Denied(rule);
        }
        if let Some(rule) = rules.allowed.first(&hosts, target.port) {
            return Decision::Allowed(rule);
        }
        let below = Hosts::below(&target.host);
        let wildcard = below.and_then(|below| rules.allowed.first(&below, target.port));
        Decision::Unlisted(wildcard)
    }

    /// Tells whether programs that know no proxy are served too.
    pub fn is_transparent(&self) -> bool {
        self.0.transparent
    }

    /// Returns the ports that entries name, but for long ranges.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        let rules = self.0.allowed.rules().iter();
        rules.flat_map(|rule| rule.ports().if_few())
    }

    /// Tells whether an entry allows this very address on some port.
    pub fn lists(&self, address: IpAddr) -> bool {
        self.0.allowed.lists(address)
    }

    /// Decides whether a host may be reached on any port at all, which is what a question for
    /// its addresses comes to.
    ///
    /// # Errors
    /// No connection to it would be allowed.
    pub fn check_any_port(&self, host: &Host) -> Result<(), Denial> {
        let hosts = Hosts::from(host);
        let denied = self.0.denied.on_any_port(&hosts);
        let is_open = |port| !denied.iter().any(|rule| rule.on(port));
        let allowed = self.0.allowed.on_any_port(&hosts);
        // The lowest port that is left is the first of those allowed, or follows on a denied one.
        let open = allowed.iter().any(|rule| {
            let after = denied.iter().filter_map(|denied| denied.ports().after());
            let mut lowest = after.chain([rule.ports().first()]);
            lowest.any(|port| rule.on(port) && is_open(port))
        });
        if open {
            return Ok(());
        }
        // A port has to be named; this is the one most connections ask for.
        let target = Target {
            host: host.clone(),
            port: allowed.first().map_or(443, |rule| rule.ports().first()),
        };
        match self.check(target.clone()) {
            Err(denial) => Err(denial),
            Ok(_) => Err(Denial::unlisted(&target, None)),
        }
    }

    /// Turns the decision on a target into the right to dial it.
    ///
    /// # Errors
    /// A deny rule matches, or no allow rule does.
    pub fn check(&self, target: Target) -> Result<Permit, Denial> {
        match self.decide(&target) {
            Decision::Allowed(rule) => Ok(Permit {
                rules: Arc::clone(&self.0),
                allowed_by: rule.clone(),
                target,
            }),
            Decision::Denied(rule) => {
                let reason = self.0.reasons.get(&rule.entry().text);
                let denial = Denial::by_rule(&target, rule, reason.map(String::as_str));
                Err(denial.with_changes(self.changes(&target)))
            }
            Decision::Unlisted(wildcard) => {
                let denial = Denial::unlisted(&target, wildcard);
                Err(denial.with_changes(self.changes(&target)))
            }
        }
    }
}

impl Permit {
    /// Asks for the addresses of this host's interfaces where they are not known yet.
    pub fn learn_own_addresses(&self, ask: impl FnOnce() -> Result<Vec<IpAddr>>) {
        if self.rules.own_addresses.get().is_none()
            && let Ok(addresses) = ask()
        {
            self.rules.own_addresses.get_or_init(|| addresses);
        }
    }

    /// Returns where the connection is to go.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the rule that allows it.
    pub fn rule(&self) -> event::Rule<'_> {
        self.allowed_by.describe()
    }

    /// Decides on one address that the target's name leads to.
    ///
    /// # Errors
    /// A deny rule lists the address, or it is out of bounds and no allow rule lists it.
    pub fn admit(&self, address: IpAddr) -> Result<SocketAddr, Denial> {
        let port = self.target.port;
        let readings = address::readings(address);
        let denied = &self.rules.denied;
        let listed = |table: &'_ Table| {
            let mut rules = readings.iter().map(|address| table.listing(*address, port));
            rules.find_map(|rule| rule.cloned())
        };
        if let Some(rule) = listed(denied) {
            return Err(Denial::by_address_rule(&self.target, &rule));
        }
        // Addresses that are asked for as such are judged by the lists of hosts alone.
        let is_name = matches!(self.target.host, Host::Name(_));
        if is_name && let Some(rule) = listed(&self.rules.denied_addresses) {
            return Err(Denial::by_address_rule(&self.target, &rule));
        }
        let canonical = readings[0];
        let admitted = SocketAddr::new(canonical, port);
        if self.rules.allowed.listing(canonical, port).is_some() {
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
        let Some(own) = self.rules.own_addresses.get() else {
            let reason = "this host's own addresses are not known";
            return Err(Denial::guarded(&self.target, reason, admitted));
        };
        match address::guarded(canonical, own, self.rules.opens_private) {
            None => Ok(admitted),
            Some(range) => Err(Denial::guarded(&self.target, range, admitted)),
        }
    }
}

fn text_of_both((entry, text): &(Entry, Entry)) -> (String, String) {
    (entry.text.clone(), text.text.clone())
}

#[cfg(test)]
mod tests;
