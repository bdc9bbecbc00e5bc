//! Names that a later command would execute, which stay as they are.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use nix::errno::Errno;

use super::rules::{List, Rule};
use super::{Access, Filesystem, in_private_tree, is_missing};
use crate::error::Result;
use crate::policy::host::Host;
use crate::policy::path::{self, FileKind, RealPath, Resolver, Way};
use crate::policy::protected::{
    self, Findings, Match, Name, Protection, Repository, Roots, Through, matching,
};
use crate::policy::secrets::Homes;
use crate::settings::{Layer, Origin, shown};

/// The setting that opens a name.
pub(super) const KEY: &str = "filesystem.allowProtected";

/// A path that is protected by its name.
#[derive(Debug, Clone)]
pub struct Protected {
    /// Where it is.
    pub path: RealPath,
    /// The name, and why.
    pub name: &'static Name,
}

/// Links in one protected directory whose targets are protected too.
const MAX_LINKS: usize = 1_000;

/// Paths that one message names.
const SHOWN: usize = 3;

impl Filesystem {
    /// Protects every name that is there.
    pub(super) fn protect_names(
        &mut self,
        protection: &Protection,
        host: &Host,
        homes: &Homes,
        resolver: &mut Resolver,
    ) {
        let roots = self.roots();
        let cache = match protection.is_off {
            true => return,
            false => self.hide_cache(host),
        };
        if roots.is_empty() {
            return;
        }
        let found = self.search(&roots, protection, host, cache.as_deref());
        let mut names = found.named;
        names.extend(around(&roots, protection));
        let git = repositories(found.repositories, &roots, host);
        let files = git.files.into_iter();
        let files = files.filter(|file| protection.holds(file.name));
        names.extend(files.map(|file| (file.path, file.name)));

        let mut adding = Adding {
            roots,
            seen: HashSet::new(),
            linked: Vec::new(),
            uncovered: Vec::new(),
            enters: true,
        };
        for (path, name) in names {
            self.protect_name(path, name, &mut adding, resolver);
        }
        // A link in `~/.local/bin` leads to a program that may be built in a project.
        adding.enters = false;
        for (path, name) in protected::places(host, homes) {
            if protection.holds(name) {
                self.protect_name(path, name, &mut adding, resolver);
            }
        }
        for (path, text) in git.shown {
            self.show_instead(&path, text, resolver);
        }
        for link in git.links {
            self.hold_found(&resolver.way(&link));
        }
        self.close_unsearched(&found.closed, &found.unsearched, &found.remote);
        self.warnings
            .extend(listed(&git.problems, "", |text| text.clone()));
        self.warn_of_other_names(&adding);
        self.name_repositories(&git.named, &host.cwd, resolver);
    }

    /// A protected file may be found by a name that is not covered.
    fn warn_of_other_names(&mut self, adding: &Adding) {
        self.warnings.extend(listed(
            &adding.linked,
            " has several names (hard links): only this one is protected",
            |path| shown(path),
        ));
        self.warnings.extend(listed(
            &adding.uncovered,
            " is protected as it is written here alone: a server finds it in any case",
            |path| shown(path),
        ));
    }

    /// Keeps our own program from being replaced, which is run outside.
    ///
    /// # Errors
    /// It is there, and which file it is cannot be told.
    pub(super) fn protect_program(&mut self, host: &Host, resolver: &mut Resolver) -> Result<()> {
        let program = host.program.as_ref();
        let real = program
            .map(|path| path::resolve_if_there(path))
            .transpose()?;
        if let Some(real) = real.flatten()
            && self.is_in_writable(real.as_path(), resolver)
        {
            self.notes.push(format!(
                "{real} is srt itself: it is not written during the run"
            ));
            self.push(
                List::DenyWrite,
                Rule::built_in("filesystem.denyWrite", real),
            );
        }
        Ok(())
    }

