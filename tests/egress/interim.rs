//! Interim answers (1xx): before the final one, as the server sends them, and no more of them than
//! a head has room for.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};

use crate::fixture::{
    PATIENCE, Proxy, Server, connect, on, read_answer, read_head, read_to_end, status,
};

const HINTS: &str =
    "HTTP/1.1 103 Early Hints\r\nLink: </a.css>;  rel=preload\r\nlink:</b>\r\nX-Empty:\r\n\r\n";
const FINAL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK";

/// A server that sends `interim` before each final answer.
fn server_of(interim: String) -> Server {
    Server::new(move |mut stream, seen| {
        loop {
            let head = read_head(&mut stream);
            if head.is_empty() {
                return;
            }
            seen.lock().unwrap().push(head);
            // Whoever is flooded may be gone.
            let sent = stream.write_all(format!("{interim}{FINAL}").as_bytes());
            if sent.is_err() {
                return;
            }
        }
    })
}

fn get(target: &str) -> String {
    format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n")
}

fn ask(mut stream: TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    read_to_end(&mut stream)
}

/// Splits what was read at the final answer.
fn before_final(answer: &str) -> (&str, &str) {
    answer.split_at(answer.find("HTTP/1.1 200").expect(answer))
}

#[test]
fn every_interim_answer_passes_byte_for_byte() {
    for interim in [
        HINTS,
        "HTTP/1.1 102 Processing\r\n\r\n",
        "HTTP/1.1 110\r\n\r\n",
        "HTTP/1.1 199 Fine by me\r\nX-OBS: \u{e4}\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    ] {
        let interim = [interim, HINTS, interim].concat();
        let server = server_of(interim.clone());
        let target = on("app.localhost", &server);
        let proxy = Proxy::start(&[&target], &[]);
        let direct = ask(connect(([127, 0, 0, 1], server.port).into()), &get(&target));
        assert_eq!(direct, format!("{interim}{FINAL}"));
        let forwarded = ask(proxy.connect(), &get(&target));
        let (before, after) = before_final(&forwarded);
        assert_eq!(before, interim);
        assert!(after.ends_with("\r\n\r\nOK"), "{after}");
    }
}

