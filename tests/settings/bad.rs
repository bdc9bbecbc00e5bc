//! Bad files and bad flags: nothing runs, and the message says where and why.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::User;
use super::harness::{is_root, skip};

/// What a file holds, and what the message must say; all are named by `--settings`.
const FILES: [(&[u8], &str); 34] = [
    (b"", "is empty"),
    (b" \n\t", "is empty"),
    (b"null", "1:1: settings are one object, found null"),
    (b"[]", "1:1: settings are one object, found an array"),
    (b"\"x\"", "1:1: settings are one object, found a string"),
    (b"0", "1:1: settings are one object, found a number"),
    (b"{", "1:2: "),
    (b"{\"network\":{", "1:13: "),
    (b"{\"network\":{}", "1:14: "),
    (b"{\"network\"}", "1:11: "),
    (b"{,}", "1:2: "),
    (b"{\"network\":{}}}", "1:15: "),
    (b"{} {}", "1:4: "),
    (b"{'network': {}}", "1:2: "),
    (b"{network: {}}", "1:2: "),
    (b"{\"version\": NaN}", "1:13: "),
    (b"{\"version\": 1e999}", "1:13: "),
    (b"{\"version\": 0x1}", "1:1"),
    (b"{\"version\": 01}", "1:1"),
    (
        b"{\"filesystem\":{\"denyRead\":[\"a\\x\"]}}",
        "1:31: invalid escape",
    ),
    (b"{\"filesystem\":{\"denyRead\":[\"a\nb\"]}}", ".json:1:"),
    (b"# no\n{}", "1:1: "),
    (
        b"{\n\"network\":{},\n\"network\":{}}",
        "3:1: duplicate key `network`",
    ),
    (
        b"{\"network\":{\"mode\":\"open\",\"mode\":\"filtered\"}}",
        "1:27: duplicate key `mode`",
    ),
    (
        b"{\"filesystem\":{\"denyRead\":[],\"denyRead\":[]}}",
        "1:30: duplicate key `denyRead`",
    ),
    (b"\xef\xbb\xbf{}", "byte order mark"),
    (b"\xff\xfe{\0}\0", "byte order mark of UTF-16"),
    (b"{\0\"version\": 1}", "1:2: "),
    (
        b"{\"filesystem\":{\"denyRead\":[\"\xff\"]}}",
        "1:29: this byte is not UTF-8",
    ),
    (
        b"{\"filesystem\":{\"denyRead\":[\"a\\ud800\"]}}",
        ".json:1:",
    ),
    (
        b"{\"filesystem\":{\"denyRead\":[\"a\\u0000\"]}}",
        "holds a NUL character",
    ),
    (
        b"{\"filesystem\":{\"denyread\":[]}}",
        "1:16: unknown key `denyread` in `filesystem`; did you mean `denyRead`?",
    ),
    (
        b"{\"filesytem\":{}}",
        "1:2: unknown key `filesytem`; did you mean `filesystem`?",
    ),
    (
        b"{\"denyRead\":[]}",
        "1:2: unknown key `denyRead`; it belongs in `filesystem`",
    ),
];

#[test]
fn files_that_are_no_settings_are_refused_with_the_place() {
    let user = User::new("no-settings");
    for (content, reason) in FILES {
        let file = user.path("s.json");
        fs::write(&file, content).expect("ours");
        let flags = ["-s", file.to_str().expect("UTF-8")];
        user.is_refused(&flags, reason);
        user.is_refused(&flags, "s.json");
    }
    let good: [&[u8]; 4] = [
        b"{}",
        b"\r\n{\r\n}\r\n",
        b"{ /* why */ \"network\": {}, // and\n \"filesystem\": { \"denyRead\": [], }, }",
        b"{\"filesystem\":{\"denyRead\":[\"\\ud83d\\ude00\"]}}",
    ];
    for content in good {
        let file = user.path("s.json");
        fs::write(&file, content).expect("ours");
        user.runs(&["-s", file.to_str().expect("UTF-8")]);
    }
}

