use std::cell::RefCell;

use super::*;

const V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x7372, 0x7400, 0, 0, 0, 0, 2);

/// Knows `app.test` and its addresses.
#[derive(Default)]
struct World {
    is_v4_only: bool,
    refused: RefCell<Vec<(String, Refused)>>,
}

impl Names for World {
    fn look_up(&self, host: &Host) -> Answer {
        match host {
            Host::Name(name) if name == "app.test" => {
                Answer::Addresses(V4, (!self.is_v4_only).then_some(V6))
            }
            Host::Name(name) if name == "full.test" => Answer::Exhausted,
            _ => Answer::Denied("not listed".to_owned()),
        }
    }

    fn name_of(&self, address: IpAddr) -> Option<String> {
        (address == V4 || address == V6).then(|| "app.test".to_owned())
    }

    fn refused(&self, asked: &str, refusal: Refused) {
        self.refused.borrow_mut().push((asked.to_owned(), refusal));
    }
}

fn wire(labels: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in labels {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(*label);
    }
    bytes.push(0);
    bytes
}

fn question_in(labels: &[&[u8]], kind: u16, class: u16) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 0];
    bytes.extend(wire(labels));
    bytes.extend(kind.to_be_bytes());
    bytes.extend(class.to_be_bytes());
    bytes
}

fn question(name: &str, kind: u16) -> Vec<u8> {
    let labels: Vec<&[u8]> = name.split('.').map(str::as_bytes).collect();
    question_in(&labels, kind, 1)
}

/// Adds an OPT record: 1232 bytes, and that signatures are welcome.
fn with_opt(mut query: Vec<u8>) -> Vec<u8> {
    query[11] = 1;
    query.extend([0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]);
    query
}

fn ask(query: &[u8]) -> Vec<u8> {
    answer(query, 512, &World::default()).expect("there is an answer")
}

fn code(answer: &[u8]) -> u8 {
    answer[3] & 15
}

fn answers(answer: &[u8]) -> u16 {
    u16::from_be_bytes([answer[6], answer[7]])
}

const A: u16 = 1;
const PTR: u16 = 12;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SVCB: u16 = 64;
const HTTPS: u16 = 65;
const ANY: u16 = 255;

#[test]
fn addresses_of_a_name_are_told_with_its_question_as_it_was_spelt() {
    let query = question("ApP.tEsT", A);
    let answer = ask(&query);
    assert_eq!(answer[..2], [0x12, 0x34]);
    // An answer, recursion desired and available.
    assert_eq!(answer[2..4], [0x81, 0x80]);
    assert_eq!(answer[12..query.len()], query[12..]);
    assert_eq!((code(&answer), answers(&answer)), (0, 1));
    assert!(answer.ends_with(&V4.octets()));
    assert!(ask(&question("app.test", AAAA)).ends_with(&V6.octets()));
}

#[test]
fn what_a_name_has_none_of_is_an_empty_answer() {
    for kind in [HTTPS, SVCB] {
        let answer = ask(&question("app.test", kind));
        assert_eq!((code(&answer), answers(&answer)), (0, 0), "{kind}");
    }
    let world = World {
        is_v4_only: true,
        ..World::default()
    };
    let answer = answer(&question("app.test", AAAA), 512, &world).unwrap();
    assert_eq!((code(&answer), answers(&answer)), (0, 0));
}

#[test]
fn a_refusal_names_its_reason_to_clients_that_take_one() {
    let query = question("evil.test", A);
    let answer = ask(&query);
    assert_eq!((code(&answer), answer.len()), (3, query.len()));
    let answer = ask(&with_opt(query));
    assert_eq!(code(&answer), 3);
    // Option 15, length, code 15, text.
    assert!(answer.ends_with(&[&[0, 15, 0, 12, 0, 15], &b"not listed"[..]].concat()));
    assert_eq!(code(&ask(&question("full.test", A))), 2);
}

