use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

use crate::fixture::{Proxy, Server, on, read_answer, read_head, read_to_end, status};

fn get(target: &str, path: &str) -> String {
    format!("GET http://{target}{path} HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n")
}

#[test]
fn an_unlisted_host_gets_403_with_host_and_setting_and_an_event() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let open = Proxy::start(&[&target], &[]);
    assert!(open.exchange(&get(&target, "/a")).ends_with("\r\n\r\nOK"));
    assert_eq!(server.seen().len(), 1);
    let event = &open.events()[0];
    assert_eq!(
        (&event["verdict"], &event["code"]),
        (&"allowed".into(), &"net.host.listed".into())
    );
    assert_eq!(event["rule"]["entry"], *target);

    let closed = Proxy::start(&["other.localhost"], &[]);
    let answer = closed.exchange(&get(&target, "/a"));
    assert_eq!(status(&answer), "403");
    let lower = answer.to_lowercase();
    assert!(lower.contains("content-type: text/plain\r\n"), "{answer}");
    assert!(
        lower.contains("x-proxy-error: blocked-by-allowlist\r\n"),
        "{answer}"
    );
    assert!(answer.contains(&format!("{target} is blocked")), "{answer}");
    assert!(answer.contains("network.allowedDomains"), "{answer}");
    assert_eq!(server.seen().len(), 1);
    let events = closed.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["target"], *target);
    assert_eq!(events[0]["verdict"], "denied");
    assert_eq!(events[0]["code"], "net.host.unlisted");
    assert_eq!(events[0]["suggest"]["add"], *target);
}

#[test]
fn a_refused_connect_says_why_in_the_status_line_and_closes() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let open = Proxy::start(&[&target], &[]);
    let (mut stream, head) = open.tunnel(&target);
    assert_eq!(status(&head), "200");
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(read_answer(&mut stream).1, "OK");

    let closed = Proxy::start(&[&target], &["*"]);
    let (mut stream, head) = closed.tunnel(&target);
    let first = head.lines().next().unwrap();
    assert!(
        first.starts_with(&format!("HTTP/1.1 403 {target} is blocked")),
        "{first}"
    );
    assert!(first.contains("`*` of network.deniedDomains"), "{first}");
    assert!(read_to_end(&mut stream).contains("is blocked"));
    assert_eq!(server.connections(), 1);
    assert_eq!(closed.events()[0]["code"], "net.host.denied");
    assert_eq!(closed.events()[0]["rule"]["entry"], "*");
}

#[test]
fn the_second_request_on_a_kept_connection_is_judged_anew() {
    let server = Server::http();
    let (good, evil) = (on("app.localhost", &server), on("evil.localhost", &server));
    let ask = |proxy: &Proxy| {
        let mut stream = proxy.connect();
        let mut statuses = Vec::new();
        for target in [&good, &evil, &good] {
            write!(
                stream,
                "GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n"
            )
            .unwrap();
            let (head, _) = read_answer(&mut stream);
            statuses.push(status(&head).to_owned());
        }
        statuses
    };
    assert_eq!(
        ask(&Proxy::start(&[&good, &evil], &[])),
        ["200", "200", "200"]
    );
    assert_eq!(server.seen().len(), 3);
    assert_eq!(ask(&Proxy::start(&[&good], &[])), ["200", "403", "200"]);
    assert_eq!(server.seen().len(), 5);
}

#[test]
fn connections_to_servers_are_kept_and_a_dead_one_is_replaced() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    for _ in 0..3 {
        assert_eq!(status(&proxy.exchange(&get(&target, "/"))), "200");
    }
    assert_eq!(server.connections(), 1);
    for _ in 0..3 {
        assert_eq!(status(&proxy.exchange(&get(&target, "/close"))), "200");
    }
    assert_eq!(server.seen().len(), 6);
    assert_eq!(proxy.events().len(), 6);
}

