//! Builds the file view: the host's tree read-only, with the plan's mounts over it.
//!
//! Everything is done by descriptor. A path is walked without following links and compared
//! with what the plan saw, before it is copied and after it is mounted.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_change, move_mount,
    open_tree, unmount,
};

use super::devices;
use super::failure::{At, Failure, Step};
use super::filesystems;
use super::foreign::Foreign;
use super::links;
use crate::linux::plan::Plan;
use crate::linux::plan::mounts::{MountOp, Place, Places};
use crate::linux::sys::{self, MountAttr};
use crate::policy::filesystem::Access;
use crate::policy::path::{FileId, FileKind, RealPath};

/// Names in the tmpfs that stand-ins are copied from.
const EMPTY_DIRECTORY: &str = "directory";
const EMPTY_FILE: &str = "file";

/// The tree under construction.
pub(super) struct Tree {
    /// The sandbox's root.
    pub(super) root: OwnedFd,
}

/// Builds the view and makes it this process's root.
pub(super) fn build(plan: &Plan, foreign: &Foreign) -> Result<(), Failure> {
    // First act in this namespace: from here on no mount travels in or out.
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).at(Step::MakePrivate)?;
    let host = open(CWD, Path::new("/")).at(Step::FindSource)?;
    let mut ops = plan.mounts.iter();
    let first = ops.next();
    // Copied before anything is covered: afterwards the host's paths lead into our own mounts.
    let binds = ops
        .clone()
        .map(|op| unless_gone(plan, op, copy_for(plan, foreign, &host, op)))
        .collect::<Result<Vec<_>, _>>()?;
    let nodes = devices::copy_nodes(&host, ops.clone())?;
    let root = match first {
        Some(MountOp::Root(access)) => copy(&host, Path::new("/"), attributes(*access))?,
        Some(MountOp::HiddenRoot(places)) => skeleton(places, Path::new("/"))?,
        _ => return Err(Failure::new(Step::Mount, Errno::EINVAL)),
    };
    attach(&root, CWD, Path::new("/"))?;
    let tree = Tree { root };
    // KERNEL(6.15): before, copies can only be made of attached mounts. /dev is covered last.
    let stand_ins = filesystems::tmpfs("0555")?;
    filesystems::make(&stand_ins, Path::new(EMPTY_DIRECTORY), FileKind::Directory)?;
    filesystems::make(&stand_ins, Path::new(EMPTY_FILE), FileKind::File)?;
    for op in ops.clone() {
        if let MountOp::Redacted(path, text) = op {
            filesystems::write(&stand_ins, &copy_name(path), text)?;
        }
    }
    set_attributes(stand_ins.as_fd(), MountAttr::READ_ONLY, Path::new("/dev"))?;
    attach(&stand_ins, &tree.root, Path::new("/dev"))?;
    for (op, bind) in ops.zip(binds) {
        match op {
            MountOp::Dev { .. } => devices::mount(&tree, &nodes)?,
            MountOp::Bind(..) | MountOp::Link(_) if bind.is_none() => {}
            other => unless_gone(plan, other, tree.apply(plan, other, bind, &stand_ins))?,
        }
    }
    tree.switch_root()?;
    devices::reopen_standard(&nodes)
}

/// Enters the working directory, which must be the one the plan saw.
pub(super) fn enter(cwd: &RealPath) -> Result<(), Failure> {
    rustix::process::chdir(cwd.as_path()).at_path(Step::EnterDirectory, cwd.as_path())?;
    let entered = rustix::fs::stat(".").at_path(Step::EnterDirectory, cwd.as_path())?;
    if identity(&entered) == cwd.id() {
        return Ok(());
    }
    Err(Failure::new(Step::ChangedSource, Errno::ESTALE).on(cwd.as_path()))
}

