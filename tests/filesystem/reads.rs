//! What `denyRead` hides stays hidden, under every name.

use std::fs;
use std::os::unix::fs::symlink;

use super::harness::{self, Scratch, Srt, canary, outside, wrapped};
use super::{content, listing};

#[test]
fn content_of_a_denied_file_never_appears() {
    let scratch = Scratch::new("content");
    let canary = canary();
    let (work, denied) = (scratch.dir("work"), scratch.file("secret/file", &canary));
    let script = format!(
        "cat {0}; head -c 99 {0}; grep -r . {1}; cp {0} {2}/copy; dd if={0} of={2}/dd 2>/dev/null; true",
        denied.display(),
        scratch.path("secret").display(),
        work.display()
    );

    assert!(
        Srt::new(&scratch)
            .allow_write(&work)
            .sh(&script)
            .shows(&canary)
    );
    assert_eq!(content(&work.join("copy")), canary);
    fs::remove_file(work.join("copy")).expect("the control made it");
    fs::remove_file(work.join("dd")).expect("the control made it");

    let ran = Srt::new(&scratch)
        .allow_write(&work)
        .deny_read(&denied)
        .sh(&script);
    assert!(!ran.succeeds().shows(&canary));
    for name in listing(&work) {
        assert_eq!(content(&work.join(&name)), "", "{name}");
    }
}

#[test]
fn stat_of_a_denied_file_tells_of_the_stand_in_only() {
    let scratch = Scratch::new("stat");
    let denied = scratch.file("secret", "0123456789");
    let script = format!("stat -c '%i %s %Y' {}", denied.display());
    outside(&format!("touch -d @86400 {}", denied.display())).succeeds();
    let real = outside(&script).stdout;

    assert_eq!(Srt::new(&scratch).sh(&script).stdout, real);
    let shown = Srt::new(&scratch)
        .deny_read(&denied)
        .sh(&script)
        .succeeds()
        .stdout;

    let pairs: Vec<_> = shown
        .split_whitespace()
        .zip(real.split_whitespace())
        .collect();
    assert_eq!(pairs.len(), 3);
    assert!(pairs.iter().all(|(shown, real)| shown != real), "{pairs:?}");
}

#[test]
fn names_in_a_denied_directory_cannot_be_found() {
    let scratch = Scratch::new("names");
    let denied = scratch.dir("denied");
    scratch.file("denied/known-name", "x");
    let script = format!(
        "ls -A {0}; cd {0} && ls -A; find {0} -name 'known-*'; stat -c found {0}/known-name; true",
        denied.display()
    );

    assert!(Srt::new(&scratch).sh(&script).stdout.contains("known-name"));
    let ran = Srt::new(&scratch).deny_read(&denied).sh(&script).succeeds();
    assert!(!ran.stdout.contains("known-name") && !ran.stdout.contains("found"));
}

#[test]
fn writes_into_a_hidden_directory_fail_instead_of_vanishing() {
    let scratch = Scratch::new("vanish");
    let (work, denied) = (scratch.dir("work"), scratch.dir("work/denied"));
    let script = format!("echo x > {}/new", denied.display());

    Srt::new(&scratch).allow_write(&work).sh(&script).succeeds();
    assert_eq!(listing(&denied), ["new"]);
    fs::remove_file(denied.join("new")).expect("the control made it");

    let ran = Srt::new(&scratch)
        .allow_write(&work)
        .deny_read(&denied)
        .sh(&script)
        .fails();
    assert!(
        ran.stderr.contains("Read-only file system"),
        "{}",
        ran.stderr
    );
    assert!(listing(&denied).is_empty());
}

