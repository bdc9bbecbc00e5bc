//! `srt ctl audit verify`: what a chain shows of lines that were changed, taken out or put in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::harness::{Ran, Scratch, Srt, run};
use super::{denied, srt};

fn verify(words: &[&str], file: &Path) -> Ran {
    let mut srt = Command::new(env!("CARGO_BIN_EXE_srt"));
    run(srt.args(["ctl", "audit", "verify"]).args(words).arg(file))
}

/// Two runs in one chained file.
fn chained(scratch: &Scratch) -> (PathBuf, Vec<String>) {
    let file = scratch.path("events");
    for _ in 0..2 {
        let srt = Srt::new(scratch).events(&file).flags(&["--events-chain"]);
        denied(srt, 5).succeeds();
    }
    let text = fs::read_to_string(&file).expect("srt made it");
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert!(lines.len() >= 14, "{text}");
    (file, lines)
}

fn written(file: &Path, lines: &[String]) {
    fs::write(file, lines.join("\n") + "\n").expect("it is ours");
}

#[test]
fn the_first_line_that_was_changed_taken_out_or_put_in_is_named() {
    let scratch = Scratch::new("verify");
    let (file, lines) = chained(&scratch);
    let ran = verify(&[], &file).succeeds();
    assert!(
        ran.shows(&format!("{} lines hold; the last is ", lines.len())),
        "{}",
        ran.stdout
    );

    let changed = |at: usize, change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = lines.clone();
        change(&mut lines);
        written(&file, &lines);
        let ran = verify(&[], &file);
        assert_eq!(ran.status, 1, "{}", ran.stdout);
        let place = format!("broken at {}:{at}: ", file.display());
        assert!(ran.shows(&place), "{place}: {}", ran.stdout);
        ran.stdout
    };
    let said = changed(4, &|lines| lines[3] = lines[3].replace("denied", "allowed"));
    assert!(said.contains("it was changed"), "{said}");
    let said = changed(1, &|lines| lines[0] = lines[0].replace("start", "stort"));
    assert!(said.contains("it was changed"), "{said}");
    let said = changed(4, &|lines| drop(lines.remove(3)));
    assert!(said.contains("lines are missing before it"), "{said}");
    let said = changed(5, &|lines| lines.insert(4, lines[3].clone()));
    assert!(said.contains("it is there twice"), "{said}");
    let said = changed(9, &|lines| lines.insert(8, lines[2].clone()));
    assert!(said.contains("it is there twice"), "{said}");
    let said = changed(6, &|lines| lines.insert(5, "not an event".to_owned()));
    assert!(said.contains("no event"), "{said}");
    let bare = lines[5]
        .split(",\"prev\"")
        .next()
        .expect("it is chained")
        .to_owned()
        + "}";
    let said = changed(6, &|lines| lines.insert(5, bare.clone()));
    assert!(said.contains("no `prev`"), "{said}");
    let said = changed(4, &|lines| lines.swap(3, 4));
    assert!(
        said.contains("missing") || said.contains("changed"),
        "{said}"
    );
}

#[test]
fn lines_cut_off_at_the_end_are_missed_by_a_hash_kept_elsewhere_alone() {
    let scratch = Scratch::new("has");
    let (file, lines) = chained(&scratch);
    let said = verify(&[], &file).succeeds().stdout;
    let last = said.trim().rsplit(' ').next().expect("a hash").to_owned();
    written(&file, &lines[..9]);
    verify(&[], &file).succeeds();
    let ran = verify(&["--has", &last], &file);
    assert_eq!(ran.status, 1);
    assert!(ran.shows("no line has the hash"), "{}", ran.stdout);
    written(&file, &lines);
    verify(&["--has", &last], &file).succeeds();

    assert_eq!(verify(&["--has", "x"], &file).status, 2);
    assert_eq!(verify(&[], &scratch.path("gone")).status, 2);
    assert_eq!(verify(&[], &scratch.dir("directory")).status, 2);
    let empty = scratch.file("empty", "");
    assert_eq!(verify(&[], &empty).status, 1);
}

#[test]
fn a_chain_goes_on_across_rotation_and_says_what_is_gone() {
    let scratch = Scratch::new("rotated");
    let file = scratch.path("events");
    let listed = json!([{ "type": "file", "path": file, "chain": true, "maxSize": "20K" }]);
    denied(srt(&scratch, &listed), 50).succeeds();
    assert!(scratch.path("events.1").exists());
    let ran = verify(&[], &file).succeeds();
    assert!(!ran.shows("is not there"), "{}", ran.stdout);
    denied(srt(&scratch, &listed), 100).succeeds();
    let ran = verify(&[], &file).succeeds();
    assert!(
        ran.shows("what came before them is not there"),
        "{}",
        ran.stdout
    );
    // What another program rotated is followed too.
    fs::rename(&file, scratch.path("events.1")).expect("it is ours");
    denied(srt(&scratch, &listed), 1).succeeds();
    verify(&[], &file).succeeds();
    fs::remove_file(scratch.path("events.1")).expect("it is ours");
    let ran = verify(&[], &file).succeeds();
    assert!(
        ran.shows("what came before them is not there"),
        "{}",
        ran.stdout
    );
}
