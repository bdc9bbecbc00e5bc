//! The rules of one list, found by what is asked: ten thousand cost no more than ten.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::OnceLock;

use ipnet::IpNet;

use super::hosts::Hosts;
use super::pattern::{List, Rule};
use crate::error::{Error, Result};
use crate::settings::Entry;

/// One list, in the order of the settings.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rules: Vec<Rule>,
    /// Made when first asked: a launch reads the rules, and most runs ask for few hosts.
    index: OnceLock<Index>,
}

#[derive(Debug, Default)]
struct Index {
    by_hosts: HashMap<Hosts, Vec<usize>>,
    /// How long the prefixes of ranges are, longest first: an address is looked for in no other.
    lengths: Vec<u8>,
}

impl Table {
    /// Parses the entries of one list.
    ///
    /// # Errors
    /// Names every entry that is no host pattern, or allows more than one can mean.
    pub(crate) fn parse(entries: &[Entry], list: List) -> Result<Self> {
        Self::parse_with(entries, |entry| Rule::parse(entry, list))
    }

    /// Parses addresses and networks that names must not lead to.
    ///
    /// # Errors
    /// Names every entry that is neither.
    pub(super) fn parse_networks(entries: &[Entry]) -> Result<Self> {
        Self::parse_with(entries, Rule::parse_network)
    }

    fn parse_with(entries: &[Entry], parse: impl Fn(&Entry) -> Result<Rule>) -> Result<Self> {
        let mut rules = Vec::with_capacity(entries.len());
        let mut errors = Vec::new();
        for entry in entries {
            match parse(entry) {
                Ok(rule) => rules.push(rule),
                Err(error) => errors.push(error),
            }
        }
        match Error::joined(errors) {
            Some(error) => Err(error),
            None => Ok(Self {
                rules,
                index: OnceLock::new(),
            }),
        }
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the first rule that covers these hosts on this port.
    pub(super) fn first(&self, hosts: &Hosts, port: u16) -> Option<&Rule> {
        self.first_of(self.holding(hosts), port)
    }

    /// Returns the first rule that lists the address itself, rather than a name that leads
    /// there or everything.
    pub(super) fn listing(&self, address: IpAddr, port: u16) -> Option<&Rule> {
        self.first_of(self.ranges_of(address), port)
    }

    /// Tells whether a rule lists the address itself on some port.
    pub(super) fn lists(&self, address: IpAddr) -> bool {
        self.ranges_of(address)
            .any(|hosts| !self.indices(&hosts).is_empty())
    }

    /// Returns every rule that covers these hosts on this port.
    pub(super) fn covering(&self, hosts: &Hosts, port: u16) -> Vec<&Rule> {
        let mut rules = self.on_any_port(hosts);
        rules.retain(|rule| rule.on(port));
        rules
    }

    /// Returns every rule that covers these hosts on some port.
    pub(super) fn on_any_port(&self, hosts: &Hosts) -> Vec<&Rule> {
        let rules = self.holding(hosts).flat_map(|hosts| self.indices(&hosts));
        rules.map(|index| &self.rules[*index]).collect()
    }

    /// Returns every rule whose hosts hold those of `rule`, whatever the ports, with its index.
    pub(crate) fn around(&self, rule: &Rule) -> impl Iterator<Item = (usize, &Rule)> {
        let rules = self
            .holding(rule.hosts())
            .flat_map(|hosts| self.indices(&hosts));
        rules.map(|index| (*index, &self.rules[*index]))
    }

    fn first_of(&self, sets: impl Iterator<Item = Hosts>, port: u16) -> Option<&Rule> {
        let found = sets.filter_map(|hosts| {
            let mut indices = self.indices(&hosts).iter();
            indices.find(|index| self.rules[**index].on(port))
        });
        found.min().map(|index| &self.rules[*index])
    }

    /// Returns the sets that hold these hosts and that rules may be about, narrowest first.
    fn holding(&self, hosts: &Hosts) -> impl Iterator<Item = Hosts> + use<'_> {
        let (range, others) = match hosts {
            Hosts::Range(range) => (Some(*range), None),
            others => (None, Some(others.upwards())),
        };
        let ranges = range.map(|range| {
            let lengths = self.index().lengths.iter();
            let longest = range.prefix_len();
            lengths
                .skip_while(move |length| **length > longest)
                .filter_map(move |length| IpNet::new(range.addr(), *length).ok())
                .map(|wider| Hosts::Range(wider.trunc()))
                .chain([Hosts::Any])
        });
        ranges
            .into_iter()
            .flatten()
            .chain(others.into_iter().flatten())
    }

    /// Returns the ranges that hold an address, and not what holds every host.
    fn ranges_of(&self, address: IpAddr) -> impl Iterator<Item = Hosts> {
        let holding = self.holding(&Hosts::from(address));
        holding.take_while(|hosts| *hosts != Hosts::Any)
    }

    fn indices(&self, hosts: &Hosts) -> &[usize] {
        let by_hosts = &self.index().by_hosts;
        by_hosts.get(hosts).map_or(&[], Vec::as_slice)
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::of(&self.rules))
    }
}

impl Index {
    fn of(rules: &[Rule]) -> Self {
        let mut by_hosts: HashMap<_, Vec<_>> = HashMap::with_capacity(rules.len());
        let mut lengths = Vec::new();
        for (index, rule) in rules.iter().enumerate() {
            let same = by_hosts.entry(rule.hosts().clone()).or_default();
            same.push(index);
            if let Hosts::Range(range) = rule.hosts() {
                lengths.push(range.prefix_len());
            }
        }
        lengths.sort_unstable_by(|one, other| other.cmp(one));
        lengths.dedup();
        Self { by_hosts, lengths }
    }
}
