//! `TMPDIR` always names a directory that exists, is private to the run, and goes with it.

use std::path::{Path, PathBuf};

use super::harness::{Scratch, Srt, canary, outside, run, skip, wrapped};
use super::{during, listing};

#[test]
fn tmpdir_exists_is_private_and_goes_with_the_run() {
    let scratch = Scratch::new("private");
    let script = "mktemp && mktemp -d && stat -c '%a %u' $TMPDIR && id -u && echo $TMPDIR";
    let ran = Srt::new(&scratch).sh(script).succeeds();

    let lines: Vec<_> = ran.stdout.lines().collect();
    let [file, directory, mode, user, tmpdir] = lines[..] else {
        panic!("five lines, not {lines:?}");
    };
    assert_eq!(mode, format!("700 {user}"));
    assert!(file.starts_with(tmpdir) && directory.starts_with(tmpdir));
    assert!(!Path::new(tmpdir).exists());
}

#[test]
fn what_a_command_leaves_in_tmpdir_is_removed_whatever_its_mode() {
    let scratch = Scratch::new("left");
    let script = "mkdir -p $TMPDIR/a/b && touch $TMPDIR/a/b/f && chmod 000 $TMPDIR/a/b $TMPDIR/a && chmod 500 $TMPDIR && echo $TMPDIR";
    let ran = Srt::new(&scratch).sh(script).succeeds();
    let tmpdir = PathBuf::from(ran.stdout.trim());
    assert!(tmpdir.is_absolute() && !tmpdir.exists());
}

#[test]
fn a_tree_deeper_than_descriptors_and_paths_reach_is_removed() {
    let scratch = Scratch::new("deep");
    // Wide too, and with names that look like those the removal may choose.
    let script = "
import os
os.chdir(os.environ['TMPDIR'])
for name in range(50): os.makedirs(f'{name}/{name}'); open(f'{name}/file', 'x')
os.mkdir('start'); os.chdir('start')
for level in range(600):
    os.mkdir('directory'); os.mkdir('0'); os.chmod('0', 0)
    os.symlink('..', 'link'); open('1', 'x')
    os.chdir('directory')
    os.chmod('..', 0o500)
print(os.environ['TMPDIR'])
";
    let few = ["sh", "-c", "ulimit -n 200; exec \"$0\" \"$@\""];
    let ran = Srt::new(&scratch).watched(&["python3", "-c", script], |srt| {
        run(&mut wrapped(&few, srt))
    });
    let ran = ran.succeeds();
    let tmpdir = PathBuf::from(ran.stdout.trim());
    assert!(tmpdir.is_absolute() && !tmpdir.exists());
}

#[test]
fn what_links_in_tmpdir_lead_to_is_kept() {
    let scratch = Scratch::new("links");
    let kept = scratch.file("outside/kept", "content");
    outside(&format!("chmod 500 {}", scratch.path("outside").display())).succeeds();
    let script = format!(
        "ln -s {0} $TMPDIR/a; mkdir $TMPDIR/b; ln -s {0} $TMPDIR/b/c; ln -s {0}/kept $TMPDIR/d; echo $TMPDIR",
        scratch.path("outside").display()
    );
    let ran = Srt::new(&scratch).sh(&script).succeeds();
    assert!(!Path::new(ran.stdout.trim()).exists());
    assert_eq!(super::content(&kept), "content");
    let mode = outside(&format!("stat -c %a {}", scratch.path("outside").display()));
    assert_eq!(mode.stdout, "500\n");
}

#[test]
fn a_tmpdir_that_may_be_written_is_kept() {
    let scratch = Scratch::new("kept");
    let (work, own) = (scratch.dir("work"), scratch.dir("work/tmp"));
    let srt = Srt::new(&scratch).env("TMPDIR", &own).allow_write(&work);

    let ran = srt.sh("echo $TMPDIR; mktemp").succeeds();
    assert!(ran.stdout.starts_with(&format!("{}\n", own.display())));
    assert_eq!(
        listing(&own).len(),
        1,
        "the file is where the caller wanted it"
    );
}

#[test]
fn a_tmpdir_that_may_not_be_written_is_replaced() {
    let scratch = Scratch::new("replaced");
    let (work, own) = (scratch.dir("work"), scratch.dir("tmp"));
    for named in [
        own.clone(),
        scratch.path("missing"),
        PathBuf::from("relative"),
    ] {
        let srt = Srt::new(&scratch).env("TMPDIR", &named).allow_write(&work);
        let ran = srt
            .sh("echo $TMPDIR; mktemp >/dev/null && echo works")
            .succeeds();
        assert!(ran.stdout.ends_with("works\n"), "{}", ran.stderr);
        assert_ne!(ran.stdout, format!("{}\nworks\n", named.display()));
    }
    assert!(listing(&own).is_empty(), "the run's directory is gone");
}

