//! Answers questions for names inside the sandbox: with addresses that stand for the names that
//! may be reached, and with a refusal for all others. Asks nobody outside.

mod book;
pub(super) mod message;

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::accept::Slot;
use super::{Ends, Proxy};
use crate::audit::Recorded;
use crate::audit::event::Code;
use crate::policy::hostname::{Host, Target};
use book::Book;
use message::{Answer, Names, Refused};

/// What the resolver knows beside the rules.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    book: Book,
    /// Whether there are IPv6 addresses inside.
    has_v6: bool,
    /// The name of this machine, which leads to its loopback.
    own_name: String,
    /// Names whose refusal is recorded: they are asked for again and again.
    recorded: Mutex<HashSet<String>>,
}

impl Resolver {
    pub(super) fn new(has_v6: bool) -> Self {
        let uname = rustix::system::uname();
        Self {
            has_v6,
            own_name: uname.nodename().to_string_lossy().to_ascii_lowercase(),
            ..Self::default()
        }
    }

    /// Tells whether this is the first refusal of `name` for a while.
    fn is_new(&self, name: &str) -> bool {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if recorded.len() >= MOST_RECORDED {
            recorded.clear();
        }
        recorded.insert(name.to_owned())
    }
}

/// One question of a client, and what was recorded of it.
struct Asked<'a> {
    proxy: &'a Proxy,
    recorded: RefCell<Recorded>,
}

impl<'a> Asked<'a> {
    /// Answers `query` in at most `limit` bytes. The answer may be sent once the process that
    /// asked has been found.
    fn answer(proxy: &'a Proxy, query: &[u8], limit: usize) -> Option<(Vec<u8>, Recorded)> {
        let asked = Self {
            proxy,
            recorded: RefCell::default(),
        };
        let answer = message::answer(query, limit, &asked)?;
        Some((answer, asked.recorded.into_inner()))
    }
}

impl Names for Asked<'_> {
    fn look_up(&self, host: &Host) -> Answer {
        let Host::Name(name) = host else {
            return Answer::Exhausted;
        };
        let (network, resolver) = (&self.proxy.network, &self.proxy.resolver);
        let v6 = |address| resolver.has_v6.then_some(address);
        // RFC 6761, 6.3: such names never leave the machine, which is the sandbox.
        if host.is_localhost() || *name == resolver.own_name {
            return Answer::Addresses(Ipv4Addr::LOCALHOST, v6(Ipv6Addr::LOCALHOST));
        }
        if let Err(denial) = network.check_any_port(host) {
            if resolver.is_new(name) {
                *self.recorded.borrow_mut() = self.proxy.record_unresolved(name, &denial);
            }
            return Answer::Denied(denial.message().to_owned());
        }
        let is_listed = |address| network.lists(address);
        match resolver.book.addresses(name, is_listed) {
            Some(addresses) => Answer::Addresses(addresses.v4, v6(addresses.v6)),
            None => Answer::Exhausted,
        }
    }

    fn name_of(&self, address: IpAddr) -> Option<String> {
        match address.is_loopback() {
            true => Some("localhost".to_owned()),
            false => self
                .proxy
                .resolver
                .book
                .name_of(address)
                .map(|name| name.to_string()),
        }
    }

    fn refused(&self, asked: &str, refusal: Refused) {
        let (code, reason) = match refusal {
            Refused::Malformed(reason) => (Code::QueryMalformed, reason),
            Refused::Type => (Code::QueryType, "only addresses are told"),
        };
        if self.proxy.resolver.is_new(asked) {
            *self.recorded.borrow_mut() = self.proxy.record_question(code, asked, reason);
        }
    }
}

impl Proxy {
    /// Returns what a connection to `port` of `address` is meant for.
    pub(super) fn meant_by(&self, address: IpAddr, port: u16) -> Option<Target> {
        let host = match self.resolver.book.name_of(address) {
            Some(name) => Host::Name(name.to_string()),
            None => Host::from(address),
        };
        Target::new(host, port).ok()
    }
}

/// Serves the questions of one connection, until it ends or falls silent.
pub(super) async fn serve(mut stream: TcpStream, proxy: Arc<Proxy>, slot: Slot) {
    let mut query = Vec::new();
    while let Ok(Ok(())) = timeout(PATIENCE, read(&mut stream, &mut query)).await {
        let limit = usize::from(u16::MAX);
        let Some((answer, recorded)) = Asked::answer(&proxy, &query, limit) else {
            break;
        };
        recorded.attributed().await;
        let Ok(len) = u16::try_from(answer.len()) else {
            break;
        };
        let framed = [&len.to_be_bytes(), answer.as_slice()].concat();
        let written = timeout(PATIENCE, stream.write_all(&framed)).await;
        if !matches!(written, Ok(Ok(()))) {
            break;
        }
    }
    drop(slot);
}