#[test]
fn a_hint_arrives_while_the_server_still_works() {
    let (tell, told) = channel();
    let told: Mutex<Receiver<()>> = Mutex::new(told);
    let server = Server::new(move |mut stream, _| {
        read_head(&mut stream);
        for byte in HINTS.as_bytes() {
            stream.write_all(&[*byte]).unwrap();
        }
        told.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        stream.write_all(FINAL.as_bytes()).unwrap();
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let mut stream = proxy.connect();
    stream.write_all(get(&target).as_bytes()).unwrap();
    assert_eq!(read_head(&mut stream), HINTS);
    tell.send(()).unwrap();
    assert_eq!(read_answer(&mut stream).1, "OK");
}

#[test]
fn pipelined_requests_get_their_own_each_before_its_answer() {
    let server = Server::new(|mut stream, _| {
        for number in 1.. {
            let head = read_head(&mut stream);
            if head.is_empty() {
                return;
            }
            let body = format!("{number}").repeat(300_000);
            let hint = format!("HTTP/1.1 103 x\r\nN: {number}\r\n\r\n");
            let length = body.len();
            let answer = format!("{hint}HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let mut stream = proxy.connect();
    stream.write_all(get(&target).repeat(3).as_bytes()).unwrap();
    // The answers fill every buffer on the way before the first is read.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut seen = Vec::new();
    for _ in 0..3 {
        let hint = read_head(&mut stream);
        let (head, body) = read_answer(&mut stream);
        assert_eq!(status(&head), "200", "{head}");
        seen.push((hint, body[..1].to_owned(), body.len()));
    }
    let expected = ["1", "2", "3"].map(|number| {
        let hint = format!("HTTP/1.1 103 x\r\nN: {number}\r\n\r\n");
        (hint, number.to_owned(), 300_000)
    });
    assert_eq!(seen, expected);
    assert_eq!(server.connections(), 1, "a kept connection passes them too");
}

#[test]
fn a_client_of_http_1_0_gets_none() {
    let server = server_of(HINTS.to_owned());
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let newer = ask(proxy.connect(), &get(&target));
    assert!(newer.starts_with(HINTS), "{newer}");
    let older = ask(
        proxy.connect(),
        &get(&target).replace("HTTP/1.1", "HTTP/1.0"),
    );
    assert!(!older.contains("103"), "{older}");
    assert_eq!(status(&older), "200");
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn a_client_that_expects_it_is_told_once_to_go_on() {
    let server = Server::new(|mut stream, seen| {
        let head = read_head(&mut stream);
        let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        stream
            .write_all(format!("{go_on}{HINTS}").as_bytes())
            .unwrap();
        let mut body = [0; 5];
        stream.read_exact(&mut body).unwrap();
        let body = String::from_utf8_lossy(&body).into_owned();
        seen.lock().unwrap().extend([head, body]);
        stream.write_all(FINAL.as_bytes()).unwrap();
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let mut stream = proxy.connect();
    let head = get(&target).replace("GET", "POST");
    let head = head.trim_end();
    write!(
        stream,
        "{head}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    )
    .unwrap();
    assert_eq!(read_head(&mut stream), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").unwrap();
    assert_eq!(read_head(&mut stream), HINTS);
    assert_eq!(read_answer(&mut stream).1, "OK");
    let seen = server.seen();
    assert!(
        seen[0].to_lowercase().contains("expect: 100-continue"),
        "{seen:?}"
    );
    assert_eq!(seen[1], "hello");
}

#[test]
fn a_flood_ends_in_502_and_a_head_full_passes() {
    let one = "HTTP/1.1 102 Processing\r\n\r\n";
    let most = (64 << 10) / one.len();
    let server = server_of(one.repeat(most));
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let whole = ask(proxy.connect(), &get(&target));
    assert_eq!(before_final(&whole).0, one.repeat(most));

    let ended = Arc::new(Barrier::new(2));
    let tell = Arc::clone(&ended);
    let server = Server::new(move |mut stream, _| {
        read_head(&mut stream);
        while stream.write_all(one.as_bytes()).is_ok() {}
        tell.wait();
    });
    let target = on("app.localhost", &server);
    let proxy = Proxy::start(&[&target], &[]);
    let flooded = ask(proxy.connect(), &get(&target));
    let (interim, answer) = flooded.split_at(flooded.find("HTTP/1.1 502").expect("it is refused"));
    assert!(interim.len() <= 64 << 10, "{}", interim.len());
    assert!(
        answer.contains("more than 64 KiB of interim answers"),
        "{answer}"
    );
    ended.wait();
}

#[test]
fn a_server_that_dies_or_errs_behind_a_hint_gives_502() {
    for (rest, what) in [
        ("", "ended before an answer"),
        ("HTTP/1.1 103 x\r\nA: b", "ended before an answer"),
        ("HTTP/1.1 103 x\r\nA b\r\n\r\n", "malformed interim answer"),
        ("HTTP/1.1 103 x\nA: b\n\n", "malformed interim answer"),
    ] {
        let server = Server::new(move |mut stream, _| {
            read_head(&mut stream);
            let text = format!("{HINTS}{rest}");
            stream.write_all(text.as_bytes()).unwrap();
        });
        let target = on("app.localhost", &server);
        let proxy = Proxy::start(&[&target], &[]);
        let answer = ask(proxy.connect(), &get(&target));
        let (interim, answer) = answer.split_at(answer.find("HTTP/1.1 502").expect(&answer));
        assert_eq!(interim, HINTS);
        assert!(answer.contains(what), "{answer}");
    }
}
