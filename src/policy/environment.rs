//! Which variables of the caller the command gets, and which are set for it.

mod pattern;
mod sockets;
pub mod table;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub use pattern::{SECRETS, check_deny_entry, check_name, check_name_pattern, check_value};
pub use sockets::{Granted, Names};

use super::Host;
use super::path::{self, entry_error};
use crate::error::Result;
use crate::settings::{Entry, Layer, NetworkMode, Settings, quoted};
use pattern::Patterns;
use table::{Class, Row};

/// What the settings say about variables.
#[derive(Debug)]
pub struct Rules {
    /// Whether a variable that nothing else decides on is passed.
    pub inherit: Inherit,
    /// `env.allow`: names and patterns.
    pub allow: Vec<Entry>,
    /// `env.deny`: names, patterns and `@secrets`.
    pub deny: Vec<Entry>,
    /// `@secrets` counts before `env.allow`: the system's file says it, and nobody else may
    /// take it back.
    pub firm_secrets: bool,
    /// `credentials.envVars` of mode `deny`: names.
    pub credentials: Vec<Entry>,
    /// `env.set`: names and values; of two with one name the last counts.
    pub set: Vec<(Entry, Entry)>,
    /// Whose proxy variables the command gets.
    pub proxies: Proxies,
    /// Sockets of the host the command may connect to.
    pub sockets: Granted,
    /// `git.safeDirectories`: absolute paths with links followed, or `*`.
    pub safe_directories: Vec<PathBuf>,
}

/// What happens to a variable that nothing else decides on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inherit {
    /// It is passed.
    All,
    /// It is passed if it is one of a few that programs need, [`table::BASE`].
    Base,
}

/// Whose proxy variables the command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxies {
    /// Ours, in place of the caller's.
    Ours,
    /// None: `network.proxyEnv` is false, and the caller's lead nowhere from inside.
    Nobodys,
    /// The caller's: the network of the host is shared.
    Callers,
}

/// The variables of one command, but for those that the launch makes up.
#[derive(Debug)]
#[non_exhaustive]
pub struct Environment {
    /// The caller's, in order and byte for byte, without those that are dropped or set.
    pub kept: Vec<(OsString, OsString)>,
    /// Those that `env.set` sets; they count before ours.
    pub set: Vec<(OsString, OsString)>,
    /// Whose proxy variables the command gets.
    pub proxies: Proxies,
    /// Directories git trusts whoever owns them: absolute paths, or `*`.
    pub safe_directories: Vec<PathBuf>,
    dropped: Vec<Dropped>,
}

/// A variable of the caller that the command does not get. Its value is nowhere shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// Its name.
    pub name: OsString,
    /// Why.
    pub reason: Reason,
}

/// Why a variable is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// It has no name, so that no rule could tell it from others.
    NoName,
    /// This entry of `env.deny`.
    Denied(Entry),
    /// This entry of `credentials.envVars`.
    Credential(Entry),
    /// `@secrets`, by this row.
    Secret(Row),
    /// It leads to a proxy that cannot be reached from inside, by this row.
    OtherProxy(Row),
    /// It leads to a service of the host, by this row.
    Service(Row),
    /// `env.inherit` is false.
    NotInherited,
}

impl Environment {
    /// Reads what the settings say, and decides on every variable of the caller.
    ///
    /// # Errors
    /// An entry can match no variable, sets what no variable can be, or is no path.
    pub fn from_settings(settings: &Settings, host: &Host) -> Result<Self> {
        let env = &settings.env;
        let proxies = match (settings.network.mode, settings.network.sets_proxy_env) {
            (NetworkMode::Open, _) => Proxies::Callers,
            (NetworkMode::Filtered, true) => Proxies::Ours,
            (NetworkMode::Filtered, false) => Proxies::Nobodys,
        };
        let rules = Rules {
            inherit: if env.inherit {
                Inherit::All
            } else {
                Inherit::Base
            },
            allow: env.allow.clone(),
            deny: env.deny.clone(),
            firm_secrets: denies_secrets_for_good(settings),
            credentials: settings.credentials.variables.clone(),
            set: env.set.clone(),
            proxies,
            sockets: Granted::from_settings(&settings.network, host)?,
            safe_directories: safe_directories(&settings.git.safe_directories, host)?,
        };
        Self::new(rules, &host.env, &host.cwd)
    }

