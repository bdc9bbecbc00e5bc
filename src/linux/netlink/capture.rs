//! Has every destination lead into this network namespace itself.
//!
//! A route of type `local` makes every address this machine's own (see ip-route(8)); a NAT chain
//! of nf_tables then brings every TCP connection to one port, so that all others stay free.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::net::netlink::NETFILTER;

use super::{Batch, attribute, nested, open};

/// What the namespace answers to beside loopback. Without an address that is not a loopback
/// one, resolvers take the machine to be off line; see AI_ADDRCONFIG in getaddrinfo(3).
pub(crate) const OWN_V4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The same for IPv6.
pub(crate) const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x7372, 0x7400, 0, 0, 0, 0, 1);

// From linux/rtnetlink.h and linux/if_addr.h.
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const IFA_LOCAL: u16 = 2;
const RTA_OIF: u16 = 4;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_HOST: u8 = 254;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RTN_LOCAL: u8 = 2;

// From linux/socket.h.
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// Index of `lo` in a new namespace, where it is the only interface.
const LOOPBACK_INDEX: u32 = 1;

/// What became of each family.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) v4: io::Result<()>,
    pub(crate) v6: io::Result<()>,
}

/// Makes every address local. `lo` must be up.
pub(crate) fn route_everything() -> io::Result<Routed> {
    let mut batch = Batch::default();
    for (family, own) in [
        (AF_INET, IpAddr::V4(OWN_V4)),
        (AF_INET6, IpAddr::V6(OWN_V6)),
    ] {
        batch.create(RTM_NEWADDR, &address(family, own));
        batch.create(RTM_NEWROUTE, &route(family));
    }
    // NETLINK_ROUTE is protocol 0.
    let mut outcomes = batch.send(&open(None)?)?.into_iter();
    let mut both = || outcomes.by_ref().take(2).collect();
    Ok(Routed {
        v4: both(),
        v6: both(),
    })
}

/// `struct ifaddrmsg` and the address.
fn address(family: u8, own: IpAddr) -> Vec<u8> {
    let (bits, octets) = match own {
        IpAddr::V4(own) => (32, own.octets().to_vec()),
        IpAddr::V6(own) => (128, own.octets().to_vec()),
    };
    let mut body = vec![family, bits, 0, RT_SCOPE_UNIVERSE];
    body.extend(LOOPBACK_INDEX.to_ne_bytes());
    body.extend(attribute(IFA_LOCAL, &octets));
    body
}

/// `struct rtmsg` of a route to everything, and the interface.
fn route(family: u8) -> Vec<u8> {
    let mut body = vec![family, 0, 0, 0];
    body.extend([RT_TABLE_LOCAL, RTPROT_BOOT, RT_SCOPE_HOST, RTN_LOCAL]);
    body.extend([0; 4]);
    body.extend(attribute(RTA_OIF, &LOOPBACK_INDEX.to_ne_bytes()));
    body
}

/// What brings every TCP connection that leaves to one port of the loopback, but for those to
/// the namespace's own addresses and to the port of the resolver. The first destination can be
/// asked of the socket that accepts, as `SO_ORIGINAL_DST`.
///
/// Connections within the loopback are not tracked: the kernel's table of connections is of a
/// size for all namespaces, and a test of a server inside must not fill it.
#[derive(Debug)]
pub(crate) struct Redirection {
    socket: OwnedFd,
    to: Ports,
    made: Mutex<bool>,
}

/// Where connections are to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    /// All but those that ask for names.
    pub(crate) captured: u16,
    /// Those that ask for names, wherever.
    pub(crate) resolver: u16,
}

impl Redirection {
    /// Opens what it is made over, in the network namespace of this process, and tries as much
    /// of it as costs nothing.
    pub(crate) fn prepare() -> io::Result<OwnedFd> {
        let socket = open(Some(NETFILTER))?;
        let rule = rule(UNTRACKED, &untracked());
        tables(&[regular_chain(UNTRACKED)], &[rule]).send_all(&socket)?;
        Ok(socket)
    }

    /// Takes what [`Redirection::prepare`] opened, in whatever process of the namespace's owner.
    pub(crate) fn new(socket: OwnedFd, to: Ports) -> Self {
        Self {
            socket,
            to,
            made: Mutex::new(false),
        }
    }

    /// Makes it, once. To switch the kernel's tracking on takes a tenth of a launch, and most
    /// runs connect to nothing.
    pub(crate) fn make(&self) -> io::Result<()> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if *made {
            return Ok(());
        }
        // Without another try, whatever comes: each connection would wait for one.
        *made = true;
        let chains = [
            chain(BEFORE_TRACKED, b"filter\0", BEFORE_TRACKING),
            chain(REDIRECTED, b"nat\0", BEFORE_ROUTING),
        ];
        let rules = rules(self.to).into_iter();
        let rules: Vec<_> = rules
            .map(|(chain, expressions)| rule(chain, &expressions))
            .collect();
        tables(&chains, &rules).send_all(&self.socket)
    }
}

