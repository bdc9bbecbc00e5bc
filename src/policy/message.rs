//! What is said of a denial: the same to the client, in the summary and in `srt ctl explain`.

use crate::audit::event::Code;

/// What is known of a denial when it is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) code: Code,
    /// What was asked for: host and port, or a path.
    pub(crate) target: &'a str,
    /// Key and entry of the rule that decided, where one did.
    pub(crate) rule: Option<(&'a str, &'a str)>,
    /// What the event adds: the reason the settings give, the range of an address.
    pub(crate) reason: Option<&'a str>,
}

impl Facts<'_> {
    /// Returns why, as half a sentence: `no entry of network.allowedDomains matches`.
    pub(crate) fn cause(&self) -> String {
        let reason = self.reason.map(|reason| format!(": {reason}"));
        let reason = reason.unwrap_or_default();
        let entry = self.rule.map_or("", |(_, entry)| entry);
        let key = self.rule.map_or("", |(key, _)| key);
        match self.code {
            Code::HostUnlisted | Code::NameUnlisted => match self.reason {
                Some(reason) => reason.to_owned(),
                None => "no entry of network.allowedDomains matches".to_owned(),
            },
            Code::HostDenied | Code::NameDenied if entry == "*" => format!(
                "the entry `*` of network.deniedDomains refuses every host, whatever \
                 network.allowedDomains says{reason}"
            ),
            Code::HostDenied | Code::NameDenied => {
                format!("the entry `{entry}` of network.deniedDomains refuses it{reason}")
            }
            Code::AddressDenied if self.rule.is_some() => {
                format!("it resolves to an address that an entry of {key} lists")
            }
            Code::AddressDenied => {
                let range = self.reason.unwrap_or("an address out of bounds");
                format!("it resolves to {range}")
            }
            Code::SocketUnlisted => {
                "no entry of network.allowUnixSockets covers this socket of the host".to_owned()
            }
            Code::WriteUnlisted => "no entry of filesystem.allowWrite covers it".to_owned(),
            Code::WriteDenied | Code::ReadDenied if self.rule.is_some() => {
                format!("the entry `{entry}` of {key} covers it")
            }
            Code::ReadSecret => format!("it is a store of secrets{reason}"),
            Code::WriteProtected => format!("it has a protected name{reason}"),
            code => match self.reason {
                Some(reason) => reason.to_owned(),
                None => in_a_sentence(code.meaning()),
            },
        }
    }

    /// Returns one line: what was refused, why, and what changes that.
    pub(crate) fn message(&self, remedy: &str) -> String {
        let Self { target, .. } = self;
        let remedy = match remedy {
            "" => String::new(),
            remedy => format!("; {remedy}"),
        };
        format!("{target} is blocked: {}{remedy}", self.cause())
    }
}

/// Takes a whole sentence into another one.
fn in_a_sentence(sentence: &str) -> String {
    let mut chars = sentence.trim_end_matches('.').chars();
    let first = chars.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}
