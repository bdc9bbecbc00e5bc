//! Promises of the table of keys.

use std::collections::HashSet;

use super::*;

#[test]
fn every_key_stands_once_in_a_section_of_the_table() {
    let mut seen = HashSet::new();
    for key in keys() {
        assert!(seen.insert(key.path), "{}", key.path);
        let home = key.section();
        let is_home = |other: &&Key| match home.strip_suffix("[]") {
            Some(array) => other.path == array && other.shape == Shape::Records,
            None => other.path == home && matches!(other.shape, Shape::Section | Shape::Asked),
        };
        assert!(
            home.is_empty() || keys().any(|key| is_home(&key)),
            "{}",
            key.path
        );
    }
}

#[test]
fn every_default_and_every_strict_value_is_json() {
    for key in keys() {
        let strict = match key.effect {
            Effect::Switch(strict) => Some(strict),
            _ => None,
        };
        for json in key.default.into_iter().chain(strict) {
            let value = serde_json::from_str::<serde_json::Value>(json);
            assert!(value.is_ok(), "{}: {json}", key.path);
        }
    }
}

#[test]
fn every_sentence_about_a_key_is_one() {
    for key in keys() {
        assert!(key.about.ends_with('.'), "{}: {}", key.path, key.about);
    }
}

#[test]
fn a_dotted_name_is_no_key() {
    assert!(find("", "network.allowedDomains").is_none());
    assert!(find("network", "allowedDomains").is_some());
}

#[test]
fn unknown_keys_are_answered_with_the_one_that_was_meant() {
    let table = [
        ("filesystem", "denyWrit", "; did you mean `denyWrite`?"),
        ("filesystem", "DenyWrite", "; did you mean `denyWrite`?"),
        ("filesystem", "allowWrites", "; did you mean `allowWrite`?"),
        ("", "denyRead", "; it belongs in `filesystem`"),
        ("network", "denyRead", "; it belongs in `filesystem`"),
        ("filesystem", "network", "; it belongs at the top level"),
        ("", "denyReed", "; did you mean `filesystem.denyRead`?"),
        ("", "newtork", "; did you mean `network`?"),
        (
            "network",
            "allowDomains",
            "; did you mean `allowedDomains`?",
        ),
        (
            "",
            "network.allowedDomains",
            "; write `allowedDomains` inside the object of `network`",
        ),
        ("", "zzz", ""),
    ];
    for (section, name, expected) in table {
        assert_eq!(advice(section, name), expected, "{section} {name}");
    }
}

/// What stands in an object is judged with it.
#[test]
fn a_project_that_nobody_trusts_may_set_these_keys_as_it_likes() {
    let open = |path: &str| keys().any(|key| key.path == path && key.effect != Effect::Neutral);
    let free = keys().filter(|key| {
        let has_effect = !matches!(key.support, Support::Ignored(_));
        let is_value = !matches!(key.shape, Shape::Section | Shape::Foreign | Shape::Never(_));
        let section = key.section().trim_end_matches("[]");
        key.effect == Effect::Neutral && has_effect && is_value && !open(section)
    });
    let free: Vec<_> = free.map(|key| key.path).collect();
    let expected = [
        "$schema",
        "description",
        "version",
        "extends",
        "network.deniedDomainReasons",
        "network.transparent",
        "network.proxyEnv",
        "network.limits.bytesPerSecond",
        "weakeningReasons",
    ];
    assert_eq!(free, expected);
}
