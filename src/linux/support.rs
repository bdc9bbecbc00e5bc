//! What this machine offers, and the least a launch needs of it.

/// Oldest Landlock ABI a launch accepts (Linux 5.19): ABI 1 refuses every rename between
/// directories, which breaks ordinary builds.
pub const MIN_LANDLOCK_ABI: i32 = 2;

/// Newest Landlock ABI whose rights are asked for (Linux 7.1).
pub const MAX_LANDLOCK_ABI: i32 = 9;

/// First Landlock ABI that keeps signals inside (Linux 6.12).
pub const SIGNAL_SCOPE_ABI: i32 = 6;
