//! The example that guides to the settings format show, and what it must come to.

use std::fs;
use std::path::Path;

use super::harness::Scratch;
use super::{explained, text};

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name);
    fs::read_to_string(path).expect("the file is part of the project")
}

#[test]
fn the_example_of_the_guides_gets_the_expected_verdicts() {
    let scratch = Scratch::new("example");
    for name in [
        "cwd/.env",
        "cwd/config/production.json",
        "home/.ssh/id_ed25519",
    ] {
        scratch.file(name, "x");
    }
    for name in ["cwd/src", "cwd/test"] {
        scratch.dir(name);
    }
    let file = scratch.file("settings.json", data("example-settings.json"));
    let (home, cwd) = (scratch.path("home"), scratch.path("cwd"));
    let mut count = 0;
    let mut wrong = Vec::new();
    for line in data("example-verdicts.txt").lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let [act, target, verdict, rule @ ..] = words.as_slice() else {
            continue;
        };
        if *act == "#" {
            continue;
        }
        count += 1;
        let target = target
            .replace("HOME", text(&home))
            .replace("CWD", text(&cwd));
        let mut words = vec!["-s", text(&file), &target];
        words.extend((*act == "write").then_some("--write"));
        let said = &explained(&scratch, &words)[0];
        let found = match &said["rule"] {
            rule if rule.is_null() => vec!["-".to_owned()],
            rule => vec![
                rule["key"].as_str().unwrap_or_default().to_owned(),
                format!("`{}`", rule["entry"].as_str().unwrap_or_default()),
                format!("{}:{}", rule["line"], rule["column"]),
            ],
        };
        if said["act"] != *act || said["verdict"] != *verdict || found != rule {
            wrong.push(format!("{line}\n  is {said}"));
        }
    }
    assert!(count > 25, "{count} lines");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
