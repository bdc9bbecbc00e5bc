use super::*;

fn permit(network: &Network, target: &str) -> Permit {
    network.check(Target::parse(target, None).unwrap()).unwrap()
}

fn named(host: &str) -> Hello {
    Hello::Named(Host::parse(host).unwrap())
}

const UNDECIDABLE: Hello = Hello::Undecidable("cannot be parsed");

#[test]
fn a_tunnel_passes_where_the_hello_names_its_host_or_nothing_has_to_be_named() {
    let network = network(
        &["a.test", "*.b.test", "10.0.0.0/8", "c.test:443"],
        &["d.b.test"],
    );
    let table = [
        ("a.test:443", named("A.TEST."), true),
        ("a.test:443", named("b.test"), false),
        ("a.test:443", named("x.a.test"), false),
        // Another host that is allowed is another host all the same.
        ("a.test:443", named("c.test"), false),
        ("x.b.test:443", named("y.b.test"), false),
        ("a.test:443", named("10.0.0.1"), false),
        ("a.test:443", Hello::Nameless, false),
        ("a.test:443", Hello::Other, false),
        ("a.test:443", UNDECIDABLE, false),
        ("a.test:8443", named("a.test"), true),
        ("a.test:8443", named("b.test"), false),
        ("a.test:8443", Hello::Nameless, true),
        ("a.test:22", Hello::Other, true),
        ("a.test:8443", UNDECIDABLE, false),
        ("10.0.0.1:443", Hello::Nameless, true),
        ("10.0.0.1:443", Hello::Other, false),
        ("10.0.0.1:443", UNDECIDABLE, false),
        ("10.0.0.1:443", named("10.0.0.1"), true),
        ("10.0.0.1:443", named("10.0.0.2"), true),
        // The client has resolved the name itself, and may reach it.
        ("10.0.0.1:443", named("a.test"), true),
        ("10.0.0.1:443", named("c.test"), true),
        ("10.0.0.1:8443", named("c.test"), false),
        ("10.0.0.1:443", named("d.b.test"), false),
        ("10.0.0.1:443", named("evil.test"), false),
    ];
    for (target, hello, passes) in table {
        let confirmed = permit(&network, target).confirm_hello(&hello);
        assert_eq!(confirmed.is_ok(), passes, "{target} {hello:?}");
    }
}

#[test]
fn a_mismatch_says_what_was_found_and_which_setting_minds() {
    let network = network(&["a.test"], &[]);
    let permit = permit(&network, "a.test:443");
    let denial = permit.confirm_hello(&named("evil.test")).unwrap_err();
    assert_eq!(
        denial.message(),
        "a.test:443 is blocked: the TLS hello inside names evil.test; network.requireHostMatch \
         closes what does not name the host it was allowed for"
    );
    assert_eq!(denial.code, event::Code::HostMismatch);
    let host = Target::parse("evil.test:443", None).unwrap();
    let denial = permit.confirm_host(&host).unwrap_err();
    assert!(
        denial
            .message()
            .contains("the Host header names evil.test:443"),
        "{}",
        denial.message()
    );
}

#[test]
fn the_setting_switches_both_comparisons_off() {
    let settings = settings::Network {
        allowed_domains: entries("network.allowedDomains", &["a.test"]),
        requires_host_match: false,
        ..settings::Network::default()
    };
    let network = Network::from_settings(&settings).unwrap();
    let permit = permit(&network, "a.test:443");
    assert!(!permit.must_be_confirmed());
    for hello in [
        named("evil.test"),
        Hello::Nameless,
        Hello::Other,
        UNDECIDABLE,
    ] {
        assert!(permit.confirm_hello(&hello).is_ok(), "{hello:?}");
    }
    let host = Target::parse("evil.test:443", None).unwrap();
    assert!(permit.confirm_host(&host).is_ok());
}
