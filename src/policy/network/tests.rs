mod addresses;
mod agreement;
mod names;

use std::net::IpAddr;

use super::*;
use crate::policy::change::Change;
use crate::policy::hostname::Host;
use crate::settings::{Entry, Layer, Origin};

fn entries(key: &'static str, texts: &[&str]) -> Vec<Entry> {
    let origin = Origin {
        key,
        file: Some(std::path::Path::new("s.json").into()),
        line: 3,
        column: 7,
        layer: Layer::Explicit,
    };
    let entry = |text: &&str| Entry::new((*text).to_owned(), origin.clone());
    texts.iter().map(entry).collect()
}

fn try_network(allowed: &[&str], denied: &[&str]) -> Result<Network> {
    let settings = settings::Network {
        allowed_domains: entries("network.allowedDomains", allowed),
        denied_domains: entries("network.deniedDomains", denied),
        ..settings::Network::default()
    };
    let network = Network::from_settings(&settings)?;
    network.learn_own_addresses(vec!["192.0.2.77".parse().unwrap()]);
    Ok(network)
}

fn network(allowed: &[&str], denied: &[&str]) -> Network {
    try_network(allowed, denied).unwrap()
}

impl Network {
    /// A policy for tests of those who ask it.
    pub(crate) fn allowing(entries: &[&str]) -> Self {
        network(entries, &[])
    }
}

fn permits(network: &Network, target: &str) -> bool {
    network.check(Target::parse(target, None).unwrap()).is_ok()
}

fn admits(network: &Network, target: &str, address: &str) -> bool {
    let permit = network.check(Target::parse(target, None).unwrap()).unwrap();
    permit.admit(address.parse::<IpAddr>().unwrap()).is_ok()
}

#[test]
fn empty_lists_allow_nothing() {
    let nothing = network(&[], &[]);
    assert!(!permits(&nothing, "a.test:443"));
    assert!(!permits(&nothing, "localhost:80"));
    assert!(!permits(&nothing, "192.0.2.1:80"));
}

#[test]
fn a_wildcard_covers_names_below_it_and_neither_the_apex_nor_addresses() {
    let wild = network(&["*.a.test"], &[]);
    assert!(permits(&wild, "b.a.test:443"));
    assert!(permits(&wild, "c.b.A.TEST.:80"));
    for other in [
        "a.test:443",
        "xa.test:443",
        "b.a.test.evil.test:443",
        "10.0.0.1:443",
    ] {
        assert!(!permits(&wild, other), "{other}");
    }
}

#[test]
fn a_miss_on_the_apex_of_a_wildcard_says_so() {
    let target = Target::parse("a.test:443", None).unwrap();
    let refused = |allowed: &str| network(&[allowed], &[]).check(target.clone()).unwrap_err();
    let any_port = refused("*.a.test");
    assert_eq!(
        any_port.message(),
        "a.test:443 is blocked: `*.a.test` of network.allowedDomains does not cover a.test \
         itself; add `a.test` to allow it"
    );
    assert_eq!(
        any_port
            .suggest()
            .and_then(|suggest| suggest.add)
            .as_deref(),
        Some("a.test")
    );
    let https = refused("*.a.test:443");
    assert!(
        https
            .message()
            .ends_with("itself; add `a.test:443` to allow it"),
        "{https:?}"
    );
    for other in ["*.a.test:80", "*.b.a.test", "*.xa.test"] {
        let message = refused(other).message().to_owned();
        assert!(
            message.contains("no entry of network.allowedDomains"),
            "{message}"
        );
    }
}

#[test]
fn a_name_in_another_script_is_denied_under_its_encoded_form_too() {
    let denied = network(&["*.example.de"], &["b\u{fc}cher.example.de"]);
    assert!(permits(&denied, "buch.example.de:443"));
    for asked in [
        "xn--bcher-kva.example.de:443",
        "B\u{dc}CHER.example.de.:443",
    ] {
        let target = Target::parse(asked, None).unwrap();
        let denial = denied.check(target).unwrap_err();
        assert!(denial.message().is_ascii(), "{}", denial.message());
        assert!(
            denial.message().contains("`xn--bcher-kva.example.de`"),
            "{denial:?}"
        );
    }
}

