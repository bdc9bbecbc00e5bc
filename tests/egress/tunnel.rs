use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::mpsc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fixture::{Proxy, Server, on, read_to_end, status};

/// Each test connection takes four descriptors of this one process.
pub(crate) fn raise_descriptor_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
}

fn echo() -> Server {
    Server::new(|mut stream, _| {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            if stream.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
        let _told = stream.shutdown(Shutdown::Write);
    })
}

/// Bytes that tell a lost, doubled or misplaced piece.
fn stream_of(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[test]
fn a_thousand_parallel_connects_carry_every_byte() {
    raise_descriptor_limit();
    let server = echo();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let address = proxy.http;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..1000_u64)
            .map(|seed| {
                let target = target.clone();
                tokio::spawn(async move {
                    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
                    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
                    stream.write_all(head.as_bytes()).await.unwrap();
                    let mut answer = vec![0; "HTTP/1.1 200 OK\r\n\r\n".len()];
                    stream.read_exact(&mut answer).await.unwrap();
                    assert_eq!(answer, b"HTTP/1.1 200 OK\r\n\r\n");
                    let sent = stream_of(seed, 20_000);
                    stream.write_all(&sent).await.unwrap();
                    stream.shutdown().await.unwrap();
                    let mut echoed = Vec::new();
                    stream.read_to_end(&mut echoed).await.unwrap();
                    assert!(echoed == sent, "connection {seed}");
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(server.connections(), 1000);
}

#[test]
fn a_large_transfer_to_a_slow_reader_is_byte_exact() {
    let server = echo();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let (mut stream, head) = proxy.tunnel(&target);
    assert_eq!(status(&head), "200");
    let sent = stream_of(7, 48 << 20);
    let mut writer = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&copy).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    std::thread::sleep(Duration::from_millis(300));
    let mut echoed = Vec::new();
    stream.read_to_end(&mut echoed).unwrap();
    writing.join().unwrap();
    assert!(echoed == sent);
}

#[test]
fn bytes_sent_right_behind_connect_reach_the_server() {
    let server = echo();
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let early = stream_of(3, 30_000);
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes();
    request.extend_from_slice(&early);
    let mut stream = proxy.connect();
    stream.write_all(&request).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n\r\n"));
    assert!(answer.ends_with(&early));
}

#[test]
fn the_end_of_one_way_leaves_the_other_open() {
    let server = Server::new(|mut stream, _| {
        // The server ends first, and still hears the client out.
        stream.write_all(b"hello").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "still here");
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let (mut stream, _) = proxy.tunnel(&target);
    assert_eq!(read_to_end(&mut stream), "hello");
    std::thread::sleep(Duration::from_millis(100));
    stream.write_all(b"still ").unwrap();
    std::thread::sleep(Duration::from_millis(100));
    stream.write_all(b"here").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut stream), "");
}

#[test]
fn a_reset_on_either_side_frees_the_other() {
    let (tell, told) = mpsc::channel();
    let server = Server::new(move |mut stream, _| {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        if byte == *b"r" {
            return reset(&stream);
        }
        tell.send(stream.read(&mut byte).map_err(|error| error.kind()))
            .unwrap();
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let (mut stream, _) = proxy.tunnel(&target);
    stream.write_all(b"r").unwrap();
    let error = stream.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);

    let (mut stream, _) = proxy.tunnel(&target);
    stream.write_all(b"x").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    reset(&stream);
    drop(stream);
    let heard = told.recv_timeout(Duration::from_secs(5)).unwrap();
    assert_eq!(heard, Err(std::io::ErrorKind::ConnectionReset));
}

/// Makes the close of this socket a reset.
fn reset(stream: &std::net::TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

#[test]
fn urgent_data_and_peers_that_never_read_leave_nothing_behind() {
    let server = Server::new(|mut stream, seen| {
        let mut first = [0; 4];
        stream.read_exact(&mut first).unwrap();
        if first == *b"wait" {
            // Never reads on.
            std::thread::sleep(Duration::from_secs(4));
            return;
        }
        let mut heard = String::from_utf8_lossy(&first).into_owned();
        stream.read_to_string(&mut heard).unwrap();
        seen.lock().unwrap().push(heard);
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start_with(&[&target], &[], |settings| {
        settings.limits.idle_seconds = 1;
        settings.limits.connections = 2;
    });
    let (mut stream, _) = proxy.tunnel(&target);
    stream.write_all(b"abcd").unwrap();
    rustix::net::send(&stream, b"!", rustix::net::SendFlags::OOB).unwrap();
    stream.write_all(b"efgh").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&mut stream), "");
    let heard = server.seen().pop().unwrap();
    assert_eq!(heard.replace('!', ""), "abcdefgh");

    let stuck: Vec<_> = (0..2)
        .map(|_| {
            let (mut stream, head) = proxy.tunnel(&target);
            assert_eq!(status(&head), "200");
            stream.write_all(b"wait").unwrap();
            stream.set_nonblocking(true).unwrap();
            while stream.write(&[0; 1 << 16]).is_ok() {}
            stream
        })
        .collect();
    assert_eq!(status(&read_to_end(&mut proxy.connect())), "503");
    std::thread::sleep(Duration::from_millis(2500));
    let (_, head) = proxy.tunnel(&target);
    assert_eq!(status(&head), "200", "the limit of idleSeconds frees them");
    drop(stuck);
}