impl Tree {
    fn apply(
        &self,
        plan: &Plan,
        op: &MountOp,
        bind: Option<OwnedFd>,
        stand_ins: &OwnedFd,
    ) -> Result<(), Failure> {
        match op {
            MountOp::Root(_) | MountOp::HiddenRoot(_) | MountOp::Dev { .. } => Ok(()),
            MountOp::Bind(path, _) => {
                let bind = bind.ok_or_else(|| Failure::new(Step::CloneTree, Errno::EINVAL))?;
                let place = path.as_path();
                let copied = identify(&bind).at_path(Step::CloneTree, place)?;
                attach(&bind, &self.root, place)?;
                expect_id(&self.root, below_root(place), copied, place).map(drop)
            }
            MountOp::Redacted(path, _) => {
                let place = path.as_path();
                let target = find(plan, &self.root, path)?;
                cover(stand_ins, &copy_name(path), &self.root, &target, place)
            }
            MountOp::StandIn(path, reopened) => self.hide(path, reopened, stand_ins),
            MountOp::Link(link) => {
                let copied = bind.ok_or_else(|| Failure::new(Step::HoldLink, Errno::EINVAL))?;
                links::hold(&self.root, link, &copied, plan.passing.contains(&link.path))
            }
            MountOp::Proc { masked, processes } => {
                let place = Path::new("/proc");
                let proc = filesystems::proc(*processes)?;
                attach(&proc, &self.root, place)?;
                if *processes == Access::Write {
                    self.close_all_but_processes(&proc, place)?;
                }
                self.mask(place, masked, stand_ins)
            }
            MountOp::Sys { masked } => self.mask(Path::new("/sys"), masked, stand_ins),
        }
    }

    /// Covers `path` with nothing, leaving places to mount what is shown again below it.
    fn hide(&self, path: &RealPath, reopened: &Places, stand_ins: &OwnedFd) -> Result<(), Failure> {
        // What is covered must be what the settings meant, or the secret stays readable
        // under the name it was moved to.
        let place = path.as_path();
        let target = expect_id(&self.root, below_root(place), path.id(), place)?;
        if reopened.is_empty() {
            let name = empty(path.id().kind);
            return cover(stand_ins, name, &self.root, &target, place);
        }
        let skeleton = skeleton(reopened, place)?;
        let shown = identify(&skeleton).at_path(Step::FillTmpfs, place)?;
        attach_at(&skeleton, &target, place)?;
        expect_id(&self.root, below_root(place), shown, place).map(drop)
    }

    /// Covers those of `names` below `place` that this kernel has.
    fn mask(&self, place: &Path, names: &[&str], stand_ins: &OwnedFd) -> Result<(), Failure> {
        for name in names {
            let path = place.join(name);
            let target = match open(&self.root, below_root(&path)) {
                Ok(found) => found,
                Err(rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS) => continue,
                Err(errno) => return Err(errno).at_path(Step::FindTarget, &path),
            };
            let kind = identify(&target).at_path(Step::FindTarget, &path)?.kind;
            cover(stand_ins, empty(kind), &self.root, &target, &path)?;
        }
        Ok(())
    }

    /// Makes everything of `proc` read-only but the directories of processes.
    ///
    /// A user 0 of a namespace inside passes every mode check on what belongs to user 0 here.
    fn close_all_but_processes(&self, proc: &OwnedFd, place: &Path) -> Result<(), Failure> {
        let list = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(proc, ".", list, Mode::empty())
            .and_then(|directory| Dir::read_from(&directory))
            .at_path(Step::FindSource, place)?;
        for entry in directory {
            let entry = entry.at_path(Step::FindSource, place)?;
            let name = Path::new(OsStr::from_bytes(entry.file_name().to_bytes()));
            let is_dot = entry.file_name().to_bytes().starts_with(b".");
            let is_process = entry.file_name().to_bytes()[0].is_ascii_digit();
            // Links lead to a process, or into the directory of one.
            if is_dot || is_process || entry.file_type() == FileType::Symlink {
                continue;
            }
            let path = place.join(name);
            let closed = clone_tree(proc, name).at_path(Step::CloneTree, &path)?;
            set_attributes(closed.as_fd(), MountAttr::READ_ONLY, &path)?;
            attach(&closed, &self.root, &path)?;
        }
        Ok(())
    }

