//! The caller's surroundings, read once: everything below is a function of its arguments.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use super::path;
use crate::error::{Error, Kind, Result};

/// Who calls, from where, with what environment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Host {
    /// Working directory, absolute, as the kernel reports it.
    pub cwd: PathBuf,
    /// `HOME`, if it is an absolute path.
    pub home: Option<PathBuf>,
    /// Environment, in order.
    pub env: Vec<(OsString, OsString)>,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    /// The program of this process, where it has a name.
    pub program: Option<PathBuf>,
}

impl Host {
    /// Reads the surroundings of this process.
    ///
    /// # Errors
    /// The working directory is gone or cannot be reached, or the process runs with more
    /// rights than its caller has.
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the one place that reads them"
    )]
    pub fn read() -> Result<Self> {
        refuse_set_uid()?;
        let cwd = std::env::current_dir().map_err(|error| {
            Error::new(Kind::Usage, "cannot use the working directory")
                .call("getcwd", error)
                .with_hint("it was removed or is not readable: change to another directory")
        })?;
        if !cwd.is_absolute() {
            return Err(
                Error::new(Kind::Usage, "the working directory is outside this root")
                    .with_hint("change to another directory"),
            );
        }
        let env: Vec<_> = std::env::vars_os().collect();
        let uid = nix::unistd::geteuid().as_raw();
        let gid = nix::unistd::getegid().as_raw();
        let home = lookup(&env, "HOME")
            .map(PathBuf::from)
            .filter(|home| home.is_absolute());
        Ok(Self {
            cwd,
            home,
            env,
            uid,
            gid,
            program: own_program()?,
        })
    }

    /// Takes another working directory.
    ///
    /// # Errors
    /// It cannot be entered.
    #[allow(
        clippy::disallowed_methods,
        reason = "this too is about the surroundings"
    )]
    pub fn enter(&mut self, dir: &Path) -> Result<()> {
        let error = |call: &str, source| {
            Error::new(Kind::Usage, format!("cannot work in {}", dir.display()))
                .call(call, source)
                .with_hint("name a directory you can enter")
        };
        std::env::set_current_dir(dir).map_err(|source| error("chdir", source))?;
        let named = named_from(&self.cwd, dir);
        self.cwd = std::env::current_dir().map_err(|source| error("getcwd", source))?;
        // As a shell does after `cd`: the caller's tells of another directory.
        self.env.retain(|(name, _)| name != "PWD");
        let named = named.unwrap_or_else(|| self.cwd.clone());
        self.env.push(("PWD".into(), named.into()));
        Ok(())
    }

    /// Returns the working directory by the name the caller uses, where that is another one and
    /// leads there.
    pub fn named_cwd(&self) -> Option<&Path> {
        let named = Path::new(self.var("PWD")?);
        let is_other = named.is_absolute() && named != self.cwd;
        (is_other && path::way(named).end == self.cwd).then_some(named)
    }

    /// Returns a variable of the environment, unless it is empty.
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        lookup(&self.env, name)
    }

    /// Returns `PATH`, or the directories a shell searches without one.
    pub fn search_path(&self) -> &OsStr {
        self.var("PATH")
            .unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"))
    }

    /// Tells whether `word` names a program: a path to a file, or a file on `PATH`.
    pub fn is_program(&self, word: &OsStr) -> bool {
        let is_file = |path: &Path| path.metadata().is_ok_and(|meta| meta.is_file());
        if word.as_encoded_bytes().contains(&b'/') {
            return is_file(&self.cwd.join(word));
        }
        std::env::split_paths(self.search_path()).any(|dir| is_file(&self.cwd.join(dir).join(word)))
    }

    /// Tells whether a descriptor of this process is a pipe, as those of a job server are.
    pub fn is_pipe(fd: RawFd) -> bool {
        let file = Path::new("/dev/fd").join(fd.to_string());
        file.metadata().is_ok_and(|meta| meta.file_type().is_fifo())
    }

    /// Reads the addresses of this host's interfaces; a name that leads to one of them leads
    /// back to this host.
    ///
    /// # Errors
    /// The kernel refuses the list, without which the address guard would have a hole.
    pub fn addresses() -> Result<Vec<IpAddr>> {
        let interfaces = nix::ifaddrs::getifaddrs().map_err(|errno| {
            Error::new(Kind::Unsupported, "cannot read this host's addresses")
                .call("getifaddrs", errno)
        })?;
        let addresses = interfaces.filter_map(|interface| {
            let address = interface.address?;
            let v4 = address
                .as_sockaddr_in()
                .map(|socket| IpAddr::V4(socket.ip()));
            v4.or_else(|| {
                address
                    .as_sockaddr_in6()
                    .map(|socket| IpAddr::V6(socket.ip()))
            })
        });
        Ok(addresses.collect())
    }
}

/// Returns the name of a directory that is entered from `cwd`, which is free of links; `None`
/// where a `..` behind a name makes it another than its text says.
fn named_from(cwd: &Path, dir: &Path) -> Option<PathBuf> {
    let mut named = cwd.to_owned();
    let mut parts = dir.components().peekable();
    while parts.next_if_eq(&Component::ParentDir).is_some() {
        named.pop();
    }
    let rest: PathBuf = parts.collect();
    let goes_up = rest.components().any(|part| part == Component::ParentDir);
    (!goes_up).then(|| named.join(rest))
}

fn lookup<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let (_, value) = env.iter().find(|(key, _)| key == name)?;
    Some(value.as_os_str()).filter(|value| !value.is_empty())
}

/// Returns the program of this process; `None` where it has no name.
#[allow(
    clippy::disallowed_methods,
    reason = "this too is about the surroundings"
)]
fn own_program() -> Result<Option<PathBuf>> {
    match std::env::current_exe() {
        Ok(program) => Ok(Some(program)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(
            Error::new(Kind::Unsupported, "cannot tell which program this is")
                .call("readlink(/proc/self/exe)", error)
                .with_hint("mount /proc, and let srt read its own link there"),
        ),
    }
}

/// A set-uid launcher would read files and write events with rights its caller lacks.
fn refuse_set_uid() -> Result<()> {
    let same_user = nix::unistd::getuid() == nix::unistd::geteuid();
    let same_group = nix::unistd::getgid() == nix::unistd::getegid();
    if same_user && same_group {
        return Ok(());
    }
    Err(
        Error::new(Kind::Unsupported, "srt is installed set-uid or set-gid")
            .with_hint("remove the bit: chmod ug-s on the srt program"),
    )
}
