//! Patterns in the four lists: what matches at the start is ruled, and nothing is skipped.

use std::fs;
use std::os::unix::fs::symlink;

use super::harness::{Scratch, Srt, canary, is_root, outside, skip, wait_until};
use super::{content, listing};

/// A tree with a secret in files that patterns find in different ways.
fn tree(scratch: &Scratch) -> (String, [&'static str; 5]) {
    let canary = canary();
    let files = [
        ".env",
        "a/.env",
        "a/b/c/d/e/f/g/h/i/j/k/l/.env",
        ".hidden/dir/.env",
        "a/new\nline/.env",
    ];
    for file in files {
        scratch.file(&format!("cwd/{file}"), &canary);
    }
    (canary, files)
}

#[test]
fn every_file_that_fits_is_hidden_however_deep() {
    let scratch = Scratch::new("hidden");
    let (canary, files) = tree(&scratch);
    let script = "find . -name .env -exec cat {} +; cat a/b/c/d/e/f/g/h/i/j/k/l/.env";
    assert!(outside(&format!("cd {} && {script}", scratch.path("cwd").display())).shows(&canary));
    for pattern in [
        "**/.env",
        "./**/.env",
        "**/.e?v",
        "**/.[d-f]nv",
        "**/{.env,other}",
    ] {
        let ran = Srt::new(&scratch).deny_read(pattern).sh(script);
        assert!(!ran.shows(&canary), "{pattern}: {}", ran.stdout);
    }
    let absolute = format!("{}/**/.env", scratch.path("cwd").display());
    assert!(
        !Srt::new(&scratch)
            .deny_read(absolute)
            .sh(script)
            .shows(&canary)
    );
    for file in files {
        assert_eq!(content(&scratch.path(&format!("cwd/{file}"))), canary);
    }
    // One level is one level.
    let ran = Srt::new(&scratch)
        .deny_read("*/.env")
        .sh("cat .env; cat a/.env");
    assert_eq!(ran.stdout, canary);
}

#[test]
fn grants_and_their_exceptions_take_patterns() {
    let scratch = Scratch::new("grants");
    for dir in ["packages/one/src", "packages/two/src", "packages/two/dist"] {
        scratch.dir(&format!("cwd/{dir}"));
    }
    scratch.file("cwd/packages/one/src/kept.lock", "kept");
    let script = "for d in packages/*/*; do touch $d/made 2>/dev/null; done; echo x >packages/one/src/kept.lock; true";
    let srt = Srt::new(&scratch).allow_write("packages/*/src");
    srt.deny_write("**/*.lock").sh(script).succeeds();
    let made = |dir: &str| listing(&scratch.path(&format!("cwd/packages/{dir}")));
    assert_eq!(made("one/src"), ["kept.lock", "made"]);
    assert_eq!(made("two/src"), ["made"]);
    assert!(made("two/dist").is_empty());
    assert_eq!(
        content(&scratch.path("cwd/packages/one/src/kept.lock")),
        "kept"
    );

    let shown = Srt::new(&scratch)
        .deny_read("packages")
        .allow_read("packages/*/src");
    let ran = shown.sh("find packages -type d | sort").succeeds();
    assert!(
        ran.shows("packages/one/src") && !ran.shows("dist"),
        "{}",
        ran.stdout
    );
}

#[test]
fn a_link_that_fits_is_hidden_with_what_it_leads_to() {
    let scratch = Scratch::new("links");
    let canary = canary();
    scratch.file("cwd/real/value", &canary);
    symlink("real/value", scratch.path("cwd/link.secret")).expect("the directory is ours");
    let ran = Srt::new(&scratch)
        .deny_read("*.secret")
        .sh("cat link.secret real/value");
    assert!(!ran.shows(&canary), "{}", ran.stdout);
    let control = Srt::new(&scratch)
        .deny_read("*.other")
        .sh("cat link.secret real/value");
    assert!(control.shows(&canary));
}

#[test]
fn a_name_with_such_characters_is_matched_by_itself() {
    let scratch = Scratch::new("itself");
    let canary = canary();
    scratch.file("cwd/[id].tsx", &canary);
    scratch.file("cwd/i.tsx", &canary);
    let read = "cat '[id].tsx'";
    assert!(
        !Srt::new(&scratch)
            .deny_read("[id].tsx")
            .sh(read)
            .shows(&canary)
    );
    assert!(
        !Srt::new(&scratch)
            .deny_read("[id].tsx")
            .sh("cat i.tsx")
            .shows(&canary)
    );
    let literal =
        || Srt::new(&scratch).with_literal("filesystem.denyRead", scratch.path("cwd/[id].tsx"));
    assert!(!literal().sh(read).shows(&canary));
    assert!(literal().sh("cat i.tsx").shows(&canary));
}

#[test]
fn what_cannot_be_enforced_is_refused_and_what_matches_nothing_is_said() {
    let scratch = Scratch::new("refused");
    for wrong in ["a/[", "a/[]x", "{a", "a**", "a/../*", "/**/*.pem"] {
        let ran = Srt::new(&scratch).deny_read(wrong).sh("true");
        ran.is_refused("filesystem.denyRead");
    }
    let ran = Srt::new(&scratch)
        .allow_write("none/*")
        .sh("true")
        .succeeds();
    assert!(
        ran.stderr.contains("`none/*` matches nothing"),
        "{}",
        ran.stderr
    );
    let ran = Srt::new(&scratch)
        .flags(&["-v"])
        .deny_read("none/*")
        .sh("true");
    assert!(ran.succeeds().stderr.contains("`none/*` matches nothing"));
}

#[test]
fn a_directory_that_cannot_be_listed_is_denied_whole() {
    let scratch = Scratch::new("closed");
    if is_root() {
        skip("root lists every directory");
        return;
    }
    let canary = canary();
    scratch.file("cwd/closed/known", &canary);
    outside(&format!(
        "chmod 311 {}/closed",
        scratch.path("cwd").display()
    ))
    .succeeds();
    let read = "cat closed/known";
    assert!(
        Srt::new(&scratch)
            .deny_read("open/*")
            .sh(read)
            .shows(&canary)
    );
    assert!(
        !Srt::new(&scratch)
            .deny_read("closed/kn*")
            .sh(read)
            .shows(&canary)
    );
    assert!(
        !Srt::new(&scratch)
            .deny_read("**/known")
            .sh(read)
            .shows(&canary)
    );
    outside(&format!(
        "chmod 755 {}/closed",
        scratch.path("cwd").display()
    ))
    .succeeds();
}

#[test]
fn a_directory_alone_fits_a_pattern_that_ends_in_a_slash() {
    let scratch = Scratch::new("slash");
    scratch.dir("cwd/d1");
    scratch.file("cwd/d2", "kept");
    let script = "touch d1/made; echo x >d2; true";
    Srt::new(&scratch).allow_write("d?/").sh(script).succeeds();
    assert_eq!(listing(&scratch.path("cwd/d1")), ["made"]);
    assert_eq!(content(&scratch.path("cwd/d2")), "kept");
    assert!(fs::metadata(scratch.path("cwd/d2")).is_ok());
}

#[test]
fn what_a_directory_is_called_is_no_pattern() {
    let scratch = Scratch::new("called");
    let canary = canary();
    scratch.file("cwd/[slug]/src/a.key", &canary);
    scratch.file("cwd/s/src/a.key", &canary);
    scratch.file("h[1]/a.key", &canary);
    let cwd = scratch.path("cwd/[slug]");
    let srt = || Srt::new(&scratch).current_dir(&cwd);
    assert!(
        srt()
            .deny_read("src/*.pem")
            .sh("cat src/a.key")
            .shows(&canary)
    );
    assert!(
        !srt()
            .deny_read("src/*.key")
            .sh("cat src/a.key")
            .shows(&canary)
    );
    srt()
        .allow_write("src/*.key")
        .sh("echo x >../s/src/a.key; true");
    assert_eq!(content(&scratch.path("cwd/s/src/a.key")), canary);
    let home = || srt().env("HOME", scratch.path("h[1]"));
    assert!(home().sh("cat $HOME/a.key").shows(&canary));
    assert!(
        !home()
            .deny_read("~/*.key")
            .sh("cat $HOME/a.key")
            .shows(&canary)
    );
}

#[test]
fn each_alternative_starts_where_it_says() {
    let scratch = Scratch::new("alternatives");
    let canary = canary();
    scratch.file("home/keys/a", &canary);
    scratch.file("cwd/keys/a", &canary);
    let absolute = scratch.path("cwd/keys");
    let read = "cat $HOME/keys/a keys/a";
    assert!(Srt::new(&scratch).sh(read).shows(&canary));
    let both = format!("{{~/keys,{}}}/a", absolute.display());
    assert!(!Srt::new(&scratch).deny_read(both).sh(read).shows(&canary));
}

#[test]
fn a_grant_follows_no_link_that_was_not_named() {
    let scratch = Scratch::new("planted");
    let (out, work) = (scratch.dir("out"), scratch.dir("cwd/work"));
    symlink(&out, work.join("x")).expect("the directory is ours");
    scratch.dir("cwd/work/y");
    for pattern in ["work/*", "work/*/", "**/x"] {
        let script = format!("touch {}/made work/y/made; true", out.display());
        Srt::new(&scratch).allow_write(pattern).sh(&script);
        assert!(listing(&out).is_empty(), "{pattern}");
    }
    assert_eq!(listing(&work.join("y")), ["made"]);
}

#[test]
fn what_is_closed_now_is_denied_all_the_same() {
    let scratch = Scratch::new("closed-now");
    if is_root() {
        return skip("root enters every directory");
    }
    let canary = canary();
    scratch.file("cwd/w/listed/k.key", &canary);
    scratch.file("cwd/w/shut/k.key", &canary);
    let mode = |mode: &str, name: &str| {
        outside(&format!(
            "chmod {mode} {}/w/{name}",
            scratch.path("cwd").display()
        ))
        .succeeds();
    };
    // What cannot be looked at is not written either, so that the host opens it.
    let read = ": >w/ready; for i in $(seq 500); do [ -x w/shut ] && break; sleep .01; done
        cat w/listed/k.key w/shut/k.key";
    let ready = scratch.path("cwd/w/ready");
    for pattern in ["w/listed/*.key", "w/*/k.key", "**/*.key"] {
        mode("444", "listed");
        mode("000", "shut");
        let ran = std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(wait_until(|| ready.exists()), "it starts");
                mode("700", "listed");
                mode("700", "shut");
            });
            let srt = Srt::new(&scratch).allow_write("w").deny_read(pattern);
            srt.sh(read)
        });
        let shown = ran.stdout.matches(&canary).count();
        assert_eq!(
            shown,
            usize::from(pattern == "w/listed/*.key"),
            "{pattern}: {ran:?}"
        );
        fs::remove_file(&ready).expect("the run made it");
    }
}
