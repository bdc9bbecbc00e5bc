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
pub mod network;
pub mod path;

pub use host::Host;

use crate::error::Result;
use crate::settings::Settings;

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
}

impl Policy {
    /// Checks every entry and resolves it against the caller's surroundings.
    ///
    /// # Errors
    /// An entry cannot be understood, or cannot be enforced.
    pub fn from_settings(settings: &Settings, host: &Host) -> Result<Self> {
        let filesystem = filesystem::Filesystem::from_settings(&settings.filesystem, host)?;
        // Asked for only where some name may be dialled: no other decision looks at them.
        let own_addresses = match settings.network.allowed_domains.is_empty() {
            true => Vec::new(),
            false => Host::addresses()?,
        };
        let network = network::Network::from_settings(&settings.network, own_addresses)?;
        let environment = environment::Environment::from_settings(settings, host)?;
        Ok(Self {
            filesystem,
            network,
            environment,
        })
    }
}
