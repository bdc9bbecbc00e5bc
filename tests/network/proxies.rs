//! The proxies as services: what they are asked by others than well-meaning clients.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Stdio;

use super::harness::{outside, run, skip, wrapped};
use super::world::in_a_world;

/// Sends crafted names to both proxies and to the resolver inside.
const CRAFTED: &str = r"
import socket, struct, sys
NAMES = [b'app.test', b'APP.TEST', b'app.test.', b'evil.test', b'evil.test\0.app.test',
    b'app.test\0.evil.test', b'app.test\r\nX: y', b'evil.test#.app.test', b'evil.test/.app.test',
    b'evil.test?.app.test', b'evil.test@app.test', b'app.test@evil.test', b'evil.test:8080#app.test',
    b' app.test', b'app.test ', b'evil.test%00.app.test', b'a' * 255, b'', b'evil.test..app.test',
    b'.app.test', b'evil.test\\.app.test', b'app.test;evil.test', b'app.test,evil.test',
    b'evil.test\xe3\x80\x82app.test', b'[::1]', b'[2001:db8:2::10%eth0]', b'2001:db8:2::10%25eth0']
def talk(port, *parts):
    with socket.create_connection(('127.0.0.1', port), 5) as s:
        s.settimeout(5)
        try:
            for part in parts: s.sendall(part); answer = s.recv(200)
            s.sendall(b'GET /' + parts[-1].hex().encode()[:8] + b' HTTP/1.1\r\nHost: x\r\n\r\n'); s.recv(99)
            return answer
        except OSError: return b''
def socks(name):
    return talk(1080, b'\5\1\0', b'\5\1\0\3' + bytes([len(name)]) + name + struct.pack('>H', 8080))[1:2].hex()
def connect(name):
    return talk(3128, b'CONNECT ' + name + b':8080 HTTP/1.1\r\nHost: x\r\n\r\n')[9:12].decode()
def get(name):
    return talk(3128, b'GET http://' + name + b':8080/ HTTP/1.1\r\nHost: ' + name + b':8080\r\n\r\n')[9:12].decode()
for name in NAMES:
    try: socket.getaddrinfo(name, 8080)
    except (OSError, UnicodeError, ValueError, TypeError): pass
    print(name, 'socks' in sys.argv and socks(name), connect(name), get(name))
";

#[test]
fn nw_16_no_crafted_name_leads_to_another_host() {
    in_a_world(
        "proxies::nw_16_no_crafted_name_leads_to_another_host",
        |world| {
            let socks = if cfg!(feature = "socks") {
                "socks"
            } else {
                "-"
            };
            let mut said = String::new();
            let requests = world.requests(|| {
                let srt = world.srt(&["app.test", "*.app.test", "192.0.2.10"], &[]);
                said = srt
                    .run(&["/usr/bin/python3", "-c", CRAFTED, socks])
                    .succeeds()
                    .stdout;
            });
            assert!(!requests.is_empty(), "{said}");
            for request in requests {
                assert_eq!(request.to.ip().to_string(), "192.0.2.10", "{said}");
            }
            for (name, _) in world.dns.all_asked() {
                assert!(
                    name == "app.test" || name.ends_with(".app.test"),
                    "{name:?}"
                );
                assert!(
                    name.bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.'),
                    "{name:?}"
                );
            }
            assert!(world.dns.asked("evil.test").is_empty());
        },
    );
}

#[test]
fn nw_21_every_spelling_of_an_address_gets_one_verdict() {
    in_a_world(
        "proxies::nw_21_every_spelling_of_an_address_gets_one_verdict",
        |world| {
            let same = [
                "2001:db8:2::10",
                "2001:DB8:2::10",
                "2001:0db8:0002::0010",
                "2001:db8:2:0:0:0:0:10",
                "2001:db8:2:0000:0000:0000:0000:0010",
                "2001:db8:2::0:10",
                "2001:db8:2::0.0.0.16",
            ];
            let own = [
                "::1",
                "0:0:0:0:0:0:0:1",
                "::0.0.0.1",
                "0::1",
                "::ffff:127.0.0.1",
                "::ffff:7f00:1",
            ];
            let zoned = ["2001:db8:2::10%25eth0", "fe80::1%25lo", "::1%25lo"];
            let allowed = ["[2001:db8:2::10]"];
            let ask = |spelling: &str| {
                // As it is written: curl would make one of all.
                let script = "import socket, sys\n\
            target = f'[{sys.argv[1]}]:8080'\n\
            s = socket.create_connection(('127.0.0.1', 3128), 5)\n\
            s.sendall(f'GET http://{target}/ HTTP/1.1\\r\\nHost: {target}\\r\\n\\r\\n'.encode())\n\
            print(s.recv(400).decode().split()[1])\n";
                let srt = world.srt(&allowed, &[]);
                srt.run(&["/usr/bin/python3", "-c", script, spelling])
                    .succeeds()
                    .stdout
            };
            for spelling in same {
                let mut status = String::new();
                let hits = world.hits(|| status = ask(spelling));
                assert_eq!((hits, &*status), (1, "200\n"), "{spelling}");
            }
            for (spellings, expected) in [(&own[..], "403\n"), (&zoned, "400\n")] {
                for spelling in spellings {
                    let mut status = String::new();
                    let hits = world.hits(|| status = ask(spelling));
                    assert_eq!((hits, &*status), (0, expected), "{spelling}");
                }
            }
        },
    );
}