#[test]
fn links_to_a_denied_file_lead_to_nothing() {
    let scratch = Scratch::new("links");
    let canary = canary();
    let (work, denied) = (scratch.dir("work"), scratch.file("secret/file", &canary));
    symlink(scratch.path("secret"), work.join("directory")).expect("the name is free");
    let script = format!(
        "ln -s {} one; ln -s one two; ln -s ../secret/file three; ln -s /proc/self/cwd/../secret/file four
        for name in one two three four directory/file; do cat $name; done; rm -f one two three four; true",
        denied.display()
    );

    let srt = || Srt::new(&scratch).allow_write(&work).current_dir(&work);
    let control = srt().sh(&script);
    assert_eq!(
        control.stdout.matches(&canary).count(),
        5,
        "{}",
        control.stderr
    );
    assert!(
        !srt()
            .deny_read(scratch.path("secret"))
            .sh(&script)
            .shows(&canary)
    );
    assert!(!srt().deny_read(&denied).sh(&script).shows(&canary));
}

#[test]
fn links_in_the_settings_hide_what_they_lead_to() {
    let scratch = Scratch::new("denied-link");
    let canary = canary();
    let file = scratch.file("real/a", &canary);
    symlink(scratch.path("real"), scratch.path("link")).expect("the name is free");
    let script = format!(
        "cat {} {}/a; true",
        file.display(),
        scratch.path("link").display()
    );

    assert!(Srt::new(&scratch).sh(&script).shows(&canary));
    assert!(
        !Srt::new(&scratch)
            .deny_read(scratch.path("link"))
            .sh(&script)
            .shows(&canary)
    );
}

