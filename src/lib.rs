//! Runs a command so that it, and everything it starts, can write only where the settings
//! allow, cannot read what they hide, and reaches the network only through filtering proxies.

pub mod audit;
pub mod cli;
pub mod error;
pub mod policy;
pub mod settings;

pub use audit::Audit;