fn tables(chains: &[Vec<u8>], rules: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::default();
    batch.mark(NFNL_MSG_BATCH_BEGIN, &header(0, NFNL_SUBSYS_NFTABLES));
    let table = table_of(&[attribute(NFTA_TABLE_NAME, TABLE)]);
    batch.create(of_tables(NFT_MSG_NEWTABLE), &table);
    for chain in chains {
        batch.create(of_tables(NFT_MSG_NEWCHAIN), chain);
    }
    for rule in rules {
        batch.create(of_tables(NFT_MSG_NEWRULE), rule);
    }
    batch.mark(NFNL_MSG_BATCH_END, &header(0, NFNL_SUBSYS_NFTABLES));
    batch
}

type Expressions = Vec<Vec<u8>>;

fn rules(to: Ports) -> Vec<(&'static [u8], Expressions)> {
    let v4 = || meta_is(NFT_META_NFPROTO, NFPROTO_IPV4);
    let v6 = || meta_is(NFT_META_NFPROTO, NFPROTO_IPV6);
    let answers = [
        meta_is(NFT_META_L4PROTO, IPPROTO_TCP),
        payload_is(TRANSPORT, SOURCE_PORT, &to.captured.to_be_bytes()),
    ];
    let first_of_loopback = &Ipv4Addr::LOCALHOST.octets()[..1];
    let resolver = to.resolver.to_be_bytes();
    let loopback_v6 = Ipv6Addr::LOCALHOST.octets();
    vec![
        // Answers of the proxies go back the way the connection came.
        (BEFORE_TRACKED, [answers.concat(), accept()].concat()),
        (
            BEFORE_TRACKED,
            [meta_is_not(NFT_META_L4PROTO, IPPROTO_TCP), untracked()].concat(),
        ),
        (
            BEFORE_TRACKED,
            [
                v4(),
                payload_is(NETWORK, DESTINATION_V4, first_of_loopback),
                untracked(),
            ]
            .concat(),
        ),
        (
            BEFORE_TRACKED,
            [
                v6(),
                payload_is(NETWORK, DESTINATION_V6, &loopback_v6),
                untracked(),
            ]
            .concat(),
        ),
        (
            BEFORE_TRACKED,
            [
                payload_is(TRANSPORT, DESTINATION_PORT, &resolver),
                untracked(),
            ]
            .concat(),
        ),
        // Both ways: half a connection is taken for a new one, and redirected.
        (
            BEFORE_TRACKED,
            [payload_is(TRANSPORT, SOURCE_PORT, &resolver), untracked()].concat(),
        ),
        (
            REDIRECTED,
            [
                v4(),
                payload_is(NETWORK, DESTINATION_V4, &OWN_V4.octets()),
                accept(),
            ]
            .concat(),
        ),
        (
            REDIRECTED,
            [
                v6(),
                payload_is(NETWORK, DESTINATION_V6, &OWN_V6.octets()),
                accept(),
            ]
            .concat(),
        ),
        (REDIRECTED, redirect(to.captured)),
    ]
}

fn table_of(attributes: &[Vec<u8>]) -> Vec<u8> {
    [header(NFPROTO_INET, 0), attributes.concat()].concat()
}

fn chain(name: &[u8], kind: &[u8], priority: i32) -> Vec<u8> {
    table_of(&[
        attribute(NFTA_CHAIN_TABLE, TABLE),
        attribute(NFTA_CHAIN_NAME, name),
        nested(
            NFTA_CHAIN_HOOK,
            &[
                attribute(NFTA_HOOK_HOOKNUM, &NF_INET_LOCAL_OUT.to_be_bytes()),
                attribute(NFTA_HOOK_PRIORITY, &priority.to_be_bytes()),
            ],
        ),
        attribute(NFTA_CHAIN_TYPE, kind),
    ])
}

fn regular_chain(name: &[u8]) -> Vec<u8> {
    table_of(&[
        attribute(NFTA_CHAIN_TABLE, TABLE),
        attribute(NFTA_CHAIN_NAME, name),
    ])
}

fn rule(chain: &[u8], expressions: &[Vec<u8>]) -> Vec<u8> {
    table_of(&[
        attribute(NFTA_RULE_TABLE, TABLE),
        attribute(NFTA_RULE_CHAIN, chain),
        nested(NFTA_RULE_EXPRESSIONS, expressions),
    ])
}

