//! Headers that are about one connection, and must not pass from one to the next.

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::answer::PROXY_ERROR;

/// Removes what concerns the connection only, named there or by RFC 9110, 7.6.1, and whatever
/// is meant for a proxy: credentials for us are none of the server's business.
pub(super) fn strip(headers: &mut HeaderMap) {
    let mut named: Vec<HeaderName> = Vec::new();
    for value in headers.get_all(header::CONNECTION) {
        let names = value.as_bytes().split(|byte| *byte == b',');
        named.extend(names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()));
    }
    // Naming one of these there would rewrite the message instead of the connection.
    named.retain(|name| *name != header::HOST && *name != header::CONTENT_LENGTH);
    let proxy = |name: &&HeaderName| name.as_str().starts_with("proxy-");
    named.extend(headers.keys().filter(proxy).cloned());
    named.extend(HOP_BY_HOP);
    for name in named {
        headers.remove(name);
    }
}

/// Takes the upgrade out of the headers, if it is to WebSocket. Others are dropped: HTTP/2
/// (`h2c`) would carry requests that nobody judges.
pub(super) fn is_websocket(headers: &HeaderMap) -> bool {
    let has = |name, token: &str| {
        let mut values = headers.get_all(name).iter();
        values.any(|value: &HeaderValue| {
            let mut tokens = value.as_bytes().split(|byte| *byte == b',');
            tokens.any(|found| found.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
        })
    };
    let only = headers.get_all(header::UPGRADE).iter().count() == 1;
    let websocket = headers
        .get(header::UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    only && websocket && has(header::CONNECTION, "upgrade")
}

/// Asks for, or agrees to, the upgrade to WebSocket.
pub(super) fn insert_websocket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

const HOP_BY_HOP: [HeaderName; 6] = [
    header::CONNECTION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    // A server that sets it would pass its own refusal off as ours.
    PROXY_ERROR,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = lines.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        });
        pairs.collect()
    }

    #[test]
    fn what_concerns_one_connection_is_removed_and_the_rest_stays() {
        let mut all = headers(&[
            ("connection", "close, X-Private , host, content-length"),
            ("x-private", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic c2VjcmV0"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("x-proxy-error", "blocked-by-allowlist"),
            ("host", "a.test"),
            ("content-length", "5"),
            ("accept", "*/*"),
        ]);
        strip(&mut all);
        let kept = headers(&[
            ("host", "a.test"),
            ("content-length", "5"),
            ("accept", "*/*"),
        ]);
        assert_eq!(all, kept);
    }

    #[test]
    fn only_websocket_is_an_upgrade() {
        let upgrade = |to| headers(&[("connection", "keep-alive, Upgrade"), ("upgrade", to)]);
        assert!(is_websocket(&upgrade("websocket")));
        assert!(is_websocket(&upgrade("WebSocket")));
        for other in ["h2c", "websocket, h2c", "TLS/1.0", ""] {
            assert!(!is_websocket(&upgrade(other)), "{other}");
        }
        assert!(!is_websocket(&headers(&[("upgrade", "websocket")])));
    }
}
