//! `/etc/srt/settings.json` bounds every other layer; it is put there in a mount namespace of
//! the test's own.

use std::fs;
use std::path::PathBuf;

use super::harness::{Ran, Scratch, is_root, outside, run, skip, wrapped};
use super::{Server, User};

/// A copy of /etc with a place for the system's file.
struct Etc {
    scratch: Scratch,
    script: String,
}

impl Etc {
    /// Returns nothing where no mount namespace can be made, and says so.
    fn new() -> Option<Self> {
        let flags = if is_root() { "-m" } else { "-rm" };
        if outside(&format!("unshare {flags} true")).status != 0 {
            skip("this user cannot make a mount namespace");
            return None;
        }
        let scratch = Scratch::new("etc");
        let etc = scratch.dir("etc");
        // What cannot be read is not needed either.
        outside(&format!("cp -r /etc/. {} 2>/dev/null", etc.display()));
        scratch.dir("etc/srt");
        let script = format!("mount --bind {} /etc && exec \"$0\" \"$@\"", etc.display());
        Some(Self { scratch, script })
    }

    fn file(&self) -> PathBuf {
        self.scratch.path("etc/srt/settings.json")
    }

    fn set(&self, text: &str) {
        fs::write(self.file(), text).expect("ours");
    }

    fn run(&self, user: &User, words: &[&str]) -> Ran {
        let flags = if is_root() { "-m" } else { "-rm" };
        let words = user.srt(words);
        run(&mut wrapped(
            &["unshare", flags, "sh", "-c", &self.script],
            &words,
        ))
    }

    /// Tells whether a command can write `name`.
    fn writes(&self, user: &User, flags: &[&str], name: &str) -> bool {
        let script = format!("echo > {}", user.path(name).display());
        let ran = self.run(user, &[flags, &["sh", "-c", &script]].concat());
        assert_ne!(ran.status, 125, "{}", ran.stderr);
        fs::remove_file(user.path(name)).is_ok()
    }

    /// Expects a refusal that names the system's file and, if there is one, the other place.
    #[track_caller]
    fn refuses(&self, user: &User, flags: &[&str], other: &str) {
        let mark = user.path("home/a/ran");
        let script = format!("echo > {}", mark.display());
        let ran = self.run(user, &[flags, &["sh", "-c", &script]].concat());
        assert!(!mark.exists());
        let ran = ran.is_refused("/etc/srt/settings.json");
        assert!(ran.stderr.contains(other), "{other}: {}", ran.stderr);
    }
}