#[test]
fn other_types_and_classes_are_refused() {
    let world = World::default();
    for kind in [TXT, ANY, 2, 15, 33, 252] {
        let answer = answer(&question("app.test", kind), 512, &world).unwrap();
        assert_eq!((code(&answer), answers(&answer)), (5, 0), "{kind}");
    }
    assert_eq!(world.refused.borrow().len(), 6);
    let chaos = question_in(&[b"version", b"bind"], TXT, 3);
    assert_eq!(code(&ask(&chaos)), 5);
    // One that is denied is denied for every type.
    assert_eq!(code(&ask(&question("evil.test", TXT))), 3);
}

#[test]
fn addresses_lead_back_to_names() {
    let v6: String = (V6.octets().iter().rev())
        .map(|octet| format!("{:x}.{:x}.", octet & 15, octet >> 4))
        .collect();
    for name in [
        "2.0.18.198.in-addr.arpa",
        "2.0.18.198.IN-ADDR.ARPA",
        &format!("{v6}ip6.arpa"),
    ] {
        let answer = ask(&question(name, PTR));
        assert_eq!((code(&answer), answers(&answer)), (0, 1), "{name}");
        assert!(answer.ends_with(b"\x03app\x04test\0"), "{name}");
    }
    for name in [
        "3.0.18.198.in-addr.arpa",
        "0.18.198.in-addr.arpa",
        "02.0.18.198.in-addr.arpa",
        "1.ip6.arpa",
        "app.test",
        &format!("{}ip6.arpa", "+1.".repeat(32)),
    ] {
        assert_eq!(code(&ask(&question(name, PTR))), 3, "{name}");
    }
}

#[test]
fn names_that_no_host_has_are_refused_as_such() {
    let long = [b'a'; 63];
    let labels: [&[&[u8]]; 6] = [
        &[b"app.test"],
        &[b"app\0", b"test"],
        &[b"user@app", b"test"],
        &[b"\xff", b"test"],
        &[b"10", b"0", b"0", b"1"],
        &[],
    ];
    for labels in labels {
        let world = World::default();
        let answer = answer(&question_in(labels, A, 1), 512, &world).unwrap();
        assert_eq!(code(&answer), 3, "{labels:?}");
        let refused = world.refused.borrow();
        assert!(
            matches!(refused[..], [(_, Refused::Malformed(_))]),
            "{labels:?}"
        );
    }
    // 255 bytes, the longest there is: 253 characters.
    let longest = [&long[..], &long, &long, &long[..61]];
    let answer = ask(&question_in(&longest, A, 1));
    assert_eq!(code(&answer), 3);
    assert!(ask(&with_opt(question_in(&longest, A, 1))).len() <= 512);
}

#[test]
fn what_is_malformed_is_told_so_or_not_answered() {
    let world = World::default();
    let question = question("app.test", A);
    for len in 0..12 {
        assert_eq!(answer(&question[..len], 512, &world), None, "{len}");
    }
    for len in 12..question.len() {
        assert_eq!(code(&ask(&question[..len])), 1, "{len}");
    }
    let mut reply = question.clone();
    reply[2] |= 0x80;
    assert_eq!(
        answer(&reply, 512, &world),
        None,
        "answers are not answered"
    );
    let mut update = question.clone();
    update[2] = 0x28;
    assert_eq!(code(&ask(&update)), 4);
    let mut several = question.clone();
    several[5] = 2;
    several.extend(&question[12..]);
    assert_eq!(code(&ask(&several)), 1);
    let mut none = question[..12].to_vec();
    none[5] = 0;
    assert_eq!(code(&ask(&none)), 1);
    // A name that points at itself.
    let mut turning = question[..12].to_vec();
    turning.extend([0xc0, 12, 0, 1, 0, 1]);
    assert_eq!(code(&ask(&turning)), 1);
}

#[test]
fn answers_fit_the_datagram_that_the_client_takes() {
    let plain = question("app.test", A);
    assert_eq!(datagram_limit(&plain), 512);
    assert_eq!(datagram_limit(&with_opt(plain.clone())), 1232);
    assert_eq!(datagram_limit(b"junk"), 512);
    let cut = answer(&plain, 30, &World::default()).unwrap();
    assert_eq!((cut[2] & 2, answers(&cut)), (2, 0), "the client is told");
}
