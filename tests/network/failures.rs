//! How a program learns why an allowed host was not reached.

use std::fs;
use std::time::{Duration, Instant};

use super::world::in_a_world;

/// Asks for each target at once, in the ways a program can, and prints the answers: the code of
/// SOCKS5, the status of CONNECT and of GET, and the body of the last.
const ASK: &str = r"
import socket, struct, sys
from concurrent.futures import ThreadPoolExecutor
def end(port, request):
    s = socket.create_connection(('127.0.0.1', port), 40)
    s.sendall(request); s.shutdown(socket.SHUT_WR)
    return b''.join(iter(lambda: s.recv(4096), b''))
def socks(target):
    if 'no-socks' in sys.argv: return '-'
    host, port = target.rsplit(':', 1)
    name = host.strip('[]').encode()
    name = bytes([len(name)]) + name + struct.pack('>H', int(port))
    return str(end(1080, b'\5\1\0' + b'\5\1\0\3' + name)[3])
def connect(target):
    return end(3128, f'CONNECT {target} HTTP/1.1\r\n\r\n'.encode()).decode().split()[1]
def get(target):
    answer = end(3128, f'GET http://{target}/ HTTP/1.1\r\n\r\n'.encode()).decode()
    return answer.split()[1] + ' ' + answer.rsplit(f'{target}: ')[-1].strip()
targets = [word for word in sys.argv[1:] if ':' in word]
with ThreadPoolExecutor(32) as threads:
    ways = [threads.map(way, targets) for way in (socks, connect, get)]
    for words in zip(targets, *ways): print(*words)
";

/// Each target with the answers it is expected to give.
const EXPECTED: [(&str, u8, u16, &str); 7] = [
    ("192.0.2.10:1", 5, 502, "connection refused"),
    ("203.0.113.1:80", 4, 502, "no route to the host"),
    (
        "203.0.113.2:80",
        1,
        502,
        "this host's firewall does not permit it",
    ),
    ("203.0.113.3:80", 1, 502, "the connection failed"),
    ("203.0.113.5:80", 3, 502, "the network is unreachable"),
    ("[2001:db8::1]:80", 3, 502, "the network is unreachable"),
    ("203.0.113.4:80", 6, 504, "connection timed out"),
];

#[test]
fn nw_51_each_way_not_to_be_reached_has_its_code() {
    in_a_world(
        "failures::nw_51_each_way_not_to_be_reached_has_its_code",
        |world| {
            let targets = EXPECTED.map(|(target, ..)| target);
            let mut words = vec!["python3", "-c", ASK];
            words.extend(targets);
            if cfg!(not(feature = "socks")) {
                words.push("no-socks");
            }
            let events = world.scratch.path("events");
            let start = Instant::now();
            let ran = world
                .srt(&targets, &[])
                .events(&events)
                .run(&words)
                .succeeds();
            let took = start.elapsed();
            let expected = EXPECTED.map(|(target, code, status, what)| {
                let code = if cfg!(feature = "socks") {
                    code.to_string()
                } else {
                    "-".into()
                };
                format!("{target} {code} {status} {status} {what}\n")
            });
            assert_eq!(ran.stdout, expected.concat());
            // One attempt at an address takes ten seconds at most.
            assert!(took < Duration::from_secs(50), "{took:?}");
            let events = fs::read_to_string(events).expect("srt made it");
            let failed = events.matches("net.upstream.failed").count();
            let ways = if cfg!(feature = "socks") { 3 } else { 2 };
            assert_eq!(failed, ways * EXPECTED.len(), "{events}");
        },
    );
}

#[test]
fn nw_51_a_name_that_leads_nowhere_is_a_fault_and_not_a_refusal() {
    in_a_world(
        "failures::nw_51_a_name_that_leads_nowhere_is_a_fault_and_not_a_refusal",
        |world| {
            let mut words = vec!["python3", "-c", ASK, "missing.test:80"];
            if cfg!(not(feature = "socks")) {
                words.push("no-socks");
            }
            let ran = world.srt(&["missing.test"], &[]).run(&words).succeeds();
            let code = if cfg!(feature = "socks") { "4" } else { "-" };
            let expected = format!("missing.test:80 {code} 502 502 cannot resolve the name: ");
            assert!(ran.stdout.starts_with(&expected), "{}", ran.stdout);
        },
    );
}

/// Asks both proxies for a target and is gone before it answers.
const ASK_AND_LEAVE: &str = r"
import socket, struct, sys, time
address, port = sys.argv[1].split(':')
def leave(at, request):
    s = socket.create_connection(('127.0.0.1', at))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.sendall(request)
    time.sleep(0.3)
    s.close()
leave(3128, f'CONNECT {sys.argv[1]} HTTP/1.1\r\n\r\n'.encode())
socks = b'\5\1\0' + b'\5\1\0\1' + socket.inet_aton(address) + struct.pack('>H', int(port))
if 'no-socks' not in sys.argv: leave(1080, socks)
time.sleep(0.3)
";

#[test]
fn an_attempt_that_nobody_waits_for_is_recorded() {
    in_a_world(
        "failures::an_attempt_that_nobody_waits_for_is_recorded",
        |world| {
            let silent = "203.0.113.4:80";
            let mut words = vec!["python3", "-c", ASK_AND_LEAVE, silent];
            if cfg!(not(feature = "socks")) {
                words.push("no-socks");
            }
            let file = world.scratch.path("events");
            let srt = world.srt(&[silent], &[]).events(&file);
            srt.run(&words).succeeds();
            let events = fs::read_to_string(file).expect("srt made it");
            let recorded = events
                .lines()
                .filter(|line| line.contains(silent) && line.contains("\"verdict\":\"allowed\""));
            let ways = if cfg!(feature = "socks") { 2 } else { 1 };
            assert_eq!(recorded.count(), ways, "{events}");
        },
    );
}
