//! The grammar of entries as a table, and the relations between entries by generation.

use super::*;
use crate::error::Kind;
use crate::policy::generator::Generator;
use crate::policy::hostname::Target;
use crate::policy::network::Table;
use crate::settings::{Layer, Origin};

fn entry(text: &str) -> Entry {
    Entry::new(
        text.to_owned(),
        Origin {
            key: "network.allowedDomains",
            file: Some(std::path::Path::new("s.json").into()),
            line: 3,
            column: 7,
            layer: Layer::Explicit,
        },
    )
}

fn parsed(text: &str, list: List) -> Result<Rule> {
    Rule::parse(&entry(text), list)
}

#[test]
fn entries_of_every_form_are_read_and_have_one_spelling() {
    let both = [
        ("a.test", "a.test"),
        ("A.Test.", "a.test"),
        ("a.test:443", "a.test:443"),
        ("a.test:80-90", "a.test:80-90"),
        ("a.test:80-80", "a.test:80"),
        ("a.test:1-65535", "a.test"),
        ("*.a.test:8000-8099", "*.a.test:8000-8099"),
        ("[fd00::]/8:80-90", "[fd00::]/8:80-90"),
        ("*.a.test", "*.a.test"),
        ("*.A.test.:8443", "*.a.test:8443"),
        ("localhost", "localhost"),
        ("LocalHost:80", "localhost:80"),
        ("app.localhost", "app.localhost"),
        ("10.0.0.5", "10.0.0.5"),
        ("10.0.0.5:22", "10.0.0.5:22"),
        ("0x7f.1", "127.0.0.1"),
        ("10.0.0.5/32", "10.0.0.5"),
        ("[::1]", "[::1]"),
        ("[::ffff:10.0.0.5]:22", "10.0.0.5:22"),
        ("[2001:DB8::1]:443", "[2001:db8::1]:443"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.0/8:443", "10.0.0.0/8:443"),
        ("fd00::/8", "[fd00::]/8"),
        ("[fd00::]/8", "[fd00::]/8"),
        ("[fd00::]/8:443", "[fd00::]/8:443"),
        ("fd00::/8:443", "[fd00::]/8:443"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("b\u{fc}cher.example", "xn--bcher-kva.example"),
        ("*.B\u{dc}CHER.example:443", "*.xn--bcher-kva.example:443"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("a_b.test", "a_b.test"),
        ("github.io", "github.io"),
        ("*.owner.github.io", "*.owner.github.io"),
        ("*.example.co.uk", "*.example.co.uk"),
        ("*.corp.internal", "*.corp.internal"),
    ];
    for (text, canonical) in both {
        for list in [List::Allowed, List::Denied] {
            let rule = parsed(text, list).expect(text);
            assert_eq!(rule.to_string(), canonical, "{text}");
            assert_eq!(rule.entry().text, text);
            let again = parsed(canonical, list).expect(canonical);
            assert_eq!(again.to_string(), canonical);
        }
    }
    for text in ["*", "*:22"] {
        assert_eq!(parsed(text, List::Denied).expect(text).to_string(), text);
    }
}

#[test]
fn malformed_entries_are_refused_in_both_lists_with_their_place() {
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
        "a.test:90-80",
        "a.test:0-80",
        "a.test:80-",
        "a.test:-80",
        "a.test:80-90-99",
        "a.test:80-65536",
        "a.test:*",
        "10.0.0.0/8:90-80",
        "::1",
        "::1:80",
        "[::1",
        "[fe80::1%eth0]",
        "xn--a.example",
        "b\u{fc}cher\u{202e}.example",
        "\u{ff0a}.a.test",
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
        let error = parsed(text, List::Allowed).expect_err(text);
        assert_eq!(error.kind(), Kind::Settings, "{text}");
        assert!(
            error
                .to_string()
                .starts_with("s.json:3:7: network.allowedDomains"),
            "{error}"
        );
        assert!(error.hint().is_some(), "{text}");
        assert!(parsed(text, List::Denied).is_err(), "{text} denied");
    }
}

#[test]
fn what_only_a_deny_list_may_cover_is_refused_in_an_allow_list() {
    let too_wide = [
        "*",
        "*:443",
        "*.co.uk",
        "*.CO.UK.:443",
        "*.github.io",
        "*.s3.amazonaws.com",
        "*.xn--55qx5d.cn",
        "*.\u{516c}\u{53f8}.cn",
        // The list has `*.ck`, so that each name below `ck` is a public suffix.
        "*.anything.ck",
    ];
    for text in too_wide {
        let error = parsed(text, List::Allowed).expect_err(text);
        assert!(error.to_string().contains("would allow"), "{error}");
        assert!(parsed(text, List::Denied).is_ok(), "{text} denied");
    }
    // `www.ck` is an exception to `*.ck`: it is one owner's.
    assert!(parsed("*.www.ck", List::Allowed).is_ok());
}

#[test]
fn the_host_in_a_url_is_proposed() {
    let table = [
        ("https://a.test", "write `a.test`"),
        ("https://*.a.test/x?y", "write `*.a.test`"),
        ("http://a.test:8080/x", "write `a.test:8080`"),
        ("a.test/path", "write `a.test`"),
        ("https://[::1]:80/", "write `[::1]:80`"),
        (
            "https://user@a.test/",
            "write the host alone, with `:port` if need be",
        ),
        (
            "https://*.co.uk",
            "write the host alone, with `:port` if need be",
        ),
    ];
    for (text, hint) in table {
        let error = parsed(text, List::Allowed).expect_err(text);
        assert_eq!(error.hint(), Some(hint), "{text}");
    }
}

/// Draws from few names and numbers, so that rules often overlap.
fn draw(generator: &mut Generator) -> Rule {
    let kinds = ["any", "name", "name", "below", "below", "range", "range"];
    let host = match generator.pick(&kinds) {
        "any" => "*".to_owned(),
        "name" => generator.pick(&NAMES).to_owned(),
        "below" => format!("*.{}", generator.pick(&NAMES)),
        _ => generator.pick(&RANGES).to_owned(),
    };
    let text = format!("{host}{}", generator.pick(&PORTS));
    parsed(&text, List::Denied).expect(&text)
}

const NAMES: [&str; 7] = [
    "a.test",
    "b.test",
    "a.a.test",
    "b.a.test",
    "a.b.a.test",
    "xa.test",
    "a.test.test",
];

const PORTS: [&str; 7] = ["", "", ":80", ":443", ":9-80", ":80-443", ":100-500"];

const RANGES: [&str; 14] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.0/9",
    "10.128.0.0/9",
    "10.1.0.0/16",
    "10.1.2.3",
    "10.1.2.3/32",
    "10.1.2.2/31",
    "10.200.0.1",
    "[::]/0",
    "[fd00::]/8",
    "[fd00::]/64",
    "[fd00::1]",
    "[fd00:1::1]",
];

/// Targets that tell any two of the generated rules apart: of every host above one that
/// only it and wider ones cover, on the first and last port of every range.
fn witnesses() -> Vec<Target> {
    let below = NAMES.iter().map(|name| format!("w.{name}"));
    let apart = [
        "other.example",
        "9.9.9.9",
        "10.1.2.3",
        "10.1.2.2",
        "10.1.9.9",
        "10.99.9.9",
        "10.200.0.1",
        "10.201.0.1",
        "[fd00::1]",
        "[fd00::9]",
        "[fd00:1::1]",
        "[fd00:9::1]",
        "[2001:db8::1]",
    ];
    let hosts = NAMES.iter().chain(&apart).map(|host| (*host).to_owned());
    let hosts: Vec<_> = hosts.chain(below).collect();
    let on = |host: &String| {
        let host = host.clone();
        [7, 9, 80, 100, 443, 500]
            .map(|port| Target::parse(&format!("{host}:{port}"), None).unwrap())
    };
    hosts.iter().flat_map(on).collect()
}

fn covers(rule: &Rule, target: &Target) -> bool {
    rule.on(target.port) && rule.hosts().hold(&Hosts::from(&target.host))
}

#[test]
fn a_rule_is_covered_by_another_exactly_where_all_its_targets_are() {
    let witnesses = witnesses();
    let mut generator = Generator(1);
    let mut covered = 0;
    for _ in 0..4_000 {
        let (one, other) = (draw(&mut generator), draw(&mut generator));
        let all = witnesses
            .iter()
            .all(|target| !covers(&one, target) || covers(&other, target));
        assert_eq!(one.is_covered_by(&other), all, "{one} by {other}");
        covered += usize::from(all);
    }
    assert!((300..3_600).contains(&covered), "{covered}");
}

#[test]
fn an_intersection_covers_exactly_what_both_cover() {
    let witnesses = witnesses();
    let mut generator = Generator(2);
    let mut common = 0;
    for _ in 0..4_000 {
        let (one, other) = (draw(&mut generator), draw(&mut generator));
        let both = intersection(&one, &other);
        for target in &witnesses {
            let expected = covers(&one, target) && covers(&other, target);
            let found = both.as_ref().is_some_and(|both| covers(both, target));
            assert_eq!(found, expected, "{one} and {other} at {target}");
        }
        if let Some(both) = both {
            assert!(both.is_covered_by(&one) && both.is_covered_by(&other));
            assert_eq!(both.entry().origin, one.entry().origin);
            let written = parsed(&both.entry().text, List::Denied).unwrap();
            assert_eq!(written.to_string(), both.to_string());
            common += 1;
        }
    }
    assert!((400..3_600).contains(&common), "{common}");
}

#[test]
fn a_table_finds_what_a_scan_finds() {
    let witnesses = witnesses();
    let mut generator = Generator(3);
    let mut found = 0;
    for _ in 0..300 {
        let rules: Vec<_> = (0..12).map(|_| draw(&mut generator)).collect();
        let entries: Vec<_> = rules.iter().map(|rule| rule.entry().clone()).collect();
        let table = Table::parse(&entries, List::Denied).unwrap();
        for target in &witnesses {
            let hosts = Hosts::from(&target.host);
            let scanned: Vec<_> = rules.iter().filter(|rule| covers(rule, target)).collect();
            let first = table.first(&hosts, target.port);
            let same = first
                .zip(scanned.first())
                .map(|(a, b)| a.entry() == b.entry());
            assert_eq!(
                same,
                first.or(scanned.first().copied()).map(|_| true),
                "{target}"
            );
            assert_eq!(table.covering(&hosts, target.port).len(), scanned.len());
            found += scanned.len();
        }
        for rule in &rules {
            let around = table.around(rule).count();
            let scanned = rules
                .iter()
                .filter(|other| other.hosts().hold(rule.hosts()));
            assert_eq!(around, scanned.count(), "{rule}");
        }
    }
    assert!(found > 1_000, "{found}");
}
