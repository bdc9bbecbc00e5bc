//! What the kernel will be asked, as data: no system call here, no decision in `launch`.

mod display;
pub mod environment;
pub mod filter;
pub mod ids;
pub mod limits;
pub mod mounts;
pub mod ruleset;

use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::backend::Command;
pub use crate::backend::Observed;
use crate::error::{Error, Kind, Result};
use crate::linux::support;
use crate::policy::environment::Dropped;
use crate::policy::filesystem::Access;
use crate::policy::network::Network;
use crate::policy::path::RealPath;
use crate::policy::{Host, Nesting, NetworkMode, Policy};
use filter::User;

/// Port of the HTTP proxy on the sandbox's loopback.
pub const HTTP_PORT: u16 = 3128;
/// Port of the SOCKS5 proxy on the sandbox's loopback.
pub const SOCKS_PORT: u16 = 1080;
/// Port of the sandbox's loopback that connections of programs come to that know no proxy.
/// Above those the kernel gives out by itself; see ip_local_port_range in ip(7).
pub const CAPTURE_PORT: u16 = 61443;
/// Port that names are asked for at, whatever the server; see RFC 1035, 4.2.
pub const RESOLVER_PORT: u16 = 53;

/// Everything one launch does.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The file view, in the order it is built.
    pub mounts: Vec<mounts::MountOp>,
    /// Paths of it that a search found. Such a one may be gone when the view is built, and then
    /// there is nothing to protect.
    pub passing: HashSet<PathBuf>,
    /// The second layer over the same files; empty where mounts have to hold alone.
    pub ruleset: Vec<ruleset::Rule>,
    /// Seccomp programs, in the order they are installed.
    pub filters: Vec<filter::Filter>,
    /// The program of the command alone, whose calls the broker performs or tells of.
    pub stopped: Option<filter::Filter>,
    /// What it tells of.
    pub observed: Observed,
    /// Whether the Unix sockets of the host are open to the command.
    pub host_sockets: HostSockets,
    /// Whether it is a run of its own or one inside another.
    pub place: Place,
    /// Which namespaces the command may make.
    pub nesting: Nesting,
    /// Whether the command has a network of its own.
    pub network: NetworkMode,
    /// Ports init listens on inside, each with the proxy that serves it.
    pub listeners: Vec<(Role, u16)>,
    /// How programs that know no proxy are served, where they are.
    pub capture: Option<Capture>,
    /// Working directory of the command.
    pub cwd: RealPath,
    /// Files to try to execute, in order.
    pub programs: Vec<CString>,
    /// Argument vector of the command.
    pub argv: Vec<CString>,
    /// Environment of the command, `NAME=value` each.
    pub env: Vec<CString>,
    /// Variables of the caller that are not in it.
    pub dropped: Vec<Dropped>,
    /// Descriptors above 2 that the command keeps, sorted.
    pub keep_fds: Vec<RawFd>,
    /// Which users and groups there are.
    pub ids: ids::Ids,
    /// Whether the command keeps what root writes files of others by.
    pub keeps_file_capabilities: bool,
    /// What the command may use up.
    pub limits: limits::Limits,
    /// Whether what the command leaves running is waited for.
    pub keep_background: bool,
    /// Which Landlock the kernel has.
    pub landlock_abi: i32,
}

/// Whether the Unix sockets of the host are open to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostSockets {
    /// But for those that are listed, out of reach.
    Closed,
    /// Nothing judges a connection.
    Open,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// On a host: it makes namespaces and builds its view of the files.
    Host,
    /// In a sandbox of ours, whose namespaces, view and network it shares.
    Sandbox,
}

impl Place {
    /// Returns the network a run has here where `asked` is what its policy says: inside a
    /// sandbox there is none of its own.
    pub fn network(self, asked: NetworkMode) -> NetworkMode {
        match self {
            Self::Host => asked,
            Self::Sandbox => NetworkMode::Open,
        }
    }
}

