//! The main flow: settings, policy, plan, launch, proxies, wait. The only place that joins
//! backend, egress and audit.

mod broker;
mod directories;
pub(crate) mod events;
mod hidden;
mod outside;
mod patience;
mod proxies;

use std::mem::ManuallyDrop;
use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;

use crate::audit::Audit;
use crate::backend::{Backend, Command, Held, Outcome};
use crate::error::Result;
use crate::linux::launch::descriptors;
use crate::linux::plan::{filter, mounts};
use crate::linux::{self, Linux};
use crate::policy::filesystem::Access;
use crate::policy::{Host, Nesting, Policy};
use crate::settings::Settings;
use outside::Helpers;

/// What [`system_calls`] returns.
pub use crate::linux::plan::filter::Line;

/// Runs `command` under `settings` and returns how it ended.
///
/// Settings that could not be read are taken too, so that the refusal is recorded like any.
///
/// # Errors
/// A protection could not be set up, or the command could not be executed; it did not run.
pub fn run(
    settings: Result<Settings>,
    host: &Host,
    command: &Command,
    audit: &Audit,
) -> Result<Outcome> {
    // Never freed, which takes longer than the end of the process.
    let settings = settings.map(ManuallyDrop::new);
    let result = settings.and_then(|settings| confine(&settings, host, command, audit));
    events::record_end(audit, &result);
    result
}

/// Returns what a run under `settings` holds to, but for the directory it makes for itself.
///
/// # Errors
/// As for [`run`]: what it could not enforce.
pub fn policy(settings: &Settings, host: &Host) -> Result<Policy> {
    let mounts = linux::mounts()?;
    patience::refuse_endless(settings, host, &mounts)?;
    let mut policy = Policy::from_settings(settings, host)?;
    linux::complete(&mut policy, host, &mounts)?;
    Ok(policy)
}

/// Says what the kernel would be asked for `command`, and runs nothing.
///
/// # Errors
/// As for [`run`], as far as it depends on the settings.
pub fn dry_run(
    settings: &Settings,
    host: &Host,
    command: &Command,
    audit: &Audit,
) -> Result<String> {
    settings.refuse_unbuilt()?;
    let mut backend = Linux::new(command, settings.nested)?;
    patience::refuse_endless(settings, host, backend.mounts())?;
    let mut policy = Policy::from_settings(settings, host)?;
    backend.fit(&mut policy)?;
    events::warn(settings, &policy, audit);
    let plan = backend.plan(&mut policy, host, command)?;
    let mut shown = String::new();
    for path in policy.filesystem.unmade() {
        shown += &format!("directory: make {}, writable\n", path.display());
    }
    Ok(format!("{shown}{plan:#}\n"))
}

/// Returns every system call that a command under `settings` does without, and why.
///
/// # Errors
/// As for [`run`], as far as it depends on the settings.
pub fn system_calls(settings: &Settings, host: &Host) -> Result<Vec<Line>> {
    settings.refuse_unbuilt()?;
    patience::refuse_endless(settings, host, &linux::mounts()?)?;
    let policy = Policy::from_settings(settings, host)?;
    Ok(filter::lines(&filter::of(&policy, host)))
}

/// Returns what a command may do with a path that every run makes anew or masks, whatever the
/// settings say; `None` where they decide.
pub fn private_access(path: &Path, nesting: Nesting) -> Option<Access> {
    mounts::private_access(path, nesting)
}

/// Checks that descriptors which flags name are there; `example` shows such a flag.
///
/// # Errors
/// One of them is not open.
pub fn check_kept(fds: &[RawFd], example: &str) -> Result<()> {
    descriptors::check_kept(fds, example)
}

/// Returns a descriptor of the caller for ourselves to write to.
///
/// # Errors
/// It is not open, or not for writing.
pub fn writable(number: RawFd) -> Result<OwnedFd> {
    descriptors::writable(number)
}

fn confine(settings: &Settings, host: &Host, command: &Command, audit: &Audit) -> Result<Outcome> {
    settings.refuse_unbuilt()?;
    let mut backend = Linux::new(command, settings.nested)?;
    patience::refuse_endless(settings, host, backend.mounts())?;
    let mut policy = directories::policy(settings, host, audit)?;
    policy.filesystem.protect_files(&audit.paths(), host)?;
    backend.fit(&mut policy)?;
    events::announce(settings, &policy, command, backend.place(), audit);
    let plan = backend.plan(&mut policy, host, command)?;
    events::tell_of_plan(&plan, audit);
    let (programs, observed) = (plan.programs().to_vec(), plan.observed());
    let mounts = backend.take_mounts();
    let mut held = backend.spawn(plan)?;
    let helpers = Helpers::start(&mut held, policy, observed, host, audit)?;
    let report = held.report()?;
    helpers.wait_until_ready()?;
    linux::refuse_new_names(mounts, held.first_process())?;
    events::record_start(&mut held, command, &report, audit);
    let released = held.release();
    released.map_err(|error| hidden::explain(error, &programs, helpers.files(), host))?;
    let ended = helpers.follow(held, audit)?;
    events::record_reached(audit, &ended.reached);
    Ok(ended.outcome)
}
