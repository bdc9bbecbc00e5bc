//! Which addresses a listed name may lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sandbox_runtime::policy::Host;
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::harness::Scratch;
use crate::ledger::{Ledger, Way};
use crate::ours;
use crate::package::reference;

/// An address, and how it carries an IPv4 address if it does.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    address: IpAddr,
    carries: Option<(Form, Ipv4Addr)>,
}

/// A way to write an IPv4 address into an IPv6 one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Mapped,
    Compatible,
    Translated,
    Nat64,
    SixToFour,
    /// Of an operator's own choice: NAT64 for local use, Teredo, ISATAP.
    Nat64Local,
    Teredo,
    Isatap,
}

/// A listed name that leads to an address.
#[derive(Debug)]
struct Case {
    allowed: Vec<String>,
    denied: Vec<String>,
    name: &'static str,
    port: u16,
    to: Drawn,
}

#[test]
fn a_listed_name_leads_to_the_same_addresses() {
    let Some(package) = reference() else {
        return;
    };
    let scratch = Scratch::new("reference-addresses");
    let mut draw = Draw::start("addresses");
    let mut ledger = Ledger::new("addresses");
    let mut cases: Vec<Case> = witnesses();
    cases.extend((0..400).map(|_| case(&mut draw)));
    let asked: Vec<Value> = cases.iter().map(Case::asked).collect();
    let answers = package.decide(&json!({ "admitted": asked }));
    for (number, case) in cases.iter().enumerate() {
        let theirs = answers["admitted"][number] == true;
        let ours = case.ours(&scratch);
        ledger.count(theirs);
        if ours != theirs {
            ledger.differs(
                class(case.to, ours),
                Way::of(ours),
                format!(
                    "`{}` leads to {}: ours {ours}, theirs {theirs}; allowed {:?}, denied {:?}",
                    case.name, case.to.address, case.allowed, case.denied
                ),
            );
        }
    }
    ledger.settle(&["address"]);
}

impl Case {
    fn asked(&self) -> Value {
        json!({
            "allowed": self.allowed,
            "denied": self.denied,
            "name": self.name,
            "port": self.port,
            "address": self.to.address.to_string(),
        })
    }

    fn ours(&self, scratch: &Scratch) -> bool {
        let settings = ours::network(&self.allowed, &self.denied);
        let policy = ours::policy(scratch, &settings).expect("the entries are plain");
        let own = Host::addresses().expect("the kernel tells them");
        policy.network.learn_own_addresses(own);
        let target = ours::target(self.name, self.port).expect("the names are plain");
        let permit = policy.network.check(target).expect("the name is listed");
        permit.admit(self.to.address).is_ok()
    }
}

/// Says why one program lets a name lead to an address and the other does not.
fn class(to: Drawn, ours: bool) -> Option<&'static str> {
    let carried = to.carries.map(|(_, v4)| IpAddr::V4(v4));
    let end = carried.unwrap_or(to.address);
    let form = to.carries.map(|(form, _)| form);
    match form {
        Some(Form::Compatible) if ours => Some("address-ipv4-compatible"),
        _ if ours => None,
        Some(Form::Nat64Local | Form::Teredo | Form::Isatap) => Some("address-carried"),
        _ if is_private(end) => Some("address-private"),
        _ if is_reserved(end) => Some("address-reserved"),
        _ => None,
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_private() || a == 100 && b & 0xc0 == 64
        }
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

fn is_reserved(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [198, 18 | 19, ..] | [192, 0, 0, _] => true,
            [a, ..] => a >= 240,
        },
        IpAddr::V6(v6) => match v6.segments() {
            [0x100, 0, 0, 0, ..] => true,
            [first, ..] => first & 0xffc0 == 0xfec0,
        },
    }
}

