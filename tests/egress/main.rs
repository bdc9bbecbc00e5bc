//! The proxies, served in this process on loopback, judged by what the server behind them saw.
//!
//! Names below `localhost` lead to loopback without a name server, so they stand for any name.

#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

mod differential;
mod exhaustion;
mod fixture;
mod forms;
mod hello;
mod http;
mod interim;
mod limits;
#[cfg(feature = "socks")]
mod socks;
mod tunnel;
