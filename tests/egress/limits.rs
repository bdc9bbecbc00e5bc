use std::io::{Read, Write};
use std::time::{Duration, Instant};

use sandbox_runtime::settings::Limits;

use crate::fixture::{Proxy, Server, on, read_to_end, status};

fn limited(target: &str, change: impl FnOnce(&mut Limits)) -> Proxy {
    Proxy::start_with(&[target], &[], |settings| change(&mut settings.limits))
}

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
    let proxy = limited(&target, |limits| limits.header_seconds = 4);
    let begun = Instant::now();
    let slow: Vec<_> = (0..500)
        .map(|_| {
            let mut stream = proxy.connect();
            stream.write_all(b"GET http://").unwrap();
            stream
        })
        .collect();
    let get = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
    assert_eq!(status(&proxy.exchange(&get)), "200");
    // Had it waited for them, the last would be closed by now.
    slow[499].set_nonblocking(true).unwrap();
    let last = (&slow[499]).read(&mut [0]).unwrap_err();
    assert_eq!(last.kind(), std::io::ErrorKind::WouldBlock);
    slow[499].set_nonblocking(false).unwrap();
    for mut stream in slow {
        read_to_end(&mut stream);
    }
    let took = begun.elapsed();
    assert!(
        took > Duration::from_millis(3900) && took < Duration::from_secs(40),
        "{took:?}"
    );
}

#[test]
fn connections_over_the_limit_are_told_so_and_the_rest_keep_working() {
    let server = Server::http();
    let target = on("app.localhost", &server);
    let open = Proxy::start(&[&target], &[]);
    let many: Vec<_> = (0..9).map(|_| open.tunnel(&target)).collect();
    assert!(many.iter().all(|(_, head)| status(head) == "200"));
    let proxy = limited(&target, |limits| limits.connections = 8);
    let mut tunnels: Vec<_> = (0..8).map(|_| proxy.tunnel(&target)).collect();
    assert!(tunnels.iter().all(|(_, head)| status(head) == "200"));
    let refused = read_to_end(&mut proxy.connect());
    assert_eq!(status(&refused), "503");
    assert!(refused.contains("too-many-connections"), "{refused}");
    assert_eq!(server.connections(), 17);
    tunnels.truncate(7);
    std::thread::sleep(Duration::from_millis(300));
    let (_, head) = proxy.tunnel(&target);
    assert_eq!(status(&head), "200");
}

#[test]
fn what_stands_still_for_as_long_as_the_limit_is_closed() {
    let server = Server::new(|mut stream, _| {
        let mut piece = [0; 1024];
        while let Ok(count @ 1..) = stream.read(&mut piece) {
            let asked = String::from_utf8_lossy(&piece[..count]).into_owned();
            let answer = match () {
                () if asked.contains("/stuck") => "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nOK",
                () if asked.contains("/silent") => "",
                () => &asked,
            };
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let target = on("app.localhost", &server);
    let proxy = limited(&target, |limits| limits.idle_seconds = 3);
    let at_least = |begun: Instant| {
        let took = begun.elapsed();
        assert!(took > Duration::from_millis(2900), "{took:?}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = proxy.tunnel(&target);
            let mut byte = [0];
            for _ in 0..8 {
                std::thread::sleep(Duration::from_millis(400));
                stream.write_all(b"x").unwrap();
                stream.read_exact(&mut byte).unwrap();
            }
            let begun = Instant::now();
            let error = stream.read(&mut byte).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
            at_least(begun);
        });
        scope.spawn(|| {
            let begun = Instant::now();
            let get = format!("GET http://{target}/silent HTTP/1.1\r\nHost: {target}\r\n\r\n");
            let answer = proxy.exchange(&get);
            assert_eq!(status(&answer), "504");
            assert!(answer.contains("network.limits.idleSeconds"), "{answer}");
            at_least(begun);
        });
        scope.spawn(|| {
            let begun = Instant::now();
            let get = format!("GET http://{target}/stuck HTTP/1.1\r\nHost: {target}\r\n\r\n");
            assert!(proxy.exchange(&get).ends_with("\r\n\r\nOK"));
            at_least(begun);
        });
    });
}

#[test]
fn each_direction_of_each_connection_keeps_to_the_rate() {
    const BYTES: usize = 64_000_000;
    const RATE: u64 = 4_000_000;
    let server = Server::new(|mut stream, _| {
        let mut piece = vec![0; 1 << 16];
        let mut left = BYTES;
        let mut seen = Vec::new();
        while left > 0
            && let Ok(count @ 1..) = stream.read(&mut piece)
        {
            seen.extend_from_slice(&piece[..count.min(1024)]);
            match seen.starts_with(b"GET") {
                true if seen.ends_with(b"\r\n\r\n") => {
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n");
                    stream.write_all(head.as_bytes()).unwrap();
                    stream.write_all(&vec![b'x'; BYTES]).unwrap();
                    left = 0;
                }
                true => {}
                false => {
                    stream.write_all(&piece[..count]).unwrap();
                    left -= count;
                }
            }
        }
    });
    let target = on("app.localhost", &server);
    let echo = |proxy: &Proxy| {
        let (mut stream, _) = proxy.tunnel(&target);
        let begun = Instant::now();
        let mut writer = stream.try_clone().unwrap();
        let writing = std::thread::spawn(move || writer.write_all(&vec![b'y'; BYTES]).unwrap());
        let mut back = vec![0; BYTES];
        stream.read_exact(&mut back).unwrap();
        writing.join().unwrap();
        assert!(back.iter().all(|byte| *byte == b'y'));
        begun.elapsed()
    };
    let get = |proxy: &Proxy| {
        let begun = Instant::now();
        let get = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
        assert_eq!(proxy.exchange(&get).matches('x').count(), BYTES);
        begun.elapsed()
    };
    let open = Proxy::start(&[&target], &[]);
    let quick = Duration::from_secs(12);
    assert!(echo(&open) < quick && get(&open) < quick);
    // Sixteen seconds for each, less the burst at the start; together no longer.
    let slow = limited(&target, |limits| limits.bytes_per_second = RATE);
    let expected = Duration::from_millis(15_000)..Duration::from_secs(45);
    std::thread::scope(|scope| {
        let echoes = [(); 2].map(|()| scope.spawn(|| echo(&slow)));
        let gets = [(); 2].map(|()| scope.spawn(|| get(&slow)));
        for took in echoes
            .into_iter()
            .chain(gets)
            .map(|thread| thread.join().unwrap())
        {
            assert!(expected.contains(&took), "{took:?}");
        }
    });
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
