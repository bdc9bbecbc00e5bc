//! `srt ctl config show`: what is in force, and where it comes from.

use sandbox_runtime::settings::schema::{self, Shape};
use serde_json::{Value, json};

use super::harness::{Scratch, canary, run};
use super::{ctl, settings, srt, text};

fn data_lines(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn without_settings_nothing_differs_from_the_defaults() {
    let scratch = Scratch::new("none");
    let ran = ctl(&scratch, &["config", "show"]).succeeds();
    assert!(ran.stdout.starts_with("# file: none\n"), "{}", ran.stdout);
    assert!(data_lines(&ran.stdout).is_empty(), "{}", ran.stdout);
    assert!(
        ran.stdout
            .contains("# filesystem.lateDenies not in force: "),
        "{}",
        ran.stdout
    );
}

#[test]
fn every_value_is_shown_with_the_place_it_comes_from() {
    let scratch = Scratch::new("origin");
    let file = scratch.file(
        "s.json",
        r#"{
  "network": { "allowedDomains": ["a.example", "*.b.example:443"], "strictAllowlist": false },
  "filesystem": { "allowRead": [{ "path": "/x[1]", "literal": true }] },
  "env": { "inherit": false, "set": { "MODE": "ci" } },
  "credentials": { "envVars": [{ "name": "DB", "mode": "deny" }] }
}"#,
    );
    let words = [
        "config",
        "show",
        "-s",
        text(&file),
        "--allow-write",
        "/w",
        "--origin",
    ];
    let ran = ctl(&scratch, &words).succeeds();
    let shown = ran.stdout.replace(text(&file), "FILE");
    let expected = [
        r#"network.allowedDomains = "a.example"  # --settings: FILE:2:35"#,
        r#"network.allowedDomains = "*.b.example:443"  # --settings: FILE:2:48"#,
        r#"filesystem.allowRead = {"literal":true,"path":"/x[1]"}  # --settings: FILE:3:33"#,
        r#"filesystem.allowWrite = "/w"  # command line: --allow-write"#,
        r#"env.inherit = false  # --settings: FILE:4:23"#,
        r#"env.set.MODE = "ci"  # --settings: FILE:4:47"#,
        r#"credentials.envVars = {"mode":"deny","name":"DB"}  # --settings: FILE:5:32"#,
    ];
    assert_eq!(data_lines(&shown), expected);
    assert!(shown.starts_with("# file: FILE (--settings)\n"), "{shown}");

    let without = ctl(&scratch, &words[..6]).succeeds();
    assert_eq!(
        data_lines(&without.stdout)[0],
        r#"network.allowedDomains = "a.example""#
    );
}

#[test]
fn all_shows_every_key_and_what_is_built_in() {
    let scratch = Scratch::new("all");
    let file = settings(&scratch, &json!({}));
    let words = ["config", "show", "--all", "--origin", "-s", text(&file)];
    let ran = ctl(&scratch, &words).succeeds();
    let holds = |key: &&schema::Key| {
        let holds = !matches!(key.shape, Shape::Section | Shape::Note | Shape::Never(_));
        holds && !key.path.contains("[]")
    };
    let mut count = 0;
    for key in schema::keys().filter(holds) {
        let start = format!("{} = ", key.path);
        let line = ran.stdout.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("{} is missing", key.path));
        assert!(
            line.ends_with("# default") || line.ends_with("# built in"),
            "{line}"
        );
        count += 1;
    }
    assert!(count > 60, "{count} keys");
    let own = format!("filesystem.denyWrite = {:?}  # built in", text(&file));
    for built_in in ["filesystem.denyWrite = \"/sys\"  # built in", &own] {
        assert!(ran.stdout.contains(built_in), "{built_in}: {}", ran.stdout);
    }
}

