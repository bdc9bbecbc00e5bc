//! The profiles of this program: what they grant, and what must stay closed under all of them.

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use harness::{Ran, Scratch, Srt, run};
use sandbox_runtime::settings::profile;
use sandbox_runtime::settings::{Flags, Search, Settings};

const NAMES: [&str; 8] = [
    "agent",
    "git",
    "go",
    "jvm",
    "node",
    "python",
    "read-closed",
    "rust",
];

/// Those of tools, which add to what a project grants; the others close reading.
const TOOLS: [&str; 6] = ["git", "go", "jvm", "node", "python", "rust"];

/// What a tool outside runs, imports or obeys: a command that could write it would be outside.
/// A `/` at the end marks a directory.
const CLOSED: [&str; 39] = [
    ".bashrc",
    ".cache/",
    ".cache/node/corepack/",
    ".cache/pnpm/",
    ".cache/pypoetry/virtualenvs/",
    ".cargo/.global-cache",
    ".cargo/bin/",
    ".cargo/config.toml",
    ".cargo/credentials.toml",
    ".cargo/env",
    ".config/git/config",
    ".config/go/env",
    ".config/pip/pip.conf",
    ".config/pnpm/rc",
    ".config/pypoetry/config.toml",
    ".config/uv/uv.toml",
    ".config/yarn/global/",
    ".git-credentials",
    ".gitconfig",
    ".gradle/gradle.properties",
    ".gradle/init.d/",
    ".gradle/wrapper/",
    ".local/bin/",
    ".local/lib/python3/site-packages/",
    ".local/share/pnpm/",
    ".local/share/uv/tools/",
    ".m2/settings.xml",
    ".m2/wrapper/",
    ".npm/_npx/",
    ".npmrc",
    ".profile",
    ".pypirc",
    ".rustup/toolchains/",
    ".ssh/config",
    ".yarnrc",
    ".yarnrc.yml",
    "go/bin/",
    "sdk/",
    ".sdkman/",
];

#[test]
fn the_profiles_are_these_and_say_what_they_are_for() {
    let all = profile::all(None).expect("all can be read");
    let names: Vec<_> = all.iter().map(|profile| profile.name.as_str()).collect();
    assert_eq!(names, NAMES);
    assert!(all.iter().all(|profile| profile.file.is_none()));
    assert!(all.iter().all(|profile| profile.description.len() > 10));
}

#[test]
fn a_profile_grants_hosts_and_paths_and_nothing_else() {
    let known = [
        "extends",
        "filesystem.allowRead",
        "filesystem.allowWrite",
        "network.allowedDomains",
    ];
    for name in TOOLS {
        let settings = settings(name);
        let mut keys = settings.values.iter().map(|(key, _)| key);
        assert!(keys.all(|key| known.contains(&key.path)), "{name}");
        assert!(!settings.network.allowed_domains.is_empty(), "{name}");
        assert!(settings.warnings.is_empty(), "{:?}", settings.warnings);
    }
}

#[test]
fn profiles_that_close_reading_grant_the_working_directory_and_no_host() {
    let table: [(_, &[&str]); 2] = [("agent", &["."]), ("read-closed", &[])];
    for (name, granted) in table {
        let settings = settings(name);
        assert!(settings.network.allowed_domains.is_empty(), "{name}");
        assert!(!settings.filesystem.deny_read.is_empty(), "{name}");
        let written = settings.filesystem.allow_write.iter();
        let written: Vec<_> = written.map(|entry| entry.text.as_str()).collect();
        assert_eq!(written, granted, "{name}");
    }
}

#[test]
fn an_agent_finds_the_toolchains_that_the_profiles_of_languages_show() {
    let texts = |name: &str| -> Vec<String> {
        let shown = settings(name).filesystem.allow_read.into_iter();
        shown.map(|entry| entry.text.clone()).collect()
    };
    let mut shown: Vec<_> = TOOLS.into_iter().flat_map(texts).collect();
    let mut found = texts("agent");
    shown.sort();
    found.sort();
    assert_eq!(found, shown);
}

