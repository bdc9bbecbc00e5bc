use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::cache::{Cache, Entry, Listing, State};
use super::names::{ANYWHERE, BELOW, GIT, UNSEARCHED};
use super::walk::gathered as taken_together;
use super::*;

/// Whatever a test made is old then.
const LATER: Duration = Duration::from_secs(10);

/// A directory of one test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/tmp/srt-names-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("the name is ours");
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        let dir = path.parent().expect("it has one");
        fs::create_dir_all(dir)
            .and_then(|()| fs::write(&path, ""))
            .expect("it is ours");
        path
    }

    fn roots<'a>(&'a self, cache: Option<&'a Path>, most: usize) -> Roots<'a> {
        Roots {
            paths: vec![&self.0],
            ruled: [].into(),
            uid: nix::unistd::geteuid().as_raw(),
            cache,
            most,
            since: SystemTime::now() + LATER,
            until: Instant::now() + MAX_TIME,
        }
    }

    fn search(&self, cache: Option<&Path>, most: usize) -> Findings {
        find(&self.roots(cache, most), &Protection::default())
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn named(findings: &Findings) -> Vec<&Path> {
    let mut named: Vec<_> = findings
        .named
        .iter()
        .map(|(path, _)| path.as_path())
        .collect();
    named.sort();
    named
}

#[test]
fn the_documentation_lists_every_name_with_its_reason() {
    let text = include_str!("../../../docs/protected.md");
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let rows: Vec<_> = rows.collect();
    let tables = [ANYWHERE, BELOW, GIT, UNSEARCHED].into_iter();
    let expected = tables.flat_map(|table| table.chunk_by(|a, b| a.reason == b.reason));
    let expected = expected.map(|names| {
        let texts: Vec<_> = names
            .iter()
            .map(|name| format!("`{}`", name.text))
            .collect();
        format!("| {} | {} |", texts.join(", "), names[0].reason)
    });
    assert_eq!(rows, expected.collect::<Vec<_>>());
}

#[test]
fn a_name_is_told_in_any_case_and_with_what_is_not_seen() {
    let is = |dir: &str, name: &str| match matching(Path::new(dir), std::ffi::OsStr::new(name)) {
        Some(Match::Protected(name)) => name.text,
        Some(_) => "other",
        None => "",
    };
    let table = [
        ("/w", ".bashrc", ".bashrc"),
        ("/w", ".BashRC", ".bashrc"),
        ("/w", ".ba\u{200d}shrc", ".bashrc"),
        ("/w", ".ba\u{17f}hrc", ".bashrc"),
        ("/w", ".gitcon\u{fb01}g", ".gitconfig"),
        ("/w", "jenkinsfile", "Jenkinsfile"),
        ("/w", "bashrc", ""),
        ("/w", ".bashrc2", ""),
        ("/w/.claude", "commands", ".claude/commands"),
        ("/w/.Claude", "COMMANDS", ".claude/commands"),
        ("/w/claude", "commands", ""),
        ("/.claude", "commands", ".claude/commands"),
        ("/w", "commands", ""),
        ("/w/.yarn", "releases", ".yarn/releases"),
        ("/w", ".GIT", "other"),
        ("/w", "node_modules", "other"),
    ];
    for (dir, name, expected) in table {
        assert_eq!(is(dir, name), expected, "{dir} {name}");
        let may_be = names::is_candidate(name.as_bytes());
        assert!(may_be || expected.is_empty(), "{name}");
    }
    assert!(ANYWHERE.iter().all(|name| {
        let path = Path::new("/w").join(name.text);
        is(
            path.parent().and_then(Path::to_str).unwrap_or(""),
            path.file_name()
                .and_then(|name| name.to_str())
                .unwrap_or(""),
        ) == name.text
    }));
}

#[test]
fn links_are_not_followed_and_packages_not_searched() {
    let dir = Dir::new("links");
    let outside = Dir::new("links-outside");
    outside.file(".envrc");
    symlink(&outside.0, dir.0.join("link")).expect("the name is free");
    symlink("..", dir.0.join("loop")).expect("the name is free");
    dir.file("node_modules/x/.vscode/tasks.json");
    dir.file("x.cargo/registry/.envrc");
    dir.file(".cargo/registry/src/.envrc");
    for part in ["HEAD", "objects/x", "refs/x"] {
        dir.file(&format!("bare/{part}"));
    }
    dir.file("bare/sub/.envrc");
    let found = dir.search(None, MAX_NAMES);
    let expected = ["bare/sub/.envrc", "x.cargo/registry/.envrc"].map(|name| dir.0.join(name));
    assert_eq!(named(&found), expected);
    assert_eq!(found.repositories, [dir.0.join("bare")]);
}

#[test]
fn what_there_was_no_room_to_search_is_said() {
    let dir = Dir::new("bound");
    for at in 0..200 {
        dir.file(&format!("a/{at}/b/.envrc"));
    }
    let all = dir.search(None, MAX_NAMES);
    assert_eq!((all.named.len(), all.unsearched.len()), (200, 0));
    // One for `a`, 200 for what is in it, two for each that is gone into.
    let exact = dir.search(None, 601);
    assert_eq!((exact.named.len(), exact.unsearched.len()), (200, 0));
    for most in [0, 1, 100, 300, 600] {
        let part = dir.search(None, most);
        assert!(
            !part.unsearched.is_empty() && part.unsearched.len() <= 64,
            "{most}: {part:?}"
        );
        let covered = |path: &PathBuf| {
            part.named.iter().any(|(found, _)| found == path)
                || part.unsearched.iter().any(|dir| path.starts_with(dir))
        };
        assert!(all.named.iter().all(|(path, _)| covered(path)), "{most}");
    }
}

#[test]
fn what_there_was_no_time_to_search_is_said() {
    let dir = Dir::new("late");
    dir.file("a/.envrc");
    let roots = Roots {
        until: Instant::now() - MAX_TIME,
        ..dir.roots(None, MAX_NAMES)
    };
    let found = find(&roots, &Protection::default());
    assert_eq!(found.unsearched, std::slice::from_ref(&dir.0));
}

#[test]
fn of_many_roots_what_was_found_last_is_kept() {
    let (dir, kept) = (Dir::new("roots"), Dir::new("roots-kept"));
    for at in 0..70 {
        let root = dir.0.join(at.to_string());
        let mut cache = Cache::open(Some(&kept.0), &root, SystemTime::now());
        cache.worth = 0;
        let changed = (1, 0);
        cache.put(
            State {
                dev: 1,
                ino: 1,
                changed,
            },
            &Listing::default(),
        );
        cache.close();
    }
    assert_eq!(fs::read_dir(&kept.0).expect("just made").count(), 64);
}

#[test]
fn many_directories_are_taken_together_by_what_holds_them() {
    let root = Path::new("/w");
    let paths: Vec<_> = (0..1000)
        .map(|at| root.join(format!("{}/{at}", at % 10)))
        .collect();
    let gathered = taken_together(paths.clone(), root);
    assert_eq!(gathered.len(), 10);
    let many: Vec<_> = (0..1000).map(|at| root.join(at.to_string())).collect();
    assert_eq!(taken_together(many, root), [root]);
    assert_eq!(taken_together(paths[..64].to_vec(), root).len(), 64);
}

#[test]
fn a_directory_that_cannot_be_listed_is_closed() {
    let dir = Dir::new("closed");
    dir.file("shut/.envrc");
    dir.file("unsearchable/x/.envrc");
    let chmod =
        |name: &str, mode| fs::set_permissions(dir.0.join(name), fs::Permissions::from_mode(mode));
    chmod("shut", 0o300)
        .and_then(|()| chmod("unsearchable", 0o600))
        .expect("it is ours");
    let mut found = dir.search(None, MAX_NAMES);
    found.closed.sort();
    chmod("shut", 0o700)
        .and_then(|()| chmod("unsearchable", 0o700))
        .expect("it is ours");
    if nix::unistd::geteuid().is_root() {
        // No mode closes anything to root.
        assert_eq!((found.closed.len(), found.named.len()), (0, 2));
        return;
    }
    assert_eq!(
        found.closed,
        ["shut", "unsearchable/x"].map(|name| dir.0.join(name))
    );
}

#[test]
fn paths_that_nothing_can_be_mounted_at_are_closed_above() {
    let dir = Dir::new("long");
    let name = "n".repeat(250);
    let mut path = dir.0.clone();
    let here = fs::File::open(&dir.0).expect("just made");
    let mut at = std::os::fd::OwnedFd::from(here);
    for _ in 0..20 {
        rustix::fs::mkdirat(&at, &*name, rustix::fs::Mode::RWXU).expect("the name is free");
        let flags = rustix::fs::OFlags::DIRECTORY;
        at = rustix::fs::openat(&at, &*name, flags, rustix::fs::Mode::empty()).expect("just made");
        path.push(&name);
    }
    let found = dir.search(None, MAX_NAMES);
    assert_eq!(found.closed.len(), 1);
    assert!(path.starts_with(&found.closed[0]));
    // The standard library removes such a tree by descriptors.
    drop(dir);
}

#[test]
fn what_was_found_is_kept_while_a_directory_does_not_change() {
    let (dir, kept) = (Dir::new("cache"), Dir::new("cache-kept"));
    dir.file("a/.envrc");
    for at in 0..200 {
        dir.file(&format!("b/{at}/x"));
    }
    let first = dir.search(Some(&kept.0), MAX_NAMES);
    let files = || fs::read_dir(&kept.0).expect("just made").count();
    assert_eq!(files(), 1);
    let second = dir.search(Some(&kept.0), MAX_NAMES);
    let expected = [dir.0.join("a/.envrc")];
    for found in [&first, &second] {
        assert_eq!(named(found), expected);
    }
    // A record is believed, and only for the directory as it was.
    let entry = fs::read_dir(&kept.0).expect("just made").next();
    let file = entry
        .expect("one was counted")
        .expect("it is readable")
        .path();
    let mut bytes = fs::read(&file).expect("it is ours");
    let at = bytes
        .windows(6)
        .position(|part| part == b".envrc")
        .expect("it was found");
    bytes[at..at + 6].copy_from_slice(b".exrc_");
    fs::write(&file, &bytes).expect("it is ours");
    assert_eq!(
        named(&dir.search(Some(&kept.0), MAX_NAMES)).len(),
        0,
        "the record was not used"
    );
    dir.file("a/other");
    assert_eq!(named(&dir.search(Some(&kept.0), MAX_NAMES)), expected);
    for cut in [0, 8, 20, bytes.len() - 1] {
        fs::write(&file, &bytes[..cut]).expect("it is ours");
        assert_eq!(
            named(&dir.search(Some(&kept.0), MAX_NAMES)),
            expected,
            "{cut}"
        );
    }
}

#[test]
fn a_change_too_near_to_the_search_is_not_kept() {
    let (dir, kept) = (Dir::new("near"), Dir::new("near-kept"));
    let meta = fs::metadata(&dir.0).expect("just made");
    let state = |seconds| State {
        dev: meta.dev(),
        ino: meta.ino(),
        changed: (seconds, 0),
    };
    let now = meta.ctime();
    for (changed, is_kept) in [
        (now - 100, true),
        (now + 100, false),
        (now, false),
        (-5, false),
    ] {
        let mut cache = Cache::open(Some(&kept.0), &dir.0, SystemTime::now());
        cache.worth = 0;
        let mut listing = Listing::default();
        listing.push(Entry {
            name: b".envrc",
            is_directory: false,
            is_candidate: true,
        });
        cache.put(state(changed), &listing);
        cache.close();
        let mut cache = Cache::open(Some(&kept.0), &dir.0, SystemTime::now());
        assert_eq!(
            cache.get(state(changed)),
            is_kept.then_some(listing),
            "{changed}"
        );
        assert_eq!(cache.get(state(changed - 1)), None);
        for entry in fs::read_dir(&kept.0).expect("just made").flatten() {
            fs::remove_file(entry.path()).expect("it is ours");
        }
    }
}

#[test]
fn git_configuration_is_read_as_git_reads_it() {
    let text = br#"
[core]
	hooksPath = a b  ; no part
	Bare
[Include "x"] path = "c # \"d\" \\ e"  # and this
[include]
	path = one \
two
	path=	"  kept  "x	
[includeIf "gitdir:~/\"]"] PATH = f\tg
[a.B] c = d
"#;
    let values = git_config::parse(text).expect("it is well formed");
    let values: Vec<_> = values
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().expect("UTF-8")))
        .collect();
    let expected = [
        ("core.hookspath", "a b"),
        ("include.path", "c # \"d\" \\ e"),
        ("include.path", "one two"),
        ("include.path", "  kept  x"),
        ("includeif.path", "f\tg"),
        ("a.c", "d"),
    ];
    assert_eq!(values, expected);
    let crlf = git_config::parse(b"\xef\xbb\xbf[core]\r\n\thooksPath = x\r\n");
    assert_eq!(crlf.expect("it is well formed")[0].1, "x");
    let wrong: [(&[u8], usize); 7] = [
        (b"[core", 1),
        (b"[core]\n\n = x", 3),
        (b"[core]\na = \"x\n", 2),
        (b"[core]\na = \\q\n", 2),
        (b"[co re]\n", 1),
        (b"[core \"x\n\"]", 1),
        (b"\x00", 1),
    ];
    for (text, line) in wrong {
        assert_eq!(
            git_config::parse(text),
            Err(line),
            "{}",
            String::from_utf8_lossy(text)
        );
    }
}

