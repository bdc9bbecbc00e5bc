//! Says why a command could not be executed, where the rules for files hide it or what runs it.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Kind};
use crate::policy::Host;
use crate::policy::filesystem::{Access, Filesystem};
use crate::policy::path::{self, Link, Way};
use crate::settings::shown;

/// Adds to an error of execve(2) the rule that is its cause, if one is.
pub(super) fn explain(
    error: Error,
    programs: &[CString],
    files: &Filesystem,
    host: &Host,
) -> Error {
    if !matches!(error.kind(), Kind::NotFound | Kind::NotExecutable) {
        return error;
    }
    let paths = programs
        .iter()
        .map(|program| host.cwd.join(OsStr::from_bytes(program.as_bytes())));
    let Some(reason) = paths.filter_map(|path| reason(&path, files)).next() else {
        return error;
    };
    error.with_line(reason).with_hint(
        "add it to `filesystem.allowRead`, with what it needs to run; `srt ctl explain \
         path:NAME` tells more of a name",
    )
}

/// Looks along the chain of what runs what.
fn reason(program: &Path, files: &Filesystem) -> Option<String> {
    // The kernel follows as many; BINPRM_MAX_RECURSION and a loader.
    const CHAIN: usize = 6;
    let mut named = program.to_owned();
    for _ in 0..CHAIN {
        let way = path::way(&named);
        if !std::fs::metadata(&way.end).is_ok_and(|meta| meta.is_file()) {
            return None;
        }
        if let Some(reason) = hidden(&named, &way, files) {
            return Some(match named == program {
                true => reason,
                false => format!("{} is run by what is hidden: {reason}", shown(program)),
            });
        }
        named = interpreter(&way.end)?;
    }
    None
}

fn hidden(named: &Path, way: &Way, files: &Filesystem) -> Option<String> {
    let decision = files.decide(&way.end);
    let is_hidden = |link: &&Link| {
        let shown = || files.hidden_links().any(|other| other == *link);
        files.access(&link.path) == Access::Hidden && !shown()
    };
    let (path, decision) = match decision.access {
        Access::Hidden => (&way.end, decision),
        _ => {
            let link = way.links.iter().find(is_hidden)?;
            (&link.path, files.decide(&link.path))
        }
    };
    let rule = decision.read_rule?;
    let by = format!("{} `{}` ({})", rule.origin.name(), rule.entry, rule.origin);
    let leads = match way.links.is_empty() {
        true => String::new(),
        false => format!(", for {}", shown(named)),
    };
    Some(format!("{} is hidden by {by}{leads}", shown(path)))
}

/// Returns what the kernel starts in place of a script, or beside a program; see execve(2).
fn interpreter(program: &Path) -> Option<PathBuf> {
    // The kernel reads as much of a script; BINPRM_BUF_SIZE of linux/binfmts.h.
    const HEAD: u64 = 256;
    let file = File::open(program).ok()?;
    let mut head = Vec::new();
    (&file).take(HEAD).read_to_end(&mut head).ok()?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&byte| byte == b'\n').next()?;
        let mut words = line.split(|byte| b" \t".contains(byte));
        let word = words.find(|word| !word.is_empty())?;
        return Some(PathBuf::from(OsStr::from_bytes(word)));
    }
    loader(&file, &head)
}

/// Reads the name of the loader from an ELF file of 64 bits; see elf(5).
fn loader(file: &File, head: &[u8]) -> Option<PathBuf> {
    const PT_INTERP: u32 = 3;
    const PATH_MAX: u64 = 4096;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let half = |bytes: &[u8], at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let word = |bytes: &[u8], at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let long = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (start, size, count) = (long(head, 32)?, half(head, 54)?, half(head, 56)?);
    for number in 0..u64::from(count) {
        let mut segment = [0; 56];
        let at = start.checked_add(number * u64::from(size))?;
        file.read_exact_at(&mut segment, at).ok()?;
        if word(&segment, 0)? == PT_INTERP {
            let length = long(&segment, 32)?.min(PATH_MAX);
            let mut name = vec![0; usize::try_from(length).ok()?];
            file.read_exact_at(&mut name, long(&segment, 8)?).ok()?;
            let name = name.split(|&byte| byte == 0).next()?;
            return Some(PathBuf::from(OsStr::from_bytes(name)));
        }
    }
    None
}
