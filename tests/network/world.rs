//! A network with one host in it, whose servers count what reaches them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::harness::{Ran, Scratch, Srt, is_root, run, skip};

/// Addresses of the world's only host: ordinary, private, link-local and metadata ones.
const ADDRESSES: [&str; 8] = [
    "192.0.2.10/32",
    "192.0.2.11/32",
    "10.0.0.5/32",
    "10.0.0.6/32",
    "100.64.0.1/32",
    "169.254.169.254/32",
    "100.100.100.200/32",
    "fd00::5/128",
];

/// Places that answer with an error of their own, and one that never answers; private
/// addresses that the host answers at though no interface has them.
const ROUTES: [&str; 7] = [
    "local 10.7.0.5 dev lo",
    "local 100.65.0.1 dev lo",
    "local fd00:7::5 dev lo",
    "unreachable 203.0.113.1",
    "prohibit 203.0.113.2",
    "blackhole 203.0.113.3",
    "203.0.113.4 dev lo",
];

const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n192.0.2.10 app.test\n\
    192.0.2.11 evil.test evil.app.test\n10.0.0.5 private.test\n169.254.169.254 metadata.test\n\
    127.0.0.1 loop.test evil.localhost.test\n100.64.0.1 shared.test\nfd00::5 ula.test\n\
    10.7.0.5 lan.test\n100.65.0.1 carrier.test\nfd00:7::5 ula-lan.test\n";

/// Runs `test` in a network and mount namespace of its own: this program again, for the one
/// test named `name`.
#[allow(
    clippy::disallowed_methods,
    reason = "the variable tells the inner run from the outer one"
)]
pub(super) fn in_a_world(name: &str, test: impl FnOnce(&World)) {
    if std::env::var_os("SRT_TEST_WORLD").is_some() {
        return test(&World::new());
    }
    let scratch = Scratch::new("world");
    let hosts = scratch.file("hosts", HOSTS);
    let addresses = ADDRESSES.map(|address| format!("ip addr add {address} dev lo"));
    let routes = ROUTES.map(|route| format!("ip route add {route}"));
    let script = format!(
        "ip link set lo up && {} && {} && mount --bind {} /etc/hosts && exec \"$0\" --exact {name} --nocapture",
        addresses.join(" && "),
        routes.join(" && "),
        hosts.display()
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
}

/// The servers of a world.
pub(super) struct World {
    pub(super) scratch: Scratch,
    pub(super) server: Server,
}

/// A server on every address that counts the requests it gets.
pub(super) struct Server {
    pub(super) port: u16,
    requests: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        Self {
            scratch: Scratch::new("network"),
            server: Server::start(),
        }
    }

    pub(super) fn srt(&self, allowed: &[&str], denied: &[&str]) -> Srt {
        let srt = allowed
            .iter()
            .fold(Srt::new(&self.scratch), |srt, host| srt.allow_host(host));
        denied
            .iter()
            .fold(srt, |srt, host| srt.with("network.deniedDomains", host))
    }

    /// Asks for a URL from inside, with the proxy used for every host.
    pub(super) fn curl(&self, allowed: &[&str], url: &str) -> Ran {
        let url = url.replace("PORT", &self.server.port.to_string());
        self.srt(allowed, &[])
            .run(&["curl", "-sS", "-m", "5", "--noproxy", "", &url])
    }

    /// Counts the requests that reach the server while `act` runs.
    pub(super) fn hits(&self, act: impl FnOnce()) -> usize {
        let before = self.server.requests.load(Ordering::SeqCst);
        act();
        self.server.requests.load(Ordering::SeqCst) - before
    }

    #[track_caller]
    pub(super) fn is_reached(&self, allowed: &[&str], url: &str) {
        let hits = self.hits(|| drop(self.curl(allowed, url).succeeds()));
        assert_eq!(hits, 1, "{url} with {allowed:?}");
    }

    #[track_caller]
    pub(super) fn is_not_reached(&self, allowed: &[&str], url: &str) -> Ran {
        let mut ran = None;
        let hits = self.hits(|| ran = Some(self.curl(allowed, url)));
        assert_eq!(hits, 0, "{url} with {allowed:?}");
        ran.expect("it ran")
    }

    pub(super) fn address(&self, host: &str) -> String {
        format!("{host}:{}", self.server.port)
    }
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("[::]:0").expect("the world has IPv6");
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                std::thread::spawn(move || answer(client, &counter));
            }
        });
        Self { port, requests }
    }
}

fn answer(mut client: TcpStream, counter: &AtomicUsize) {
    let mut head = [0; 4096];
    while client.read(&mut head).is_ok_and(|count| count > 0) {
        counter.fetch_add(1, Ordering::SeqCst);
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nreached\n";
        if client.write_all(answer).is_err() {
            return;
        }
    }
}
