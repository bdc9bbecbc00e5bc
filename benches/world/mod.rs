//! A network for the length of a benchmark: its servers have an address that is no loopback one,
//! as those of other machines have none.

use std::process::{Command, ExitCode};

/// Address of the servers.
pub(crate) const ADDRESS: &str = "192.0.2.10";

/// Runs this program again with `args`, in a network of its own.
pub(crate) fn enter(args: &[&str]) -> ExitCode {
    // Tens of thousands of connections to one server, each for a moment.
    let script = format!(
        "ip link set lo up && ip addr add {ADDRESS}/32 dev lo && cd /proc/sys/net/ipv4 && \
         echo 1 >tcp_tw_reuse && echo 1024 65535 >ip_local_port_range && cd \"$OLDPWD\" && exec \"$@\""
    );
    let mut command = Command::new("unshare");
    let flags = match rustix::process::geteuid().is_root() {
        true => "-n",
        false => "-rn",
    };
    command.args([flags, "sh", "-c", &script, "sh"]);
    command.arg(std::env::current_exe().expect("it runs"));
    let status = command.args(args).status().expect("unshare is installed");
    match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