#[test]
fn hosts_are_exact_names_on_the_port_of_https() {
    for name in TOOLS {
        for entry in settings(name).network.allowed_domains {
            let host = entry.text.strip_suffix(":443").unwrap_or_default();
            let (_, top) = host.rsplit_once('.').unwrap_or_default();
            let is_letter = |byte: u8| byte.is_ascii_lowercase();
            let in_names = |byte: u8| is_letter(byte) || byte.is_ascii_digit() || byte == b'-';
            assert!(
                host.split('.')
                    .all(|label| !label.is_empty() && label.bytes().all(in_names)),
                "{}",
                entry.text
            );
            // A number in last place would be an address.
            assert!(!top.is_empty() && top.bytes().all(is_letter), "{host}");
        }
    }
}

#[test]
fn paths_are_below_the_home_directory_and_each_has_a_place() {
    for name in TOOLS {
        for entry in settings(name).filesystem.allow_write {
            let below = entry.text.strip_prefix("~/").unwrap_or_default();
            let depth = below.trim_end_matches('/').split('/').count();
            let is_plain = !below.contains("..") && !below.contains("//");
            assert!(depth >= 2 && is_plain, "{name}: {}", entry.text);
            let place = entry.origin.to_string();
            assert!(place.starts_with(&format!("profile {name}:")), "{place}");
            assert!(profile::is_built_in(&entry.origin), "{place}");
            assert_eq!(entry.origin.name(), "filesystem.allowWrite");
        }
    }
}

#[test]
fn a_fresh_home_gets_the_directories_and_the_command_may_write_them() {
    for name in NAMES {
        let scratch = Scratch::new(name);
        let home = scratch.dir("home");
        let paths = settings(name).filesystem.allow_write;
        let directories: Vec<_> = paths
            .iter()
            .filter_map(|entry| entry.text.strip_prefix("~/")?.strip_suffix('/'))
            .collect();
        let script: String = directories
            .iter()
            .map(|path| format!("echo x > \"$HOME/{path}/made\" && "))
            .collect();
        let ran = profiled(&scratch, &[name]).sh(&format!("{script} true"));
        assert_eq!(ran.succeeds().stderr, "", "{name}");
        for path in &directories {
            let meta = home.join(path).metadata().expect("it was made");
            assert_eq!(meta.permissions().mode() & 0o777, 0o700, "{path}");
            assert!(home.join(path).join("made").exists(), "{path}");
        }
        let made = home.read_dir().expect("it is ours").count();
        assert_eq!(made == 0, directories.is_empty(), "{name}");
    }
}

#[test]
fn what_a_run_will_make_is_explained_as_the_run_does() {
    let scratch = Scratch::new("explained");
    let explain = |act: &str, path: &str| {
        let target = format!("path:~/{path}");
        ctl(&scratch, &["explain", act, "-t", "rust", &target])
    };
    let place = "by filesystem.allowWrite `~/.cargo/registry/` (profile rust:";
    for made in [false, true] {
        let ran = explain("--write", ".cargo/registry/x").succeeds();
        assert!(ran.shows(place), "{}", ran.stdout);
        assert_eq!(ran.shows("a run makes it first"), !made, "{}", ran.stdout);
        let elsewhere = ["--write", "--deny-write", "~/.cargo"];
        let target = "path:~/.cargo/registry/x";
        let words = [&["explain", "-t", "rust"], &elsewhere[..], &[target]].concat();
        assert_eq!(ctl(&scratch, &words).status, 1);
        assert_eq!(explain("--write", ".cargo/x").status, 1);
        let script = "echo x > ~/.cargo/registry/x && ! echo x > ~/.cargo/x";
        profiled(&scratch, &["rust"]).sh(script).succeeds();
    }
}

