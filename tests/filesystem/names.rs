//! A protected name stays what it is: no rename, exchange, link or removal gets around it.

use std::fs;
use std::os::unix::fs::symlink;

use super::harness::{Scratch, Srt, outside};
use super::{content, listing, python, python_outside, state};

/// Renames in every way: plainly, over, and by exchange.
const RENAMES: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def exchange(a, b):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), 2):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
name, mine = sys.argv[1:]
for act in (lambda: exchange(name, mine), lambda: os.rename(mine, name), lambda: os.rename(name, name + '2'),
            lambda: os.unlink(name), lambda: os.link(name, name + '3')):
    try:
        act()
        print('done')
    except OSError as error:
        print('refused')
";

#[test]
fn a_denied_file_cannot_be_renamed_exchanged_replaced_or_removed() {
    let scratch = Scratch::new("file");
    let (work, denied) = (scratch.dir("work"), scratch.file("work/denied", "original"));
    let mine = scratch.file("work/mine", "new");
    let before = state(&denied);

    for srt in [
        Srt::new(&scratch).deny_write(&denied),
        Srt::new(&scratch).deny_read(&denied),
    ] {
        let ran = python(srt.allow_write(&work), RENAMES, &[&denied, &mine]).succeeds();
        assert_eq!(ran.stdout, "refused\n".repeat(5));
        assert_eq!(state(&denied), before);
        assert_eq!(listing(&work), ["denied", "mine"]);
    }

    let granted = python(
        Srt::new(&scratch).allow_write(&work),
        RENAMES,
        &[&denied, &mine],
    );
    assert!(granted.succeeds().stdout.starts_with("done\ndone\ndone\n"));
    assert_ne!(listing(&work), ["denied", "mine"]);
}

#[test]
fn a_denied_directory_and_the_directories_above_it_cannot_be_moved() {
    let scratch = Scratch::new("ancestors");
    let work = scratch.dir("work");
    let make = || drop(scratch.file("work/a/b/c/denied/f", "original"));
    make();
    let script = "cd work; mkdir x
        for d in a/b/c/denied a/b/c a/b a; do mv $d x/; mv $d ${d}2; rmdir $d; rm -rf $d; mv -T x $d; done; rm -rf x; true";
    let srt = || {
        Srt::new(&scratch)
            .allow_write(&work)
            .current_dir(scratch.path(""))
    };

    for denying in [
        srt().deny_write("work/a/b/c/denied"),
        srt().deny_read("work/a/b/c/denied"),
    ] {
        let ran = denying.sh(script).succeeds();
        assert!(
            ran.stderr.contains("Device or resource busy"),
            "{}",
            ran.stderr
        );
        assert_eq!(content(&work.join("a/b/c/denied/f")), "original");
        assert_eq!(listing(&work), ["a"]);
    }
    srt().sh(script).succeeds();
    assert!(
        !work.join("a/b/c/denied/f").exists(),
        "without the rule the same act succeeds"
    );
}

#[test]
fn a_prepared_file_cannot_take_the_place_of_a_denied_one() {
    let scratch = Scratch::new("slip");
    let denied = scratch.file("conf/prod.json", "old");
    let script =
        "echo new > t && mv -f t conf/prod.json; ln -f t conf/prod.json; rm -f conf/prod.json
        mv conf c2; mkdir -p conf; echo new > conf/prod.json; mv c2 c3; rm -rf conf; true";
    let srt = || {
        Srt::new(&scratch)
            .allow_write(".")
            .current_dir(scratch.path(""))
    };

    srt().deny_write("conf/prod.json").sh(script).succeeds();
    assert_eq!(content(&denied), "old");
    srt().sh(script).succeeds();
    assert!(!denied.exists(), "without the rule the same act succeeds");
}

#[test]
fn directories_beside_a_denied_one_stay_movable() {
    let scratch = Scratch::new("beside");
    let work = scratch.dir("work");
    scratch.file("work/a/denied", "original");
    scratch.dir("work/a/free");
    scratch.dir("work/b");
    let srt = Srt::new(&scratch)
        .allow_write(&work)
        .deny_write(work.join("a/denied"));

    srt.sh(&format!(
        "cd {} && mv b c && mv a/free a/moved && touch a/new",
        work.display()
    ))
    .succeeds();
    assert_eq!(listing(&work), ["a", "c"]);
    assert_eq!(listing(&work.join("a")), ["denied", "moved", "new"]);
}

#[test]
fn a_denied_name_that_could_be_made_is_refused() {
    let scratch = Scratch::new("missing");
    let work = scratch.dir("work");
    symlink(work.join("later"), scratch.path("dangling")).expect("the name is free");
    let srt = || Srt::new(&scratch).allow_write(&work);

    for name in [
        "work/missing",
        "work/no/such/place",
        "work/x/../missing",
        "dangling",
    ] {
        let ran = srt().deny_write(scratch.path(name)).run(&["true"]);
        ran.is_refused("does not exist in a writable directory");
    }
    srt()
        .deny_write(scratch.path("elsewhere/missing"))
        .run(&["true"])
        .succeeds();
    let closed = srt().deny_write(work.join("missing")).deny_write(&work);
    closed.run(&["true"]).succeeds();
    assert!(
        listing(&work).is_empty(),
        "nothing was made to hold a place"
    );
}

#[test]
fn denied_fifos_sockets_and_devices_are_covered_without_being_opened() {
    let scratch = Scratch::new("special");
    let work = scratch.dir("work");
    let make = "import os, socket, sys
os.mkfifo(sys.argv[1] + '/fifo'); socket.socket(socket.AF_UNIX).bind(sys.argv[1] + '/socket')";
    python_outside(make, &[&work]).succeeds();
    assert_eq!(listing(&work), ["fifo", "socket"]);
    let script = "cd work; timeout 5 cat fifo; echo $?; cat socket; echo $?; echo w > fifo; rm -f fifo socket; stat -c %F fifo socket; echo z > /dev/null && echo null";
    let srt = Srt::new(&scratch)
        .allow_write(&work)
        .current_dir(scratch.path(""));

    let ran = srt
        .deny_read("work/fifo")
        .deny_read("work/socket")
        .deny_read("/dev/null")
        .sh(script);
    assert_eq!(
        ran.stdout, "0\n0\nregular empty file\nregular empty file\nnull\n",
        "{}",
        ran.stderr
    );
    let kinds = outside(&format!("cd {} && stat -c %F fifo socket", work.display())).stdout;
    assert_eq!(kinds, "fifo\nsocket\n");
}

#[test]
fn write_denied_fifos_and_sockets_stay_what_they_are() {
    let scratch = Scratch::new("special-write");
    let work = scratch.dir("work");
    outside(&format!("mkfifo {}/fifo", work.display())).succeeds();
    let srt = Srt::new(&scratch)
        .allow_write(&work)
        .deny_write(work.join("fifo"));

    srt.sh(&format!(
        "cd {} && stat -c %F fifo && ! rm -f fifo && ! mv fifo f2",
        work.display()
    ))
    .succeeds();
    assert_eq!(listing(&work), ["fifo"]);
    fs::remove_file(work.join("fifo")).expect("the test made it");
}
