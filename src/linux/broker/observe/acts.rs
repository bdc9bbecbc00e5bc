//! What a stopped call does to which path.

use crate::linux::broker::caller::lower_half;
use crate::linux::sys::Notification;

use super::memory::Memory;

/// One thing a call does to one path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Act {
    pub(super) deed: Deed,
    pub(super) from: From,
    /// Where the path is.
    pub(super) path: u64,
    /// A link at the end is followed.
    pub(super) follows: bool,
    /// Where the addresses of the arguments are, for a program that is started.
    pub(super) arguments: Option<u64>,
}

/// Where a path starts that is not absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    Cwd,
    Descriptor(i32),
}

/// What is done to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Deed {
    /// Opened with these flags, and it may write or make something.
    Open(i32),
    /// Opened for reading.
    Read,
    /// A name is made that must be free: the word of the report.
    Make(&'static str),
    /// A name is made, or takes the place of another.
    Replace,
    /// A name is removed, or moved away.
    Take(&'static str, Of),
    /// The content is changed.
    Truncate,
    /// What the owner may change.
    Own(&'static str),
    /// The owner is changed.
    Chown,
    /// Times are changed, which who may write it may do too.
    Utimes,
    /// An attribute is changed.
    Setxattr,
    /// It is executed.
    Start,
    /// A socket is asked for, which has a family and no path.
    Socket,
}

/// What a name that is removed must be of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Of {
    Anything,
    File,
    Directory,
}

impl Deed {
    /// Returns the word of the report.
    pub(super) fn op(self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Read | Self::Start => "read",
            Self::Make(op) | Self::Take(op, _) | Self::Own(op) => op,
            Self::Replace => "rename",
            Self::Truncate => "truncate",
            Self::Chown => "chown",
            Self::Utimes => "utimes",
            Self::Setxattr => "setxattr",
            Self::Socket => "socket",
        }
    }
}

impl Acts {
    fn none() -> Self {
        Self {
            all: Vec::new(),
            source: None,
        }
    }

    fn one(act: Act) -> Self {
        Self {
            all: vec![act],
            source: None,
        }
    }

    /// Returns what has to be possible for the act at `index` to be.
    pub(super) fn beside(&self, index: usize) -> Option<&Act> {
        let others = self.all.iter().enumerate();
        let mut others = others.filter(|(at, _)| *at != index).map(|(_, act)| act);
        others.next().or(self.source.as_ref())
    }
}

impl Act {
    fn new(deed: Deed, from: From, path: u64) -> Self {
        Self {
            deed,
            from,
            path,
            follows: false,
            arguments: None,
        }
    }

    fn following(self, follows: bool) -> Self {
        Self { follows, ..self }
    }
}

/// What one call does.
#[derive(Debug)]
pub(super) struct Acts {
    /// First what it does to the path it is about.
    pub(super) all: Vec<Act>,
    /// A second path, which has to be there and stays as it is.
    pub(super) source: Option<Act>,
}

/// Finds out what a call does.
pub(super) fn of(memory: &Memory<'_>, call: &Notification) -> Acts {
    let Notification { call, args, .. } = call;
    let at = |index: usize| match int(args[index]) {
        libc::AT_FDCWD => From::Cwd,
        number => From::Descriptor(number),
    };
    let flags = |index: usize| int(args[index]);
    let follows = |index: usize| flags(index) & libc::AT_SYMLINK_NOFOLLOW == 0;
    // Directory and path first, as most calls have them.
    let one = |deed| Act::new(deed, at(0), args[1]);
    let act = match *call {
        libc::SYS_openat => opened(at(0), args[1], flags(2)),
        libc::SYS_openat2 => match memory.number(args[2]).map(int) {
            Some(flags) => opened(at(0), args[1], flags),
            None => return Acts::none(),
        },
        libc::SYS_mkdirat => one(Deed::Make("mkdir")),
        libc::SYS_mknodat => one(Deed::Make("mknod")),
        libc::SYS_symlinkat => Act::new(Deed::Make("symlink"), at(1), args[2]),
        libc::SYS_linkat => {
            let old = Act::new(Deed::Read, at(0), args[1]);
            let old = old.following(flags(4) & libc::AT_SYMLINK_FOLLOW != 0);
            return linked(old, Act::new(Deed::Make("link"), at(2), args[3]));
        }
        libc::SYS_renameat => return renamed((at(0), args[1]), (at(2), args[3]), 0),
        libc::SYS_renameat2 => return renamed((at(0), args[1]), (at(2), args[3]), args[4]),
        libc::SYS_unlinkat => match flags(2) & libc::AT_REMOVEDIR {
            0 => one(Deed::Take("unlink", Of::File)),
            _ => one(Deed::Take("unlink", Of::Directory)),
        },
        libc::SYS_truncate => of_path(args, Deed::Truncate, true),
        libc::SYS_fchmodat => one(Deed::Own("chmod")).following(true),
        SYS_FCHMODAT2 => one(Deed::Own("chmod")).following(follows(3)),
        libc::SYS_fchownat => one(Deed::Chown).following(follows(4)),
        libc::SYS_utimensat => one(Deed::Utimes).following(follows(3)),
        libc::SYS_setxattr | libc::SYS_removexattr => of_path(args, Deed::Setxattr, true),
        libc::SYS_lsetxattr | libc::SYS_lremovexattr => of_path(args, Deed::Setxattr, false),
        SYS_SETXATTRAT | SYS_REMOVEXATTRAT => one(Deed::Setxattr).following(follows(2)),
        libc::SYS_execve => Act {
            arguments: Some(args[1]),
            ..of_path(args, Deed::Start, true)
        },
        libc::SYS_execveat => Act {
            arguments: Some(args[2]),
            ..one(Deed::Start).following(follows(4))
        },
        number => return legacy(number, args),
    };
    Acts::one(act)
}