    fn switch_root(&self) -> Result<(), Failure> {
        rustix::process::fchdir(&self.root).at(Step::SwitchRoot)?;
        // The same directory twice stacks the old root on the new one, so that no directory
        // is needed to put it in; see pivot_root(2), "pivot_root(".", ".")".
        rustix::process::pivot_root(".", ".").at(Step::SwitchRoot)?;
        unmount(".", UnmountFlags::DETACH).at(Step::LeaveOldRoot)?;
        rustix::process::chdir("/").at(Step::LeaveOldRoot)
    }
}

/// Forgives that a path is gone which nobody named: what is not there is not written, and other
/// runs in the same directory come and go.
fn unless_gone<T: Default>(
    plan: &Plan,
    op: &MountOp,
    done: Result<T, Failure>,
) -> Result<T, Failure> {
    let place = match op {
        MountOp::Bind(path, _) | MountOp::Redacted(path, _) => path.as_path(),
        MountOp::Link(link) => &link.path,
        _ => return done,
    };
    match done {
        Err(failure) if failure.is_missing() && plan.passing.contains(place) => Ok(T::default()),
        done => done,
    }
}

/// Copies the mount a bind will be made of; `None` for steps that copy nothing of the host.
fn copy_for(
    plan: &Plan,
    foreign: &Foreign,
    host: &OwnedFd,
    op: &MountOp,
) -> Result<Option<OwnedFd>, Failure> {
    match op {
        MountOp::Bind(path, access) => {
            let place = path.as_path();
            if let Some(tree) = foreign.trees.get(place) {
                let held = rustix::io::fcntl_dupfd_cloexec(tree, 0);
                return held.at_path(Step::CloneTree, place).map(Some);
            }
            let source = find(plan, host, path)?;
            copy_of(&source, place, attributes(*access)).map(Some)
        }
        MountOp::Link(link) => links::copy(host, link, plan.passing.contains(&link.path)).map(Some),
        _ => Ok(None),
    }
}

/// Copies the mounts at and below `path` of the host, detached, with `attr` on all of them.
fn copy(host: &OwnedFd, path: &Path, attr: MountAttr) -> Result<OwnedFd, Failure> {
    let source = open(host, below_root(path)).at_path(Step::FindSource, path)?;
    copy_of(&source, path, attr)
}

/// Copies the mounts at and below a path of this process's own namespace, detached, with ids as
/// `namespace` maps them.
pub(super) fn copy_shifted(
    path: &RealPath,
    access: Access,
    namespace: &OwnedFd,
) -> Result<OwnedFd, Failure> {
    let place = path.as_path();
    let host = open(CWD, Path::new("/")).at(Step::FindSource)?;
    let source = expect_id(&host, below_root(place), path.id(), place)?;
    let copied = clone_tree(&source, Path::new("")).at_path(Step::CloneTree, place)?;
    sys::mount_setattr_shifted(copied.as_fd(), attributes(access), namespace.as_fd())
        .at_path(Step::SetAttributes, place)?;
    Ok(copied)
}

fn copy_of(source: &OwnedFd, path: &Path, attr: MountAttr) -> Result<OwnedFd, Failure> {
    let copied = clone_tree(source, Path::new("")).at_path(Step::CloneTree, path)?;
    set_attributes(copied.as_fd(), attr, path)?;
    Ok(copied)
}

pub(super) fn clone_tree(from: &OwnedFd, path: &Path) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(from, path, flags)
}

/// Mounts `tree` at `path` below `root`, found without following a link.
pub(super) fn attach(tree: &OwnedFd, root: impl AsFd, path: &Path) -> Result<(), Failure> {
    let target = open(root, below_root(path)).at_path(Step::FindTarget, path)?;
    attach_at(tree, &target, path)
}

/// Mounts `tree` at a place that is open; it is called `path`.
fn attach_at(tree: &OwnedFd, target: &OwnedFd, path: &Path) -> Result<(), Failure> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree, "", target, "", flags).at_path(Step::Mount, path)
}

