//! Whether what is said inside a connection names the host that the connection was permitted for.

use std::sync::Arc;

use super::{Decision, Denial, Network, Permit};
use crate::policy::hostname::{Host, Target};

/// What the first bytes of a client say of where it wants to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// A TLS hello that names one host.
    Named(Host),
    /// A TLS hello without a name.
    Nameless,
    /// A plain HTTP request for one host.
    Requested(Host),
    /// A plain HTTP request of which nobody can say what host it is for; and why.
    Unclear(&'static str),
    /// Anything else.
    Other,
    /// TLS, for all that can be seen, of which nobody can say what host it names; and why.
    Undecidable(&'static str),
}

impl Permit {
    /// Tells whether what is said inside must agree at all: `network.requireHostMatch`.
    pub fn must_be_confirmed(&self) -> bool {
        self.rules.requires_host_match
    }

    /// Holds the `Host` of a request against the host it was permitted for.
    ///
    /// # Errors
    /// It names another host or port, and that matters.
    pub fn confirm_host(&self, host: &Target) -> Result<(), Denial> {
        match !self.must_be_confirmed() || *host == self.target {
            true => Ok(()),
            false => {
                let what = format!("the Host header names {host}");
                Err(Denial::mismatch(&self.target, &what))
            }
        }
    }

    /// Holds the first bytes of a tunnel against the host it was permitted for.
    ///
    /// # Errors
    /// They name another host, or leave open which; on port 443 also where they name none.
    pub fn confirm_hello(&self, hello: &Hello) -> Result<(), Denial> {
        if !self.must_be_confirmed() {
            return Ok(());
        }
        let is_https = self.target.port == 443;
        let what = match hello {
            Hello::Named(host) if self.is_meant_by(host) => return Ok(()),
            Hello::Named(host) => format!("the TLS hello inside names {host}"),
            // A client that asks for an address has no name to send (RFC 6066, 3).
            Hello::Nameless if matches!(self.target.host, Host::Ip(_)) => return Ok(()),
            Hello::Nameless if is_https => "the TLS hello inside names no host".to_owned(),
            Hello::Other | Hello::Requested(_) | Hello::Unclear(_) if is_https => {
                "what is sent inside is not TLS".to_owned()
            }
            Hello::Nameless | Hello::Other => return Ok(()),
            Hello::Requested(host) if self.is_meant_by(host) => return Ok(()),
            Hello::Requested(host) => format!("the request inside is for {host}"),
            Hello::Unclear(why) => format!("what is sent inside {why}"),
            Hello::Undecidable(why) => format!("the TLS hello inside {why}"),
        };
        Err(Denial::mismatch(&self.target, &what))
    }

    /// Tells whether a client may mean `host` by this target. One that has resolved a name
    /// itself asks for the address and then names the host, which must be allowed as well.
    fn is_meant_by(&self, host: &Host) -> bool {
        if *host == self.target.host {
            return true;
        }
        let Ok(named) = Target::new(host.clone(), self.target.port) else {
            return false;
        };
        let network = Network(Arc::clone(&self.rules));
        matches!(self.target.host, Host::Ip(_))
            && matches!(network.decide(&named), Decision::Allowed(_))
    }
}
