//! How entries are read: links, `~`, odd names, many of them, and what is refused.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use super::harness::{Scratch, Srt, canary};
use super::{content, listing};

#[test]
fn a_missing_write_grant_is_named_and_widens_nothing() {
    let scratch = Scratch::new("missing");
    let work = scratch.dir("work");
    let missing = work.join("new/out");
    let ran = Srt::new(&scratch)
        .allow_write(&missing)
        .sh(&format!("mkdir -p {}", missing.display()));

    let warning = format!(
        "filesystem.allowWrite `{}` does not exist and was not granted",
        missing.display()
    );
    assert!(ran.stderr.contains(&warning), "{}", ran.stderr);
    ran.fails();
    assert!(listing(&work).is_empty());
}

#[test]
fn a_missing_write_grant_that_ends_in_a_slash_is_made() {
    let scratch = Scratch::new("made");
    let work = scratch.dir("work");
    let grant = format!("{}/new/out/", work.display());
    let script = format!("echo w > {grant}f; echo w > {}/new/g", work.display());

    let ran = Srt::new(&scratch).allow_write(&grant).flags(&["--dry-run"]);
    let shown = format!("directory: make {}/new/out, writable\n", work.display());
    let ran = ran.run(&["true"]).succeeds();
    assert!(ran.stdout.contains(&shown), "{}", ran.stdout);
    assert!(listing(&work).is_empty());

    let ran = Srt::new(&scratch).allow_write(&grant).sh(&script);
    assert!(!ran.stderr.contains("srt:"), "{}", ran.stderr);
    assert_eq!(listing(&work), ["new"]);
    assert_eq!(listing(&work.join("new")), ["out"]);
    assert_eq!(listing(&work.join("new/out")), ["f"]);
}

#[test]
fn no_directory_is_made_where_the_command_could_not_write() {
    let scratch = Scratch::new("not-made");
    let (work, file) = (scratch.dir("work"), scratch.file("file", "f"));
    let grant = format!("{}/new/", work.display());
    let run = |srt: Srt| srt.allow_write(&grant).run(&["true"]);

    run(Srt::new(&scratch).deny_write(&work)).succeeds();
    assert!(listing(&work).is_empty());
    let missing_too = format!("{}/a/b/", work.display());
    let srt = Srt::new(&scratch).allow_write(missing_too);
    srt.deny_write(work.join("a")).run(&["true"]).succeeds();
    assert!(listing(&work).is_empty());
    let below_file = format!("{}/new/", file.display());
    let ran = run(Srt::new(&scratch).allow_write(below_file)).succeeds();
    assert!(ran.stderr.contains("was not granted"), "{}", ran.stderr);
    assert_eq!(content(&file), "f");
    assert_eq!(listing(&work), ["new"]);
}

#[test]
fn rules_are_judged_with_the_directories_that_were_made() {
    let scratch = Scratch::new("judged-again");
    let (work, outside) = (scratch.dir("work"), scratch.dir("outside"));
    let grant = format!("{}/new/", scratch.path("").display());
    Srt::new(&scratch)
        .allow_write(&grant)
        .deny_write(scratch.path("new/kept"))
        .run(&["true"])
        .is_refused("does not exist in a writable directory");

    // The link was planted by an earlier run: nothing is made where it leads.
    symlink(&outside, work.join("link")).expect("the name is free");
    let planted = format!("{}/link/new/", work.display());
    let srt = Srt::new(&scratch).allow_write(&work).allow_write(planted);
    srt.run(&["true"])
        .is_refused("is a link in a writable directory");
    assert!(listing(&outside).is_empty());
}

#[test]
fn patterns_that_could_fit_nothing_are_refused_at_their_place() {
    let scratch = Scratch::new("patterns");
    let work = scratch.dir("work");
    let touch = ["touch".to_owned(), work.join("ran").display().to_string()];
    let lists = ["denyRead", "allowRead", "allowWrite", "denyWrite"];
    let patterns = [
        "a[", "a]", "[]", "[b-a]", "{a", "a}", "{a}", "a**", "a/../*",
    ];

    Srt::new(&scratch).allow_write(&work).run(&touch).succeeds();
    assert_eq!(listing(&work), ["ran"]);
    std::fs::remove_file(work.join("ran")).expect("the control made it");
    for list in lists {
        for pattern in patterns {
            let key = format!("filesystem.{list}");
            let ran = Srt::new(&scratch)
                .allow_write(&work)
                .with(&key, pattern)
                .run(&touch);
            assert!(ran.stderr.contains(".json:1:"), "no place: {}", ran.stderr);
            ran.is_refused(&format!("{key} `{pattern}`: "));
        }
    }
    assert!(listing(&work).is_empty());
}