#[test]
fn all_misspelt_keys_are_named_at_once() {
    let user = User::new("misspelt");
    user.settings(
        r#"{"network":{"allowedDomains":[],"deniedDomains":[]},
            "filesystem":{"denyRead":[],"denyreads":["~/.ssh"],"allowWrite":[],"denyWrite":[]},
            "filesytem":{}}"#,
    );
    let ran = user.is_refused(&[], "2:41: unknown key `denyreads`");
    assert!(
        ran.stderr.contains("did you mean `denyRead`?"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("3:13: unknown key `filesytem`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_named_file_that_cannot_be_read_has_no_stand_in() {
    let user = User::new("unreadable-named");
    user.settings("{}");
    user.runs(&[]);
    user.is_refused(&["-s", "none.json"], "none.json: open: ENOENT");
    user.is_refused(&["-s", ""], "--settings");
    user.is_refused(&["-s", "."], "is a directory");
    let file = user.write("closed/s.json", "{}");
    let flags = ["-s", file.to_str().expect("UTF-8")];
    user.runs(&flags);
    if is_root() {
        return skip("root reads every file");
    }
    let mode = |path: &str, mode| {
        fs::set_permissions(user.path(path), fs::Permissions::from_mode(mode)).expect("ours");
    };
    mode("closed/s.json", 0);
    user.is_refused(&flags, "EACCES");
    mode("closed/s.json", 0o600);
    mode("closed", 0o600);
    user.is_refused(&flags, "EACCES");
    mode("closed", 0o700);
}

#[test]
fn one_bad_entry_among_fifty_good_ones_is_one_too_many() {
    let user = User::new("one-bad");
    let mut hosts: Vec<_> = (0..49)
        .map(|number| format!("\"h{number}.test\""))
        .collect();
    let settings = |hosts: &[String]| {
        format!(
            "{{\"network\":{{\"allowedDomains\":[{}]}}}}",
            hosts.join(",")
        )
    };
    user.settings(&settings(&hosts));
    user.runs(&[]);
    hosts.insert(30, "\"https://bad.test/x\"".to_owned());
    user.settings(&settings(&hosts));
    let ran = user.is_refused(&[], "`https://bad.test/x`");
    assert!(
        ran.stderr.contains(".srt-settings.json:1:"),
        "{}",
        ran.stderr
    );
    user.settings(r#"{"filesystem":{"denyRead":["/tmp","/tm[","/usr"]}}"#);
    user.is_refused(&[], "/tm[");
}

#[test]
fn domains_of_other_tools_are_taken_or_refused_with_the_entry() {
    let user = User::new("domains");
    let refused = [
        ("https://a.test", "`a.test`"),
        ("a.test/path", "`a.test`"),
        ("*", "`*`"),
        ("*.com", "`*.com`"),
        ("*.github.io", "`*.github.io`"),
        ("a.test:0", "`a.test:0`"),
        ("::1", "an IPv6 address needs brackets"),
        (".a.test", "`.a.test`"),
        ("*.*.test", "`*.*.test`"),
        ("a b.test", "`a b.test`"),
        ("user@a.test", "`user@a.test`"),
    ];
    let settings = |host: &str| format!(r#"{{"network":{{"allowedDomains":["{host}"]}}}}"#);
    for (host, what) in refused {
        user.settings(&settings(host));
        let ran = user.is_refused(&[], what);
        assert!(ran.stderr.contains(".json:1:31: "), "{}", ran.stderr);
        user.settings("{}");
        user.is_refused(&["--allow-domain", host], "--allow-domain");
    }
    for host in [
        "A.Test",
        "b\\u00fccher.test",
        "a.test.",
        "a.test:443",
        "[::1]",
        "*.a.test",
    ] {
        user.settings(&settings(host));
        user.runs(&[]);
    }
}

#[test]
fn a_single_value_flag_given_twice_is_a_usage_error() {
    let user = User::new("twice");
    let file = user.write("s.json", "{}");
    let file = file.to_str().expect("UTF-8");
    user.runs(&["-s", file, "--cwd", "."]);
    for flags in [
        ["-s", file, "-s", file],
        ["-s", file, "--settings", file],
        ["--cwd", ".", "--cwd", "."],
    ] {
        user.is_refused(&flags, "cannot be used multiple times");
    }
    user.is_refused(&["--no-network", "--no-network"], "--no-network");
    user.is_refused(&["--inherit-env", "--clear-env"], "--clear-env");
    user.is_refused(&["-q", "-v"], "--quiet");
    user.runs(&["--allow-read", ".", "--allow-read", "."]);
}

#[test]
fn an_empty_value_of_a_flag_is_a_usage_error() {
    let user = User::new("empty-values");
    let flags = [
        "--settings",
        "--cwd",
        "--profile",
        "--allow-domain",
        "--deny-domain",
        "--allow-read",
        "--deny-read",
        "--allow-write",
        "--deny-write",
        "--env",
        "--events",
    ];
    for flag in flags {
        user.is_refused(&[flag, ""], flag);
        user.is_refused(&[&format!("{flag}=")], flag);
    }
    user.is_refused(&["--env", "=value"], "--env");
    user.runs(&["--env", "EMPTY="]);
}

#[test]
fn profiles_that_lead_nowhere_are_refused() {
    let user = User::new("profiles");
    user.runs(&["--profile", "git"]);
    user.is_refused(&["--profile", "gitt"], "did you mean `git`?");
    user.is_refused(&["--profile", "../x"], "--profile");
    user.settings(r#"{"extends":["own"]}"#);
    user.is_refused(&[], "1:13: there is no profile `own`");
    let own = |text: &str| user.write("home/.config/srt/profiles/own.json", text);
    own("{}");
    user.runs(&[]);
    own(r#"{"extends":["own"]}"#);
    user.is_refused(&[], "extends itself: own -> own");
    own("[]");
    user.is_refused(&[], "settings are one object, found an array");
    user.settings(r#"{"extends":"own"}"#);
    user.is_refused(
        &[],
        "1:12: `extends` must be an array of strings, found a string",
    );
}

#[test]
fn the_largest_files_are_read_or_refused_in_time() {
    let user = User::new("largest");
    let in_time = |text: &str, reason: Option<&str>| {
        let start = Instant::now();
        user.settings(text);
        match reason {
            Some(reason) => drop(user.is_refused(&[], reason)),
            None => drop(user.runs(&[])),
        }
        assert!(
            start.elapsed() < Duration::from_secs(50),
            "{:?}",
            start.elapsed()
        );
    };
    in_time(&" ".repeat(100_000_000), Some("larger than 1 MiB"));
    let hosts = vec!["\"a.test\""; 110_000].join(",");
    in_time(
        &format!("{{\"network\":{{\"deniedDomains\":[{hosts}]}}}}"),
        None,
    );
    let hosts = vec!["\"a.test\""; 1_000_000].join(",");
    in_time(
        &format!("{{\"network\":{{\"deniedDomains\":[{hosts}]}}}}"),
        Some("larger than 1 MiB"),
    );
    in_time(&"[".repeat(100_000), Some("nested deeper than 64 levels"));
    in_time(
        &"{\"a\":".repeat(100_000),
        Some("nested deeper than 64 levels"),
    );
}
