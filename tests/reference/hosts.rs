//! Which entries the two lists of hosts take, and which hosts they then let through.

use sandbox_runtime::policy::hostname;
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::harness::Scratch;
use crate::ledger::{Ledger, Way};
use crate::ours;
use crate::package::{Package, reference};

/// What one settings file allows and denies, and what is then asked for.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) allowed: Vec<String>,
    pub(crate) denied: Vec<String>,
    pub(crate) requests: Vec<(String, u16)>,
}

#[test]
fn the_lists_let_the_same_hosts_through() {
    let Some(package) = reference() else {
        return;
    };
    let scratch = Scratch::new("reference-hosts");
    let mut draw = Draw::start("hosts");
    let mut ledger = Ledger::new("hosts");

    let mut entries: Vec<String> = ENTRIES.map(str::to_owned).into();
    entries.extend(witnesses().into_iter().flat_map(|lists| lists.allowed));
    entries.extend((0..150).map(|_| entry(&mut draw)));
    let both = compare_entries(package, &scratch, &entries, &mut ledger);

    let mut cases = witnesses();
    cases.retain(|lists| lists.allowed.iter().all(|entry| both.contains(entry)));
    cases.extend((0..120).map(|_| self::draw(&mut draw, &both)));
    compare_requests(package, &scratch, &cases, &mut ledger);
    ledger.settle(&["entry", "request"]);
}

/// Returns the entries that both programs take.
fn compare_entries(
    package: &Package,
    scratch: &Scratch,
    entries: &[String],
    ledger: &mut Ledger,
) -> Vec<String> {
    let one = |entry: &String| json!({ "allowed": [entry], "denied": [] });
    let asked: Vec<Value> = entries.iter().map(one).collect();
    let answers = package.decide(&json!({ "accepted": asked }));
    let mut both = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let theirs = answers["accepted"][number] == true;
        let settings = ours::network(std::slice::from_ref(entry), &[]);
        let ours = ours::policy(scratch, &settings);
        match (ours.is_ok(), theirs) {
            (true, true) => both.push(entry.clone()),
            (false, false) => {}
            (ours, _) => ledger.differs(
                entry_class(entry, ours),
                Way::of(ours),
                format!("`{entry}` in a list: ours {ours}, theirs {theirs}"),
            ),
        }
    }
    assert!(both.len() > 50, "too few entries are left to compare");
    both
}

/// Says why one program takes an entry and the other does not.
fn entry_class(entry: &str, ours: bool) -> Option<&'static str> {
    let (host, _) = split_port(entry);
    let (name, wild) = match host.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (host, false),
    };
    let bracketed = name.strip_prefix('[');
    match ours {
        true if name.contains('/') => Some("entry-range"),
        true if name.ends_with('.') => Some("entry-trailing-dot"),
        true if number(name) => Some("entry-number"),
        true if host.eq_ignore_ascii_case("localhost") => Some("entry-localhost-case"),
        true => None,
        false if bracketed.is_some_and(|inner| inner.contains('%')) => Some("entry-zone"),
        false if bracketed.is_some() => Some("entry-brackets"),
        false if wild && ends_in_number(name) => Some("entry-wildcard-address"),
        false if wild && PUBLIC_SUFFIXES.contains(&name) => Some("entry-public-suffix"),
        false if malformed(name) => Some("entry-malformed"),
        false => None,
    }
}

fn compare_requests(package: &Package, scratch: &Scratch, cases: &[Lists], ledger: &mut Ledger) {
    let ask = |spell: &dyn Fn(&Lists) -> Value| {
        let asked: Vec<Value> = cases.iter().map(spell).collect();
        package.decide(&json!({ "allowed": asked }))["allowed"].take()
    };
    let theirs = ask(&Lists::asked_as_written);
    let by_entries = ask(&|lists| lists.asked(canonical_entry, str::to_owned));
    let by_both = ask(&|lists| lists.asked(canonical_entry, canonical_host));
    for (number, lists) in cases.iter().enumerate() {
        let settings = ours::network(&lists.allowed, &lists.denied);
        let policy = ours::policy(scratch, &settings).expect("each entry was taken");
        for (at, (host, port)) in lists.requests.iter().enumerate() {
            let ours = ours::allows(&policy, host, *port);
            let says = |answers: &Value| answers[number][at] == true;
            ledger.count(says(&theirs));
            if ours == says(&theirs) {
                continue;
            }
            let class = match ours::target(host, *port) {
                None => request_class(host, *port),
                Some(_) if ours == says(&by_entries) => Some("entry-spelling"),
                Some(_) if ours == says(&by_both) => spelling_class(host),
                Some(_) => None,
            };
            let what = format!(
                "`{host}` port {port}: ours {ours}, theirs {}; allowed {:?}, denied {:?}",
                !ours, lists.allowed, lists.denied
            );
            ledger.differs(class, Way::of(ours), what);
        }
    }
}

/// Says in what way this program takes a host for the same as another.
fn spelling_class(host: &str) -> Option<&'static str> {
    match host.strip_prefix("[::") {
        Some(_) => Some("request-ipv4-compatible"),
        None if !host.is_ascii() => Some("request-idn"),
        None => None,
    }
}

