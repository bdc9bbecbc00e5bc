//! The main flow: settings, policy, plan, launch, proxies, wait. The only place that joins
//! backend, egress and audit.

mod broker;
mod directories;
mod events;
mod proxies;

use crate::audit::Audit;
use crate::backend::{Backend, Command, Held, Outcome};
use crate::error::Result;
use crate::linux::plan::filter;
use crate::linux::{self, Linux};
use crate::policy::{Host, Policy};
use crate::settings::Settings;
use proxies::Proxies;

pub use crate::linux::launch::descriptors::check_kept;
pub use crate::linux::plan::filter::Line;
pub use crate::linux::plan::mounts::private_access;

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
    let result = settings.and_then(|settings| confine(settings, host, command, audit));
    events::record_end(audit, &result);
    result
}

/// Returns what a run under `settings` holds to, but for the directory it makes for itself.
///
/// # Errors
/// As for [`run`]: what it could not enforce.
pub fn policy(settings: &Settings, host: &Host) -> Result<Policy> {
    let mut policy = Policy::from_settings(settings, host)?;
    linux::complete(&mut policy, host)?;
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
    let backend = Linux::new(command, settings.nested)?;
    let mut policy = Policy::from_settings(settings, host)?;
    backend.fit(&mut policy)?;
    events::warn(settings, &policy, audit);
    let plan = backend.plan(&mut policy, host, command)?;
    let mut shown = String::new();
    for path in policy.filesystem.unmade() {
        shown += &format!("directory: make {}, writable\n", path.display());
    }
    Ok(format!("{shown}{plan}\n"))
}

/// Returns every system call that a command under `settings` does without, and why.
///
/// # Errors
/// As for [`run`], as far as it depends on the settings.
pub fn system_calls(settings: &Settings, host: &Host) -> Result<Vec<Line>> {
    settings.refuse_unbuilt()?;
    let policy = Policy::from_settings(settings, host)?;
    Ok(filter::lines(&filter::of(&policy, host)))
}

fn confine(settings: Settings, host: &Host, command: &Command, audit: &Audit) -> Result<Outcome> {
    settings.refuse_unbuilt()?;
    let backend = Linux::new(command, settings.nested)?;
    let mut policy = directories::policy(&settings, host, audit)?;
    if let Some(path) = audit.path() {
        policy.filesystem.protect_file(path, host)?;
    }
    backend.fit(&mut policy)?;
    events::warn(&settings, &policy, audit);
    events::record_weakenings(&settings, &policy, backend.is_inside(), audit);
    let plan = backend.plan(&mut policy, host, command)?;
    audit.debug(format_args!("plan\n{plan}"));
    // Both forks come before any thread: the child of a threaded process may only make
    // async-signal-safe calls until it execs; see fork(2).
    let mut held = backend.spawn(plan)?;
    let proxies = match held.hand_off()? {
        Some(hand_off) => Some(Proxies::start(hand_off, policy.network, audit)?),
        None => None,
    };
    let prepared = broker::prepare(held.stops_calls())?;
    // To free them is to write to pages that the children share, which copies each page first;
    // ten thousand rules take longer to free than to enforce.
    std::mem::forget((settings, policy.filesystem, policy.environment));
    let broker = broker::start(prepared, held.trapped()?, policy.sockets, audit)?;
    let report = held.report()?;
    proxies.iter().try_for_each(Proxies::wait_until_ready)?;
    events::record_start(audit, command, &report);
    held.release()?;
    let lines = proxies.iter().map(Proxies::events).chain([broker.events()]);
    let lines: Vec<_> = lines.collect();
    let watched: Vec<_> = lines.iter().map(|line| line.descriptor()).collect();
    let outcome = held.wait(&watched, &mut || {
        lines.iter().for_each(|line| line.record(audit));
    })?;
    proxies
        .iter()
        .for_each(|proxies| proxies.record_rest(audit));
    broker.record_rest(audit);
    Ok(outcome)
}