/// Makes a read-only tree of nothing but `places`, detached; it is for `path`.
fn skeleton(places: &Places, path: &Path) -> Result<OwnedFd, Failure> {
    let skeleton = filesystems::tmpfs("0555")?;
    for (below, place) in places {
        match place {
            Place::Mount(kind) => filesystems::make(&skeleton, below, *kind)?,
            Place::Link(target) => filesystems::link(&skeleton, below, target)?,
        }
    }
    set_attributes(skeleton.as_fd(), MountAttr::READ_ONLY, path)?;
    Ok(skeleton)
}

fn empty(kind: FileKind) -> &'static Path {
    Path::new(match kind {
        FileKind::Directory => EMPTY_DIRECTORY,
        FileKind::File => EMPTY_FILE,
    })
}

/// Names the stand-in that holds what is shown of a file.
fn copy_name(path: &RealPath) -> PathBuf {
    format!("{}-{}", path.id().dev, path.id().ino).into()
}

/// Mounts the stand-in of that name over `target`, which is `path` below `root`.
fn cover(
    stand_ins: &OwnedFd,
    name: &Path,
    root: &OwnedFd,
    target: &OwnedFd,
    path: &Path,
) -> Result<(), Failure> {
    let copied = clone_tree(stand_ins, name).at_path(Step::CloneTree, path)?;
    let shown = identify(&copied).at_path(Step::CloneTree, path)?;
    attach_at(&copied, target, path)?;
    expect_id(root, below_root(path), shown, path).map(drop)
}

/// Opens `path` below `dir` as a place, refusing links: the plan resolved them all, so one
/// that is there now was put there since.
pub(super) fn open(dir: impl AsFd, path: &Path) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve)
}

/// Opens a path free of links where filters take openat2(2) away, as for a root caller.
pub(super) fn open_by_names(path: &Path) -> Result<OwnedFd, rustix::io::Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut place = rustix::fs::open("/", flags, Mode::empty())?;
    for name in path.components().skip(1) {
        place = rustix::fs::openat(&place, name.as_os_str(), flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&place)?;
        if FileType::from_raw_mode(stat.st_mode).is_symlink() {
            return Err(rustix::io::Errno::LOOP);
        }
    }
    Ok(place)
}

/// Opens `path` below `dir`, which must be what has this identity.
fn expect_id(dir: impl AsFd, path: &Path, id: FileId, shown: &Path) -> Result<OwnedFd, Failure> {
    let found = open(dir, path).at_path(Step::FindTarget, shown)?;
    if identify(&found).at_path(Step::FindTarget, shown)? == id {
        return Ok(found);
    }
    Err(Failure::new(Step::ChangedSource, Errno::ESTALE).on(shown))
}

/// Opens what the plan saw at a path. Of a name that a search found, whatever has it now is meant:
/// programs write such a file by putting another in its place.
fn find(plan: &Plan, dir: impl AsFd, path: &RealPath) -> Result<OwnedFd, Failure> {
    let place = path.as_path();
    match plan.passing.contains(place) {
        true => open(dir, below_root(place)).at_path(Step::FindTarget, place),
        false => expect_id(dir, below_root(place), path.id(), place),
    }
}

fn identify(fd: &OwnedFd) -> Result<FileId, rustix::io::Errno> {
    rustix::fs::fstat(fd).map(|stat| identity(&stat))
}

fn identity(stat: &rustix::fs::Stat) -> FileId {
    let directory = FileType::from_raw_mode(stat.st_mode).is_dir();
    let kind = if directory {
        FileKind::Directory
    } else {
        FileKind::File
    };
    FileId {
        dev: stat.st_dev,
        ino: stat.st_ino,
        kind,
    }
}

fn set_attributes(mount: BorrowedFd<'_>, attr: MountAttr, path: &Path) -> Result<(), Failure> {
    sys::mount_setattr_recursive(mount, attr).at_path(Step::SetAttributes, path)
}

fn attributes(access: Access) -> MountAttr {
    match access {
        Access::Write => MountAttr::NOSUID_NODEV,
        Access::Read | Access::Hidden => MountAttr::READ_ONLY,
    }
}

pub(super) fn below_root(path: &Path) -> &Path {
    match path.strip_prefix("/") {
        Ok(below) if below.as_os_str().is_empty() => Path::new("."),
        Ok(below) => below,
        Err(_) => path,
    }
}
