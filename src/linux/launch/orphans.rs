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
    rustix::process::set_child_subreaper(Some(own)).at(Step::AdoptOrphans)
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
    let children = with_parents().filter(|(_, parent)| *parent == own);
    children.map(|(pid, _)| Pid::from_raw(pid)).collect()
}

/// Lists every process that descends from this one.
pub(super) fn descendants() -> Vec<Pid> {
    let all: Vec<_> = with_parents().collect();
    let mut found = vec![Pid::this().as_raw()];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let children = all.iter().filter(|(_, of)| *of == parent);
        found.extend(children.map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).map(Pid::from_raw).collect()
}

fn with_parents() -> impl Iterator<Item = (i32, i32)> {
    let processes = procfs::process::all_processes().into_iter().flatten();
    let stats = processes.filter_map(|process| process.ok()?.stat().ok());
    stats.map(|stat| (stat.pid, stat.ppid))
}
