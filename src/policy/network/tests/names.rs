//! Names that are asked for, before there is a port.

use super::*;

#[test]
fn names_that_lead_elsewhere_are_left_to_be_asked_for() {
    let network = network(
        &["app.test:443", "*.dev.test", "localhost"],
        &["no.dev.test"],
    );
    let kept = |text: &str| network.without_names_to_ask_for(text);
    for text in [
        "",
        "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 box\n",
        "# 192.0.2.1 app.test\n\n0.0.0.0 app.test ads.test\n:: app.test\n",
        "127.0.0.1 no.dev.test my.test",
        "nonsense app.test\n",
    ] {
        assert_eq!(kept(text), None, "{text}");
    }
    for (text, left) in [
        (
            "192.0.2.1 app.test\n127.0.0.1 localhost\n",
            "127.0.0.1 localhost\n",
        ),
        ("10.0.0.5 other.test # here", ""),
        ("fe80::1%eth0 a.test\n2001:db8::1 a.test\n", ""),
        (
            "127.0.0.1 localhost a.dev.test box\n",
            "127.0.0.1 localhost box\n",
        ),
        ("127.0.0.1\tapp.test\n::1 localhost\n", "::1 localhost\n"),
    ] {
        assert_eq!(kept(text).as_deref(), Some(left), "{text}");
    }
}

#[test]
fn a_name_is_answered_where_any_port_of_it_may_be_reached() {
    let answered = |allowed: &[&str], denied: &[&str], host: &str| {
        let host = Host::parse(host).unwrap();
        network(allowed, denied).check_any_port(&host)
    };
    for (allowed, denied) in [
        (&["app.test"][..], &[][..]),
        (&["app.test:22"], &[]),
        (&["app.test:22"], &["app.test:80", "*:443"]),
        (&["app.test"], &["app.test:1-1023"]),
        (&["app.test:80-90"], &["*:80", "app.test:82-90"]),
        (&["app.test:80", "app.test:90"], &["app.test:80"]),
    ] {
        assert!(
            answered(allowed, denied, "app.test").is_ok(),
            "{allowed:?} {denied:?}"
        );
    }
    for (allowed, denied) in [
        (&[][..], &[][..]),
        (&["*.app.test"], &[]),
        (&["app.test"], &["app.test"]),
        (&["app.test"], &["*"]),
        (&["app.test:22"], &["app.test:22"]),
        (&["app.test:80-90"], &["*:80-85", "app.test:86-99"]),
        (&["app.test"], &["app.test:1-65535"]),
    ] {
        assert!(
            answered(allowed, denied, "app.test").is_err(),
            "{allowed:?} {denied:?}"
        );
    }
    let denial = answered(&["app.test:22"], &["app.test:22"], "app.test").unwrap_err();
    assert!(
        denial
            .message()
            .contains("`app.test:22` of network.deniedDomains")
    );
    let denial = answered(&[], &[], "app.test").unwrap_err();
    assert!(denial.message().contains("add `app.test:443`"));
}