/// Calls that only x86_64 has, which start from the working directory.
#[cfg(target_arch = "x86_64")]
fn legacy(number: i64, args: &[u64; 6]) -> Acts {
    let of = |deed, follows| of_path(args, deed, follows);
    let act = match number {
        libc::SYS_open => opened(From::Cwd, args[0], int(args[1])),
        libc::SYS_creat => {
            let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
            opened(From::Cwd, args[0], flags)
        }
        libc::SYS_mkdir => of(Deed::Make("mkdir"), false),
        libc::SYS_mknod => of(Deed::Make("mknod"), false),
        libc::SYS_symlink => Act::new(Deed::Make("symlink"), From::Cwd, args[1]),
        libc::SYS_link => {
            let new = Act::new(Deed::Make("link"), From::Cwd, args[1]);
            return linked(of(Deed::Read, false), new);
        }
        libc::SYS_rename => return renamed((From::Cwd, args[0]), (From::Cwd, args[1]), 0),
        libc::SYS_unlink => of(Deed::Take("unlink", Of::File), false),
        libc::SYS_rmdir => of(Deed::Take("unlink", Of::Directory), false),
        libc::SYS_chmod => of(Deed::Own("chmod"), true),
        libc::SYS_chown => of(Deed::Chown, true),
        libc::SYS_lchown => of(Deed::Chown, false),
        libc::SYS_utime | libc::SYS_utimes => of(Deed::Utimes, true),
        libc::SYS_futimesat => {
            let from = match int(args[0]) {
                libc::AT_FDCWD => From::Cwd,
                number => From::Descriptor(number),
            };
            Act::new(Deed::Utimes, from, args[1]).following(true)
        }
        _ => return Acts::none(),
    };
    Acts::one(act)
}

#[cfg(not(target_arch = "x86_64"))]
fn legacy(_number: i64, _args: &[u64; 6]) -> Acts {
    Acts::none()
}

// From asm-generic/unistd.h: numbers that all architectures share.
const SYS_FCHMODAT2: i64 = 452;
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;

fn of_path(args: &[u64; 6], deed: Deed, follows: bool) -> Act {
    Act::new(deed, From::Cwd, args[0]).following(follows)
}

fn opened(from: From, path: u64, flags: i32) -> Act {
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
    let makes = flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
    let deed = match flags & libc::O_PATH == 0 && (writes || makes) {
        true => Deed::Open(flags),
        false => Deed::Read,
    };
    let exclusive = libc::O_CREAT | libc::O_EXCL;
    let follows = flags & libc::O_NOFOLLOW == 0 && flags & exclusive != exclusive;
    Act::new(deed, from, path).following(follows)
}

fn linked(old: Act, new: Act) -> Acts {
    Acts {
        all: vec![new],
        source: Some(old),
    }
}

fn renamed(old: (From, u64), new: (From, u64), flags: u64) -> Acts {
    let flags = u32::from_ne_bytes(lower_half(flags));
    let deed = match flags {
        _ if flags & libc::RENAME_EXCHANGE != 0 => Deed::Take("rename", Of::Anything),
        _ if flags & libc::RENAME_NOREPLACE != 0 => Deed::Make("rename"),
        _ => Deed::Replace,
    };
    let taken = Deed::Take("rename", Of::Anything);
    Acts {
        all: vec![Act::new(taken, old.0, old.1), Act::new(deed, new.0, new.1)],
        source: None,
    }
}

fn int(argument: u64) -> i32 {
    i32::from_ne_bytes(lower_half(argument))
}