#[test]
fn an_allowed_name_that_leads_to_a_denied_address_gets_403_without_the_address() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let allowed = [target.as_str()];
    assert_eq!(
        status(&Proxy::start(&allowed, &[]).exchange(&get(&target, "/"))),
        "200"
    );
    let denied = ["127.0.0.0/8", "[::1]"];
    let proxy = Proxy::start(&allowed, &denied);
    let answer = proxy.exchange(&get(&target, "/"));
    assert_eq!(status(&answer), "403");
    assert!(
        answer
            .to_lowercase()
            .contains("x-proxy-error: blocked-by-sandbox-runtime")
    );
    assert!(!answer.contains("127.0.0"), "{answer}");
    let (_, head) = proxy.tunnel(&target);
    assert_eq!(status(&head), "403");
    assert!(!head.contains("127.0.0"), "{head}");
    assert_eq!(server.connections(), 1);
    assert_eq!(proxy.events()[0]["code"], "net.address.denied");
    assert_eq!(proxy.events()[0]["rule"]["entry"], "127.0.0.0/8");
}

#[test]
fn headers_about_the_connection_stay_on_it_and_host_is_canonical() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let spelled = format!("APP.LocalHost.:{}", server.port);
    let answer = proxy.exchange(&format!(
        "GET http://{spelled}/a?b=c HTTP/1.1\r\nHost: {spelled}\r\nConnection: close, X-Hop\r\n\
         X-Hop: 1\r\nTE: trailers\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n\
         Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: close\r\nX-Kept: 1\r\n\r\n"
    ));
    assert_eq!(status(&answer), "200");
    assert!(answer.contains("X-Mine: 1"), "{answer}");
    assert!(
        !answer.contains("forged") && !answer.contains("timeout=5"),
        "{answer}"
    );
    let seen = server.seen().remove(0);
    assert!(seen.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("Host: {target}\r\n")), "{seen}");
    assert!(seen.contains("X-Kept: 1\r\n"), "{seen}");
    for gone in [
        "X-Hop",
        "TE:",
        "Upgrade",
        "Proxy-",
        "c2VjcmV0",
        "Connection",
    ] {
        assert!(!seen.contains(gone), "{gone} in {seen}");
    }
}

#[test]
fn an_answer_after_the_clients_half_close_arrives_whole() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    assert!(
        proxy
            .exchange(&get(&target, "/wait"))
            .ends_with("\r\n\r\nlate")
    );
    let big = proxy.exchange(&get(&target, "/big"));
    assert_eq!(big.split_once("\r\n\r\n").unwrap().1.len(), 1 << 20);
}

#[test]
fn bodies_and_bodiless_answers_are_framed_as_the_rfc_says() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let start = |method| format!("{method} http://{target}/ HTTP/1.1\r\nHost: {target}\r\n");
    let mut stream = proxy.connect();
    write!(stream, "{}Content-Length: 5\r\n\r\nhello", start("POST")).unwrap();
    assert_eq!(read_answer(&mut stream).1, "OK");
    write!(
        stream,
        "{}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        start("PUT")
    )
    .unwrap();
    assert_eq!(read_answer(&mut stream).1, "OK");
    write!(
        stream,
        "GET http://{target}/204 HTTP/1.1\r\nHost: {target}\r\n\r\n"
    )
    .unwrap();
    assert_eq!(status(&read_head(&mut stream)), "204");
    write!(stream, "{}\r\n", start("HEAD")).unwrap();
    assert_eq!(status(&read_head(&mut stream)), "200");
    write!(
        stream,
        "{}Content-Length: 5\r\nExpect: 100-continue\r\n\r\n",
        start("POST")
    )
    .unwrap();
    assert_eq!(status(&read_head(&mut stream)), "100");
    stream.write_all(b"again").unwrap();
    assert_eq!(read_answer(&mut stream).1, "OK");
    write!(stream, "{}\r\n", start("BREW")).unwrap();
    assert_eq!(read_answer(&mut stream).1, "OK");
    let seen = server.seen();
    let bodies: Vec<&str> = seen
        .iter()
        .map(|request| request.split_once("\r\n\r\n").unwrap().1)
        .collect();
    assert_eq!(
        bodies,
        ["hello", "5\r\nhello\r\n0\r\n\r\n", "", "", "again", ""]
    );
    assert_eq!(server.connections(), 1);
}

