//! What is allowed, after checking; the same on every operating system.

pub mod address;
pub mod ceiling;
pub mod change;
pub mod environment;
pub mod filesystem;
#[cfg(test)]
mod generator;
pub mod host;
pub mod hostname;
mod inject;
mod layers;
pub(crate) mod message;
pub mod network;
pub mod path;
mod patterns;
pub mod protected;
pub mod secrets;
pub mod sockets;
pub mod wide;

pub use host::Host;

use crate::error::Result;
use crate::settings::{self, Settings};
pub use crate::settings::{Nested, Nesting, NetworkMode, RunLimits, SeccompProfile};

/// What one run may do.
#[derive(Debug)]
#[non_exhaustive]
pub struct Policy {
    /// Which paths may be read and written.
    pub filesystem: filesystem::Filesystem,
    /// Which hosts may be reached.
    pub network: network::Network,
    /// Which Unix sockets of the host may be connected to.
    pub sockets: sockets::Sockets,
    /// Which variables the command gets.
    pub environment: environment::Environment,
    /// Whether there are proxies at all.
    pub network_mode: NetworkMode,
    /// Which system calls the command does without.
    pub seccomp_profile: SeccompProfile,
    /// Which namespaces the command may make.
    pub nesting: Nesting,
    /// Whether a root caller keeps what it writes files of others by.
    pub keeps_file_capabilities: bool,
    /// What the command may use up.
    pub limits: RunLimits,
    /// What an untrusted project's file narrowed.
    pub notes: Vec<String>,
}

impl Policy {
    /// Checks every entry and resolves it against the caller's surroundings.
    ///
    /// # Errors
    /// An entry cannot be understood, or cannot be enforced.
    pub fn from_settings(settings: &Settings, host: &Host) -> Result<Self> {
        inject::check(settings)?;
        let patterns::Expanded {
            settings,
            warnings,
            notes,
        } = patterns::Expanded::of(settings, host)?;
        let settings = settings.as_ref();
        let mut effective = layers::join(settings, host)?;
        effective.filesystem.warnings = warnings;
        effective.filesystem.notes = notes;
        let filesystem = filesystem::Filesystem::from_lists(&effective.filesystem, host)?;
        refuse_sockets_of_shared_network(&effective.network)?;
        let network = network::Network::from_settings(&effective.network)?;
        let sockets = sockets::Sockets::from_lists(
            &effective.network.allow_unix_sockets,
            effective.network.allow_all_unix_sockets,
            &filesystem,
            host,
        )?;
        let environment = environment::Environment::from_settings(settings, host)?;
        Ok(Self {
            filesystem,
            network,
            sockets,
            environment,
            network_mode: settings.network.mode,
            seccomp_profile: settings.seccomp_profile,
            nesting: settings.nesting,
            keeps_file_capabilities: host.uid == 0 && settings.filesystem.keeps_file_capabilities,
            limits: settings.limits,
            notes: effective.notes,
        })
    }
}

/// With the host's network shared, the kernel cannot tell a socket of the command from one of
/// the host, so that none can be judged.
fn refuse_sockets_of_shared_network(network: &settings::Network) -> Result<()> {
    match network.allow_unix_sockets.first() {
        Some(entry) if network.mode == NetworkMode::Open => {
            let what = "cannot be granted while `network.mode` is \"open\"";
            let hint = "set `network.mode` to \"filtered\", or take the entry out";
            Err(path::entry_error(entry, what).with_hint(hint))
        }
        _ => Ok(()),
    }
}
