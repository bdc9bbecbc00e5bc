//! What a request asks for, judged before anything of it is passed on.

use hyper::body::Incoming;
use hyper::header::{
    CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, Request, StatusCode, Uri, Version};

use super::super::framing::{Fault, Verdict};
use crate::policy::hostname::{Malformed, Target};

/// Why a request is answered by the proxy itself.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: &'static str,
}

impl Refusal {
    pub(super) fn bad_request(reason: &'static str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            reason,
        }
    }
}

impl From<Malformed> for Refusal {
    fn from(Malformed(reason): Malformed) -> Self {
        Self::bad_request(reason)
    }
}

/// Returns where the request is to go, if it can be read in one way only.
pub(super) fn target(request: &Request<Incoming>, verdict: Verdict) -> Result<Target, Refusal> {
    match verdict {
        Verdict::Sound => {}
        Verdict::Refused(Fault::Malformed(reason)) => return Err(Refusal::bad_request(reason)),
        Verdict::Refused(Fault::TooLarge) => {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            return Err(Refusal {
                status,
                reason: "the head is larger than 64 KiB",
            });
        }
    }
    match *request.method() {
        Method::CONNECT => connect_target(request),
        Method::TRACE => {
            let status = StatusCode::METHOD_NOT_ALLOWED;
            Err(Refusal {
                status,
                reason: "TRACE does not pass the proxy",
            })
        }
        _ => absolute_target(request),
    }
}

fn connect_target(request: &Request<Incoming>) -> Result<Target, Refusal> {
    let authority = request.uri().authority();
    let authority = authority.ok_or(Refusal::bad_request("CONNECT needs host:port"))?;
    let target = Target::parse(authority.as_str(), None)?;
    // Clients leave the port out of Host, or repeat it.
    match host_header(request, target.port)? {
        Some(host) if host != target => Err(Refusal::bad_request(
            "the Host header names another host than CONNECT",
        )),
        _ => Ok(target),
    }
}

fn absolute_target(request: &Request<Incoming>) -> Result<Target, Refusal> {
    let uri = request.uri();
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            let reason = "an https URL is asked for with CONNECT, not in clear text";
            return Err(Refusal::bad_request(reason));
        }
        Some(_) => {
            let status = StatusCode::NOT_IMPLEMENTED;
            return Err(Refusal {
                status,
                reason: "only http URLs and CONNECT pass the proxy",
            });
        }
        None => {
            let reason = "this is a proxy: the request target must be an absolute URL";
            return Err(Refusal::bad_request(reason));
        }
    }
    let authority = uri
        .authority()
        .ok_or(Refusal::bad_request("the URL has no host"))?;
    let target = Target::parse(authority.as_str(), Some(80))?;
    match host_header(request, 80)? {
        Some(host) if host != target => Err(Refusal::bad_request(
            "the Host header names another host than the URL",
        )),
        // RFC 9112, 3.2.
        None if request.version() == Version::HTTP_11 => {
            Err(Refusal::bad_request("the Host header is missing"))
        }
        _ => Ok(target),
    }
}

fn host_header(request: &Request<Incoming>, port: u16) -> Result<Option<Target>, Refusal> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let Some(host) = hosts.next() else {
        return Ok(None);
    };
    if hosts.next().is_some() {
        return Err(Refusal::bad_request("there is more than one Host header"));
    }
    let text = host
        .to_str()
        .map_err(|_| Refusal::bad_request("the Host header is not ASCII"))?;
    Ok(Some(Target::parse(text, Some(port))?))
}

/// Tells whether the request asks to become a WebSocket; no other upgrade passes (h2c would
/// carry requests that are not judged).
pub(super) fn wants_websocket(request: &Request<Incoming>) -> bool {
    let mut upgrades = request.headers().get_all(UPGRADE).iter();
    let named = upgrades
        .next()
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let listed = listed_in_connection(request.headers()).any(|name| name == UPGRADE);
    named && listed && upgrades.next().is_none() && request.method() == Method::GET
}

/// Rewrites the request for the server: origin form, its own Host, no field of this hop.
pub(super) fn outgoing(
    mut request: Request<Incoming>,
    target: &Target,
    websocket: bool,
) -> Result<Request<Incoming>, Refusal> {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    // `http://host?query` has no path; RFC 9112, 3.2.1 wants one.
    let path = if path.starts_with('/') || path == "*" {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    let uri = path.parse::<Uri>();
    *request.uri_mut() = uri.map_err(|_| Refusal::bad_request("the path is malformed"))?;
    *request.version_mut() = super::VERSION;
    remove_hop_by_hop(request.headers_mut());
    // hyper answers this one itself when the body is read.
    request.headers_mut().remove(EXPECT);
    if websocket {
        request
            .headers_mut()
            .insert(UPGRADE, HeaderValue::from_static("websocket"));
        request
            .headers_mut()
            .insert(CONNECTION, super::answer::upgrade());
    }
    let authority = match target.port {
        80 => target.host.to_string(),
        _ => target.to_string(),
    };
    let host = HeaderValue::from_str(&authority);
    let host = host.map_err(|_| Refusal::bad_request("the host is malformed"))?;
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

/// Removes what concerns this connection alone; RFC 9110, 7.6.1.
pub(super) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = listed_in_connection(headers).collect();
    for name in named {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        HeaderName::from_static("http2-settings"),
    ] {
        headers.remove(name);
    }
}

fn listed_in_connection(headers: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    let values = headers.get_all(CONNECTION).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
}