/// Reads one message behind its length; see RFC 1035, 4.2.2.
async fn read(stream: &mut TcpStream, query: &mut Vec<u8>) -> io::Result<()> {
    let len = stream.read_u16().await?;
    query.resize(len.into(), 0);
    stream.read_exact(query).await.map(drop)
}

/// Answers every datagram that comes.
pub(super) async fn serve_datagrams(socket: UdpSocket, proxy: Arc<Proxy>) {
    let socket = Arc::new(socket);
    let Ok(port) = socket.local_addr().map(|address| address.port()) else {
        return;
    };
    let mut buffer = Vec::new();
    loop {
        if socket.readable().await.is_err() {
            return;
        }
        // Only now: most commands ask nothing, and to fill it with zeros is to have its pages made.
        buffer.resize(usize::from(u16::MAX), 0);
        proxy.before_first.happen();
        let received = socket
            .async_io(Interest::READABLE, || receive(&socket, &mut buffer))
            .await;
        let (len, client, asked) = match received {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Nobody serves a socket that is broken; the kernel refuses what comes for it.
            Err(_) => return,
        };
        let (Some(client), Some(asked)) = (client, asked) else {
            continue;
        };
        let query = &buffer[..len];
        let limit = message::datagram_limit(query);
        let proxy = proxy.of_client(|| {
            Ok(Ends {
                datagrams: true,
                client: address_of(&client).ok_or(io::ErrorKind::InvalidData)?,
                server: SocketAddr::new(asked, port),
            })
        });
        let Some((answer, recorded)) = Asked::answer(&proxy, query, limit) else {
            continue;
        };
        // A client that is gone needs no answer, and one whose buffer is full asks again.
        if recorded.is_attributed() {
            let _sent = send(&socket, &answer, &client, asked);
            continue;
        }
        let socket = Arc::clone(&socket);
        // Apart, so that nobody else waits for it.
        tokio::spawn(async move {
            recorded.attributed().await;
            let _sent = send(&socket, &answer, &client, asked);
        });
    }
}

fn address_of(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address
        .as_sockaddr_in()
        .map(|v4| SocketAddr::V4((*v4).into()));
    v4.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|v6| SocketAddr::V6((*v6).into()))
    })
}

type Received = (usize, Option<SockaddrStorage>, Option<IpAddr>);

/// Receives a datagram, with the address it was sent to.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Received> {
    let mut space = nix::cmsg_space!(libc::in_pktinfo, libc::in6_pktinfo);
    let mut iov = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let received =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut iov, Some(&mut space), flags)?;
    let asked = received.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            let octets = info.ipi_addr.s_addr.to_ne_bytes();
            Some(IpAddr::from(Ipv4Addr::from(octets)))
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => {
            Some(IpAddr::from(Ipv6Addr::from(info.ipi6_addr.s6_addr)))
        }
        _ => None,
    });
    Ok((received.bytes, received.address, asked))
}

/// Sends from the address that was asked: clients take no answer from another one.
fn send(
    socket: &UdpSocket,
    answer: &[u8],
    client: &SockaddrStorage,
    from: IpAddr,
) -> io::Result<()> {
    let iov = [IoSlice::new(answer)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let send = |message| sendmsg(socket.as_raw_fd(), &iov, &[message], flags, Some(client));
    let sent = match from {
        IpAddr::V4(v4) => send(ControlMessage::Ipv4PacketInfo(&libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: libc::in_addr {
                s_addr: u32::from_ne_bytes(v4.octets()),
            },
            ipi_addr: libc::in_addr { s_addr: 0 },
        })),
        IpAddr::V6(v6) => send(ControlMessage::Ipv6PacketInfo(&libc::in6_pktinfo {
            ipi6_addr: libc::in6_addr {
                s6_addr: v6.octets(),
            },
            ipi6_ifindex: 0,
        })),
    };
    Ok(sent.map(drop)?)
}

/// How long a connection may be silent.
const PATIENCE: Duration = Duration::from_secs(10);

const MOST_RECORDED: usize = 4096;