const V4: [[u8; 4]; 20] = [
    [192, 0, 2, 1],
    [198, 51, 100, 7],
    [203, 0, 113, 9],
    [8, 8, 8, 8],
    [127, 0, 0, 1],
    [127, 255, 255, 255],
    [0, 0, 0, 0],
    [0, 1, 2, 3],
    [169, 254, 169, 254],
    [224, 0, 0, 1],
    [255, 255, 255, 255],
    [100, 100, 100, 200],
    [168, 63, 129, 16],
    [192, 0, 0, 192],
    [10, 0, 0, 5],
    [172, 31, 255, 255],
    [192, 168, 1, 1],
    [100, 64, 0, 1],
    [198, 18, 0, 1],
    [240, 0, 0, 1],
];
const V6: [&str; 14] = [
    "2001:db8::1",
    "2606:4700::1",
    "::1",
    "::",
    "fe80::1",
    "ff02::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fd00:42::42",
    "fd00:100::100:200",
    "fd12:3456::1",
    "fc00::1",
    "fec0::1",
    "100::1",
];
const FORMS: [Form; 8] = [
    Form::Mapped,
    Form::Compatible,
    Form::Translated,
    Form::Nat64,
    Form::SixToFour,
    Form::Nat64Local,
    Form::Teredo,
    Form::Isatap,
];

/// Cases that show each class.
fn witnesses() -> Vec<Case> {
    let to = |address: Drawn| Case {
        allowed: vec!["a.test".to_owned()],
        denied: Vec::new(),
        name: "a.test",
        port: 443,
        to: address,
    };
    let loopback = Ipv4Addr::LOCALHOST;
    let private = Ipv4Addr::new(10, 0, 0, 5);
    let mut compatible = to(carrying(Form::Compatible, loopback));
    compatible.allowed.push("127.0.0.1".to_owned());
    vec![
        to(plain(IpAddr::V4(private))),
        to(plain(IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)))),
        to(carrying(Form::Teredo, loopback)),
        compatible,
    ]
}

fn case(draw: &mut Draw) -> Case {
    let v4 = Ipv4Addr::from(*draw.pick(&V4));
    let to = match draw.below(10) {
        0..4 => plain(IpAddr::V4(v4)),
        4..7 => plain(draw.pick(&V6).parse().expect("the list holds addresses")),
        _ => carrying(*draw.pick(&FORMS), v4),
    };
    let name = *draw.pick(&["a.test", "localhost", "x.localhost"]);
    let port = *draw.pick(&[80, 443]);
    let mut allowed = vec![name.to_owned()];
    let mut denied = Vec::new();
    if draw.chance(30) {
        allowed.push(literal(draw, to));
    }
    if draw.chance(15) {
        denied.push(literal(draw, to));
    }
    Case {
        allowed,
        denied,
        name,
        port,
        to,
    }
}

/// Draws an entry for the address, or for the one that it carries.
fn literal(draw: &mut Draw, to: Drawn) -> String {
    let address = match to.carries {
        Some((_, v4)) if draw.chance(50) => IpAddr::V4(v4),
        _ => to.address,
    };
    let host = match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    };
    match draw.chance(30) {
        true => format!("{host}:443"),
        false => host,
    }
}

fn plain(address: IpAddr) -> Drawn {
    Drawn {
        address,
        carries: None,
    }
}

fn carrying(form: Form, v4: Ipv4Addr) -> Drawn {
    let [a, b, c, d] = v4.octets().map(u16::from);
    let (high, low) = (a << 8 | b, c << 8 | d);
    let segments = match form {
        Form::Mapped => [0, 0, 0, 0, 0, 0xffff, high, low],
        Form::Compatible => [0, 0, 0, 0, 0, 0, high, low],
        Form::Translated => [0, 0, 0, 0, 0xffff, 0, high, low],
        Form::Nat64 => [0x64, 0xff9b, 0, 0, 0, 0, high, low],
        Form::SixToFour => [0x2002, high, low, 0, 0, 0, 0, 1],
        Form::Nat64Local => [0x64, 0xff9b, 1, 0, 0, 0, high, low],
        // The client stands there with its bits inverted, behind an ordinary server.
        Form::Teredo => [0x2001, 0, 0xc000, 0x0201, 0, 0, !high, !low],
        Form::Isatap => [0x2001, 0xdb8, 0, 0, 0, 0x5efe, high, low],
    };
    Drawn {
        address: IpAddr::V6(Ipv6Addr::from(segments)),
        carries: Some((form, v4)),
    }
}
