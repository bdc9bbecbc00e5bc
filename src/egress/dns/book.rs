//! Addresses that stand for names inside the sandbox, and for nothing outside.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names by number, and numbers by name; a number is the end of an IPv4 address of
/// 198.18.0.0/16 (RFC 2544: no network routes it) and of an IPv6 one.
#[derive(Debug, Default)]
pub(super) struct Book(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_name: HashMap<Arc<str>, u16>,
    by_number: HashMap<u16, Arc<str>>,
    last: u16,
}

/// The addresses of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Ipv6Addr,
}

/// 0 is the network itself, and 1 the sandbox.
const FIRST: u16 = 2;
/// The number above is the broadcast address.
const LAST: u16 = u16::MAX - 1;

const V4: [u8; 2] = [198, 18];
/// A locally assigned prefix of RFC 4193: `fd00:7372:7400::/48`.
const V6: [u16; 7] = [0xfd00, 0x7372, 0x7400, 0, 0, 0, 0];

impl Book {
    /// Returns the addresses of `name`, always the same ones, until so many others have been
    /// asked for that theirs come round again. Passes over those that `is_taken`; none where all
    /// of them are.
    pub(super) fn addresses(
        &self,
        name: &str,
        is_taken: impl Fn(IpAddr) -> bool,
    ) -> Option<Addresses> {
        let mut entries = self.entries();
        if let Some(number) = entries.by_name.get(name) {
            return Some(Addresses::of(*number));
        }
        let after = |number| if number < LAST { number + 1 } else { FIRST };
        let start = entries.last.max(FIRST - 1);
        let mut numbers = std::iter::successors(Some(after(start)), |number| Some(after(*number)));
        let is_free = |number: &u16| {
            let Addresses { v4, v6 } = Addresses::of(*number);
            !is_taken(v4.into()) && !is_taken(v6.into())
        };
        let number = numbers.by_ref().take(LAST.into()).find(is_free)?;
        entries.last = number;
        let name: Arc<str> = name.into();
        if let Some(former) = entries.by_number.insert(number, Arc::clone(&name)) {
            entries.by_name.remove(&former);
        }
        entries.by_name.insert(name, number);
        Some(Addresses::of(number))
    }

    /// Returns the name that an address stands for.
    pub(super) fn name_of(&self, address: IpAddr) -> Option<Arc<str>> {
        let number = match address {
            IpAddr::V4(v4) => {
                let [a, b, high, low] = v4.octets();
                ([a, b] == V4).then_some(u16::from_be_bytes([high, low]))
            }
            IpAddr::V6(v6) => match v6.segments() {
                [first @ .., number] if first == V6 => Some(number),
                _ => None,
            },
        };
        self.entries().by_number.get(&number?).cloned()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Addresses {
    fn of(number: u16) -> Self {
        let [high, low] = number.to_be_bytes();
        let [a, b] = V4;
        let [s0, s1, s2, s3, s4, s5, s6] = V6;
        Self {
            v4: Ipv4Addr::new(a, b, high, low),
            v6: Ipv6Addr::new(s0, s1, s2, s3, s4, s5, s6, number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: fn(IpAddr) -> bool = |_| false;

    #[test]
    fn a_name_keeps_its_addresses_and_both_lead_back_to_it() {
        let book = Book::default();
        let first = book.addresses("a.test", NONE).unwrap();
        let second = book.addresses("b.test", NONE).unwrap();
        assert_eq!(book.addresses("a.test", NONE), Some(first));
        assert_ne!(first, second);
        assert_eq!(first.v4, Ipv4Addr::new(198, 18, 0, 2));
        for address in [IpAddr::from(second.v4), IpAddr::from(second.v6)] {
            assert_eq!(book.name_of(address).as_deref(), Some("b.test"));
        }
        for text in ["198.18.0.1", "198.19.0.2", "127.0.0.1", "fd00::2", "::2"] {
            assert_eq!(book.name_of(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn addresses_that_are_taken_are_passed_over() {
        let book = Book::default();
        let taken: IpAddr = "198.18.0.2".parse().unwrap();
        let found = book.addresses("a.test", |address| address == taken);
        assert_eq!(found.unwrap().v4, Ipv4Addr::new(198, 18, 0, 3));
        assert_eq!(book.addresses("b.test", |_| true), None);
    }

    #[test]
    fn the_oldest_name_gives_way_when_all_addresses_are_used() {
        let book = Book::default();
        let all = usize::from(LAST - FIRST) + 1;
        let first = book.addresses("0.test", NONE).unwrap();
        for number in 1..all {
            book.addresses(&format!("{number}.test"), NONE).unwrap();
        }
        assert_eq!(book.name_of(first.v4.into()).as_deref(), Some("0.test"));
        assert_eq!(book.addresses("new.test", NONE), Some(first));
        assert_eq!(book.name_of(first.v4.into()).as_deref(), Some("new.test"));
        assert_ne!(book.addresses("0.test", NONE), Some(first));
        assert_eq!(book.entries().by_name.len(), all);
        assert_eq!(book.entries().by_number.len(), all);
    }
}
