//! What of a repository has git run programs, wherever it lies. Git is never run for it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::git_config;
use super::names::{Name, of_git};
use crate::policy::host::Host;
use crate::settings::shown;

/// Something that git reads or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFile {
    /// Where it is, links and all, if it is there.
    pub path: PathBuf,
    /// The name that opens it.
    pub name: &'static Name,
}

/// What was found of all repositories.
#[derive(Debug, Default)]
pub struct Repository {
    /// What is to stay as it is.
    pub files: Vec<GitFile>,
    /// Names that lead to a repository by a link, which is to stay as it is.
    pub links: Vec<PathBuf>,
    /// Working trees, each with the repository elsewhere that it needs.
    pub named: Vec<(PathBuf, PathBuf)>,
    /// Settings of submodules, as they are shown.
    pub shown: Vec<(PathBuf, String)>,
    /// What could not be understood.
    pub problems: Vec<String>,
    /// Where `~` is.
    home: Option<PathBuf>,
    /// `core.hooksPath` of the user's configuration.
    global: Vec<OsString>,
    /// The values of `core.hooksPath` by the repository, each looked at once.
    seen: HashMap<(u64, u64), Vec<OsString>>,
}

/// Git's own files are smaller; see `MAX_GITFILE_SIZE` of its setup.c.
const MAX_SIZE: u64 = 1 << 20;

/// Files that include one another; git gives up after ten.
const MAX_INCLUDES: usize = 10;

/// Names of a submodule may hold slashes.
const MAX_MODULE_DEPTH: usize = 8;

/// Programs that git runs by their names, where their directory holds other things too.
const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

impl Repository {
    /// Starts with the configuration of user and machine.
    pub fn of_user(host: &Host) -> Self {
        let mut found = Self {
            home: host.home.clone(),
            ..Self::default()
        };
        let named = host.var("GIT_CONFIG_GLOBAL").map(PathBuf::from);
        let home = host.home.as_ref().map(|home| home.join(".gitconfig"));
        let config = host.var("XDG_CONFIG_HOME").map(PathBuf::from);
        let config = config.or_else(|| Some(host.home.as_ref()?.join(".config")));
        let config = config.map(|config| config.join("git/config"));
        let files = named.into_iter().chain(home).chain(config);
        for file in files.chain([PathBuf::from("/etc/gitconfig")]) {
            if file.is_absolute() {
                let values = found.config(&file, MAX_INCLUDES);
                found.global.extend(hooks_paths(values));
            }
        }
        let global = found.global.clone();
        found.hooks_in(None, None, &global);
        found
    }

    /// Takes what is called `.git`, or a repository without a working tree.
    pub fn add(&mut self, entry: &Path) {
        let is_named = super::matching(Path::new(""), entry.file_name().unwrap_or_default());
        let tree = match is_named {
            Some(super::Match::Git) => entry.parent(),
            _ => None,
        };
        let Ok(meta) = entry.metadata() else {
            return;
        };
        if meta.is_dir() {
            if entry.is_symlink() {
                self.links.push(entry.to_owned());
            }
            return self.directory(entry, tree);
        }
        // Anything else is no repository: a mark that a cache leaves, or nothing git could use.
        if let Some(directory) = pointed_to(entry) {
            self.push(entry.to_owned(), ".git");
            if directory.is_dir() {
                if let Some(tree) = tree {
                    let common = read(&directory.join("commondir")).ok().flatten();
                    let common = common.map(|common| directory.join(path_in(&common)));
                    let needed = common.unwrap_or_else(|| directory.clone());
                    self.named.push((tree.to_owned(), needed));
                }
                self.directory(&directory, tree);
            }
        }
    }

    fn push(&mut self, path: PathBuf, name: &str) {
        let name = of_git(name);
        self.files.push(GitFile { path, name });
    }

    /// Takes a repository that is used by `tree`.
    fn directory(&mut self, directory: &Path, tree: Option<&Path>) {
        let mut hooks = self.repository(directory);
        hooks.extend(self.global.iter().cloned());
        self.hooks_in(Some(directory), tree, &hooks);
    }

    /// Looks at a repository once, and returns its values of `core.hooksPath`.
    fn repository(&mut self, directory: &Path) -> Vec<OsString> {
        let Ok(meta) = directory.metadata() else {
            return Vec::new();
        };
        let id = (meta.dev(), meta.ino());
        if let Some(hooks) = self.seen.get(&id) {
            return hooks.clone();
        }
        self.seen.insert(id, Vec::new());
        self.push(directory.join("hooks"), ".git/hooks");
        self.push(directory.join("info/attributes"), ".git/info/attributes");
        self.push(directory.join("commondir"), ".git");
        let mut hooks = Vec::new();
        for name in ["config", "config.worktree"] {
            let file = directory.join(name);
            let values = self.config(&file, MAX_INCLUDES);
            self.push(file.clone(), ".git/config");
            let trees: Vec<_> = of_key(&values, "core.worktree")
                .map(|path| directory.join(path))
                .collect();
            let own: Vec<_> = hooks_paths(values).collect();
            if trees.iter().any(|tree| leads_to(tree, directory)) {
                self.shown.extend(without_tree(&file));
            }
            for tree in trees {
                self.hooks_in(Some(directory), Some(&tree), &own);
            }
            hooks.extend(own);
        }
        if let Ok(Some(common)) = read(&directory.join("commondir")) {
            hooks.extend(self.repository(&directory.join(path_in(&common))));
        }
        for worktree in directories(&directory.join("worktrees")) {
            self.repository(&worktree);
        }
        self.modules(&directory.join("modules"), MAX_MODULE_DEPTH);
        self.seen.insert(id, hooks.clone());
        hooks
    }

