//! Directories in which a name is found in any case.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// Tells whether a directory finds one of its names in another case too; `None` where the name
/// has no case or is not there. It is asked for the name: whether it folds case depends on the
/// file system, on how that was made and mounted, and on the directory.
pub(in crate::policy) fn finds_any_case(dir: &Path, name: &OsStr) -> Option<bool> {
    let other = in_other_case(name.to_str()?)?;
    let look = |name: &OsStr| dir.join(name).symlink_metadata().ok();
    let found = look(name)?;
    let same = |other: std::fs::Metadata| (other.dev(), other.ino()) == (found.dev(), found.ino());
    let other = OsStr::new(&other);
    // A file may have both names, and be mounted at both.
    Some(look(other).is_some_and(same) && !lists(dir, other))
}

fn lists(dir: &Path, name: &OsStr) -> bool {
    let mut entries = dir.read_dir().into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name() == name)
}

/// Tells whether the kernel knows that two cases are one name, so that what is mounted on one
/// covers the other. Where a server alone folds case, as in FUSE and 9p, it does not.
pub(super) fn is_one_to_the_kernel(dir: &Path, name: &OsStr) -> bool {
    let shown = |name: &OsStr| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let place = open(dir.join(name), flags, Mode::empty()).ok()?;
        let path = Path::new("/proc/self/fd").join(place.as_raw_fd().to_string());
        // As long as a place is open, the kernel keeps the name it was first found by.
        Some((path.read_link().ok()?, place))
    };
    let other = name.to_str().and_then(in_other_case);
    let one = shown(name).zip(other.and_then(|other| shown(OsStr::new(&other))));
    one.is_some_and(|((path, _open), (other, _other_open))| path == other)
}

/// Returns the name that a directory which folds case has where `name` is found.
pub(super) fn listed(dir: &Path, name: &OsStr) -> Option<OsString> {
    let wanted = folded(name.as_bytes())?;
    let entries = dir.read_dir().ok()?.flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.find(|listed| folded(listed.as_bytes()).is_some_and(|listed| listed == wanted))
}

/// Turns the case of the letters that every file system which folds case knows.
fn in_other_case(name: &str) -> Option<String> {
    let turned = name
        .chars()
        .map(|letter| match letter.is_ascii_lowercase() {
            true => letter.to_ascii_uppercase(),
            false => letter.to_ascii_lowercase(),
        });
    Some(turned.collect::<String>()).filter(|other| other != name)
}

/// Takes capital letters and what is not seen out of a name, as file systems that fold case do.
pub(in crate::policy) fn folded(name: &[u8]) -> Option<Cow<'_, str>> {
    let text = str::from_utf8(name).ok()?;
    if text.is_ascii() {
        let has_capital = text.bytes().any(|byte| byte.is_ascii_uppercase());
        return Some(match has_capital {
            true => Cow::Owned(text.to_ascii_lowercase()),
            false => Cow::Borrowed(text),
        });
    }
    let seen = text.chars().filter(|letter| !is_ignorable(*letter));
    // By way of capital letters: `ſ` and the ligatures have their plain ones only there.
    let folded = seen
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase);
    Some(Cow::Owned(folded.collect()))
}

/// The Unicode property Default_Ignorable_Code_Point, which casefold directories skip.
fn is_ignorable(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_tells_cases_apart_finds_none_but_its_own() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(finds_any_case(dir, OsStr::new("src")), Some(false));
        assert_eq!(finds_any_case(dir, OsStr::new("missing")), None);
        assert_eq!(finds_any_case(Path::new("/"), OsStr::new("..")), None);
        assert_eq!(listed(dir, OsStr::new("SRC")), Some("src".into()));
        assert_eq!(listed(dir, OsStr::new("missing")), None);
    }

    #[test]
    fn a_file_with_two_names_is_found_by_each() {
        let dir = std::env::temp_dir().join(format!("srt-folding-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("the name is ours");
        std::fs::write(dir.join("a"), "").expect("the directory is ours");
        drop(std::fs::hard_link(dir.join("a"), dir.join("A")));
        let told = finds_any_case(&dir, OsStr::new("a"));
        let same = |name| dir.join(name).metadata().map(|meta| meta.ino()).ok();
        let are_one = same("a") == same("A");
        std::fs::remove_dir_all(&dir).expect("it is ours");
        assert!(are_one);
        assert_eq!(told, Some(false));
    }

    #[test]
    fn letters_turn_and_what_is_none_stays() {
        assert_eq!(in_other_case(".env").as_deref(), Some(".ENV"));
        assert_eq!(in_other_case("aB1-\u{e9}").as_deref(), Some("Ab1-\u{e9}"));
        assert_eq!(in_other_case("12.\u{e9}"), None);
    }
}
