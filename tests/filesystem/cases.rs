//! What builds, editors and shells rely on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use super::during;
use super::harness::{Scratch, Srt, canary};
use super::python_outside;

/// Prints the name of the first file that is made in a directory, after a line that it watches.
const WATCH: &str = "
import ctypes, os, select, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(0)
assert libc.inotify_add_watch(watch, sys.argv[1].encode(), 0x100) >= 0, os.strerror(ctypes.get_errno())
print('watching', flush=True)
ready, _, _ = select.select([watch], [], [], 10)
data = os.read(watch, 4096) if ready else b''
print(data[16:].rstrip(b'\\0').decode())
";

#[test]
fn watchers_inside_and_outside_see_what_the_other_side_makes() {
    let scratch = Scratch::new("watchers");
    let (work, program) = (scratch.dir("work"), scratch.file("watch.py", WATCH));
    let watch = format!("python3 {} {}", program.display(), work.display());
    let srt = || Srt::new(&scratch).allow_write(&work);
    let made_outside = work.join("made-outside");
    let ran = during(srt(), &watch, |line| {
        assert_eq!(line, "watching");
        fs::write(&made_outside, "").expect("it is ours");
    });
    assert!(ran.shows("made-outside"), "{ran:?}");

    let made = thread::scope(|scope| {
        let watcher = scope.spawn(|| python_outside(WATCH, &[&work]));
        // Until the watcher has seen one.
        for number in 0.. {
            if watcher.is_finished() || number == 100 {
                break;
            }
            srt()
                .sh(&format!("touch {}/inside-{number}", work.display()))
                .succeeds();
        }
        watcher.join().expect("it does not panic").succeeds()
    });
    assert!(made.shows("inside-"), "{made:?}");
}

#[test]
fn the_directory_of_the_launcher_can_be_hidden() {
    let scratch = Scratch::new("own-directory");
    let directory = std::path::Path::new(env!("CARGO_BIN_EXE_srt"))
        .parent()
        .expect("it lies somewhere");
    let script = format!("ls {}; echo ran", directory.display());
    assert!(Srt::new(&scratch).sh(&script).shows("srt"));
    let ran = Srt::new(&scratch)
        .deny_read(directory)
        .sh(&script)
        .succeeds();
    assert_eq!(ran.stdout, "ran\n");
}

#[test]
fn a_path_that_turns_into_something_else_while_the_run_is_set_up_ends_it() {
    let scratch = Scratch::new("turning");
    let canary = canary();
    let denied = scratch.file("denied", &canary);
    let other = scratch.dir("other");
    scratch.file("other/f", &canary);
    let done = AtomicBool::new(false);
    let runs = thread::scope(|scope| {
        scope.spawn(|| {
            let aside = scratch.path("aside");
            while !done.load(Ordering::Relaxed) {
                for (from, to) in [
                    (&denied, &aside),
                    (&other, &denied),
                    (&denied, &other),
                    (&aside, &denied),
                ] {
                    fs::rename(from, to).expect("nobody else moves them");
                }
            }
        });
        let runs: Vec<_> = (0..30)
            .map(|_| {
                Srt::new(&scratch)
                    .deny_read(&denied)
                    .host_changes(scratch.path(""), "the paths take each other's place")
                    .run(&["true"])
            })
            .collect();
        done.store(true, Ordering::Relaxed);
        runs
    });
    let refused = runs.iter().filter(|ran| ran.status == 125);
    for ran in refused.clone() {
        assert!(ran.stderr.contains("denied"), "{}", ran.stderr);
    }
    assert!(refused.count() > 0, "it never turned at the wrong moment");
    assert!(
        runs.iter().all(|ran| [0, 125].contains(&ran.status)),
        "{runs:?}"
    );

    // Left alone, it is hidden as what it is then.
    let script = format!("cat {0} {0}/f; true", denied.display());
    let shown = |srt: Srt| srt.sh(&script).succeeds().shows(&canary);
    assert!(shown(Srt::new(&scratch)));
    assert!(!shown(Srt::new(&scratch).deny_read(&denied)));
}
