//! The first bytes of a client. A CONNECT that came whole is read here, since it is all that most
//! clients say to a proxy; everything else is for hyper to read, and to answer.

use std::mem::MaybeUninit;

use bytes::Bytes;
use httparse::{Request, Status};
use hyper::http::uri::Uri;

use super::super::framing::{Follower, Found, Verdict};
use super::request::{Asked, connect_target};

/// Returns where a CONNECT wants to go and what came behind its head; `None` where there is more
/// or less to be read than that, or anything to be refused.
pub(super) fn connect(first: &Bytes) -> Option<(Asked, Bytes)> {
    if !first.starts_with(b"CONNECT ") {
        return None;
    }
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(first, &mut headers);
    let Ok(Status::Complete(end)) = parsed else {
        return None;
    };
    let mut found = Vec::new();
    Follower::new().follow(&first[..end], |one| found.push(one));
    if found != [Found::Head(Verdict::Sound)] || request.version != Some(1) {
        return None;
    }
    let uri = Uri::try_from(request.path?).ok()?;
    let headers = request.headers.iter();
    let hosts = headers.filter(|header| header.name.eq_ignore_ascii_case("host"));
    let asked = connect_target(&uri, hosts.map(|header| header.value)).ok()?;
    Some((asked, first.slice(end..)))
}

/// Clients send a handful.
const MAX_HEADERS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::hostname::Target;

    fn read(text: &str) -> Option<(Asked, Bytes)> {
        connect(&Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn a_whole_connect_is_read_with_what_comes_behind_it() {
        let head = "CONNECT A.test.:443 HTTP/1.1\r\nhost: a.test\r\nX: y\r\n\r\n";
        let (asked, behind) = read(&format!("{head}\x16\x03")).expect("it is whole");
        let target = Target::parse("a.test:443", None).expect("it is one");
        assert_eq!(
            (&asked.target, &asked.host),
            (&target, &Some(target.clone()))
        );
        assert_eq!(behind.as_ref(), b"\x16\x03");
        for length in 0..head.len() {
            assert!(read(&head[..length]).is_none(), "{:?}", &head[..length]);
        }
    }

    #[test]
    fn what_is_to_be_refused_is_left_to_who_answers() {
        for text in [
            "GET http://a.test/ HTTP/1.1\r\n\r\n",
            "connect a.test:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.0\r\n\r\n",
            "CONNECT a.test HTTP/1.1\r\n\r\n",
            "CONNECT x@a.test:443 HTTP/1.1\r\n\r\n",
            "CONNECT http://a.test:443 HTTP/1.1\r\n\r\n",
            "CONNECT /a.test:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.test:443/ HTTP/1.1\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\n\n",
            "CONNECT \u{e4}.test:443 HTTP/1.1\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nHost: \u{e4}.test\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 1\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "CONNECT a.test:443 HTTP/1.1\r\nX: a\r\n folded\r\n\r\n",
        ] {
            assert!(read(text).is_none(), "{text:?}");
        }
    }
}
