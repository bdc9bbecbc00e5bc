//! One question for a name and its answer, as bytes; see RFC 1035.
//!
//! Knows nothing of sockets and rules: who asks is told by [`Names`] what a name leads to.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use simple_dns::rdata::{A, AAAA, OPT, OPTCode, PTR, RData};
use simple_dns::{
    CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, ResourceRecord, TYPE,
};

use crate::policy::hostname::Host;

/// What the sandbox is told of names and addresses.
pub(in crate::egress) trait Names {
    /// Decides on a name.
    fn look_up(&self, host: &Host) -> Answer;
    /// Returns the name an address was given out for.
    fn name_of(&self, address: IpAddr) -> Option<String>;
    /// Notes a question that can be understood in no way, or for what is never told.
    fn refused(&self, asked: &str, refusal: Refused);
}

/// What a name leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::egress) enum Answer {
    /// To these addresses; one is missing where the sandbox has no such family.
    Addresses(Ipv4Addr, Option<Ipv6Addr>),
    /// Nowhere, for this reason.
    Denied(String),
    /// Nowhere at the moment.
    Exhausted,
}

/// Why a question gets no answer, whatever the rules for hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::egress) enum Refused {
    /// The name is not one of a host.
    Malformed(&'static str),
    /// Only addresses are told, and names of addresses.
    Type,
}

/// Answers `query` in at most `limit` bytes; `None` for what is not a question at all.
pub(in crate::egress) fn answer(query: &[u8], limit: usize, names: &impl Names) -> Option<Vec<u8>> {
    let id = u16::from_be_bytes(*query.first_chunk()?);
    let flags = u16::from_be_bytes(*query.get(2..HEADER)?.first_chunk()?);
    if flags & RESPONSE != 0 {
        return None;
    }
    let Ok(asked) = Packet::parse(query) else {
        return Reply::to(id).finish(RCODE::FormatError, limit);
    };
    let mut reply = Reply::to(id);
    if asked.has_flags(PacketFlag::RECURSION_DESIRED) {
        reply.0.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    if asked.opt().is_some() {
        *reply.0.opt_mut() = Some(OPT {
            opt_codes: Vec::new(),
            udp_packet_size: LARGEST_DATAGRAM,
            version: 0,
        });
    }
    if asked.opcode() != OPCODE::StandardQuery {
        return reply.finish(RCODE::NotImplemented, limit);
    }
    let [question] = asked.questions.as_slice() else {
        return reply.finish(RCODE::FormatError, limit);
    };
    reply.0.questions.push(question.clone());
    let code = match (question.qclass, question.qtype) {
        (QCLASS::CLASS(CLASS::IN), QTYPE::TYPE(TYPE::PTR)) => reply.pointer(question, names),
        (QCLASS::CLASS(CLASS::IN), _) => reply.addresses(question, names),
        _ => RCODE::Refused,
    };
    reply.finish(code, limit)
}

/// Tells how many bytes a client takes in one datagram; see RFC 6891, 6.2.3.
pub(in crate::egress) fn datagram_limit(query: &[u8]) -> usize {
    let offered = Packet::parse(query)
        .ok()
        .and_then(|packet| packet.opt().map(|opt| opt.udp_packet_size));
    usize::from(offered.map_or(SMALLEST_DATAGRAM, |offered| {
        offered.clamp(SMALLEST_DATAGRAM, LARGEST_DATAGRAM)
    }))
}

struct Reply<'a>(Packet<'a>);

impl<'a> Reply<'a> {
    fn to(id: u16) -> Self {
        let mut packet = Packet::new_reply(id);
        // Without it some clients take an answer without records for one of a server that
        // does not know the name's zone.
        packet.set_flags(PacketFlag::RECURSION_AVAILABLE);
        Self(packet)
    }

    fn addresses(&mut self, question: &Question<'a>, names: &impl Names) -> RCODE {
        let text = text_of(&question.qname);
        let host = match Host::parse(&text) {
            Ok(host @ Host::Name(_)) => host,
            Ok(Host::Ip(_)) => return self.malformed(&text, "an address is no name", names),
            Err(malformed) => return self.malformed(&text, malformed.0, names),
        };
        let (v4, v6) = match names.look_up(&host) {
            Answer::Addresses(v4, v6) => (v4, v6),
            Answer::Denied(reason) => {
                self.explain(&reason);
                return RCODE::NameError;
            }
            Answer::Exhausted => return RCODE::ServerFailure,
        };
        let record = match question.qtype {
            QTYPE::TYPE(TYPE::A) => Some(RData::A(A { address: v4.into() })),
            QTYPE::TYPE(TYPE::AAAA) => v6.map(|v6| RData::AAAA(AAAA { address: v6.into() })),
            // Nothing to add to the addresses, and no keys that would hide the name of the
            // host in a hand-shake.
            QTYPE::TYPE(TYPE::HTTPS | TYPE::SVCB) => None,
            _ => {
                names.refused(&text, Refused::Type);
                self.explain("only addresses are told inside the sandbox");
                return RCODE::Refused;
            }
        };
        self.add(question, record);
        RCODE::NoError
    }

