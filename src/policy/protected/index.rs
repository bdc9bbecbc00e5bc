//! What git tracks of a working tree, as the index says; see gitformat-index(5).

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::git;

/// Larger ones are not read: they would hold a million names.
const MAX_SIZE: u64 = 100 << 20;

/// The kernel takes no longer name.
const MAX_NAME: usize = 4096;

/// How long a hash is: SHA-1, SHA-256.
const HASHES: [usize; 2] = [20, 32];

/// What stands before the hash of an entry: times, device, inode, mode, owner, size.
const STAT: usize = 40;

/// Returns those of several paths that the repository around them tracks, or something below,
/// as far as their indexes are understood. Git is not run for it.
pub fn tracked<'a>(paths: impl Iterator<Item = &'a Path>) -> Vec<&'a Path> {
    let mut by_tree: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for path in paths {
        let mut above = path.ancestors().skip(1);
        if let Some(tree) = above.find(|dir| dir.join(".git").symlink_metadata().is_ok()) {
            by_tree.entry(tree).or_default().push(path);
        }
    }
    let found = by_tree.into_iter().flat_map(|(tree, mut paths)| {
        let index = git::directory_of(&tree.join(".git")).and_then(|dir| read(&dir.join("index")));
        let below = |path: &'a Path| path.strip_prefix(tree).unwrap_or(path);
        let wanted: HashSet<_> = paths.iter().map(|path| bytes(below(path))).collect();
        let found = index.and_then(|index| {
            let mut all = HASHES.into_iter();
            all.find_map(|hash| among(&index, hash, &wanted))
        });
        let found = found.unwrap_or_default();
        paths.retain(|path| found.contains(bytes(below(path))));
        paths
    });
    found.collect()
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn read(index: &PathBuf) -> Option<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags).open(index).ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.len() > MAX_SIZE {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the paths that an index has, or something below; `None` where it is none.
fn among<'a>(index: &[u8], hash: usize, wanted: &HashSet<&'a [u8]>) -> Option<HashSet<&'a [u8]>> {
    let mut found = HashSet::new();
    let mut rest = index.strip_prefix(b"DIRC")?;
    let version = number(&mut rest)?;
    let count = number(&mut rest)?;
    let mut name = Vec::new();
    for _ in 0..count {
        next_name(&mut rest, version, hash, &mut name)?;
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let above = ends.map(|(at, _)| &name[..at]).chain([&name[..]]);
        found.extend(above.filter_map(|path| wanted.get(path).copied()));
        // A sparse index has whole directories, whose names end in a slash.
        if name.ends_with(b"/") {
            found.extend(wanted.iter().filter(|path| path.starts_with(&name)));
        }
    }
    Some(found)
}

/// Goes on to the next entry, whose name takes the place of the last one.
fn next_name(rest: &mut &[u8], version: u32, hash: usize, name: &mut Vec<u8>) -> Option<()> {
    let entry = *rest;
    take(rest, STAT + hash)?;
    let flags = u16::from_be_bytes(*take(rest, 2)?.first_chunk()?);
    if version >= 3 && flags & 0x4000 != 0 {
        take(rest, 2)?;
    }
    let kept = match version {
        2 | 3 => 0,
        // The last name but for its end, which is cut off.
        4 => name.len().checked_sub(offset(rest)?)?,
        _ => return None,
    };
    name.truncate(kept);
    let end = rest.iter().position(|byte| *byte == 0)?;
    name.extend(take(rest, end)?);
    let length = usize::from(flags & 0x0fff);
    if name.len() > MAX_NAME || length != name.len().min(0x0fff) {
        return None;
    }
    // One NUL, and in the older versions as many more as fill eight bytes.
    let used = entry.len() - rest.len();
    let padding = if version == 4 { 1 } else { 8 - used % 8 };
    take(rest, padding).map(drop)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*take(rest, 4)?.first_chunk()?))
}

/// Reads a number as the offsets of pack files are written; those of names are small.
fn offset(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    loop {
        let byte = take(rest, 1)?[0];
        value = value << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value += 1;
        if value > MAX_NAME {
            return None;
        }
    }
}
