//! The keys that the package knows, and the settings that its own documentation shows.

use std::path::PathBuf;

use sandbox_runtime::policy::Policy;
use sandbox_runtime::policy::filesystem::Access;
use sandbox_runtime::settings::{Settings, schema};
use serde_json::{Value, json};

use crate::draw::say;
use crate::harness::Scratch;
use crate::ours;
use crate::package::reference;

/// The keys whose verdicts are judged here; an example with others may ask for more than this
/// version does.
const JUDGED: [(&str, &[&str]); 2] = [
    ("network", &["allowedDomains", "deniedDomains"]),
    (
        "filesystem",
        &["denyRead", "allowRead", "allowWrite", "denyWrite"],
    ),
];

#[test]
fn every_key_of_the_package_is_known() {
    let Some(package) = reference() else {
        return;
    };
    let theirs = package.decide(&json!({}))["keys"].take();
    let theirs: Vec<&str> = theirs
        .as_array()
        .expect("it is a list")
        .iter()
        .filter_map(Value::as_str)
        // What stands below is for another system and taken as it is.
        .filter(|key| !key.starts_with("windows."))
        .collect();
    assert!(theirs.len() > 60, "{theirs:?}");
    let known = |key: &&&str| schema::keys().any(|known| known.path == **key);
    let unknown: Vec<_> = theirs.iter().filter(|key| !known(key)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn every_settings_example_of_the_package_is_read_and_obeyed() {
    let Some(package) = reference() else {
        return;
    };
    let examples = examples(&package.readme());
    assert!(examples.len() >= 5, "the document holds more than that");
    let mut wrong = Vec::new();
    let mut judged = 0;
    for (line, example) in &examples {
        let scratch = Scratch::new("reference-examples");
        let file = scratch.file("settings.json", example.to_string());
        if let Err(error) = Settings::read(&file) {
            wrong.push(format!("README.md:{line}: {error}"));
            continue;
        }
        make_paths(&scratch, example);
        match ours::policy(&scratch, example) {
            Ok(policy) => {
                judged += 1;
                wrong.extend(disobeyed(&scratch, example, &policy));
            }
            Err(reason) if has_more_keys(example) => say(&format!("README.md:{line}: {reason}")),
            Err(reason) => wrong.push(format!("README.md:{line}: {reason}")),
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(judged >= 3, "only {judged} examples could be judged");
}

/// Returns the blocks fenced as JSON that are settings, with the line each begins at. Those of
/// another program say which servers it is to start.
fn examples(readme: &str) -> Vec<(usize, Value)> {
    let mut found = Vec::new();
    let mut lines = readme.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim() != "```json" {
            continue;
        }
        let body = lines.by_ref().map(|(_, line)| line);
        let body: Vec<&str> = body.take_while(|line| line.trim() != "```").collect();
        let example: Value = serde_json::from_str(&body.join("\n")).expect("it is plain JSON");
        if example.get("mcpServers").is_none() {
            found.push((number + 2, example));
        }
    }
    found
}

fn has_more_keys(example: &Value) -> bool {
    let sections = example.as_object().expect("settings are an object");
    sections.iter().any(|(section, keys)| {
        let judged = JUDGED.iter().find(|(name, _)| name == section);
        let keys = keys.as_object().into_iter().flatten();
        judged.is_none_or(|(_, judged)| keys.into_iter().any(|(key, _)| !judged.contains(&&**key)))
    })
}

/// Returns every verdict that is not what the lists of the example say.
fn disobeyed(scratch: &Scratch, example: &Value, policy: &Policy) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, key: &str, entry: &str| {
        if !holds {
            wrong.push(format!("{key} `{entry}` does not hold"));
        }
    };
    let denied = list(example, "network", "deniedDomains");
    for entry in list(example, "network", "allowedDomains") {
        let host = entry.replace('*', "x");
        let holds = ours::allows(policy, &host, 443) && !ours::allows(policy, "x.invalid", 443);
        expect(holds, "allowedDomains", entry);
    }
    for entry in denied {
        expect(!ours::allows(policy, entry, 443), "deniedDomains", entry);
    }
    let access = |entry: &str| policy.filesystem.access(&path(scratch, entry));
    for entry in list(example, "filesystem", "allowWrite") {
        expect(access(entry) == Access::Write, "allowWrite", entry);
    }
    for entry in list(example, "filesystem", "denyWrite") {
        expect(access(entry) != Access::Write, "denyWrite", entry);
    }
    for entry in list(example, "filesystem", "denyRead") {
        let holds = !path(scratch, entry).exists() || access(entry) == Access::Hidden;
        expect(holds, "denyRead", entry);
    }
    wrong
}

fn list<'a>(example: &'a Value, section: &str, key: &str) -> Vec<&'a str> {
    let entries = example[section][key].as_array().into_iter().flatten();
    entries.filter_map(Value::as_str).collect()
}

/// Makes what the example's lists of paths name below the home and the working directory.
fn make_paths(scratch: &Scratch, example: &Value) {
    for key in JUDGED[1].1 {
        for entry in list(example, "filesystem", key) {
            let path = path(scratch, entry);
            if let Ok(name) = path.strip_prefix(scratch.path("")) {
                scratch.dir(ours::text(name));
            }
        }
    }
}

fn path(scratch: &Scratch, entry: &str) -> PathBuf {
    let path = match entry.strip_prefix("~/") {
        Some(name) => scratch.path("home").join(name),
        None => scratch.path("cwd").join(entry),
    };
    path.components().collect()
}