#[test]
fn what_tools_outside_run_or_obey_stays_closed_under_all_profiles() {
    let scratch = Scratch::new("closed");
    let home = scratch.dir("home");
    for path in CLOSED {
        match path.strip_suffix('/') {
            Some(_) => drop(scratch.dir(&format!("home/{path}"))),
            None => drop(scratch.file(&format!("home/{path}"), "")),
        }
    }
    let script: String = CLOSED
        .iter()
        .map(|path| match path.ends_with('/') {
            true => format!("(: > \"$HOME/{path}made\"); "),
            false => format!("(echo made >> \"$HOME/{path}\"); "),
        })
        .collect();
    let written = || {
        let is_written = |path: &&&str| match path.ends_with('/') {
            true => home.join(path).join("made").exists(),
            false => fs::read(home.join(path)).is_ok_and(|text| !text.is_empty()),
        };
        CLOSED.iter().filter(is_written).collect::<Vec<_>>()
    };

    let marked = format!("{script} echo tried");
    for names in [&TOOLS[..], &NAMES] {
        let ran = profiled(&scratch, names).sh(&marked);
        assert_eq!(ran.stdout, "tried\n", "{}", ran.stderr);
        assert!(written().is_empty(), "{names:?}: {:?}", written());
    }
    run(Command::new("sh").args(["-c", &marked]).env("HOME", &home)).succeeds();
    assert_eq!(written().len(), CLOSED.len());
}

/// What an agent does: it starts shells, git, a compiler and an interpreter, many at a time, keeps a
/// log of its own, and looks around.
const AGENT: &str = r#"
import json, os, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor
home = os.environ['HOME']
def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout.strip() + done.stderr.strip()
for words in (['git', 'init', '-q', '.'], ['git', 'config', 'user.name', 'a'], ['git', 'config', 'user.email', 'a@b']):
    assert run(*words)[0] == 0, run(*words)
open('a.c', 'w').write('#include <stdio.h>\nint main(void) { puts("compiled"); }\n')
os.makedirs(home + '/.helper/sessions', exist_ok=True)
with tempfile.NamedTemporaryFile() as scratch, ThreadPoolExecutor() as pool:
    scratch.write(b'x')
    tasks = [['bash', '-c', 'cc a.c -o a && ./a'], ['sh', '-c', 'echo $0 | tr a-z A-Z'], ['mine'],
             [sys.executable, '-c', 'import sqlite3, multiprocessing; print("imported")']]
    done = list(pool.map(lambda words: run(*words), tasks))
assert run('git', 'add', '-A')[0] == 0
committed = run('git', 'commit', '-qm', 'by the agent')
open(home + '/.helper/sessions/1.json', 'w').write(json.dumps(done))
os.replace(home + '/.helper/sessions/1.json', home + '/.helper/sessions/2.json')
print(done, committed)
for place in ('notes', '.ssh/id_rsa', '.bash_history', 'other/project'):
    print(run('cat', home + '/' + place)[1])
for place in ('.local/bin/mine', '.bashrc', 'other/made', '.gitconfig'):
    print(run('sh', '-c', 'echo changed >> "$0"', home + '/' + place)[1])
"#;

