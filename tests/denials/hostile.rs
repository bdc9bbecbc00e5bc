//! Commands that would have `srt` act for them after they ended, and names that would steer it.

use std::fs;
use std::os::unix::fs::symlink;

use crate::harness::{Scratch, listing};
use crate::{kept, srt};

const ALLOW: [&str; 4] = ["ctl", "allow", "--last", "--yes"];

const DENIED: &str = "curl -s http://b.test/ >/dev/null; true";

#[test]
fn records_cannot_be_led_to_other_places_nor_made_up() {
    for granted in ["home", "home/.local", "home/.local/state"] {
        let scratch = Scratch::new("led");
        let precious = scratch.dir("precious");
        for number in 10..40 {
            scratch.file(&format!("precious/{number}.json"), "{}");
        }
        let before = listing(&precious);
        let grant = scratch.dir(granted);
        let state = scratch.path("home/.local/state");
        let script = format!(
            "mkdir -p {0}/srt; ln -s {1} {0}/srt/denied; rm -rf {0}/srt; ln -s {1} {0}/srt
             mkdir -p {0}/srt/denied; echo x >{0}/srt/denied/9999-x.json
             echo x >{0}/srt/trust.json; echo x >{0}/mine; {DENIED}",
            state.display(),
            precious.display()
        );
        fs::create_dir_all(&state).expect("it is ours");
        let grant = grant.to_str().expect("test paths are UTF-8");
        srt(
            &scratch,
            &["-q", "--allow-write", grant, "sh", "-c", &script],
        );
        // The command wrote where it may.
        assert!(state.join("mine").exists(), "{granted}");
        assert_eq!(listing(&precious), before, "{granted}");
        assert_eq!(kept(&scratch).len(), 1, "{granted}");
        assert!(!state.join("srt/trust.json").exists(), "{granted}");
    }
}

#[test]
fn a_link_or_fifo_in_place_of_the_step_summary_is_neither_followed_nor_waited_for() {
    for planted in ["ln -s ../kept g/sum", "mkfifo g/sum", "ln -s new g/sum"] {
        let scratch = Scratch::new("summary");
        let kept = scratch.file("cwd/kept", "mine");
        let file = scratch.file("cwd/g/sum", "");
        let script = format!("rm g/sum && {planted}; {DENIED}");
        let words = ["--rw", "g", "--summary", "github", "sh", "-c", &script];
        let mut command = crate::command(&scratch, &words);
        crate::harness::run(command.env("GITHUB_STEP_SUMMARY", &file));
        let link = file.symlink_metadata().expect("it was planted");
        assert!(!link.is_file(), "{planted}");
        assert_eq!(crate::harness::content(&kept), "mine", "{planted}");
        assert!(!scratch.path("cwd/g/new").exists(), "{planted}");
    }
}

#[test]
fn names_that_are_patterns_or_break_lines_are_allowed_as_what_they_are() {
    for name in ["*", "a\nb", "tab\t", "back\\slash", "quo\"te"] {
        let scratch = Scratch::new("named");
        for other in [name, "other"] {
            scratch.file(&format!("cwd/h/{other}/f"), "old");
        }
        let write = "import sys; [open(p, 'w').write('new') for p in sys.argv[1:]]";
        let own = format!("h/{name}/f");
        let words = ["--events", "/dev/null", "-q", "python3", "-c", write, &own];
        srt(&scratch, &words);
        assert_eq!(
            crate::harness::content(&scratch.path(&format!("cwd/{own}"))),
            "old"
        );
        srt(&scratch, &ALLOW).succeeds();
        srt(&scratch, &words[2..]).succeeds();
        assert_eq!(
            crate::harness::content(&scratch.path(&format!("cwd/{own}"))),
            "new"
        );
        srt(&scratch, &["-q", "python3", "-c", write, "h/other/f"]);
        assert_eq!(
            crate::harness::content(&scratch.path("cwd/h/other/f")),
            "old",
            "{name:?}"
        );
        // It is there now.
        let again = srt(&scratch, &ALLOW);
        assert_eq!(again.status, 1, "{again:?}");
    }
}

#[test]
fn what_reaches_far_is_not_granted_unasked() {
    let scratch = Scratch::new("wide");
    let words = ["--events", "/dev/null", "-q", "touch"];
    let file = scratch.path("home/new");
    let file = file.to_str().expect("test paths are UTF-8");
    srt(&scratch, &[&words[..], &[file]].concat());
    let said = srt(&scratch, &ALLOW);
    assert_eq!(said.status, 1, "{said:?}");
    assert!(said.stdout.contains("covers your home"), "{said:?}");
    assert!(!scratch.path("home/.config/srt/settings.json").exists());
}

#[test]
fn a_file_of_other_programs_gets_no_comment_by_way_of_a_link_either() {
    let scratch = Scratch::new("dotfiles");
    let real = scratch.file("home/dotfiles/srt.json", "{}");
    symlink(&real, scratch.path("home/.srt-settings.json")).expect("it is ours");
    srt(&scratch, &["curl", "-s", "http://b.test/"]);
    srt(&scratch, &ALLOW).succeeds();
    let text = crate::harness::content(&real);
    assert!(text.contains("b.test"), "{text}");
    assert!(!text.contains("//"), "{text}");
}

#[test]
fn a_log_that_was_written_anew_or_is_hostile_is_read_all_the_same() {
    let scratch = Scratch::new("anew");
    let log = scratch.path("log");
    let name = log.to_str().expect("test paths are UTF-8");
    srt(
        &scratch,
        &["--events", name, "curl", "-s", "http://b.test/"],
    );
    let text = crate::harness::content(&log);
    let spaced: String = text.replace("\":", "\" : ");
    fs::write(&log, &spaced).expect("it is ours");
    let said = srt(&scratch, &["ctl", "explain", "--events", name]);
    assert!(said.stdout.contains("b.test"), "{said:?}");

    let denial = text
        .lines()
        .find(|line| line.contains("\"denied\""))
        .expect("one was denied");
    let many = denial.replacen('{', "{\"count\":18446744073709551615,", 1);
    let steering = denial.replace("b.test", "b\u{202e}tset\\u001b[2J.test");
    fs::write(&log, format!("{many}\n{many}\n{steering}\n")).expect("it is ours");
    let said = srt(&scratch, &["ctl", "explain", "--events", name]);
    assert!(
        said.stdout.contains("18446744073709551615 times"),
        "{said:?}"
    );
    assert!(!said.stdout.contains(['\u{202e}', '\u{1b}']), "{said:?}");

    fs::write(&log, "x".repeat(2 << 20)).expect("it is ours");
    let said = srt(&scratch, &["ctl", "explain", "--events", name]);
    assert_eq!(said.status, 2);
    assert!(said.stderr.contains("too long"), "{said:?}");
}
