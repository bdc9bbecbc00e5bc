//! The same questions to this program: through its library, from a settings file.

use std::path::Path;

use sandbox_runtime::policy::hostname::Target;
use sandbox_runtime::policy::{Host, Policy};
use sandbox_runtime::settings::Settings;
use serde_json::{Value, json};

use crate::harness::Scratch;

/// Returns a settings file's content with two lists of hosts and nothing else.
pub(crate) fn network(allowed: &[String], denied: &[String]) -> Value {
    json!({
        "network": { "allowedDomains": allowed, "deniedDomains": denied },
        "filesystem": { "denyRead": [], "allowWrite": [], "denyWrite": [] },
    })
}

/// Reads settings as a run in `scratch` would, its `home` and `cwd` taken for ours.
///
/// # Errors
/// What a run would print.
pub(crate) fn policy(scratch: &Scratch, settings: &Value) -> Result<Policy, String> {
    let file = scratch.file("settings.json", settings.to_string());
    let settings = Settings::read(&file).map_err(|error| error.to_string())?;
    Policy::from_settings(&settings, &host(scratch)).map_err(|error| error.to_string())
}

/// Tells whether a request for `host` and `port` would be let through.
pub(crate) fn allows(policy: &Policy, host: &str, port: u16) -> bool {
    target(host, port).is_some_and(|target| policy.network.check(target).is_ok())
}

/// Reads a host and a port as a proxy does.
pub(crate) fn target(host: &str, port: u16) -> Option<Target> {
    Target::parse(&format!("{host}:{port}"), None).ok()
}

fn host(scratch: &Scratch) -> Host {
    let mut host = Host::read().expect("the tests run somewhere");
    host.cwd = scratch.dir("cwd");
    host.home = Some(scratch.dir("home"));
    host
}

/// Returns the path as text; what these tests make has such a path.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}
