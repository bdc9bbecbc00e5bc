//! What may be read and written in a tree, as the four lists of paths overlap.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sandbox_runtime::policy::filesystem::Access;

use crate::draw::Draw;
use crate::harness::{Scratch, run, skip};
use crate::ledger::{Ledger, Way};
use crate::lists::{self, Lists};
use crate::ours;
use crate::package::{Package, patiently, reference};

/// Settings files with drawn lists.
const DRAWN: usize = 40;

/// What is attempted in each directory, and the file there that it is about: every one holds
/// `note`, and `mark`, which no list names.
const ACTS: [(&str, &str); 4] = [
    ("read", "note"),
    ("write", "note"),
    ("list", ""),
    ("create", ""),
];

/// Does all that, quietly; what came of writing is for the host to see.
const ATTEMPTS: &str = r#"
for dir; do
    echo "read $dir $(cat "$dir/note" 2>/dev/null)"
    echo "list $dir $(ls "$dir" 2>/dev/null | grep -x mark)"
    (echo written >>"$dir/note") 2>/dev/null
    (echo created >"$dir/new") 2>/dev/null
done
echo done
"#;

/// The attempts that succeeded: the act, and the directory.
type Done = BTreeSet<(&'static str, &'static str)>;

#[test]
fn the_lists_open_and_close_the_same_paths() {
    let Some(package) = reference() else {
        return;
    };
    let scratch = Scratch::new("reference-paths");
    let open = Lists::open(&scratch);
    match patiently(|| attempt(&scratch, &open, package.srt())) {
        Err(said) => {
            let line = said.lines().next().unwrap_or_default();
            return skip(&format!("the reference does not run here: {line}"));
        }
        Ok(done) => assert_eq!(done.len(), acts(&open).count(), "nothing forbids any"),
    }

    let mut draw = Draw::start("paths");
    let mut ledger = Ledger::new("paths");
    let mut cases = lists::witnesses(&scratch, &package.root());
    cases.extend((0..DRAWN).map(|_| lists::draw(&mut draw, &scratch)));
    for lists in &cases {
        compare(package, &scratch, lists, &mut ledger);
    }
    ledger.settle(&["path", "start"]);
}

fn compare(package: &Package, scratch: &Scratch, lists: &Lists, ledger: &mut Ledger) {
    let theirs = patiently(|| attempt(scratch, lists, package.srt()));
    let ours = attempt(scratch, lists, Command::new(env!("CARGO_BIN_EXE_srt")));
    if let Ok(done) = &ours {
        let decided = decided(scratch, lists);
        assert_eq!(
            Ok(done),
            decided.as_ref(),
            "decided one thing, did another: {lists}"
        );
    }
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(_), Err(_)) => return,
        (ours, theirs) => {
            let starts = ours.is_ok();
            let what = format!("ours {:?}, theirs {:?}; {lists}", ours.err(), theirs.err());
            return ledger.differs(lists.start_class(), Way::of(starts), what);
        }
    };
    for (act, dir, name) in acts(lists) {
        let [ours, theirs] = [&ours, &theirs].map(|done| done.contains(&(act, dir)));
        ledger.count(theirs);
        if ours != theirs {
            let path = format!("{dir}/{name}");
            let path = path.trim_end_matches('/');
            let what = format!("{act} {path}: ours {ours}, theirs {theirs}; {lists}");
            ledger.differs(lists.class(act, path, ours), Way::of(ours), what);
        }
    }
}

fn acts(lists: &Lists) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let dirs = lists.dirs.iter();
    dirs.flat_map(|dir| ACTS.map(|(act, name)| (act, *dir, name)))
}

/// Makes the tree anew, runs the attempts in it with these lists and looks at what came of it.
fn attempt(scratch: &Scratch, lists: &Lists, mut command: Command) -> Result<Done, String> {
    for dir in lists.dirs {
        scratch.file(&format!("{dir}/note"), format!("note of {dir}\n"));
        scratch.file(&format!("{dir}/mark"), "");
        drop(fs::remove_file(scratch.path(dir).join("new")));
    }
    let file = scratch.file("settings.json", lists.settings().to_string());
    command
        .arg("--settings")
        .arg(file)
        .args(["--", "sh", "-c", ATTEMPTS, "sh"])
        .args(lists.dirs.iter().map(|dir| scratch.path(dir)))
        .current_dir(scratch.dir("cwd"))
        .env("HOME", scratch.dir("home"))
        .env_remove("TMPDIR");
    let ran = run(&mut command);
    if !ran.stdout.ends_with("done\n") {
        return Err(ran.stderr);
    }
    let happened = |act: &str, dir: &str| {
        let path = scratch.path(dir);
        let said = |line: String| ran.stdout.lines().any(|said| said == line);
        match act {
            "read" => said(format!("read {} note of {dir}", path.display())),
            "list" => said(format!("list {} mark", path.display())),
            "write" => fs::read_to_string(path.join("note"))
                .expect("the host reads its own file")
                .ends_with("written\n"),
            _ => path.join("new").exists(),
        }
    };
    let done = acts(lists).filter(|(act, dir, _)| happened(act, dir));
    Ok(done.map(|(act, dir, _)| (act, dir)).collect())
}

/// Asks the library what the same attempts would come to.
fn decided(scratch: &Scratch, lists: &Lists) -> Result<Done, String> {
    let policy = ours::policy(scratch, &lists.settings())?;
    let may = |act: &str, path: PathBuf| match policy.filesystem.access(&path) {
        Access::Hidden => false,
        Access::Read => matches!(act, "read" | "list"),
        Access::Write => true,
    };
    let done = acts(lists).filter(|(act, dir, name)| may(act, scratch.path(dir).join(name)));
    Ok(done.map(|(act, dir, _)| (act, dir)).collect())
}