#[test]
fn a_decision_names_the_first_rule_that_decides_and_what_turns_it_round() {
    let cases: &[(&[&str], &[&str])] = &[
        (&[], &[]),
        (&["a.test"], &[]),
        (&["*.test.example", "a.test", "a.test:443"], &[]),
        (&["a.test:443"], &["*", "a.test", "*:443", "*.b.test"]),
        (&[], &["a.test"]),
        (&["*.a.test"], &["*"]),
        (&["10.0.0.0/8"], &["10.0.0.0/9:443", "10.1.2.3"]),
    ];
    for (allowed, denied) in cases {
        for asked in [
            "a.test:443",
            "b.a.test:443",
            "10.1.2.3:443",
            "[fd00::1]:443",
        ] {
            let target = Target::parse(asked, None).unwrap();
            let before = network(allowed, denied);
            let mut allowed: Vec<_> = allowed.iter().map(|text| (*text).to_owned()).collect();
            let mut denied: Vec<_> = denied.iter().map(|text| (*text).to_owned()).collect();
            let changes = before.changes(&target);
            for change in &changes {
                match change {
                    Change::Add {
                        key: "network.allowedDomains",
                        entry,
                        ..
                    } => allowed.push(entry.clone()),
                    Change::Add { entry, .. } => denied.push(entry.clone()),
                    Change::Remove { entry, .. } => denied.retain(|denied| denied != entry),
                }
            }
            let allowed: Vec<_> = allowed.iter().map(String::as_str).collect();
            let denied: Vec<_> = denied.iter().map(String::as_str).collect();
            let after = network(&allowed, &denied);
            assert_ne!(
                permits(&before, asked),
                permits(&after, asked),
                "{asked}: {changes:?}"
            );
        }
    }
    let rules = network(&["b.test", "a.test"], &["*:22", "*"]);
    let decide = |asked| {
        rules
            .decide(&Target::parse(asked, None).unwrap())
            .rule()
            .unwrap()
            .entry()
            .text
            .clone()
    };
    assert_eq!(
        (decide("a.test:443"), decide("b.test:22")),
        ("*".to_owned(), "*:22".to_owned())
    );
    let single_label = Target::parse("vm:80", None).unwrap();
    assert!(network(&[], &["*"]).changes(&single_label).is_empty());
}

#[test]
fn a_port_in_an_entry_opens_that_port_only() {
    let https = network(&["a.test:443", "10.0.0.0/8:5432"], &[]);
    assert!(permits(&https, "a.test:443"));
    assert!(permits(&https, "10.1.2.3:5432"));
    for other in ["a.test:22", "a.test:80", "10.1.2.3:22", "11.0.0.1:5432"] {
        assert!(!permits(&https, other), "{other}");
    }
    let any = network(&["a.test"], &[]);
    assert!(permits(&any, "a.test:22"));
}

#[test]
fn one_spelling_in_the_settings_covers_every_spelling_asked_for() {
    let spelled = network(
        &[
            "A.Test.",
            "0x7f.1",
            "[::ffff:10.0.0.5]",
            "::ffff:172.16.0.0/108",
        ],
        &[],
    );
    let asked = [
        "a.test:80",
        "A.TEST.:80",
        "127.0.0.1:80",
        "2130706433:80",
        "[::ffff:7f00:1]:80",
        "10.0.0.5:80",
        "[::10.0.0.5]:80",
        "172.31.0.1:80",
    ];
    for target in asked {
        assert!(permits(&spelled, target), "{target}");
    }
}

#[test]
fn deny_beats_allow_in_every_pair() {
    let pairs = [
        ("a.test", "a.test", "a.test:443"),
        ("a.test:443", "a.test", "a.test:443"),
        ("a.test", "a.test:443", "a.test:443"),
        ("a.test", "*", "a.test:443"),
        ("a.test", "*:443", "a.test:443"),
        ("b.a.test", "*.a.test", "b.a.test:443"),
        ("*.a.test", "b.a.test", "b.a.test:443"),
        ("*.b.a.test", "*.a.test", "c.b.a.test:443"),
        ("a.test", "A.TEST.", "a.test:443"),
        ("10.0.0.5", "10.0.0.0/8", "10.0.0.5:443"),
        ("10.0.0.0/8", "10.0.0.5", "10.0.0.5:443"),
        ("10.0.0.5", "0xa.5", "10.0.0.5:443"),
        ("10.0.0.5", "[::ffff:10.0.0.5]", "167772165:443"),
        ("10.0.0.5", "*", "10.0.0.5:443"),
        ("[2001:db8::1]", "2001:db8::/32", "[2001:DB8:0::1]:443"),
        ("localhost", "localhost", "localhost:443"),
    ];
    for (allowed, denied, target) in pairs {
        assert!(
            permits(&network(&[allowed], &[]), target),
            "{allowed} allows {target}"
        );
        assert!(
            !permits(&network(&[allowed], &[denied]), target),
            "{denied} denies {target}"
        );
    }
}

