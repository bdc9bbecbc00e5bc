//! What this machine offers, and the least a launch needs of it.

mod files;
mod kernel;
mod network;
pub mod probe;

use super::sys;

/// Oldest Landlock ABI a launch accepts.
// KERNEL(5.19): before, ABI 1 refuses every rename between directories, which breaks ordinary
// builds.
pub const MIN_LANDLOCK_ABI: i32 = 2;

/// Newest Landlock ABI whose rights are asked for.
// KERNEL(7.1): the first with it.
pub const MAX_LANDLOCK_ABI: i32 = 9;

/// First Landlock ABI that keeps signals inside.
// KERNEL(6.12): the first with it.
pub const SIGNAL_SCOPE_ABI: i32 = 6;

/// Tells whether this process runs in a sandbox of ours, whatever its variables and files say:
/// only a filter that is in force on it can.
pub(crate) fn is_inside_sandbox() -> bool {
    sys::is_under_our_filters()
}

/// Names the remedy for each way namespaces are refused; see clone(2) and
/// user_namespaces(7).
pub(crate) fn remedy_for_namespaces(errno: Option<i32>) -> &'static str {
    match errno {
        Some(libc::ENOSPC) => {
            "a limit on namespaces is reached: raise the sysctls user.max_user_namespaces, user.max_mnt_namespaces, user.max_pid_namespaces, user.max_net_namespaces"
        }
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            "user namespaces are refused here: set kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0, or, in a container, allow clone with namespace flags in its seccomp profile; in a chroot none can be made"
        }
        Some(libc::EINVAL) => {
            "this kernel lacks a namespace: it needs CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS, CONFIG_UTS_NS and CONFIG_CGROUPS"
        }
        Some(libc::EAGAIN) => "the limit on processes is reached: see ulimit -u",
        Some(libc::EDEADLK) => {
            "the program that embeds srt runs threads: start the sandbox before them"
        }
        _ => "see clone(2) for this error",
    }
}
