//! The names, and how one is told in a directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::policy::path::folded;

/// A protected name: one, or several with what they are in.
#[derive(Debug, PartialEq, Eq)]
pub struct Name {
    /// As `filesystem.allowProtected` opens it.
    pub text: &'static str,
    /// What would execute it.
    pub reason: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/protected.rs"));

/// What an entry of a directory is by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// Protected.
    Protected(&'static Name),
    /// `.git`, whatever it is.
    Git,
    /// What a repository without a working tree has: all three of `HEAD`, `objects`, `refs`.
    Bare(u8),
    /// Not searched.
    Unsearched,
}

/// Bits of [`Match::Bare`]; a directory that has all is a repository.
pub(super) const BARE: u8 = 0b111;

/// Returns the names that may be opened.
pub(super) fn all() -> impl Iterator<Item = &'static Name> {
    ANYWHERE.iter().chain(BELOW).chain(GIT)
}

/// Returns the names below a home, or at one place of the machine.
pub(super) fn places() -> &'static [Name] {
    BELOW
}

/// Returns one of the names that git gives a meaning.
pub(super) fn of_git(text: &str) -> &'static Name {
    // The build takes no table without it; the first is the widest.
    GIT.iter().find(|name| name.text == text).unwrap_or(&GIT[0])
}

/// Returns the name for a path below a `.git`.
pub(super) fn in_git(below: &Path) -> Option<&'static Name> {
    let mut below: Vec<_> = below.iter().collect();
    if below.first().is_some_and(|first| *first == "modules") {
        // Names of submodules may hold slashes.
        let is_name = |part: &&&OsStr| {
            ["hooks", "info", "config"]
                .iter()
                .all(|name| **part != *name)
        };
        let rest = below.iter().skip(1).skip_while(|part| is_name(part));
        below = rest.copied().collect();
    }
    match below[..] {
        [first, ..] if first == "hooks" => Some(of_git(".git/hooks")),
        [file] if file == "config" || file == "config.worktree" => Some(of_git(".git/config")),
        [first, file] if first == "info" && file == "attributes" => {
            Some(of_git(".git/info/attributes"))
        }
        _ => None,
    }
}

/// Tells whether a name could be one of the table, whatever it is in.
pub(super) fn is_candidate(name: &[u8]) -> bool {
    let Some(first) = name.first() else {
        return false;
    };
    if name.is_ascii() {
        // The lengths of names that start with a byte, as bits: few are left to look up.
        let lengths = LENGTHS[usize::from(first.to_ascii_lowercase())];
        if lengths & (1 << (name.len() % 64)) == 0 {
            return false;
        }
    }
    folded(name).is_some_and(|name| ending_in(&name).is_some())
}

/// Returns what an entry of `dir` is by its name, in any case: file systems that fold it find
/// it by the one that programs use.
pub fn matching(dir: &Path, name: &OsStr) -> Option<Match> {
    let name = folded(name.as_bytes())?;
    let mut candidates = ending_in(&name)?.iter();
    let found = candidates.find(|(before, _)| ends_with(dir, before));
    found.map(|(_, found)| *found)
}

/// Returns the paths of the table that end in a name, which is folded, by what stands before.
fn ending_in(name: &str) -> Option<&'static [(&'static str, Match)]> {
    let at = BY_LAST
        .binary_search_by(|(last, _)| (*last).cmp(name))
        .ok()?;
    Some(BY_LAST[at].1)
}

fn ends_with(dir: &Path, names: &str) -> bool {
    let mut above = dir.iter().rev();
    let mut names = names.rsplit('/').filter(|name| !name.is_empty());
    names.all(|name| {
        let found = above.next().and_then(|above| folded(above.as_bytes()));
        found.is_some_and(|found| found.eq_ignore_ascii_case(name))
    })
}
