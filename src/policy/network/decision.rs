//! How a target is decided, by which rule, and what would decide it otherwise.

use super::hosts::Hosts;
use super::pattern::Rule;
use super::{Network, denial};
use crate::policy::change::Change;
use crate::policy::hostname::Target;

/// How one target is decided, with the rule that decides.
#[derive(Debug, Clone, Copy)]
pub enum Decision<'a> {
    /// An entry of `network.allowedDomains` covers it, and none of `network.deniedDomains`.
    Allowed(&'a Rule),
    /// An entry of `network.deniedDomains` covers it.
    Denied(&'a Rule),
    /// No entry covers it. A wildcard for the names below the one asked for is pointed out,
    /// since it is easily taken to cover that name too.
    Unlisted(Option<&'a Rule>),
}

impl<'a> Decision<'a> {
    /// Returns the rule that decides; none does where nothing covers the target.
    pub fn rule(&self) -> Option<&'a Rule> {
        match self {
            Self::Allowed(rule) | Self::Denied(rule) => Some(rule),
            Self::Unlisted(_) => None,
        }
    }
}

impl Network {
    /// Lists the changes that, made together, turn the decision on `target` round. None do
    /// where the host cannot be listed.
    pub fn changes(&self, target: &Target) -> Vec<Change> {
        let decision = self.decide(target);
        if let Decision::Allowed(_) = decision {
            return vec![Change::Add {
                key: "network.deniedDomains",
                entry: target.to_string(),
                literal: false,
            }];
        }
        let hosts = Hosts::from(&target.host);
        let Self(rules) = self;
        let denying = rules.denied.covering(&hosts, target.port);
        let mut changes: Vec<_> = denying
            .iter()
            .map(|rule| Change::remove(rule.entry()))
            .collect();
        if rules.allowed.first(&hosts, target.port).is_none() {
            let wildcard = match decision {
                Decision::Unlisted(wildcard) => wildcard,
                _ => None,
            };
            let Some(entry) = denial::entry_for(target, wildcard) else {
                return Vec::new();
            };
            changes.push(Change::Add {
                key: "network.allowedDomains",
                entry,
                literal: false,
            });
        }
        changes
    }
}