    fn pointer(&mut self, question: &Question<'a>, names: &impl Names) -> RCODE {
        let name = reversed(&text_of(&question.qname)).and_then(|address| names.name_of(address));
        let Some(name) = name else {
            return RCODE::NameError;
        };
        let Ok(pointer) = Name::new(&name).map(Name::into_owned) else {
            return RCODE::ServerFailure;
        };
        self.add(question, Some(RData::PTR(PTR(pointer))));
        RCODE::NoError
    }

    fn add(&mut self, question: &Question<'a>, record: Option<RData<'a>>) {
        let name = &question.qname;
        let record =
            record.map(|data| ResourceRecord::new(name.clone(), CLASS::IN, TIME_TO_LIVE, data));
        self.0.answers.extend(record);
    }

    fn malformed(&mut self, text: &str, reason: &'static str, names: &impl Names) -> RCODE {
        names.refused(text, Refused::Malformed(reason));
        self.explain(reason);
        RCODE::NameError
    }

    /// Says why, to a client that takes such texts; see RFC 8914.
    fn explain(&mut self, reason: &str) {
        if let Some(opt) = self.0.opt_mut() {
            let text = reason.bytes().take(LONGEST_REASON);
            opt.opt_codes.push(OPTCode {
                code: EXTENDED_ERROR,
                data: Cow::Owned(BLOCKED.to_be_bytes().into_iter().chain(text).collect()),
            });
        }
    }

    fn finish(mut self, code: RCODE, limit: usize) -> Option<Vec<u8>> {
        *self.0.rcode_mut() = code;
        let bytes = self.0.build_bytes_vec_compressed().ok()?;
        if bytes.len() <= limit {
            return Some(bytes);
        }
        // The client asks again over TCP.
        self.0.answers.clear();
        if let Some(opt) = self.0.opt_mut() {
            opt.opt_codes.clear();
        }
        self.0.set_flags(PacketFlag::TRUNCATION);
        self.0.build_bytes_vec_compressed().ok()
    }
}

/// Joins the labels of a name. One that holds a dot of its own is no host's: it becomes a text
/// that parses as none.
fn text_of(name: &Name<'_>) -> String {
    let labels = name.as_bytes().map(|label| match label.contains(&b'.') {
        true => Cow::Borrowed("\\."),
        false => String::from_utf8_lossy(label),
    });
    labels.collect::<Vec<_>>().join(".")
}

/// Reads the address out of a name below `in-addr.arpa` or `ip6.arpa`; see RFC 1035, 3.5, and
/// RFC 3596, 2.5.
fn reversed(name: &str) -> Option<IpAddr> {
    let name = name.to_ascii_lowercase();
    if let Some(v4) = name.strip_suffix(".in-addr.arpa") {
        let octets: Vec<&str> = v4.rsplit('.').collect();
        return octets.join(".").parse().ok().map(IpAddr::V4);
    }
    let digits: Vec<&str> = name.strip_suffix(".ip6.arpa")?.rsplit('.').collect();
    let is_digit = |digit: &&str| digit.len() == 1;
    if digits.len() != 32 || !digits.iter().all(is_digit) {
        return None;
    }
    let number = u128::from_str_radix(&digits.concat(), 16).ok()?;
    Some(IpAddr::V6(number.into()))
}

/// Size of the header, and the flag in it that tells answers from questions.
const HEADER: usize = 12;
const RESPONSE: u16 = 0x8000;

/// What every client takes, and the most that passes everywhere in one piece; see RFC 1035,
/// 4.2.1, and RFC 9715.
const SMALLEST_DATAGRAM: u16 = 512;
const LARGEST_DATAGRAM: u16 = 1232;

/// Seconds; an address stands for its name longer than that.
const TIME_TO_LIVE: u32 = 60;

/// The option of RFC 8914, and its code for what a policy blocks.
const EXTENDED_ERROR: u16 = 15;
const BLOCKED: u16 = 15;

/// Leaves room for the longest name in the smallest datagram.
const LONGEST_REASON: usize = 200;

#[cfg(test)]
mod tests;