/// Which proxy serves a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// HTTP, absolute-form and CONNECT.
    Http,
    /// SOCKS5.
    Socks,
    /// Connections of programs that know no proxy.
    Captured,
    /// Questions for names, as a stream.
    Resolver,
    /// Questions for names, as datagrams.
    ResolverDatagrams,
}

/// How programs that know no proxy are served: every address is local, names are answered, and
/// connections are redirected to [`CAPTURE_PORT`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// Ports to listen on where connections cannot be redirected.
    pub ports: Vec<u16>,
}

/// What a plan needs beside the policy: things of this machine that were read or made before.
#[derive(Debug)]
pub struct Inputs<'a> {
    /// The caller's surroundings.
    pub host: &'a Host,
    /// Working directory, resolved.
    pub cwd: RealPath,
    /// The command and what it keeps.
    pub command: &'a Command,
    /// The FIFO of a job server the command may use.
    pub job_server: Option<PathBuf>,
    /// The shell for a string, where there is one.
    pub shell: &'static str,
    /// Directory exported as `TMPDIR`.
    pub tmpdir: PathBuf,
    /// Which file layers to build.
    pub layers: Layers,
    /// Where the run stands.
    pub place: Place,
    /// What the command may use up, and by what that is kept here.
    pub limits: limits::Limits,
    /// Which users and groups there are.
    pub ids: ids::Ids,
    /// Which Landlock the kernel has.
    pub landlock_abi: i32,
}

/// The file layers; both, but for tests that show each holds alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layers {
    /// Mounts and Landlock.
    Both,
    /// The mount tree alone.
    Mounts,
    /// Landlock alone.
    Landlock,
}

impl Plan {
    /// Tells whether the command keeps CAP_SETFCAP, without which the kernel lets nobody map
    /// user 0 into a namespace; see user_namespaces(7).
    pub fn keeps_setfcap(&self) -> bool {
        self.nesting != Nesting::Refused && self.ids.inside.0 == 0 && self.place == Place::Host
    }

    /// Tells whether the command keeps any capability.
    pub fn keeps_capabilities(&self) -> bool {
        self.keeps_setfcap() || self.keeps_file_capabilities
    }

    /// Tells whether a signal of the command to its whole process group stays in the sandbox.
    pub fn scopes_signals(&self) -> bool {
        self.landlock_abi >= support::SIGNAL_SCOPE_ABI
    }

    /// Turns what is allowed into what the kernel is asked.
    ///
    /// # Errors
    /// The working directory is hidden, or the command holds a NUL byte.
    pub fn from_policy(policy: &Policy, inputs: Inputs<'_>) -> Result<Self> {
        refuse_hidden_cwd(policy, &inputs.cwd)?;
        let Inputs {
            host,
            cwd,
            command,
            job_server,
            shell,
            tmpdir,
            layers,
            place,
            limits,
            ids,
            landlock_abi,
        } = inputs;
        // Only one program in force can have a listener, and the sandbox around may have one.
        let observed = match place {
            Place::Host => command.observed,
            Place::Sandbox => Observed::Nothing,
        };
        let nesting = policy.nesting;
        let argv = words(command, shell);
        let network = place.network(policy.network_mode);
        let user = match ids.inside.0 {
            _ if command.fake_root => User::FakeRoot,
            0 => User::Root,
            _ => User::Ordinary,
        };
        Ok(Self {
            mounts: match place {
                Place::Host => mounts::plan(&policy.filesystem, layers, nesting),
                Place::Sandbox => Vec::new(),
            },
            passing: policy.filesystem.passing(),
            ruleset: ruleset::plan(&policy.filesystem, job_server, layers, nesting),
            filters: filter::for_caller(user, policy, place, observed),
            host_sockets: match filter::judges_sockets(policy, place) {
                true => HostSockets::Closed,
                false => HostSockets::Open,
            },
            stopped: filter::stopped(policy, place, observed),
            observed,
            place,
            nesting,
            network,
            listeners: match network {
                NetworkMode::Filtered => listeners(),
                NetworkMode::Open => Vec::new(),
            },
            capture: match network {
                NetworkMode::Filtered => capture(&policy.network),
                NetworkMode::Open => None,
            },
            cwd,
            programs: programs(
                argv.first().map_or(OsStr::new(""), OsString::as_os_str),
                host,
            )?,
            argv: argv
                .iter()
                .map(|word| c_string(word))
                .collect::<Result<_>>()?,
            env: environment::plan(&policy.environment, &tmpdir)?,
            dropped: policy.environment.dropped().to_vec(),
            keep_fds: command.keep_fds.clone(),
            ids,
            keeps_file_capabilities: policy.keeps_file_capabilities && place == Place::Host,
            limits,
            keep_background: command.keep_background,
            landlock_abi,
        })
    }
}