#[test]
fn a_coding_agent_works_and_reads_no_home() {
    let scratch = Scratch::new("agent");
    let secret = harness::canary();
    let private = ["notes", ".ssh/id_rsa", ".bash_history", "other/project"];
    for name in private {
        scratch.file(&format!("home/{name}"), &secret);
    }
    scratch.file("home/.gitconfig", "[init]\n\tdefaultBranch = shown\n");
    let mine = scratch.file("home/.local/bin/mine", "#!/bin/sh\necho mine\n");
    fs::set_permissions(&mine, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let bin = scratch.path("home/.local/bin");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let words = ["/usr/bin/python3", "-c", AGENT];
    let project = |name: &str| scratch.dir(&format!("home/work/{name}"));
    let run_in = |srt: Srt, name: &str| {
        let srt = srt.env("PATH", &path).current_dir(project(name));
        srt.allow_write("~/.helper/").run(&words).succeeds()
    };
    let files = || private.map(|name| fs::read_to_string(scratch.path(&format!("home/{name}"))));

    let control = run_in(Srt::new(&scratch).allow_write("~"), "outside");
    assert!(control.shows(&secret), "{}", control.stdout);
    assert!(scratch.path("home/other/made").exists());
    fs::remove_file(scratch.path("home/other/made")).expect("the control made it");
    fs::remove_file(scratch.path("home/.bashrc")).expect("the control made it");
    fs::write(&mine, "#!/bin/sh\necho mine\n").expect("it is ours");

    let ran = run_in(profiled(&scratch, &["agent"]), "inside");
    for done in ["compiled", "'SH'", "(0, 'mine')", "imported"] {
        assert!(ran.shows(done), "{done}: {} {}", ran.stdout, ran.stderr);
    }
    assert!(!ran.shows(&secret), "{}", ran.stdout);
    let log = fs::read_to_string(scratch.path("home/.helper/sessions/2.json"));
    assert!(log.expect("the agent keeps it").contains("compiled"));
    let project = project("inside");
    let head = fs::read_to_string(project.join(".git/HEAD")).expect("git made it");
    assert_eq!(
        head, "ref: refs/heads/shown\n",
        "the settings of git are shown"
    );
    assert!(
        project.join(".git/refs/heads/shown").exists(),
        "{}",
        ran.stdout
    );
    assert!(!scratch.path("home/other/made").exists() && !scratch.path("home/.bashrc").exists());
    let tool = fs::read_to_string(&mine).expect("it is there");
    assert_eq!(tool, "#!/bin/sh\necho mine\n");
    assert!(
        files()
            .iter()
            .all(|text| text.as_ref().is_ok_and(|text| *text == secret))
    );
}

/// The same in short for an agent of Node.
const NODE_AGENT: &str = r#"
const { execFileSync, fork } = require('child_process'), fs = require('fs'), os = require('os');
const { Worker } = require('worker_threads');
const home = os.homedir(), run = (...words) => execFileSync(words[0], words.slice(1), { stdio: 'pipe' }).toString();
run('git', 'init', '-q', '.'); fs.writeFileSync('child.js', 'process.send(process.argv[2].length)');
fs.writeFileSync(home + '/.helper/state.json', JSON.stringify({ tree: run('sh', '-c', 'ls -a | sort') }));
for (const name of ['notes', '.ssh/id_rsa'])
    try { console.log(fs.readFileSync(home + '/' + name, 'utf8')) } catch (error) { console.log(error.code) }
new Worker('require("worker_threads").parentPort.postMessage(40 + 2)', { eval: true }).on('message', answer => {
    fork('./child.js', ['abc']).on('message', length => console.log(answer, length));
});
"#;

#[test]
fn a_coding_agent_of_node_works_and_reads_no_home() {
    let scratch = Scratch::new("node-agent");
    let secret = harness::canary();
    for name in ["notes", ".ssh/id_rsa"] {
        scratch.file(&format!("home/{name}"), &secret);
    }
    let run_in = |srt: Srt, name: &str| {
        let srt = srt.current_dir(scratch.dir(&format!("home/{name}")));
        srt.allow_write("~/.helper/")
            .run(&["node", "-e", NODE_AGENT])
    };
    let control = run_in(Srt::new(&scratch).allow_write("."), "outside");
    if control.status == 127 {
        return harness::skip("node is not installed");
    }
    assert_eq!(
        control.stdout.matches(&secret).count(),
        1,
        "{}",
        control.stderr
    );
    let ran = run_in(profiled(&scratch, &["agent"]), "inside");
    if ran.shows("is hidden by filesystem.denyRead") {
        return harness::skip("node lies in a home where no profile shows it");
    }
    assert_eq!(ran.stdout, "ENOENT\nENOENT\n42 3\n", "{}", ran.stderr);
    let state = fs::read_to_string(scratch.path("home/.helper/state.json"));
    assert!(
        state
            .expect("the agent keeps it")
            .contains(".git\\nchild.js")
    );
}

#[test]
fn profiles_add_up() {
    let mut flags = Flags::default();
    for name in ["rust", "git", "rust"] {
        flags.add("extends", name.to_owned()).expect("a name");
    }
    let both = load(flags).network.allowed_domains;
    let names_all = |profile: &str| {
        let hosts = settings(profile).network.allowed_domains;
        let is_there = |text: &String| both.iter().any(|entry| entry.text == *text);
        hosts.iter().all(|entry| is_there(&entry.text))
    };
    assert!(names_all("rust") && names_all("git"));
    assert!(!names_all("python"));
}

#[test]
fn profiles_are_listed_with_those_of_the_user() {
    let scratch = Scratch::new("list");
    let listed = ctl(&scratch, &["profile", "list"]).succeeds().stdout;
    let names: Vec<_> = listed
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(name, _)| name.trim())
        .collect();
    assert_eq!(names, NAMES);
    assert!(listed.contains("rust         cargo: fetch crates and build\n"));

    let text = r#"{ "description": "our own", "extends": ["git"] }"#;
    scratch.file("home/.config/srt/profiles/our-tools.json", text);
    let listed = ctl(&scratch, &["profile", "list"]).succeeds().stdout;
    assert!(
        listed.contains("our-tools    our own (yours)\n"),
        "{listed}"
    );
    assert!(listed.contains("rust         cargo: "), "{listed}");
}

