//! A name server that answers as a test says and remembers what it was asked.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

/// What a name server says of a name.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Its addresses; those of the kind that is asked are given.
    Addresses(Vec<IpAddr>),
    /// Another name for it, whose answer follows.
    Alias(String),
    /// There is no such name.
    Missing,
    /// The server failed.
    Fails,
    /// No answer at all.
    Silent,
    /// A text.
    Text(String),
    /// Bytes that are no message.
    Garbage(Vec<u8>),
}

impl Answer {
    pub fn addresses(texts: &[&str]) -> Self {
        Self::Addresses(texts.iter().map(|text| super::address(text)).collect())
    }
}

/// What is asked for, by its number in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(pub u16);

impl Kind {
    pub const A: Self = Self(1);
    pub const CNAME: Self = Self(5);
    pub const TXT: Self = Self(16);
    pub const AAAA: Self = Self(28);
}

#[derive(Debug, Default)]
pub struct Dns {
    /// The answers to a name one after the other; the last is repeated.
    zone: Mutex<HashMap<String, Vec<Answer>>>,
    asked: Mutex<Vec<(String, Kind)>>,
}

impl Dns {
    pub(super) fn new(names: &[(&str, &str)]) -> Self {
        let dns = Self::default();
        for (name, address) in names {
            dns.add(name, Answer::addresses(&[address]));
        }
        dns
    }

    /// Has a name answer the same each time.
    pub fn add(&self, name: &str, answer: Answer) {
        self.add_in_turn(name, vec![answer]);
    }

    /// Has a name answer something else each time it is asked for one kind, and the last for ever.
    pub fn add_in_turn(&self, name: &str, answers: Vec<Answer>) {
        let mut zone = self.zone.lock().expect("nothing panics with it");
        zone.insert(name.to_owned(), answers);
    }

    /// Returns every question for the name or a name below it.
    pub fn asked(&self, name: &str) -> Vec<Kind> {
        let below = format!(".{name}");
        let asked = self.all_asked().into_iter();
        asked
            .filter(|(asked, _)| asked == name || asked.ends_with(&below))
            .map(|(_, kind)| kind)
            .collect()
    }

    /// Returns every question since the start.
    pub fn all_asked(&self) -> Vec<(String, Kind)> {
        self.asked.lock().expect("nothing panics with it").clone()
    }

    /// Notes the question and returns what to say.
    fn answer(&self, name: &str, kind: Kind) -> Answer {
        let question = (name.to_owned(), kind);
        let mut asked = self.asked.lock().expect("nothing panics with it");
        let turn = asked.iter().filter(|asked| **asked == question).count();
        asked.push(question);
        drop(asked);
        self.turn(name, turn)
    }

    fn turn(&self, name: &str, turn: usize) -> Answer {
        let zone = self.zone.lock().expect("nothing panics with it");
        let answers = zone.get(name).map_or(&[][..], Vec::as_slice);
        let answer = answers.get(turn).or(answers.last());
        answer.cloned().unwrap_or(Answer::Missing)
    }

    /// Returns the message that answers a query, unless it is left without.
    fn reply(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, kind, end) = question(query)?;
        let mut answer = self.answer(&name, kind);
        let mut records = Vec::new();
        let mut owner = name;
        while let Answer::Alias(target) = answer {
            records.push(record(&owner, Kind::CNAME, &encoded(&target)));
            answer = self.turn(&target, 0);
            owner = target;
        }
        let code = match answer {
            Answer::Silent => return None,
            Answer::Garbage(bytes) => return Some([&query[..2], &bytes].concat()),
            Answer::Fails => 2,
            Answer::Missing => 3,
            Answer::Addresses(addresses) => {
                let of_kind = addresses.into_iter().filter_map(|address| match address {
                    IpAddr::V4(v4) if kind == Kind::A => Some(v4.octets().to_vec()),
                    IpAddr::V6(v6) if kind == Kind::AAAA => Some(v6.octets().to_vec()),
                    _ => None,
                });
                records.extend(of_kind.map(|data| record(&owner, kind, &data)));
                0
            }
            Answer::Text(text) => {
                if kind == Kind::TXT {
                    records.push(record(&owner, kind, &labelled(text.as_bytes())));
                }
                0
            }
            Answer::Alias(_) => unreachable!("followed above"),
        };
        let count = u16::try_from(records.len()).ok()?.to_be_bytes();
        // A reply, wanted and given with recursion.
        let head = [query[0], query[1], 0x81, 0x80 | code, 0, 1];
        let rest = [count[0], count[1], 0, 0, 0, 0];
        Some([&head[..], &rest, &query[12..end], &records.concat()].concat())
    }
}

/// Reads the only question of a query: its name in lower case, its kind, and where it ends.
fn question(query: &[u8]) -> Option<(String, Kind, usize)> {
    let mut at = 12;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        let label = query.get(at..at + length)?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        at += length;
    }
    let kind = Kind(u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]));
    (query.len() >= at + 4).then(|| (labels.join("."), kind, at + 4))
}

fn record(owner: &str, kind: Kind, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).expect("a record is short");
    let [class, ttl] = [[0, 1], [0, 0]];
    [
        &encoded(owner)[..],
        &kind.0.to_be_bytes(),
        &class,
        &ttl,
        &ttl,
        &length.to_be_bytes(),
        data,
    ]
    .concat()
}

fn encoded(name: &str) -> Vec<u8> {
    let labels = name.split('.').map(|label| labelled(label.as_bytes()));
    labels.chain([vec![0]]).collect::<Vec<_>>().concat()
}

fn labelled(text: &[u8]) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("a label is short");
    [&[length], text].concat()
}

/// Answers at port 53 of an address, over UDP and TCP.
pub(super) fn serve(dns: &Arc<Dns>, address: &str) {
    let socket = UdpSocket::bind((address, 53)).expect("the world has the address");
    let listener = TcpListener::bind((address, 53)).expect("the world has the address");
    let over_udp = Arc::clone(dns);
    std::thread::spawn(move || {
        let mut query = [0; 4096];
        while let Ok((count, from)) = socket.recv_from(&mut query) {
            if let Some(reply) = over_udp.reply(&query[..count]) {
                drop(socket.send_to(&reply, from));
            }
        }
    });
    let over_tcp = Arc::clone(dns);
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut length = [0; 2];
            let mut query = vec![0; 4096];
            while client.read_exact(&mut length).is_ok() {
                let count = usize::from(u16::from_be_bytes(length)).min(query.len());
                if client.read_exact(&mut query[..count]).is_err() {
                    break;
                }
                let Some(reply) = over_tcp.reply(&query[..count]) else {
                    break;
                };
                let length = u16::try_from(reply.len()).expect("a reply is short");
                let framed = [&length.to_be_bytes()[..], &reply].concat();
                if client.write_all(&framed).is_err() {
                    break;
                }
            }
        }
    });
}
