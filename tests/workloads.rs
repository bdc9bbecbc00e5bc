//! What people run in a sandbox all day: package managers and git, with nothing allowed but
//! the hosts that the tool itself asks. Each is done outside first.

mod harness;
#[path = "workloads/network.rs"]
mod network;
#[path = "workloads/profiles.rs"]
mod profiles;
#[path = "workloads/programs.rs"]
mod programs;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use harness::{Ran, Scratch, Srt, skip};
use network::{SERVER, Served};

/// Longest any tool may take for its work.
const LIMIT: Duration = Duration::from_secs(400);

#[test]
fn npm_installs_the_same_tree_as_outside() {
    let Some(npm) = Npm::find() else {
        return skip("npm does not run here");
    };
    let scratch = Scratch::new("npm");
    let ran = run(Command::new("npm")
        .args(npm.install(&scratch.dir("outside/demo")))
        // The caller's own settings of npm would apply outside alone.
        .env("HOME", scratch.dir("home"))
        .current_dir(scratch.path("outside/demo")));
    if ran.status != 0 {
        return skip("npm's registry does not answer outside either");
    }
    let hosts = hosts(&ran, "http fetch", "://");
    assert!(hosts.contains(&npm.host), "{hosts:?} lacks {}", npm.host);

    // The directory gives the tree its name.
    let inside = scratch.dir("inside/demo");
    let srt = allowing(&scratch, &hosts).allow_write(&inside);
    run(&mut srt
        .current_dir(&inside)
        .into_command(&words("npm", &npm.install(&inside))))
    .succeeds();

    let lock = fs::read_to_string(inside.join("package-lock.json")).expect("npm wrote it");
    let lock: serde_json::Value = serde_json::from_str(&lock).expect("npm writes JSON");
    let packages = lock["packages"].as_object().map_or(0, |all| all.len() - 1);
    assert!(packages >= 50, "{packages} packages are no workload");
    run(Command::new("npm").arg("ls").current_dir(&inside)).succeeds();
    let outside = tree(&scratch.path("outside/demo/node_modules"));
    same_trees(&outside, &tree(&inside.join("node_modules")));

    let refused = scratch.dir("refused/demo");
    let srt = Srt::new(&scratch).allow_write(&refused);
    let srt = srt.env("npm_config_fetch_retries", "0");
    let events = scratch.path("events.jsonl");
    let srt = srt.events(&events).current_dir(&refused);
    let ran = run(&mut srt.into_command(&words("npm", &npm.install(&refused))));
    assert_refused(&ran.fails(), &events, &npm.host);
    assert!(!refused.join("node_modules/express").exists());
}

#[test]
fn pip_installs_a_wheel_and_a_source_distribution() {
    let Some(python) = python_with_pip() else {
        return skip("pip does not run here");
    };
    let python = python.as_str();
    let scratch = Scratch::new("pip");
    let outside = scratch.dir("outside");
    let ran = run(pip_environment(
        Command::new(python).args(pip_install(&outside)),
    ));
    if ran.status != 0 {
        return skip("pip's index does not answer outside either");
    }
    let hosts = hosts(&ran, "Starting new HTTP", "): ");

    let inside = scratch.dir("inside");
    let srt = allowing(&scratch, &hosts).allow_write(&inside);
    let mut command = srt.into_command(&words(python, &pip_install(&inside)));
    let ran = run(pip_environment(&mut command)).succeeds();
    assert!(ran.shows("Building wheel for idna"), "{}", ran.stdout);
    same_trees(&tree(&outside), &tree(&inside));
    let imported = run(Command::new(python)
        .args([
            "-c",
            "import idna, six; print(idna.encode('\u{fc}').decode())",
        ])
        .env("PYTHONPATH", &inside));
    assert_eq!(imported.succeeds().stdout, "xn--tda\n");

    let refused = scratch.dir("refused");
    let events = scratch.path("events.jsonl");
    let srt = Srt::new(&scratch).allow_write(&refused).events(&events);
    let mut command = srt.into_command(&words(python, &pip_install(&refused)));
    let ran = run(pip_environment(&mut command).env("PIP_RETRIES", "0")).fails();
    let index = hosts.iter().find(|host| ran.shows(host));
    assert_refused(&ran, &events, index.expect("pip names the index it asks"));
    assert!(tree(&refused).is_empty());
}