    /// Decides on every variable of `caller`; relative paths in them start at `cwd`.
    ///
    /// # Errors
    /// An entry can match no variable, or sets what no variable can be.
    pub fn new(rules: Rules, caller: &[(OsString, OsString)], cwd: &Path) -> Result<Self> {
        let judge = Judge {
            allow: Patterns::parse(&rules.allow, check_name_pattern)?,
            deny: Patterns::parse(&without_preset(&rules.deny), check_deny_entry)?,
            credentials: Patterns::parse(&rules.credentials, check_name)?,
            secrets: rules.deny.iter().any(|entry| entry.text == SECRETS),
            firm_secrets: rules.firm_secrets,
            inherit: rules.inherit,
            proxies: rules.proxies,
            sockets: rules.sockets,
            caller: Caller::new(caller, cwd),
        };
        let set = last_of_each(&rules.set)?;
        let own: HashSet<&OsStr> = set.iter().map(|(name, _)| name.as_os_str()).collect();
        let mut kept = Vec::new();
        let mut dropped = Vec::new();
        for (name, value) in caller {
            if own.contains(name.as_os_str()) {
                continue;
            }
            match judge.reason(name, value) {
                None => kept.push((name.clone(), value.clone())),
                Some(reason) => dropped.push(Dropped {
                    name: name.clone(),
                    reason,
                }),
            }
        }
        Ok(Self {
            kept,
            set,
            proxies: rules.proxies,
            safe_directories: rules.safe_directories,
            dropped,
        })
    }

    /// Returns what the command does not get, in the caller's order.
    pub fn dropped(&self) -> &[Dropped] {
        &self.dropped
    }

    /// Returns the value that `name` has before the launch sets its own.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        let mut all = self.set.iter().chain(&self.kept);
        let (_, value) = all.find(|(own, _)| own == name)?;
        Some(value)
    }
}

/// Where the system's file has `env.allow` too, that list bounds what others may pass.
fn denies_secrets_for_good(settings: &Settings) -> bool {
    let of_system = |entry: &Entry| entry.text == SECRETS && entry.origin.layer == Layer::System;
    let bounded = settings.ceiling.get("env.allow").is_some();
    settings.env.deny.iter().any(of_system) && !bounded
}

fn without_preset(entries: &[Entry]) -> Vec<Entry> {
    let others = entries.iter().filter(|entry| entry.text != SECRETS);
    others.cloned().collect()
}

/// Reads directories as git compares them: with links followed, whether or not they exist.
fn safe_directories(entries: &[Entry], host: &Host) -> Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for entry in entries {
        // Git writes "this one and all below" so, which is what an entry means anyway.
        let text = match entry.literal {
            true => &entry.text,
            false => entry.text.strip_suffix("/*").unwrap_or(&entry.text),
        };
        let directory = match text {
            "*" => PathBuf::from("*"),
            "" => PathBuf::from("/"),
            text => {
                let text = text.to_owned();
                path::way(&path::absolute(&entry.with_text(text), host)?).end
            }
        };
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    Ok(directories)
}

fn last_of_each(set: &[(Entry, Entry)]) -> Result<Vec<(OsString, OsString)>> {
    let mut seen = HashSet::new();
    let mut last = Vec::new();
    for (name, value) in set.iter().rev() {
        let checked = check_name(&name.text).and_then(|()| check_value(&value.text));
        checked.map_err(|what| entry_error(name, what))?;
        if seen.insert(&name.text) {
            last.push((OsString::from(&name.text), OsString::from(&value.text)));
        }
    }
    last.reverse();
    Ok(last)
}

/// The rules, ready to be asked; the only place where their order stands.
#[derive(Debug)]
struct Judge<'a> {
    allow: Patterns,
    deny: Patterns,
    credentials: Patterns,
    secrets: bool,
    firm_secrets: bool,
    inherit: Inherit,
    proxies: Proxies,
    sockets: Granted,
    caller: Caller<'a>,
}

