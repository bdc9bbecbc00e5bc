//! Each profile with its tool in a fresh home: what it names is enough, and it is needed. A host
//! is added only where the tool is set up here to ask another registry than the public one.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use sandbox_runtime::settings::{Flags, Search, Settings};

use super::harness::{Ran, Scratch, Srt, skip};
use super::network::{SERVER, Served};
use super::{Cargo, MANIFEST, Npm, assert_refused, host_of, pip_environment, python_with_pip};
use super::{answer, hosts, run, tree};

#[test]
fn npm_installs_with_the_profile_node() {
    let Some(npm) = Npm::find() else {
        return skip("npm does not run here");
    };
    let scratch = Scratch::new("profile-node");
    let words = ["npm", "install", "express", "--loglevel", "http"];
    let words = [&words[..], &["--registry", &npm.registry]].concat();
    let project = |name: &str| {
        scratch.file(&format!("{name}/package.json"), r#"{"name":"demo"}"#);
        scratch.path(name)
    };
    let ran = run(outside(&words, &scratch).current_dir(project("outside")));
    if ran.status != 0 {
        return skip("npm's registry does not answer outside either");
    }
    let asked = hosts(&ran, "http fetch", "://");

    let inside = project("inside");
    let srt = with_profile(&scratch, "node", &asked).allow_write(&inside);
    let ran = run(&mut srt.current_dir(&inside).into_command(&words)).succeeds();
    assert_quiet(&ran);
    assert!(inside.join("node_modules/express/package.json").exists());
    assert!(!tree(&scratch.path("home/.npm/_cacache")).is_empty());
    assert!(!tree(&scratch.path("home/.npm/_logs")).is_empty());

    let refused = project("refused");
    let events = scratch.path("events.jsonl");
    let srt = with_profile(&scratch, "git", &BTreeSet::new()).allow_write(&refused);
    let srt = srt.env("npm_config_fetch_retries", "0").events(&events);
    let words = [&words[..], &["--prefer-online"]].concat();
    let ran = run(&mut srt.current_dir(&refused).into_command(&words)).fails();
    assert_refused(&ran, &events, &npm.host);
}

#[test]
fn npm_installs_and_node_runs_where_reading_is_closed() {
    let Some(npm) = Npm::find() else {
        return skip("npm does not run here");
    };
    let scratch = Scratch::new("read-closed-node");
    let project = scratch.path("project");
    scratch.file("project/package.json", r#"{"name":"demo"}"#);
    let words = [
        "npm",
        "install",
        "express",
        "--registry",
        &npm.registry,
        "--loglevel",
        "http",
    ];
    let ran = run(outside(&words, &scratch).current_dir(scratch.dir("outside")));
    if ran.status != 0 {
        return skip("npm's registry does not answer outside either");
    }
    let asked = hosts(&ran, "http fetch", "://");
    let srt = || {
        let srt = with_profile(&scratch, "node", &asked).flags(&["--profile", "read-closed"]);
        srt.allow_write(&project).current_dir(&project)
    };
    let ran = run(&mut srt().into_command(&words));
    if ran.shows("is hidden by filesystem.denyRead") {
        return skip("npm lies where no profile shows it");
    }
    ran.succeeds();
    let serve = "const server = require('express')().get('/', (_, to) => to.send('served')); \
                 const s = server.listen(0, () => fetch(`http://127.0.0.1:${s.address().port}`) \
                 .then(answer => answer.text()).then(text => { console.log(text); s.close(); }))";
    let ran = run(&mut srt().into_command(&["node", "-e", serve])).succeeds();
    assert_eq!(ran.stdout, "served\n", "{}", ran.stderr);
}

#[test]
fn the_profile_node_names_the_registry_that_npm_asks_by_itself() {
    let none = [
        "--userconfig",
        "/none/user",
        "--globalconfig",
        "/none/global",
    ];
    let words = [&["config", "get", "registry"], &none[..]].concat();
    let Some(registry) = answer("npm", &words) else {
        return skip("npm does not run here");
    };
    let (_, host) = registry.split_once("://").expect("it is a URL");
    assert!(granted("node").contains(&host_of(host)), "{registry}");
}

#[test]
fn pip_installs_with_the_profile_python() {
    let Some(python) = python_with_pip() else {
        return skip("pip does not run here");
    };
    let scratch = Scratch::new("profile-python");
    let install = |dir: &Path| -> Vec<String> {
        let dir = dir.to_str().expect("test paths are UTF-8");
        let words = [&python, "-m", "pip", "install", "-vvv", "--target", dir];
        let packages = ["--no-binary", "idna", "idna", "six"];
        let words = words.into_iter().chain(packages);
        words.map(str::to_owned).collect()
    };
    let words = install(&scratch.dir("outside"));
    let ran = run(pip_environment(&mut outside(&words, &scratch)));
    if ran.status != 0 {
        return skip("pip's index does not answer outside either");
    }
    let asked = hosts(&ran, "Starting new HTTP", "): ");

    let inside = scratch.dir("inside");
    let srt = with_profile(&scratch, "python", &asked).allow_write(&inside);
    let mut command = srt.into_command(&install(&inside));
    let ran = run(pip_environment(&mut command)).succeeds();
    assert_quiet(&ran);
    assert!(inside.join("idna").exists() && inside.join("six.py").exists());
    // What was built here is kept for the next run.
    assert!(!tree(&scratch.path("home/.cache/pip")).is_empty());
    assert!(!scratch.path("home/.local").exists());
}

#[test]
fn the_profile_python_names_the_index_that_pip_asks_by_itself() {
    let script = "from pip._internal.models.index import PyPI; \
                  print(PyPI.netloc, PyPI.file_storage_domain)";
    let named = python_with_pip().and_then(|python| answer(&python, &["-c", script]));
    let Some(named) = named else {
        return skip("pip does not run here");
    };
    let granted = granted("python");
    let mut named = named.split_whitespace();
    assert!(
        named.all(|host| granted.contains(host)),
        "{named:?} {granted:?}"
    );
}

#[test]
fn cargo_builds_with_the_profile_rust() {
    let Some(cargo) = Cargo::find() else {
        return skip("cargo does not run here");
    };
    let scratch = Scratch::new("profile-rust");
    let in_crate = |name: &str, command: &mut Command| {
        scratch.file(&format!("{name}/Cargo.toml"), MANIFEST);
        scratch.file(&format!("{name}/src/main.rs"), "fn main() {}\n");
        let bin = cargo.program.parent().expect("it is in bin").display();
        let path = format!("{bin}:/usr/local/bin:/usr/bin:/bin");
        command.env("PATH", path).env_remove("CARGO_HOME");
        command.env("CARGO_TARGET_DIR", scratch.path(name).join("target"));
        command.env("CARGO_HTTP_DEBUG", "true");
        command.env("CARGO_LOG", "network=debug");
        command.current_dir(scratch.path(name));
    };
    for home in ["home", "home-outside"] {
        if let Some(settings) = &cargo.settings {
            scratch.file(&format!("{home}/.cargo/config.toml"), settings);
        }
    }
    let words = [cargo.program.to_str().expect("paths are UTF-8"), "build"];
    let mut command = outside(&words, &scratch);
    in_crate("outside", &mut command);
    let ran = run(&mut command);
    if ran.status != 0 {
        return skip("cargo's registry does not answer outside either");
    }
    let asked = hosts(&ran, "> Host: ", "> Host: ");

    let inside = scratch.dir("inside");
    let srt = with_profile(&scratch, "rust", &asked).allow_write(&inside);
    let mut command = srt.into_command(&words);
    in_crate("inside", &mut command);
    let ran = run(&mut command).succeeds();
    assert_quiet(&ran);
    assert!(inside.join("target/debug/demo").exists());
    let cargo_home = scratch.path("home/.cargo");
    assert!(!tree(&cargo_home.join("registry/cache")).is_empty());
    assert!(!cargo_home.join("bin").exists() && !cargo_home.join(".global-cache").exists());
    // Without settings of its own it asks the public registry.
    let beyond = asked_beyond(&asked, "rust");
    assert!(cargo.settings.is_some() || beyond.is_empty(), "{beyond:?}");
}

#[test]
fn git_clones_with_the_profile_git_and_a_host_of_ones_own() {
    let scratch = Scratch::new("profile-git");
    let served = match Served::start(&scratch) {
        Ok(served) => served,
        Err(reason) => return skip(&reason),
    };
    let own = BTreeSet::from([SERVER.to_owned()]);
    let srt = with_profile(&scratch, "git", &own);
    let ran = served.clone_inside("inside", srt).succeeds();
    assert_quiet(&ran);
    assert!(served.is_cloned("inside"));

    let events = scratch.path("events.jsonl");
    let srt = with_profile(&scratch, "git", &BTreeSet::new()).events(&events);
    let ran = served.clone_inside("refused", srt).fails();
    assert_refused(&ran, &events, SERVER);
    assert!(!served.is_cloned("refused"));
}

/// Starts a tool outside, in a home of its own: the caller's settings would apply there alone.
pub(super) fn outside(words: &[impl AsRef<str>], scratch: &Scratch) -> Command {
    let mut words = words.iter().map(AsRef::as_ref);
    let mut command = Command::new(words.next().expect("there is a program"));
    command.args(words).env("HOME", scratch.dir("home-outside"));
    command
}

/// Starts from a profile, with the hosts that the tool asks here and the profile does not name.
pub(super) fn with_profile(scratch: &Scratch, name: &str, asked: &BTreeSet<String>) -> Srt {
    let mut flags = vec!["--profile".to_owned(), name.to_owned()];
    for host in asked_beyond(asked, name) {
        flags.extend(["--allow-domain".to_owned(), host]);
    }
    Srt::new(scratch).flags(&flags)
}

fn asked_beyond(asked: &BTreeSet<String>, profile: &str) -> BTreeSet<String> {
    asked.difference(&granted(profile)).cloned().collect()
}

/// Returns the hosts of a profile, without ports.
fn granted(profile: &str) -> BTreeSet<String> {
    let mut flags = Flags::default();
    flags.add("extends", profile.to_owned()).expect("a name");
    let search = Search {
        cwd: Path::new("/"),
        home: None,
        config_home: None,
        state_home: None,
        uid: 0,
        system: Path::new("/none/settings.json"),
    };
    let settings = Settings::load(&search, None, flags.into_values()).expect("it is built in");
    let hosts = settings.network.allowed_domains;
    hosts.iter().map(|entry| host_of(&entry.text)).collect()
}

/// Expects that `srt` itself said nothing.
#[track_caller]
pub(super) fn assert_quiet(ran: &Ran) {
    let said = ran.stderr.lines().find(|line| line.starts_with("srt: "));
    assert_eq!(said, None);
}
