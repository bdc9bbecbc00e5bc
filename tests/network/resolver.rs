//! The resolver inside: any server answers, names lead to addresses that stand for them.

use super::harness::outside;
use super::world::in_a_world;

/// Asks `server` for `name` and `kind` over `transport`, and prints the code and the last data.
const ASK: &str = r#"
import ipaddress, socket, struct, sys
def ask(name, kind, server, transport='udp', source=None):
    labels = b''.join(bytes([len(part)]) + part.encode() for part in name.split('.'))
    query = struct.pack('>6H', 77, 0x100, 1, 0, 0, 0) + labels + struct.pack('>BHH', 0, kind, 1)
    family = socket.AF_INET6 if ':' in server else socket.AF_INET
    if transport == 'tcp':
        s = socket.create_connection((server, 53), 3)
        for byte in struct.pack('>H', len(query)) + query: s.send(bytes([byte]))
        size = struct.unpack('>H', s.recv(2, socket.MSG_WAITALL))[0]
        answer = s.recv(size, socket.MSG_WAITALL)
    else:
        s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(3)
        if transport == 'unconnected':
            s.sendto(query, (server, 53))
            answer, peer = s.recvfrom(4096)
            assert peer[0] == server and peer[1] == 53, peer
        else:
            s.connect((server, 53)); s.send(query); answer = s.recv(4096)
    assert answer[:2] == query[:2] and answer[12:len(query)] == query[12:], answer
    count = struct.unpack('>H', answer[6:8])[0]
    size = {1: 4, 28: 16}.get(kind, 0)
    data = answer[-size:] if count and size else b''
    return answer[3] & 15, count, str(ipaddress.ip_address(data)) if data else ''
"#;

#[test]
fn every_server_answers_from_the_address_that_was_asked() {
    in_a_world(
        "resolver::every_server_answers_from_the_address_that_was_asked",
        |world| {
            let script = format!(
                "{ASK}
for server in ('198.51.100.53', '9.9.9.9', '127.0.0.53', '127.0.0.1', '2001:db8:9::9', '::1'):
    for transport in ('udp', 'unconnected', 'tcp'):
        assert ask('app.test', 1, server, transport) == (0, 1, '198.18.0.2'), (server, transport)
        code, count, address = ask('app.test', 28, server, transport)
        assert (code, count, address) == (0, 1, 'fd00:7372:7400::2'), address
print('all')"
            );
            let before = world.dns.all_asked().len();
            let srt = world.srt(&["app.test"], &[]);
            let ran = srt.run(&["/usr/bin/python3", "-c", &script]).succeeds();
            assert_eq!(ran.stdout, "all\n");
            assert_eq!(
                world.dns.all_asked().len(),
                before,
                "nobody outside is asked"
            );
        },
    );
}

#[test]
fn each_type_is_answered_or_refused_as_documented() {
    in_a_world(
        "resolver::each_type_is_answered_or_refused_as_documented",
        |world| {
            let script = format!(
            "{ASK}
S = '9.9.9.9'
first = ask('app.test', 1, S)
print(first == ask('APP.Test', 1, S), ask('api.app.test', 1, S)[2] != first[2])
print(ask('app.test', 65, S), ask('app.test', 64, S), ask('app.test', 16, S), ask('app.test', 15, S))
print(ask('evil.test', 1, S), ask('evil.test', 16, S), ask('deep.secret.evil.test', 28, S))
print(ask('localhost', 1, S)[2], ask('x.localhost', 28, S)[2], ask(socket.gethostname(), 1, S)[2])
print(socket.gethostbyaddr(first[2])[0], ask('2.0.18.198.in-addr.arpa', 12, S)[:2], ask('1.2.0.192.in-addr.arpa', 12, S)[:2])"
        );
            let events = world.scratch.path("events");
            let srt = world.srt(&["app.test", "*.app.test"], &[]).events(&events);
            let sent = world.wire.sent(|| {
                let ran = srt.run(&["/usr/bin/python3", "-c", &script]).succeeds();
                let expected = "True True\n\
                (0, 0, '') (0, 0, '') (5, 0, '') (5, 0, '')\n\
                (3, 0, '') (3, 0, '') (3, 0, '')\n\
                127.0.0.1 ::1 127.0.0.1\n\
                app.test (0, 1) (3, 0)\n";
                assert_eq!(ran.stdout, expected);
            });
            assert_eq!(sent, [""; 0]);
            let events = std::fs::read_to_string(events).expect("srt made it");
            // Asked for twice, told once; the suggestion is one that the settings take.
            let denied = |code: &str| events.lines().filter(|line| line.contains(code)).count();
            assert_eq!(denied("\"dns.name.unlisted\""), 2, "{events}");
            assert_eq!(denied("\"dns.query.type\""), 1, "{events}");
            assert!(events.contains(r#""add":"evil.test:443""#), "{events}");
        },
    );
}

#[test]
fn names_that_the_host_keeps_in_a_file_are_reached_by_name() {
    in_a_world(
        "resolver::names_that_the_host_keeps_in_a_file_are_reached_by_name",
        |world| {
            let kept = "127.0.0.1 localhost\n192.0.2.10 kept.test\n192.0.2.11 other.test\n\
                127.0.0.1 mine.test\n";
            let hosts = world.scratch.file("hosts", kept);
            outside(&format!("mount --bind {} /etc/hosts", hosts.display())).succeeds();
            let curl = "env -i curl -sS -m 5 http://$1:8080/";
            for host in ["kept.test", "other.test"] {
                let control = outside(&curl.replace("$1", host));
                assert_eq!(control.succeeds().stdout, "reached\n", "{host}");
            }
            let ask = |host: &str| {
                let srt = world.srt(&["kept.test:8080"], &[]);
                srt.run(&["sh", "-c", curl, "sh", host])
            };
            assert_eq!(world.hits(|| drop(ask("kept.test").succeeds())), 1);
            assert_eq!(world.hits(|| drop(ask("other.test").fails())), 0);
            // What leads to loopback is the sandbox's own, as long as no rule is about it.
            let srt = world.srt(&["kept.test:8080"], &[]);
            let ran = srt.sh("getent hosts mine.test; cat /etc/hosts");
            let inside = "127.0.0.1       mine.test\n127.0.0.1 localhost\n127.0.0.1 mine.test\n";
            assert_eq!(ran.stdout, inside);
            assert_eq!(std::fs::read_to_string(&hosts).expect("it is there"), kept);
        },
    );
}
