//! A network of two namespaces with a cable between them. The launcher is in the nearer one,
//! whose own `lo` has the addresses that matter; servers and a name server that a test scripts
//! are in the farther one, at every address there is.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test file uses a part of the world"
)]

mod dns;
mod http;
mod servers;
mod websocket;
mod wire;

use std::fs::File;
use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use nix::sched::{CloneFlags, setns, unshare};

use super::harness::{Ran, Scratch, Srt, is_root, run, run_with_input, skip};
pub use dns::{Answer, Dns, Kind};
pub use servers::{Place, Request, Requests};
pub use wire::Wire;

/// Where plain HTTP is spoken at every address, and for which servers count.
pub const PORTS: [u16; 3] = [80, PORT, 8081];
/// The port that `PORT` in a URL stands for.
pub const PORT: u16 = 8080;
/// The nearer end of the cable, an address of this host.
pub const NEAR: &str = "198.51.100.1";
const NAME_SERVER: &str = "198.51.100.53";

/// Addresses of this host besides those of the cable: an ordinary one, private, link-local and
/// metadata ones. Servers are there too.
const OWN: [&str; 7] = [
    "192.0.2.77/32",
    "10.0.0.5/32",
    "10.0.0.6/32",
    "100.64.0.1/32",
    "169.254.169.254/32",
    "100.100.100.200/32",
    "fd00::5/128",
];

/// Places that answer with an error of their own, and one that never answers.
const ERRORS: [&str; 6] = [
    "unreachable 203.0.113.1",
    "prohibit 203.0.113.2",
    "blackhole 203.0.113.3",
    "203.0.113.4 dev lo",
    "throw 203.0.113.5",
    "throw 2001:db8::1",
];

/// Names that lead somewhere without a word of the test.
const NAMES: [(&str, &str); 16] = [
    ("app.test", "192.0.2.10"),
    ("api.app.test", "192.0.2.12"),
    ("evil.test", "192.0.2.11"),
    ("evil.app.test", "192.0.2.11"),
    ("own.test", "192.0.2.77"),
    ("private.test", "10.0.0.5"),
    ("metadata.test", "169.254.169.254"),
    ("loop.test", "127.0.0.1"),
    ("evil.localhost.test", "127.0.0.1"),
    ("shared.test", "100.64.0.1"),
    ("ula.test", "fd00::5"),
    ("lan.test", "10.7.0.5"),
    ("carrier.test", "100.65.0.1"),
    ("ula-lan.test", "fd00:7::5"),
    ("six.test", "2001:db8:2::10"),
    ("dual.test", "192.0.2.14"),
];

/// Runs `test` in a world of its own: this program again, for the one test named `name`.
#[allow(
    clippy::disallowed_methods,
    reason = "the variable tells the inner run from the outer one"
)]
pub fn in_a_world(name: &str, test: impl FnOnce(&World)) {
    if std::env::var_os("SRT_TEST_WORLD").is_some() {
        return test(&World::new());
    }
    let scratch = Scratch::new("world");
    let files = [
        ("hosts", "127.0.0.1 localhost\n::1 localhost\n".to_owned()),
        (
            "resolv.conf",
            format!("nameserver {NAME_SERVER}\noptions timeout:1 attempts:2\n"),
        ),
        ("nsswitch.conf", "hosts: files dns\n".to_owned()),
    ];
    let binds = files.map(|(name, text)| {
        let file = scratch.file(name, text);
        format!("mount --bind {} /etc/{name}", file.display())
    });
    let script = format!(
        "{} && exec \"$0\" --exact {name} --nocapture --include-ignored",
        binds.join(" && ")
    );
    let flags = if is_root() { "-mn" } else { "-rmn" };
    let this = std::env::current_exe().expect("it runs");
    let mut command = Command::new("unshare");
    command.args([flags, "sh", "-c", &script]).arg(this);
    let ran = run(command.env("SRT_TEST_WORLD", "1"));
    if ran.status != 0 && ran.stderr.contains("unshare failed") {
        return skip("this user cannot make a network namespace");
    }
    let ran = ran.succeeds();
    assert!(ran.stdout.contains("1 passed"), "{}", ran.stdout);
    for line in ran.stderr.lines().filter(|line| line.contains("SKIPPED: ")) {
        skip(line.trim_start_matches("SKIPPED: "));
    }
}

/// The two ends of the cable and what is there.
#[derive(Debug)]
pub struct World {
    pub scratch: Scratch,
    pub server: Server,
    pub dns: Arc<Dns>,
    pub wire: Wire,
    far: File,
}

/// The servers of plain HTTP at every address of both ends.
#[derive(Debug)]
pub struct Server {
    pub port: u16,
    requests: Arc<Requests>,
}

