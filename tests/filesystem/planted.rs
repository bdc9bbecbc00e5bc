//! Links by which a caller names paths: those of others work, those that an earlier run could have
//! planted open nothing.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::harness::{Scratch, Srt};
use super::{content, listing};

/// What a run of its own has planted in `work`: links that lead to `outside`.
struct Planted {
    scratch: Scratch,
    work: PathBuf,
    outside: PathBuf,
    /// Acts on `outside`.
    act: String,
}

const REFUSED: &str = "is a link in a writable directory";

impl Planted {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let (work, outside) = (scratch.dir("work"), scratch.dir("outside"));
        scratch.file("outside/f", "original");
        scratch.file("outside/secret/f", "s");
        scratch.dir("outside/tmp");
        let script = format!(
            "cd {} && ln -s {1} list && ln -s {1} cwd && ln -s {1} home && ln -s {1}/tmp tmp && \
             mkdir deep && ln -s {1} deep/list",
            work.display(),
            outside.display()
        );
        Srt::new(&scratch).allow_write(&work).sh(&script).succeeds();
        let act = format!(
            "echo new > {0}/new; echo new > {0}/f; cat {0}/secret/f",
            outside.display()
        );
        Self {
            scratch,
            work,
            outside,
            act,
        }
    }

    /// The next run, which may write what the first could.
    fn srt(&self) -> Srt {
        let srt = Srt::new(&self.scratch).allow_write(&self.work);
        srt.deny_read(self.outside.join("secret"))
    }

    fn is_as_before(&self, of: &str) {
        let names = listing(&self.outside);
        assert_eq!(names, ["f", "secret", "tmp"], "{of}");
        assert_eq!(content(&self.outside.join("f")), "original", "{of}");
        assert_eq!(listing(&self.outside.join("tmp")), [""; 0], "{of}");
    }
}

#[test]
fn a_grant_by_a_link_of_an_earlier_run_opens_nothing() {
    let planted = Planted::new("planted-grant");
    let Planted { work, act, .. } = &planted;
    for entry in [
        "list",
        "list/",
        "list/tmp",
        "deep/../list",
        "deep/list/tmp/",
    ] {
        let path = format!("{}/{entry}", work.display());
        planted.srt().allow_write(&path).sh(act).is_refused(REFUSED);
        planted.srt().allow_read(&path).sh(act).is_refused(REFUSED);
        let relative = planted.srt().current_dir(work).allow_write(entry);
        relative.sh(act).is_refused(REFUSED);
        planted.is_as_before(entry);
    }
    let home = || planted.srt().env("HOME", work.join("home"));
    home().allow_write("~").sh(act).is_refused(REFUSED);
    home().allow_read("~/secret").sh(act).is_refused(REFUSED);
    home().sh(act).fails();
    // Patterns fit no planted link.
    for pattern in ["*", "**", "l*", "deep/*", "*/tmp"] {
        let pattern = format!("{}/{pattern}", work.display());
        let ran = planted.srt().allow_write(&pattern).sh(act).fails();
        assert_eq!(ran.stdout, "", "{pattern}");
        planted.is_as_before(&pattern);
    }

    // The control: the same acts where the path itself is granted.
    let open = Srt::new(&planted.scratch).allow_write(&planted.outside);
    let ran = open.sh(act).succeeds();
    let changed = content(&planted.outside.join("f"));
    assert_eq!((ran.stdout.as_str(), changed.as_str()), ("s", "new\n"));
}

#[test]
fn a_place_reached_by_a_link_of_an_earlier_run_opens_nothing() {
    let planted = Planted::new("planted-place");
    let Planted {
        work, outside, act, ..
    } = &planted;
    // The working directory, entered by the planted name.
    let at = || {
        let srt = planted.srt().current_dir(work.join("cwd"));
        srt.env("PWD", work.join("cwd"))
    };
    for entry in [".", "./", "tmp"] {
        at().allow_write(entry).sh(act).is_refused(REFUSED);
    }
    at().allow_read("secret").sh(act).is_refused(REFUSED);
    at().sh(act).fails();
    for dir in ["../cwd", text(&work.join("cwd"))] {
        let named = planted.srt().current_dir(work.join("deep"));
        let named = named.flags(&["--cwd", dir]).allow_write(".");
        named.sh(act).is_refused(REFUSED);
    }
    // TMPDIR, which is the caller's where it may be written.
    let tmp = outside.join("tmp");
    let srt = planted.srt().env("TMPDIR", work.join("tmp"));
    let srt = srt.host_changes(&tmp, "directories of the run come and go");
    let script = format!(
        "echo x > {0}/x; [ \"$(cd -P $TMPDIR; pwd)\" != {0} ] && {act}",
        tmp.display()
    );
    srt.sh(&script).fails();
    planted.is_as_before("TMPDIR and the working directory");
    // Denies cover what a link leads to.
    let srt = planted.srt().allow_write(outside);
    let denied = srt
        .deny_read(work.join("list/secret"))
        .deny_write(work.join("list/f"));
    let script = format!("cat {0}/secret/f; echo new > {0}/f", outside.display());
    assert_eq!(denied.sh(&script).fails().stdout, "");
    planted.is_as_before("denies");
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
