//! Where a request wants to go, if that can be said in one way only.

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::http::uri::Authority;
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

/// Returns the target of CONNECT.
pub(super) fn connect_target(request: &Request<Incoming>) -> Result<Asked, Problem> {
    let target = match (request.uri().authority(), request.uri().scheme()) {
        (Some(authority), None) => Target::parse(authority.as_str(), None)?,
        _ => return Err(Problem::malformed("CONNECT takes host:port")),
    };
    let host = host(request, target.port)?;
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
    let host = host(request, 80)?;
    Ok(Asked { target, host })
}

/// Reads the `Host` header, by which servers choose.
fn host(request: &Request<Incoming>, default_port: u16) -> Result<Option<Target>, Problem> {
    let mut values = request.headers().get_all(HOST).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Problem::malformed("there is more than one Host header"));
    }
    let text = value
        .to_str()
        .map_err(|_| Problem::malformed("the Host header is not ASCII"))?;
    Ok(Some(Target::parse(text, Some(default_port))?))
}