impl Judge<'_> {
    /// Says why a variable is dropped, if it is: the first rule that matches decides.
    fn reason(&self, name: &OsStr, value: &OsStr) -> Option<Reason> {
        if matches!(name.as_bytes().first(), None | Some(b'=')) {
            return Some(Reason::NoName);
        }
        if let Some(entry) = self.deny.find(name) {
            return Some(Reason::Denied(entry.clone()));
        }
        if let Some(entry) = self.credentials.find(name) {
            return Some(Reason::Credential(entry.clone()));
        }
        if self.firm_secrets
            && let Some(row) = self.secret(name)
        {
            return Some(Reason::Secret(row));
        }
        if self.allow.find(name).is_some() {
            return None;
        }
        self.secret(name)
            .map(Reason::Secret)
            .or_else(|| self.other_proxy(name).map(Reason::OtherProxy))
            .or_else(|| self.service(name, value).map(Reason::Service))
            .or_else(|| self.not_inherited(name))
    }

    fn secret(&self, name: &OsStr) -> Option<Row> {
        let upper = self.secrets.then(|| name.to_ascii_uppercase())?;
        find(table::SECRETS, &upper)
    }

    fn other_proxy(&self, name: &OsStr) -> Option<Row> {
        let row = find(table::OTHER_PROXIES, name).or_else(|| find(table::OURS, name))?;
        let dropped = match (row.class, self.proxies) {
            (Class::OtherProxy, Proxies::Ours | Proxies::Nobodys) => true,
            (Class::Proxy, Proxies::Nobodys) => true,
            // Ours take its place, with the caller's own entries in NO_PROXY.
            _ => false,
        };
        dropped.then_some(row)
    }

    fn service(&self, name: &OsStr, value: &OsStr) -> Option<Row> {
        let row = find(table::SERVICES, name)?;
        let Class::Service(names) = row.class else {
            return None;
        };
        let admitted = match names {
            Names::With(leader) => {
                let value = self.caller.var(leader);
                value.is_none_or(|value| self.reason(OsStr::new(leader), value).is_none())
            }
            _ => names.admits(value, &self.caller, &self.sockets),
        };
        (!admitted).then_some(row)
    }

    fn not_inherited(&self, name: &OsStr) -> Option<Reason> {
        let passed = match self.inherit {
            Inherit::All => true,
            // What the launch sets anyway takes the caller's value into account.
            Inherit::Base => find(table::BASE, name)
                .or_else(|| find(table::OURS, name))
                .is_some(),
        };
        (!passed).then_some(Reason::NotInherited)
    }
}

fn find(rows: &[Row], name: &OsStr) -> Option<Row> {
    rows.iter().find(|row| row.covers(name.as_bytes())).copied()
}

/// The caller's variables by name, and where relative paths in them start.
#[derive(Debug)]
struct Caller<'a> {
    vars: HashMap<&'a OsStr, &'a OsStr>,
    cwd: &'a Path,
}

impl<'a> Caller<'a> {
    fn new(env: &'a [(OsString, OsString)], cwd: &'a Path) -> Self {
        let mut vars = HashMap::with_capacity(env.len());
        for (name, value) in env {
            // Of two variables with one name, getenv(3) finds the first.
            vars.entry(name.as_os_str()).or_insert(value.as_os_str());
        }
        Self { vars, cwd }
    }

    fn var(&self, name: &str) -> Option<&'a OsStr> {
        self.vars.get(OsStr::new(name)).copied()
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = quoted(&self.name.to_string_lossy());
        write!(f, "variable {name} is not passed: {}", self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |f: &mut fmt::Formatter<'_>, entry: &Entry| {
            let (key, origin) = (entry.origin.key, &entry.origin);
            write!(f, "entry {} of `{key}`, {origin}", quoted(&entry.text))
        };
        match self {
            Self::NoName => f.write_str("it has no name"),
            Self::Denied(entry) | Self::Credential(entry) => by(f, entry),
            Self::Secret(row) => write!(f, "`@secrets`, {}: {}", row.pattern, row.reason),
            Self::OtherProxy(row) => write!(f, "its proxy cannot be reached: {}", row.reason),
            Self::Service(row) => write!(f, "it leads to a service of the host: {}", row.reason),
            Self::NotInherited => f.write_str("`env.inherit` is false"),
        }
    }
}

#[cfg(test)]
mod tests;
