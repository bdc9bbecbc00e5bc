//! Settings as written, layer over layer: every value, with the place it stands at.
//!
//! No defaults of an operating system live here; [`crate::policy`] turns settings into rules.

mod checks;
mod fields;
mod flags;
mod form;
mod json;
pub mod json_schema;
mod keys;
mod layers;
mod origin;
pub mod profile;
pub mod reference;
pub mod schema;
mod source;
mod support;
pub mod trust;
pub mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::error::Result;

pub use flags::Flags;
pub use layers::{InForce, Search};
pub use origin::{Entry, Layer, Origin};
pub(crate) use schema::nearest_word;
pub(crate) use source::{quoted, shown};
use values::{Data, Values};

/// What all settings together say. `Settings::default()` is what holds without any.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Settings {
    /// `network`: which hosts may be reached.
    pub network: Network,
    /// `filesystem`: which paths may be read and written.
    pub filesystem: Filesystem,
    /// `env`: which variables the command gets.
    pub env: Env,
    /// `git`: how git is set up inside.
    pub git: Git,
    /// `credentials`: files and variables that hold secrets.
    pub credentials: Credentials,
    /// `seccompProfile`: which system calls the command does without.
    pub seccomp_profile: SeccompProfile,
    /// `allowNestedUserNamespaces`: which namespaces the command may make.
    pub nesting: Nesting,
    /// `nested`: what a run inside a sandbox does.
    pub nested: Nested,
    /// `limits`: what the command may use up.
    pub limits: RunLimits,
    /// Every value of every layer, by key; what the fields above are made of.
    pub values: Values,
    /// Granting lists of the system's file, which bound those of all layers above it.
    pub ceiling: Values,
    /// Granting lists of a project file that is not trusted, which narrow those below it.
    pub narrowing: Values,
    /// The files this was read from, lowest layer first.
    pub files: Vec<InForce>,
    /// Files and directories of settings, profiles and trust that later runs may read.
    pub guarded: Vec<PathBuf>,
    /// The directories of those, which may be missing.
    pub own: Vec<PathBuf>,
    /// What the caller should read before the command runs.
    pub warnings: Vec<String>,
}

/// `network`, as written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Network {
    /// Whether there are proxies at all.
    pub mode: NetworkMode,
    /// Hosts that may be reached; an empty list is none.
    pub allowed_domains: Vec<Entry>,
    /// Hosts that may not, whatever else says so.
    pub denied_domains: Vec<Entry>,
    /// What to say when an entry of `denied_domains` refuses, each with that entry.
    pub denied_reasons: Vec<(Entry, Entry)>,
    /// Addresses and networks that no name may lead to.
    pub denied_addresses: Vec<Entry>,
    /// Names may lead to private addresses.
    pub allow_private_networks: bool,
    /// Programs that know no proxy are served too.
    pub transparent: bool,
    /// What is said inside a connection has to name the host it was allowed for.
    pub requires_host_match: bool,
    /// What the proxies may be used up to.
    pub limits: Limits,
    /// Unix sockets of the host that may be reached, or directories of such.
    pub allow_unix_sockets: Vec<Entry>,
    /// Every Unix socket of the host may be reached.
    pub allow_all_unix_sockets: bool,
    /// The command gets the proxy variables.
    pub sets_proxy_env: bool,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            mode: NetworkMode::Filtered,
            allowed_domains: Vec::new(),
            denied_domains: Vec::new(),
            denied_reasons: Vec::new(),
            denied_addresses: Vec::new(),
            allow_private_networks: false,
            transparent: false,
            requires_host_match: true,
            limits: Limits::default(),
            allow_unix_sockets: Vec::new(),
            allow_all_unix_sockets: false,
            sets_proxy_env: true,
        }
    }
}

/// `network.limits`, as written.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections open at once.
    pub connections: u64,
    /// Seconds a request head may take.
    pub header_seconds: u64,
    /// Seconds a connection may be idle.
    pub idle_seconds: u64,
    /// Bytes a second and direction, 0 for no bound.
    pub bytes_per_second: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            header_seconds: 10,
            idle_seconds: 3600,
            bytes_per_second: 0,
        }
    }
}

/// `limits`, as written; `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunLimits {
    /// Seconds the command may run.
    pub seconds: Option<u64>,
    /// Bytes of memory of all its processes.
    pub memory: Option<u64>,
    /// Processes and threads at once.
    pub processes: Option<u64>,
    /// Files a process may have open.
    pub files: Option<u64>,
    /// Bytes of a file it writes.
    pub file_size: Option<u64>,
    /// Seconds of processor time a process may use.
    pub cpu_seconds: Option<u64>,
}

