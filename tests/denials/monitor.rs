use std::fs::{self, OpenOptions};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::harness::{Scratch, run, run_with_input};
use crate::{command, srt};

const START: &str = r#"{"v":1,"time":"2026-01-02T03:04:05.000000Z","seq":0,"run":"r","kind":"lifecycle","op":"start","target":"sh","verdict":null,"code":"lifecycle.run.start","rule":null,"suggest":null,"process":null}"#;
const DENIED: &str = r#"{"v":1,"time":"2026-01-02T03:04:06.000000Z","seq":1,"run":"r","kind":"net","op":"connect","target":"a.test:443","verdict":"denied","code":"net.host.unlisted","rule":null,"suggest":{"key":"network.allowedDomains","add":"a.test:443"},"process":{"pid":7,"exe":"/usr/bin/curl","arg1":"-s"}}"#;
const ALLOWED: &str = r#"{"v":1,"time":"2026-01-02T03:04:07.000000Z","seq":2,"run":"r","kind":"net","op":"connect","target":"b.test:443","verdict":"allowed","code":"net.host.listed","rule":null,"suggest":null,"process":null}"#;
const END: &str = r#"{"v":1,"time":"2026-01-02T03:04:08.000000Z","seq":3,"run":"r","kind":"lifecycle","op":"end","target":null,"verdict":null,"code":"lifecycle.run.end","rule":null,"suggest":null,"status":0,"process":null}"#;

const RULES: &str = "to allow all that was denied:\n  \
                     --allow-domain a.test:443, or add `a.test:443` to network.allowedDomains\n";

fn lines(events: &[&str]) -> String {
    events.iter().map(|event| format!("{event}\n")).collect()
}

#[test]
fn each_event_is_a_line_and_the_rules_come_last() {
    let scratch = Scratch::new("monitor");
    let file = scratch.file("events", lines(&[START, DENIED, ALLOWED, END]));
    let file = file.to_str().expect("test paths are UTF-8");
    let said = srt(&scratch, &["ctl", "monitor", file]).succeeds();
    let denied = "03:04:06 denied   connect a.test:443  curl[7]  \
                  No entry of `network.allowedDomains` matches (net.host.unlisted)\n";
    let allowed = "03:04:07 allowed  connect b.test:443\n";
    assert_eq!(
        said.stdout,
        format!("03:04:05 lifecycle start sh\n{denied}{allowed}03:04:08 lifecycle end\n{RULES}")
    );
    for (only, shown) in [
        ("denied", denied.to_owned()),
        ("net", format!("{denied}{allowed}")),
        ("net,allowed", allowed.to_owned()),
        ("dns", String::new()),
    ] {
        let said = srt(&scratch, &["ctl", "monitor", "--only", only, file]).succeeds();
        assert_eq!(said.stdout, format!("{shown}{RULES}"), "{only}");
    }
    let said = srt(&scratch, &["ctl", "monitor", "--only", "nets", file]);
    assert_eq!(said.status, 2);
    assert!(said.stderr.contains("weakening"), "{said:?}");
}

#[test]
fn what_is_no_event_and_what_steers_a_terminal_is_not_shown() {
    let scratch = Scratch::new("hostile");
    let hostile = DENIED.replace("a.test:443", r"a\u001b[31m\n.test:443");
    let input = lines(&["no event", &hostile, "{}", "\u{1b}[2J", END]);
    let mut monitor = command(&scratch, &["ctl", "monitor", "-"]);
    let said = run_with_input(&mut monitor, input.as_bytes()).succeeds();
    assert!(!said.shows("\u{1b}"), "{said:?}");
    assert!(said.stdout.contains(r"a\u{1b}[31m\n.test:443"), "{said:?}");
}

/// Waits until the lines that were shown so far hold a text.
fn until_shown(file: &std::path::Path, text: &str) {
    let is_shown = || fs::read_to_string(file).is_ok_and(|shown| shown.contains(text));
    assert!(crate::harness::wait_until(is_shown), "{text}");
}

#[test]
fn a_file_is_followed_from_before_it_is_there_over_its_rotation_to_the_end_of_the_run() {
    let scratch = Scratch::new("follow");
    let file = scratch.path("events");
    let shown = scratch.path("shown");
    let out = fs::File::create(&shown).expect("ours");
    let words = ["ctl", "monitor", file.to_str().expect("UTF-8")];
    let mut monitor: Child = command(&scratch, &words)
        .stdin(Stdio::null())
        .stdout(out)
        .spawn()
        .expect("srt is built");
    std::thread::sleep(Duration::from_millis(150));
    let append = |text: &str| {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(&file);
        file.expect("ours")
            .write_all(text.as_bytes())
            .expect("room");
    };
    append(&lines(&[START]));
    until_shown(&shown, "start sh");
    // Half a line is none.
    append(&DENIED[..50]);
    std::thread::sleep(Duration::from_millis(150));
    append(&format!("{}\n", &DENIED[50..]));
    until_shown(&shown, "a.test");
    fs::write(&file, "").expect("ours");
    std::thread::sleep(Duration::from_millis(300));
    append(&lines(&[ALLOWED]));
    until_shown(&shown, "b.test");
    fs::rename(&file, scratch.path("old")).expect("ours");
    append(&lines(&[END]));
    assert!(monitor.wait().expect("ours").success());
    let shown = fs::read_to_string(&shown).expect("ours");
    assert!(shown.ends_with(RULES), "{shown}");
}

#[test]
fn a_signal_ends_it_with_the_rules() {
    let scratch = Scratch::new("interrupted");
    let file = scratch.file("events", lines(&[START, DENIED]));
    let shown = scratch.path("shown");
    let out = fs::File::create(&shown).expect("ours");
    let words = ["ctl", "monitor", file.to_str().expect("UTF-8")];
    let mut monitor = command(&scratch, &words)
        .stdin(Stdio::null())
        .stdout(out)
        .spawn()
        .expect("srt is built");
    until_shown(&shown, "a.test");
    let pid = monitor.id().to_string();
    run(Command::new("kill").args(["-INT", &pid])).succeeds();
    assert!(monitor.wait().expect("ours").success());
    assert!(fs::read_to_string(&shown).expect("ours").ends_with(RULES));
}

#[test]
fn a_run_of_its_own_is_shown_on_standard_error_and_its_failure_is_the_answer() {
    let scratch = Scratch::new("own-run");
    let script = "curl -s -o /dev/null http://a.test/; touch \"$HOME\"/x; printf data; exit 3";
    let words = ["ctl", "monitor", "--", "-q", "sh", "-c", script];
    let said = srt(&scratch, &words);
    assert_eq!((said.status, &*said.stdout), (1, "data"));
    let shown = [
        " lifecycle start sh\n",
        " denied   request a.test:80  ",
        " denied   create ",
        " lifecycle end\n",
        "to allow all that was denied:\n  ",
        "--allow-domain a.test:80, or ",
    ];
    let mut rest = &*said.stderr;
    for text in shown {
        let at = rest
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {said:?}"));
        rest = &rest[at..];
    }
    let words = ["ctl", "monitor", "--only", "exec", "--", "-q", "true"];
    let said = srt(&scratch, &words).succeeds();
    assert!(said.stderr.contains(" exec     start "), "{said:?}");
}

#[test]
fn a_directory_is_refused() {
    let scratch = Scratch::new("directory");
    let said = srt(&scratch, &["ctl", "monitor", "."]);
    assert_eq!(said.status, 2);
    assert_eq!(srt(&scratch, &["ctl", "monitor"]).status, 2);
}
