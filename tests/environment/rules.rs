//! What settings and flags change.

use std::fs;
use std::process::Command;

use sandbox_runtime::policy::environment::table;
use serde_json::json;

use super::harness::{Scratch, Srt, canary, run};
use super::inside;

#[test]
fn what_is_dropped_is_said_and_values_are_shown_nowhere() {
    let scratch = Scratch::new("environment");
    let mark = canary();
    let start = || {
        Srt::new(&scratch)
            .env("SSH_AUTH_SOCK", format!("/no/{mark}"))
            .env("PIP_PROXY", format!("http://{mark}"))
            .env("MY_TOKEN", &mark)
            .env("ORDINARY", &mark)
            .set("env.deny", json!(["@secrets"]))
            .flags(&["--env", &format!("SET={mark}")])
    };
    for flag in ["--verbose", "--debug", "--dry-run"] {
        let ran = start().flags(&[flag]).run(&["true"]).succeeds();
        for name in ["SSH_AUTH_SOCK", "PIP_PROXY", "MY_TOKEN"] {
            let said = format!("variable `{name}` is not passed: ");
            let planned = format!("not passed: {name}: ");
            let shown = ran.shows(&said) || ran.shows(&planned);
            assert!(shown, "{flag}: {}{}", ran.stdout, ran.stderr);
        }
        assert!(!ran.shows(&mark), "{flag}: {}", ran.stderr);
    }
    let ran = start()
        .events(scratch.path("events"))
        .run(&["true"])
        .succeeds();
    let events = fs::read_to_string(scratch.path("events")).expect("they are text");
    assert!(!events.is_empty() && !events.contains(&mark), "{events}");
    assert_eq!(ran.stderr, "");
}

#[test]
fn entries_of_the_settings_decide_in_their_order() {
    let scratch = Scratch::new("environment");
    let names = [
        "DENIED",
        "DENIED_TOO",
        "UNSET",
        "MY_TOKEN",
        "KEPT_TOKEN",
        "SSH_AUTH_SOCK",
        "SET",
        "OTHER",
    ];
    let start = names
        .iter()
        .fold(Srt::new(&scratch), |srt, name| srt.env(name, "callers"));
    let control = inside(
        Srt::new(&scratch)
            .env("DENIED", "callers")
            .env("UNSET", "callers"),
    );
    assert!(control.contains_key("DENIED") && control.contains_key("UNSET"));
    let deny = json!(["DENIED", "DENIED_*", "SET", "@secrets"]);
    let found = inside(
        start
            .set("env.deny", deny)
            .set(
                "env.allow",
                json!(["DENIED", "KEPT_*", "SSH_AUTH_SOCK", "UNSET"]),
            )
            .set("env.set", json!({ "SET": "from settings=", "NEW": "" }))
            .set(
                "credentials.envVars",
                json!([{ "name": "UNSET", "mode": "deny" }]),
            ),
    );
    let value = |name: &str| {
        found
            .get(name)
            .map(|value| value.to_string_lossy().into_owned())
    };
    let values: Vec<_> = names.map(value).to_vec();
    let kept = Some("callers".to_owned());
    let set = Some("from settings=".to_owned());
    assert_eq!(
        values,
        [
            None,
            None,
            None,
            None,
            kept.clone(),
            kept.clone(),
            set,
            kept
        ]
    );
    assert_eq!(value("NEW").as_deref(), Some(""));
}