/// Says why a request is none to this program.
fn request_class(host: &str, port: u16) -> Option<&'static str> {
    match port {
        0 => Some("request-port-0"),
        _ if host.starts_with('[') => Some("request-brackets"),
        _ if malformed(host.strip_suffix('.').unwrap_or(host)) => Some("request-malformed"),
        _ => None,
    }
}

impl Lists {
    /// Returns the question as it stands.
    pub(crate) fn asked_as_written(&self) -> Value {
        self.asked(str::to_owned, str::to_owned)
    }

    /// Returns the question, with entries and hosts as these functions spell them.
    fn asked(&self, entry: fn(&str) -> String, host: fn(&str) -> String) -> Value {
        let entries = |list: &[String]| list.iter().map(|text| entry(text)).collect::<Vec<_>>();
        let requests = self.requests.iter();
        let requests: Vec<_> = requests.map(|(text, port)| (host(text), *port)).collect();
        json!({
            "allowed": entries(&self.allowed),
            "denied": entries(&self.denied),
            "requests": requests,
        })
    }
}

fn canonical_entry(entry: &str) -> String {
    let (host, port) = split_port(entry);
    match host.strip_prefix("*.") {
        Some(name) => format!("*.{}{port}", canonical_host(name)),
        None => format!("{}{port}", canonical_host(host)),
    }
}

fn canonical_host(host: &str) -> String {
    hostname::Host::parse(host).map_or_else(|_| host.to_owned(), |host| host.to_string())
}

/// Splits the port off, with its colon.
fn split_port(entry: &str) -> (&str, &str) {
    let after = entry.rfind(']').map_or(0, |end| end + 1);
    match entry[after..].find(':') {
        Some(colon) => entry.split_at(after + colon),
        None => (entry, ""),
    }
}

/// Tells whether a name has what no host name has: another character, an empty or long label,
/// or an end that makes it an address that is none.
fn malformed(name: &str) -> bool {
    let character = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    !name.chars().all(character)
        || name.len() > 253
        || name
            .split('.')
            .any(|label| label.is_empty() || label.len() > 63)
        || ends_in_number(name)
}

fn ends_in_number(name: &str) -> bool {
    number(name.rsplit('.').next().unwrap_or(name))
}

fn number(label: &str) -> bool {
    let digits = label.strip_prefix("0x").unwrap_or(label);
    let hex = label.len() != digits.len();
    digits
        .chars()
        .all(|c| c.is_ascii_digit() || hex && c.is_ascii_hexdigit())
}

/// Entries of every form, among them one at least for each class.
const ENTRIES: [&str; 60] = [
    "a.test",
    "A.Test",
    "*.a.test",
    "*.A.test:8443",
    "a.test:443",
    "localhost",
    "localhost:80",
    "app.localhost",
    "*.localhost",
    "192.0.2.1",
    "192.0.2.1:22",
    "[::1]",
    "[2001:db8::1]:443",
    "[::ffff:10.0.0.5]",
    "a_b.test",
    "-a.test",
    "xn--bcher-kva.example",
    "0x7f.1",
    "1.2.3",
    "*.co.uk",
    // Neither takes these.
    "",
    "*",
    "*:443",
    "*.com",
    "a.*.test",
    "ex*.test",
    "*a.test",
    "vm",
    ".a.test",
    "a.test:0",
    "a.test:065",
    "a.test:65536",
    "a.test:",
    "https://a.test",
    "a.test/path",
    "::1",
    "2001:db8::1:443",
    "[::1]x",
    "[::1",
    "*.",
    "*.a..test",
    // One alone takes these.
    "a.test.",
    "*.a.test.",
    "LOCALHOST",
    "10.0.0.0/8",
    "10.0.0.0/8:443",
    "[2001:db8::]/32",
    "2130706433",
    "0x7f000001",
    "a..test",
    "user@a.test",
    "a.test,b.test",
    "a test.test",
    "256.1.1.1",
    "1.2.3.4.5",
    "*.x.*.test",
    "*.127.0.0.1",
    "[fe80::1%eth0]",
    "[192.0.2.1]",
    "bücher.example",
];

/// Some of those where anybody may register a name below.
const PUBLIC_SUFFIXES: [&str; 3] = ["co.uk", "com.au", "github.io"];

/// Requests that show each class of differing verdicts.
fn witnesses() -> Vec<Lists> {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let case = |allowed: &[&str], denied: &[&str], requests: &[(&str, u16)]| Lists {
        allowed: texts(allowed),
        denied: texts(denied),
        requests: requests
            .iter()
            .map(|(host, port)| ((*host).to_owned(), *port))
            .collect(),
    };
    let long = format!("{}.a.test", "l".repeat(64));
    vec![
        case(&["0x7f.1"], &[], &[("127.0.0.1", 80), ("127.1", 80)]),
        case(&["10.0.0.5"], &["0xa.5"], &[("10.0.0.5", 80)]),
        case(
            &["10.0.0.5"],
            &[],
            &[("[::10.0.0.5]", 80), ("[::ffff:10.0.0.5]", 80)],
        ),
        case(
            &["bücher.example"],
            &[],
            &[("xn--bcher-kva.example", 80), ("bücher.example", 80)],
        ),
        case(
            &["*.a.test"],
            &[],
            &[("x..a.test", 80), (&long, 80), ("x.a.test", 0)],
        ),
        case(
            &["192.0.2.1", "a.test"],
            &[],
            &[("[192.0.2.1]", 80), ("[a.test]", 80)],
        ),
    ]
}

