//! The second file layer, restricting this process by what it may open.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::errno::Errno;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use super::failure::{At, Failure, Step};
use super::rootfs;
use crate::linux::plan::ruleset::{Grant, Object, Rule};
use crate::linux::plan::{HostSockets, Place, Plan};
use crate::linux::{support, sys};

/// A ruleset ready to restrict the process that will be the command.
pub(super) struct Layer {
    ruleset: Option<RulesetCreated>,
    abi: u8,
}

/// Makes the ruleset from the plan, while paths can still be opened without links.
///
/// The TCP rights of ABI 4 are left out: they name ports, not addresses, and every port of
/// the sandbox's own loopback is the command's.
pub(super) fn prepare(plan: &Plan) -> Result<Layer, Failure> {
    let rules = &plan.ruleset;
    let found = plan.landlock_abi;
    if found < support::MIN_LANDLOCK_ABI {
        return Err(Failure::new(Step::Landlock, Errno::ENOSYS));
    }
    let known = found.min(support::MAX_LANDLOCK_ABI);
    let abi = ABI::from(known);
    let mut handled = AccessFs::from_all(abi);
    if plan.host_sockets == HostSockets::Open {
        // This right is about those.
        handled.remove(AccessFs::ResolveUnix);
    }
    if rules.is_empty() {
        // Not even one right: with any, the kernel refuses every mount.
        handled = BitFlags::EMPTY;
    }
    if handled.is_empty() && Scope::from_all(abi).is_empty() {
        return Ok(Layer {
            ruleset: None,
            abi: 0,
        });
    }
    let mut ruleset = create(abi, handled).map_err(failed)?;
    for rule in rules {
        ruleset = add(ruleset, rule, abi, plan.place)?;
    }
    Ok(Layer {
        ruleset: Some(ruleset),
        abi: u8::try_from(known).unwrap_or_default(),
    })
}

impl Layer {
    /// Restricts this process and everything it starts; irreversible. Returns the ABI in
    /// force.
    ///
    /// Must come after the last mount: a restricted process may not change the mount tree.
    pub(super) fn restrict_self(self) -> Result<u8, Failure> {
        let Some(ruleset) = self.ruleset else {
            return Ok(0);
        };
        // The crate leaves no_new_privs to us: it is set, and checked, for the whole launch.
        let status = ruleset
            .no_new_privs(false)
            .restrict_self()
            .map_err(failed)?;
        if status.ruleset != landlock::RulesetStatus::FullyEnforced {
            return Err(Failure::new(Step::Landlock, Errno::ENOTSUP));
        }
        Ok(self.abi)
    }
}

