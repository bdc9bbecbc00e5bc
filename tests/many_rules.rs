//! Ten thousand rules: they hold like one.

mod harness;

use std::fs;
use std::path::PathBuf;

use harness::{Scratch, Srt, outside};

const RULES: usize = 10_000;

/// Every hundredth directory, so that all parents are asked about.
fn sample(dirs: &[PathBuf]) -> String {
    let chosen = dirs.iter().skip(7).step_by(101);
    let shown = chosen.map(|dir| dir.join("f").display().to_string());
    shown.collect::<Vec<_>>().join(" ")
}

fn directories(scratch: &Scratch) -> Vec<PathBuf> {
    let dirs = (0..RULES).map(|number| {
        let dir = scratch.dir(&format!("tree/{}/{number}", number % 100));
        fs::write(dir.join("f"), "secret").expect("the directory was just made");
        dir
    });
    dirs.collect()
}

#[test]
fn ten_thousand_hidden_directories_are_all_hidden() {
    let scratch = Scratch::new("many-hidden");
    let dirs = directories(&scratch);
    let files = sample(&dirs);
    let read = format!("cat {files} 2>/dev/null | grep -o secret | wc -l");
    assert_eq!(outside(&read).stdout.trim(), "99");

    let one = Srt::new(&scratch).deny_read(&dirs[7]).sh(&read).succeeds();
    assert_eq!(one.stdout.trim(), "98");

    let all = dirs.iter().fold(Srt::new(&scratch), Srt::deny_read);
    let ran = all.sh(&read).succeeds();
    assert_eq!(ran.stdout.trim(), "0");
}

#[test]
fn ten_thousand_directories_below_a_grant_are_all_kept() {
    let scratch = Scratch::new("many-kept");
    let dirs = directories(&scratch);
    let files = sample(&dirs);
    let write = format!("for f in {files}; do echo changed 2>/dev/null >$f; done; true");
    let changed = || {
        let read = format!("cat {files} | grep -c changed");
        outside(&read).stdout.trim().to_owned()
    };
    let granted = || Srt::new(&scratch).allow_write(scratch.path("tree"));

    let all = dirs.iter().fold(granted(), Srt::deny_write);
    all.sh(&write).succeeds();
    assert_eq!(changed(), "0");

    granted().sh(&write).succeeds();
    assert_eq!(changed(), "99");
}

#[test]
fn ten_thousand_hosts_are_all_taken() {
    let scratch = Scratch::new("many-hosts");
    let srt = (0..RULES).fold(Srt::new(&scratch), |srt, number| {
        let key = ["network.allowedDomains", "network.deniedDomains"][number % 2];
        srt.with(key, format!("*.h{number}.example.org"))
    });
    srt.run(&["true"]).succeeds();
}

#[test]
fn one_bad_entry_among_good_ones_refuses_the_file() {
    for (key, bad) in [
        ("network.allowedDomains", "*.co.uk"),
        ("network.deniedDomains", "a..example.org"),
    ] {
        let scratch = Scratch::new("one-bad");
        let hosts = |bad: Option<&str>| {
            let good = (0..48).fold(Srt::new(&scratch), |srt, number| {
                srt.with(key, format!("h{number}.example.org"))
            });
            bad.into_iter().fold(good, |srt, bad| srt.with(key, bad))
        };
        let ran = scratch.path("ran");
        let touch = format!("touch {}", ran.display());
        let allowed = |srt: Srt| srt.allow_write(scratch.path("."));
        allowed(hosts(Some(bad))).sh(&touch).is_refused(bad);
        assert!(!ran.exists());
        allowed(hosts(None)).sh(&touch).succeeds();
        assert!(ran.exists());
    }
}

#[test]
fn every_spelling_of_a_path_is_the_path() {
    let scratch = Scratch::new("spellings");
    let secret = scratch.file("a/b/secret", "original");
    scratch.dir("a/c");
    let (work, marker) = (scratch.path(""), "original");
    let base = work.display();
    let read = format!("cat {}", secret.display());
    let write = format!("echo changed >{}", secret.display());
    let spellings = [
        format!("{base}/a/b/secret"),
        format!("{base}//a///b//secret"),
        format!("{base}/a/./b/./secret"),
        format!("{base}/a/c/../b/secret"),
        format!("{base}/a/missing/../b/secret"),
        format!("{base}/a/b/secret/"),
        format!("{base}/a/b/"),
        format!("{base}/a/b/../../a/b"),
    ];
    let granted = || Srt::new(&scratch).allow_write(&work);
    for spelling in &spellings {
        let hidden = granted().deny_read(spelling).sh(&read);
        assert!(!hidden.shows(marker), "{spelling}: {hidden:?}");
        granted().deny_write(spelling).sh(&write).fails();
        assert_eq!(fs::read_to_string(&secret).unwrap(), marker, "{spelling}");
    }
    let twice = granted().deny_read(&spellings[0]).deny_read(&spellings[1]);
    assert!(!twice.sh(&read).shows(marker));
    assert!(granted().sh(&read).succeeds().shows(marker));
    granted().sh(&write).succeeds();
    assert_eq!(fs::read_to_string(&secret).unwrap(), "changed\n");
}
