//! What a command leaves behind where no pid namespace ends with it: inside a sandbox.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use super::failure::{At, Failure, Step};

/// Looks for processes left; each ends those of one generation, and waits a moment.
const LOOKS: usize = 1000;
const MOMENT: Duration = Duration::from_millis(1);

/// Makes the orphans of the command children of this process.
pub(super) fn adopt() -> Result<(), Failure> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own)).at(Step::TieToLauncher)
}

/// Ends every process that descends from this one. The sandbox around ends what outruns this.
pub(super) fn end() {
    for _ in 0..LOOKS {
        for child in children() {
            // One that has ended already is only reaped.
            let _ended = kill(child, Signal::SIGKILL);
        }
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status.pid().is_none() {
                break;
            }
        }
        if waitpid(None, Some(WaitPidFlag::WNOHANG)) == Err(nix::errno::Errno::ECHILD) {
            return;
        }
        std::thread::sleep(MOMENT);
    }
}

fn children() -> Vec<Pid> {
    let own = Pid::this().as_raw();
    let processes = procfs::process::all_processes().into_iter().flatten();
    let stats = processes.filter_map(|process| process.ok()?.stat().ok());
    let children = stats.filter(|stat| stat.ppid == own);
    children.map(|stat| Pid::from_raw(stat.pid)).collect()
}
