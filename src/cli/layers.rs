//! The flags that choose and change settings, and the settings they lead to.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::usage;
use crate::error::Result;
use crate::policy::Host;
use crate::settings::{Flags, Search, Settings};

/// Which files are read, and what is laid over them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[non_exhaustive]
pub struct LayerFlags {
    /// settings file, in place of user's and project's
    #[arg(short, long, value_name = "file", alias = "config")]
    pub settings: Option<PathBuf>,

    /// profile to add; srt ctl profile list names them
    #[arg(short = 't', long = "profile", value_name = "name")]
    pub profiles: Vec<String>,

    /// host that may be reached, maybe with :port
    #[arg(long = "allow-domain", value_name = "host", value_hint = ValueHint::Hostname)]
    pub allow_domains: Vec<String>,

    /// host that may not be reached
    #[arg(long = "deny-domain", value_name = "host", value_hint = ValueHint::Hostname)]
    pub deny_domains: Vec<String>,

    /// reach no host, whatever the settings allow
    #[arg(long)]
    pub no_network: bool,

    /// path to show inside a hidden one
    #[arg(long, value_name = "path", alias = "ro", value_hint = ValueHint::AnyPath)]
    pub allow_read: Vec<String>,

    /// path to hide
    #[arg(long, value_name = "path", value_hint = ValueHint::AnyPath)]
    pub deny_read: Vec<String>,

    /// path that may be written; --rw is the same
    #[arg(long, value_name = "path", alias = "rw", value_hint = ValueHint::AnyPath)]
    pub allow_write: Vec<String>,

    /// path that may not be written
    #[arg(long, value_name = "path", value_hint = ValueHint::AnyPath)]
    pub deny_write: Vec<String>,

    /// variable to pass on, or to set
    #[arg(long, value_name = "name[=value]")]
    pub env: Vec<String>,

    /// end the command after this time: 90, 5m, 2h
    #[arg(long, value_name = "time", allow_hyphen_values = true)]
    pub timeout: Option<String>,

    /// memory its processes may use together: 512M, 2G
    #[arg(long, value_name = "size", allow_hyphen_values = true)]
    pub max_memory: Option<String>,

    /// processes and threads it may have at once
    #[arg(long, value_name = "n", allow_hyphen_values = true)]
    pub max_procs: Option<String>,

    /// files that each process may have open
    #[arg(long, value_name = "n", allow_hyphen_values = true)]
    pub max_files: Option<String>,

    /// size of a file that it writes
    #[arg(long, value_name = "size", allow_hyphen_values = true)]
    pub max_file_size: Option<String>,

    /// processor time that each process may use
    #[arg(long, value_name = "time", allow_hyphen_values = true)]
    pub cpu_time: Option<String>,

    /// pass the caller's variables on
    #[arg(long, conflicts_with = "clear_env")]
    pub inherit_env: bool,

    /// pass on only what programs need and --env names
    #[arg(long)]
    pub clear_env: bool,
}

impl LayerFlags {
    /// Reads all layers, these flags on top.
    ///
    /// # Errors
    /// A flag holds what its key may not, or as for [`Settings::load`].
    pub fn load(&self, host: &Host, caller_cwd: &Path) -> Result<Settings> {
        let explicit = match &self.settings {
            Some(file) if file.as_os_str().is_empty() => {
                return Err(usage("the value of --settings is empty"));
            }
            // As it was typed, for messages, wherever that leads to the same file.
            Some(file) if caller_cwd == host.cwd => Some(file.clone()),
            Some(file) => Some(caller_cwd.join(file)),
            None => None,
        };
        let flags = self.flags()?.into_values();
        Settings::load(&search(host), explicit.as_deref(), flags)
    }

    fn flags(&self) -> Result<Flags> {
        let mut flags = Flags::default();
        let lists = [
            ("extends", &self.profiles),
            ("network.allowedDomains", &self.allow_domains),
            ("network.deniedDomains", &self.deny_domains),
            ("filesystem.allowRead", &self.allow_read),
            ("filesystem.denyRead", &self.deny_read),
            ("filesystem.allowWrite", &self.allow_write),
            ("filesystem.denyWrite", &self.deny_write),
        ];
        for (key, texts) in lists {
            for text in texts {
                flags.add(key, text.clone())?;
            }
        }
        let bounds = [
            ("limits.seconds", &self.timeout),
            ("limits.memory", &self.max_memory),
            ("limits.processes", &self.max_procs),
            ("limits.files", &self.max_files),
            ("limits.fileSize", &self.max_file_size),
            ("limits.cpuSeconds", &self.cpu_time),
        ];
        for (key, text) in bounds {
            if let Some(text) = text {
                flags.bound(key, text)?;
            }
        }
        for variable in &self.env {
            match variable.split_once('=') {
                Some((name, value)) => flags.set_variable(name.to_owned(), value.to_owned())?,
                None => flags.add("env.allow", variable.clone())?,
            }
        }
        if self.no_network {
            flags.add("network.deniedDomains", "*".to_owned())?;
            flags.word("network.mode", "filtered");
        }
        if self.inherit_env || self.clear_env {
            flags.switch("env.inherit", self.inherit_env);
        }
        Ok(flags)
    }
}

/// Returns where the files of this caller are looked for.
pub(super) fn search(host: &Host) -> Search<'_> {
    Search {
        cwd: &host.cwd,
        home: host.home.as_deref(),
        config_home: host.var("XDG_CONFIG_HOME").map(Path::new),
        state_home: host.var("XDG_STATE_HOME").map(Path::new),
        uid: host.uid,
        system: Path::new(Search::SYSTEM),
    }
}
