//! Makes the directories that `allowWrite` asks for, and judges the settings with them there.

use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};

use crate::audit::Audit;
use crate::error::{Error, Kind, Result};
use crate::policy::filesystem::Access;
use crate::policy::{Host, Policy, path};
use crate::settings::Settings;

/// Returns the policy of a run, with the directories made that it is to open.
pub(super) fn policy(settings: &Settings, host: &Host, audit: &Audit) -> Result<Policy> {
    let mut policy = Policy::from_settings(settings, host)?;
    if policy.filesystem.unmade().next().is_some() {
        make_granted(&policy, host, audit);
        // A rule for what was missing and a link on the way are judged by what is there now.
        policy = Policy::from_settings(settings, host)?;
    }
    let own = make_own(settings, &policy, host)?;
    policy.filesystem.protect_files(&own, host)?;
    Ok(policy)
}

fn make_granted(policy: &Policy, host: &Host, audit: &Audit) {
    for path in policy.filesystem.unmade() {
        match make(path, host.home.as_deref()) {
            Ok(()) => audit.verbose(format_args!("made {}", path.display())),
            // Less is granted than was asked for, which weakens nothing.
            Err(errno) => audit.warn(format_args!(
                "filesystem.allowWrite: cannot make {}: mkdir: {errno}; not granted",
                path.display()
            )),
        }
    }
}

/// Makes the directories of settings and records that are missing where the command could make
/// them itself, and leave there what later runs believe; returns those it made.
fn make_own(settings: &Settings, policy: &Policy, host: &Host) -> Result<Vec<PathBuf>> {
    let mut made = Vec::new();
    for dir in &settings.own {
        let way = path::way(dir);
        let is_missing = matches!(way.found, Err(Errno::ENOENT));
        if !is_missing || policy.filesystem.access(&way.end) != Access::Write {
            continue;
        }
        match make(&way.end, host.home.as_deref()) {
            Ok(()) => made.push(dir.clone()),
            // What we cannot make, the command cannot.
            Err(Errno::ENOENT | Errno::EACCES | Errno::EROFS) => {}
            Err(errno) => {
                let goal = format!("cannot make {}", dir.display());
                return Err(Error::new(Kind::Launch, goal).call("mkdir", errno).with_hint(
                    "the command could make it and have later runs believe what it leaves there",
                ));
            }
        }
    }
    Ok(made)
}

/// Makes a directory and those above it, mode 0700, as an application makes its own by the XDG
/// base directory specification. `path` is free of links: one met now was put there since.
fn make(path: &Path, home: Option<&Path>) -> nix::Result<()> {
    // A home that is missing was not meant to be there, as with HOME=/nonexistent.
    if home.is_some_and(|home| path.starts_with(home) && !home.exists()) {
        return Err(Errno::ENOENT);
    }
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut directory = open("/", flags, Mode::empty())?;
    for part in path.components() {
        if let Component::Normal(name) = part {
            directory = enter(&directory, Path::new(name), flags)?;
        }
    }
    Ok(())
}

fn enter(directory: &OwnedFd, name: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    match openat(directory, name, flags, Mode::empty()) {
        Err(Errno::ENOENT) => {}
        found => return found,
    }
    match mkdirat(directory, name, Mode::S_IRWXU) {
        // Another run of ours may have made it in between.
        Ok(()) | Err(Errno::EEXIST) => openat(directory, name, flags, Mode::empty()),
        Err(errno) => Err(errno),
    }
}
