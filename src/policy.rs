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
mod layers;
pub mod network;
pub mod path;
mod wide;

pub use host::Host;

use crate::error::Result;
use crate::settings::{NetworkMode, Settings};

/// What one run may do.
#[derive(Debug)]
#[non_exhaustive]
pub struct Policy {
    /// Which paths may be read and written.
    pub filesystem: filesystem::Filesystem,
    /// Which hosts may be reached.
    pub network: network::Network,
    /// Which variables the command gets.
    pub environment: environment::Environment,
    /// Whether there are proxies at all.
    pub network_mode: NetworkMode,
    /// What an untrusted project's file narrowed.
    pub notes: Vec<String>,
}

impl Policy {
    /// Checks every entry and resolves it against the caller's surroundings.
    ///
    /// # Errors
    /// An entry cannot be understood, or cannot be enforced.
    pub fn from_settings(settings: &Settings, host: &Host) -> Result<Self> {
        let effective = layers::join(settings, host)?;
        let filesystem = filesystem::Filesystem::from_lists(&effective.filesystem, host)?;
        // Asked for only where some name may be dialled: no other decision looks at them.
        let own_addresses = match effective.network.allowed_domains.is_empty() {
            true => Vec::new(),
            false => Host::addresses()?,
        };
        let network = network::Network::from_settings(&effective.network, own_addresses)?;
        let environment = environment::Environment::from_settings(settings, host)?;
        Ok(Self {
            filesystem,
            network,
            environment,
            network_mode: settings.network.mode,
            notes: effective.notes,
        })
    }
}
