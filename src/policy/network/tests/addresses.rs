//! Promises of ranges of ports, and of the keys that say where names may lead.

use super::*;

/// Allows `a.test`, with further settings.
fn network_with(change: impl FnOnce(&mut settings::Network)) -> Network {
    let mut settings = settings::Network {
        allowed_domains: entries("network.allowedDomains", &["a.test", "10.0.0.9"]),
        ..settings::Network::default()
    };
    change(&mut settings);
    let network = Network::from_settings(&settings).unwrap();
    let own = ["192.0.2.77", "10.0.0.77"].map(|address| address.parse().unwrap());
    network.learn_own_addresses(own.to_vec());
    network
}

#[test]
fn ports_of_a_range_are_covered_and_no_others() {
    let ranged = network(&["a.test:8000-8099"], &["*:8050-8060"]);
    for (port, allowed) in [
        (7999, false),
        (8000, true),
        (8049, true),
        (8050, false),
        (8060, false),
        (8061, true),
        (8099, true),
        (8100, false),
    ] {
        assert_eq!(
            permits(&ranged, &format!("a.test:{port}")),
            allowed,
            "{port}"
        );
    }
}

#[test]
fn no_name_leads_to_an_address_that_is_denied_to_names() {
    let cases = [
        ("198.51.100.5", "198.51.100.5"),
        ("198.51.100.0/24", "198.51.100.5"),
        ("198.51.100.7/24", "198.51.100.5"),
        ("::ffff:198.51.100.0/120", "198.51.100.5"),
        ("198.51.100.5", "64:ff9b::198.51.100.5"),
        ("2001:db8::/32", "2001:db8::5"),
        // Also where another rule lets names lead there.
        ("10.0.0.9", "10.0.0.9"),
    ];
    for (denied, address) in cases {
        assert!(
            admits(&network_with(|_| ()), "a.test:443", address),
            "{address}"
        );
        let network = network_with(|settings| {
            settings.denied_addresses = entries("network.deniedResolvedAddresses", &[denied]);
        });
        assert!(!admits(&network, "a.test:443", address), "{denied}");
        assert!(admits(&network, "a.test:443", "203.0.113.9"), "{denied}");
        assert!(
            admits(&network, "10.0.0.9:443", "10.0.0.9"),
            "asked for as such"
        );
    }
    for bad in [
        "a.test",
        "10.0.0.0/33",
        "[::1]",
        "10.0.0.1:80",
        "10.0.0.0/",
        "",
    ] {
        let settings = settings::Network {
            denied_addresses: entries("network.deniedResolvedAddresses", &[bad]),
            ..settings::Network::default()
        };
        assert!(Network::from_settings(&settings).is_err(), "{bad}");
    }
}

#[test]
fn private_networks_are_opened_to_names_and_nothing_else_is() {
    let open = network_with(|settings| settings.allow_private_networks = true);
    let closed = network_with(|_| ());
    for private in [
        "10.0.0.5",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "fd00::5",
        "64:ff9b::10.0.0.5",
    ] {
        assert!(!admits(&closed, "a.test:443", private), "{private}");
        assert!(admits(&open, "a.test:443", private), "{private}");
    }
    for other in [
        "127.0.0.1",
        "169.254.169.254",
        "100.100.100.200",
        "192.0.2.77",
        "10.0.0.77",
        "64:ff9b::10.0.0.77",
        "fd00:ec2::254",
        "fe80::1",
        "64:ff9b::127.0.0.1",
        "224.0.0.1",
    ] {
        assert!(!admits(&open, "a.test:443", other), "{other}");
    }
    let permit = closed.check(Target::parse("a.test:443", None).unwrap());
    let denial = permit
        .unwrap()
        .admit("10.0.0.5".parse().unwrap())
        .unwrap_err();
    let names_it = denial.message().contains("network.allowPrivateNetworks");
    assert!(names_it, "{}", denial.message());
}

#[test]
fn the_reason_of_the_entry_that_refused_is_told_on_one_line() {
    let reason = |text: &str| {
        let network = network_with(|settings| {
            settings.denied_domains = entries("network.deniedDomains", &["*.a.test", "b.a.test"]);
            let key = "network.deniedDomainReasons";
            settings.denied_reasons = vec![(
                entries(key, &["*.a.test"]).remove(0),
                entries(key, &[text]).remove(0),
            )];
        });
        let message = |target| {
            let denial = network
                .check(Target::parse(target, None).unwrap())
                .unwrap_err();
            denial.message().to_owned()
        };
        assert!(!message("b.test:80").contains("because"));
        message("x.a.test:80")
    };
    assert_eq!(
        reason("because"),
        "x.a.test:80 is blocked: the entry `*.a.test` of network.deniedDomains refuses it: because; \
         remove that entry to allow it"
    );
    let odd = reason("because\r\nX-Header: 1\u{1b}[31m \u{fc}");
    assert!(
        odd.contains(": because  X-Header: 1?[31m ?; remove"),
        "{odd}"
    );
    let long = reason(&"because ".repeat(1000));
    assert!(long.len() < 500 && long.contains("...; remove"), "{long}");
}