#[test]
fn grants_of_every_layer_are_bounded() {
    let Some(etc) = Etc::new() else { return };
    let user = User::new("bounded");
    let [a, b] = ["a", "b"].map(|dir| user.0.dir(&format!("home/{dir}")));
    let granting = |dir: &str| format!(r#"{{"filesystem":{{"allowWrite":["~/{dir}"]}}}}"#);
    let bound = format!(r#"{{"filesystem":{{"allowWrite":["{}"]}}}}"#, a.display());

    user.settings(&granting("b"));
    assert!(etc.writes(&user, &[], "home/b/x"), "nothing bounds yet");
    etc.set(&bound);
    etc.refuses(&user, &[], ".srt-settings.json:1:");
    user.settings(&granting("a"));
    assert!(etc.writes(&user, &[], "home/a/x") && !etc.writes(&user, &[], "home/b/x"));
    user.settings("{}");
    assert!(
        !etc.writes(&user, &[], "home/a/x"),
        "a bound grants nothing"
    );

    let named = user.write("ci.json", &granting("b"));
    etc.refuses(&user, &["-s", named.to_str().expect("UTF-8")], "ci.json:1:");
    etc.refuses(
        &user,
        &["--allow-write", b.to_str().expect("UTF-8")],
        "--allow-write",
    );
    assert!(etc.writes(&user, &["--allow-write", "~/a"], "home/a/x"));
    user.project(&granting("b"));
    assert!(
        !etc.writes(&user, &[], "home/b/x"),
        "not trusted: it narrows"
    );
    etc.run(&user, &["ctl", "trust", "--yes"]).succeeds();
    etc.refuses(&user, &[], ".srt.json:1:");
    user.project("{}");
    user.settings(r#"{"filesystem":{"disabled":true}}"#);
    etc.refuses(&user, &[], ".srt-settings.json:1:");
    etc.set("{}");
    assert!(
        etc.writes(&user, &[], "home/b/x"),
        "an absent key bounds nothing"
    );
}

#[test]
fn denies_of_the_system_cannot_be_undone() {
    let Some(etc) = Etc::new() else { return };
    let user = User::new("denied");
    user.0.dir("home/a");
    user.write("home/secret/key", "key");
    let secret = user.path("home/secret");
    let deny = |list: &str| format!(r#"{{"filesystem":{{"{list}":["{}"]}}}}"#, secret.display());
    let key = user.path("home/secret/key");
    let read = |flags: &[&str]| {
        let cat = ["cat", key.to_str().expect("UTF-8")];
        etc.run(&user, &[flags, &cat].concat()).stdout == "key"
    };
    assert!(read(&[]));
    etc.set(&deny("denyRead"));
    assert!(!read(&[]) && !read(&["--allow-write", "~"]));
    etc.refuses(&user, &["--allow-read", "~/secret"], "--allow-read");
    etc.refuses(&user, &["--allow-write", "~/secret"], "--allow-write");
    user.settings(r#"{"filesystem":{"disabled":true}}"#);
    assert!(!read(&[]));
    user.settings("{}");

    assert!(etc.writes(&user, &["--allow-write", "~"], "home/a/x"));
    etc.set("{}");
    assert!(etc.writes(&user, &["--allow-write", "~"], "home/secret/x"));
    etc.set(&deny("denyWrite"));
    assert!(!etc.writes(&user, &["--allow-write", "~"], "home/secret/x"));
}

#[test]
fn hosts_are_bounded_and_denied_for_everybody() {
    let Some(etc) = Etc::new() else { return };
    let user = User::new("hosts");
    user.0.dir("home/a");
    let server = Server::start();
    let url = format!("http://127.0.0.1:{}/", server.port);
    let reached = |flags: &[&str]| {
        let before = server.hits();
        let curl = ["curl", "-sS", "-m", "10", "--noproxy", "", &url];
        let ran = etc.run(&user, &[flags, &curl].concat());
        assert_ne!(ran.status, 125, "{}", ran.stderr);
        server.hits() > before
    };
    let allow = ["--allow-domain", "127.0.0.1"];
    assert!(reached(&allow) && !reached(&[]));
    etc.set(r#"{"network":{"allowedDomains":["127.0.0.0/8"]}}"#);
    assert!(reached(&allow) && !reached(&[]));
    etc.set(r#"{"network":{"allowedDomains":["app.test"]}}"#);
    etc.refuses(&user, &allow, "--allow-domain");
    etc.set(r#"{"network":{"deniedDomains":["127.0.0.1"]}}"#);
    assert!(!reached(&allow));
    user.settings(r#"{"network":{"mode":"open"}}"#);
    etc.refuses(&user, &allow, ".srt-settings.json:1:");
    etc.set("{}");
    assert!(reached(&[]));
}

#[test]
fn a_file_of_the_system_that_is_wrong_ends_every_run() {
    let Some(etc) = Etc::new() else { return };
    let user = User::new("wrong");
    user.0.dir("home/a");
    let named = user.write("ci.json", "{}");
    let named = ["-s", named.to_str().expect("UTF-8")];
    etc.set("{}");
    assert!(etc.writes(&user, &["--allow-write", "~/a"], "home/a/x"));
    for text in [
        "",
        "{",
        r#"{"filesystem":{"allowWrite":["a"]}}"#,
        r#"{"extends":["own"]}"#,
    ] {
        user.write("home/.config/srt/profiles/own.json", "{}");
        etc.set(text);
        etc.refuses(&user, &["--allow-write", "~/a"], "");
        etc.refuses(&user, &[&named[..], &["--allow-write", "~/a"]].concat(), "");
    }
    etc.set("{}");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    fs::set_permissions(etc.file(), mode).expect("ours");
    etc.refuses(
        &user,
        &["--allow-write", "~/a"],
        "can be written by every user",
    );
}