#[test]
fn names_with_pattern_characters_can_be_meant_literally() {
    let scratch = Scratch::new("literal");
    scratch.file("[1]p/secret", "s");
    scratch.file("1p/secret", "o");
    let srt = || {
        Srt::new(&scratch)
            .current_dir(scratch.path(""))
            .with_literal("filesystem.allowWrite", "[1]p")
    };
    let script = "cat '[1]p/secret' 1p/secret; echo w > '[1]p/w'; echo w > 1p/w";

    assert_eq!(srt().sh(script).stdout, "so");
    assert_eq!(
        srt()
            .with_literal("filesystem.denyRead", "[1]p/secret")
            .sh(script)
            .stdout,
        "o"
    );
    assert_eq!(listing(&scratch.path("[1]p")), ["secret", "w"]);
    assert_eq!(listing(&scratch.path("1p")), ["secret"]);
}

#[test]
fn a_write_grant_that_is_a_link_opens_what_it_leads_to() {
    let scratch = Scratch::new("granted-link");
    let real = scratch.dir("disk/real");
    symlink(&real, scratch.path("link")).expect("the name is free");
    let script = "echo w > link/f && echo w > disk/real/g && rm link/g; echo w > disk/h; true";

    Srt::new(&scratch)
        .allow_write("link")
        .current_dir(scratch.path(""))
        .sh(script)
        .succeeds();
    assert_eq!(listing(&real), ["f"]);
    assert_eq!(listing(&scratch.path("disk")), ["real"]);
}

#[test]
fn a_grant_that_a_command_could_retarget_is_refused() {
    let scratch = Scratch::new("planted-link");
    let (work, outside) = (scratch.dir("work"), scratch.dir("outside"));
    scratch.dir("work/inside");
    symlink(&outside, work.join("link")).expect("the name is free");
    symlink("inside", work.join("harmless")).expect("the name is free");
    let srt = || Srt::new(&scratch).allow_write(&work);

    let hint = format!("name the path it leads to: {}", outside.display());
    srt()
        .allow_write(work.join("link"))
        .run(&["true"])
        .is_refused(&hint);
    srt()
        .allow_read(work.join("link"))
        .run(&["true"])
        .is_refused(&hint);
    srt()
        .allow_write(work.join("harmless"))
        .run(&["true"])
        .succeeds();
    srt().allow_write(&outside).run(&["true"]).succeeds();
}

#[test]
fn a_slash_after_the_name_of_a_file_changes_nothing() {
    let scratch = Scratch::new("slash");
    let canary = canary();
    for name in ["hidden", "kept", "open"] {
        scratch.file(name, &canary);
    }
    let srt = || Srt::new(&scratch).current_dir(scratch.path(""));
    let script = "cat hidden; for f in kept open; do echo w > $f; done; true";

    for end in ["/", "//", "/.", "/./"] {
        let name = |name: &str| format!("{name}{end}");
        let ran = srt()
            .allow_write(".")
            .deny_read(name("hidden"))
            .deny_write(name("kept"))
            .sh(script);
        assert!(!ran.succeeds().shows(&canary), "{end}");
        assert_eq!(content(&scratch.path("kept")), canary, "{end}");
        assert_eq!(content(&scratch.path("open")), "w\n", "{end}");
    }
    srt()
        .allow_write("open/")
        .sh("echo again > open")
        .succeeds();
    assert_eq!(content(&scratch.path("open")), "again\n");
}

#[test]
fn home_may_be_a_link() {
    let scratch = Scratch::new("home-link");
    scratch.file("disk/home/secret", "s");
    scratch.dir("disk/home/open");
    symlink("disk/home", scratch.path("linked")).expect("the name is free");
    let script = "cat ~/secret; echo w > ~/open/f; echo w > ~/f; true";
    let srt = Srt::new(&scratch).env("HOME", scratch.path("linked"));

    let ran = srt.deny_read("~/secret").allow_write("~/open").sh(script);
    assert!(!ran.stdout.contains('s'));
    assert_eq!(listing(&scratch.path("disk/home")), ["open", "secret"]);
    assert_eq!(content(&scratch.path("disk/home/open/f")), "w\n");
}