#[test]
fn nothing_of_the_launcher_can_be_written_but_its_tmpdir() {
    let scratch = Scratch::new("launcher");
    if !is_writable("/var/tmp") {
        skip("there is no second directory for temporary files on this machine");
        return;
    }
    let script = "runs=$(dirname $TMPDIR); stat -c %a $runs; touch $TMPDIR/f && echo tmpdir
        case $runs in /tmp/*) echo REACHABLE;; esac
        try() { \"$@\" 2>/dev/null && echo WRITABLE: \"$@\"; }
        try touch $runs/f; try mkdir $runs/d; try mv $TMPDIR $runs/t; try rmdir $TMPDIR; try mv $runs ${runs}2; try chmod 777 $runs
        [ \"$(ls -A $runs)\" = $(basename $TMPDIR) ] && echo alone";
    let ran = Srt::new(&scratch).allow_write("/tmp").sh(script);
    // The stand-in that hides the runs of others shows this one's TMPDIR alone.
    assert_eq!(ran.stdout, "555\ntmpdir\nalone\n", "{}", ran.stderr);
}

fn is_writable(directory: &str) -> bool {
    outside(&format!("test -w {directory}")).status == 0
}

#[test]
fn a_run_directory_in_a_grant_cannot_be_replaced_for_the_launcher_to_follow() {
    let scratch = Scratch::new("replace");
    let victim = scratch.dir("victim/below");
    outside(&format!(
        "chmod -R 755 {}",
        scratch.path("victim").display()
    ))
    .succeeds();
    let script = format!(
        "run=$TMPDIR; mv $run ${{run}}2 && ln -s {} $run && chmod 500 $(dirname $run); touch $TMPDIR/f && echo tmpdir",
        scratch.path("victim").display()
    );
    let srt = Srt::new(&scratch)
        .allow_write("/tmp")
        .allow_write("/var/tmp");
    let ran = srt.deny_write(scratch.path("victim")).sh(&script);

    assert_eq!(ran.stdout, "tmpdir\n");
    assert!(
        ran.stderr.contains("Read-only file system"),
        "{}",
        ran.stderr
    );
    assert!(victim.exists());
    let modes = outside(&format!(
        "stat -c %a {} {0}/below",
        scratch.path("victim").display()
    ));
    assert_eq!(modes.stdout, "755\n755\n");
}

#[test]
fn tmpdirs_of_two_runs_are_apart() {
    let scratch = Scratch::new("apart");
    let name = || Srt::new(&scratch).sh("echo $TMPDIR").succeeds().stdout;
    assert_ne!(name(), name());
}

/// Runs with a `/tmp` of the test's own, in which `prepare` was run before.
fn with_own_tmp(scratch: &Scratch, prepare: &str, inside: &str) -> super::Ran {
    let namespace = if super::harness::is_root() {
        "-m"
    } else {
        "-rm"
    };
    let script = format!(
        "exec 8<{} && mount -t tmpfs t /tmp && cp /proc/self/fd/8 /tmp/srt && chmod 755 /tmp/srt && exec 8<&- && cd /tmp \
         && mkdir victim && {prepare} && echo {{}} > s.json && export HOME=/tmp && unset TMPDIR && ./srt -s s.json -- sh -c '{inside}'; ls -A victim",
        env!("CARGO_BIN_EXE_srt"),
    );
    let mut command = std::process::Command::new("unshare");
    command
        .args([namespace, "sh", "-c", &script])
        .current_dir(scratch.path(""));
    run(&mut command)
}

#[test]
fn a_known_name_in_tmp_is_not_followed_elsewhere() {
    let scratch = Scratch::new("planted");
    let inside = "touch /tmp/claude/f && echo WRITTEN; mktemp >/dev/null && echo works";

    let own = with_own_tmp(&scratch, "mkdir claude", inside);
    assert_eq!(own.stdout, "WRITTEN\nworks\n", "{}", own.stderr);
    let planted = with_own_tmp(&scratch, "ln -s /tmp/victim claude", inside);
    assert_eq!(planted.stdout, "works\n", "{}", planted.stderr);
    let run_directory = "mkdir -m 777 srt-$(id -u)";
    let open_to_all = with_own_tmp(&scratch, run_directory, inside);
    assert_eq!(open_to_all.stdout, "works\n", "{}", open_to_all.stderr);
    let linked = with_own_tmp(&scratch, "ln -s /tmp/victim srt-$(id -u)", inside);
    assert_eq!(
        linked.stdout, "works\n",
        "nothing of ours in victim: {}",
        linked.stderr
    );
}

#[test]
fn the_tmpdir_of_a_run_is_out_of_reach_of_every_other() {
    let scratch = Scratch::new("tmpdir-of-others");
    let canary = canary();
    let script = format!("echo {canary} >$TMPDIR/f; echo $TMPDIR/f");
    during(Srt::new(&scratch), &script, |file| {
        is_out_of_reach(file, &canary);
    });
}

/// Expects that no other run reads the file or moves it away.
fn is_out_of_reach(file: &str, canary: &str) {
    let scratch = Scratch::new("tmpdir-others");
    let read = format!("cat {file}");
    assert!(outside(&read).shows(canary));
    let other = || Srt::new(&scratch);
    assert!(!other().sh(&read).fails().shows(canary));
    let runs = Path::new(file)
        .ancestors()
        .nth(2)
        .expect("the runs, this run, f");
    let find = format!("grep -rs {canary} {}", runs.display());
    assert!(!other().sh(&find).fails().shows(canary));
    let moved = format!("mv {0} {0}-moved", runs.display());
    other().allow_write("/tmp").sh(&moved).fails();
    assert!(Path::new(file).exists());
}