    /// Returns what is protected.
    pub fn protected(&self) -> &[Protected] {
        &self.protected
    }

    /// Returns the paths that nobody named: what is protected, and the directories on the way to
    /// it that nothing else is said of.
    pub fn passing(&self) -> HashSet<PathBuf> {
        let found = self.protected.iter().map(|found| found.path.as_path());
        let links = self.found_links.iter().map(PathBuf::as_path);
        let closed = self.closed.iter().map(PathBuf::as_path);
        let found: HashSet<_> = found.chain(links).chain(closed).collect();
        if found.is_empty() {
            return HashSet::new();
        }
        let named = self.rules.all().filter(|rule| rule.origin.key != KEY);
        let named = named.map(|rule| rule.path.as_path());
        let named: HashSet<_> = named
            .filter(|path| !self.closed.iter().any(|closed| closed == path))
            .collect();
        let found = found.into_iter().flat_map(Path::ancestors);
        let passing: HashSet<_> = found.filter(|path| !named.contains(path)).collect();
        passing.into_iter().map(Path::to_owned).collect()
    }

    /// Returns the name that protects a path of a rule.
    pub fn protecting(&self, rule: &Rule) -> Option<&'static Name> {
        let found = self.protected.iter().find(|found| found.path == rule.path);
        found
            .filter(|_| rule.origin.key == KEY)
            .map(|found| found.name)
    }

    /// Returns where what was found is kept: what a command could write there, a later run would
    /// believe.
    fn hide_cache(&mut self, host: &Host) -> Option<PathBuf> {
        let cache = protected::directory(host.uid);
        if self.access(&cache) == Access::Write {
            protected::claim(&cache);
        }
        match cache.symlink_metadata() {
            Ok(_) if protected::is_private(&cache, host.uid) => {}
            // Somebody else has the name.
            Ok(_) => return None,
            Err(_) => return Some(cache),
        }
        let path = RealPath::resolve(&cache).ok()?;
        let rule = Rule::built_in("filesystem.denyRead", path.clone());
        self.push(List::DenyRead, rule);
        let rule = Rule::built_in("filesystem.denyWrite", path);
        self.push(List::DenyWrite, rule);
        Some(cache)
    }

    /// Lists what the settings let be written.
    fn roots(&self) -> Vec<PathBuf> {
        let rules = self.rules.list(List::AllowWrite).iter();
        let paths = rules.map(|rule| rule.path.as_path());
        let writable = paths.filter(|path| self.access(path) == Access::Write);
        let mut roots: Vec<_> = writable.map(Path::to_owned).collect();
        roots.sort();
        roots.dedup();
        roots
    }

    fn search(
        &self,
        roots: &[PathBuf],
        protection: &Protection,
        host: &Host,
        cache: Option<&Path>,
    ) -> Findings {
        let rules = self.rules.all().map(|rule| rule.path.as_path());
        let ruled = rules.map(|path| match self.access(path) {
            Access::Write if !roots.iter().any(|root| root == path) => (path, Through::Search),
            _ => (path, Through::Leave),
        });
        let roots = Roots {
            paths: roots.iter().map(PathBuf::as_path).collect(),
            ruled: ruled.collect::<HashMap<_, _>>(),
            uid: host.uid,
            cache,
            most: protected::MAX_NAMES,
            since: SystemTime::now(),
            until: Instant::now() + protected::MAX_TIME,
        };
        protected::find(&roots, protection)
    }

    fn protect_name(
        &mut self,
        path: PathBuf,
        name: &'static Name,
        adding: &mut Adding,
        resolver: &mut Resolver,
    ) {
        if !adding.seen.insert(path.clone().into()) {
            return;
        }
        let way = resolver.way(&path);
        if in_private_tree(&way.end) {
            return;
        }
        self.hold_found(&way);
        let Some(real) = covering(&path, &way) else {
            return;
        };
        // A hook is often a link to a script of the project.
        if adding.enters && real.id().kind == FileKind::Directory {
            for link in links_in(real.as_path()) {
                self.protect_name(link, name, adding, resolver);
            }
        }
        let holds_root = |root: &PathBuf| root.starts_with(real.as_path());
        let is_writable = self.access(real.as_path()) == Access::Write;
        if !is_writable && !adding.roots.iter().any(holds_root) {
            return;
        }
        if !adding.seen.insert(real.as_path().into()) && real.as_path() != path {
            return;
        }
        self.warn_of_grants(&real, name);
        adding.note_other_names(&real, &way, resolver);
        if way.links.last().is_some_and(|link| link.path == path)
            && adding.roots.iter().any(holds_root)
        {
            self.warnings.push(format!(
                "{} leads to {real}, which is not written since {}; {KEY} `{}` opens it",
                shown(&path),
                name.reason,
                name.text
            ));
        }
        self.push(List::DenyWrite, rule(real.clone(), name));
        self.protected.push(Protected { path: real, name });
    }

    /// Shows another text in place of a protected file.
    fn show_instead(&mut self, path: &Path, text: String, resolver: &mut Resolver) {
        let real = resolver.way(path).real().ok();
        let protected = real.filter(|real| self.protected.iter().any(|found| found.path == *real));
        self.redacted.extend(protected.map(|real| (real, text)));
    }

    /// A grant that names a protected path may have been meant to open it.
    fn warn_of_grants(&mut self, path: &RealPath, name: &Name) {
        let rules = self.rules.list(List::AllowWrite).iter();
        let mut within = rules.filter(|rule| {
            rule.origin.layer != Layer::BuiltIn && rule.path.as_path().starts_with(path.as_path())
        });
        if let Some(rule) = within.next() {
            self.warnings.push(format!(
                "{} `{}` stays as it is, since {}; {KEY} `{}` opens it",
                rule.origin.key, rule.entry, name.reason, name.text
            ));
        }
    }

    /// Keeps what was not searched from being written.
    fn close_unsearched(&mut self, closed: &[PathBuf], unsearched: &[PathBuf], remote: &[PathBuf]) {
        for path in closed.iter().chain(unsearched) {
            if let Some(path) = covering(path, &path::way(path))
                && self.access(path.as_path()) == Access::Write
            {
                self.closed.push(path.as_path().to_owned());
                self.push(
                    List::DenyWrite,
                    Rule::built_in("filesystem.denyWrite", path),
                );
            }
        }
        for path in closed {
            self.notes.push(format!(
                "{} cannot be listed: it is not written during the run",
                shown(path)
            ));
        }
        self.warnings.extend(listed(
            unsearched,
            " is not written: there is too much around it to look for protected names; an entry of \
             filesystem.allowWrite that names it is searched for itself",
            |path| shown(path),
        ));
        self.warnings.extend(listed(
            remote,
            " is on another machine: protected names in it are not looked for; an entry of \
             filesystem.allowWrite that names it is searched",
            |path| shown(path),
        ));
    }

    /// Work in a tree whose repository is elsewhere needs that too. The one that the command
    /// starts in is worth a warning.
    fn name_repositories(
        &mut self,
        named: &[(PathBuf, PathBuf)],
        cwd: &Path,
        resolver: &mut Resolver,
    ) {
        let nearest = named
            .iter()
            .map(|(tree, _)| tree)
            .filter(|tree| cwd.starts_with(tree));
        let nearest = nearest.max_by_key(|tree| tree.as_os_str().len());
        for (tree, repository) in named {
            let end = resolver.way(repository).end;
            if self.access(&end) == Access::Write {
                continue;
            }
            let text = format!(
                "git cannot commit in {}: an entry `{}` of filesystem.allowWrite lets it; hooks and \
                 settings there stay as they are",
                shown(tree),
                shown(&end)
            );
            match Some(tree) == nearest {
                true => self.warnings.push(text),
                false => self.notes.push(text),
            }
        }
    }
}

