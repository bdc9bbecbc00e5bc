use super::*;

fn canonical_text(text: &str) -> Result<String, Malformed> {
    Host::parse(text).map(|host| host.to_string())
}

#[test]
fn every_spelling_of_a_host_becomes_one() {
    let table = [
        ("example.org", "example.org"),
        ("EXAMPLE.Org", "example.org"),
        ("example.org.", "example.org"),
        ("a_b.example.org", "a_b.example.org"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("b\u{fc}cher.example", "xn--bcher-kva.example"),
        ("B\u{dc}CHER.Example.", "xn--bcher-kva.example"),
        ("bu\u{308}cher.example", "xn--bcher-kva.example"),
        ("stra\u{df}e.example", "xn--strae-oqa.example"),
        ("xn--strae-oqa.example", "xn--strae-oqa.example"),
        ("\u{65e5}\u{672c}.example", "xn--wgv71a.example"),
        (
            "\u{65e5}\u{672c}\u{3002}example\u{3002}",
            "xn--wgv71a.example",
        ),
        ("\u{ff25}xample.org", "example.org"),
        ("ex\u{ad}ample.org", "example.org"),
        ("127\u{3002}0\u{3002}0\u{3002}1", "127.0.0.1"),
        ("\u{ff11}\u{ff12}\u{ff17}.1", "127.0.0.1"),
        ("r3---sn-4g5e.example", "r3---sn-4g5e.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("0x", "0.0.0.0"),
        ("192.0x00A80001", "192.168.0.1"),
        ("4294967295", "255.255.255.255"),
        ("[::1]", "[::1]"),
        ("[0:0:0:0:0:0:0:1]", "[::1]"),
        ("[0000:0000:0000:0000:0000:0000:0000:0001]", "[::1]"),
        ("[::0001]", "[::1]"),
        ("[::0.0.0.1]", "[::1]"),
        ("[2001:DB8::A]", "[2001:db8::a]"),
        ("[2001:db8:0:0::a]", "[2001:db8::a]"),
        ("[2001:0db8:0000::000a]", "[2001:db8::a]"),
        ("[::ffff:127.0.0.1]", "127.0.0.1"),
        ("[::FFFF:7f00:1]", "127.0.0.1"),
        ("[0:0:0:0:0:ffff:7f00:1]", "127.0.0.1"),
        ("[::127.0.0.1]", "127.0.0.1"),
        ("[::7f00:1]", "127.0.0.1"),
        ("[::]", "[::]"),
    ];
    for (text, expected) in table {
        assert_eq!(canonical_text(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn text_that_two_parsers_may_read_differently_is_no_host() {
    let table = [
        "",
        ".",
        "..",
        ".example.org",
        "example..org",
        "example.org..",
        " example.org",
        "example.org ",
        "exam\tple.org",
        "example.org\r\nX: y",
        "example.org\0",
        "a@example.org",
        "allowed.test@evil.test",
        "evil.test\\@allowed.test",
        "allowed.test#evil.test",
        "allowed.test,evil.test",
        "allowed.test;evil.test",
        "allowed.test%2eevil.test",
        "allowed.test/evil.test",
        "allowed.test?evil",
        "allowed.test:80",
        "ex\u{202e}ample.org",
        "ex\u{ff0f}ample.org",
        "ex\u{ff20}ample.org",
        "ex\u{ff05}41mple.org",
        "example.org\u{3002}\u{3002}",
        "\u{ad}",
        "\u{ff0a}.example.org",
        "\u{2488}com",
        "b\u{fffd}cher.example",
        "xn--.example",
        "xn--a.example",
        "xn--bcher-kv\u{e4}.example",
        "xn--example-.org",
        "xn--BCHER-KVA8445.example\u{200d}",
        "<script>",
        "*",
        "*.example.org",
        "256.0.0.1",
        "1.2.3.4.5",
        "127.0.0.256",
        "4294967296",
        "08.0.0.1",
        "example.1",
        "example.0x1",
        "0x7g.1",
        "1..2",
        "::1",
        "[::1",
        "::1]",
        "[[::1]]",
        "[]",
        "[::1%eth0]",
        "[::1%25eth0]",
        "[fe80::1%1]",
        "[127.0.0.1]",
        "[::1]x",
        "[1::2::3]",
        "[::12345]",
        "[:::1]",
        "[::1.2.3]",
        "[ ::1]",
    ];
    for text in table {
        assert!(
            canonical_text(text).is_err(),
            "{text:?} is {:?}",
            canonical_text(text)
        );
    }
}

#[test]
fn the_canonical_spelling_is_its_own() {
    let spellings = [
        "B\u{fc}cher.Example.",
        "\u{ff21}.test",
        "0x7f.1",
        "[::FFFF:1.2.3.4]",
    ];
    for text in spellings {
        let once = canonical_text(text).unwrap();
        assert!(once.is_ascii(), "{text}");
        assert_eq!(canonical_text(&once), Ok(once.clone()), "{text}");
    }
}

#[test]
fn names_end_at_253_characters_and_labels_at_63() {
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
    assert_eq!(longest.len(), 253);
    assert!(Host::parse(&longest).is_ok());
    assert!(Host::parse(&format!("{longest}.")).is_ok());
    assert!(Host::parse(&format!("{longest}a")).is_err());
    assert!(Host::parse(&format!("{label}a.example")).is_err());
}

#[test]
fn a_target_has_one_port_from_1_to_65535() {
    let parse = |text| Target::parse(text, None).map(|target| target.to_string());
    assert_eq!(parse("A.test.:443").as_deref(), Ok("a.test:443"));
    assert_eq!(
        parse("[::ffff:10.0.0.1]:65535").as_deref(),
        Ok("10.0.0.1:65535")
    );
    for text in [
        "a.test",
        "a.test:",
        "a.test:0",
        "a.test:065",
        "a.test:65536",
        "a.test:+80",
        "a.test:80:80",
        "a.test:8 0",
        "a.test:-1",
        "[::1]80",
        "::1:80",
        ":80",
        "a.test:http",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    let defaulted = Target::parse("a.test", Some(80)).map(|target| target.port);
    assert_eq!(defaulted, Ok(80));
}

#[test]
fn what_is_taken_as_its_own_ascii_form_is() {
    let letters = ["a", "z", "0", "9", "-", ".", "xn", "--", "ab", "q-"];
    let mut seed = 7_u64;
    let mut plain = 0;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..seed % 9 + 1 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text += letters[usize::try_from(seed >> 33).unwrap() % letters.len()];
        }
        if is_plain(&text) {
            plain += 1;
            let ascii = idna::domain_to_ascii_cow(text.as_bytes(), idna::AsciiDenyList::EMPTY);
            assert_eq!(ascii.ok().as_deref(), Some(text.as_str()), "{text}");
        }
    }
    assert!(plain > 10_000, "{plain}");
}
