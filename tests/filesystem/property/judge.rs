//! What has to come of an act, from the policy's answer about where it lands.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sandbox_runtime::policy::filesystem::{Access, Filesystem};

use super::draw::Act;

/// What has to come of an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The same as outside.
    Granted,
    /// It fails, and changes nothing.
    Refused,
    /// What is there is not told.
    Hidden,
    /// The rights are there, but a mount may be in the way: EBUSY, EXDEV.
    Either,
}

/// Judges acts on a tree under a policy.
pub(super) struct Judge<'a> {
    policy: &'a Filesystem,
    root: &'a Path,
    /// Paths where a mount may begin.
    edges: HashSet<PathBuf>,
    /// Names that stay where they are though they could be written: links that lead to what is
    /// denied, and directories above it.
    fixed: HashSet<PathBuf>,
}

/// Where a path leads, and by which links.
struct Landing {
    path: PathBuf,
    links: Vec<PathBuf>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(policy: &'a Filesystem, root: &'a Path) -> Self {
        let boundaries = policy.boundaries();
        let pins = boundaries.iter().filter(|path| policy.is_pinned(path));
        let pins = pins.map(|path| path.as_path().to_path_buf());
        let links = policy.held().map(|link| link.path.clone());
        let fixed: HashSet<_> = pins.chain(links).collect();
        let edges = boundaries.iter().map(|path| path.as_path().to_path_buf());
        Self {
            policy,
            root,
            edges: edges.chain(fixed.iter().cloned()).collect(),
            fixed,
        }
    }

    pub(super) fn of(&self, act: &Act) -> Due {
        let follows = !matches!(
            act.name,
            "create" | "mkdir" | "symlink" | "link" | "unlink" | "rmdir" | "rename"
        );
        let mut landings = Vec::new();
        for path in act.paths() {
            match self.landing(path, follows) {
                Ok(landing) => landings.push(landing),
                // Leads nowhere, so that it fails wherever it is tried.
                Err(_) => return Due::Granted,
            }
        }
        let mut rights = landings.iter().map(|landing| self.access(landing));
        match act.name {
            "read" | "list" => match rights.all(|access| access != Access::Hidden) {
                true => Due::Granted,
                false => Due::Hidden,
            },
            // Two names of one file: nothing is done, and that works.
            "rename" if self.are_one(&landings) => Due::Either,
            _ if rights.any(|access| access != Access::Write) => Due::Refused,
            "unlink" | "rmdir" | "rename" => self.of_moving(&landings),
            "link" => self.of_linking(&landings),
            _ => Due::Granted,
        }
    }

    /// Tells whether an answer about what is hidden says nothing of it. An empty stand-in shows
    /// the way to what is shown again below it.
    pub(super) fn tells_nothing(&self, act: &Act, answer: &str) -> bool {
        let Some(found) = answer.strip_prefix("ok .") else {
            return true;
        };
        let found = bytes(found);
        if act.name == "read" || found.is_empty() {
            return found.is_empty();
        }
        let path = act.paths().next().expect("it has one");
        let Ok(Landing { path, .. }) = self.landing(path, true) else {
            return false;
        };
        let mut names = found
            .split(|byte| *byte == b'/')
            .filter(|name| !name.is_empty());
        names.all(|name| {
            let name = path.join(OsStr::from_bytes(name));
            let mut shown = self.edges.iter().filter(|edge| edge.starts_with(&name));
            shown.any(|edge| self.policy.access(edge) != Access::Hidden)
        })
    }

    fn access(&self, landing: &Landing) -> Access {
        let hidden = |path: &PathBuf| self.policy.access(path) == Access::Hidden;
        match landing.links.iter().any(hidden) {
            true => Access::Hidden,
            false => self.policy.access(&landing.path),
        }
    }

    /// Removal and renaming take the name out of its directory, with all below it.
    fn of_moving(&self, landings: &[Landing]) -> Due {
        let writable = |path: &Path| self.policy.access(path) == Access::Write;
        let paths = || landings.iter().map(|landing| &*landing.path);
        let within = |edge: &&PathBuf| paths().any(|path| edge.starts_with(path));
        let mut moved = self.edges.iter().filter(within);
        if paths().any(|path| !path.parent().is_some_and(writable))
            || moved
                .clone()
                .any(|edge| self.fixed.contains(edge) || !writable(edge))
        {
            return Due::Refused;
        }
        match moved.next().is_some() || self.are_apart(landings) {
            true => Due::Either,
            false => Due::Granted,
        }
    }

    fn are_one(&self, landings: &[Landing]) -> bool {
        let file = |landing: &Landing| {
            let meta = fs::symlink_metadata(&landing.path).ok()?;
            Some((meta.dev(), meta.ino()))
        };
        let mut files = landings.iter().map(file);
        let first = files.next().flatten();
        first.is_some() && files.all(|file| file == first)
    }

    fn of_linking(&self, landings: &[Landing]) -> Due {
        let is_edge = self.edges.contains(&landings[0].path);
        match is_edge || self.are_apart(landings) {
            true => Due::Either,
            false => Due::Granted,
        }
    }

    /// Tells whether a mount may begin between two paths.
    fn are_apart(&self, landings: &[Landing]) -> bool {
        let mount = |path: &Path| {
            let mut above = path.ancestors().skip(1);
            above
                .find(|path| self.edges.contains(*path))
                .map(Path::to_path_buf)
        };
        let mut mounts = landings.iter().map(|landing| mount(&landing.path));
        let first = mounts.next();
        mounts.any(|mount| Some(mount) != first)
    }

    /// Follows links as the kernel does, by the state of the host.
    fn landing(&self, path: &[u8], follows: bool) -> io::Result<Landing> {
        let mut links = Vec::new();
        let mut left: Vec<_> = names(Path::new(OsStr::from_bytes(path)));
        let mut at = self.root.to_path_buf();
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let is_last = left.is_empty();
            match fs::read_link(&next) {
                Ok(target) if follows || !is_last => {
                    if links.len() > 40 {
                        return Err(nix::errno::Errno::ELOOP.into());
                    }
                    links.push(next);
                    if target.is_absolute() {
                        at = PathBuf::from("/");
                    }
                    left.extend(names(&target));
                }
                _ if is_last => at = next,
                _ if next.is_dir() => at = next,
                _ => return Err(io::ErrorKind::NotFound.into()),
            }
        }
        Ok(Landing { path: at, links })
    }
}

/// The names of a path, last first.
fn names(path: &Path) -> Vec<std::ffi::OsString> {
    let parts = path.components().rev();
    let names = parts.filter(|part| {
        !matches!(
            part,
            std::path::Component::RootDir | std::path::Component::CurDir
        )
    });
    names.map(|part| part.as_os_str().to_owned()).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let pairs = pairs.map(|pair| std::str::from_utf8(pair).expect("it is ASCII"));
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).expect("the probe writes hex"))
        .collect()
}
