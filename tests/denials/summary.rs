use std::fs;

use crate::harness::{Scratch, is_root, run, skip};
use crate::{asking, command, kept, server, srt};

#[test]
fn a_run_that_is_denied_nothing_says_and_keeps_nothing() {
    let scratch = Scratch::new("clean");
    let target = server();
    let url = format!("http://{target}/");
    let words = [&["--allow-domain", &target], asking(&url).as_slice()].concat();
    let ran = srt(&scratch, &words).succeeds();
    assert_eq!((&*ran.stdout, &*ran.stderr), ("reached", ""));
    assert!(kept(&scratch).is_empty());
    assert!(!scratch.path("home/.local").exists());
    let said = srt(&scratch, &["ctl", "explain", "--last"]).succeeds();
    assert_eq!(said.stdout, "no run was denied anything\n");
}

#[test]
fn each_host_is_said_once_with_its_count_and_standard_output_is_the_commands() {
    let scratch = Scratch::new("summary");
    let script = "for n in 1 2 3; do curl -s -o /dev/null http://a.test/$n; done; \
                  curl -s -o /dev/null http://b.test:8080/; printf data";
    let ran = srt(&scratch, &["sh", "-c", script]).succeeds();
    assert_eq!(ran.stdout, "data");
    assert_eq!(
        ran.stderr,
        "srt: 2 things were denied:\n  \
         request a.test:80, 3 times: no entry of network.allowedDomains matches\n    \
         to allow it: --allow-domain a.test:80, or add `a.test:80` to network.allowedDomains\n  \
         request b.test:8080: no entry of network.allowedDomains matches\n    \
         to allow it: --allow-domain b.test:8080, or add `b.test:8080` to network.allowedDomains\n"
    );
    for flags in [["-q"].as_slice(), &["--summary", "none"]] {
        let words = [flags, &["sh", "-c", script]].concat();
        assert_eq!(srt(&scratch, &words).succeeds().stderr, "", "{flags:?}");
    }
    assert_eq!(kept(&scratch).len(), 3);
}

#[test]
fn a_summary_names_the_rule_and_where_it_stands_and_hides_no_control_character() {
    let scratch = Scratch::new("rule");
    let settings = "{ \"network\": {\n \"deniedDomains\": [\"*.evil.test\"] } }";
    let file = scratch.file("s.json", settings);
    let file = file.to_str().expect("test paths are UTF-8");
    let ran = srt(&scratch, &["-s", file, "curl", "-s", "http://x.evil.test/"]);
    let place = format!("the entry `*.evil.test` of network.deniedDomains refuses it ({file}:2)");
    assert!(ran.stderr.contains(&place), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("remove `*.evil.test`"),
        "{}",
        ran.stderr
    );

    let script = r"exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://a\033[31m.test/ HTTP/1.1\r\n\r\n' >&3; head -1 <&3 >&2";
    let ran = srt(&scratch, &["bash", "-c", script]);
    assert!(ran.stderr.contains("srt: this was denied"), "{ran:?}");
    assert!(!ran.shows("\u{1b}"), "{ran:?}");
}

#[test]
fn more_than_fit_are_counted() {
    let scratch = Scratch::new("many");
    let script = "for n in $(seq 30); do echo url = http://h$n.test/; done | curl -s -K -";
    let ran = srt(&scratch, &["sh", "-c", script]);
    assert!(
        ran.stderr.starts_with("srt: 30 things were denied:\n"),
        "{ran:?}"
    );
    assert!(
        ran.stderr
            .ends_with("  and 10 more: srt ctl explain --last\n"),
        "{ran:?}"
    );
    let said = srt(&scratch, &["ctl", "explain", "--last"]);
    assert_eq!(said.status, 1);
    assert_eq!(said.stdout.matches("request h").count(), 30);
}

#[test]
fn markdown_is_a_table_whose_cells_nothing_breaks() {
    let scratch = Scratch::new("markdown");
    let script = r"exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://a|b<i>.test/ HTTP/1.1\r\n\r\n' >&3; head -1 <&3 >/dev/null";
    let words = ["--summary", "markdown", "bash", "-c", script];
    let ran = srt(&scratch, &words).succeeds();
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines[0], "### Denied by srt");
    let row = lines.last().expect("there is a row");
    assert_eq!(row.replace("\\|", "").matches('|').count(), 5, "{row}");
    assert!(!row.replace("\\<", "").contains('<'), "{row}");
}

