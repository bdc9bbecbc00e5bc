//! What is allowed, after checking; the same on every operating system.

pub mod address;
pub mod hostname;
pub mod network;

use crate::error::Result;
use crate::settings::Settings;

/// What one run may do.
#[derive(Debug)]
#[non_exhaustive]
pub struct Policy {
    /// Which hosts may be reached.
    pub network: network::Network,
}

impl Policy {
    /// Checks every entry and resolves it against the caller's surroundings.
    ///
    /// # Errors
    /// An entry cannot be understood, or cannot be enforced.
    pub fn from_settings(settings: &Settings) -> Result<Self> {
        Ok(Self { network: network::Network::from_settings(&settings.network)? })
    }
}
