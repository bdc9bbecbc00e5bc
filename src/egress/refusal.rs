//! Why a connection did not come about.

use std::fmt;
use std::io;

use crate::policy::hostname::Target;
use crate::policy::network::Denial;

/// The policy said no, or the network did.
#[derive(Debug)]
pub(super) enum Refusal {
    Denied(Denial),
    Failed(Failure),
}

/// A target that is allowed and could not be reached.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) cause: Cause,
    text: String,
}

/// What went wrong, as far as clients are told apart by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Name,
    Refused,
    HostUnreachable,
    NetworkUnreachable,
    TimedOut,
    Other,
}

impl Failure {
    pub(super) fn new(target: &Target, cause: Cause, what: &str) -> Self {
        Self {
            cause,
            text: format!("cannot reach {target}: {what}"),
        }
    }

    pub(super) fn name(target: &Target, error: &io::Error) -> Self {
        // The resolver's text, without the prefix that says the same as ours.
        let text = error.to_string();
        let what = text
            .rsplit(": ")
            .next()
            .unwrap_or("no answer")
            .to_lowercase();
        Self::new(
            target,
            Cause::Name,
            &format!("cannot resolve the name: {what}"),
        )
    }

    pub(super) fn connect(target: &Target, error: &io::Error) -> Self {
        let (cause, what) = match error.kind() {
            io::ErrorKind::ConnectionRefused => (Cause::Refused, "connection refused"),
            io::ErrorKind::HostUnreachable => (Cause::HostUnreachable, "no route to the host"),
            io::ErrorKind::NetworkUnreachable => {
                (Cause::NetworkUnreachable, "the network is unreachable")
            }
            io::ErrorKind::TimedOut => (Cause::TimedOut, "connection timed out"),
            io::ErrorKind::AddrNotAvailable => (Cause::Other, "no local port is free"),
            io::ErrorKind::PermissionDenied => {
                (Cause::Other, "this host's firewall does not permit it")
            }
            _ if error.raw_os_error() == Some(libc::EMFILE) => {
                (Cause::Other, "too many connections are open")
            }
            _ => (Cause::Other, "the connection failed"),
        };
        Self::new(target, cause, what)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
