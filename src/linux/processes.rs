//! Which process of a sandbox holds a socket, as the host's `/proc` tells; see proc(5).

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// How long one socket is looked for, while its holder and others wait. With so many processes
/// or descriptors that it takes longer, nobody is named.
const PATIENCE: Duration = Duration::from_millis(5);

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
        let deadline = Instant::now() + PATIENCE;
        let holds = |pid: &u32| holds(*pid, &socket, deadline);
        let found = self.last.get().filter(holds).or_else(|| {
            let all = self.all(deadline);
            all.into_iter().rev().find(holds)
        });
        self.last.set(found);
        describe(found?)
    }

    /// Lists every process, each behind the one that started it.
    fn all(&self, deadline: Instant) -> Vec<u32> {
        let mut all = vec![self.init];
        let mut next = 0;
        while let Some(pid) = all.get(next).filter(|_| Instant::now() < deadline) {
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

fn holds(pid: u32, socket: &Path, deadline: Instant) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let in_time = descriptors
        .flatten()
        .take_while(|_| Instant::now() < deadline);
    let mut links = in_time.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
    links.any(|link| link == socket)
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
