//! Control groups for the command: found, made, joined, read and removed. See cgroups(7).

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};

use super::mountinfo::Mount;
use crate::backend::{Limit, Means};
use crate::error::{Error, Kind, Result};
use crate::linux::plan::limits::{Counter, Group};

/// The file that processes join a group by.
const MEMBERS: &str = "cgroup.procs";

/// Where groups can be made.
#[derive(Debug, Default)]
pub(super) struct Hierarchies(Vec<(Limit, PathBuf, Means)>);

impl Hierarchies {
    /// Returns the group below which `limit` can be kept, and the version of groups it is of.
    pub(super) fn of(&self, limit: Limit) -> Option<(&Path, Means)> {
        let found = self.0.iter().find(|(other, ..)| *other == limit);
        found.map(|(_, parent, means)| (&**parent, *means))
    }
}

/// Finds where groups for `wanted` can be made: version 2 for all of them, or version 1 for each.
pub(super) fn find(mounts: &[Mount], wanted: &[(Limit, u64)]) -> Hierarchies {
    let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits: Vec<_> = wanted.iter().map(|(limit, _)| *limit).collect();
    if let Some(parent) = version2(mounts, &memberships, &limits) {
        let all = limits.into_iter();
        return Hierarchies(
            all.map(|limit| (limit, parent.clone(), Means::Group2))
                .collect(),
        );
    }
    let found = limits.into_iter().filter_map(|limit| {
        let parent = version1(mounts, &memberships, limit)?;
        Some((limit, parent, Means::Group1))
    });
    Hierarchies(found.collect())
}

fn controller(limit: Limit) -> Option<&'static str> {
    match limit {
        Limit::Memory => Some("memory"),
        Limit::Processes => Some("pids"),
        _ => None,
    }
}

/// Returns the caller's group, or one above it that hands its controllers down.
fn version2(mounts: &[Mount], memberships: &str, limits: &[Limit]) -> Option<PathBuf> {
    let own = memberships
        .lines()
        .find_map(|line| line.strip_prefix("0::"))?;
    let mut mounts = mounts.iter().filter(|mount| mount.kind == "cgroup2");
    let (root, own) =
        mounts.find_map(|mount| Some((&mount.place, mount.shows(Path::new(own))?)))?;
    delegated(root, &own, limits)
}

/// As [`version2`], in the tree below `root`.
fn delegated(root: &Path, own: &Path, limits: &[Limit]) -> Option<PathBuf> {
    for group in own.ancestors().take_while(|group| group.starts_with(root)) {
        let handed_down = fs::read_to_string(group.join("cgroup.subtree_control")).ok()?;
        let mut names = limits.iter().filter_map(|limit| controller(*limit));
        let has_all = names.all(|name| handed_down.split_whitespace().any(|word| word == name));
        // Who moves a process writes to a group above both of its places.
        if has_all && can_write(group) && can_write(&group.join(MEMBERS)) {
            return Some(group.to_owned());
        }
        // Beside this group the command would be out of the bounds that this one has.
        let has_bounds = |file| {
            let bound = fs::read_to_string(group.join(file));
            bound.is_ok_and(|bound| bound.trim() != "max")
        };
        if ["memory.max", "memory.high", "pids.max", "memory.swap.max"]
            .into_iter()
            .any(has_bounds)
        {
            return None;
        }
    }
    None
}

fn version1(mounts: &[Mount], memberships: &str, limit: Limit) -> Option<PathBuf> {
    let name = controller(limit)?;
    let has_name = |list: &str| list.split(',').any(|word| word == name);
    let own = memberships.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        has_name(controllers).then_some(path)
    })?;
    let mut mounts = mounts.iter().filter(|mount| {
        // Its directory has the names of the controllers.
        let of = mount.place.file_name().and_then(|name| name.to_str());
        mount.kind == "cgroup" && of.is_some_and(has_name)
    });
    let own = mounts.find_map(|mount| mount.shows(Path::new(own)))?;
    (can_write(&own) && can_write(&own.join(MEMBERS))).then_some(own)
}

fn can_write(path: &Path) -> bool {
    access(path, AccessFlags::W_OK).is_ok()
}

/// The groups of one run. Dropping them removes them.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Made>);