#[test]
fn a_cleared_environment_holds_the_base_and_what_flags_name() {
    let scratch = Scratch::new("environment");
    let base = table::BASE
        .iter()
        .map(|row| row.pattern.replace('*', "ALL"));
    let base: Vec<String> = base
        .filter(|name| name != "PATH" && name != "HOME")
        .collect();
    let start = base
        .iter()
        .fold(Srt::new(&scratch), |srt, name| srt.env(name, "C"));
    let found = inside(
        start
            .env("NAMED", "callers")
            .env("OTHER", "callers")
            .env("NODE_OPTIONS", "--no-warnings")
            .flags(&[
                "--clear-env",
                "--env",
                "NAMED",
                "--env",
                "SET=a=b",
                "--env",
                "ABSENT",
            ]),
    );
    assert_eq!(found["NAMED"], "callers");
    assert_eq!(found["SET"], "a=b");
    for name in &base {
        assert_eq!(found[name], "C", "{name}");
    }
    let listed = |name: &str| {
        let mut rows = table::BASE.iter().chain(table::OURS);
        rows.any(|row| row.covers(name.as_bytes()))
    };
    let names = found
        .keys()
        .filter(|name| *name != "NAMED" && *name != "SET");
    let more: Vec<_> = names.filter(|name| !listed(name)).collect();
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn an_entry_that_can_match_no_variable_is_refused_with_its_place() {
    let scratch = Scratch::new("environment");
    for (key, value) in [
        ("env.deny", json!(["A=B"])),
        ("env.deny", json!([""])),
        ("env.deny", json!(["A\0"])),
        ("env.deny", json!(["@other"])),
        ("env.allow", json!(["A=B"])),
        ("env.allow", json!(["@secrets"])),
        ("env.set", json!({ "A*": "" })),
        ("env.set", json!({ "": "" })),
        ("env.set", json!({ "A": "\0" })),
        (
            "credentials.envVars",
            json!([{ "name": "A*", "mode": "deny" }]),
        ),
    ] {
        let ran = Srt::new(&scratch).set(key, value.clone()).run(&["true"]);
        assert_eq!(ran.status, 125, "{key} {value}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(".json:1:"),
            "{key} {value}: {}",
            ran.stderr
        );
    }
    for flag in ["=value", "", "A*=value", "@secrets"] {
        let ran = Srt::new(&scratch).flags(&["--env", flag]).run(&["true"]);
        assert_eq!(ran.status, 125, "{flag}: {}", ran.stderr);
    }
}

#[test]
fn without_proxy_variables_the_callers_are_dropped_too() {
    let scratch = Scratch::new("environment");
    let start = || {
        Srt::new(&scratch)
            .env("HTTPS_PROXY", "http://proxy.test:1")
            .env("no_proxy", "x")
    };
    assert_eq!(inside(start())["HTTPS_PROXY"], "http://127.0.0.1:3128");
    let off = || start().set("network.proxyEnv", json!(false));
    let found = inside(off());
    let left = found
        .keys()
        .filter(|name| name.to_ascii_lowercase().contains("proxy"));
    assert_eq!(left.count(), 0, "{found:?}");
    let ran = off().flags(&["-v"]).run(&["true"]).succeeds();
    assert!(
        ran.stderr.contains("variable `HTTPS_PROXY` is not passed"),
        "{}",
        ran.stderr
    );
}

#[test]
fn git_works_in_the_directories_that_are_named_safe() {
    let scratch = Scratch::new("environment");
    let repository = scratch.dir("repository");
    let git = [
        "git",
        "-C",
        repository.to_str().expect("ASCII"),
        "rev-parse",
        "--git-dir",
    ];
    run(Command::new("git").args(["init", "-q"]).arg(&repository)).succeeds();
    // What git has for its own tests: it takes every repository for somebody else's.
    let start = || Srt::new(&scratch).env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    assert!(
        start()
            .run(&git)
            .fails()
            .stderr
            .contains("dubious ownership")
    );
    let safe = |directory: &str| start().set("git.safeDirectories", json!([directory]));
    safe(git[2]).run(&git).succeeds();
    safe(scratch.marker()).run(&git).succeeds();
    safe("*").run(&git).succeeds();
    safe("/no/such").run(&git).fails();
    let count = |count| safe(git[2]).env("GIT_CONFIG_COUNT", count);
    count("0").run(&git).fails();
    let more = count("1")
        .env("GIT_CONFIG_KEY_0", "my.key")
        .env("GIT_CONFIG_VALUE_0", "mine");
    let script = format!("git config my.key && {} >&2", git.join(" "));
    assert_eq!(more.sh(&script).succeeds().stdout, "mine\n");
}