    fn modules(&mut self, directory: &Path, depth: usize) {
        for module in directories(directory) {
            match module.join("HEAD").symlink_metadata() {
                Ok(_) => self.directory(&module, None),
                Err(_) if depth > 0 => self.modules(&module, depth - 1),
                Err(_) => self.problems.push(format!(
                    "{} is too deep to be looked for submodules in",
                    shown(&module)
                )),
            }
        }
    }

    /// Reads a file of configuration and those that it includes, whatever the condition.
    fn config(&mut self, file: &Path, depth: usize) -> Vec<git_config::Value> {
        let text = match read(file) {
            Ok(Some(text)) => text,
            Ok(None) => return Vec::new(),
            Err(why) => {
                self.problems.push(format!("{} {why}", shown(file)));
                return Vec::new();
            }
        };
        let mut values = match git_config::parse(&text) {
            Ok(values) => values,
            Err(line) => {
                self.problems.push(format!(
                    "{}:{line} is not understood: what this file names for git is not protected",
                    shown(file)
                ));
                return Vec::new();
            }
        };
        let base = file.parent().unwrap_or(file);
        let included = of_key(&values, "include.path").chain(of_key(&values, "includeif.path"));
        let included: Vec<_> = included
            .filter_map(|path| self.expanded(base, path))
            .collect();
        for file in included {
            if depth > 0 {
                values.extend(self.config(&file, depth - 1));
            }
            self.push(file, ".git/config");
        }
        values
    }

    /// Finds the directories that values of `core.hooksPath` name: relative to the working tree,
    /// or to a repository without one; see githooks(5).
    fn hooks_in(&mut self, directory: Option<&Path>, tree: Option<&Path>, values: &[OsString]) {
        for value in values {
            let base = tree.or(directory);
            if base.is_none()
                && Path::new(value).is_relative()
                && !value.as_bytes().starts_with(b"~")
            {
                continue;
            }
            let Some(hooks) = self.expanded(base.unwrap_or(Path::new("/")), value) else {
                continue;
            };
            // A whole working tree is not kept from being written.
            if base.is_some_and(|base| resolved(base).starts_with(resolved(&hooks))) {
                for name in HOOKS {
                    self.push(hooks.join(name), ".git/hooks");
                }
            } else {
                self.push(hooks, ".git/hooks");
            }
        }
    }

    fn expanded(&self, base: &Path, value: &OsStr) -> Option<PathBuf> {
        match value.as_bytes().strip_prefix(b"~/") {
            Some(rest) => Some(self.home.as_ref()?.join(OsStr::from_bytes(rest))),
            None if value.is_empty() => None,
            None => Some(base.join(value)),
        }
    }
}

/// Leaves out where the working tree is: `git submodule update` writes that again if it is there,
/// which would end it, and finds the tree without.
fn without_tree(file: &Path) -> Option<(PathBuf, String)> {
    let text = read(file).ok()??;
    let text = git_config::without(&text, "core.worktree")?;
    Some((file.to_owned(), String::from_utf8(text).ok()?))
}

/// Tells whether a working tree names this as its repository.
fn leads_to(tree: &Path, directory: &Path) -> bool {
    let named = pointed_to(&tree.join(".git"));
    named.is_some_and(|named| resolved(&named) == resolved(directory))
}

/// Returns the repository that what is called `.git` is, or names.
pub(super) fn directory_of(entry: &Path) -> Option<PathBuf> {
    match entry.is_dir() {
        true => Some(entry.to_owned()),
        false => pointed_to(entry),
    }
}

/// Returns the repository that a file called `.git` names; see gitrepository-layout(5).
fn pointed_to(entry: &Path) -> Option<PathBuf> {
    let text = read(entry).ok().flatten()?;
    let place = text.strip_prefix(b"gitdir:")?;
    Some(entry.parent()?.join(path_in(place)))
}

fn resolved(path: &Path) -> PathBuf {
    crate::policy::path::way(path).end
}

fn of_key<'a>(values: &'a [git_config::Value], key: &str) -> impl Iterator<Item = &'a OsString> {
    let values = values.iter().filter(move |(name, _)| name == key);
    values.map(|(_, value)| value)
}

fn hooks_paths(values: Vec<git_config::Value>) -> impl Iterator<Item = OsString> {
    let values = values.into_iter();
    values.filter_map(|(name, value)| (name == "core.hookspath").then_some(value))
}

/// Takes the path out of a file that holds one.
fn path_in(text: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(text.trim_ascii().to_vec()))
}

/// Lists the directories in one that is there; no links.
fn directories(path: &Path) -> Vec<PathBuf> {
    let entries = path.read_dir().into_iter().flatten().flatten();
    let found = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    found.map(|entry| entry.path()).collect()
}

/// Reads a file, waiting for nobody; `None` where there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, &'static str> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err("cannot be read: what it names for git is not protected");
        }
        Err(_) => return Ok(None),
    };
    let mut text = match file.metadata() {
        Ok(meta) if !meta.is_file() => return Ok(None),
        // With room for it, a file comes in one call: a bounded reader does not tell its size.
        Ok(meta) if meta.len() <= MAX_SIZE => {
            Vec::with_capacity(usize::try_from(meta.len() + 1).unwrap_or(0))
        }
        _ => return Err("is too large: what it names for git is not protected"),
    };
    match file.take(MAX_SIZE).read_to_end(&mut text) {
        Ok(_) => Ok(Some(text)),
        Err(_) => Err("cannot be read: what it names for git is not protected"),
    }
}
