//! What `srt` takes from where it is started, and what it leaves there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::harness::{canary, outside, run, skip, wrapped};
use super::{Server, User};

#[test]
fn without_settings_nothing_is_written_and_no_host_reached() {
    let user = User::new("no-settings");
    let server = Server::start();
    assert!(!user.writes(&[], "project/x") && !user.writes(&[], "home/x"));
    assert!(user.writes(&["--allow-write", "."], "project/x"));
    assert!(!server.is_reached(&user, &[]));
    assert!(server.is_reached(&user, &["--allow-domain", "127.0.0.1"]));
    let note = "no settings file was found";
    assert!(user.run(&["-v", "true"]).succeeds().shows(note));
    assert!(!user.run(&["true"]).succeeds().shows(note));
    user.settings("{}");
    assert!(!user.run(&["-v", "true"]).succeeds().shows(note));
}

/// Names under which tools of this kind look for settings in a directory that may be anybody's.
const NAMES: [&str; 10] = [
    ".srt-settings.json",
    ".sandbox.json",
    ".srtrc",
    ".srt/settings.json",
    "srt.json",
    "settings.json",
    ".claude/settings.json",
    ".config/srt/settings.json",
    ".local/state/srt/trust.json",
    "etc/srt/settings.json",
];

#[test]
fn settings_that_a_project_brings_open_nothing() {
    let user = User::new("brings");
    let secret = user.write("home/secret", &canary());
    user.settings(r#"{"filesystem":{"denyRead":["~/secret"]}}"#);
    let permissive =
        r#"{"filesystem":{"allowRead":["~/secret"],"allowWrite":["/"],"disabled":true}}"#;
    for name in NAMES {
        user.write(&format!("project/{name}"), permissive);
    }
    user.write(
        "project/.env",
        "HOME=.\nSRT_SETTINGS=.sandbox.json\nXDG_CONFIG_HOME=.config\n",
    );
    assert!(!user.reads(&[], "home/secret"));
    assert!(!user.writes(&[], "project/x"));
    user.project(permissive);
    user.is_refused(&[], "widens what is allowed");
    let ran = run(user
        .srt(&["cat", secret.to_str().expect("UTF-8")])
        .env("XDG_CONFIG_HOME", ".config")
        .env("SRT_SETTINGS", ".sandbox.json"));
    ran.is_refused("widens what is allowed");
    user.trust();
    assert!(
        user.reads(&[], "home/secret"),
        "the control: trusted, it does open"
    );
}

/// Paths of the calls that a run makes, as the kernel saw them.
fn looked_up(user: &User, dir: &str) -> Vec<String> {
    let trace = user.path("trace");
    let words = [
        "strace",
        "-f",
        "-y",
        "-s",
        "4096",
        "-e",
        "trace=%file",
        "-o",
    ];
    let trace_name = trace.to_str().expect("UTF-8");
    let words = [&words[..], &[trace_name, "--"]].concat();
    run(&mut wrapped(&words, &user.srt_in(dir, &["/bin/true"]))).succeeds();
    let text = fs::read_to_string(&trace).expect("strace wrote it");
    // What the command itself does is its own.
    let ours = text
        .split("execve(\"/bin/true\"")
        .next()
        .unwrap_or_default();
    let cwd = user.path(dir);
    let mut in_new_root = false;
    let mut found = Vec::new();
    for line in ours.lines() {
        // The new root is mounted where the directory was: names below it are the sandbox's.
        in_new_root |= line.contains("move_mount(");
        found.extend(path_of(line, &cwd, in_new_root));
    }
    found
}

/// Takes the path out of `openat(AT_FDCWD</cwd>, "name", …)`.
fn path_of(line: &str, cwd: &Path, absolute_alone: bool) -> Option<String> {
    let (_, arguments) = line.split_once('(')?;
    let mut quotes = arguments.split('"');
    let before = quotes.next()?;
    let name = quotes.next()?;
    let base = before
        .split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'));
    let base = base.map_or(cwd, |(base, _)| Path::new(base));
    let counts = name.starts_with('/') || !absolute_alone;
    counts.then(|| base.join(name).display().to_string())
}

#[test]
fn of_the_working_directory_only_the_project_file_is_looked_up() {
    if outside("strace -V").status != 0 {
        return skip("strace is not installed");
    }
    let user = User::new("looked-up");
    let hostile = user.0.dir("project/hostile");
    for name in NAMES
        .iter()
        .chain(&["libc.so.6", "ld.so.cache", "true", "sh", "locale"])
    {
        user.write(&format!("project/hostile/{name}"), "x");
    }
    let found = looked_up(&user, "project/hostile");
    let below: Vec<_> = found
        .iter()
        .filter_map(|path| path.strip_prefix(hostile.to_str().expect("UTF-8")))
        .filter(|rest| !["", "/", "/."].contains(rest))
        .collect();
    assert!(found.len() > 50, "{found:?}");
    assert!(
        below.contains(&"/.srt.json") && below.contains(&"/.git"),
        "{below:?}"
    );
    let others: Vec<_> = below
        .iter()
        .filter(|rest| !["/.srt.json", "/.git"].contains(*rest))
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn no_text_of_the_settings_is_to_be_seen_inside() {
    let user = User::new("seen-inside");
    let mark = canary();
    let host = format!("{mark}.test");
    let look =
        "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/self/mountinfo | tr '\\0' '\\n'";
    user.settings(&format!(r#"{{"network":{{"allowedDomains":["{host}"]}}}}"#));
    let ran = user.run(&["sh", "-c", look]);
    assert!(ran.stdout.contains("SANDBOX_RUNTIME=1"), "{}", ran.stderr);
    assert!(!ran.stdout.contains(&mark));
    let ran = user.run(&["--env", &format!("MARK={mark}"), "sh", "-c", look]);
    assert!(ran.stdout.contains(&mark), "what is set for the command is");
}

#[test]
fn settings_come_from_no_variable_and_no_pipe() {
    let user = User::new("from-nowhere");
    let open = r#"{"filesystem":{"disabled":true}}"#;
    for name in [
        "SRT_SETTINGS",
        "SRT_CONFIG",
        "SANDBOX_RUNTIME_SETTINGS",
        "SANDBOX",
        "IS_SANDBOX",
    ] {
        let script = format!("echo > {}", user.path("project/x").display());
        let mut srt = user.srt(&["sh", "-c", &script]);
        run(srt.env(name, open)).fails();
        run(user.srt(&["sh", "-c", &script]).env(name, "0")).fails();
        assert!(!user.path("project/x").exists(), "{name}");
    }
    user.is_refused(&["-s", "/dev/stdin"], "is a FIFO, not a regular file");
    user.is_refused(&["-s", "-"], "ENOENT");
}

#[test]
fn switches_given_inside_reach_no_further() {
    let user = User::new("switches");
    let outer = user.path("home/x");
    let srt = env!("CARGO_BIN_EXE_srt");
    let script = format!(
        "SANDBOX=0 IS_SANDBOX=0 SANDBOX_RUNTIME= {srt} --allow-write ~ touch {0}; \
         env -i {srt} -c 'touch {0}'; touch {0}",
        outer.display()
    );
    user.run(&["sh", "-c", &script]).fails();
    assert!(!outer.exists());
    let mut plain = std::process::Command::new("sh");
    plain.args(["-c", &script]).env("HOME", user.path("home"));
    run(&mut plain);
    assert!(outer.exists());
}

#[test]
fn the_program_of_the_launcher_cannot_be_overwritten_through_proc() {
    let user = User::new("own-image");
    let copy = user.path("srt");
    fs::copy(env!("CARGO_BIN_EXE_srt"), &copy).expect("the scratch is writable");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("ours");
    let before = fs::read(&copy).expect("just written");
    let acts = "
        printf '#!/proc/self/exe\\n' > script; chmod +x script; ./script
        for exe in /proc/self/exe /proc/1/exe /proc/2/exe /proc/$PPID/exe; do
            cat /bin/true > $exe; cp -f /bin/true $exe; ln -f $exe ./image && echo > image
        done
        cp /bin/true COPY";
    let acts = acts.replace("COPY", copy.to_str().expect("UTF-8"));
    let mut srt = std::process::Command::new(&copy);
    srt.args(["--allow-write", ".", "sh", "-c", &acts]);
    srt.env("HOME", user.path("home"))
        .current_dir(user.path("project"));
    run(&mut srt).fails();
    assert!(user.path("project/script").exists(), "the command did run");
    assert_eq!(fs::read(&copy).expect("it is there"), before);
    // The one act that is aimed at nothing but the copy.
    outside(&format!("cp /bin/true {}", copy.display())).succeeds();
    assert_ne!(fs::read(&copy).expect("it is there"), before, "the control");
}