/// Git is asked only by this test.
#[test]
fn git_agrees_on_what_its_configuration_says() {
    let dir = Dir::new("git-agrees");
    let file = dir.0.join("config");
    let mut generator = crate::policy::generator::Generator(11);
    let sections = ["[core]", "[include \"s\\\"]\"]", "[a.B]\r\n"];
    let keys = ["path", "hooksPath ", "\tworktree\t", "bare\n"];
    let parts = [
        " ", "\t", "x", "yz", "\" q;\"", "\"", "\\n", "\\\\", "#", ";", "\\\n", "\r", "=",
    ];
    let (mut agreed, mut refused) = (0, 0);
    for _ in 0..150 {
        let mut text = String::new();
        for _ in 0..generator.below(4) + 1 {
            text += generator.pick(&sections);
            text += generator.pick(&keys);
            text += "=";
            text += &generator.some(&parts, 5).concat();
            text += "\n";
        }
        fs::write(&file, &text).expect("it is ours");
        let git = std::process::Command::new("git")
            .args(["config", "--list", "-z", "--no-includes", "--file"])
            .arg(&file)
            .output();
        let Ok(git) = git else {
            return;
        };
        let ours = git_config::parse(text.as_bytes());
        if !git.status.success() {
            refused += 1;
            continue;
        }
        let listed = git
            .stdout
            .split(|byte| *byte == 0)
            .filter(|entry| entry.contains(&b'\n'));
        let theirs: Vec<_> = listed
            .map(|entry| {
                entry
                    .splitn(2, |byte| *byte == b'\n')
                    .nth(1)
                    .unwrap_or_default()
                    .to_vec()
            })
            .collect();
        let ours: Vec<_> = ours
            .unwrap_or_else(|line| panic!("{line}: {text:?}"))
            .into_iter()
            .map(|(_, value)| value.into_encoded_bytes())
            .collect();
        assert_eq!(ours, theirs, "{text:?}");
        agreed += usize::from(!theirs.is_empty());
    }
    assert!(agreed > 20 && refused > 20, "{agreed} {refused}");
}