#[test]
fn websocket_passes_over_plain_http_and_over_connect() {
    let server = Server::new(|mut stream, seen| {
        let head = read_head(&mut stream);
        if !head.contains("Upgrade: websocket") {
            return;
        }
        seen.lock().unwrap().push(head);
        let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\nearly";
        stream.write_all(agreed.as_bytes()).unwrap();
        let mut buffer = [0; 64];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            stream.write_all(&buffer[..count]).unwrap();
        }
        stream.write_all(b"bye").unwrap();
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let upgrade = format!(
        "Host: {target}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"
    );
    let mut plain = proxy.connect();
    write!(plain, "GET http://{target}/ HTTP/1.1\r\n{upgrade}").unwrap();
    let (mut tunnel, head) = proxy.tunnel(&target);
    assert_eq!(status(&head), "200");
    write!(tunnel, "GET / HTTP/1.1\r\n{upgrade}").unwrap();
    for stream in [&mut plain, &mut tunnel] {
        let head = read_head(stream);
        assert_eq!(status(&head), "101");
        assert!(head.contains("Sec-WebSocket-Accept: x"), "{head}");
        stream
            .write_all(b"\x81\x05hello GET / HTTP/1.1\n\n\0")
            .unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(
            read_to_end(stream),
            "early\u{fffd}\u{5}hello GET / HTTP/1.1\n\n\0bye"
        );
    }
    assert_eq!(server.seen().len(), 2);
    let denied = Proxy::start(&[], &[]);
    let answer = denied.exchange(&format!("GET http://{target}/ HTTP/1.1\r\n{upgrade}"));
    assert_eq!(status(&answer), "403");
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_server_that_is_not_there_gives_502_with_the_cause_and_an_event() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = format!("app.localhost:{}", free.local_addr().unwrap().port());
    drop(free);
    let proxy = Proxy::start(&[&target], &[]);
    let answer = proxy.exchange(&get(&target, "/"));
    assert_eq!(status(&answer), "502");
    assert!(answer.contains("connection refused"), "{answer}");
    let (_, head) = proxy.tunnel(&target);
    assert!(head.starts_with(&format!(
        "HTTP/1.1 502 cannot reach {target}: connection refused"
    )));
    let events = proxy.events();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["code"], "net.upstream.failed");
    assert_eq!(events[0]["verdict"], "failed");
}

#[test]
fn a_large_upload_to_a_refused_host_still_learns_why() {
    let proxy = Proxy::start(&[], &[]);
    let mut stream = proxy.connect();
    let length = 1 << 19;
    write!(
        stream,
        "POST http://no.test/ HTTP/1.1\r\nHost: no.test\r\nContent-Length: {length}\r\n\r\n"
    )
    .unwrap();
    // The proxy may stop reading at any point; the answer counts.
    let _sent = stream.write_all(&vec![b'x'; length]);
    let head = read_head(&mut stream);
    assert_eq!(status(&head), "403");
}

#[test]
fn a_redirect_is_the_clients_to_follow_and_is_judged_then() {
    let server = Server::new(|mut stream, seen| {
        seen.lock().unwrap().push(read_head(&mut stream));
        let there = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest\r\n\
                     Content-Length: 0\r\nConnection: close\r\n\r\n";
        stream.write_all(there.as_bytes()).unwrap();
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let answer = proxy.exchange(&get(&target, "/"));
    assert_eq!(status(&answer), "302");
    assert!(answer.contains("http://169.254.169.254/latest"), "{answer}");
    assert_eq!(server.connections(), 1);
    assert_eq!(
        status(&proxy.exchange(&get("169.254.169.254", "/latest"))),
        "403"
    );
}

#[test]
fn only_websocket_gets_a_switch_of_protocols() {
    let server = Server::new(|mut stream, seen| {
        seen.lock().unwrap().push(read_head(&mut stream));
        let switch = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: h2c\r\n\r\n";
        stream.write_all(switch.as_bytes()).unwrap();
        let _rest = stream.read(&mut [0; 64]);
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    for upgrade in ["h2c", "websocket, h2c", "TLS/1.0", "websocket"] {
        let answer = proxy.exchange(&format!(
            "GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\
             Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\nHTTP2-Settings: AAM\r\n\r\n"
        ));
        assert_eq!(status(&answer), "502", "{upgrade}: {answer}");
        let seen = server.seen().pop().unwrap();
        assert_eq!(
            seen.contains("Upgrade: websocket\r\n"),
            upgrade == "websocket",
            "{seen}"
        );
        assert!(
            !seen.contains("h2c") && !seen.contains("HTTP2-Settings"),
            "{seen}"
        );
    }
}
