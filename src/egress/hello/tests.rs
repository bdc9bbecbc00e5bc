use super::*;

/// What programs sent when they were told to ask for `name.example.test`, a line each.
const RECORDED: &str = include_str!("recorded.txt");

fn recorded() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    RECORDED.lines().map(move |line| {
        let (program, hex) = line.split_once(' ').unwrap();
        (program, hex.as_bytes().chunks(2).map(byte).collect())
    })
}

fn block(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}

fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &block(data)].concat()
}

fn sni(names: &[&str]) -> Vec<u8> {
    let entry = |name: &&str| [&[HOST_NAME][..], &block(name.as_bytes())].concat();
    let entries: Vec<u8> = names.iter().flat_map(entry).collect();
    extension(0, &block(&entries))
}

/// A message with these extensions, or without the place for any.
fn message(extensions: Option<&[u8]>) -> Vec<u8> {
    let fixed = [&[3, 3][..], &[7; 32], &[0], &block(&[0x13, 1]), &[1, 0]].concat();
    let body = [fixed, extensions.map(block).unwrap_or_default()].concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[CLIENT_HELLO][..], &length[1..], &body].concat()
}

fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| [&[HANDSHAKE, 3, 1][..], &block(part)].concat();
    message.chunks(size).flat_map(record).collect()
}

fn hello(extensions: &[u8]) -> Vec<u8> {
    records(&message(Some(extensions)), MAX_RECORD)
}

/// What programs sent, for others who want it.
pub(in crate::egress) fn samples() -> Vec<Vec<u8>> {
    recorded().map(|(_, bytes)| bytes).collect()
}

/// Reads in pieces of `size`.
fn read_in(bytes: &[u8], size: usize) -> Option<Hello> {
    let mut reader = Reader::default();
    bytes.chunks(size).find_map(|piece| reader.feed(piece))
}

fn found(bytes: &[u8]) -> Option<Hello> {
    let whole = read_in(bytes, bytes.len().max(1));
    for size in [1, 7] {
        assert_eq!(read_in(bytes, size), whole, "in pieces of {size}");
    }
    whole
}

fn named(name: &str) -> Option<Hello> {
    Some(Hello::Named(Host::parse(name).unwrap()))
}

#[test]
fn hellos_of_programs_are_read_in_any_pieces_and_records() {
    assert_eq!(recorded().count(), 10);
    for (program, bytes) in recorded() {
        let expected = match program {
            "openssl-nameless" => Some(Hello::Nameless),
            _ => named("name.example.test"),
        };
        assert_eq!(found(&bytes), expected, "{program}");
        for size in [1, 7, 100] {
            let split = records(&bytes[5..], size);
            assert_eq!(found(&split), expected, "{program} in records of {size}");
        }
        for end in 0..bytes.len() {
            assert_eq!(
                read_in(&bytes[..end], end.max(1)),
                None,
                "{program} to {end}"
            );
        }
    }
}

#[test]
fn names_are_found_behind_large_and_unknown_extensions() {
    let grease = extension(0x0a0a, &[]);
    let post_quantum = extension(51, &[9; 1258]);
    let encrypted = extension(
        0xfe0d,
        &[&[0, 0, 1, 0, 1, 5][..], &block(&[8; 32])].concat(),
    );
    let padding = extension(21, &[0; 17_000]);
    let before = [&grease[..], &post_quantum, &encrypted, &padding].concat();
    let bytes = hello(&[&before[..], &sni(&["a.test"])].concat());
    assert!(bytes.len() > MAX_RECORD);
    assert_eq!(found(&bytes), named("a.test"));
}

#[test]
fn a_name_is_taken_to_the_form_of_the_policy() {
    for spelled in ["A.Test", "a.test.", "a.test"] {
        assert_eq!(
            found(&hello(&sni(&[spelled]))),
            named("a.test"),
            "{spelled}"
        );
    }
    let international = hello(&sni(&["XN--bcher-KVA.test"]));
    assert_eq!(found(&international), named("bücher.test"));
    assert_eq!(found(&hello(&sni(&["192.0.2.1"]))), named("192.0.2.1"));
    assert_eq!(
        found(&hello(&sni(&["2001:db8::1"]))),
        named("[2001:db8::1]")
    );
}

