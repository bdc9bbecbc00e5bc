//! Where a file of events lies: a directory that is held open, and a name in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::audit::chain::Hash;

/// Held by its directory: whoever renames one above it cannot lead a later open elsewhere.
#[derive(Debug)]
pub(super) struct Place {
    directory: OwnedFd,
    name: OsString,
}

const OWN: Mode = Mode::RUSR.union(Mode::WUSR);

impl Place {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        // It would be dropped.
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(Errno::NOTDIR.into());
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, directory, flags, Mode::empty())?;
        Ok(Self { directory, name })
    }

    /// Opens the file to append to, or makes it.
    pub(super) fn append(&self) -> io::Result<File> {
        // NOFOLLOW: a link planted in the place of the log would send our writes to a file the
        // command cannot reach itself. NONBLOCK: a FIFO without a reader fails at once instead
        // of holding up the launch.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        self.open(&self.name, flags)
    }

    /// Tells whether this is still the file with the name.
    pub(super) fn holds(&self, file: &File) -> bool {
        let named = statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match (named, fstat(file)) {
            (Ok(named), Ok(open)) => (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino),
            _ => false,
        }
    }

    /// Copies what the file holds to `NAME.1`, and empties it. It is not renamed: in a sandbox
    /// whose command may write here, a mount keeps this very file from being written.
    pub(super) fn rotate(&self, file: &File) -> io::Result<()> {
        let (rotated, next) = (self.with(".1"), self.with(".1.new"));
        match unlinkat(&self.directory, &next, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let copied = self.copy(&next);
        if let Err(error) = copied {
            let _removed = unlinkat(&self.directory, &next, AtFlags::empty());
            return Err(error);
        }
        // The old one is there until all of the new one is; a link there is replaced itself.
        renameat(&self.directory, &next, &self.directory, &rotated)?;
        file.set_len(0)
    }

    fn copy(&self, to: &OsStr) -> io::Result<()> {
        let mut from = self.open(&self.name, OFlags::RDONLY)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut to = self.open(to, flags)?;
        io::copy(&mut from, &mut to)?;
        to.sync_data()
    }

    /// Returns the hash of the last line before what is written to the file next.
    pub(super) fn last_hash(&self) -> io::Result<Option<Hash>> {
        if let Some(hash) = self.last_hash_in(&self.name)? {
            return Ok(Some(hash));
        }
        match self.last_hash_in(&self.with(".1")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            result => result,
        }
    }

    /// Tells whether the byte before `end` ends a line; so it does where it cannot be read.
    pub(super) fn ends_a_line(&self, end: u64) -> bool {
        let mut byte = *b"\n";
        if let Ok(file) = self.open(&self.name, OFlags::RDONLY | OFlags::NONBLOCK) {
            let _read = file.read_at(&mut byte, end - 1);
        }
        byte == *b"\n"
    }

    fn last_hash_in(&self, name: &OsStr) -> io::Result<Option<Hash>> {
        let mut file = self.open(name, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let line = last_line(&mut file)?;
        Ok(line.map(|line| Hash::of(&line)))
    }

    fn open(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        Ok(openat(&self.directory, name, flags, OWN)?.into())
    }

    fn with(&self, end: &str) -> OsString {
        let mut name = self.name.clone();
        name.push(end);
        name
    }
}

/// Returns the last line, without its end; `None` where there is none.
fn last_line(file: &mut File) -> io::Result<Option<Vec<u8>>> {
    const STEP: u64 = 16 * 1024;
    let end = file.metadata()?.len();
    let mut from = end;
    while from > 0 {
        from = from.saturating_sub(STEP.max(end - from));
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        Read::take(&mut *file, end - from).read_to_end(&mut tail)?;
        if tail.last() == Some(&b'\n') {
            tail.pop();
        }
        let start = tail.iter().rposition(|&byte| byte == b'\n');
        if start.is_some() || from == 0 {
            return Ok(Some(tail.split_off(start.map_or(0, |at| at + 1))));
        }
    }
    Ok(None)
}
