//! The process that made a call: what it points to, its descriptors, its view of the files.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::IoSliceMut;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{PidfdFlags, PidfdGetfdFlags};

use crate::linux::sys::{self, Notification};

/// The calling thread. What was opened of it is its own, even if its number is used again.
#[derive(Debug)]
pub(super) struct Caller<'b> {
    listener: BorrowedFd<'b>,
    id: u64,
    thread: i32,
    known: &'b Known,
}

/// Descriptors of threads that called before. One of a thread that is gone stays its own,
/// whoever has the number since, and finds nobody (ESRCH).
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<i32, OwnedFd>>);

/// Most threads that are remembered.
const MAX_KNOWN: usize = 64;

impl Known {
    /// Has `act` use the descriptor of a thread, and once more where that had the number before.
    fn with<T>(&self, thread: i32, act: impl Fn(&OwnedFd) -> Result<T, Errno>) -> Result<T, Errno> {
        let known = self.all().get(&thread).map(&act);
        if let Some(done) = known
            && !matches!(done, Err(Errno::ESRCH))
        {
            return done;
        }
        let pidfd = match pidfd_open(thread, PIDFD_THREAD) {
            Err(Errno::EINVAL) => return act(&process_of(thread)?),
            other => other?,
        };
        let done = act(&pidfd);
        let mut known = self.all();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(thread, pidfd);
        done
    }

    fn all(&self) -> MutexGuard<'_, HashMap<i32, OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the process that a thread is of; another one may have the number of the thread later.
// KERNEL(6.9): before, threads cannot be opened.
fn process_of(thread: i32) -> Result<OwnedFd, Errno> {
    let status = status_of(&open_proc(thread)?)?;
    let process = number_at(&status, "Tgid:", 0).ok_or(Errno::ESRCH)?;
    pidfd_open(process, PidfdFlags::empty())
}

/// PIDFD_THREAD of linux/pidfd.h: names a thread, which may have descriptors of its own.
// KERNEL(6.9): before, it is EINVAL, and the process of the thread is opened.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());

impl<'b> Caller<'b> {
    /// Takes the caller of `call`. Whether it is still there, [`Caller::read`] and what opens its
    /// places make sure of: what was taken of it before is its own only then.
    pub(super) fn of(listener: BorrowedFd<'b>, call: &Notification, known: &'b Known) -> Self {
        Self {
            listener,
            id: call.id,
            thread: call.thread,
            known,
        }
    }

    /// Returns the number its call is answered by.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Returns its number, which is its own as long as it waits.
    pub(super) fn thread(&self) -> i32 {
        self.thread
    }

    /// Tells whether it still waits for the answer.
    pub(super) fn is_waiting(&self) -> bool {
        sys::is_pending(self.listener, self.id)
    }

    /// Copies `len` bytes of its memory.
    pub(super) fn read(&self, address: u64, len: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; len];
        let base = usize::try_from(address).map_err(|_| Errno::EFAULT)?;
        let read = process_vm_readv(
            Pid::from_raw(self.thread),
            &mut [IoSliceMut::new(&mut bytes)],
            &[RemoteIoVec { base, len }],
        )?;
        // The call names a number: it was the caller's if that waits even now.
        self.check_pending()?;
        if read == len {
            Ok(bytes)
        } else {
            Err(Errno::EFAULT)
        }
    }

