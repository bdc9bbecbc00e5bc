//! What a client gets through the proxy, beside what it gets without.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::fixture::{PATIENCE, Proxy, Server, connect, on, read_head};

/// An answer, with what is about one connection only left out.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    /// The heads before the final one.
    interim: Vec<Vec<Vec<u8>>>,
    status: String,
    headers: BTreeMap<String, Vec<Vec<u8>>>,
    body: Vec<u8>,
    trailers: Vec<Vec<u8>>,
}

/// What frames a message on one connection; the body is compared unframed.
const FRAMING: [&str; 4] = ["connection", "keep-alive", "transfer-encoding", "date"];

fn read_line(reader: &mut impl BufRead) -> Vec<u8> {
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).unwrap();
    assert_eq!(line.split_off(line.len() - 2), b"\r\n", "{line:?}");
    line
}

fn read_lines(reader: &mut impl BufRead) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| Some(read_line(reader)).filter(|line| !line.is_empty())).collect()
}

fn read_chunks(reader: &mut impl BufRead) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let size = String::from_utf8(read_line(reader)).unwrap();
        let size = usize::from_str_radix(size.split(';').next().unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        let start = body.len();
        body.resize(start + size, 0);
        reader.read_exact(&mut body[start..]).unwrap();
        assert_eq!(read_line(reader), b"");
    }
}

/// Reads the answer to one request, with those before the final one.
fn read_answer(stream: TcpStream, method: &str) -> Answer {
    let mut reader = BufReader::new(stream);
    let mut status = read_line(&mut reader);
    let mut lines = read_lines(&mut reader);
    let mut interim = Vec::new();
    while status.starts_with(b"HTTP/1.1 1") {
        interim.push([vec![status], lines].concat());
        status = read_line(&mut reader);
        lines = read_lines(&mut reader);
    }
    let mut headers: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':').unwrap();
        let name = String::from_utf8(line[..colon].to_ascii_lowercase()).unwrap();
        headers
            .entry(name)
            .or_default()
            .push(line[colon + 1..].trim_ascii().to_vec());
    }
    let has_none = method == "HEAD" || [&b"204"[..], b"304"].contains(&&status[9..12]);
    let length = headers.get("content-length").map(|values| {
        String::from_utf8(values[0].clone())
            .unwrap()
            .parse::<usize>()
            .unwrap()
    });
    let (mut body, mut trailers) = (Vec::new(), Vec::new());
    match (has_none, headers.contains_key("transfer-encoding"), length) {
        (true, ..) => {}
        (false, true, _) => {
            body = read_chunks(&mut reader);
            trailers = read_lines(&mut reader);
            // Names are the same in any case.
            trailers
                .iter_mut()
                .for_each(|line| line.make_ascii_lowercase());
        }
        (false, false, Some(length)) => {
            body.resize(length, 0);
            reader.read_exact(&mut body).unwrap();
        }
        (false, false, None) => drop(reader.read_to_end(&mut body).unwrap()),
    }
    headers.retain(|name, _| !FRAMING.contains(&name.as_str()));
    Answer {
        interim,
        status: String::from_utf8_lossy(&status[9..]).into_owned(),
        headers,
        body,
        trailers,
    }
}

