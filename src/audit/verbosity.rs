//! How much is said on standard error.

/// How much is said on stderr beside errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Nothing.
    Quiet,
    /// What the caller should know before the command runs, and what was denied.
    Warnings,
    /// Also what is not in force and what was left out.
    Verbose,
    /// Also what is decided.
    Debug,
}
