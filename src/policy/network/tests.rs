use std::net::IpAddr;

use super::*;
use crate::error::Kind;
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
    let entry = |text: &&str| Entry {
        text: (*text).to_owned(),
        literal: false,
        origin: origin.clone(),
    };
    texts.iter().map(entry).collect()
}

fn try_network(allowed: &[&str], denied: &[&str]) -> Result<Network> {
    let settings = settings::Network {
        allowed_domains: entries("network.allowedDomains", allowed),
        denied_domains: entries("network.deniedDomains", denied),
        ..settings::Network::default()
    };
    Network::from_settings(&settings, vec!["192.0.2.77".parse().unwrap()])
}

fn network(allowed: &[&str], denied: &[&str]) -> Network {
    try_network(allowed, denied).unwrap()
}

fn permits(network: &Network, target: &str) -> bool {
    network.check(Target::parse(target, None).unwrap()).is_ok()
}

fn admits(network: &Network, target: &str, address: &str) -> bool {
    let permit = network.check(Target::parse(target, None).unwrap()).unwrap();
    permit.admit(address.parse::<IpAddr>().unwrap()).is_ok()
}

#[test]
fn entries_of_every_form_are_read() {
    let both = [
        "a.test",
        "a.test:443",
        "*.a.test",
        "*.a.test:8443",
        "localhost",
        "localhost:80",
        "10.0.0.5",
        "10.0.0.5:22",
        "[::1]",
        "[2001:db8::1]:443",
        "10.0.0.0/8",
        "10.0.0.0/8:443",
        "fd00::/8",
        "[fd00::]/8",
        "[fd00::]/8:443",
        "fd00::/8:443",
        "A.Test.",
        "0x7f.1",
        "app.localhost",
        "::ffff:10.0.0.0/104",
        "0.0.0.0/0",
    ];
    for text in both {
        assert!(try_network(&[text], &[]).is_ok(), "{text} allowed");
        assert!(try_network(&[], &[text]).is_ok(), "{text} denied");
    }
    assert!(try_network(&[], &["*", "*:22"]).is_ok());
}

#[test]
fn entries_that_are_too_wide_or_malformed_are_refused_with_their_place() {
    let neither = [
        "",
        " ",
        "*.com",
        "*.localhost",
        "*example.com",
        "ex*.com",
        "**.x.com",
        "a.*.com",
        ".a.test",
        "a..test",
        "a.test..",
        "vm",
        "vm:80",
        "*.0.0.5",
        "*.10.0.0.0/8",
        "https://a.test",
        "a.test/path",
        "a.test:0",
        "a.test:065",
        "a.test:65536",
        "a.test:",
        "::1",
        "::1:80",
        "[::1",
        "[fe80::1%eth0]",
        "bücher.example",
        "user@a.test",
        "a.test,b.test",
        "10.0.0.1/8",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "10.0.0.0/8/8",
        "fd00::/129",
        "256.1.1.1",
        "a.test\n",
        "*.",
        "*:",
        "*.a.test/8",
    ];
    for text in neither {
        let error = try_network(&[text], &[]).expect_err(text);
        assert_eq!(error.kind(), Kind::Settings, "{text}");
        assert!(
            error
                .to_string()
                .starts_with("s.json:3:7: network.allowedDomains"),
            "{error}"
        );
        assert!(error.hint().is_some(), "{text}");
        assert!(try_network(&[], &[text]).is_err(), "{text} denied");
    }
    assert!(try_network(&["*"], &[]).is_err());
    assert!(try_network(&["*:443"], &[]).is_err());
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
        unlisted.suggest().map(|suggest| suggest.add),
        Some("no.test:443")
    );
    assert_eq!(unlisted.proxy_error, "blocked-by-allowlist");
    let denied = network(&["no.test"], &["*"]).check(target()).unwrap_err();
    assert_eq!(
        denied.message(),
        "no.test:443 is blocked by the entry `*` of network.deniedDomains; \
         remove that entry to allow it"
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
        denial.suggest().map(|suggest| suggest.add),
        Some("10.9.8.7:443")
    );
    assert_eq!(denial.range(), Some("a private address"));
}
