//! Which process of a sandbox holds a socket, as the host's `/proc` tells; see proc(5).

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use procfs::process;

use crate::audit::event::Process;
use crate::policy::secrets::redact_argument;

/// The processes of one sandbox: those below its first.
#[derive(Debug)]
pub(crate) struct Processes {
    init: u32,
    /// The one found last: what asked once is likely to ask again.
    last: Cell<Option<u32>>,
}

/// Most descriptors that are looked at for one socket: with more, nobody is named.
const MOST_DESCRIPTORS: usize = 16_384;

/// Most processes that are looked at.
const MOST_PROCESSES: usize = 4096;

impl Processes {
    /// Takes the first process of a sandbox.
    pub(crate) fn below(init: u32) -> Self {
        Self {
            init,
            last: Cell::new(None),
        }
    }

    /// Returns the process that holds the socket with this inode; the youngest where several do,
    /// since those before it wait for it.
    pub(crate) fn owner_of(&self, inode: u64) -> Option<Process> {
        let socket = PathBuf::from(format!("socket:[{inode}]"));
        let mut left = MOST_DESCRIPTORS;
        let mut holds = |pid: &u32| holds(*pid, &socket, &mut left);
        let found = self.last.get().filter(&mut holds).or_else(|| {
            let all = self.all();
            all.into_iter().rev().find(holds)
        });
        self.last.set(found);
        describe(found?)
    }

    /// Lists every process, each behind the one that started it.
    fn all(&self) -> Vec<u32> {
        let mut all = vec![self.init];
        let mut next = 0;
        while let Some(pid) = all.get(next).filter(|_| all.len() < MOST_PROCESSES) {
            all.extend(children_of(*pid));
            next += 1;
        }
        all
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let tasks = process_of(pid).and_then(|process| process.tasks().ok());
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .flat_map(|task| task.children().unwrap_or_default())
        .collect()
}

fn holds(pid: u32, socket: &Path, left: &mut usize) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut descriptors = descriptors.flatten();
    descriptors.any(|descriptor| {
        *left = left.saturating_sub(1);
        *left > 0 && fs::read_link(descriptor.path()).is_ok_and(|link| link == socket)
    })
}

/// Says what a process of a sandbox is, by the number it has there.
pub(crate) fn describe(pid: u32) -> Option<Process> {
    let process = process_of(pid)?;
    // The first number is ours, the second the sandbox's.
    let inside = process.status().ok()?.nstgid?.get(1).copied()?;
    let exe = process.exe().ok();
    let arguments = process.cmdline().ok();
    Some(Process {
        pid: u32::try_from(inside).ok()?,
        exe: exe.map(|exe| exe.to_string_lossy().into_owned()),
        arg1: arguments.and_then(|all| Some(redact_argument(all.get(1)?))),
    })
}

fn process_of(pid: u32) -> Option<process::Process> {
    process::Process::new(i32::try_from(pid).ok()?).ok()
}
