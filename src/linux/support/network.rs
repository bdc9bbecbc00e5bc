//! The acts that make a network of its own, and those that later versions will do.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use super::probe::{Lack, Need, On, Row};
use crate::linux::sys;
use crate::linux::unix_diag::{self, UnixDiag};

const NETWORK: Option<libc::c_int> = Some(libc::CLONE_NEWNET);

const LOOPBACK: &str = "this kernel has no IPv4, or the container refuses sockets";
const DIAG: &str = "srt needs CONFIG_UNIX_DIAG: modprobe unix_diag; without it, only `network.allowAllUnixSockets` works";
const ROUTES: &str =
    "this kernel refuses local routes: programs that ignore proxy variables will not be served";
const TABLES: &str = "modprobe nf_tables nft_redir nft_chain_nat; without them, transparent capture will take the ports it serves";
const CGROUP: &str = "run under systemd-run --user --scope -p Delegate=yes; without it, limits hold a process, not all of them";

pub(super) static ROWS: &[Row] = &[
    (
        "loopback of its own",
        Need::First,
        NETWORK,
        loopback,
        LOOPBACK,
    ),
    (
        "its own Unix sockets, told apart",
        Need::First,
        NETWORK,
        ask_sockets,
        DIAG,
    ),
    (
        "routes to every address",
        Need::Later,
        NETWORK,
        route_everything,
        ROUTES,
    ),
    (
        "redirected connections",
        Need::Later,
        NETWORK,
        redirect,
        TABLES,
    ),
    (
        "control group of its own",
        Need::Later,
        None,
        make_cgroup,
        CGROUP,
    ),
];

fn loopback(_: (u32, u32)) -> Result<(), Lack> {
    loopback_up()?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).on("bind")?;
    let address = listener.local_addr().on("getsockname")?;
    TcpStream::connect(address).map(drop).on("connect")
}

fn loopback_up() -> Result<(), Lack> {
    let kind = SocketType::DGRAM;
    let socket = socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None);
    let socket = socket.on("socket")?;
    sys::loopback_up(socket.as_fd()).on("ioctl(SIOCSIFFLAGS)")
}

/// Asks for a socket that is not there: an answer is what counts.
fn ask_sockets(_: (u32, u32)) -> Result<(), Lack> {
    const CALL: &str = "socket(NETLINK_SOCK_DIAG)";
    let diag = UnixDiag::new(unix_diag::open().on(CALL)?);
    diag.listening_at(0).map(drop).on(CALL)
}

// From linux/netlink.h, linux/rtnetlink.h and linux/netfilter/nf_tables.h.
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
const NLM_F_CREATE: u16 = 0x400;
const NLMSG_ERROR: u16 = 2;
const NLA_F_NESTED: u16 = 0x8000;
const AF_INET: u8 = 2;
const RTM_NEWROUTE: u16 = 24;
const RTA_OIF: u16 = 4;
const RT_TABLE_LOCAL: u8 = 255;
const RTPROT_BOOT: u8 = 3;
const RT_SCOPE_HOST: u8 = 254;
const RTN_LOCAL: u8 = 2;
const NFNL_MSG_BATCH_BEGIN: u16 = 16;
const NFNL_MSG_BATCH_END: u16 = 17;
const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFT_MSG_NEWTABLE: u16 = 0;
const NFT_MSG_NEWCHAIN: u16 = 3;
const NFPROTO_IPV4: u8 = 2;
const NF_INET_LOCAL_OUT: u32 = 3;

/// Index of `lo` in a new namespace, where it is the only interface.
const LOOPBACK_INDEX: u32 = 1;