/// Leaves this process nothing of the file tree but to read below `readable`, of which those
/// that are missing are passed over, and no process to signal.
pub(crate) fn restrict_to_reading<P: AsRef<Path>>(
    readable: impl IntoIterator<Item = P>,
) -> io::Result<()> {
    let found = sys::landlock_abi().min(support::MAX_LANDLOCK_ABI);
    let abi = ABI::from(found);
    let mut handled = AccessFs::from_all(abi);
    // Resolvers ask services over sockets, which say themselves who may.
    handled.remove(AccessFs::ResolveUnix);
    let mut ruleset = create(abi, handled).map_err(io::Error::other)?;
    for path in readable {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Ok(place) = rustix::fs::open(path.as_ref(), flags, Mode::empty()) else {
            continue;
        };
        let rights = match FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode) {
            FileType::Directory => AccessFs::ReadFile | AccessFs::ReadDir,
            _ => AccessFs::ReadFile.into(),
        };
        let rule = PathBeneath::new(&place, rights);
        ruleset = ruleset.add_rule(rule).map_err(io::Error::other)?;
    }
    let status = ruleset.no_new_privs(false).restrict_self();
    match status.map_err(io::Error::other)?.ruleset {
        landlock::RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Keeps the signals of this process, and of everything it starts, from init and executor,
/// which stay outside the domain this adds. Does nothing where the kernel has no such scope.
pub(super) fn keep_signals_in(plan: &Plan) -> Result<(), Failure> {
    // KERNEL(6.12): before, a process group of its own keeps them from the caller alone.
    if !plan.scopes_signals() {
        return Ok(());
    }
    let place = OFlags::PATH | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", place, Mode::empty()).at(Step::Landlock)?;
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = ruleset.scope(Scope::Signal).map_err(failed)?;
    let ruleset = if plan.ruleset.is_empty() {
        ruleset.create()
    } else {
        // Links and renames between directories are refused by every layer beside one for
        // files that does not speak of them; see landlock(7), LANDLOCK_ACCESS_FS_REFER.
        let handled = ruleset.handle_access(AccessFs::Refer);
        handled
            .and_then(Ruleset::create)
            .and_then(|ruleset| ruleset.add_rule(PathBeneath::new(&root, AccessFs::Refer)))
    };
    let status = ruleset
        .and_then(|ruleset| ruleset.no_new_privs(false).restrict_self())
        .map_err(failed)?;
    match status.ruleset {
        landlock::RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(Failure::new(Step::Landlock, Errno::ENOTSUP)),
    }
}

/// Asks for all this ABI knows, as a hard requirement: less than the kernel says it has would
/// be a weaker sandbox without a word.
fn create(abi: ABI, handled: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset = match handled.is_empty() {
        true => ruleset,
        false => ruleset.handle_access(handled)?,
    };
    let scopes = Scope::from_all(abi);
    if scopes.is_empty() {
        ruleset.create()
    } else {
        ruleset.scope(scopes)?.create()
    }
}

fn add(
    ruleset: RulesetCreated,
    rule: &Rule,
    abi: ABI,
    stands: Place,
) -> Result<RulesetCreated, Failure> {
    match &rule.on {
        Object::Path(path) => {
            let place = match stands {
                Place::Host => rootfs::open(CWD, path),
                Place::Sandbox => rootfs::open_by_names(path),
            };
            let place = place.at_path(Step::Landlock, path)?;
            let rights = rights(rule.grant, abi) & rights_on(&place, abi, path)?;
            add_rule(ruleset, place.as_fd(), rights)
        }
        Object::Descriptor(number) => match sys::inherited(*number) {
            Some(fd) => add_rule(ruleset, fd, as_opened(fd, abi)?),
            None => Ok(ruleset),
        },
    }
}

fn add_rule(
    ruleset: RulesetCreated,
    fd: BorrowedFd<'_>,
    rights: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Failure> {
    if rights.is_empty() {
        return Ok(ruleset);
    }
    ruleset
        .add_rule(PathBeneath::new(fd, rights))
        .map_err(failed)
}

fn rights(grant: Grant, abi: ABI) -> BitFlags<AccessFs> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    // Sockets of the sandbox need no grant; those of the host are connected to outside.
    let sockets = AccessFs::from_all(abi) & AccessFs::ResolveUnix;
    let control = AccessFs::from_all(abi) & AccessFs::IoctlDev;
    let truncate = AccessFs::from_all(abi) & AccessFs::Truncate;
    match grant {
        Grant::List => AccessFs::ReadDir.into(),
        Grant::Read => AccessFs::from_read(abi),
        Grant::Write => AccessFs::from_all(abi) & !devices & !control & !sockets,
        Grant::Device => AccessFs::from_read(abi) | AccessFs::WriteFile | truncate | control,
        Grant::AsOpened => BitFlags::EMPTY,
    }
}

/// The kernel refuses directory rights on anything but a directory.
fn rights_on(place: &impl AsFd, abi: ABI, path: &Path) -> Result<BitFlags<AccessFs>, Failure> {
    let stat = rustix::fs::fstat(place).at_path(Step::Landlock, path)?;
    let directory = FileType::from_raw_mode(stat.st_mode).is_dir();
    Ok(if directory {
        AccessFs::from_all(abi)
    } else {
        AccessFs::from_file(abi)
    })
}

/// Opening `/dev/stdout` again goes to the file it was opened on, which lies in the host's
/// tree. It stays possible in the mode the caller chose, and in no other.
fn as_opened(fd: BorrowedFd<'_>, abi: ABI) -> Result<BitFlags<AccessFs>, Failure> {
    let stat = rustix::fs::fstat(fd).at(Step::Landlock)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    // Pipes and sockets have no place in a tree, so that Landlock lets them be.
    if !matches!(kind, FileType::RegularFile | FileType::CharacterDevice) {
        return Ok(BitFlags::EMPTY);
    }
    let mode = rustix::fs::fcntl_getfl(fd).at(Step::Landlock)? & OFlags::RWMODE;
    let all = AccessFs::from_all(abi);
    let mut rights = BitFlags::EMPTY;
    if mode != OFlags::WRONLY {
        rights |= AccessFs::ReadFile;
    }
    if mode != OFlags::RDONLY {
        rights |= all & (AccessFs::WriteFile | AccessFs::Truncate);
    }
    if kind == FileType::CharacterDevice {
        rights |= all & AccessFs::IoctlDev;
    }
    Ok(rights)
}

fn failed(error: RulesetError) -> Failure {
    let mut source: Option<&dyn std::error::Error> = Some(&error);
    let errno = std::iter::from_fn(|| {
        let current = source?;
        source = current.source();
        Some(current)
    })
    .find_map(|error| error.downcast_ref::<io::Error>()?.raw_os_error());
    Failure::new(Step::Landlock, errno.map_or(Errno::EINVAL, Errno::from_raw))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_grant_opens_sockets_of_the_host() {
        for grant in [
            Grant::List,
            Grant::Read,
            Grant::Write,
            Grant::Device,
            Grant::AsOpened,
        ] {
            assert!(!rights(grant, ABI::V9).contains(AccessFs::ResolveUnix));
        }
        assert!(AccessFs::from_all(ABI::V9).contains(AccessFs::ResolveUnix));
    }

    #[test]
    fn what_is_not_readable_cannot_be_opened_and_nothing_executed_or_written() {
        let own = std::env::temp_dir().join(format!("srt-unit-{}-reading", std::process::id()));
        std::fs::write(&own, "x").unwrap();
        let look = |own: &Path| {
            let opened = [Path::new("/etc/passwd"), own].map(|path| std::fs::read(path).is_ok());
            let written = std::fs::write(own, "y").is_ok();
            let executed = std::process::Command::new("true").status().is_ok();
            (opened, written, executed)
        };
        assert_eq!(look(&own), ([true, true], true, true));
        // Of a thread alone, and of what it starts.
        let confined = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                rustix::thread::set_no_new_privs(true).unwrap();
                restrict_to_reading(["/etc", "/no/such/directory"]).unwrap();
                look(&own)
            });
            thread.join().unwrap()
        });
        assert_eq!(confined, ([true, false], false, false));
        std::fs::remove_file(&own).unwrap();
    }
}
