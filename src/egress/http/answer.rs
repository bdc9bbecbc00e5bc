//! The answers of our own: refusals and failures, as text that cannot break out of its place.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::super::framing::Fault;
use super::super::record::Op;
use super::super::refusal::{Cause, Refusal};
use super::Body;
use crate::audit::event::Code;
use crate::policy::hostname::Malformed;

/// Why a request is not passed on.
#[derive(Debug)]
pub(super) enum Problem {
    /// It was judged, or tried, and that is recorded.
    Refused(Refusal),
    /// It is not one that can be judged.
    Unjudged {
        status: StatusCode,
        code: Code,
        reason: &'static str,
    },
}

/// What tells our answers from those of a server.
pub(super) const PROXY_ERROR: HeaderName = HeaderName::from_static("x-proxy-error");

/// Sent without ceremony where there is no room for another connection.
pub(in crate::egress) const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    Content-Type: text/plain\r\nX-Proxy-Error: too-many-connections\r\n\
    Connection: close\r\nContent-Length: 45\r\n\r\n\
    srt: too many connections are open, try again";

impl Problem {
    pub(super) fn malformed(reason: &'static str) -> Self {
        Self::Unjudged {
            status: StatusCode::BAD_REQUEST,
            code: Code::RequestMalformed,
            reason,
        }
    }

    pub(super) fn unsupported(status: StatusCode, reason: &'static str) -> Self {
        Self::Unjudged {
            status,
            code: Code::CommandUnsupported,
            reason,
        }
    }

    pub(super) fn into_response(self, op: Op) -> Response<Body> {
        let (status, proxy_error, text) = match &self {
            Self::Refused(Refusal::Denied(denial)) => (
                match denial.code {
                    Code::HostMismatch => StatusCode::MISDIRECTED_REQUEST,
                    _ => StatusCode::FORBIDDEN,
                },
                denial.proxy_error,
                denial.message().to_owned(),
            ),
            Self::Refused(Refusal::Failed(failure)) => {
                let status = match failure.cause {
                    Cause::TimedOut => StatusCode::GATEWAY_TIMEOUT,
                    _ => StatusCode::BAD_GATEWAY,
                };
                (status, "upstream-failed", failure.to_string())
            }
            Self::Unjudged {
                status,
                code: Code::CommandUnsupported,
                reason,
            } => (*status, "unsupported-request", (*reason).to_owned()),
            Self::Unjudged { status, reason, .. } => {
                (*status, "malformed-request", (*reason).to_owned())
            }
        };
        let text = printable(&text);
        let mut response = Response::new(Either::Right(Full::new(Bytes::from(format!(
            "srt: {text}\n"
        )))));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        headers.insert(PROXY_ERROR, HeaderValue::from_static(proxy_error));
        // Behind a request that is not understood, nothing is; and the bytes behind a refused
        // CONNECT are not for us.
        if op == Op::Connect || matches!(self, Self::Unjudged { .. }) {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // Clients show the phrase of a refused CONNECT and drop its body.
        if op == Op::Connect
            && let Ok(phrase) = ReasonPhrase::try_from(text)
        {
            response.extensions_mut().insert(phrase);
        }
        response
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Malformed(reason) => Self::malformed(reason),
            Fault::TooLarge => Self::Unjudged {
                status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                code: Code::RequestMalformed,
                reason: "the head is longer than 64 KiB",
            },
        }
    }
}

impl From<Malformed> for Problem {
    fn from(Malformed(reason): Malformed) -> Self {
        Self::malformed(reason)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// A status line is one line of ASCII, and a resolver's words may be anything.
fn printable(text: &str) -> String {
    let plain = |c: char| if matches!(c, ' '..='~') { c } else { '?' };
    text.chars().take(MAX_TEXT).map(plain).collect()
}

const MAX_TEXT: usize = 800;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_of_a_full_proxy_states_its_length() {
        let text = std::str::from_utf8(BUSY).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("Content-Length: {}", body.len())),
            "{}",
            body.len()
        );
    }

    #[test]
    fn text_in_an_answer_stays_on_its_line_and_short() {
        assert_eq!(printable("a\r\nX: y\u{202e}\u{1b}[1m"), "a??X: y??[1m");
        assert_eq!(printable(&"a".repeat(60_000)).len(), MAX_TEXT);
    }
}
