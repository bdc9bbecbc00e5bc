//! What is said of paths and hosts, held against what the host and the proxy see of a run.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use super::explain::world;
use super::harness::{Scratch, run};
use super::{explained, is_allowed, settings, srt, text};

#[test]
fn what_is_said_of_a_path_is_what_a_run_does() {
    let scratch = Scratch::new("paths");
    let world = world(&scratch);
    std::os::unix::fs::symlink("hidden/f", scratch.path("cwd/link")).expect("the name is free");
    let file = settings(&scratch, &world);
    let paths = [
        "open/f",
        "hidden/f",
        "hidden/shown/f",
        "w/f",
        "w/kept/f",
        "w/key",
        "link",
        "w/../open/f",
    ];
    let (mut allowed, mut denied) = (0, 0);
    for name in paths {
        let path = scratch.path("cwd").join(name);
        let target = format!("path:{}", text(&path));
        for act in ["read", "write"] {
            let mut words = vec!["-s", text(&file), &target];
            words.extend((act == "write").then_some("--write"));
            let said = is_allowed(&explained(&scratch, &words)[0]);
            let script = match act {
                "read" => r#"cat "$1""#,
                _ => r#"printf x >>"$1""#,
            };
            let words = ["-s", text(&file), "sh", "-c", script, "sh", text(&path)];
            let ran = run(&mut srt(&scratch, &words));
            assert_ne!(ran.status, 125, "{ran:?}");
            let now = fs::read_to_string(&path).expect("the host sees it");
            let done = match act {
                "read" => ran.stdout == now,
                _ => now.ends_with('x'),
            };
            fs::write(&path, "content").expect("the host may write");
            assert_eq!(said, done, "{act} {name}: {ran:?}");
            match done {
                true => allowed += 1,
                false => denied += 1,
            }
        }
    }
    assert!(allowed >= 5 && denied >= 5, "{allowed} {denied}");
}

#[test]
fn what_is_said_of_a_host_is_what_the_proxy_decides() {
    let scratch = Scratch::new("hosts");
    // Closed again, so that an allowed connection is refused by the host at once.
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = listener.local_addr().expect("it is bound").port();
    drop(listener);
    let file = settings(
        &scratch,
        &json!({ "network": {
            "allowedDomains": ["localhost", "127.0.0.0/8", "[64:ff9b::]/96"],
            "deniedDomains": ["127.0.0.3", "*.denied.example"],
        } }),
    );
    let hosts = [
        ("localhost", true),
        ("127.0.0.1", true),
        ("0x7f.1", true),
        ("127.0.0.3", false),
        // Denied by what a translator would make of it.
        ("[64:ff9b::7f00:3]", false),
        ("x.denied.example", false),
        ("denied.example", false),
        ("10.0.0.1", false),
    ];
    for (host, expected) in hosts {
        let target = format!("host:{host}:{port}");
        let said = &explained(&scratch, &["-s", text(&file), &target])[0];
        assert_eq!(is_allowed(said), expected, "{said}");
        let events = scratch.path("events.jsonl");
        drop(fs::remove_file(&events));
        let url = format!("http://{host}:{port}/");
        let mut words = vec!["-s", text(&file), "--events", text(&events)];
        words.extend([
            "curl",
            "-s",
            "--noproxy",
            "",
            "-x",
            "http://127.0.0.1:3128",
            &url,
        ]);
        let ran = run(&mut srt(&scratch, &words));
        let events = fs::read_to_string(&events).expect("the run wrote it");
        let mut events = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a line is an object"));
        let event = events.find(|event| event["kind"] == "net");
        let event = event.unwrap_or_else(|| panic!("{host} was not asked for: {ran:?}"));
        assert_eq!(event["verdict"] != "denied", expected, "{event}");
    }
}

#[test]
fn what_is_said_of_a_socket_is_what_a_run_does() {
    let scratch = Scratch::new("sockets");
    for dir in ["listed", "other", "hidden"] {
        scratch.dir(&format!("cwd/{dir}"));
    }
    let file = settings(
        &scratch,
        &json!({
            "network": { "allowUnixSockets": ["listed", "hidden"] },
            "filesystem": { "denyRead": ["hidden"] },
        }),
    );
    for (dir, expected) in [("listed", true), ("other", false), ("hidden", false)] {
        let path = scratch.path("cwd").join(dir).join("s");
        let listener = UnixListener::bind(&path).expect("the name is free");
        listener.set_nonblocking(true).expect("it is ours");
        let target = format!("socket:{}", text(&path));
        let said = &explained(&scratch, &["-s", text(&file), &target])[0];
        assert_eq!(is_allowed(said), expected, "{said}");

        let script = "import socket, sys\n\
                      socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
        let words = ["python3", "-c", script, text(&path)];
        connects_outside(&words, &listener);
        let words = [&["-s", text(&file)], words.as_slice()].concat();
        let ran = run(&mut srt(&scratch, &words));
        assert_ne!(ran.status, 125, "{ran:?}");
        assert_eq!(listener.accept().is_ok(), expected, "{dir}: {ran:?}");
    }
}

/// Shows that the program connects where nothing keeps it from that.
fn connects_outside(words: &[&str], listener: &UnixListener) {
    run(std::process::Command::new(words[0]).args(&words[1..])).succeeds();
    listener.accept().expect("the program connected");
}
