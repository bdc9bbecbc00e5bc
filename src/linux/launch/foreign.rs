//! Trees of another user that a root caller was granted: shown as its own, so that it can write
//! them without the capability that would have it write everything.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::rootfs;
use crate::linux::plan::Plan;
use crate::linux::plan::ids::{Map, Shift};
use crate::linux::plan::mounts::MountOp;
use crate::linux::sys::{self, Forked};
use crate::policy::filesystem::Access;

/// Such trees, by their places.
#[derive(Debug, Default)]
pub(crate) struct Foreign {
    /// Copies of their mounts, with the owner's id and the caller's swapped.
    pub(super) trees: HashMap<PathBuf, OwnedFd>,
    /// Those that cannot be shown so, with their owners.
    left: Vec<(PathBuf, u32)>,
}

impl Foreign {
    /// Copies the trees of a plan that need it.
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut foreign = Self::default();
        let is_root = matches!(plan.ids.map, Map::All { .. } | Map::Own((0, _)));
        if plan.keeps_file_capabilities || !is_root {
            return foreign;
        }
        let may_map = matches!(plan.ids.map, Map::All { .. });
        let mut shifts: Vec<(&Path, Shift)> = Vec::new();
        let mut namespaces = HashMap::new();
        for op in &plan.mounts {
            let MountOp::Bind(path, access) = op else {
                continue;
            };
            let place = path.as_path();
            let around = shifts
                .iter()
                .rev()
                .find(|(tree, _)| place.starts_with(tree));
            let shift = match (around, access) {
                (Some((_, shift)), _) => *shift,
                (None, Access::Write) => match owner(place) {
                    Some(owner) if owner.0 != plan.ids.inside.0 => {
                        Shift::of(owner, plan.ids.inside)
                    }
                    _ => continue,
                },
                (None, Access::Read | Access::Hidden) => continue,
            };
            let namespace = namespaces
                .entry(shift)
                .or_insert_with(|| may_map.then(|| namespace(shift).ok()).flatten());
            let copied = namespace
                .as_ref()
                .and_then(|namespace| rootfs::copy_shifted(path, *access, namespace).ok());
            match copied {
                Some(tree) => {
                    foreign.trees.insert(place.to_owned(), tree);
                    shifts.push((place, shift));
                }
                // A part of a tree that is shown so would be another's again.
                None if around.is_some() => {}
                None => foreign.left.push((place.to_owned(), shift.owner())),
            }
        }
        foreign
    }

    /// Lists the places of the trees, sorted.
    pub(super) fn places(&self) -> Vec<&Path> {
        let mut places: Vec<_> = self.trees.keys().map(PathBuf::as_path).collect();
        places.sort_unstable();
        places
    }

    /// Says what cannot be written although it is granted, a line each.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        self.left.iter().map(|(path, owner)| {
            format!(
                "{} belongs to user {owner}, and a command without capabilities writes there what \
                 its modes let anybody write: here its owner cannot be mapped; run srt as that \
                 user, or set `filesystem.keepFileCapabilities`",
                path.display()
            )
        })
    }
}

fn owner(path: &Path) -> Option<(u32, u32)> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.uid(), meta.gid()))
}

/// Makes a user namespace that has two users and two groups swapped. Nothing ever runs in it.
fn namespace(shift: Shift) -> io::Result<OwnedFd> {
    let (held, line) = io::pipe()?;
    let (pid, pidfd) = match sys::clone_into_namespaces(libc::CLONE_NEWUSER)? {
        Forked::Child => {
            drop(line);
            // Until its maker has what it needs, or is gone.
            drop(io::Read::read(&mut &held, &mut [0]));
            sys::exit_now(0)
        }
        Forked::Parent(pid, pidfd) => (pid, pidfd),
    };
    let of_process = PathBuf::from(format!("/proc/{pid}"));
    let (users, groups) = shift.maps();
    let made = fs::write(of_process.join("gid_map"), groups)
        .and_then(|()| fs::write(of_process.join("uid_map"), users))
        .and_then(|()| fs::File::open(of_process.join("ns/user")));
    drop(line);
    let _ended = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    Ok(made?.into())
}
