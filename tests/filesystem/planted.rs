//! Links by which a caller names paths: those of others work, those that an earlier run could have
//! planted open nothing.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::harness::{Scratch, Srt};
use super::{content, listing};

/// Has a run of its own plant links in `work`, which lead to `outside`.
fn planted(scratch: &Scratch) -> [PathBuf; 2] {
    let (work, outside) = (scratch.dir("work"), scratch.dir("outside"));
    scratch.file("outside/f", "original");
    scratch.dir("outside/tmp");
    let script = format!(
        "cd {} && ln -s {1} list && ln -s {1} cwd && ln -s {1} home && ln -s {1}/tmp tmp && mkdir deep && \
         ln -s {1} deep/list && echo '{{\"filesystem\":{{\"allowWrite\":[\"/\"]}}}}' > all.json && \
         ln -s all.json settings.json",
        work.display(),
        outside.display()
    );
    Srt::new(scratch).allow_write(&work).sh(&script).succeeds();
    [work, outside]
}

#[test]
fn a_link_of_an_earlier_run_opens_nothing_to_the_next() {
    let scratch = Scratch::new("earlier");
    let [work, outside] = planted(&scratch);
    scratch.file("outside/secret/f", "s");
    let write = format!(
        "echo new > {0}/new; echo new > {0}/f; cat {0}/secret/f",
        outside.display()
    );
    let srt = || Srt::new(&scratch).allow_write(&work);
    let shut = || srt().deny_read(outside.join("secret"));
    let is_as_before = |of: &str| {
        assert_eq!(listing(&outside), ["f", "secret", "tmp"], "{of}");
        assert_eq!(content(&outside.join("f")), "original", "{of}");
        assert_eq!(listing(&outside.join("tmp")), [""; 0], "{of}");
    };

    // The grants, by name, as a directory on the way, relative and by way of the home.
    for entry in [
        "list",
        "list/",
        "list/tmp",
        "deep/../list",
        "deep/list/tmp/",
    ] {
        let path = format!("{}/{entry}", work.display());
        shut()
            .allow_write(&path)
            .sh(&write)
            .is_refused("is a link in a writable directory");
        shut()
            .allow_read(&path)
            .sh(&write)
            .is_refused("is a link in a writable directory");
        let relative = shut().current_dir(&work).allow_write(entry);
        relative
            .sh(&write)
            .is_refused("is a link in a writable directory");
        is_as_before(entry);
    }
    let home = || shut().env("HOME", work.join("home"));
    home()
        .allow_write("~")
        .sh(&write)
        .is_refused("is a link in a writable directory");
    home()
        .allow_read("~/secret")
        .sh(&write)
        .is_refused("is a link in a writable directory");
    home().sh(&write).fails();
    // Patterns fit no planted link.
    for pattern in ["*", "**", "l*", "deep/*", "*/tmp"] {
        let ran = shut()
            .allow_write(format!("{}/{pattern}", work.display()))
            .sh(&write);
        assert!(!ran.shows("s\n") && ran.status != 0, "{pattern}");
        is_as_before(pattern);
    }
    // The working directory, entered by the planted name.
    let at = |srt: Srt| {
        srt.current_dir(work.join("cwd"))
            .env("PWD", work.join("cwd"))
    };
    for entry in [".", "./", "tmp"] {
        at(shut())
            .allow_write(entry)
            .sh(&write)
            .is_refused("is a link in a writable directory");
    }
    at(shut())
        .allow_read("secret")
        .sh(&write)
        .is_refused("is a link in a writable directory");
    at(shut()).sh(&write).fails();
    let named = |dir: &str| shut().current_dir(work.join("deep")).flags(&["--cwd", dir]);
    for dir in ["../cwd", text(&work.join("cwd"))] {
        named(dir)
            .allow_write(".")
            .sh(&write)
            .is_refused("is a link in a writable directory");
    }
    // TMPDIR, which is the caller's where it may be written.
    let tmp = shut().env("TMPDIR", work.join("tmp"));
    let ran = tmp
        .host_changes(outside.join("tmp"), "directories of the run come and go")
        .sh(&format!(
            "echo x > {}/x; [ $(cd -P $TMPDIR; pwd) != {0} ] && {write}",
            outside.join("tmp").display()
        ));
    ran.fails();
    is_as_before("TMPDIR, cwd and HOME");
    // Denies cover what a link leads to, and the path that is named as well.
    let ran = srt()
        .deny_read(work.join("list/secret"))
        .deny_write(work.join("list/f"));
    ran.allow_write(&outside)
        .sh(&format!(
            "cat {0}/secret/f; echo new > {0}/f",
            outside.display()
        ))
        .fails();
    is_as_before("denies");

    // The control: the same acts where the path itself is granted.
    let open = srt().allow_write(&outside).sh(&write).succeeds();
    assert_eq!(
        (open.stdout.as_str(), content(&outside.join("f")).as_str()),
        ("s", "new\n")
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

#[test]
fn a_directory_entered_by_a_link_that_nobody_could_plant_is_a_working_directory() {
    let scratch = Scratch::new("entered");
    let real = scratch.dir("disk/project");
    symlink(&real, scratch.path("project")).expect("free");
    let named = scratch.path("project");
    let srt = || {
        let srt = Srt::new(&scratch).allow_write(".").env("PWD", &named);
        srt.host_changes(&real, "it is the directory that is entered")
    };
    let ran = srt()
        .current_dir(&named)
        .sh("pwd; pwd -P; echo 1 > one")
        .succeeds();
    assert_eq!(
        ran.stdout,
        format!("{}\n{}\n", named.display(), real.display())
    );
    // By flag, from elsewhere, whatever PWD says.
    let ran = srt()
        .flags(&["--cwd", text(&named)])
        .sh("pwd; echo 2 > two")
        .succeeds();
    assert_eq!(ran.stdout, format!("{}\n", named.display()));
    let ran = srt()
        .flags(&["--cwd", "../disk/project"])
        .sh("pwd; echo 3 > three")
        .succeeds();
    assert_eq!(ran.stdout, format!("{}\n", real.display()));
    assert_eq!(listing(&real), ["one", "three", "two"]);
}

#[test]
fn what_is_reached_by_links_in_every_place_works() {
    let scratch = Scratch::new("reached");
    let disk = scratch.dir("disk");
    scratch.dir("disk/run/state");
    scratch.dir("disk/out");
    // As /var/run and /tmp of some machines.
    symlink("disk/run", scratch.path("var-run")).expect("free");
    symlink("var-run", scratch.path("tmp-link")).expect("free");
    // The directory that holds the link cannot be written.
    symlink(disk.join("out"), scratch.dir("closed").join("out")).expect("free");
    let script = format!(
        "set -e; echo 1 > {0}/var-run/state/f; echo 2 > {0}/tmp-link/g; echo 3 > {0}/closed/out/h
        mktemp > /dev/null; ! echo 4 > {0}/closed/new; ! rm {0}/closed/out; ! rm {0}/var-run
        ! mv {0}/tmp-link {0}/moved; ! ls {0}/var-run/secret/f; ! echo 5 > {0}/disk/run/kept/f",
        scratch.path("").display()
    );
    for dir in ["secret", "kept"] {
        scratch.file(&format!("disk/run/{dir}/f"), "original");
    }
    let srt = Srt::new(&scratch)
        .env("TMPDIR", scratch.path("tmp-link"))
        .allow_write(scratch.path("var-run"))
        .allow_write(scratch.path("closed/out"))
        .deny_read(scratch.path("tmp-link/secret"))
        .deny_write(scratch.path("tmp-link/kept"));
    srt.sh(&script).succeeds();
    assert_eq!(content(&disk.join("run/state/f")), "1\n");
    assert_eq!(content(&disk.join("run/g")), "2\n");
    assert_eq!(content(&disk.join("out/h")), "3\n");
    assert_eq!(content(&disk.join("run/kept/f")), "original");
    assert_eq!(listing(&scratch.path("closed")), ["out"]);
}
