//! Which destinations may be reached: the one decision every proxy asks for.

use crate::error::Result;
use crate::settings;

/// Which hosts may be reached.
#[derive(Debug)]
pub struct Network {}

impl Network {
    /// Reads the entries of `network`.
    ///
    /// # Errors
    /// An entry is not a host pattern.
    pub fn from_settings(
        _settings: &settings::Network,
        _host: Vec<std::net::IpAddr>,
    ) -> Result<Self> {
        Ok(Self {})
    }
}