#[test]
fn what_is_no_tls_is_told_at_its_first_byte_that_differs() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"SSH-2.0-x\r\n",
        &[0],
        &[0x80, 0x2e, 1, 3, 1],
        &[HANDSHAKE, 2],
        &[23, 3, 3, 0, 1, 1],
    ] {
        assert_eq!(found(bytes), Some(Hello::Other), "{bytes:?}");
    }
    assert_eq!(found(&[HANDSHAKE]), None);
    assert_eq!(found(&[]), None);
}

#[test]
fn a_hello_without_a_name_is_told_apart() {
    assert_eq!(found(&hello(&[])), Some(Hello::Nameless));
    let without_place = records(&message(None), MAX_RECORD);
    assert_eq!(found(&without_place), Some(Hello::Nameless));
    assert_eq!(found(&hello(&extension(16, &[0]))), Some(Hello::Nameless));
}

#[test]
fn nothing_that_can_be_read_in_two_ways_has_a_name() {
    let good = sni(&["a.test"]);
    let sound = message(Some(&good));
    let body = |change: fn(&mut Vec<u8>)| {
        let mut message = sound.clone();
        change(&mut message);
        records(&message, MAX_RECORD)
    };
    let mut behind = sound.clone();
    behind.extend(&sound);
    let mut interrupted = records(&sound[..20], MAX_RECORD);
    interrupted.extend([21, 3, 1, 0, 2, 1, 0]);
    let mut empty_record = records(&sound[..20], MAX_RECORD);
    empty_record.extend([HANDSHAKE, 3, 1, 0, 0]);
    let table = [
        ("two names", hello(&sni(&["a.test", "b.test"]))),
        ("the name twice", hello(&sni(&["a.test", "a.test"]))),
        (
            "two extensions",
            hello(&[&good[..], &sni(&["b.test"])].concat()),
        ),
        ("an empty list", hello(&sni(&[]))),
        ("an empty name", hello(&sni(&[""]))),
        ("an empty extension", hello(&extension(0, &[]))),
        (
            "another kind of name",
            hello(&extension(
                0,
                &block(&[&[1][..], &block(b"a.test")].concat()),
            )),
        ),
        (
            "bytes behind the list",
            hello(&extension(
                0,
                &[&block(&[&[0][..], &block(b"a.test")].concat())[..], &[0]].concat(),
            )),
        ),
        ("NUL", hello(&sni(&["a.test\0.b.test"]))),
        ("a blank", hello(&sni(&[" a.test"]))),
        ("a user", hello(&sni(&["x@a.test"]))),
        ("a port", hello(&sni(&["a.test:443"]))),
        ("not ASCII", hello(&sni(&["bücher.test"]))),
        (
            "254 characters",
            hello(&sni(&[format!("{}aa", "a.".repeat(126)).as_str()])),
        ),
        (
            "an encrypted name",
            hello(&[&good[..], &extension(0xffce, &[1])].concat()),
        ),
        ("a second hello behind", records(&behind, MAX_RECORD)),
        ("another record between", interrupted),
        ("an empty record", empty_record),
        ("a record over 16 KiB", vec![HANDSHAKE, 3, 1, 0x40, 1]),
        ("another message", records(&[2, 0, 0, 1, 0], MAX_RECORD)),
        (
            "an extension cut off",
            body(|message| {
                let last = message.len() - good_end();
                message[last] += 1;
            }),
        ),
        (
            "over 64 KiB as stated",
            records(&[CLIENT_HELLO, 1, 0, 0], MAX_RECORD),
        ),
        (
            "over 64 KiB as sent",
            records(&message(Some(&extension(21, &[0; 15_000]))), 1),
        ),
    ];
    assert_eq!(found(&records(&sound, MAX_RECORD)), named("a.test"));
    for (what, bytes) in table {
        let found = found(&bytes);
        assert!(
            matches!(found, Some(Hello::Undecidable(_))),
            "{what}: {found:?}"
        );
    }
}

/// Bytes of `a.test` and its length at the end of a hello.
fn good_end() -> usize {
    "a.test".len() + 1
}
