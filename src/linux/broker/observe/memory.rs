//! What a caller's call points to, read for a report: cheaper than for an answer that counts.

use std::ffi::{OsStr, OsString};
use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use crate::linux::broker::turn::Lead;
use crate::linux::sys::{self, Notification};

/// The memory of the calling thread. Nothing of it is opened: most calls are granted, and there
/// is nothing to tell.
#[derive(Debug)]
pub(crate) struct Memory<'b> {
    listener: BorrowedFd<'b>,
    id: u64,
    thread: i32,
    lead: &'b Lead<'b>,
}

/// Longest path, with its NUL; see path_resolution(7).
const PATH_MAX: usize = 4096;

/// Longest argument that is copied, for it to be redacted and cut.
const MAX_ARGUMENT: usize = PATH_MAX - 1;

/// Pages are no smaller anywhere: a read within one comes whole or not at all.
const PAGE: u64 = 4096;

impl<'b> Memory<'b> {
    pub(in super::super) fn of(
        listener: BorrowedFd<'b>,
        call: &Notification,
        lead: &'b Lead<'b>,
    ) -> Self {
        Self {
            listener,
            id: call.id,
            thread: call.thread,
            lead,
        }
    }

    /// Has another thread take the next call, before a look at a file system that may not
    /// answer.
    pub(super) fn pass_on(&self) {
        self.lead.pass_on();
    }

    /// Returns the number of the thread, which is its own as long as it waits.
    pub(super) fn thread(&self) -> i32 {
        self.thread
    }

    /// Tells whether it still waits for the answer.
    pub(super) fn is_waiting(&self) -> bool {
        sys::is_pending(self.listener, self.id)
    }

    /// Copies a path; `None` where the kernel would find none.
    pub(super) fn path(&self, address: u64) -> Option<OsString> {
        self.text(address, PATH_MAX).map(OsString::from_vec)
    }

    /// Copies the second of the strings that a list of addresses at `list` leads to.
    pub(super) fn second(&self, list: u64) -> Option<OsString> {
        let mut both = [0; 16];
        let read = self.read(list, &mut both);
        let (addresses, _) = both.as_chunks::<8>();
        let [first, second] = addresses else {
            return None;
        };
        let is_there = read == both.len() && *first != [0; 8] && *second != [0; 8];
        let text = self.text(u64::from_ne_bytes(*second), MAX_ARGUMENT);
        is_there.then_some(())?;
        text.map(OsString::from_vec)
    }

    /// Copies a number of eight bytes.
    pub(super) fn number(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read(address, &mut bytes) == bytes.len()).then(|| u64::from_ne_bytes(bytes))
    }

    /// Copies what comes before a NUL, page by page: the next one need not be there. What is
    /// longer than `most` is cut, or none where a NUL has to come.
    fn text(&self, address: u64, most: usize) -> Option<Vec<u8>> {
        let mut text = Vec::with_capacity(256);
        let mut at = address;
        while text.len() < most {
            let in_page = usize::try_from(PAGE - at % PAGE).ok()?;
            // Most are short, and to copy a page takes longer than the call.
            let len = in_page.min(if text.is_empty() { 256 } else { PATH_MAX });
            let start = text.len();
            text.resize(start + len, 0);
            let read = self.read(at, &mut text[start..]);
            text.truncate(start + read);
            if let Some(end) = text[start..].iter().position(|byte| *byte == 0) {
                text.truncate(start + end);
                return Some(text);
            }
            if read == 0 {
                return None;
            }
            at += read as u64;
        }
        text.truncate(most);
        (most < PATH_MAX).then_some(text)
    }

    /// Returns how much was read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> usize {
        let Ok(base) = usize::try_from(address) else {
            return 0;
        };
        let len = bytes.len();
        let read = process_vm_readv(
            Pid::from_raw(self.thread),
            &mut [IoSliceMut::new(bytes)],
            &[RemoteIoVec { base, len }],
        );
        read.unwrap_or(0)
    }
}

/// Tells whether a path starts at the root.
pub(super) fn is_absolute(path: &OsStr) -> bool {
    path.as_bytes().starts_with(b"/")
}