/// How the command reaches the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NetworkMode {
    /// Through filtering proxies alone.
    #[default]
    Filtered,
    /// As any program of the host.
    Open,
}

/// Which system calls the command does without; see `seccomp-profiles`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SeccompProfile {
    /// What gives a way out or a way around the rules, and what no ordinary program needs.
    #[default]
    Default,
    /// What builds, compilers and interpreters do without, too.
    Strict,
}

/// Which namespaces the command may make; see `seccomp-profiles/nested.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Nesting {
    /// None.
    #[default]
    Refused,
    /// User namespaces, and those that browsers make in them; no mounts.
    Userns,
    /// Those that containers make, with mounts in them.
    Mounts,
}

/// What a run inside a sandbox of ours does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Nested {
    /// It does not start.
    #[default]
    Refuse,
    /// It confines the command by Landlock and filters alone.
    Inner,
}

/// `filesystem`, as written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Filesystem {
    /// There are no rules for files.
    pub disabled: bool,
    /// Paths to hide.
    pub deny_read: Vec<Entry>,
    /// Paths to show again inside a hidden one.
    pub allow_read: Vec<Entry>,
    /// Paths that may be written.
    pub allow_write: Vec<Entry>,
    /// Paths that may not be written, whatever else says so.
    pub deny_write: Vec<Entry>,
    /// Well-known stores of secrets are hidden.
    pub protects_secrets: bool,
    /// Names that are protected and may be written all the same.
    pub allow_protected: Vec<Entry>,
    /// Git's configuration of repositories may be written.
    pub allow_git_config: bool,
    /// A root caller keeps what it writes files of others by.
    pub keeps_file_capabilities: bool,
}

impl Default for Filesystem {
    fn default() -> Self {
        Self {
            disabled: false,
            deny_read: Vec::new(),
            allow_read: Vec::new(),
            allow_write: Vec::new(),
            deny_write: Vec::new(),
            protects_secrets: true,
            allow_protected: Vec::new(),
            allow_git_config: false,
            keeps_file_capabilities: false,
        }
    }
}

/// `env`, as written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Env {
    /// The caller's variables are passed on unless a rule drops them.
    pub inherit: bool,
    /// Names and patterns of variables to pass on.
    pub allow: Vec<Entry>,
    /// Names and patterns of variables to drop, or `@secrets`.
    pub deny: Vec<Entry>,
    /// Variables to set, each with its value.
    pub set: Vec<(Entry, Entry)>,
}

impl Default for Env {
    fn default() -> Self {
        Self {
            inherit: true,
            allow: Vec::new(),
            deny: Vec::new(),
            set: Vec::new(),
        }
    }
}

/// `git`, as written.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Git {
    /// Repositories of other users that git may work in.
    pub safe_directories: Vec<Entry>,
}

/// `credentials`, as written: the entries of mode `deny`.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Credentials {
    /// Files and directories to hide, whatever shows them again.
    pub files: Vec<Entry>,
    /// Variables to unset.
    pub variables: Vec<Entry>,
}

