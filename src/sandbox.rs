//! The main flow: settings, policy, plan, launch, proxies, wait. The only place that joins
//! backend, egress and audit.

mod events;
mod proxies;

use std::io::Write;

use crate::audit::Audit;
use crate::backend::{Backend, Command, Held, Outcome};
use crate::error::Result;
use crate::linux::Linux;
use crate::policy::{Host, Policy};
use crate::settings::Settings;
use proxies::Proxies;

pub use crate::linux::launch::descriptors::check_kept;

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
    let result = settings.and_then(|settings| confine(&settings, host, command, audit));
    events::record_end(audit, &result);
    result
}

/// Prints what the kernel would be asked for `command`, and runs nothing.
///
/// # Errors
/// As for [`run`], as far as it depends on the settings.
pub fn dry_run(settings: &Settings, host: &Host, command: &Command, audit: &Audit) -> Result<()> {
    settings.refuse_unbuilt()?;
    let backend = Linux::new(command)?;
    let mut policy = Policy::from_settings(settings, host)?;
    events::warn(settings, &policy, audit);
    let plan = backend.plan(&mut policy, host, command)?;
    // A reader that leaves early is no failure.
    drop(writeln!(std::io::stdout(), "{plan}"));
    Ok(())
}

fn confine(settings: &Settings, host: &Host, command: &Command, audit: &Audit) -> Result<Outcome> {
    settings.refuse_unbuilt()?;
    let backend = Linux::new(command)?;
    let mut policy = Policy::from_settings(settings, host)?;
    events::warn(settings, &policy, audit);
    let plan = backend.plan(&mut policy, host, command)?;
    audit.debug(format_args!("plan\n{plan}"));
    // Both forks come before any thread: the child of a threaded process may only make
    // async-signal-safe calls until it execs; see fork(2).
    let mut held = backend.spawn(plan)?;
    let proxies = Proxies::start(held.hand_off()?, policy.network, audit)?;
    let report = held.report()?;
    proxies.wait_until_ready()?;
    events::record_start(audit, command, &report);
    held.release()?;
    let outcome = held.wait(Some(proxies.events()), &mut || proxies.record_events(audit))?;
    proxies.record_rest(audit);
    Ok(outcome)
}