#[derive(Debug)]
struct Made {
    path: PathBuf,
    /// Locked, so that no other run takes the group for one that was left behind.
    _lock: File,
    members: File,
    counters: Vec<Counter>,
}

impl Groups {
    /// Makes a group for each of `plan`, and removes those of runs that were killed.
    ///
    /// # Errors
    /// One cannot be made, or does not take its bounds.
    pub(super) fn make(plan: &[Group]) -> Result<Self> {
        let mut made = Self::default();
        for group in plan {
            sweep(&group.parent);
            made.0.push(Made::new(group).map_err(|(path, error)| {
                let goal = "cannot make a control group for the limits of the command";
                Error::new(Kind::Launch, goal)
                    .call(format!("write({})", path.display()), error)
                    .with_hint(
                        "remove limits.memory and limits.processes, or start srt from a group \
                         that may have others below it",
                    )
            })?);
        }
        Ok(made)
    }

    /// Puts this process into each of them.
    pub(super) fn join(&self) -> io::Result<()> {
        // 0 stands for who writes it.
        self.0
            .iter()
            .try_for_each(|group| (&group.members).write_all(b"0"))
    }

    /// Tells whether the kernel has refused something for want of `limit`.
    pub(super) fn has_refused(&self, limit: Limit) -> bool {
        self.0.iter().any(|group| group.count(limit) > 0)
    }
}

impl Made {
    fn new(group: &Group) -> Result<Self, (PathBuf, io::Error)> {
        let (path, lock, members) =
            create(&group.parent).map_err(|error| (group.parent.clone(), error))?;
        let made = Self {
            path: path.clone(),
            _lock: lock,
            members,
            counters: group.counters.clone(),
        };
        for setting in &group.files {
            let file = path.join(setting.file);
            let written = write(&file, setting.value);
            match written {
                Err(error) if error.kind() == io::ErrorKind::NotFound && setting.may_lack => {}
                other => other.map_err(|error| (file, error))?,
            }
        }
        Ok(made)
    }

    fn count(&self, limit: Limit) -> u64 {
        let counters = self
            .counters
            .iter()
            .filter(|counter| counter.limit == limit);
        let counts = counters.filter_map(|counter| {
            let text = fs::read_to_string(self.path.join(counter.file)).ok()?;
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            let (_, number) = lines.find(|(word, _)| *word == counter.word)?;
            number.trim().parse::<u64>().ok()
        });
        counts.sum()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // A process that has just ended may still be counted for a moment.
        for _ in 0..100 {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => return,
            }
        }
    }
}

/// Makes a group of a new name; returns it locked, with the file that processes join by.
fn create(parent: &Path) -> io::Result<(PathBuf, File, File)> {
    let mut tries = 0;
    loop {
        let path = parent.join(name()?);
        fs::create_dir(&path)?;
        let opened: io::Result<_> = (|| {
            let lock = File::open(&path)?;
            lock.lock()?;
            let members = File::options().write(true).open(path.join(MEMBERS))?;
            Ok((lock, members))
        })();
        let error = match opened {
            Ok((lock, members)) => return Ok((path, lock, members)),
            Err(error) => error,
        };
        drop(fs::remove_dir(&path));
        tries += 1;
        // The sweep of another run was faster than the lock.
        if error.kind() != io::ErrorKind::NotFound || tries == MOST_TRIES {
            return Err(error);
        }
    }
}

/// How often a group is made that others remove at once.
const MOST_TRIES: u32 = 8;

/// Writes to a file that has to be there.
fn write(file: &Path, value: u64) -> io::Result<()> {
    let mut file = File::options().write(true).open(file)?;
    file.write_all(value.to_string().as_bytes())
}

/// What the names of the groups of this user begin with.
fn prefix() -> String {
    format!("srt-{}-", rustix::process::getuid().as_raw())
}

fn name() -> io::Result<String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(format!("{}{:016x}", prefix(), u64::from_ne_bytes(bytes)))
}

/// Removes the groups that killed runs left below `parent`. What cannot be removed stays.
fn sweep(parent: &Path) {
    let prefix = prefix();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(&prefix));
        if !is_ours {
            continue;
        }
        let Ok(group) = File::open(entry.path()) else {
            continue;
        };
        match group.try_lock() {
            // One with processes in it is not removed.
            Ok(()) => drop(fs::remove_dir(entry.path())),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests;