fn expression(name: &[u8], attributes: &[Vec<u8>]) -> Vec<u8> {
    nested(
        NFTA_LIST_ELEM,
        &[
            attribute(NFTA_EXPR_NAME, name),
            nested(NFTA_EXPR_DATA, attributes),
        ],
    )
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

fn value(kind: u16, bytes: &[u8]) -> Vec<u8> {
    nested(kind, &[attribute(NFTA_DATA_VALUE, bytes)])
}

fn compared(operator: u32, bytes: &[u8]) -> Vec<u8> {
    expression(
        b"cmp\0",
        &[
            number(NFTA_CMP_SREG, REGISTER),
            number(NFTA_CMP_OP, operator),
            value(NFTA_CMP_DATA, bytes),
        ],
    )
}

fn meta(key: u32) -> Vec<u8> {
    expression(
        b"meta\0",
        &[number(NFTA_META_KEY, key), number(NFTA_META_DREG, REGISTER)],
    )
}

fn meta_is(key: u32, byte: u8) -> Expressions {
    vec![meta(key), compared(NFT_CMP_EQ, &[byte])]
}

fn meta_is_not(key: u32, byte: u8) -> Expressions {
    vec![meta(key), compared(NFT_CMP_NEQ, &[byte])]
}

fn payload_is(base: u32, offset: u32, bytes: &[u8]) -> Expressions {
    let len = u32::try_from(bytes.len()).expect("an address at most");
    let load = expression(
        b"payload\0",
        &[
            number(NFTA_PAYLOAD_DREG, REGISTER),
            number(NFTA_PAYLOAD_BASE, base),
            number(NFTA_PAYLOAD_OFFSET, offset),
            number(NFTA_PAYLOAD_LEN, len),
        ],
    );
    vec![load, compared(NFT_CMP_EQ, bytes)]
}

fn untracked() -> Expressions {
    vec![nested(
        NFTA_LIST_ELEM,
        &[attribute(NFTA_EXPR_NAME, b"notrack\0")],
    )]
}

fn accept() -> Expressions {
    let verdict = nested(NFTA_DATA_VERDICT, &[number(NFTA_VERDICT_CODE, NF_ACCEPT)]);
    vec![expression(
        b"immediate\0",
        &[
            number(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT),
            nested(NFTA_IMMEDIATE_DATA, &[verdict]),
        ],
    )]
}

fn redirect(port: u16) -> Expressions {
    let load = expression(
        b"immediate\0",
        &[
            number(NFTA_IMMEDIATE_DREG, REGISTER),
            value(NFTA_IMMEDIATE_DATA, &port.to_be_bytes()),
        ],
    );
    let redirect = expression(b"redir\0", &[number(NFTA_REDIR_REG_PROTO_MIN, REGISTER)]);
    vec![load, redirect]
}

/// `struct nfgenmsg`.
fn header(family: u8, resource: u16) -> Vec<u8> {
    let [high, low] = resource.to_be_bytes();
    vec![family, 0, high, low]
}

fn of_tables(what: u16) -> u16 {
    NFNL_SUBSYS_NFTABLES << 8 | what
}

const TABLE: &[u8] = b"srt\0";
/// A chain of no hook, which costs no packet anything.
const UNTRACKED: &[u8] = b"untracked\0";
const BEFORE_TRACKED: &[u8] = b"before-tracking\0";
const REDIRECTED: &[u8] = b"redirected\0";

/// NF_IP_PRI_RAW, before the kernel looks for the connection of a packet.
const BEFORE_TRACKING: i32 = -300;
/// NF_IP_PRI_NAT_DST.
const BEFORE_ROUTING: i32 = -100;

// Offsets in the headers of IPv4, IPv6 and TCP.
const DESTINATION_V4: u32 = 16;
const DESTINATION_V6: u32 = 24;
const SOURCE_PORT: u32 = 0;
const DESTINATION_PORT: u32 = 2;

// From linux/netfilter.h, nfnetlink.h, nf_tables.h and linux/in.h.
const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFPROTO_INET: u8 = 1;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
const NF_INET_LOCAL_OUT: u32 = 3;
const NF_ACCEPT: u32 = 1;
const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFT_MSG_NEWRULE: u16 = 6;
const NFTA_TABLE_NAME: u16 = 1;
const NFTA_CHAIN_TABLE: u16 = 1;
const NFTA_CHAIN_NAME: u16 = 3;
const NFTA_CHAIN_HOOK: u16 = 4;
const NFTA_CHAIN_TYPE: u16 = 7;
const NFTA_HOOK_HOOKNUM: u16 = 1;
const NFTA_HOOK_PRIORITY: u16 = 2;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_CHAIN: u16 = 2;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFT_CMP_EQ: u32 = 0;
const NFT_CMP_NEQ: u32 = 1;
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFT_META_NFPROTO: u32 = 15;
const NFT_META_L4PROTO: u32 = 16;
const NFTA_PAYLOAD_DREG: u16 = 1;
const NFTA_PAYLOAD_BASE: u16 = 2;
const NFTA_PAYLOAD_OFFSET: u16 = 3;
const NFTA_PAYLOAD_LEN: u16 = 4;
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;
const NFTA_IMMEDIATE_DREG: u16 = 1;
const NFTA_IMMEDIATE_DATA: u16 = 2;
const NFTA_REDIR_REG_PROTO_MIN: u16 = 1;
const NFT_REG_VERDICT: u32 = 0;
/// NFT_REG_1, of 16 bytes.
const REGISTER: u32 = 1;
const IPPROTO_TCP: u8 = 6;
