use std::io::Write;

use crate::fixture::{Proxy, Server, on, read_to_end, status};

#[test]
fn every_framing_that_two_parsers_may_read_differently_gets_400() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let smuggled = format!("GET http://{target}/smuggled HTTP/1.1\r\nHost: {target}\r\n\r\n");
    let start = format!("POST http://{target}/ HTTP/1.1\r\nHost: {target}\r\n");
    let sound = format!(
        "{start}Content-Length: {}\r\n\r\n{smuggled}",
        smuggled.len()
    );
    assert_eq!(status(&proxy.exchange(&sound)), "200");
    assert_eq!(server.seen().len(), 1);
    let forms = [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
        "Content-Length: 0\r\nContent-Length: 60\r\n\r\n",
        "Content-Length: 0, 0\r\n\r\n",
        "Content-Length: +0\r\n\r\n",
        "Content-Length : 0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: identity\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n",
        "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        "X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "X: y\n\n",
        "X: y\r\n\n",
        "X: y\r\n folded\r\n\r\n",
        "X: y\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "X: y\rTransfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n-1\r\nhello\r\n0\r\n\r\n",
    ];
    for form in forms {
        let answer = proxy.exchange(&format!("{start}{form}{smuggled}"));
        assert_eq!(status(&answer), "400", "{form:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{form:?}: {answer}");
    }
    assert_eq!(server.seen().len(), 1, "{:?}", server.seen());
}

#[test]
fn request_targets_that_are_not_for_a_proxy_are_refused() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let port = server.port;
    let line = |line: &str| format!("{line} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    assert_eq!(
        status(&proxy.exchange(&line(&format!("GET http://{target}/")))),
        "200"
    );
    let table = [
        ("GET /".to_owned(), "400"),
        ("GET //app.localhost/".to_owned(), "400"),
        ("OPTIONS *".to_owned(), "400"),
        (format!("GET {target}"), "400"),
        (format!("GET https://{target}/"), "400"),
        (format!("GET ftp://{target}/"), "501"),
        (format!("GET file://{target}/etc/passwd"), "501"),
        (format!("GET gopher://{target}/"), "501"),
        (format!("GET http://user@{target}/"), "400"),
        (format!("GET http://user:pass@{target}/"), "400"),
        (format!("GET http://{target}@evil.localhost:{port}/"), "400"),
        (
            format!("GET http://evil.localhost:{port}\\@{target}/"),
            "400",
        ),
        (format!("GET http://{target}#@evil.localhost/"), "400"),
        (
            format!("GET http://app.localhost;evil.localhost:{port}/"),
            "400",
        ),
        (
            format!("GET http://app.localhost,evil.localhost:{port}/"),
            "400",
        ),
        (format!("GET http://app%2elocalhost:{port}/"), "400"),
        (format!("GET http://app.localhost..:{port}/"), "400"),
        (format!("GET http://[::1%25lo]:{port}/"), "400"),
        ("GET http://app.localhost:0/".to_owned(), "400"),
        ("GET http://app.localhost:99999/".to_owned(), "400"),
        (format!("GET http:///{target}/"), "400"),
        (format!("GET  http://{target}/"), "400"),
        (format!("TRACE http://{target}/"), "405"),
        (format!("TRACK http://{target}/"), "405"),
        ("CONNECT app.localhost".to_owned(), "400"),
        (format!("CONNECT http://{target}/"), "400"),
        (format!("CONNECT user@{target}"), "400"),
        ("CONNECT app.localhost:0".to_owned(), "400"),
        (format!("connect {target}"), "400"),
        ("PRI *".to_owned(), "400"),
    ];
    for (request, expected) in table {
        let answer = proxy.exchange(&line(&request));
        assert_eq!(status(&answer), expected, "{request}: {answer}");
    }
    let mut stream = proxy.connect();
    stream
        .write_all(format!("GET http://{target}/\r\n\r\n").as_bytes())
        .unwrap();
    let answer = read_to_end(&mut stream);
    assert_eq!(status(&answer), "400", "HTTP/0.9: {answer}");
    assert_eq!(server.connections(), 1);
}

#[test]
fn a_host_header_that_disagrees_with_the_url_gets_421_and_a_malformed_one_400() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let allowed = [target.as_str(), "evil.localhost"];
    let proxy = Proxy::start(&allowed, &[]);
    let ask = |hosts: &str| {
        let plain = proxy.exchange(&format!("GET http://{target}/ HTTP/1.1\r\n{hosts}\r\n"));
        let connect = proxy.exchange(&format!("CONNECT {target} HTTP/1.1\r\n{hosts}\r\n"));
        [plain, connect].map(|answer| status(&answer).to_owned())
    };
    let port = server.port;
    assert_eq!(ask(&format!("Host: {target}\r\n")), ["200", "200"]);
    assert_eq!(
        ask(&format!("Host: APP.localhost.:{port}\r\n")),
        ["200", "200"]
    );
    assert_eq!(server.seen().len(), 2);
    for hosts in [
        format!("Host: evil.localhost:{port}\r\n"),
        format!("Host: app.localhost:{}\r\n", port ^ 1),
        "Host: 127.0.0.1\r\n".to_owned(),
    ] {
        assert_eq!(ask(&hosts), ["421", "421"], "{hosts:?}");
    }
    let mismatch = &proxy.events()[4];
    assert_eq!(mismatch["code"], "net.host.mismatch");
    assert_eq!(mismatch["target"], *target);
    let reason = mismatch["reason"].as_str().unwrap();
    assert!(
        reason.contains("evil.localhost") && reason.contains("network.requireHostMatch"),
        "{reason}"
    );
    for hosts in [
        format!("Host: {target}\r\nHost: {target}\r\n"),
        format!("Host: {target}\r\nHost: evil.localhost\r\n"),
        format!("Host: user@{target}\r\n"),
        "Host: \r\n".to_owned(),
    ] {
        assert_eq!(ask(&hosts), ["400", "400"], "{hosts:?}");
    }
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn without_host_match_the_url_decides_and_host_is_written_anew() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let ask = |proxy: &Proxy, host: &str| {
        let get = format!("GET http://{target}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
        status(&proxy.exchange(&get)).to_owned()
    };
    let strict = Proxy::start(&[&target], &[]);
    assert_eq!(ask(&strict, "evil.localhost"), "421");
    let loose = Proxy::start_with(&[&target], &[], |settings| {
        settings.ignores_host_match = true;
    });
    assert_eq!(ask(&loose, "evil.localhost"), "200");
    assert_eq!(ask(&loose, "a b"), "400");
    assert_eq!(server.seen().len(), 1);
    let seen = server.seen().remove(0);
    assert!(seen.contains(&format!("Host: {target}\r\n")), "{seen}");
}

#[test]
fn every_spelling_of_a_host_gets_the_verdict_of_its_canonical_form() {
    let server = Server::http();
    let port = server.port;
    let spellings = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0X7f.0.0.1",
        "0177.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::FFFF:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
    ];
    let open = Proxy::start(&[&format!("127.0.0.1:{port}")], &[]);
    let odd = Proxy::start(&[&format!("0x7f.1:{port}")], &[]);
    let closed = Proxy::start(&[&format!("127.0.0.1:{port}")], &["[::ffff:7f00:1]"]);
    for host in spellings {
        let get = format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
        assert_eq!(status(&open.exchange(&get)), "200", "{host}");
        assert_eq!(status(&odd.exchange(&get)), "200", "{host}");
        let before = server.seen().len();
        assert_eq!(status(&closed.exchange(&get)), "403", "{host}");
        assert_eq!(server.seen().len(), before, "{host}");
    }
}
