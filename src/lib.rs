//! Runs a command so that it, and everything it starts, can write only where the settings
//! allow, cannot read what they hide, and reaches the network only through filtering proxies.

pub mod audit;
pub mod backend;
pub mod cli;
pub mod egress;
pub mod error;
pub mod linux;
pub mod policy;
pub mod sandbox;
pub mod settings;

pub use audit::Audit;