#[test]
fn links_of_proc_lead_to_the_sandbox_only() {
    let scratch = Scratch::new("proc-links");
    let canary = canary();
    let denied = scratch.file("secret", &canary);
    let script = format!(
        "for p in /proc/[0-9]* /proc/self /proc/thread-self; do
            cat $p/root{0} $p/cwd/../secret $p/task/*/root{0}; done
        exec 5< {0} && cat <&5; cat /proc/1/root{0}; true",
        denied.display()
    );

    assert!(Srt::new(&scratch).sh(&script).shows(&canary));
    assert!(
        !Srt::new(&scratch)
            .deny_read(&denied)
            .sh(&script)
            .shows(&canary)
    );
}

#[test]
fn no_process_inside_holds_a_descriptor_of_the_host() {
    let scratch = Scratch::new("descriptors");
    let script = "for p in /proc/[0-9]* /proc/self; do ls -l $p/fd; done 2>/dev/null; ls -l /proc/1/fd >/dev/null 2>&1 && echo INIT; true";
    let targets = |listing: &str| -> Vec<String> {
        let shown = listing.lines().filter_map(|line| line.split(" -> ").nth(1));
        shown.map(str::to_owned).collect()
    };

    let control = outside("exec 7</tmp; ls -l /proc/self/fd");
    assert!(targets(&control.stdout).contains(&"/tmp".to_owned()));

    let ran = Srt::new(&scratch).sh(script).succeeds();
    let found = targets(&ran.stdout);
    assert!(!found.is_empty());
    let known = ["pipe:[", "/dev/null", "/proc/"];
    for target in found {
        assert!(
            known.iter().any(|known| target.starts_with(known)),
            "{target}"
        );
    }
    assert!(
        !ran.stdout.contains("INIT"),
        "the descriptors of process 1 can be listed"
    );
}

#[test]
fn a_hidden_working_directory_is_refused() {
    let scratch = Scratch::new("hidden-cwd");
    let here = scratch.dir("up/me");

    Srt::new(&scratch)
        .current_dir(&here)
        .run(&["true"])
        .succeeds();
    for denied in [scratch.path("up"), here.clone()] {
        let ran = Srt::new(&scratch)
            .current_dir(&here)
            .deny_read(denied)
            .run(&["true"]);
        ran.is_refused("is hidden by `filesystem.denyRead`");
    }
}

#[test]
fn a_removed_working_directory_is_refused() {
    let scratch = Scratch::new("removed-cwd");
    let go = |end: &str| {
        let script = format!("mkdir -p gone && cd gone && {end} && exec \"$@\"");
        let words = ["sh", "-c", &script, "sh"];
        Srt::new(&scratch)
            .host_changes(scratch.path("cwd/gone"), "it comes and goes before the run")
            .watched(&["true"], |srt| harness::run(&mut wrapped(&words, srt)))
    };

    go("true").succeeds();
    go("rmdir ../gone && cd . 2>/dev/null || true").is_refused("cannot use the working directory");
}

#[test]
fn a_directory_shown_again_below_a_hidden_one_is_where_the_command_stays() {
    let scratch = Scratch::new("reopened-cwd");
    let here = scratch.dir("up/me");
    scratch.file("up/me/p", "mine");
    scratch.file("up/other", "theirs");
    let script = "pwd; cat p; cat ../other; ls -A ..";

    let control = Srt::new(&scratch).current_dir(&here).sh(script).succeeds();
    assert!(control.stdout.contains("theirs"));

    let srt = Srt::new(&scratch)
        .current_dir(&here)
        .deny_read("..")
        .allow_read(".");
    let ran = srt.sh(script);
    assert_eq!(
        ran.stdout,
        format!("{}\nmineme\n", here.display()),
        "{}",
        ran.stderr
    );
}

#[test]
fn depth_decides_whatever_the_order_of_the_lists() {
    let scratch = Scratch::new("overlap");
    for name in ["a/x", "a/b/x", "a/b/c/x", "a/b/d/x"] {
        scratch.file(name, format!("[{name}]"));
    }
    let script = "cat a/x a/b/x a/b/c/x a/b/d/x; true";
    let entries = ["a", "a/b/c", "a/b/d"];
    let orders = [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ];

    let everything = Srt::new(&scratch)
        .current_dir(scratch.path(""))
        .sh(script)
        .stdout;
    assert_eq!(everything, "[a/x][a/b/x][a/b/c/x][a/b/d/x]");
    for order in orders {
        let mut srt = Srt::new(&scratch)
            .current_dir(scratch.path(""))
            .allow_read("a/b");
        for index in order {
            srt = srt.deny_read(entries[index]);
        }
        assert_eq!(srt.sh(script).stdout, "[a/b/x]", "{order:?}");
    }
}

#[test]
fn any_number_of_files_of_one_directory_can_be_denied() {
    let scratch = Scratch::new("several");
    for name in ["a", "b", "c", "d"] {
        scratch.file(name, name);
    }
    let srt = || Srt::new(&scratch).current_dir(scratch.path(""));

    assert_eq!(srt().sh("cat a b c d").succeeds().stdout, "abcd");
    let denied = srt().deny_read("a").deny_read("b").deny_read("c");
    assert_eq!(denied.sh("cat a b c d; true").stdout, "d");
}

#[test]
fn shared_temporary_files_can_be_hidden_and_shared_memory_always_is() {
    let scratch = Scratch::new("shared");
    let canary = canary();
    let file = scratch.file("t", &canary);
    let script = format!("cat {}; ls -A /dev/shm; true", file.display());
    let from_root = || Srt::new(&scratch).current_dir("/");

    let control = from_root().sh(&script).succeeds();
    assert_eq!(
        control.stdout, canary,
        "/dev/shm shows something of the host"
    );
    let hidden = from_root()
        .deny_read("/tmp")
        .sh(&format!("{script} mktemp >/dev/null && echo works"));
    assert_eq!(hidden.stdout, "works\n", "{}", hidden.stderr);
}

#[test]
fn a_denied_file_with_other_names_is_reported() {
    let scratch = Scratch::new("hard-link");
    let denied = scratch.file("work/denied", "x");
    let script = format!("ln {0} {0}2", denied.display());
    let srt = || Srt::new(&scratch).allow_write(scratch.path("work"));

    srt().sh(&script).succeeds();
    fs::remove_file(scratch.path("work/denied2")).expect("the control made it");
    let single = srt().deny_read(&denied).sh(&script).fails();
    assert!(!single.stderr.contains("hard links"));
    assert_eq!(listing(&scratch.path("work")), ["denied"]);

    fs::hard_link(&denied, scratch.path("other")).expect("the name is free");
    let ran = srt().deny_read(&denied).run(&["true"]).succeeds();
    assert!(
        ran.stderr.contains("has 2 names (hard links)"),
        "{}",
        ran.stderr
    );
}