#[test]
fn github_gets_a_step_summary_and_annotations() {
    let scratch = Scratch::new("github");
    let table = scratch.file("step", "before\n");
    let github = |words: &[&str]| {
        let words = [&["--summary", "github"], words].concat();
        run(command(&scratch, &words).env("GITHUB_STEP_SUMMARY", &table))
    };
    let ran = github(&["curl", "-s", "-o", "/dev/null", "http://a.test/100%"]).succeeds();
    assert_eq!(
        ran.stderr,
        "::notice title=srt denied net.host.unlisted::request a.test:80: no entry of \
         network.allowedDomains matches; to allow it: --allow-domain a.test:80, or add \
         `a.test:80` to network.allowedDomains\n"
    );
    let step = fs::read_to_string(&table).expect("it is there");
    assert!(step.starts_with("before\n### Denied by srt"), "{step}");
    let ran = github(&["curl", "-sf", "http://a.test/"]);
    assert_eq!(ran.status, 22);
    assert!(ran.stderr.starts_with("::error title="), "{ran:?}");
    // Without a place for the table it is said.
    let words = ["--summary", "github", "curl", "-s", "http://a.test/"];
    assert!(srt(&scratch, &words).stderr.contains("\n### Denied by srt"));
}

#[test]
fn a_denial_fails_a_run_only_where_that_is_asked_and_nothing_else_did() {
    let scratch = Scratch::new("fail");
    let status = |flags: &[&str], script: &str| {
        srt(&scratch, &[flags, &["sh", "-c", script]].concat()).status
    };
    let denied = "curl -s -o /dev/null http://a.test/";
    assert_eq!(status(&[], denied), 0);
    assert_eq!(status(&["--fail-on-denied"], denied), 90);
    assert_eq!(status(&["--fail-on-denied=7"], denied), 7);
    assert_eq!(status(&["--fail-on-denied"], "true"), 0);
    assert_eq!(
        status(&["--fail-on-denied"], &format!("{denied}; exit 3")),
        3
    );
    for bad in ["0", "256", "x", ""] {
        let flag = format!("--fail-on-denied={bad}");
        assert_eq!(status(&[&flag], "true"), 125, "{bad}");
    }
}

#[test]
fn earlier_runs_are_explained_the_last_first_and_no_more_than_twenty_kept() {
    let scratch = Scratch::new("last");
    for number in 0..22 {
        srt(
            &scratch,
            &["curl", "-s", &format!("http://h{number}.test/?secret")],
        );
    }
    assert_eq!(kept(&scratch).len(), 20);
    for file in kept(&scratch) {
        let text = fs::read_to_string(file).expect("it is ours");
        assert!(!text.contains("secret"), "{text}");
    }
    let said = srt(&scratch, &["ctl", "explain", "--last", "2"]);
    let (last, before) = said.stdout.split_once("\n20").expect("two runs");
    assert!(
        last.contains(" curl in ") && last.contains("h21.test"),
        "{last}"
    );
    assert!(before.contains("h20.test"), "{before}");
    let said = srt(&scratch, &["ctl", "explain", "--last", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&said.stdout).expect("one object");
    assert_eq!(value["denied"][0]["target"], "h21.test:80");
    assert_eq!(value["denied"][0]["changes"][0]["add"], "h21.test:80");
}

#[test]
fn an_event_file_is_explained_and_what_is_broken_in_it_counted() {
    let scratch = Scratch::new("event-file");
    let file = scratch.path("events");
    let name = file.to_str().expect("test paths are UTF-8");
    srt(
        &scratch,
        &["--events", name, "curl", "-s", "http://a.test/"],
    );
    let explain = |file: &str| srt(&scratch, &["ctl", "explain", "--events", file]);
    let said = explain(name);
    assert_eq!(
        (said.status, said.stdout.contains("request a.test:80")),
        (1, true)
    );
    let mut text = fs::read_to_string(&file).expect("it was written");
    text.insert_str(0, "no event\n{\"v\":1}\n\u{0}\n");
    text.push_str("{\"cut");
    fs::write(&file, text).expect("it is ours");
    let said = explain(name);
    assert_eq!(
        (said.status, said.stdout.contains("request a.test:80")),
        (2, true)
    );
    assert!(said.stderr.contains("4 lines of"), "{said:?}");
    assert_eq!(explain("/").status, 2);
    assert_eq!(explain("missing").status, 2);
}

#[test]
fn root_writes_nothing_into_the_home_of_another() {
    if !is_root() {
        return skip("only root runs with the home of another");
    }
    let scratch = Scratch::new("other-home");
    let home = scratch.dir("home");
    std::os::unix::fs::chown(&home, Some(12_345), None).expect("we are root");
    srt(&scratch, &["curl", "-s", "http://a.test/"]);
    assert!(!home.join(".local").exists());
    std::os::unix::fs::chown(&home, Some(0), None).expect("we are root");
    srt(&scratch, &["curl", "-s", "http://a.test/"]);
    assert_eq!(kept(&scratch).len(), 1);
}