#[test]
fn files_say_their_layer_and_whether_they_only_narrow() {
    let scratch = Scratch::new("files");
    let user = scratch.file(
        "home/.srt-settings.json",
        r#"{"filesystem":{"allowWrite":["."]}}"#,
    );
    scratch.dir("cwd/src");
    let project = scratch.file("cwd/.srt.json", r#"{"filesystem":{"allowWrite":["src"]}}"#);
    let (user, project) = (text(&user), text(&project));
    let show = || {
        ctl(&scratch, &["config", "show", "--origin"])
            .succeeds()
            .stdout
    };
    let said = show();
    let lines = [
        format!("# file: {user} (user)"),
        format!("# file: {project} (project, not trusted: narrows)"),
        format!("filesystem.allowWrite = \".\"  # user: {user}:1:30"),
        format!("# narrowed to: filesystem.allowWrite = \"src\"  # project: {project}:1:30"),
    ];
    for line in &lines {
        assert!(said.lines().any(|other| other == line), "{line}: {said}");
    }
    assert!(
        said.contains("# warning: ") && said.contains("is narrowed to"),
        "{said}"
    );

    ctl(&scratch, &["trust", "--yes"]).succeeds();
    let said = show();
    assert!(
        said.contains(&format!("# file: {project} (project)\n")),
        "{said}"
    );
    assert!(!said.contains("narrow"), "{said}");
    assert_eq!(data_lines(&said).len(), 2, "{said}");
}

#[test]
fn secrets_are_never_shown() {
    let scratch = Scratch::new("secrets");
    let secret = canary();
    let file = settings(
        &scratch,
        &json!({
            "env": { "set": { "API_KEY": secret, "MODE": "ci",
                "UPSTREAM": format!("https://u:{secret}@h.example/x") } },
            "network": { "parentProxy": { "http": format!("http://u:{secret}@p.example:1") } },
        }),
    );
    let flag = format!("GITHUB_TOKEN={secret}");
    for form in ["--origin", "--json", "--all"] {
        let words = ["config", "show", form, "-s", text(&file), "--env", &flag];
        let ran = ctl(&scratch, &words).succeeds();
        assert!(!ran.shows(&secret), "{form}: {ran:?}");
        for name in ["API_KEY", "GITHUB_TOKEN", "UPSTREAM", "parentProxy.http"] {
            assert!(ran.stdout.contains(name), "{form}: {name}: {ran:?}");
        }
        assert!(ran.stdout.contains("***@p.example:1"), "{form}: {ran:?}");
    }
}

#[test]
fn what_stops_a_run_and_what_is_not_passed_is_said() {
    let scratch = Scratch::new("stops");
    let file = settings(&scratch, &json!({ "filesystem": { "privateTmp": true } }));
    let show = ["ctl", "config", "show", "-s", text(&file)];
    let ran = run(srt(&scratch, &show).env("DISPLAY", ":7")).succeeds();
    assert!(
        ran.stdout.contains("filesystem.privateTmp = true\n"),
        "{}",
        ran.stdout
    );
    assert!(ran.stdout.contains("# a run stops: "), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("# not passed: `DISPLAY`: "),
        "{}",
        ran.stdout
    );
    assert!(!ran.stdout.contains(":7"), "{}", ran.stdout);
    run(&mut srt(&scratch, &["-s", text(&file), "true"])).is_refused("filesystem.privateTmp");
}

#[test]
fn the_object_has_the_documented_fields() {
    let scratch = Scratch::new("json");
    let file = settings(
        &scratch,
        &json!({ "network": { "allowedDomains": ["a.example"] } }),
    );
    let words = ["ctl", "config", "show", "--json", "-s", text(&file)];
    let ran = run(srt(&scratch, &words).env("DISPLAY", ":7")).succeeds();
    let said: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    let names: Vec<_> = said.as_object().expect("an object").keys().collect();
    let expected = [
        "ceiling",
        "dropped",
        "files",
        "narrowing",
        "notes",
        "protected",
        "secrets",
        "stops",
        "survey",
        "v",
        "values",
        "warnings",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        said["files"],
        json!([{ "path": text(&file), "layer": "--settings", "narrows": false }])
    );
    assert_eq!(
        said["values"],
        json!([{
            "key": "network.allowedDomains", "value": "a.example", "layer": "--settings",
            "file": text(&file), "line": 4, "column": 7,
        }])
    );
    assert_eq!(said["stops"], Value::Null);
    assert_eq!(said["dropped"][0]["name"], "DISPLAY");
    assert!(said["notes"][0]["key"].is_string() && said["notes"][0]["note"].is_string());
}

#[test]
fn settings_that_cannot_be_read_are_an_error() {
    let scratch = Scratch::new("unreadable");
    let bad = scratch.file("bad.json", r#"{ "netwrok": {} }"#);
    for (file, reason) in [
        ("nowhere.json", "ENOENT"),
        (text(&bad), "did you mean `network`?"),
    ] {
        let ran = ctl(&scratch, &["config", "show", "-s", file]);
        assert_eq!((ran.status, ran.stdout.as_str()), (2, ""), "{ran:?}");
        assert!(ran.stderr.contains(reason), "{ran:?}");
    }
    // A file that a run refuses is shown all the same.
    let pattern = settings(
        &scratch,
        &json!({ "filesystem": { "denyRead": ["[.key"] } }),
    );
    let ran = ctl(&scratch, &["config", "show", "-s", text(&pattern)]).succeeds();
    assert!(
        ran.stdout.contains("filesystem.denyRead = \"[.key\""),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("# a run stops: "), "{ran:?}");
}
