//! Grants that give away more than they seem to, keys of other versions, and what is said.

use super::harness::run;
use super::{Server, User};

#[test]
fn write_grants_that_give_too_much_are_refused_or_said() {
    let user = User::new("too-much");
    for path in ["/proc", "/proc/sys", "/sys"] {
        user.is_refused(&["--allow-write", path], "never writable");
    }
    let said = |path: &str| {
        let ran = user.run(&["--allow-write", path, "true"]).succeeds();
        ran.stderr
    };
    for (path, what) in [
        ("/", "/etc"),
        ("/etc", "/etc"),
        ("/usr/..", "/etc"),
        ("/usr", "/usr"),
        ("/run", "/run"),
        ("/var", "/var"),
        ("~", "your home"),
        ("..", "your home"),
    ] {
        let said = said(path);
        let line = said
            .lines()
            .find(|line| line.contains(&format!("--allow-write `{path}`")));
        assert!(
            line.is_some_and(|line| line.contains(what)),
            "{path}: {said}"
        );
    }
    for path in [".", "sub", "../project", "/dev/shm"] {
        assert_eq!(said(path), "", "{path}");
    }
    for host in ["*", "*:443", "*.com"] {
        user.is_refused(&["--allow-domain", host], host);
    }
}

#[test]
fn keys_without_effect_pass_and_are_named_when_asked() {
    let user = User::new("other-systems");
    let keys = r#"{"ripgrep":{"command":"rg"},"mandatoryDenySearchDepth":5,"bwrapPath":"/usr/bin/bwrap",
        "socatPath":"/usr/bin/socat","allowPty":true,"allowAppleEvents":true,
        "enableWeakerNetworkIsolation":true,"enableWeakerNestedSandbox":true,"seccomp":{"argv0":"x"},
        "network":{"allowMachLookup":["a.b"],"allowLocalBinding":true}}"#;
    user.settings(keys);
    assert_eq!(user.run(&["true"]).succeeds().stderr, "");
    let said = user.run(&["-v", "true"]).succeeds().stderr;
    for key in [
        "ripgrep.command",
        "mandatoryDenySearchDepth",
        "bwrapPath",
        "socatPath",
        "allowPty",
        "allowAppleEvents",
        "enableWeakerNetworkIsolation",
        "seccomp.argv0",
        "enableWeakerNestedSandbox",
        "network.allowMachLookup",
        "network.allowLocalBinding",
    ] {
        assert!(
            said.contains(&format!("`{key}` has no effect")),
            "{key}: {said}"
        );
    }
}

#[test]
fn keys_whose_capability_is_missing_stop_the_run_unless_they_ask_for_nothing() {
    let user = User::new("missing");
    let table = [
        ("filesystem.privateTmp", "true", "false"),
        (
            "network.parentProxy",
            r#"{"http":"http://proxy.test:1"}"#,
            "{}",
        ),
        ("network.stripResponseHeaders", r#"["x-a"]"#, "[]"),
        ("network.tlsTerminate", "{}", ""),
        (
            "network.mitmProxy",
            r#"{"socketPath":"/s","domains":["a.test"]}"#,
            "",
        ),
        ("network.httpProxyPort", "1", ""),
    ];
    for (key, asks, rests) in table {
        let settings = |value: &str| match key.split_once('.') {
            Some((section, name)) => format!(r#"{{"{section}":{{"{name}":{value}}}}}"#),
            None => format!(r#"{{"{key}":{value}}}"#),
        };
        user.settings(&settings(asks));
        user.is_refused(&[], key);
        if !rests.is_empty() {
            user.settings(&settings(rests));
            user.runs(&[]);
        }
    }
}

#[test]
fn no_network_beats_every_layer() {
    let user = User::new("no-network");
    let server = Server::start();
    user.settings(r#"{"network":{"allowedDomains":["127.0.0.1"]}}"#);
    assert!(server.is_reached(&user, &[]) && !server.is_reached(&user, &["--no-network"]));
    user.settings(r#"{"network":{"mode":"open"}}"#);
    assert!(server.is_reached(&user, &[]) && !server.is_reached(&user, &["--no-network"]));
    user.settings("{}");
    let both = ["--allow-domain", "127.0.0.1", "--no-network"];
    assert!(!server.is_reached(&user, &both));
    assert!(server.is_reached(&user, &both[..2]));
    let denied = [&both[..2], &["--deny-domain", "127.0.0.1"]].concat();
    assert!(!server.is_reached(&user, &denied));
}

#[test]
fn quiet_says_nothing_and_verbose_what_is_left_out() {
    let user = User::new("verbosity");
    user.settings(r#"{"filesystem":{"allowWrite":["none"]}}"#);
    let said = |flags: &[&str]| {
        let mut srt = user.srt(&[flags, &["sh", "-c", "echo own >&2"]].concat());
        run(srt.env("SSH_AUTH_SOCK", "/no/such/agent"))
            .succeeds()
            .stderr
    };
    assert_eq!(said(&["-q"]), "own\n");
    let warned = said(&[]);
    assert!(
        warned.contains("filesystem.allowWrite `none` does not exist"),
        "{warned}"
    );
    assert!(!warned.contains("SSH_AUTH_SOCK"), "{warned}");
    let verbose = said(&["-v"]);
    assert!(
        verbose.contains("variable `SSH_AUTH_SOCK` is not passed"),
        "{verbose}"
    );
    assert!(
        verbose.contains("`filesystem.lateDenies` not in force"),
        "{verbose}"
    );
    user.settings("{");
    user.is_refused(&["-q"], ":1:2: ");
}

/// The case ST01 of the catalogue.
#[test]
fn what_stands_behind_the_command_word_is_the_commands() {
    let user = User::new("words");
    user.write("project/s.json", "{}");
    let output = |words: &[&str]| user.run(&[&["--settings", "s.json"], words].concat());
    assert_eq!(output(&["python3", "-c", "print(1)"]).stdout, "1\n");
    let count = output(&["grep", "-c", "root", "/etc/passwd"])
        .succeeds()
        .stdout;
    assert!(
        count.trim().parse::<u32>().is_ok_and(|count| count > 0),
        "{count}"
    );
    assert_eq!(output(&["ls", "-d", "/tmp"]).stdout, "/tmp\n");
    assert_eq!(output(&["sh", "-s"]).status, 0);
    assert_eq!(
        output(&["echo", "--allow-write", "/", "-q"]).stdout,
        "--allow-write / -q\n"
    );
}

#[test]
fn only_proxy_and_ctl_are_words_of_ours() {
    let user = User::new("reserved");
    let bin = user.0.dir("bin");
    let words = [
        "explain",
        "check",
        "learn",
        "doctor",
        "config",
        "schema",
        "init",
        "profile",
        "trust",
        "allow",
        "changes",
        "cache",
        "monitor",
        "diff",
        "run",
        "exec",
        "ps",
        "logs",
        "stop",
        "audit",
        "completions",
        "help",
    ];
    let run_word = |word: &str, rest: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", bin.display());
        run(user.srt(&[&[word], rest].concat()).env("PATH", path))
    };
    for word in words {
        let program = user.write(
            &format!("bin/{word}"),
            "#!/bin/sh\necho \"program $SANDBOX_RUNTIME $*\"\n",
        );
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(program, mode).expect("ours");
        assert_eq!(
            run_word(word, &["a", "b"]).stdout,
            "program 1 a b\n",
            "{word}"
        );
    }
    for word in ["proxy", "ctl"] {
        user.write(&format!("bin/{word}"), "#!/bin/sh\necho program\n");
        assert!(!run_word(word, &["a"]).shows("program\n"), "{word}");
    }
}
