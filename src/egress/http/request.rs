//! Where a request wants to go, if that can be said in one way only.

use hyper::body::Incoming;
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::{Authority, Uri};
use hyper::{Method, Request, StatusCode};

use super::answer::Problem;
use crate::policy::hostname::Target;

/// Where a request wants to go.
#[derive(Debug)]
pub(super) struct Asked {
    /// By its request line, which decides.
    pub(super) target: Target,
    /// By its `Host`, if it has one.
    pub(super) host: Option<Target>,
}

/// Returns the target of CONNECT, by its request line and the values of its `Host` headers.
pub(super) fn connect_target<'h>(
    uri: &Uri,
    hosts: impl Iterator<Item = &'h [u8]>,
) -> Result<Asked, Problem> {
    let target = match (uri.authority(), uri.scheme()) {
        (Some(authority), None) => Target::parse(authority.as_str(), None)?,
        _ => return Err(Problem::malformed("CONNECT takes host:port")),
    };
    let host = host(hosts, target.port)?;
    Ok(Asked { target, host })
}

/// Returns the target of any other method.
pub(super) fn plain_target(request: &Request<Incoming>) -> Result<Asked, Problem> {
    if [Method::TRACE.as_str(), "TRACK"].contains(&request.method().as_str()) {
        let reason = "TRACE would send headers back that pages must not see";
        return Err(Problem::unsupported(StatusCode::METHOD_NOT_ALLOWED, reason));
    }
    let uri = request.uri();
    let authority = uri.authority().map(Authority::as_str);
    let target = match (uri.scheme_str(), authority) {
        (Some("http"), Some(authority)) => Target::parse(authority, Some(80))?,
        (Some("https"), _) => {
            let reason = "an https URL needs CONNECT; sent like this it would travel in the clear";
            return Err(Problem::malformed(reason));
        }
        (Some(_), _) => {
            let reason = "the proxy speaks http only; other protocols need CONNECT or SOCKS5";
            return Err(Problem::unsupported(StatusCode::NOT_IMPLEMENTED, reason));
        }
        (None, _) => {
            let reason = "this is a proxy: it takes absolute URLs and CONNECT";
            return Err(Problem::malformed(reason));
        }
    };
    let host = host(hosts(request), 80)?;
    Ok(Asked { target, host })
}

/// Returns the values of the `Host` headers.
pub(super) fn hosts(request: &Request<Incoming>) -> impl Iterator<Item = &[u8]> {
    let values = request.headers().get_all(HOST).into_iter();
    values.map(HeaderValue::as_bytes)
}

/// Reads the `Host` header, by which servers choose.
fn host<'h>(
    mut values: impl Iterator<Item = &'h [u8]>,
    default_port: u16,
) -> Result<Option<Target>, Problem> {
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Problem::malformed("there is more than one Host header"));
    }
    let text = str::from_utf8(value).ok().filter(|text| text.is_ascii());
    let text = text.ok_or(Problem::malformed("the Host header is not ASCII"))?;
    Ok(Some(Target::parse(text, Some(default_port))?))
}