#[test]
fn a_profile_is_shown_as_a_file_that_does_the_same() {
    let scratch = Scratch::new("show");
    let texts = |settings: &Settings| -> Vec<String> {
        let hosts = settings.network.allowed_domains.iter();
        let entries = hosts.chain(&settings.filesystem.allow_write);
        let entries = entries.chain(&settings.filesystem.deny_read);
        let entries = entries.chain(&settings.filesystem.allow_read);
        entries.map(|entry| entry.text.clone()).collect()
    };
    for name in NAMES {
        let shown = ctl(&scratch, &["profile", "show", name]).succeeds().stdout;
        assert!(shown.contains("// "), "{name} gives no reasons");
        let file = scratch.file("shown.json", &shown);
        let read = Settings::read(&file).expect("it is a settings file");
        assert_eq!(texts(&read), texts(&settings(name)), "{name}");
    }
    let ran = ctl(&scratch, &["profile", "show", "nod"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    let message = "there is no profile `nod`; did you mean `node`?";
    assert!(ran.shows(message), "{}", ran.stderr);
}

#[test]
fn a_profile_there_is_not_stops_the_run_and_the_nearest_is_named() {
    let scratch = Scratch::new("unknown");
    let out = scratch.dir("out");
    let touch = ["touch".to_owned(), out.join("ran").display().to_string()];
    let srt = |name: &str| profiled(&scratch, &[name]).allow_write(&out);
    for (name, near) in [("nodes", "node"), ("pyhton", "python"), ("ruts", "rust")] {
        let message = format!("there is no profile `{name}`; did you mean `{near}`?");
        srt(name).run(&touch).is_refused(&message);
    }
    assert!(!out.join("ran").exists());
    srt("node").run(&touch).succeeds();
    assert!(out.join("ran").exists());
}

#[test]
fn a_home_that_is_missing_is_not_made_and_that_is_said() {
    let scratch = Scratch::new("no-home");
    let home = scratch.path("none");
    let srt = profiled(&scratch, &["rust"]).env("HOME", &home);
    let ran = srt.run(&["true"]).succeeds();
    let warning = format!(
        "cannot make {}/.cargo/registry: mkdir: ENOENT",
        home.display()
    );
    assert!(ran.shows(&warning), "{}", ran.stderr);
    assert!(!home.exists());
}

/// Reads one profile and no other file.
fn settings(name: &str) -> Settings {
    let mut flags = Flags::default();
    flags.add("extends", name.to_owned()).expect("a name");
    load(flags)
}

fn load(flags: Flags) -> Settings {
    let search = Search {
        cwd: Path::new("/"),
        home: None,
        config_home: None,
        state_home: None,
        uid: 0,
        system: Path::new("/none/settings.json"),
    };
    Settings::load(&search, None, flags.into_values()).expect("built-in profiles are good")
}

fn profiled(scratch: &Scratch, names: &[&str]) -> Srt {
    let flags: Vec<_> = names.iter().flat_map(|name| ["--profile", name]).collect();
    let home = scratch.path("home");
    Srt::new(scratch)
        .flags(&flags)
        .host_changes(home, "profiles make and grant directories of tools")
}

fn ctl(scratch: &Scratch, words: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
    command.arg("ctl").args(words);
    command.env("HOME", scratch.dir("home"));
    command.env_remove("XDG_CONFIG_HOME");
    run(command.current_dir(scratch.dir("cwd")))
}
