//! What the client is told: the server's answer, or why there is none.

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::super::dial::Failure;
use super::request::{Refusal, remove_hop_by_hop};
use crate::policy::network::Denial;

/// A body of the server's, passed on as it comes, or one of ours.
pub(super) type Body = BoxBody<Bytes, hyper::Error>;

const PROXY_ERROR: HeaderName = HeaderName::from_static("x-proxy-error");

/// Longest reason phrase; longer ones are cut, since clients print them on one line.
const MAX_PHRASE: usize = 400;

pub(super) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

pub(super) fn upgrade() -> HeaderValue {
    HeaderValue::from_static("upgrade")
}

/// A 403 that says who refused, by which rule, and what would allow it. The reason is in the
/// status line as well: of a refused CONNECT, clients show nothing else.
pub(super) fn denied(denial: &Denial) -> Response<Body> {
    let mut response = text(StatusCode::FORBIDDEN, denial.message());
    response
        .headers_mut()
        .insert(PROXY_ERROR, HeaderValue::from_static(denial.proxy_error));
    phrase(&mut response, denial.message());
    response
}

/// The connection is closed: what follows an ambiguous head cannot be read for certain.
pub(super) fn refused(refusal: &Refusal) -> Response<Body> {
    let mut response = text(refusal.status, refusal.reason);
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

pub(super) fn failed(failure: &Failure) -> Response<Body> {
    let (status, code) = match failure {
        Failure::Denied(denial) => return denied(denial),
        Failure::TimedOut => (StatusCode::GATEWAY_TIMEOUT, "upstream-timeout"),
        Failure::Unresolved(_) => (StatusCode::BAD_GATEWAY, "name-not-resolved"),
        Failure::Unreachable(_) => (StatusCode::BAD_GATEWAY, "upstream-unreachable"),
    };
    let reason = failure.to_string();
    let mut response = text(status, &reason);
    response
        .headers_mut()
        .insert(PROXY_ERROR, HeaderValue::from_static(code));
    phrase(&mut response, &reason);
    response
}

pub(super) fn bad_gateway(reason: &str) -> Response<Body> {
    text(StatusCode::BAD_GATEWAY, reason)
}

/// The server's answer, without what concerned the connection to it.
pub(super) fn forwarded(response: Response<Incoming>) -> Response<Body> {
    let mut response = response.map(BodyExt::boxed);
    *response.version_mut() = super::VERSION;
    remove_hop_by_hop(response.headers_mut());
    response
}

fn text(status: StatusCode, line: &str) -> Response<Body> {
    let body = Full::from(format!("{line}\n"));
    let mut response = Response::new(body.map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

fn phrase(response: &mut Response<Body>, line: &str) {
    let printable = line
        .chars()
        .map(|char| if matches!(char, ' '..='~') { char } else { '?' });
    let line: String = printable.take(MAX_PHRASE).collect();
    if let Ok(phrase) = ReasonPhrase::try_from(line) {
        response.extensions_mut().insert(phrase);
    }
}
