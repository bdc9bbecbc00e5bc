//! The event stream: every verdict, one JSON object a line.

pub(crate) mod code;
pub mod event;
pub(crate) mod line;
pub mod sink;

pub use event::Event;
pub use sink::Audit;
