//! Makes the directories that `allowWrite` asks for, and judges the settings with them there.

use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};

use crate::audit::Audit;
use crate::error::Result;
use crate::policy::{Host, Policy};
use crate::settings::Settings;

/// Returns the policy of a run, with the directories made that it is to open.
pub(super) fn policy(settings: &Settings, host: &Host, audit: &Audit) -> Result<Policy> {
    let policy = Policy::from_settings(settings, host)?;
    if policy.filesystem.unmade().next().is_none() {
        return Ok(policy);
    }
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
    // A rule for what was missing and a link on the way are judged by what is there now.
    Policy::from_settings(settings, host)
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