#[test]
fn cargo_builds_a_crate_with_dependencies_a_build_script_and_a_macro() {
    let Some(cargo) = Cargo::find() else {
        return skip("cargo does not run here");
    };
    let scratch = Scratch::new("cargo");
    let outside = cargo.crate_in(&scratch, "outside");
    let mut command = Command::new(&cargo.program);
    command.arg("build").current_dir(&outside);
    command.env("CARGO_HTTP_DEBUG", "true");
    command.env("CARGO_LOG", "network=debug");
    let ran = run(cargo.environment(&mut command, &outside));
    if ran.status != 0 {
        return skip("cargo's registry does not answer outside either");
    }
    let hosts = hosts(&ran, "> Host: ", "> Host: ");

    let inside = cargo.crate_in(&scratch, "inside");
    let srt = allowing(&scratch, &hosts).allow_write(&inside);
    let build = [cargo.program.to_str().expect("paths are UTF-8"), "build"];
    let mut command = srt.current_dir(&inside).into_command(&build);
    run(cargo.environment(&mut command, &inside)).succeeds();
    let lock = fs::read_to_string(inside.join("Cargo.lock")).expect("cargo wrote it");
    let packages = lock.matches("[[package]]").count() - 1;
    assert!(packages >= 10, "{packages} dependencies are no workload");
    let built = run(&mut Command::new(inside.join("target/debug/demo"))).succeeds();
    assert_eq!(built.stdout, "{\"answer\":42}\n");

    let refused = cargo.crate_in(&scratch, "refused");
    let events = scratch.path("events.jsonl");
    let srt = Srt::new(&scratch).allow_write(&refused).events(&events);
    let mut command = srt.current_dir(&refused).into_command(&build);
    let command = cargo.environment(&mut command, &refused);
    let ran = run(command.env("CARGO_NET_RETRY", "0")).fails();
    let index = hosts.iter().find(|host| ran.shows(host));
    assert_refused(&ran, &events, index.expect("cargo names the index it asks"));
    assert!(!refused.join("target/debug/demo").exists());
}

#[test]
fn git_clones_over_http_only_from_an_allowed_address() {
    let scratch = Scratch::new("git");
    let served = match Served::start(&scratch) {
        Ok(served) => served,
        Err(reason) => return skip(&reason),
    };
    served.clone_outside("outside").succeeds();
    assert!(served.is_cloned("outside"));
    let hits = served.hits();
    assert!(hits > 0);

    let allowed = Srt::new(&scratch).allow_host(SERVER);
    served.clone_inside("allowed", allowed).succeeds();
    assert!(served.is_cloned("allowed"));
    assert!(served.hits() > hits);

    let hits = served.hits();
    let events = scratch.path("events.jsonl");
    let ran = served.clone_inside("refused", Srt::new(&scratch).events(&events));
    assert_refused(&ran.fails(), &events, SERVER);
    assert!(!served.is_cloned("refused"));
    assert_eq!(served.hits(), hits);
}

/// Expects that the proxies said no, that the tool shows it, and that an event names the host.
#[track_caller]
fn assert_refused(ran: &Ran, events: &Path, host: &str) {
    assert!(
        ran.shows("403") || ran.shows("blocked-by-allowlist"),
        "no refusal is shown\n{}\n{}",
        ran.stdout,
        ran.stderr
    );
    let events = fs::read_to_string(events).expect("srt wrote events");
    let denied = events
        .lines()
        .any(|event| event.contains(r#""verdict":"denied""#) && event.contains(host));
    assert!(denied, "no event says that {host} was denied:\n{events}");
}

struct Npm {
    registry: String,
    host: String,
}

impl Npm {
    fn find() -> Option<Self> {
        let registry = answer("npm", &["config", "get", "registry"])?;
        let host = host_of(registry.split_once("://")?.1);
        Some(Self { registry, host })
    }

    fn install(&self, dir: &Path) -> Vec<String> {
        fs::write(dir.join("package.json"), r#"{"name":"demo"}"#).expect("the directory is ours");
        let cache = dir.join("cache");
        let cache = cache.to_str().expect("test paths are UTF-8");
        let registry = &self.registry;
        ["install", "express", "eslint", "--loglevel", "http"]
            .into_iter()
            .chain(["--registry", registry, "--cache", cache])
            .map(str::to_owned)
            .collect()
    }
}

/// Finds the interpreter itself: the command on PATH may be a script that writes elsewhere.
fn python_with_pip() -> Option<String> {
    let pythons = ["python3", "/usr/bin/python3"].into_iter();
    let mut programs =
        pythons.filter_map(|name| answer(name, &["-c", "import sys; print(sys.executable)"]));
    programs.find(|python| answer(python, &["-m", "pip", "--version"]).is_some())
}

fn pip_install(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().expect("test paths are UTF-8");
    ["-m", "pip", "install", "-vvv", "--no-cache-dir"]
        .into_iter()
        .chain(["--no-compile", "--target", dir])
        .chain(["--no-binary", "idna", "idna", "six"])
        .map(str::to_owned)
        .collect()
}

fn pip_environment(command: &mut Command) -> &mut Command {
    // Packages of a local directory would be installed without asking the index.
    command.env("PIP_FIND_LINKS", "").env_remove("PIP_NO_INDEX")
}

struct Cargo {
    program: PathBuf,
    settings: Option<String>,
}

impl Cargo {
    /// Finds the toolchain itself: the command of that name on PATH may need a HOME.
    fn find() -> Option<Self> {
        let sysroot = PathBuf::from(answer("rustc", &["--print", "sysroot"])?);
        let script = r#"cat "${CARGO_HOME:-$HOME/.cargo}/config.toml" 2>/dev/null"#;
        let program = sysroot.join("bin/cargo");
        program.exists().then_some(Self {
            program,
            settings: answer("sh", &["-c", script]),
        })
    }

    fn crate_in(&self, scratch: &Scratch, dir: &str) -> PathBuf {
        scratch.file(&format!("{dir}/Cargo.toml"), MANIFEST);
        scratch.file(&format!("{dir}/build.rs"), BUILD_SCRIPT);
        scratch.file(&format!("{dir}/src/main.rs"), PROGRAM);
        if let Some(settings) = &self.settings {
            scratch.file(&format!("{dir}/cargo/config.toml"), settings);
        }
        scratch.path(dir)
    }

    fn environment<'a>(&self, command: &'a mut Command, dir: &Path) -> &'a mut Command {
        let bin = self.program.parent().expect("it is in bin");
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
        command
            .env("PATH", path)
            .env("CARGO_HOME", dir.join("cargo"))
            .env("CARGO_TARGET_DIR", dir.join("target"))
    }
}

const MANIFEST: &str = r#"[package]
name = "demo"
version = "0.1.0"
edition = "2024"
[workspace]
[dependencies]
anyhow = "1"
serde = { version = "1", features = ["derive"] }
serde_json = "1"
thiserror = "2"
"#;

const BUILD_SCRIPT: &str = r#"fn main() {
    println!("cargo::rustc-env=ANSWER={}", 6 * 7);
}
"#;