impl Settings {
    /// Reads one file, which has to be there, as `--settings` names it, and nothing else.
    ///
    /// # Errors
    /// It cannot be read, is not JSON, or holds what no settings file may. All problems of its
    /// keys are reported together, each with an excerpt.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_with_text(path).map(|(settings, _)| settings)
    }

    /// Reads one file as [`Settings::read`] does, and returns its text too.
    ///
    /// # Errors
    /// As for [`Settings::read`].
    pub fn read_with_text(path: &Path) -> Result<(Self, String)> {
        layers::single(path)
    }

    /// Reads every layer: `explicit` or the files that are found, and `flags` over all.
    ///
    /// # Errors
    /// As for [`Settings::read`], for every file; a file that was found is not the caller's to
    /// trust; a layer goes beyond what one below it allows.
    pub fn load(search: &Search<'_>, explicit: Option<&Path>, flags: Values) -> Result<Self> {
        layers::load(search, explicit, flags)
    }

    /// Returns these settings without what they say of files, for a question about hosts.
    #[must_use]
    pub fn without_files(&self) -> Self {
        let mut settings = self.clone();
        settings.filesystem = Filesystem::default();
        settings.credentials.files.clear();
        settings.files.retain(|file| file.layer == Layer::System);
        settings
    }

    /// Returns the texts whose denials reports leave out, each list by a text of the command.
    pub fn ignored(&self) -> impl Iterator<Item = (&str, &[Entry])> {
        let lists = self.values.lists("ignoreViolations").iter();
        lists.map(|(command, texts)| (command.text.as_str(), texts.as_slice()))
    }

    /// Makes the typed fields of merged values.
    fn from_values(values: Values) -> Self {
        let list = |key| values.list(key).to_vec();
        let seccomp_profile = match values.text("seccompProfile") {
            Some("strict") => SeccompProfile::Strict,
            _ => SeccompProfile::Default,
        };
        Self {
            network: network(&values),
            filesystem: filesystem(&values),
            env: Env {
                inherit: values.bool_or("env.inherit", true),
                allow: list("env.allow"),
                deny: list("env.deny"),
                set: values.map("env.set").to_vec(),
            },
            git: Git {
                safe_directories: list("git.safeDirectories"),
            },
            credentials: Credentials {
                files: denied(&values, "credentials.files", "path"),
                variables: denied(&values, "credentials.envVars", "name"),
            },
            seccomp_profile,
            nesting: match values.text("allowNestedUserNamespaces") {
                Some("userns") => Nesting::Userns,
                Some("mounts") => Nesting::Mounts,
                _ => Nesting::Refused,
            },
            nested: match values.text("nested") {
                Some("inner") => Nested::Inner,
                _ => Nested::Refuse,
            },
            limits: run_limits(&values),
            values,
            ..Self::default()
        }
    }
}

fn network(values: &Values) -> Network {
    let list = |key| values.list(key).to_vec();
    Network {
        mode: match values.text("network.mode") {
            Some("open") => NetworkMode::Open,
            _ => NetworkMode::Filtered,
        },
        allowed_domains: list("network.allowedDomains"),
        denied_domains: list("network.deniedDomains"),
        denied_reasons: values.map("network.deniedDomainReasons").to_vec(),
        denied_addresses: list("network.deniedResolvedAddresses"),
        allow_private_networks: values.bool_or("network.allowPrivateNetworks", false),
        transparent: values.bool_or("network.transparent", true),
        requires_host_match: values.bool_or("network.requireHostMatch", true),
        limits: limits(values),
        allow_unix_sockets: list("network.allowUnixSockets"),
        allow_all_unix_sockets: values.bool_or("network.allowAllUnixSockets", false),
        sets_proxy_env: values.bool_or("network.proxyEnv", true),
    }
}

fn filesystem(values: &Values) -> Filesystem {
    let list = |key| values.list(key).to_vec();
    Filesystem {
        disabled: values.bool_or("filesystem.disabled", false),
        deny_read: list("filesystem.denyRead"),
        allow_read: list("filesystem.allowRead"),
        allow_write: list("filesystem.allowWrite"),
        deny_write: list("filesystem.denyWrite"),
        protects_secrets: values.bool_or("filesystem.protectSecrets", true),
        allow_protected: list("filesystem.allowProtected"),
        keeps_file_capabilities: values.bool_or("filesystem.keepFileCapabilities", false),
        allow_git_config: values.bool_or("filesystem.allowGitConfig", false),
    }
}

fn run_limits(values: &Values) -> RunLimits {
    RunLimits {
        seconds: values.int("limits.seconds"),
        memory: values.int("limits.memory"),
        processes: values.int("limits.processes"),
        files: values.int("limits.files"),
        file_size: values.int("limits.fileSize"),
        cpu_seconds: values.int("limits.cpuSeconds"),
    }
}

fn limits(values: &Values) -> Limits {
    let default = Limits::default();
    let number = |key, default| values.int(key).unwrap_or(default);
    Limits {
        connections: number("network.limits.connections", default.connections),
        header_seconds: number("network.limits.headerSeconds", default.header_seconds),
        idle_seconds: number("network.limits.idleSeconds", default.idle_seconds),
        bytes_per_second: number("network.limits.bytesPerSecond", default.bytes_per_second),
    }
}

/// Returns what the records of mode `deny` are about.
fn denied(values: &Values, key: &str, name: &str) -> Vec<Entry> {
    let records = values.records(key).iter();
    let denied = records.filter(|record| record.text("mode") == Some("deny"));
    let entries = denied.filter_map(|record| {
        let value = record.fields.get(name)?;
        match &value.data {
            Data::Text(text) => Some(Entry::new(text.clone(), value.origin.clone())),
            _ => None,
        }
    });
    entries.collect()
}

/// The path of a file, shared by everything that was read from it.
pub(crate) type FilePath = Arc<Path>;