#[test]
fn nw_08_without_the_proxies_there_is_no_way_out() {
    in_a_world(
        "proxies::nw_08_without_the_proxies_there_is_no_way_out",
        |world| {
            let script = "ask() { curl -sS -m 5 -o /dev/null http://app.test:8080/; }
            every() { ask; (unset http_proxy HTTP_PROXY ALL_PROXY all_proxy; ask)
                env -i curl -sS -m 5 -o /dev/null http://192.0.2.10:8080/; }
            every; echo asked; read -r _; every; echo again";
            let mut command = world
                .srt(&["app.test", "192.0.2.10"], &[])
                .into_command(&["bash", "-c", script]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut srt = command.spawn().expect("srt is built");
            let mut lines = BufReader::new(srt.stdout.take().expect("it is piped"));
            let mut line = String::new();
            let hits = world.hits(|| {
                assert_ne!(lines.read_line(&mut line).expect("UTF-8"), 0);
            });
            assert_eq!((&*line, hits), ("asked\n", 3));
            let children =
                |pid: u32| outside(&format!("cat /proc/{pid}/task/{pid}/children")).stdout;
            let of_srt = children(srt.id());
            let mut pids = of_srt.split_whitespace().filter_map(|pid| pid.parse().ok());
            let proxies: u32 = pids
                .find(|pid| children(*pid).trim().is_empty())
                .expect("the proxies are the child that is not init");
            let proxies = nix::unistd::Pid::from_raw(proxies.cast_signed());
            nix::sys::signal::kill(proxies, nix::sys::signal::Signal::SIGKILL).expect("our own");
            let mut stdin = srt.stdin.take().expect("it is piped");
            let sent = world.wire.sent(|| {
                stdin.write_all(b"go on\n").expect("it reads");
                line.clear();
                lines.read_line(&mut line).expect("UTF-8");
            });
            assert_eq!(line, "again\n");
            assert_eq!(sent, [""; 0]);
            drop(srt.wait());
        },
    );
}

#[test]
fn nw_09_localhost_is_known_without_a_file_of_hosts() {
    in_a_world(
        "proxies::nw_09_localhost_is_known_without_a_file_of_hosts",
        |world| {
            let script = "import http.server, threading, urllib.request as r\n\
        for family, host in ((2, '127.0.0.1'), (10, '::1')):\n\
        \x20   class S(http.server.ThreadingHTTPServer): address_family = family\n\
        \x20   s = S((host, 8000), http.server.SimpleHTTPRequestHandler)\n\
        \x20   threading.Thread(target=s.serve_forever, daemon=True).start()\n\
        \x20   print(r.urlopen('http://localhost:8000/').status)\n\
        \x20   s.shutdown(); s.server_close()\n";
            let command = world
                .srt(&[], &[])
                .into_command(&["/usr/bin/python3", "-c", script]);
            let bind = "mount --bind /dev/null /etc/hosts && exec \"$@\"";
            let ran = run(&mut wrapped(
                &["unshare", "-m", "sh", "-c", bind, "sh"],
                &command,
            ));
            assert_eq!(ran.succeeds().stdout, "200\n200\n");
        },
    );
}

#[test]
fn nw_52_commands_of_socks_but_connect_open_no_socket() {
    in_a_world(
        "proxies::nw_52_commands_of_socks_but_connect_open_no_socket",
        |world| {
            if cfg!(not(feature = "socks")) {
                return skip("this build has no SOCKS proxy");
            }
            let script = "import socket, sys\n\
        kept = []\n\
        for command in (2, 3, 0xf0, 0xf1):\n\
        \x20   s = socket.create_connection(('127.0.0.1', 1080), 5)\n\
        \x20   s.sendall(b'\\5\\1\\0'); s.recv(2)\n\
        \x20   s.sendall(bytes([5, command, 0, 1, 192, 0, 2, 10, 0, 80])); print(s.recv(10)[1], end=' ')\n\
        \x20   kept.append(s)\n\
        print(flush=True); sys.stdin.read()\n";
            let srt = world.srt(&["192.0.2.10"], &[]);
            let mut command = srt.into_command(&["/usr/bin/python3", "-c", script]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let sockets = || {
                outside(
                    "cat /proc/net/udp /proc/net/udp6; grep ' 0A ' /proc/net/tcp /proc/net/tcp6",
                )
                .stdout
            };
            let listening = |text: String| text.lines().count();
            let before = listening(sockets());
            let mut srt = command.spawn().expect("srt is built");
            let mut line = String::new();
            let mut lines = BufReader::new(srt.stdout.take().expect("it is piped"));
            lines.read_line(&mut line).expect("UTF-8");
            assert_eq!(line, "7 7 7 7 \n");
            assert_eq!(listening(sockets()), before);
            drop(srt.stdin.take());
            drop(srt.wait());
        },
    );
}

#[test]
fn nw_71_the_proxies_lead_to_no_proxy() {
    in_a_world("proxies::nw_71_the_proxies_lead_to_no_proxy", |world| {
        // What the host has at the ports of the proxies inside.
        let listeners =
            [3128, 1080].map(|port| TcpListener::bind(("127.0.0.1", port)).expect("free"));
        for listener in &listeners {
            listener.set_nonblocking(true).expect("a socket");
        }
        let reached = || listeners.iter().any(|listener| listener.accept().is_ok());
        outside("curl -sS -m 1 http://127.0.0.1:3128/");
        assert!(reached(), "the control");
        let script = r#"for host in 127.0.0.1 localhost "[::1]" "$(uname -n)" 0.0.0.0 127.1; do
            for port in 3128 1080; do
                curl -sS -m 5 --noproxy '' -o /dev/null -w '%{http_code} ' "http://$host:$port/"
                curl -sS -m 5 --noproxy '' -p -o /dev/null -w '%{http_connect} ' "http://$host:$port/"
            done
        done 2>/dev/null; :"#;
        let events = world.scratch.path("events");
        let ran = world
            .srt(&["app.test"], &[])
            .events(&events)
            .sh(script)
            .succeeds();
        let answers: Vec<_> = ran.stdout.split_whitespace().collect();
        assert_eq!(answers, ["403"; 24], "{ran:?}");
        assert!(!reached());
        let events = std::fs::read_to_string(events).expect("srt made it");
        let judged = events
            .lines()
            .filter(|line| line.contains("\"kind\":\"net\""));
        assert_eq!(judged.count(), 24, "one a request: {events}");
    });
}

#[test]
fn their_process_is_confined_before_it_reads_the_first_byte() {
    in_a_world(
        "proxies::their_process_is_confined_before_it_reads_the_first_byte",
        |world| {
            for ask in [
                "exec 3<>/dev/tcp/127.0.0.1/3128",
                "exec 3<>/dev/tcp/127.0.0.1/1080",
                "exec 3<>/dev/tcp/192.0.2.10/80",
                "exec 3<>/dev/tcp/127.0.0.1/53",
                "getent hosts evil.test",
            ] {
                let script = format!("{ask}; echo asked; read line");
                let srt = world.srt(&["app.test"], &[]);
                let mut command = srt.into_command(&["bash", "-c", &script]);
                command.stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut srt = command.spawn().expect("srt is built");
                let mut line = String::new();
                BufReader::new(srt.stdout.take().expect("piped"))
                    .read_line(&mut line)
                    .expect("it is a pipe");
                let status = proxies_of(srt.id());
                drop(srt.stdin.take());
                assert!(srt.wait().is_ok(), "{ask}");
                for held in [
                    "NoNewPrivs:\t1\n",
                    "Seccomp:\t2\n",
                    "Seccomp_filters:\t5\n",
                    "CapEff:\t0000000000000000\n",
                    "CapPrm:\t0000000000000000\n",
                ] {
                    assert!(status.contains(held), "{ask}: {held} is not in {status}");
                }
            }
        },
    );
}

/// Returns the status of the one child of a launcher that is in no pid namespace of its own, once
/// it has every filter, or after a second.
fn proxies_of(launcher: u32) -> String {
    // It is the client that hears first that it is connected: all filters take a moment.
    let children = format!("/proc/{launcher}/task/{launcher}/children");
    let begun = std::time::Instant::now();
    loop {
        let pids = std::fs::read_to_string(&children).expect("it lives");
        let statuses = pids.split_whitespace().filter_map(|pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("NSpid:"))?;
            (line.split_whitespace().count() == 2).then_some(status)
        });
        let status: String = statuses.collect();
        let is_filtered = status.contains("Seccomp_filters:\t5\n");
        if is_filtered || begun.elapsed() > std::time::Duration::from_secs(20) {
            return status;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