impl World {
    fn new() -> Self {
        let far = lay_cable();

        let listen = || PORTS.map(listener);
        let requests = Arc::new(Requests::default());
        for listener in listen() {
            servers::serve(listener, Place::Near, &requests);
        }
        for listener in at(&far, listen) {
            servers::serve(listener, Place::Far, &requests);
        }
        let dns = Arc::new(Dns::new(&NAMES));
        dns.add(
            "dual.test",
            Answer::addresses(&["2001:db8::1", "192.0.2.14"]),
        );
        let serving = Arc::clone(&dns);
        at(&far, move || dns::serve(&serving, NAME_SERVER));
        Self {
            scratch: Scratch::new("network"),
            server: Server {
                port: PORT,
                requests,
            },
            dns,
            wire: at(&far, Wire::tap),
            far,
        }
    }

    /// Does something in the farther namespace, such as to start a server.
    pub fn there<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send) -> T {
        at(&self.far, act)
    }

    pub fn srt(&self, allowed: &[&str], denied: &[&str]) -> Srt {
        let srt = allowed
            .iter()
            .fold(Srt::new(&self.scratch), |srt, host| srt.allow_host(host));
        denied
            .iter()
            .fold(srt, |srt, host| srt.with("network.deniedDomains", host))
    }

    /// Asks for a URL from inside, with the proxy used for every host.
    pub fn curl(&self, allowed: &[&str], url: &str) -> Ran {
        let url = url.replace("PORT", &self.server.port.to_string());
        self.srt(allowed, &[])
            .run(&["curl", "-sS", "-m", "5", "--noproxy", "", &url])
    }

    /// Counts the requests that reach a server while `act` runs; a connection that ends without
    /// one counts as well.
    pub fn hits(&self, act: impl FnOnce()) -> usize {
        let before = self.server.requests.count();
        act();
        self.server.requests.count() - before
    }

    /// Returns what reaches the servers while `act` runs.
    pub fn requests(&self, act: impl FnOnce()) -> Vec<Request> {
        let before = self.server.requests.count();
        act();
        self.server.requests.since(before)
    }

    /// Returns what has reached the servers.
    pub fn requests_so_far(&self) -> Vec<Request> {
        self.server.requests.since(0)
    }

    #[track_caller]
    pub fn is_reached(&self, allowed: &[&str], url: &str) {
        let hits = self.hits(|| drop(self.curl(allowed, url).succeeds()));
        assert_eq!(hits, 1, "{url} with {allowed:?}");
    }

    #[track_caller]
    pub fn is_not_reached(&self, allowed: &[&str], url: &str) -> Ran {
        let mut ran = None;
        let hits = self.hits(|| ran = Some(self.curl(allowed, url)));
        assert_eq!(hits, 0, "{url} with {allowed:?}");
        ran.expect("it ran")
    }

    pub fn address(&self, host: &str) -> String {
        format!("{host}:{}", self.server.port)
    }
}

/// Joins this network namespace to a new one, and returns that.
fn lay_cable() -> File {
    let (tell, told) = mpsc::channel();
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("the outer run could as well");
        let namespace = File::open("/proc/thread-self/ns/net").expect("/proc is mounted");
        tell.send(nix::unistd::gettid()).expect("it waits");
        wait.recv().expect("the cable is laid");
        ip(&[
            "link set lo up".to_owned(),
            "addr add 198.51.100.2/24 dev far".to_owned(),
            format!("addr add {NAME_SERVER}/24 dev far"),
            "addr add 2001:db8:1::2/64 dev far nodad".to_owned(),
            "link set far up".to_owned(),
            "route add local 0.0.0.0/0 dev lo".to_owned(),
            "route add local ::/0 dev lo table main".to_owned(),
        ]);
        namespace
    });
    // Where both ends had one number the kernel would take its time to see that they are up.
    let thread_id = told.recv().expect("the thread lives");
    let mut lines = vec![
        "link set lo up".to_owned(),
        format!(
            "link add near index 7 address {} type veth peer name far index 8 netns {thread_id}",
            wire::NEAR
        ),
        format!("addr add {NEAR}/24 dev near"),
        "addr add 2001:db8:1::1/64 dev near nodad".to_owned(),
        "link set near up".to_owned(),
        "route add default via 198.51.100.2".to_owned(),
        "route add ::/0 via 2001:db8:1::2 src 2001:db8:1::1".to_owned(),
    ];
    lines.extend(OWN.map(|address| format!("addr add {address} dev lo")));
    lines.extend(ERRORS.map(|route| format!("route add {route}")));
    ip(&lines);
    done.send(()).expect("it waits");
    thread.join().expect("the far end is set up")
}

#[track_caller]
fn ip(lines: &[String]) {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]);
    run_with_input(&mut command, lines.join("\n").as_bytes()).succeeds();
}

/// Does something in another network namespace. What is made there, sockets and processes,
/// stays there.
fn at<T: Send>(namespace: &File, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(namespace, CloneFlags::CLONE_NEWNET).expect("it is of this user namespace");
            act()
        });
        thread.join().expect("it does not panic")
    })
}

fn listener(port: u16) -> TcpListener {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).expect("the world has IPv6")
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

const PATIENCE: Duration = Duration::from_secs(20);