/// Names that are being added.
struct Adding {
    roots: Vec<PathBuf>,
    /// As strings: to hash a path is to take it apart.
    seen: HashSet<OsString>,
    /// Files that have other names.
    linked: Vec<PathBuf>,
    /// What is found in any case, of which the kernel knows one.
    uncovered: Vec<PathBuf>,
    /// Whether what links in a directory lead to is protected too.
    enters: bool,
}

impl Adding {
    /// Notes by what else a file could be found than by the name that is covered.
    fn note_other_names(&mut self, real: &RealPath, way: &Way, resolver: &mut Resolver) {
        let path = real.as_path();
        if real.id().kind == FileKind::File && way.names > 1 {
            self.linked.push(path.to_owned());
        }
        if let (Some(dir), Some(last)) = (path.parent(), path.file_name())
            && resolver.is_uncovered(dir, last)
        {
            self.uncovered.push(path.to_owned());
        }
    }
}

/// Returns what to close for a name that was found: what it leads to, or what holds it where
/// that cannot be looked at now and may be once a mode is changed.
fn covering(path: &Path, way: &Way) -> Option<RealPath> {
    match way.real() {
        Ok(real) => Some(real),
        Err(_) if is_missing(way) || way.found == Err(Errno::ELOOP) => None,
        Err(_) => {
            let above = path.ancestors().skip(1);
            let mut found = above.filter_map(|path| RealPath::resolve(path).ok());
            found.next()
        }
    }
}

