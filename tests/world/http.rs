//! The HTTP of the servers: what a path asks for is in the path.
//!
//! `/204`, `/headers` (those of the request), `/redirect=URL`, `/slow=SECONDS`, `/events` (three,
//! half a second apart), `/big=BYTES`; everything else is answered `reached`. A body is counted.

use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Reads up to the first empty line, or what there is before the end.
pub(super) fn read_head(reader: &mut impl BufRead) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match reader.read_until(b'\n', &mut head) {
            Ok(1..) if head.len() < LONGEST => {}
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Finds a header by its name in lower case.
pub(super) fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut headers = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = headers.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
    Some(value.trim())
}

/// Answers a request; an error ends the connection.
pub(super) fn answer(
    head: &str,
    reader: &mut impl BufRead,
    client: &mut TcpStream,
) -> io::Result<()> {
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or("/"));
    let (path, argument) = path.split_once('=').unwrap_or((path, ""));
    let number = argument.parse::<usize>().unwrap_or(0);
    if let Some(key) = header(head, "sec-websocket-key") {
        return super::websocket::echo(key, reader, client);
    }
    if header(head, "expect").is_some() {
        client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    if let Some(count) = body(head, reader)? {
        return whole(client, method, &format!("got {count}\n"));
    }
    match path {
        "/204" => client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n"),
        "/headers" => whole(client, method, head),
        "/redirect" => write!(
            client,
            "HTTP/1.1 302 Found\r\nLocation: {argument}\r\nContent-Length: 0\r\n\r\n"
        ),
        "/slow" => {
            std::thread::sleep(Duration::from_secs(number as u64));
            whole(client, method, "slow\n")
        }
        "/events" => events(client),
        "/big" => {
            write!(
                client,
                "HTTP/1.1 200 OK\r\nContent-Length: {argument}\r\n\r\n"
            )?;
            io::copy(&mut io::repeat(0).take(number as u64), client).map(drop)
        }
        _ => whole(client, method, "reached\n"),
    }
}

/// Reads the body to its end and returns its length, if the request has one.
fn body(head: &str, reader: &mut impl BufRead) -> io::Result<Option<u64>> {
    if header(head, "transfer-encoding") == Some("chunked") {
        let mut total = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            total += io::copy(&mut reader.by_ref().take(size), &mut io::sink())?;
            reader.read_line(&mut line)?;
            if size == 0 {
                return Ok(Some(total));
            }
        }
    }
    let length = header(head, "content-length").and_then(|length| length.parse().ok());
    let Some(length) = length else {
        return Ok(None);
    };
    io::copy(&mut reader.take(length), &mut io::sink()).map(Some)
}

fn whole(client: &mut TcpStream, method: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let body = if method == "HEAD" { "" } else { body };
    write!(
        client,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn events(client: &mut TcpStream) -> io::Result<()> {
    let head = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked";
    write!(client, "HTTP/1.1 200 OK\r\n{head}\r\n\r\n")?;
    for number in 0..3 {
        write!(client, "9\r\ndata: {number}\n\n\r\n")?;
        client.flush()?;
        std::thread::sleep(Duration::from_millis(500));
    }
    client.write_all(b"0\r\n\r\n")
}

const LONGEST: usize = 1 << 20;
