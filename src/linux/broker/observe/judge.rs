//! Which call the rules refuse that would have come through without them.
//!
//! Paths are followed as outside, where what the command sees has the same names. What would
//! fail there too is no denial.

use std::fs::{Metadata, symlink_metadata};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, accessat, openat};
use rustix::io::Errno;

use super::Terms;
use super::acts::{Act, Deed, From, Of};
use super::known::Known;
use super::memory::{Memory, is_absolute};
use crate::policy::filesystem::{Denial, Filesystem, Use};
use crate::policy::path;

/// The rules, and what is known of who asks.
#[derive(Debug)]
pub(super) struct Judge {
    files: Arc<Filesystem>,
    reads: bool,
    is_root: bool,
    has_namespaces: bool,
    known: Known,
    /// The view of the first caller, which is the sandbox's.
    view: OnceLock<PathBuf>,
}

/// Trees that every run has of its own, whose names mean nothing outside.
const PRIVATE: [&[u8]; 2] = [b"/dev/", b"/proc/"];

impl Judge {
    pub(super) fn new(terms: Terms) -> Self {
        Self {
            files: terms.files,
            reads: terms.reads,
            is_root: terms.is_root,
            has_namespaces: terms.has_namespaces,
            known: Known::default(),
            view: OnceLock::new(),
        }
    }

    pub(super) fn has_namespaces(&self) -> bool {
        self.has_namespaces
    }

