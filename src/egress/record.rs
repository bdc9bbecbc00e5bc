//! What the proxies tell the event stream.

use super::Proxy;
use super::refusal::{Failure, Refusal};
use crate::audit::Recorded;
use crate::audit::event::{Code, Event, Kind, Verdict};
use crate::policy::hostname::Target;
use crate::policy::network::{Denial, Permit};

/// What was asked of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    /// A connection: CONNECT, or SOCKS5.
    Connect,
    /// A plain HTTP request.
    Request,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Request => "request",
        }
    }
}

/// A connection on its way to a server. One that is given up, because the client or the
/// sandbox is gone, may have been made all the same: that it was allowed is recorded then.
pub(super) struct Attempt<'a> {
    proxy: &'a Proxy,
    op: Op,
    permit: &'a Permit,
    settled: bool,
}

impl Attempt<'_> {
    /// Leaves the record to the caller, who knows how it ended.
    pub(super) fn settle(mut self) {
        self.settled = true;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let _found = self.proxy.record_allowed(self.op, self.permit);
        }
    }
}

impl Proxy {
    pub(super) fn attempt<'a>(&'a self, op: Op, permit: &'a Permit) -> Attempt<'a> {
        Attempt {
            proxy: self,
            op,
            permit,
            settled: false,
        }
    }

    pub(super) fn record_allowed(&self, op: Op, permit: &Permit) -> Recorded {
        if !self.audit.is_recording() {
            return Recorded::default();
        }
        self.audit.record_attributed(&Event {
            target: Some(&permit.target().to_string()),
            verdict: Some(Verdict::Allowed),
            rule: Some(permit.rule()),
            socket: self.client_socket(),
            ..Event::new(Kind::Net, op.name(), Code::HostListed)
        })
    }

    pub(super) fn record_refusal(&self, op: Op, target: &Target, refusal: &Refusal) -> Recorded {
        match refusal {
            Refusal::Denied(denial) => self.record_denied(op, target, denial),
            Refusal::Failed(failure) => self.record_failed(op, target, failure),
        }
    }

    /// Records a request that cannot be judged, or needs what the proxies do not do. `asked` is
    /// the client's own text.
    pub(super) fn record_unjudged(
        &self,
        op: Op,
        code: Code,
        asked: &str,
        reason: &str,
    ) -> Recorded {
        self.audit.record_attributed(&Event {
            target: Some(&printable(asked)),
            verdict: Some(Verdict::Denied),
            detail: Some(detail("reason", reason)),
            socket: self.client_socket(),
            ..Event::new(Kind::Net, op.name(), code)
        })
    }

    /// Records that further connections are turned away.
    pub(super) fn record_full(&self) {
        let bound = self.network.limits().connections;
        let reason = format!("{bound} connections are open, as network.limits.connections allows");
        let _found = self.audit.record_attributed(&Event {
            verdict: Some(Verdict::Failed),
            detail: Some(detail("reason", &reason)),
            ..Event::new(Kind::Net, Op::Connect.name(), Code::ConnectionLimit)
        });
    }

    /// Records that a name gets no address.
    pub(super) fn record_unresolved(&self, name: &str, denial: &Denial) -> Recorded {
        let code = match denial.rule() {
            Some(_) => Code::NameDenied,
            None => Code::NameUnlisted,
        };
        self.audit.record_attributed(&Event {
            target: Some(name),
            verdict: Some(Verdict::Denied),
            rule: denial.rule(),
            suggest: denial.suggest(),
            socket: self.client_socket(),
            ..Event::new(Kind::Dns, RESOLVE, code)
        })
    }

    /// Records a question that is refused whatever the rules. `asked` is the client's own text.
    pub(super) fn record_question(&self, code: Code, asked: &str, reason: &str) -> Recorded {
        self.audit.record_attributed(&Event {
            target: Some(&printable(asked)),
            verdict: Some(Verdict::Denied),
            detail: Some(detail("reason", reason)),
            socket: self.client_socket(),
            ..Event::new(Kind::Dns, RESOLVE, code)
        })
    }

    pub(super) fn record_denied(&self, op: Op, target: &Target, denial: &Denial) -> Recorded {
        let said = match (denial.range(), denial.reason()) {
            (Some(range), _) => Some(detail("range", range)),
            (None, reason) => reason.map(|reason| detail("reason", reason)),
        };
        self.audit.record_attributed(&Event {
            target: Some(&target.to_string()),
            verdict: Some(Verdict::Denied),
            rule: denial.rule(),
            suggest: denial.suggest(),
            detail: said,
            socket: self.client_socket(),
            ..Event::new(Kind::Net, op.name(), denial.code)
        })
    }

    fn record_failed(&self, op: Op, target: &Target, failure: &Failure) -> Recorded {
        self.audit.record_attributed(&Event {
            target: Some(&target.to_string()),
            verdict: Some(Verdict::Failed),
            detail: Some(detail("reason", &failure.to_string())),
            socket: self.client_socket(),
            ..Event::new(Kind::Net, op.name(), Code::UpstreamFailed)
        })
    }
}

const RESOLVE: &str = "resolve";

fn detail(key: &str, value: &str) -> serde_json::Map<String, serde_json::Value> {
    [(key.to_owned(), value.into())].into_iter().collect()
}

/// Keeps a client's text from breaking a log line, steering a terminal or filling a disk, and
/// from telling what no host is: a user and password before it, a path and query behind it.
fn printable(text: &str) -> String {
    const BEHIND: [char; 3] = ['/', '?', '#'];
    let host = match text.rsplit_once('@') {
        // The `@` may stand in a path or in a password: neither part can be told.
        Some((before, _)) if before.contains(BEHIND) => "\u{2026}",
        Some((_, host)) => host,
        None => text,
    };
    let host = host.split(BEHIND).next().unwrap_or(host);
    host.chars()
        .take(MAX_ASKED)
        .flat_map(char::escape_default)
        .collect()
}

const MAX_ASKED: usize = 260;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_shown_without_what_may_be_a_secret() {
        let table = [
            ("no.test:80", "no.test:80"),
            ("u:p@no.test:80", "no.test:80"),
            ("u:p@q@no.test", "no.test"),
            ("no.test/t?token=x#y", "no.test"),
            ("no.test/t?x@y", "\\u{2026}"),
            ("a\nb", "a\\nb"),
        ];
        for (text, shown) in table {
            assert_eq!(printable(text), shown, "{text}");
        }
    }
}