/// Makes every IPv4 address local, and connects to one of another machine.
fn route_everything(_: (u32, u32)) -> Result<(), Lack> {
    const CALL: &str = "netlink(RTM_NEWROUTE)";
    loopback_up()?;
    let message = [
        AF_INET,
        0,
        0,
        0,
        RT_TABLE_LOCAL,
        RTPROT_BOOT,
        RT_SCOPE_HOST,
        RTN_LOCAL,
    ];
    let body = [
        &message[..],
        &[0; 4],
        &attribute(RTA_OIF, &LOOPBACK_INDEX.to_ne_bytes()),
    ];
    let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
    let request = packet(RTM_NEWROUTE, flags, &body.concat());
    // NETLINK_ROUTE is protocol 0.
    ask(None, &request, 1, CALL)?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).on("bind")?;
    let port = listener.local_addr().on("getsockname")?.port();
    // TEST-NET-1 of RFC 5737: nobody has it.
    TcpStream::connect((Ipv4Addr::new(192, 0, 2, 1), port))
        .map(drop)
        .on("connect")
}

/// Makes a table with a chain that rewrites what leaves.
fn redirect(_: (u32, u32)) -> Result<(), Lack> {
    let of_tables = |what| NFNL_SUBSYS_NFTABLES << 8 | what;
    let header = |family, resource: u16| {
        let [high, low] = resource.to_be_bytes();
        [family, 0, high, low]
    };
    let table = [&header(NFPROTO_IPV4, 0)[..], &attribute(1, b"srt\0")].concat();
    let hook = [
        attribute(1, &NF_INET_LOCAL_OUT.to_be_bytes()),
        attribute(2, &0_u32.to_be_bytes()),
    ];
    let chain = [
        header(NFPROTO_IPV4, 0).to_vec(),
        attribute(1, b"srt\0"),
        attribute(3, b"output\0"),
        attribute(4 | NLA_F_NESTED, &hook.concat()),
        attribute(7, b"nat\0"),
    ];
    let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
    let bounds = header(0, NFNL_SUBSYS_NFTABLES);
    let batch = [
        packet(NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, &bounds),
        packet(of_tables(NFT_MSG_NEWTABLE), flags, &table),
        packet(of_tables(NFT_MSG_NEWCHAIN), flags, &chain.concat()),
        packet(NFNL_MSG_BATCH_END, NLM_F_REQUEST, &bounds),
    ];
    ask(
        Some(netlink::NETFILTER),
        &batch.concat(),
        2,
        "netlink(NFT_MSG_NEWCHAIN)",
    )
}

/// Sends requests and reads as many acknowledgements; the first that is an error counts.
fn ask(
    protocol: Option<rustix::net::Protocol>,
    request: &[u8],
    answers: usize,
    call: &str,
) -> Result<(), Lack> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    let socket: OwnedFd = socket_with(family, kind, SocketFlags::CLOEXEC, protocol).on("socket")?;
    send(&socket, request, SendFlags::empty()).on(call)?;
    for _ in 0..answers {
        let mut buffer = [0; 4096];
        let (len, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty()).on(call)?;
        let malformed = || Lack::without_effect(call);
        let kind = buffer[..len].get(4..6).ok_or_else(malformed)?;
        let errno: &[u8; 4] = buffer[..len]
            .get(16..)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(malformed)?;
        let errno = i32::from_ne_bytes(*errno);
        match (kind == NLMSG_ERROR.to_ne_bytes(), errno) {
            (true, 0) => {}
            (true, errno) => return Err(std::io::Error::from_raw_os_error(-errno)).on(call),
            (false, _) => return Err(malformed()),
        }
    }
    Ok(())
}

fn packet(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(16 + body.len()).expect("messages here are short");
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    // Sequence number and sender are of no use: one request at a time.
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let len = u16::try_from(4 + value.len()).expect("attributes here are short");
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Makes a control group below this process's own, and removes it.
fn make_cgroup(_: (u32, u32)) -> Result<(), Lack> {
    let mut text = String::new();
    std::fs::File::open("/proc/self/cgroup")
        .and_then(|mut file| file.read_to_string(&mut text))
        .on("read(/proc/self/cgroup)")?;
    // The unified hierarchy; the others are of version 1.
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let own = own
        .ok_or(nix::errno::Errno::ENOENT)
        .on("read(/proc/self/cgroup)")?;
    let name = format!("srt-doctor-{}", std::process::id());
    let group = Path::new("/sys/fs/cgroup").join(own).join(name);
    std::fs::create_dir(&group).on("mkdir")?;
    std::fs::remove_dir(&group).on("rmdir")
}
