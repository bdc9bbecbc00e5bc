//! Which addresses a name may lead to: the ranges that are out of bounds unless listed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::hostname::{canonical, low_v4};

/// Names the range of `address` that is out of bounds, looking into embedded IPv4 as well.
///
/// `own` are the addresses of this host's interfaces, which stay out of bounds where
/// `private_is_open`. `None` is an ordinary address; those kept for documentation (RFC 5737,
/// RFC 3849) count as ordinary, since nothing answers there.
pub fn guarded(address: IpAddr, own: &[IpAddr], private_is_open: bool) -> Option<&'static str> {
    let mut readings = readings(address).into_iter();
    readings.find_map(|address| {
        let range = range(address).filter(|range| !(private_is_open && is_private(range)));
        let is_own = own.iter().any(|own| canonical(*own) == address);
        range.or_else(|| is_own.then_some("an address of this host"))
    })
}

/// Tells whether a range that [`guarded`] names is one of those that `allowPrivateNetworks` is
/// about.
pub(super) fn is_private(range: &str) -> bool {
    [PRIVATE, CARRIER, SITE_LOCAL].contains(&range)
}

/// Returns every address a packet to `address` may end up at: itself, and the IPv4 addresses
/// that translators and tunnels take from it.
pub(super) fn readings(address: IpAddr) -> Vec<IpAddr> {
    let address = canonical(address);
    let mut readings = vec![address];
    if let IpAddr::V6(v6) = address {
        readings.extend(embedded(v6).into_iter().map(IpAddr::V4));
    }
    readings
}

/// Tells whether this address is a loopback one.
pub(super) fn is_loopback(address: IpAddr) -> bool {
    canonical(address).is_loopback()
}

fn range(address: IpAddr) -> Option<&'static str> {
    let table: &[(&str, &str)] = match address {
        IpAddr::V4(_) => &V4,
        IpAddr::V6(_) => &V6,
    };
    for (net, name) in table {
        let net: IpNet = net
            .parse()
            .expect("the table of ranges holds networks only");
        if net.contains(&address) {
            return Some(name);
        }
    }
    None
}

fn embedded(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let octets = address.octets();
    let at = |at: usize| Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]);
    match address.segments() {
        // Translated, RFC 2765: ::ffff:0:a.b.c.d.
        [0, 0, 0, 0, 0xffff, 0, _, _] => vec![low_v4(address)],
        // NAT64, RFC 6052.
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => vec![low_v4(address)],
        // NAT64 for local use, RFC 8215: the operator chooses the prefix length, and with it
        // where the four bytes stand; all places RFC 6052 gives for a /48 or longer count. Those
        // that read as 0.x.y.z are padding of another length.
        [0x64, 0xff9b, 1, ..] => {
            let [_, _, _, _, _, _, a, b, _, c, d, ..] = octets;
            let p56 = Ipv4Addr::new(octets[7], octets[9], octets[10], octets[11]);
            let mut places = vec![Ipv4Addr::new(a, b, c, d), p56, at(9), low_v4(address)];
            places.retain(|place| place.octets()[0] != 0);
            places
        }
        // 6to4, RFC 3056.
        [0x2002, ..] => vec![at(2)],
        // Teredo, RFC 4380: the server, and the client with its bits inverted.
        [0x2001, 0, ..] => {
            let client = Ipv4Addr::from(!u32::from(low_v4(address)));
            vec![at(4), client]
        }
        // ISATAP, RFC 5214: the interface identifier ends in the IPv4 address.
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => vec![low_v4(address)],
        _ => Vec::new(),
    }
}

const PRIVATE: &str = "a private address";
const CARRIER: &str = "an address of a carrier's own network";
const SITE_LOCAL: &str = "a site-local address";