const PROGRAM: &str = r#"#[derive(serde::Serialize)]
struct Said {
    answer: u32,
}
fn main() -> anyhow::Result<()> {
    let answer = env!("ANSWER").parse()?;
    println!("{}", serde_json::to_string(&Said { answer })?);
    Ok(())
}
"#;

fn run(command: &mut Command) -> Ran {
    harness::run_within(command, b"", LIMIT)
}

/// Returns what a program prints on standard output, if it runs and succeeds.
fn answer(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn words(program: &str, args: &[String]) -> Vec<String> {
    let mut words = vec![program.to_owned()];
    words.extend_from_slice(args);
    words
}

fn allowing(scratch: &Scratch, hosts: &BTreeSet<String>) -> Srt {
    let srt = Srt::new(scratch);
    hosts.iter().fold(srt, |srt, host| srt.allow_host(host))
}

/// Returns the hosts a tool said it asked: what follows `before` on lines with `marker`.
#[track_caller]
fn hosts(ran: &Ran, marker: &str, before: &str) -> BTreeSet<String> {
    let lines = ran.stdout.lines().chain(ran.stderr.lines());
    let hosts: BTreeSet<String> = lines
        .filter(|line| line.contains(marker))
        .filter_map(|line| line.split_once(before))
        .map(|(_, rest)| host_of(rest))
        .collect();
    assert!(
        !hosts.is_empty(),
        "the tool does not say which hosts it asked"
    );
    hosts
}

/// Returns the host of the start of a URL after its scheme.
fn host_of(text: &str) -> String {
    let authority = text.split(['/', ' ']).next().unwrap_or(text);
    let host = authority.rsplit('@').next().unwrap_or(authority);
    host.split(':').next().unwrap_or(host).to_owned()
}

/// Everything below a directory: the content of files, the target of links, nothing else.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).expect("the directory is readable") {
            let path = entry.expect("the directory is readable").path();
            let name = path.strip_prefix(root).expect("it is below").to_owned();
            if path.is_symlink() {
                let target = fs::read_link(&path).expect("it is a link");
                found.insert(name, target.into_os_string().into_encoded_bytes());
            } else if path.is_dir() {
                left.push(path);
            } else {
                found.insert(name, fs::read(&path).expect("the file is readable"));
            }
        }
    }
    found
}

#[track_caller]
fn same_trees(outside: &Tree, inside: &Tree) {
    assert!(!outside.is_empty(), "an empty tree proves nothing");
    let names = outside.keys().chain(inside.keys());
    let differing: BTreeSet<_> = names
        .filter(|name| outside.get(*name) != inside.get(*name))
        .collect();
    assert!(differing.is_empty(), "{differing:?} differ");
}
