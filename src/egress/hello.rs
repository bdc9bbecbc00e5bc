//! Reads the name out of a TLS ClientHello, and says where there is no reading it for sure.
//!
//! Own, because what matters here is what a TLS library forgives: two names, an unknown kind of
//! name, bytes behind the message.

use std::net::{IpAddr, Ipv6Addr};

use crate::policy::hostname::Host;
use crate::policy::network::Hello;

/// The state of reading. Fed every byte once, in order; keeps the message alone.
#[derive(Debug, Default)]
pub(super) struct Reader {
    seen: usize,
    /// Bytes of the header of a record, until there are five.
    header: Vec<u8>,
    /// Bytes of the record that are still to come.
    left: usize,
    message: Vec<u8>,
}

/// Longest hello, in bytes as sent. Those with post-quantum keys have about 2 KiB.
pub(super) const LIMIT: usize = 64 * 1024;

impl Reader {
    /// Takes the next bytes; `None` while more are needed to tell.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Option<Hello> {
        while let Some(first) = bytes.first() {
            let taken = match self.left {
                0 => {
                    self.header.push(*first);
                    1
                }
                left => left.min(bytes.len()),
            };
            self.seen += taken;
            if self.seen > LIMIT {
                return Some(Hello::Undecidable("is longer than 64 KiB"));
            }
            let found = match self.left {
                0 => self.read_header(),
                _ => self.read_message(&bytes[..taken]),
            };
            if found.is_some() {
                return found;
            }
            bytes = &bytes[taken..];
        }
        None
    }

    fn read_header(&mut self) -> Option<Hello> {
        let goes_on = match *self.header.as_slice() {
            [HANDSHAKE] | [HANDSHAKE, 3] | [HANDSHAKE, 3, _] | [HANDSHAKE, 3, _, _] => true,
            [HANDSHAKE, 3, _, high, low] => {
                self.left = usize::from(u16::from_be_bytes([high, low]));
                self.header.clear();
                (1..=MAX_RECORD).contains(&self.left)
            }
            _ if self.message.is_empty() => return Some(Hello::Other),
            _ => false,
        };
        (!goes_on).then_some(Hello::Undecidable(
            "is broken into records that TLS has not",
        ))
    }

    fn read_message(&mut self, bytes: &[u8]) -> Option<Hello> {
        self.left -= bytes.len();
        self.message.extend_from_slice(bytes);
        let [kind, length @ ..] = self.message.first_chunk::<4>()?;
        let end = 4 + number(length);
        if *kind != CLIENT_HELLO {
            return Some(Hello::Undecidable("is no ClientHello"));
        }
        if end > LIMIT {
            return Some(Hello::Undecidable("is longer than 64 KiB"));
        }
        if self.message.len() < end {
            return None;
        }
        // What follows in the record might be a second one, with another name.
        match self.left == 0 && self.message.len() == end {
            true => Some(read(&self.message[4..])),
            false => Some(Hello::Undecidable("has bytes behind it")),
        }
    }
}

/// Reads the body of a ClientHello (RFC 8446, 4.1.2).
fn read(body: &[u8]) -> Hello {
    let name = extensions(body).and_then(server_name);
    name.unwrap_or_else(Hello::Undecidable)
}

type Found<T> = Result<T, &'static str>;

/// Returns the list of extensions; an old client may send none.
fn extensions(body: &[u8]) -> Found<Fields<'_>> {
    const VERSION_AND_RANDOM: usize = 2 + 32;
    let mut fields = Fields(body);
    fields.take(VERSION_AND_RANDOM)?;
    // Session id, cipher suites, compression methods.
    for bytes_of_length in [1, 2, 1] {
        fields.block(bytes_of_length)?;
    }
    match fields.0 {
        [] => Ok(fields),
        _ => fields.last_block(),
    }
}

fn server_name(mut extensions: Fields<'_>) -> Found<Hello> {
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = number(extensions.take(2)?);
        let data = extensions.block(2)?;
        match kind {
            SERVER_NAME if found.is_some() => return Err(TWO_NAMES),
            SERVER_NAME => found = Some(name(Fields(data))?),
            ENCRYPTED_SERVER_NAME => return Err("hides the name it is meant for"),
            _ => {}
        }
    }
    Ok(found.map_or(Hello::Nameless, Hello::Named))
}

/// Reads the one name of the extension (RFC 6066, 3).
fn name(mut data: Fields<'_>) -> Found<Host> {
    let mut names = data.last_block()?;
    if names.take(1)? != [HOST_NAME] {
        return Err("names its host in an unknown way");
    }
    let name = names.block(2)?;
    if !names.0.is_empty() {
        return Err(TWO_NAMES);
    }
    let text = std::str::from_utf8(name)
        .ok()
        .filter(|text| text.is_ascii());
    let text = text.ok_or(NO_HOST)?;
    // No address belongs there, yet clients send some, and this kind without brackets.
    match text.parse::<Ipv6Addr>() {
        Ok(address) => Ok(Host::from(IpAddr::V6(address))),
        Err(_) => Host::parse(text).map_err(|_| NO_HOST),
    }
}

/// Bytes that are still to be read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Found<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(MALFORMED)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Takes a block whose length stands before it, in that many bytes.
    fn block(&mut self, bytes_of_length: usize) -> Found<&'a [u8]> {
        let length = number(self.take(bytes_of_length)?);
        self.take(length)
    }

    /// Takes a block behind which nothing may be.
    fn last_block(&mut self) -> Found<Self> {
        let block = self.block(2)?;
        match self.0 {
            [] => Ok(Self(block)),
            _ => Err(MALFORMED),
        }
    }
}

fn number(bytes: &[u8]) -> usize {
    let add = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
    bytes.iter().fold(0, add)
}

const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const HOST_NAME: u8 = 0;
const SERVER_NAME: usize = 0;
/// Of the drafts before Encrypted Client Hello, which has a name outside that is looked at.
const ENCRYPTED_SERVER_NAME: usize = 0xffce;

/// RFC 8446, 5.1.
const MAX_RECORD: usize = 1 << 14;

const MALFORMED: &str = "cannot be parsed";
const NO_HOST: &str = "names what is no host";
const TWO_NAMES: &str = "names more than one host";

#[cfg(test)]
pub(super) mod tests;
