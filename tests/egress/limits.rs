use std::io::Write;
use std::time::{Duration, Instant};

use crate::fixture::{Proxy, Server, on, read_to_end, status};

#[test]
fn a_head_over_64_kib_gets_431_and_hundreds_of_headers_pass() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let start = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n");
    let many = (0..300)
        .map(|n| format!("X-{n}: y\r\n"))
        .collect::<String>();
    assert_eq!(
        status(&proxy.exchange(&format!("{start}{many}\r\n"))),
        "200"
    );
    let long = format!("{start}X: {}\r\n\r\n", "a".repeat(60_000));
    assert_eq!(status(&proxy.exchange(&long)), "200");
    assert_eq!(server.seen().len(), 2);
    for size in [70_000, 1_000_000] {
        let too_long = format!("{start}X: {}\r\n\r\n", "a".repeat(size));
        let mut stream = proxy.connect();
        // The proxy stops reading at its limit.
        let _sent = stream.write_all(too_long.as_bytes());
        assert_eq!(status(&read_to_end(&mut stream)), "431", "{size}");
    }
    let too_many = "X: y\r\n".repeat(10_000);
    assert_eq!(
        status(&proxy.exchange(&format!("{start}{too_many}\r\n"))),
        "431"
    );
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn slow_heads_are_cut_off_and_hold_nobody_up() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let begun = Instant::now();
    let slow: Vec<_> = (0..200)
        .map(|_| {
            let mut stream = proxy.connect();
            stream.write_all(b"GET http://").unwrap();
            stream
        })
        .collect();
    let asked = Instant::now();
    let get = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    assert_eq!(status(&proxy.exchange(&get)), "200");
    assert!(asked.elapsed() < Duration::from_secs(1));
    for mut stream in slow {
        read_to_end(&mut stream);
    }
    let took = begun.elapsed();
    assert!(
        took > Duration::from_secs(9) && took < Duration::from_secs(15),
        "{took:?}"
    );
}

#[test]
fn connections_over_the_limit_are_told_so_and_the_rest_keep_working() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    crate::tunnel::raise_descriptor_limit();
    let proxy = Proxy::start(&[&target], &[]);
    let mut tunnels: Vec<_> = (0..1024).map(|_| proxy.tunnel(&target)).collect();
    assert!(tunnels.iter().all(|(_, head)| status(head) == "200"));
    assert_eq!(status(&read_to_end(&mut proxy.connect())), "503");
    tunnels.truncate(1000);
    std::thread::sleep(Duration::from_millis(300));
    let (_, head) = proxy.tunnel(&target);
    assert_eq!(status(&head), "200");
}

#[test]
fn the_end_of_the_stop_descriptor_ends_everything() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let mut proxy = Proxy::start(&[&target], &[]);
    let (mut tunnel, head) = proxy.tunnel(&target);
    assert_eq!(status(&head), "200");
    proxy.stop();
    assert_eq!(read_to_end(&mut tunnel), "");
    assert!(std::net::TcpStream::connect(proxy.http).is_err());
}