/// Answers as they come from servers, each with the method that asks for it.
fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    let ok = |rest: &str| format!("HTTP/1.1 200 OK\r\n{rest}").into_bytes();
    let gzip = [
        &b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 23\r\n\r\n"[..],
        &[
            0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b, 4, 0, 0x43, 0xbe, 0xb7, 0xe8, 1, 0, 0, 0, 0,
            9,
        ],
    ];
    let binary: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    vec![
        ("GET", ok("Content-Length: 5\r\n\r\nhello")),
        ("GET", ok("Content-Length: 0\r\n\r\n")),
        ("POST", ok("Content-Length: 2\r\nETag: \"x\"\r\n\r\nOK")),
        ("GET", ok("Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n")),
        ("GET", ok("Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")),
        (
            "GET",
            ok("Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"),
        ),
        ("GET", [&ok("X: y\r\nConnection: close\r\n\r\n")[..], &binary].concat()),
        ("GET", [&ok("Content-Length: 100000\r\n\r\n")[..], &binary].concat()),
        ("GET", gzip.concat()),
        ("HEAD", ok("Content-Length: 12345\r\nContent-Type: text/x\r\n\r\n")),
        ("HEAD", ok("X: y\r\n\r\n")),
        ("GET", b"HTTP/1.1 204 No Content\r\nX: y\r\n\r\n".to_vec()),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n".to_vec()),
        ("GET", b"HTTP/1.1 299 Fine by me\r\nContent-Length: 0\r\n\r\n".to_vec()),
        ("GET", b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno".to_vec()),
        ("GET", b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno".to_vec()),
        (
            "GET",
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
                .to_vec(),
        ),
        (
            "POST",
            b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 110 x\r\nA: b\r\na:c\r\n\r\n\
              HTTP/1.1 204 No Content\r\n\r\n"
                .to_vec(),
        ),
        (
            "GET",
            b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nX-Obs: \xe4\r\nX-Empty:\r\n\
              Date: Mon, 30 Nov 2026 12:00:00 GMT\r\nServer: s\r\nVia: 1.0 x\r\nContent-Length: 0\r\n\r\n"
                .to_vec(),
        ),
    ]
}

#[test]
fn answers_are_the_same_through_the_proxy_as_without_it() {
    for (method, answer) in corpus() {
        for size in [usize::MAX, 1] {
            // Byte by byte takes its time.
            let size = if answer.len() > 10_000 {
                usize::MAX
            } else {
                size
            };
            let sent = answer.clone();
            let server = Server::new(move |mut stream, _| {
                stream.set_nodelay(true).unwrap();
                read_head(&mut stream);
                for piece in sent.chunks(size) {
                    stream.write_all(piece).unwrap();
                }
                let _ended = stream.shutdown(std::net::Shutdown::Write);
                let _closed = stream.read(&mut [0]);
            });
            let target = on("app.localhost", &server);
            let proxy = Proxy::start(&[&target], &[]);
            let rest =
                format!("HTTP/1.1\r\nHost: {target}\r\nTE: trailers\r\nContent-Length: 0\r\n\r\n");
            let ask = |mut stream: TcpStream, url: &str| {
                write!(stream, "{method} {url} {rest}").unwrap();
                read_answer(stream, method)
            };
            let server_at = ([127, 0, 0, 1], server.port).into();
            let direct = ask(connect(server_at), "/");
            let forwarded = ask(proxy.connect(), &format!("http://{target}/"));
            assert_eq!(forwarded, direct, "{}", String::from_utf8_lossy(&answer));
            let tunnelled = ask(proxy.tunnel(&target).0, "/");
            assert_eq!(tunnelled, direct, "{}", String::from_utf8_lossy(&answer));
        }
    }
}

/// Bytes of the long stream: a GiB, or `SRT_TEST_STREAM`.
#[allow(
    clippy::disallowed_methods,
    reason = "says how long a test takes, not what is done"
)]
fn stream_bytes() -> usize {
    let setting = std::env::var("SRT_TEST_STREAM").ok();
    setting
        .and_then(|text| text.parse().ok())
        .unwrap_or(1 << 30)
}

const BLOCK: usize = 1 << 16;

fn block() -> Vec<u8> {
    (0..BLOCK)
        .map(|n| (n * 31 + n / 256).to_le_bytes()[0])
        .collect()
}

fn kib_of(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn a_long_stream_is_byte_exact_and_takes_no_memory() {
    let own = std::env::current_exe().unwrap();
    let name = "differential::in_a_process_of_its_own";
    let words = ["--exact", name, "--ignored", "--nocapture"];
    let ran = Command::new(own).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "the test above runs it in a process of its own"]
fn in_a_process_of_its_own() {
    let blocks = stream_bytes() / BLOCK;
    let server = Server::new(move |mut stream, _| {
        read_head(&mut stream);
        let length = blocks * BLOCK;
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"
        )
        .unwrap();
        let block = block();
        (0..blocks).for_each(|_| stream.write_all(&block).unwrap());
        let _closed = stream.read(&mut [0]);
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let expected = block();
    let mut got = vec![0; BLOCK];
    let mut read = |mut stream: TcpStream, url: &str| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {url} HTTP/1.1\r\nHost: {target}\r\n\r\n").unwrap();
        read_head(&mut stream);
        for number in 0..blocks {
            stream.read_exact(&mut got).unwrap();
            assert!(got == expected, "block {number}");
        }
    };
    let before = kib_of("VmRSS:");
    read(proxy.connect(), &format!("http://{target}/"));
    read(proxy.tunnel(&target).0, "/");
    let grown = kib_of("VmHWM:").saturating_sub(before);
    assert!(
        grown < 16 * 1024,
        "{grown} KiB for {} bytes",
        blocks * BLOCK
    );
}