fn refuse_hidden_cwd(policy: &Policy, cwd: &RealPath) -> Result<()> {
    let decision = policy.filesystem.decide(cwd.as_path());
    if decision.access != Access::Hidden {
        return Ok(());
    }
    let key = decision
        .read_rule
        .map_or("filesystem.denyRead", |rule| rule.origin.key);
    let goal = format!("the working directory {cwd} is hidden by `{key}`");
    Err(Error::new(Kind::Settings, goal)
        .with_hint("add it to `filesystem.allowRead`, or start from another directory"))
}

fn listeners() -> Vec<(Role, u16)> {
    let mut listeners = vec![(Role::Http, HTTP_PORT)];
    if cfg!(feature = "socks") {
        listeners.push((Role::Socks, SOCKS_PORT));
    }
    listeners
}

fn capture(network: &Network) -> Option<Capture> {
    let mut ports: Vec<u16> = vec![22, 80, 443];
    ports.extend(network.ports());
    // First what stands together: ten thousand entries may be about one port.
    ports.dedup();
    ports.sort_unstable();
    ports.dedup();
    let is_ours = |port: &u16| [HTTP_PORT, SOCKS_PORT, RESOLVER_PORT].contains(port);
    ports.retain(|port| !is_ours(port));
    ports.truncate(MOST_PORTS);
    network.is_transparent().then_some(Capture { ports })
}

/// Two sockets each, and all of them go over in one message.
const MOST_PORTS: usize = 24;

/// Puts the shell in front of a shell string.
fn words(command: &Command, shell: &str) -> Vec<OsString> {
    let Some(string) = &command.shell_string else {
        return command.argv.clone();
    };
    // `--` ends the shell's own options, so that a string may begin with a dash.
    let mut argv: Vec<OsString> = vec![shell.into(), "-c".into(), "--".into(), string.clone()];
    argv.extend(command.argv.iter().cloned());
    argv
}

/// Lists the files execvp(3) would try for `word`.
fn programs(word: &OsStr, host: &Host) -> Result<Vec<CString>> {
    if word.is_empty() {
        return Ok(Vec::new());
    }
    if word.as_bytes().contains(&b'/') {
        return Ok(vec![c_string(word)?]);
    }
    // An empty element of PATH is the working directory; see execvp(3).
    std::env::split_paths(host.search_path())
        .map(|dir| c_string(named_in(&dir, word).as_os_str()))
        .collect()
}

fn named_in(dir: &std::path::Path, word: &OsStr) -> PathBuf {
    if dir.as_os_str().is_empty() {
        PathBuf::from(".").join(word)
    } else {
        dir.join(word)
    }
}

fn c_string(text: &OsStr) -> Result<CString> {
    CString::new(text.as_bytes()).map_err(|_| {
        Error::new(
            Kind::Usage,
            format!("an argument holds a NUL byte: {}", text.display()),
        )
    })
}