const NAMES: [&str; 10] = [
    "a.test",
    "b.a.test",
    "c.b.a.test",
    "xa.test",
    "example.test",
    "app.example.test",
    "localhost",
    "app.localhost",
    "xn--bcher-kva.example.test",
    "bücher.example.test",
];
const V4: [[u32; 4]; 3] = [[10, 0, 0, 5], [192, 0, 2, 1], [127, 0, 0, 1]];
const V6: [&str; 4] = [
    "[2001:db8::1]",
    "[2001:DB8:0:0:0:0:0:1]",
    "[::1]",
    "[64:ff9b::10.0.0.5]",
];
const PORTS: [u16; 3] = [80, 443, 8443];
const NO_HOSTS: [&str; 10] = [
    "",
    "a..test",
    "a.test..",
    "x a.test",
    "a.test\0.b.a.test",
    "a.test%00",
    "[fe80::1%eth0]",
    "256.1.1.1",
    "user@a.test",
    "a.test/x",
];

/// Draws lists of these entries, and requests.
pub(crate) fn draw(draw: &mut Draw, entries: &[String]) -> Lists {
    let many = |draw: &mut Draw, most: usize| {
        let count = draw.below(most + 1);
        (0..count).map(|_| draw.pick(entries).clone()).collect()
    };
    let mut allowed: Vec<String> = many(draw, 4);
    allowed.push(draw.pick(entries).clone());
    let denied: Vec<String> = many(draw, 2);
    let listed = [allowed.as_slice(), denied.as_slice()].concat();
    let requests = (0..8).map(|_| request(draw, &listed)).collect();
    Lists {
        allowed,
        denied,
        requests,
    }
}

fn entry(draw: &mut Draw) -> String {
    let host = match draw.below(20) {
        0..5 => spell_v4(draw),
        5..8 => (*draw.pick(&V6)).to_owned(),
        _ => {
            let name = spell_name(draw, 5);
            match draw.chance(40) {
                true => format!("*.{name}"),
                false => name,
            }
        }
    };
    match draw.chance(30) {
        true => format!("{host}:{}", draw.pick(&PORTS)),
        false => host,
    }
}

/// Draws a request: more often than not one that an entry of the lists may cover.
fn request(draw: &mut Draw, listed: &[String]) -> (String, u16) {
    if draw.chance(8) {
        return ((*draw.pick(&NO_HOSTS)).to_owned(), 443);
    }
    let port = *draw.pick(&PORTS);
    if draw.chance(60) {
        let (host, listed) = split_port(draw.pick::<String>(listed));
        let port = match draw.chance(80) {
            true => listed.trim_start_matches(':').parse().unwrap_or(port),
            false => port,
        };
        let host = match host.strip_prefix("*.") {
            Some(name) if draw.chance(80) => format!("z.{name}"),
            Some(name) => name.to_owned(),
            None => host.to_owned(),
        };
        let dot = !host.starts_with('[') && draw.chance(20);
        return (if dot { format!("{host}.") } else { host }, port);
    }
    let host = match draw.below(10) {
        0..3 => spell_v4(draw),
        3 => (*draw.pick(&V6)).to_owned(),
        _ => spell_name(draw, 15),
    };
    (host, port)
}

/// Draws a name, now and then in upper case or with a dot at its end.
fn spell_name(draw: &mut Draw, dots: usize) -> String {
    let name = *draw.pick(&NAMES);
    let name = match draw.chance(20) {
        true => name.to_uppercase(),
        false => name.to_owned(),
    };
    match draw.chance(dots) {
        true => format!("{name}."),
        false => name,
    }
}

/// Draws an IPv4 address in one of the spellings that resolvers know.
fn spell_v4(draw: &mut Draw) -> String {
    let [a, b, c, d] = *draw.pick(&V4);
    match draw.below(12) {
        0 => format!("{a:#x}.{b}.0{c:o}.{d}"),
        1 => format!("0{a:o}.{b}.{c}.0{d:o}"),
        2 => format!("{}", (a << 24) + (b << 16) + (c << 8) + d),
        3 => format!("{a}.{}", (b << 16) + (c << 8) + d),
        4 => format!("{a}.{b}.{}", (c << 8) + d),
        5 => format!("[::ffff:{a}.{b}.{c}.{d}]"),
        6 => format!("[::FFFF:{:x}:{:x}]", (a << 8) + b, (c << 8) + d),
        7 => format!("[::{a}.{b}.{c}.{d}]"),
        8 => format!("{a}.{b}.{c}.{d}."),
        _ => format!("{a}.{b}.{c}.{d}"),
    }
}
