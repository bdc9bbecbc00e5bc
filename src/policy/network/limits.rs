//! How much of the proxies one sandbox may take up.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::settings;

/// `network.limits`, as the proxies use it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections served at a time.
    pub connections: usize,
    /// How long a client may take until what it asks for is complete.
    pub head: Duration,
    /// How long nothing may move before a connection is taken for dead.
    pub idle: Duration,
    /// Bytes a second in each direction of a connection.
    pub rate: Option<NonZeroU64>,
}

impl From<settings::Limits> for Limits {
    fn from(limits: settings::Limits) -> Self {
        Self {
            connections: usize::try_from(limits.connections).unwrap_or(usize::MAX),
            head: Duration::from_secs(limits.header_seconds),
            idle: Duration::from_secs(limits.idle_seconds),
            rate: NonZeroU64::new(limits.bytes_per_second),
        }
    }
}
