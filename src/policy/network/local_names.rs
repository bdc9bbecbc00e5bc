//! The file of names that this host keeps for itself, as the sandbox sees it; see hosts(5).
//!
//! A name in it is never asked for, and an address in it is one of the host's world: a program
//! would connect to the address, and the rules are about the name.

use std::net::IpAddr;

use super::Network;
use crate::policy::hostname::Host;

impl Network {
    /// Returns `hosts` without what has to be asked for: every name of an address elsewhere, and
    /// those of loopback that the rules let be reached, which is the host's loopback. `None`
    /// where nothing is to be left out.
    pub fn without_names_to_ask_for(&self, hosts: &str) -> Option<String> {
        let lines = hosts.split_inclusive('\n');
        let kept: Vec<(&str, Kept<'_>)> = lines.map(|line| (line, self.kept_of(line))).collect();
        if kept.iter().all(|(_, kept)| *kept == Kept::All) {
            return None;
        }
        let text = kept.into_iter().map(|(line, kept)| match kept {
            Kept::All => line.to_owned(),
            Kept::Nothing => String::new(),
            Kept::Names(address, names) => format!("{address} {}\n", names.join(" ")),
        });
        Some(text.collect())
    }

    fn kept_of<'a>(&self, line: &'a str) -> Kept<'a> {
        let entry = line.split('#').next().unwrap_or(line);
        let mut words = entry.split_ascii_whitespace();
        let Some(address) = words.next() else {
            return Kept::All;
        };
        let without_zone = address.split('%').next().unwrap_or(address);
        match without_zone.parse::<IpAddr>() {
            // Not an entry to anybody.
            Err(_) => Kept::All,
            // How names are kept from being reached at all.
            Ok(parsed) if parsed.is_unspecified() => Kept::All,
            Ok(parsed) if parsed.is_loopback() => {
                let names: Vec<&str> = words.clone().filter(|name| !self.serves(name)).collect();
                match names.len() {
                    0 => Kept::Nothing,
                    len if len == words.count() => Kept::All,
                    _ => Kept::Names(address, names),
                }
            }
            Ok(_) => Kept::Nothing,
        }
    }

    /// Tells whether a name may be reached, though not as one of the sandbox itself.
    fn serves(&self, name: &str) -> bool {
        // No entry can be a single label but `localhost`, which needs no look at the rules.
        if !name.contains('.') {
            return false;
        }
        let host = Host::parse(name);
        host.is_ok_and(|host| !host.is_localhost() && self.check_any_port(&host).is_ok())
    }
}

/// What is left of one line.
#[derive(PartialEq, Eq)]
enum Kept<'a> {
    All,
    Names(&'a str, Vec<&'a str>),
    Nothing,
}
