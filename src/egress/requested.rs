//! Reads the host out of a plain HTTP request at the start of a tunnel, where there is one.

use httparse::{EMPTY_HEADER, Request, Status};

use super::framing::MAX_HEAD;
use crate::policy::hostname::Target;
use crate::policy::network::Hello;

/// Most headers that are read; as for requests to the proxy itself.
const MAX_HEADERS: usize = 512;

/// What a request target begins with.
const TARGETS: [&[u8]; 3] = [b"/", b"*", b"http"];

/// Longest method, with the space behind it: beyond, it is another protocol.
const MAX_METHOD: usize = 24;

/// Tells what the first bytes of a client ask for; `None` while more are needed to tell.
///
/// A request without `Host` (HTTP/1.0) names nobody, as a protocol does that is not HTTP.
pub(super) fn read(bytes: &[u8]) -> Option<Hello> {
    match begins_request(bytes) {
        Some(true) => {}
        Some(false) => return Some(Hello::Other),
        None => return None,
    }
    let mut headers = [EMPTY_HEADER; MAX_HEADERS];
    let mut request = Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Partial) if bytes.len() <= MAX_HEAD => None,
        Ok(Status::Partial) => Some(Hello::Unclear("is a request with a head over 64 KiB")),
        Err(_) => Some(Hello::Unclear("is a request that cannot be parsed")),
        Ok(Status::Complete(_)) => Some(host_of(&request)),
    }
}

/// Tells whether a method stands there, and a path or URL behind it.
fn begins_request(bytes: &[u8]) -> Option<bool> {
    let start = &bytes[..bytes.len().min(MAX_METHOD)];
    match start.iter().position(|byte| !byte.is_ascii_uppercase()) {
        None if start.len() < MAX_METHOD => None,
        Some(1..) if start.ends_with(b" ") => None,
        Some(at @ 1..) if start[at] == b' ' => {
            let rest = &bytes[at + 1..];
            let mut targets = TARGETS.iter();
            match targets.any(|target| rest.starts_with(target)) {
                true => Some(true),
                false if TARGETS.iter().any(|target| target.starts_with(rest)) => None,
                false => Some(false),
            }
        }
        _ => Some(false),
    }
}

fn host_of(request: &Request<'_, '_>) -> Hello {
    let headers = request.headers.iter();
    let mut hosts = headers.filter(|header| header.name.eq_ignore_ascii_case("host"));
    let host = match (hosts.next(), hosts.next()) {
        (None, _) => return Hello::Other,
        (Some(host), None) => host.value,
        (Some(_), Some(_)) => return Hello::Unclear("is a request with more than one Host header"),
    };
    let text = std::str::from_utf8(host).unwrap_or_default().trim();
    match Target::parse(text, Some(80)) {
        Ok(target) => Hello::Requested(target.host),
        Err(_) => Hello::Unclear("is a request whose Host header is no host"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::hostname::Host;

    fn requested(text: &str) -> Option<Hello> {
        let host = Host::parse("app.test").unwrap();
        let read = read(text.as_bytes());
        match read {
            Some(Hello::Requested(found)) => {
                assert_eq!(found, host, "{text}");
                Some(Hello::Requested(found))
            }
            other => other,
        }
    }

    #[test]
    fn a_request_names_its_host_and_other_protocols_none() {
        for text in [
            "GET / HTTP/1.1\r\nHost: app.test\r\n\r\n",
            "POST /x HTTP/1.1\r\nA: b\r\nhost:APP.test.:8080 \r\nC: d\r\n\r\nbody",
            "OPTIONS * HTTP/1.1\nHost: app.test\n\n",
        ] {
            assert!(
                matches!(requested(text), Some(Hello::Requested(_))),
                "{text}"
            );
            for len in 1..text.trim_end_matches("body").trim_end().len() {
                assert_eq!(requested(&text[..len]), None, "{:?}", &text[..len]);
            }
        }
        for text in [
            "SSH-2.0-x\r\n",
            "PING\r\n",
            "EHLO app.test\r\n",
            "NICK host\r\n",
            "\0\0\0\x08",
            "get x\r\n",
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "GET / HTTP/1.0\r\n\r\n",
        ] {
            assert_eq!(requested(text), Some(Hello::Other), "{text}");
        }
        for text in [
            "GET / HTTP/1.1\r\nHost: app.test\r\nHost: evil.test\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\r\n\r\n",
            "GET / HTTP/9\r\n\r\n",
        ] {
            assert!(matches!(requested(text), Some(Hello::Unclear(_))), "{text}");
        }
        let long = format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(MAX_HEAD));
        assert!(matches!(requested(&long), Some(Hello::Unclear(_))));
    }
}