#[test]
fn a_tilde_without_an_absolute_home_is_refused() {
    let scratch = Scratch::new("no-home");
    for home in ["", "relative"] {
        Srt::new(&scratch)
            .env("HOME", home)
            .run(&["true"])
            .succeeds();
        let ran = Srt::new(&scratch)
            .env("HOME", home)
            .deny_read("~/x")
            .run(&["true"]);
        ran.is_refused("`~` needs HOME to be an absolute path");
    }
    let ran = Srt::new(&scratch).deny_read("~other/x").run(&["true"]);
    ran.is_refused("`~name` is not supported");
}

#[test]
fn names_with_white_space_and_backslashes_are_names() {
    let scratch = Scratch::new("odd");
    for name in [
        "a b",
        "a\nb",
        "a\tb",
        "a\\040b",
        "a\\b",
        "ünï\u{a0}",
        "\u{b}x",
        "-x",
        "'\"$(x)",
    ] {
        let work = scratch.dir(&format!("work/{name}"));
        let denied = scratch.file(&format!("work/{name}/denied/f"), "original");
        let kept = denied.parent().expect("it has one");
        let srt = Srt::new(&scratch)
            .with_literal("filesystem.allowWrite", &work)
            .with_literal("filesystem.denyWrite", kept);

        srt.current_dir(&work)
            .sh("echo w > f; echo w > denied/f; true")
            .succeeds();
        assert_eq!(content(&work.join("f")), "w\n", "{name:?}");
        assert_eq!(content(&denied), "original", "{name:?}");
    }
}

#[test]
fn names_that_are_not_utf8_work_as_directory_and_behind_a_link() {
    let scratch = Scratch::new("bytes");
    let work = scratch.path("").join(OsStr::from_bytes(b"\xff\xfe\x80"));
    std::fs::create_dir(&work).expect("the name is free");
    symlink(&work, scratch.path("link")).expect("the name is free");

    let here = Srt::new(&scratch).current_dir(&work).allow_write(".");
    here.sh("echo w > f").succeeds();
    let linked = Srt::new(&scratch).allow_write(scratch.path("link"));
    linked
        .sh(&format!("echo w > {}/g", scratch.path("link").display()))
        .succeeds();
    assert_eq!(listing(&work), ["f", "g"]);
    Srt::new(&scratch)
        .current_dir(&work)
        .sh("echo w > h")
        .fails();
    assert_eq!(listing(&work), ["f", "g"]);
}

#[test]
fn a_thousand_entries_of_every_list_start_within_five_seconds() {
    let scratch = Scratch::new("thousand");
    let mut srt = Srt::new(&scratch).allow_write(scratch.path("work"));
    for number in 0..1000 {
        scratch.dir(&format!("work/hidden/{number}/shown"));
        scratch.dir(&format!("work/kept/{number}"));
        srt = srt
            .deny_read(scratch.path(&format!("work/hidden/{number}")))
            .allow_read(scratch.path(&format!("work/hidden/{number}/shown")))
            .deny_write(scratch.path(&format!("work/kept/{number}")))
            .allow_write(scratch.path(&format!("work/hidden/{number}/shown")));
    }
    let script = "for n in 0 500 999; do touch kept/$n/x hidden/$n/x hidden/$n/shown/x kept/x$n; done 2>/dev/null; true";
    let start = Instant::now();
    srt.current_dir(scratch.path("work")).sh(script).succeeds();
    let took = start.elapsed();

    for number in ["0", "500", "999"] {
        assert!(listing(&scratch.path(&format!("work/kept/{number}"))).is_empty());
        assert_eq!(
            listing(&scratch.path(&format!("work/hidden/{number}"))),
            ["shown"]
        );
        assert_eq!(
            listing(&scratch.path(&format!("work/hidden/{number}/shown"))),
            ["x"]
        );
    }
    assert!(took < Duration::from_secs(50), "{took:?}");
}