/// Reads the configuration of the repositories that were found, and of those around roots.
fn repositories(found: Vec<PathBuf>, roots: &[PathBuf], host: &Host) -> Repository {
    let mut git = Repository::of_user(host);
    for entry in found.into_iter().chain(repositories_around(roots)) {
        git.add(&entry);
    }
    git
}

/// Finds the protected names that roots lie in, or are.
fn around(roots: &[PathBuf], protection: &Protection) -> Vec<(PathBuf, &'static Name)> {
    let above = roots.iter().flat_map(|root| root.ancestors());
    let named = above.filter_map(|path| match matching(path.parent()?, path.file_name()?)? {
        Match::Protected(name) if protection.holds(name) => Some((path.to_owned(), name)),
        _ => None,
    });
    named.collect()
}

/// Lists the links in a directory.
fn links_in(directory: &Path) -> Vec<PathBuf> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    links.take(MAX_LINKS).map(|entry| entry.path()).collect()
}

/// Finds the repositories that roots lie in: their configuration may name what is in a root.
fn repositories_around(roots: &[PathBuf]) -> Vec<PathBuf> {
    let above: HashSet<_> = roots.iter().flat_map(|root| root.ancestors()).collect();
    let found = above.into_iter().flat_map(|path| {
        let has = |name| path.join(name).symlink_metadata().is_ok();
        let git = has(".git").then(|| path.join(".git"));
        let is_one = has("HEAD") && has("objects") && has("refs");
        git.into_iter().chain(is_one.then(|| path.to_owned()))
    });
    let mut found: Vec<_> = found.collect();
    found.sort();
    found
}

fn rule(path: RealPath, name: &Name) -> Rule {
    Rule {
        entry: name.text.to_owned(),
        path,
        origin: Origin::built_in(KEY),
    }
}

/// Makes one message of the first of several things, and one of how many more there are.
pub(super) fn listed<T>(all: &[T], what: &str, named: impl Fn(&T) -> String) -> Vec<String> {
    let first = all.iter().take(SHOWN);
    let mut messages: Vec<_> = first.map(|one| format!("{}{what}", named(one))).collect();
    let more = all.len().saturating_sub(SHOWN);
    if let Some(last) = messages.last_mut().filter(|_| more > 0) {
        last.push_str(&format!(" (and {more} more)"));
    }
    messages
}