    /// Takes a copy of one of its descriptors; whose it is, is sure once something was read.
    pub(super) fn descriptor(&self, number: u64) -> Result<OwnedFd, Errno> {
        // The kernel takes an int and looks at no other half.
        let number = i32::from_ne_bytes(lower_half(number));
        if number < 0 {
            return Err(Errno::EBADF);
        }
        self.known.with(self.thread, |pidfd| {
            rustix::process::pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()).map_err(errno)
        })
    }

    /// Opens its root as a place.
    pub(super) fn root(&self) -> Result<OwnedFd, Errno> {
        self.open("root")
    }

    /// Opens its working directory as a place.
    pub(super) fn working_directory(&self) -> Result<OwnedFd, Errno> {
        self.open("cwd")
    }

    /// Returns what `self` and `thread-self` mean in the sandbox's `/proc`.
    pub(super) fn own_names(&self) -> Result<(OsString, OsString), Errno> {
        let proc = open_proc(self.thread)?;
        self.check_pending()?;
        let status = status_of(&proc)?;
        // The first number is ours, the second the sandbox's.
        let process = number_at(&status, "NStgid:", 1).ok_or(Errno::ENOENT)?;
        let thread = number_at(&status, "NSpid:", 1).ok_or(Errno::ENOENT)?;
        let names = (process.to_string(), format!("{process}/task/{thread}"));
        Ok((names.0.into(), names.1.into()))
    }

    fn open(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let path = format!("/proc/{}/{name}", self.thread);
        let place = openat(CWD, path, flags, Mode::empty()).map_err(errno)?;
        self.check_pending().map(|()| place)
    }

    fn check_pending(&self) -> Result<(), Errno> {
        if self.is_waiting() {
            Ok(())
        } else {
            Err(Errno::ESRCH)
        }
    }
}

/// Returns the half of an argument that holds an int.
pub(super) fn lower_half(argument: u64) -> [u8; 4] {
    let [a, b, c, d, ..] = argument.to_le_bytes();
    u32::from_le_bytes([a, b, c, d]).to_ne_bytes()
}

pub(super) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

pub(super) fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_raw(errno.raw_os_error())
}

pub(super) fn pidfd_open(pid: i32, flags: PidfdFlags) -> Result<OwnedFd, Errno> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::ESRCH)?;
    rustix::process::pidfd_open(pid, flags).map_err(errno)
}

/// Opens the directory of a thread in our `/proc`.
pub(super) fn open_proc(thread: i32) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, format!("/proc/{thread}"), flags, Mode::empty()).map_err(errno)
}

pub(super) fn status_of(proc: &OwnedFd) -> Result<String, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = openat(proc, Path::new("status"), flags, Mode::empty()).map_err(errno)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::fs::File::from(file), &mut text)
        .map_err(|_| Errno::ESRCH)?;
    Ok(text)
}

/// Returns the number at `index` of the line that starts with `field`.
pub(super) fn number_at(status: &str, field: &str, index: usize) -> Option<i32> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().nth(index)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use rustix::process::pidfd_getfd;

    use super::*;

    #[test]
    fn numbers_are_found_in_the_status_of_a_process() {
        let status = "Name:\tx\nTgid:\t7\nNStgid:\t70\t7\nNSpid:\t71\t8\n";
        assert_eq!(number_at(status, "Tgid:", 0), Some(7));
        assert_eq!(number_at(status, "NStgid:", 1), Some(7));
        assert_eq!(number_at(status, "NSpid:", 1), Some(8));
        assert_eq!(number_at(status, "NSpid:", 2), None);
    }

    #[test]
    fn a_thread_with_the_number_of_one_that_is_gone_is_not_taken_for_it() {
        let child = || {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).spawn().unwrap()
        };
        let opened = |child: &Child| {
            let pid = i32::try_from(child.id()).unwrap();
            (pid, pidfd_open(pid, PidfdFlags::empty()).unwrap())
        };
        let (mut gone, mut here) = (child(), child());
        let (_, stale) = opened(&gone);
        let (pid, _) = opened(&here);
        let known = Known(Mutex::new(HashMap::from([(pid, stale)])));
        let input = |pidfd: &OwnedFd| {
            pidfd_getfd(pidfd, 0, PidfdGetfdFlags::empty())
                .and_then(rustix::fs::fstat)
                .map_err(errno)
        };
        // While it lives, what is remembered is asked.
        let before = known.with(pid, input).unwrap().st_ino;
        drop(gone.stdin.take());
        gone.wait().unwrap();
        let after = known.with(pid, input).unwrap().st_ino;
        let again = known.with(pid, input).unwrap().st_ino;
        drop(here.stdin.take());
        here.wait().unwrap();
        assert_ne!(before, after);
        assert_eq!(after, again);
    }

    #[test]
    fn garbage_in_the_upper_half_of_a_descriptor_is_not_looked_at() {
        assert_eq!(i32::from_ne_bytes(lower_half(0xdead_0000_0000_0003)), 3);
        assert_eq!(i32::from_ne_bytes(lower_half(0xffff_ffff)), -1);
    }
}
