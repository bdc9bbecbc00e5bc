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

/// Request lines that are for no proxy, or name their host in a way that is none.
fn unfit(target: &str, port: u16) -> Vec<(String, &'static str)> {
    vec![
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
    ]
}

/// Request lines with a character, or a length, that a target must not have.
fn odd(target: &str, port: u16) -> Vec<(String, &'static str)> {
    vec![
        (
            format!("GET http://app.localhost\0.evil.localhost:{port}/"),
            "400",
        ),
        (
            format!("GET http://app.localhost%00.evil.localhost:{port}/"),
            "400",
        ),
        (format!("GET http://{target}/a\0b"), "400"),
        (format!("GET http://{target}/a b"), "400"),
        (format!("GET http://{target}/a\tb"), "400"),
        (format!("GET\thttp://{target}/"), "400"),
        (format!("G\0T http://{target}/"), "400"),
        (format!("GET http://[app.localhost]:{port}/"), "400"),
        (format!("GET http://[::1:{port}/"), "400"),
        (format!("GET http://::1:{port}/"), "400"),
        (format!("GET http://{}aa:{port}/", "a.".repeat(126)), "400"),
        (
            format!("GET http://{}.localhost:{port}/", "a".repeat(64)),
            "400",
        ),
        (format!("GET http://app.localhost:{port}:{port}/"), "400"),
        (format!("GET http://app.localhost:+{port}/"), "400"),
        (format!("GET http://app.localhost:0{port}/"), "400"),
        (format!("GET http://app.loc\u{e4}lhost:{port}/"), "400"),
        (format!("GET {target}/"), "400"),
        (format!("CONNECT [::1%25lo]:{port}"), "400"),
        (format!("CONNECT app.localhost\0:{port}"), "400"),
        (format!("CONNECT {target}/"), "400"),
        (format!("CONNECT {target}:443"), "400"),
        ("CONNECT *".to_owned(), "400"),
    ]
}

#[test]
fn request_targets_that_are_not_for_a_proxy_are_refused() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let line = |line: &str| format!("{line} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    assert_eq!(
        status(&proxy.exchange(&line(&format!("GET http://{target}/")))),
        "200"
    );
    let table = unfit(&target, server.port);
    for (request, expected) in table.into_iter().chain(odd(&target, server.port)) {
        let answer = proxy.exchange(&line(&request));
        assert_eq!(status(&answer), expected, "{request}: {answer}");
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn what_is_no_request_of_http_1_gets_400_or_nothing() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let sound = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    assert_eq!(status(&proxy.exchange(&sound)), "200");
    for raw in [
        format!("GET http://{target}/\r\n\r\n"),
        format!("GET http://{target}/ HTTP/0.9\r\n\r\n"),
        format!("GET http://{target}/ HTTP/1.2\r\nHost: {target}\r\n\r\n"),
        format!("GET http://{target}/ HTTP/2.0\r\nHost: {target}\r\n\r\n"),
        format!("GET http://{target}/ http/1.1\r\nHost: {target}\r\n\r\n"),
        format!("GET http://{target}/ HTTP/1.1 \r\nHost: {target}\r\n\r\n"),
        format!(" GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_owned(),
        "\0\0\0\0".to_owned(),
        "\x16\x03\x01\x02\0\x01\0\x01\n".to_owned(),
    ] {
        let mut stream = proxy.connect();
        stream.write_all(raw.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = read_to_end(&mut stream);
        assert!(
            ["400", "no answer"].contains(&status(&answer)),
            "{raw:?}: {answer}"
        );
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn paths_reach_the_server_as_they_were_written() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let paths = [
        "//evil.localhost/",
        "/..//",
        "/%2e%2e/x",
        "/a%00b",
        "/?a=http://b@c",
        "/%0d%0aX:%20y",
    ];
    for path in paths {
        let get = format!("GET http://{target}{path} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        assert_eq!(status(&proxy.exchange(&get)), "200", "{path}");
        let seen = server.seen().pop().unwrap();
        assert!(
            seen.starts_with(&format!("GET {path} HTTP/1.1\r\n")),
            "{seen}"
        );
    }
    let old = format!("GET http://{target}/old HTTP/1.0\r\n\r\n");
    assert_eq!(status(&proxy.exchange(&old)), "200");
    let seen = server.seen().pop().unwrap().to_lowercase();
    assert!(seen.contains(&format!("host: {target}\r\n")), "{seen}");
}

#[test]
fn what_a_refusal_repeats_stays_text_on_one_line() {
    let proxy = Proxy::start(&["a.test"], &[]);
    let long = "a.".repeat(15_000);
    let hosts = [
        "<script>alert(1)</script>",
        "\u{202e}evil.test",
        "a\u{1b}[31m.test",
        "evil.test\rX: y",
        "b.test",
        &long,
    ];
    for host in hosts {
        let before = proxy.events().len();
        for line in [
            format!("GET http://{host}/ HTTP/1.1"),
            format!("CONNECT {host}:443 HTTP/1.1"),
        ] {
            let answer = proxy.exchange(&format!("{line}\r\nHost: {host}\r\n\r\n"));
            assert!(
                ["400", "403"].contains(&status(&answer)),
                "{host:.40}: {answer:.200}"
            );
            assert!(answer.len() < 3000, "{host:.40}: {}", answer.len());
            let (head, _) = answer.split_once("\r\n\r\n").unwrap();
            let odd = |c: char| !matches!(c, ' '..='~' | '\r' | '\n');
            assert!(
                !answer.contains(odd) && !head.contains("X: y"),
                "{answer:?}"
            );
            let lower = head.to_lowercase();
            // What cannot even be parsed is answered without a word.
            let is_bare = lower.contains("content-length: 0");
            assert!(
                is_bare || lower.contains("content-type: text/plain"),
                "{head}"
            );
            assert!(is_bare || lower.contains("x-proxy-error: "), "{head}");
        }
        let begun = std::time::Instant::now();
        while proxy.events().len() < before + 2 {
            assert!(begun.elapsed() < crate::fixture::PATIENCE, "{host:.40}");
        }
        let events = proxy.events();
        let asked = events.iter().map(|event| event["target"].as_str().unwrap());
        for asked in asked {
            assert!(
                asked.len() < 2000 && asked.chars().all(|c| matches!(c, ' '..='~')),
                "{asked}"
            );
        }
    }
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
        settings.requires_host_match = false;
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