    pub(super) fn denial(&self, path: &Path, wanted: Use) -> Option<Denial<'_>> {
        self.files.denial(path, wanted)
    }

    /// Returns the path an act is about, absolute and as it was asked for; `None` where there
    /// is nothing to tell of it.
    pub(super) fn path(&self, memory: &Memory<'_>, act: &Act) -> Option<PathBuf> {
        if act.deed == Deed::Read && !self.reads {
            return None;
        }
        self.asked(memory, act)
    }

    fn asked(&self, memory: &Memory<'_>, act: &Act) -> Option<PathBuf> {
        let asked = memory.path(act.path)?;
        let names = asked.as_bytes();
        let leaves = names.windows(3).any(|part| part == b"/..");
        if PRIVATE.iter().any(|tree| names.starts_with(tree)) && !leaves {
            return None;
        }
        let of_thread = |name: &str| read_link(&format!("/proc/{}/{name}", memory.thread()));
        if self.has_namespaces && !self.is_view(of_thread("ns/mnt")?) {
            return None;
        }
        let start = match act.from {
            _ if is_absolute(&asked) && self.has_namespaces => of_thread("root")?,
            _ if is_absolute(&asked) => return Some(asked.into()),
            From::Cwd => of_thread("cwd")?,
            From::Descriptor(number) => of_thread(&format!("fd/{number}"))?,
        };
        // A pipe has a text too.
        if !start.is_absolute() {
            return None;
        }
        match names {
            // Of the descriptor itself.
            [] => (act.from != From::Cwd).then_some(start),
            [b'/', below @ ..] => Some(start.join(std::ffi::OsStr::from_bytes(below))),
            _ => Some(start.join(asked)),
        }
    }

    fn is_view(&self, view: PathBuf) -> bool {
        self.view.get_or_init(|| view.clone()) == &view
    }

    /// Returns where a path leads that was asked for, if the rules refuse an act there.
    pub(super) fn refused(&self, memory: &Memory<'_>, act: &Act, path: &Path) -> Option<PathBuf> {
        let right = match act.deed {
            Deed::Read | Deed::Start => Use::Read,
            _ => Use::Content,
        };
        let path = self.real(memory, path, act.follows)?;
        match act.deed {
            Deed::Make("symlink" | "link" | "rename") | Deed::Replace => self.known.forget(&path),
            Deed::Make("mkdir") => self.known.forget_links(),
            _ => {}
        }
        self.files.refuses(&path, right).then_some(path)
    }

    /// Tells whether the other path of a call allows what it does to `path`.
    pub(super) fn is_possible(&self, memory: &Memory<'_>, other: &Act, path: &Path) -> bool {
        let other_path = self.asked(memory, other);
        let Some(other_path) = other_path.and_then(|path| self.real(memory, &path, other.follows))
        else {
            return false;
        };
        let is_there = match other.deed {
            Deed::Replace | Deed::Make(_) => true,
            _ => symlink_metadata(&other_path).is_ok(),
        };
        // Between file systems nothing is moved or linked, and programs copy instead.
        let device = |path: &Path| Some(symlink_metadata(path.parent()?).ok()?.dev());
        is_there && device(path).is_some() && device(path) == device(&other_path)
    }

    /// Returns the program that is started; `None` where none is, or where it is hidden.
    pub(super) fn program(&self, memory: &Memory<'_>, act: &Act, path: &Path) -> Option<PathBuf> {
        let path = self.real(memory, path, act.follows)?;
        let is_shown = !self.files.refuses(&path, Use::Read);
        (is_shown && self.possible(Deed::Start, &path).is_some()).then_some(path)
    }

    /// Says what a deed needs, and how it is called, where it would come through outside.
    pub(super) fn possible(&self, deed: Deed, path: &Path) -> Option<(Use, &'static str)> {
        let found = symlink_metadata(path);
        let there = found.as_ref().ok();
        let is_missing = found
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::NotFound);
        let owns =
            |meta: &Metadata| self.is_root || meta.uid() == rustix::process::getuid().as_raw();
        let writable = || self.may(path, Access::WRITE_OK);
        let changes_names = || {
            let both = Access::WRITE_OK | Access::EXEC_OK;
            path.parent()
                .is_some_and(|directory| self.may(directory, both))
        };
        let (wanted, comes_through) = match deed {
            Deed::Open(flags) => return self.opened(flags, path, there, is_missing),
            Deed::Make(_) => (Use::Name, is_missing && changes_names()),
            Deed::Replace => (Use::Name, changes_names()),
            Deed::Take(_, of) => (Use::Name, is_of(there?, of, path) && changes_names()),
            Deed::Truncate => (Use::Content, there?.is_file() && writable()),
            Deed::Own(_) | Deed::Chown => (Use::Content, owns(there?)),
            Deed::Utimes => (Use::Content, owns(there?) || writable()),
            Deed::Setxattr => (Use::Content, there.is_some() && writable()),
            Deed::Socket => return None,
            Deed::Read => (Use::Read, self.may(path, Access::READ_OK)),
            Deed::Start => {
                let is_program = there?.is_file() && there?.permissions().mode() & 0o111 != 0;
                (Use::Read, is_program && self.may(path, Access::EXEC_OK))
            }
        };
        // A link is no place that can be granted; what a grant names is where it leads.
        let wanted = match wanted {
            Use::Content if there.is_some_and(Metadata::is_symlink) => Use::Name,
            wanted => wanted,
        };
        comes_through.then_some((wanted, deed.op()))
    }

    fn opened(
        &self,
        flags: i32,
        path: &Path,
        there: Option<&Metadata>,
        is_missing: bool,
    ) -> Option<(Use, &'static str)> {
        let has = |wanted: i32| flags & wanted == wanted;
        let both = Access::WRITE_OK | Access::EXEC_OK;
        let Some(meta) = there else {
            let directory = path.parent()?;
            let makes = has(libc::O_CREAT) && is_missing && self.may(directory, both);
            return makes.then_some((Use::Name, "create"));
        };
        if has(libc::O_TMPFILE) {
            let makes = meta.is_dir() && self.may(path, both);
            return makes.then_some((Use::Content, "create"));
        }
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || has(libc::O_TRUNC);
        // A directory cannot be written, a name that is there not be made, a link not be opened.
        let fails = meta.is_dir() || meta.is_symlink() || has(libc::O_CREAT | libc::O_EXCL);
        let comes_through = writes && !fails && self.may(path, Access::WRITE_OK);
        comes_through.then_some((Use::Content, "open"))
    }

    /// Follows a path to where its last name is, or what that leads to; `None` where no way leads
    /// there.
    fn real(&self, memory: &Memory<'_>, path: &Path, follows: bool) -> Option<PathBuf> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            memory.pass_on();
            return place(path);
        };
        let directory = match self.known.place_of(directory) {
            Some(found) => found,
            None => {
                memory.pass_on();
                let found = place(directory)?;
                self.known.learn(directory, &found);
                found
            }
        };
        let path = directory.join(name);
        let is_link = || rustix::fs::readlink(&path, Vec::new()).is_ok();
        if !follows || !is_link() {
            return Some(path);
        }
        memory.pass_on();
        // One that leads to nothing may be about to lead to something.
        place(&path).or_else(|| Some(path::way(&path).end))
    }

    /// Tells whether the modes of a file let the caller use it so, outside.
    fn may(&self, path: &Path, access: Access) -> bool {
        match accessat(CWD, path, access, AtFlags::EACCESS) {
            Ok(()) => true,
            // This thread has given up the rights that outside pass all modes.
            Err(Errno::ACCESS | Errno::PERM) => self.is_root,
            Err(_) => false,
        }
    }
}

fn is_of(meta: &Metadata, of: Of, path: &Path) -> bool {
    match of {
        Of::Anything => true,
        Of::File => !meta.is_dir(),
        Of::Directory => {
            let is_empty = |mut entries: std::fs::ReadDir| entries.next().is_none();
            meta.is_dir() && std::fs::read_dir(path).is_ok_and(is_empty)
        }
    }
}

/// Opens a path and has the kernel say where that is.
fn place(path: &Path) -> Option<PathBuf> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = openat(CWD, path, flags, Mode::empty()).ok()?;
    read_link(&format!("/proc/self/fd/{}", place.as_raw_fd()))
}

fn read_link(link: &str) -> Option<PathBuf> {
    let text = rustix::fs::readlink(link, Vec::new()).ok()?;
    Some(std::ffi::OsString::from_vec(text.into_bytes()).into())
}
