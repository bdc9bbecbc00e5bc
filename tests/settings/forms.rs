//! The same rule in other spellings and surroundings, and paths longer than any.

use std::fs;

use super::User;
use super::harness::run;

#[test]
fn every_spelling_of_a_path_is_the_same_rule() {
    let user = User::new("spellings");
    user.write("project/a/b/key", "key");
    user.0.dir("project/a/c");
    let dir = user.path("project/a/b").display().to_string();
    let root = user.path("project").display().to_string();
    let spellings = [
        dir.clone(),
        format!("/{dir}/"),
        format!("{root}//a///b//"),
        format!("{root}/a/./b"),
        format!("{root}/a/../a/b"),
        format!("{root}/a/c/../b/."),
        "a/b".to_owned(),
        "./a/b/".to_owned(),
        "../project/a/b".to_owned(),
    ];
    assert!(user.reads(&[], "project/a/b/key"));
    assert!(user.writes(&["--allow-write", "."], "project/a/b/x"));
    for spelling in &spellings {
        let settings = |list: &str, entries: &str| {
            user.settings(&format!(r#"{{"filesystem":{{"{list}":[{entries}]}}}}"#));
        };
        let entry = format!("\"{spelling}\"");
        settings("denyRead", &entry);
        assert!(!user.reads(&[], "project/a/b/key"), "{spelling}");
        settings("denyWrite", &format!("{entry},{entry}"));
        assert!(
            !user.writes(&["--allow-write", "."], "project/a/b/x"),
            "{spelling}"
        );
        assert!(
            user.writes(&["--allow-write", "."], "project/a/x"),
            "{spelling}"
        );
        settings("allowWrite", &entry);
        assert!(user.writes(&[], "project/a/b/x"), "{spelling}");
        assert!(!user.writes(&[], "project/a/x"), "{spelling}");
    }
    user.settings(r#"{"filesystem":{"denyRead":["a/b/key/"]}}"#);
    assert!(!user.reads(&[], "project/a/b/key"), "a slash after a file");
}

/// Makes directories below each other, longer together than any path may be, with a key in the
/// deepest; prints its path.
const DEEP: &str = "
import os, sys
root, path = os.getcwd(), ''
for level in range(20):
    name = chr(97 + level) * 255
    os.mkdir(name)
    os.chdir(name)
    path += '/' + name
open('key', 'w').write('secret')
print(root + path + '/key', end='')
";

const READ_DEEP: &str = "
import os
for level in range(20): os.chdir(chr(97 + level) * 255)
print(open('key').read(), end='')
";

#[test]
fn a_path_longer_than_any_is_refused_and_one_that_fits_is_hidden() {
    let user = User::new("long");
    let deep = run(std::process::Command::new("python3")
        .args(["-c", DEEP])
        .current_dir(user.path("project")));
    let deep = deep.succeeds().stdout;
    assert!(deep.len() > 5_000);
    let read = ["python3", "-c", READ_DEEP];
    assert_eq!(user.run(&read).succeeds().stdout, "secret");
    for list in ["denyRead", "denyWrite", "allowWrite"] {
        user.settings(&format!(r#"{{"filesystem":{{"{list}":["{deep}"]}}}}"#));
        user.is_refused(&[], "ENAMETOOLONG");
    }
    let fits: String = deep.chars().take(3_900).collect();
    let (fits, _) = fits.rsplit_once('/').expect("many");
    user.settings(&format!(r#"{{"filesystem":{{"denyRead":["{fits}"]}}}}"#));
    user.run(&read).fails();
}

#[test]
fn locale_zone_and_terminal_change_no_verdict() {
    let user = User::new("locales");
    let name = "project/\u{130}I\u{131}-\u{df}";
    user.0.dir(name);
    let name = format!("{}/x", user.path(name).display());
    user.settings("{\"filesystem\":{\"allowWrite\":[\"\u{130}I\u{131}-\u{df}\"]},\"network\":{\"allowedDomains\":[\"FILE.I.test\"]}}");
    let script = format!("echo > {name}; echo > {}/x", user.path("project").display());
    let ask = "curl -sS -m 5 -i http://file.i.test:1/ | head -1";
    let mut answers = Vec::new();
    let locales = ["", "C", "tr_TR.UTF-8", "ja_JP.SJIS", "no-such"];
    for (locale, zone) in locales
        .into_iter()
        .zip(["", "UTC", ":/no/such", "Asia/Tokyo", "x"])
    {
        let mut srt = user.srt(&["sh", "-c", &format!("{script}; {ask}")]);
        srt.env("LC_ALL", locale)
            .env("LANG", locale)
            .env("TZ", zone);
        let ran = run(srt.env("TERM", locale).env("COLUMNS", "1"));
        assert!(fs::remove_file(&name).is_ok(), "{locale}: {}", ran.stderr);
        assert!(!user.path("project/x").exists());
        answers.push(ran.stdout);
        let mut srt = user.srt(&["--deny-read", "*", "true"]);
        let error = run(srt.env("LC_ALL", locale).env("TERM", locale)).stderr;
        answers.push(error);
    }
    let first = answers[..2].to_vec();
    // An allowed host that does not exist is a fault of the server's side, not a refusal.
    assert!(first[0].contains("502"), "{first:?}");
    assert!(answers.chunks(2).all(|chunk| chunk == first), "{answers:?}");
}
