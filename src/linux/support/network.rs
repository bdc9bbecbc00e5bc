//! The acts that make a network of its own, and one that later versions will do.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::probe::{Lack, Need, On, Row};
use crate::linux::netlink::capture::{self, Ports, Redirection, Routed};
use crate::linux::sys;
use crate::linux::unix_diag::{self, UnixDiag};

const NETWORK: Option<libc::c_int> = Some(libc::CLONE_NEWNET);

const LOOPBACK: &str = "this kernel has no IPv4, or the container refuses sockets";
const DIAG: &str = "srt needs CONFIG_UNIX_DIAG: modprobe unix_diag; without it, only `network.allowAllUnixSockets` works";
const ROUTES: &str =
    "this kernel refuses local routes: programs that know no proxy find no network";
const ROUTES_V6: &str =
    "there is no IPv6, or it is switched off: programs are given IPv4 addresses alone";
const TABLES: &str = "modprobe nf_tables nft_redir nft_chain_nat nft_ct; without them, programs that know no proxy are served on ports 22, 80, 443 and those of network.allowedDomains alone, and no server can have these inside";
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
        Need::Wanted,
        NETWORK,
        route_everything,
        ROUTES,
    ),
    (
        "routes to every IPv6 address",
        Need::Wanted,
        NETWORK,
        route_everything_v6,
        ROUTES_V6,
    ),
    (
        "redirected connections",
        Need::Wanted,
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

/// Makes every IPv4 address local, and connects to one of another machine.
fn route_everything(_: (u32, u32)) -> Result<(), Lack> {
    routed(|routed| routed.v4)?;
    connect_elsewhere(Ipv4Addr::UNSPECIFIED.into(), ELSEWHERE.into())
}

/// Makes every IPv6 address local, and connects to one of another machine.
fn route_everything_v6(_: (u32, u32)) -> Result<(), Lack> {
    routed(|routed| routed.v6)?;
    connect_elsewhere(Ipv6Addr::UNSPECIFIED.into(), ELSEWHERE_V6.into())
}

fn connect_elsewhere(any: IpAddr, elsewhere: IpAddr) -> Result<(), Lack> {
    let listener = TcpListener::bind((any, 0)).on("bind")?;
    let port = listener.local_addr().on("getsockname")?.port();
    TcpStream::connect((elsewhere, port))
        .map(drop)
        .on("connect")
}

fn routed(family: fn(Routed) -> std::io::Result<()>) -> Result<(), Lack> {
    const CALL: &str = "netlink(RTM_NEWROUTE)";
    loopback_up()?;
    capture::route_everything().and_then(family).on(CALL)
}

/// Redirects what leaves to a listener on loopback, and connects to another machine.
fn redirect(_: (u32, u32)) -> Result<(), Lack> {
    routed(|routed| routed.v4)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).on("bind")?;
    let port = listener.local_addr().on("getsockname")?.port();
    let made = Redirection::prepare().and_then(|socket| {
        let to = Ports {
            captured: port,
            resolver: 53,
        };
        Redirection::new(socket, to).make()
    });
    made.on("netlink(NFT_MSG_NEWRULE)")?;
    TcpStream::connect((ELSEWHERE, 1)).map(drop).on("connect")
}

/// Addresses that nobody has: TEST-NET-1 of RFC 5737, and of RFC 3849.
const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ELSEWHERE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

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
