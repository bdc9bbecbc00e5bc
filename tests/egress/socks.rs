use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use crate::fixture::{Proxy, Server, connect, read_answer, read_to_end};

const HELLO: [u8; 3] = [5, 1, 0];

fn by_name(command: u8, name: &str, port: u16) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    let mut bytes = [&HELLO[..], &[5, command, 0, 3, length], name.as_bytes()].concat();
    bytes.extend(port.to_be_bytes());
    bytes
}

fn by_address(kind: u8, address: &[u8], port: u16) -> Vec<u8> {
    [&HELLO[..], &[5, 1, 0, kind], address, &port.to_be_bytes()].concat()
}

/// Sends `bytes` in one segment and byte by byte; returns the answer, which must not differ.
fn answers(proxy: &Proxy, bytes: &[u8]) -> Vec<u8> {
    let ask = |pause: Option<Duration>| {
        let mut stream = connect(proxy.socks);
        stream.set_nodelay(true).unwrap();
        match pause {
            None => stream.write_all(bytes).unwrap(),
            Some(pause) => {
                for byte in bytes {
                    // A refusal may come before the last byte.
                    let _sent = stream.write_all(&[*byte]);
                    std::thread::sleep(pause);
                }
            }
        }
        // Garbage may have been answered with a reset by now.
        let _ended = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _end = stream.read_to_end(&mut answer);
        answer
    };
    let whole = ask(None);
    assert_eq!(
        whole,
        ask(Some(Duration::from_millis(3))),
        "the same in any segments"
    );
    whole
}

/// Returns the reply code behind the agreed method.
fn reply(proxy: &Proxy, bytes: &[u8]) -> Option<u8> {
    let answer = answers(proxy, bytes);
    assert!(answer.starts_with(&[5, 0]), "{answer:?}");
    answer.get(3).copied()
}

#[test]
fn names_and_addresses_are_connected_when_listed_and_get_code_2_when_not() {
    let server = Server::http();
    let port = server.port;
    let v4_mapped = [&[0; 10][..], &[0xff, 0xff, 127, 0, 0, 1]].concat();
    let asked = [
        by_name(1, "app.localhost", port),
        by_name(1, "APP.Localhost.", port),
        by_name(1, "127.0.0.1", port),
        by_name(1, "0x7f.1", port),
        by_address(1, &[127, 0, 0, 1], port),
        by_address(4, &v4_mapped, port),
        by_name(1, "::ffff:127.0.0.1", port),
    ];
    let open = Proxy::start(&["app.localhost", "127.0.0.1"], &[]);
    let closed = Proxy::start(&["other.localhost"], &[]);
    let denied = Proxy::start(&["app.localhost", "127.0.0.1"], &["*"]);
    for bytes in &asked {
        let mut stream = connect(open.socks);
        stream.write_all(bytes).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head, [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(read_answer(&mut stream).1, "OK");
    }
    let before = server.connections();
    for bytes in &asked {
        assert_eq!(reply(&closed, bytes), Some(2), "{bytes:?}");
        assert_eq!(reply(&denied, bytes), Some(2), "{bytes:?}");
    }
    assert_eq!(server.connections(), before);
    assert_eq!(open.events()[0]["code"], "net.host.listed");
    assert_eq!(closed.events()[0]["code"], "net.host.unlisted");
    assert_eq!(closed.events().len(), 2 * asked.len());
}

#[test]
fn a_name_that_leads_to_a_denied_address_gets_code_2() {
    let server = Server::http();
    let asked = by_name(1, "app.localhost", server.port);
    let allowed = ["app.localhost"];
    assert_eq!(reply(&Proxy::start(&allowed, &[]), &asked), Some(0));
    let before = server.connections();
    let denied = ["127.0.0.1", "[::1]"];
    assert_eq!(reply(&Proxy::start(&allowed, &denied), &asked), Some(2));
    assert_eq!(server.connections(), before);
}

#[test]
fn each_failure_has_its_code() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let proxy = Proxy::start(&["app.localhost"], &[]);
    assert_eq!(reply(&proxy, &by_name(1, "app.localhost", port)), Some(5));
    assert_eq!(proxy.events()[0]["code"], "net.upstream.failed");
    assert_eq!(
        reply(&proxy, &by_name(2, "app.localhost", port)),
        Some(7),
        "BIND"
    );
    assert_eq!(
        reply(&proxy, &by_name(3, "app.localhost", port)),
        Some(7),
        "UDP ASSOCIATE"
    );
    assert_eq!(
        reply(&proxy, &by_name(0xf0, "app.localhost", port)),
        Some(7),
        "RESOLVE"
    );
    assert_eq!(
        reply(&proxy, &by_address(2, &[0; 4], port)),
        Some(8),
        "address type"
    );
    assert_eq!(
        reply(&proxy, &by_name(1, "app.localhost", 0)),
        Some(2),
        "port 0"
    );
    assert_eq!(
        reply(&proxy, &by_name(1, "a@app.localhost", port)),
        Some(2),
        "malformed"
    );
    assert_eq!(reply(&proxy, &by_name(1, "", port)), Some(2), "empty");
    assert_eq!(
        reply(&proxy, &by_address(1, &[0; 4], port)),
        Some(2),
        "0.0.0.0"
    );
    let last = proxy.events().pop().unwrap();
    assert_eq!(last["code"], "net.host.unlisted");
}

#[test]
fn other_methods_and_other_protocols_get_nowhere() {
    let server = Server::http();
    let proxy = Proxy::start(&["app.localhost"], &[]);
    assert_eq!(answers(&proxy, &[5, 1, 2]), [5, 0xff]);
    assert_eq!(answers(&proxy, &[5, 0]), [5, 0xff]);
    let mut many = vec![5, 255];
    many.extend((0..=254_u8).rev());
    many.extend(&by_name(1, "app.localhost", server.port)[3..]);
    assert_eq!(answers(&proxy, &many)[..4], [5, 0, 5, 0]);
    let [high, low] = server.port.to_be_bytes();
    let before = server.connections();
    for junk in [
        &[4, 1, high, low, 127, 0, 0, 1, 0][..],
        &[4, 1, high, low, 0, 0, 0, 1, 0, b'a', b'p', b'p', 0],
        b"GET http://app.localhost/ HTTP/1.1\r\n\r\n",
        &[0x16, 3, 1, 0, 5],
        &[0],
        &[0xff; 300],
        &[],
    ] {
        assert_eq!(answers(&proxy, junk), Vec::<u8>::new(), "{junk:?}");
    }
    assert_eq!(server.connections(), before);
}

#[test]
fn a_client_that_does_not_ask_is_let_go_in_time() {
    let proxy = Proxy::start_with(&[], &[], |settings| settings.limits.header_seconds = 2);
    let begun = std::time::Instant::now();
    let mut silent = connect(proxy.socks);
    let mut stuck = connect(proxy.socks);
    stuck.write_all(&[5, 1, 0, 5, 1]).unwrap();
    assert_eq!(read_to_end(&mut silent), "");
    assert_eq!(read_to_end(&mut stuck).as_bytes(), [5, 0]);
    let took = begun.elapsed();
    assert!(
        took > Duration::from_millis(1900) && took < Duration::from_secs(40),
        "{took:?}"
    );
}