#[test]
fn a_denied_address_beats_a_name_that_leads_to_it() {
    for (denied, address) in [
        ("198.51.100.5", "198.51.100.5"),
        ("198.51.100.5", "::ffff:198.51.100.5"),
        ("198.51.100.5", "64:ff9b::198.51.100.5"),
        ("198.51.100.0/24:443", "198.51.100.5"),
        ("2001:db8::/32", "2001:db8::5"),
    ] {
        assert!(
            admits(&network(&["a.test"], &[]), "a.test:443", address),
            "{address}"
        );
        assert!(
            !admits(&network(&["a.test"], &[denied]), "a.test:443", address),
            "{denied}"
        );
    }
    assert!(admits(
        &network(&["a.test"], &["198.51.100.5:22"]),
        "a.test:443",
        "198.51.100.5"
    ));
}

#[test]
fn a_name_reaches_an_address_out_of_bounds_only_where_the_address_is_listed() {
    let cases = [
        "10.0.0.5",
        "127.0.0.1",
        "169.254.169.254",
        "192.0.2.77",
        "fd00::5",
        "::1",
    ];
    for address in cases {
        assert!(
            !admits(&network(&["a.test"], &[]), "a.test:443", address),
            "{address}"
        );
        let listed = if address.contains(':') {
            format!("[{address}]")
        } else {
            address.to_owned()
        };
        assert!(
            admits(&network(&["a.test", &listed], &[]), "a.test:443", address),
            "{address}"
        );
        let other_port = format!("{listed}:80");
        assert!(!admits(
            &network(&["a.test", &other_port], &[]),
            "a.test:443",
            address
        ));
    }
    assert!(admits(
        &network(&["a.test", "10.0.0.0/8"], &[]),
        "a.test:443",
        "10.0.0.5"
    ));
    assert!(admits(
        &network(&["10.0.0.0/8"], &[]),
        "10.0.0.5:443",
        "10.0.0.5"
    ));
}

#[test]
fn localhost_leads_to_loopback_and_nowhere_else() {
    let local = network(&["localhost", "app.localhost"], &[]);
    assert!(admits(&local, "localhost:80", "127.0.0.1"));
    assert!(admits(&local, "app.localhost:80", "::1"));
    assert!(!admits(&local, "localhost:80", "198.51.100.1"));
    assert!(!admits(
        &network(&["localhost"], &["127.0.0.1"]),
        "localhost:80",
        "127.0.0.1"
    ));
}

#[test]
fn a_refusal_names_host_rule_and_setting() {
    let target = || Target::new(Host::parse("no.test").unwrap(), 443).unwrap();
    let unlisted = network(&["a.test"], &[]).check(target()).unwrap_err();
    assert_eq!(
        unlisted.message(),
        "no.test:443 is blocked: no entry of network.allowedDomains matches; \
         add `no.test:443` to allow it"
    );
    assert_eq!(
        unlisted
            .suggest()
            .and_then(|suggest| suggest.add)
            .as_deref(),
        Some("no.test:443")
    );
    assert_eq!(unlisted.proxy_error, "blocked-by-allowlist");
    let denied = network(&["no.test"], &["*"]).check(target()).unwrap_err();
    assert_eq!(
        denied.message(),
        "no.test:443 is blocked: the entry `*` of network.deniedDomains refuses every host, \
         whatever network.allowedDomains says; remove that entry to allow it"
    );
    assert_eq!(
        denied.rule().map(|rule| (rule.entry.to_owned(), rule.line)),
        Some(("*".into(), 3))
    );
}

#[test]
fn a_refused_address_is_told_to_the_events_and_not_to_the_client() {
    let permit = network(&["a.test"], &[])
        .check(Target::parse("a.test:443", None).unwrap())
        .unwrap();
    let denial = permit.admit("10.9.8.7".parse().unwrap()).unwrap_err();
    assert_eq!(denial.proxy_error, "blocked-by-sandbox-runtime");
    assert!(
        !denial.message().contains("10.9.8.7"),
        "{}",
        denial.message()
    );
    assert_eq!(
        denial.suggest().and_then(|suggest| suggest.add).as_deref(),
        Some("10.9.8.7:443")
    );
    assert_eq!(denial.range(), Some("a private address"));
}