/// Narrower ranges first, so that the name says what was hit.
const V4: [(&str, &str); 17] = [
    ("169.254.169.254/32", "a cloud metadata address"),
    ("169.254.170.2/32", "a cloud metadata address"),
    ("100.100.100.200/32", "a cloud metadata address"),
    ("168.63.129.16/32", "a cloud metadata address"),
    ("192.0.0.192/32", "a cloud metadata address"),
    ("127.0.0.0/8", "a loopback address"),
    ("0.0.0.0/8", "an address of this host"),
    ("169.254.0.0/16", "a link-local address"),
    ("255.255.255.255/32", "a broadcast address"),
    ("224.0.0.0/4", "a multicast address"),
    ("10.0.0.0/8", PRIVATE),
    ("172.16.0.0/12", PRIVATE),
    ("192.168.0.0/16", PRIVATE),
    ("100.64.0.0/10", CARRIER),
    ("198.18.0.0/15", "an address for benchmarks"),
    ("192.0.0.0/24", "an address for protocol use"),
    ("240.0.0.0/4", "a reserved address"),
];

const V6: [(&str, &str); 13] = [
    ("fd00:ec2::/32", "a cloud metadata address"),
    ("fd20:ce::254/128", "a cloud metadata address"),
    ("fd00:c1::a9fe:a9fe/128", "a cloud metadata address"),
    ("fd00:42::42/128", "a cloud metadata address"),
    ("fd00:a9fe:a9fe::1/128", "a cloud metadata address"),
    ("fd00:100::100:200/128", "a cloud metadata address"),
    ("::1/128", "a loopback address"),
    ("::/128", "an address of this host"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", SITE_LOCAL),
    ("ff00::/8", "a multicast address"),
    ("fc00::/7", PRIVATE),
    // Discard-only, RFC 6666.
    ("100::/64", "a reserved address"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(text: &str) -> Option<&'static str> {
        guarded(
            text.parse().unwrap(),
            &["192.0.2.77".parse().unwrap()],
            false,
        )
    }

    #[test]
    fn first_last_and_middle_of_every_range_are_out_of_bounds() {
        let table = [
            "0.0.0.0",
            "0.7.7.7",
            "0.255.255.255",
            "10.0.0.0",
            "10.9.9.9",
            "10.255.255.255",
            "100.64.0.0",
            "100.100.1.1",
            "100.127.255.255",
            "127.0.0.0",
            "127.0.0.1",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.255.255",
            "172.16.0.0",
            "172.20.1.1",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.192",
            "192.0.0.255",
            "192.168.0.0",
            "192.168.7.7",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.0.1",
            "198.19.255.255",
            "224.0.0.0",
            "230.1.1.1",
            "239.255.255.255",
            "240.0.0.0",
            "250.1.1.1",
            "255.255.255.254",
            "255.255.255.255",
            "168.63.129.16",
            "192.0.2.77",
            "::",
            "::1",
            "fc00::",
            "fd00::1",
            "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fe80::",
            "fe80::1",
            "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fec0::",
            "fed0::1",
            "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "ff00::",
            "ff02::1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "fd00:ec2::254",
            "fd20:ce::254",
        ];
        for text in table {
            assert!(judge(text).is_some(), "{text}");
        }
    }

    #[test]
    fn neighbours_of_the_ranges_and_documentation_addresses_are_ordinary() {
        let table = [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "168.63.129.17",
            "2001:db8::1",
            "2606:4700::1",
            "fbff::1",
            "fe7f::1",
            "64:ff9b::93.184.216.34",
            "64:ff9b:1::93.184.216.34",
            "2002:5db8:d822::1",
        ];
        for text in table {
            assert_eq!(judge(text), None, "{text}");
        }
    }

    #[test]
    fn ipv4_inside_ipv6_is_judged_as_ipv4() {
        let table = [
            ("::ffff:127.0.0.1", "a loopback address"),
            ("::10.0.0.1", "a private address"),
            ("::ffff:0:169.254.169.254", "a cloud metadata address"),
            ("64:ff9b::10.0.0.1", "a private address"),
            ("64:ff9b:1:0a00:00:0100::", "a private address"),
            ("64:ff9b:1::192.168.0.1", "a private address"),
            ("2002:7f00:1::1", "a loopback address"),
            ("2001:0:a00:1::", "a private address"),
            ("2001:0:5db8:d822::80ff:fffe", "a loopback address"),
            ("2001:db8::5efe:10.0.0.1", "a private address"),
        ];
        for (text, expected) in table {
            assert_eq!(judge(text), Some(expected), "{text}");
        }
    }
}
