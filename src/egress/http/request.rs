//! Where a request wants to go, if that can be said in one way only.

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::http::uri::Authority;
use hyper::{Method, Request, StatusCode};

use super::answer::Problem;
use crate::policy::hostname::Target;

/// Returns the target of CONNECT.
pub(super) fn connect_target(request: &Request<Incoming>) -> Result<Target, Problem> {
    let target = match (request.uri().authority(), request.uri().scheme()) {
        (Some(authority), None) => Target::parse(authority.as_str(), None)?,
        _ => return Err(Problem::malformed("CONNECT takes host:port")),
    };
    check_host(request, &target, target.port)?;
    Ok(target)
}

/// Returns the target of any other method.
pub(super) fn plain_target(request: &Request<Incoming>) -> Result<Target, Problem> {
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
    check_host(request, &target, 80)?;
    Ok(target)
}

/// Servers choose by `Host`; one that says other than the URL would lead past the rule.
fn check_host(
    request: &Request<Incoming>,
    target: &Target,
    default_port: u16,
) -> Result<(), Problem> {
    let mut values = request.headers().get_all(HOST).iter();
    let Some(value) = values.next() else {
        return Ok(());
    };
    if values.next().is_some() {
        return Err(Problem::malformed("there is more than one Host header"));
    }
    let text = value
        .to_str()
        .map_err(|_| Problem::malformed("the Host header is not ASCII"))?;
    match Target::parse(text, Some(default_port))? == *target {
        true => Ok(()),
        false => Err(Problem::malformed(
            "the Host header names another host than the URL",
        )),
    }
}
