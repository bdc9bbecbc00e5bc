//! Programs that fill the screen draw inside what they draw outside, also after a resize.
//!
//! The screens are stored in `tests/data/screens`; one that is missing is written, to be looked
//! at.

use std::fs;
use std::path::{Path, PathBuf};

use super::emulator::Emulator;
use super::harness::{Scratch, Srt, is_there, skip};
use super::{foreground, native};

/// What is done with a program until its screen is the stored one.
enum Act {
    Type(&'static str),
    See(&'static str),
    Resize,
    Screen(&'static str),
}

use Act::{Resize, Screen, See, Type};

/// A file of numbered lines that fit no screen.
fn lines(scratch: &Scratch) {
    let line = |n| format!("line {n:3} {}\n", "abcdefghij.".repeat(8));
    scratch.file("cwd/lines", (1..=200).map(line).collect::<String>());
}

/// Takes the acts with a program outside and inside; each screen must be the stored one.
fn draws(scratch: &Scratch, words: &[&str], prepare: impl Fn(), acts: &[Act]) {
    if !is_there(words[0]) {
        return skip(&format!("{} is not installed", words[0]));
    }
    let srt = || Srt::new(scratch).allow_write(scratch.path("cwd"));
    prepare();
    let outside = take(foreground(&native(scratch, words)), acts);
    prepare();
    let inside = take(foreground(&srt().into_command(words)), acts);
    match (outside, inside) {
        (Ok(()), inside) => assert_eq!(inside, Ok(())),
        (Err(outside), Err(inside)) if outside == inside => {
            skip(&format!(
                "this version of {} draws another screen",
                words[0]
            ));
        }
        (outside, inside) => panic!("outside: {outside:?}\ninside: {inside:?}"),
    }
}

/// Takes the acts; a screen other than the stored one ends them and is returned.
fn take(mut terminal: Emulator, acts: &[Act]) -> Result<(), String> {
    let before = terminal.state();
    for act in acts {
        match act {
            Type(keys) => terminal.types(keys),
            See(text) => terminal.shows(text),
            Resize => terminal.resize(30, 100),
            Screen(name) => {
                let stored = stored(name);
                let Ok(expected) = fs::read_to_string(&stored) else {
                    terminal.settles();
                    fs::write(&stored, terminal.screen()).expect("the tree is ours");
                    continue;
                };
                if !terminal.waits_until(|screen| screen == expected) {
                    return Err(terminal.screen());
                }
            }
        }
    }
    terminal.shows("ended 0");
    let foreground = terminal.state();
    assert_eq!(foreground.modes(), before.modes());
    Ok(())
}

fn stored(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/screens");
    dir.join(name).with_extension("txt")
}

#[test]
fn vim_edits_on_the_whole_screen_and_follows_a_resize() {
    let scratch = Scratch::new("vim");
    let words = [
        "vim",
        "-u",
        "NONE",
        "-i",
        "NONE",
        "-N",
        "-n",
        "+set laststatus=2 ruler showmode",
        "lines",
    ];
    let acts = [
        See("line   1"),
        Type("5Gohello\x1b"),
        Screen("vim-80x24"),
        Resize,
        Screen("vim-100x30"),
        Type(":wq\r"),
    ];
    draws(&scratch, &words, || lines(&scratch), &acts);
    let written = fs::read_to_string(scratch.path("cwd/lines")).expect("it is there");
    assert!(
        written.contains("\nhello\n") || !is_there("vim"),
        "{written}"
    );
}

#[test]
fn less_pages_on_the_whole_screen_and_follows_a_resize() {
    let scratch = Scratch::new("less");
    let acts = [
        See("line   1"),
        Type(" /100 \r"),
        Screen("less-80x24"),
        Resize,
        Screen("less-100x30"),
        Type("q"),
    ];
    draws(
        &scratch,
        &["less", "-S", "lines"],
        || lines(&scratch),
        &acts,
    );
}

#[test]
fn a_shell_with_jobs_shows_them_and_follows_a_resize() {
    let scratch = Scratch::new("jobs");
    let words = ["bash", "--norc", "--noprofile", "-i"];
    let acts = [
        See("bash-"),
        Type("PS1='$ '; clear\r"),
        Type("sh -c 'echo u''p; exec cat'\r"),
        See("\nup"),
        Type("\x1a"),
        See("Stopped"),
        Type("sleep 301 2>&1 | cat &\r"),
        See("[2]"),
        Type("clear; jobs; stty size\r"),
        Screen("jobs-80x24"),
        Resize,
        Type("stty size; fg %1\r"),
        Screen("jobs-100x30"),
        Type("\x04"),
        Type("kill %2; wait; clear; exit 0\r"),
    ];
    draws(&scratch, &words, || {}, &acts);
}
