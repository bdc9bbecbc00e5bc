//! Switches that take protections away: each does what it says, says so, and no more.

mod harness;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use harness::{Scratch, Srt, canary, outside};
use sandbox_runtime as _;
use serde_json::{Value, json};

/// Answers connections with `ok` until the test ends; returns the port.
fn serve() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            drop(stream.read(&mut [0; 1024]));
            drop(stream.write_all(b"ok\n"));
        }
    });
    port
}

fn weakenings(events: &Path) -> Vec<String> {
    let text = fs::read_to_string(events).expect("events are text");
    let events = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let weakenings = events.filter(|event| event["kind"] == "weakening");
    weakenings
        .map(|event| event["code"].as_str().expect("a code").to_owned())
        .collect()
}

#[test]
fn an_open_network_is_that_of_the_host_and_reported() {
    let scratch = Scratch::new("open");
    let port = serve();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo hi >&3 && cat <&3");
    let words = ["bash", "-c", &script];
    let closed = Srt::new(&scratch).run(&words).fails();
    assert!(!closed.shows("ok\n"));

    let events = scratch.path("events");
    let open = || Srt::new(&scratch).set("network.mode", json!("open"));
    let ran = open().events(&events).run(&words).succeeds();
    assert_eq!(ran.stdout, "ok\n");
    assert!(
        ran.stderr
            .contains("`network.mode` shares the host's network")
    );
    assert_eq!(weakenings(&events), ["weakening.network.open"]);

    let proxies = open().sh("env | grep -ci _proxy=; true").succeeds();
    assert_eq!(proxies.stdout, "0\n");
}

#[test]
fn hosts_that_need_not_match_are_reported() {
    let scratch = Scratch::new("hostmatch");
    let run = |value: bool| {
        let events = scratch.path(&format!("events-{value}"));
        let srt = Srt::new(&scratch).set("network.requireHostMatch", json!(value));
        let ran = srt.events(&events).run(&["true"]).succeeds();
        (ran.stderr, weakenings(&events))
    };
    assert_eq!(run(true), (String::new(), Vec::new()));
    let (said, recorded) = run(false);
    assert!(said.contains("`network.requireHostMatch` lets"), "{said}");
    assert_eq!(recorded, ["weakening.network.hostmatch"]);
}

#[test]
fn on_an_open_network_no_socket_of_the_host_is_in_reach() {
    let scratch = Scratch::new("open-unix");
    let path = scratch.path("agent.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("the name is free");
    listener.set_nonblocking(true).expect("it is a socket");
    let act = format!(
        "import socket; s=socket.socket(socket.AF_UNIX); s.connect({:?})",
        path.display().to_string()
    );
    outside(&format!("/usr/bin/python3 -c '{act}'")).succeeds();
    assert!(listener.accept().is_ok());

    let open = || Srt::new(&scratch).set("network.mode", json!("open"));
    open().run(&["/usr/bin/python3", "-c", &act]).fails();
    assert!(listener.accept().is_err());
    let pair = "import socket; a,b=socket.socketpair(); a.send(b'x'); assert b.recv(1)==b'x'";
    open().run(&["/usr/bin/python3", "-c", pair]).succeeds();
    open()
        .set("network.allowUnixSockets", json!([path]))
        .run(&["true"])
        .is_refused("cannot be granted while `network.mode` is \"open\"");
}

#[test]
fn no_rules_for_files_still_keep_the_settings_and_the_kernels_trees() {
    let scratch = Scratch::new("disabled");
    let secret = scratch.file("secret", canary());
    let act =
        "cat secret; echo new >made; echo {} >settings.json; echo x >/proc/sys/kernel/core_pattern";
    let settings = scratch.path("settings.json");
    let run = |text: &str| {
        fs::write(&settings, text).expect("ours");
        let mut srt = std::process::Command::new(env!("CARGO_BIN_EXE_srt"));
        srt.current_dir(scratch.path(".")).arg("-s").arg(&settings);
        harness::run(srt.args(["--", "sh", "-c", act]))
    };
    let hidden = r#"{"filesystem":{"denyRead":["secret"]}}"#;
    let canary = fs::read_to_string(&secret).expect("ours");
    assert!(!run(hidden).shows(&canary));
    assert!(!scratch.path("made").exists());

    let disabled = r#"{"filesystem":{"disabled":true,"denyRead":["secret"]}}"#;
    let ran = run(disabled);
    assert!(ran.shows(&canary));
    assert!(ran.stderr.contains("`filesystem.disabled` switches"));
    assert!(scratch.path("made").exists());
    assert_eq!(fs::read_to_string(&settings).expect("ours"), disabled);
    assert!(ran.stderr.contains("core_pattern"));
}

#[test]
fn credentials_of_mode_deny_are_out_of_reach_whatever_shows_them() {
    let scratch = Scratch::new("credentials");
    let canary = canary();
    scratch.file("cwd/keys/deep/key", &canary);
    let script = "cat keys/deep/key; echo token=$TOKEN";
    let start = || {
        Srt::new(&scratch)
            .env("TOKEN", &canary)
            .allow_read("keys/deep")
            .allow_write("keys/deep")
    };
    assert_eq!(
        start().sh(script).stdout,
        format!("{canary}token={canary}\n")
    );
    let file = json!([{ "path": "keys", "mode": "deny" }]);
    let variable = json!([{ "name": "TOKEN", "mode": "deny" }]);
    let ran = start()
        .set("credentials.files", file)
        .set("credentials.envVars", variable)
        .sh(script);
    assert!(!ran.shows(&canary), "{}", ran.stdout);
    assert_eq!(ran.stdout, "token=\n");
}
