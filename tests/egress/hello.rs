//! What a client says inside a tunnel, held against what the tunnel was permitted for.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use crate::fixture::{Proxy, Server, on, read_to_end, status};

/// A ClientHello that names `name`, in one record.
fn hello(name: &str) -> Vec<u8> {
    let block = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap();
        [&length.to_be_bytes(), bytes].concat()
    };
    let names = block(&[&[0][..], &block(name.as_bytes())].concat());
    let extensions = block(&[&[0, 0][..], &block(&names)].concat());
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0, 0, 2, 0x13, 1, 1, 0],
        &extensions,
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    [&[22, 3, 1][..], &block(&message)].concat()
}

/// What TLS calls `unrecognized_name`, as a fatal alert.
const ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Notes all it was sent, and says so.
fn listening() -> Server {
    Server::new(|mut stream, seen| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).ok();
        note(seen, &heard);
        let _answered = stream.write_all(b"heard");
    })
}

fn note(seen: &Mutex<Vec<String>>, heard: &[u8]) {
    let hex = heard.iter().map(|byte| format!("{byte:02x}"));
    seen.lock().unwrap().push(hex.collect());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sends `bytes` in pieces and returns what comes back.
fn say(mut stream: TcpStream, bytes: &[u8], size: usize) -> Vec<u8> {
    stream.set_nodelay(true).unwrap();
    for piece in bytes.chunks(size) {
        if stream.write_all(piece).is_err() {
            break;
        }
        if size < bytes.len() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let _ended = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    answer
}

fn tunnel(proxy: &Proxy, target: &str) -> TcpStream {
    let (stream, head) = proxy.tunnel(target);
    assert_eq!(status(&head), "200");
    stream
}

fn last_code(proxy: &Proxy) -> String {
    let event = proxy.events().pop().unwrap();
    event["code"].as_str().unwrap().to_owned()
}

#[test]
fn a_hello_for_another_host_never_reaches_the_server() {
    let server = listening();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target, "evil.localhost"], &[]);
    for size in [usize::MAX, 7, 1] {
        let good = hello("APP.localhost.");
        assert_eq!(say(tunnel(&proxy, &target), &good, size), b"heard");
        assert_eq!(server.seen().pop(), Some(hex(&good)), "in pieces of {size}");
        assert_eq!(last_code(&proxy), "net.host.listed");
    }
    for size in [usize::MAX, 7, 1] {
        let evil = hello("evil.localhost");
        assert_eq!(say(tunnel(&proxy, &target), &evil, size), ALERT);
        let event = proxy.events().pop().unwrap();
        assert_eq!(event["code"], "net.host.mismatch");
        assert_eq!(event["verdict"], "denied");
        assert_eq!(event["target"], *target);
        let reason = event["reason"].as_str().unwrap();
        assert!(
            reason.contains("names evil.localhost") && reason.contains("requireHostMatch"),
            "{reason}"
        );
    }
    let heard: Vec<_> = server.seen().into_iter().skip(3).collect();
    assert!(heard.iter().all(String::is_empty), "{heard:?}");
}

#[test]
fn without_host_match_a_tunnel_is_not_looked_into() {
    let server = listening();
    let target = on("app.localhost", &server);
    let evil = hello("evil.localhost");
    let strict = Proxy::start(&[&target], &[]);
    assert_eq!(say(tunnel(&strict, &target), &evil, usize::MAX), ALERT);
    let loose = Proxy::start_with(&[&target], &[], |settings| {
        settings.requires_host_match = false;
    });
    assert_eq!(say(tunnel(&loose, &target), &evil, usize::MAX), b"heard");
    assert_eq!(server.seen().pop(), Some(hex(&evil)));
    assert_eq!(last_code(&loose), "net.host.listed");
}

#[test]
fn a_hello_sent_right_behind_connect_is_looked_at_too() {
    let server = listening();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes();
    let answer = |name: &str| {
        let bytes = [&head[..], &hello(name)].concat();
        let answer = say(proxy.connect(), &bytes, usize::MAX);
        let head_of_answer = b"HTTP/1.1 200 OK\r\n\r\n";
        answer.strip_prefix(head_of_answer).unwrap().to_vec()
    };
    assert_eq!(answer("app.localhost"), b"heard");
    assert_eq!(answer("evil.localhost"), ALERT);
    assert_eq!(server.seen().first(), Some(&hex(&hello("app.localhost"))));
    assert!(server.seen()[1..].iter().all(String::is_empty));
}

#[test]
fn a_server_may_speak_first_and_other_protocols_pass() {
    let server = Server::new(|mut stream, seen| {
        stream.write_all(b"220 ready\r\n").unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        note(seen, &heard);
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let mut stream = tunnel(&proxy, &target);
    let mut greeting = [0; 11];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"220 ready\r\n");
    stream.write_all(b"EHLO x\r\n").unwrap();
    stream.write_all(&hello("evil.localhost")).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut stream), "");
    // What begins in another protocol stays the client's own affair.
    let expected = [&b"EHLO x\r\n"[..], &hello("evil.localhost")].concat();
    assert_eq!(server.seen(), [hex(&expected)]);
}

#[test]
fn the_servers_bytes_pass_while_a_hello_is_incomplete() {
    let server = Server::new(|mut stream, seen| {
        stream.write_all(b"early").unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).ok();
        note(seen, &heard);
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let mut stream = tunnel(&proxy, &target);
    let good = hello("app.localhost");
    stream.write_all(&good[..20]).unwrap();
    let mut early = [0; 5];
    stream.read_exact(&mut early).unwrap();
    assert_eq!(&early, b"early");
    stream.write_all(&good[20..]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut stream), "");
    assert_eq!(server.seen(), [hex(&good)]);
}

#[cfg(feature = "socks")]
#[test]
fn socks_tunnels_are_looked_into_as_well() {
    let server = listening();
    let proxy = Proxy::start(&["app.localhost"], &[]);
    let ask = |name: &str| {
        let [high, low] = server.port.to_be_bytes();
        let asked = [
            &[5, 1, 0, 5, 1, 0, 3, 13][..],
            b"app.localhost",
            &[high, low],
        ]
        .concat();
        let mut stream = crate::fixture::connect(proxy.socks);
        stream.write_all(&asked).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(head, [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        say(stream, &hello(name), 5)
    };
    assert_eq!(ask("app.localhost"), b"heard");
    assert_eq!(last_code(&proxy), "net.host.listed");
    assert_eq!(ask("evil.localhost"), ALERT);
    assert_eq!(last_code(&proxy), "net.host.mismatch");
    assert_eq!(server.seen()[0], hex(&hello("app.localhost")));
}
