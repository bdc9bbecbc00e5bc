//! Both programs run for real: their proxies must give the verdicts that are compared elsewhere.
//!
//! Each run has a network of its own with nothing in it, so that no request gets anywhere.

use std::process::Command;

use serde_json::{Value, json};

use crate::draw::Draw;
use crate::harness::{Scratch, is_root, run, skip};
use crate::hosts::{self, Lists};
use crate::ours;
use crate::package::{patiently, reference};

/// Asks the proxy for each `host:port` and prints what it answers: 400 and 403 are refusals.
const ASK: &str = r#"
import base64, os, socket, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTP_PROXY"])
user = urllib.parse.unquote(f"{proxy.username}:{proxy.password}")
token = base64.b64encode(user.encode()).decode()
for target in sys.argv[1:]:
    link = socket.create_connection((proxy.hostname, proxy.port), 10)
    link.settimeout(20)
    request = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
    link.sendall(f"{request}Proxy-Authorization: Basic {token}\r\n\r\n".encode())
    print(link.makefile().readline().split()[1])
"#;

/// Entries that both programs take.
const ENTRIES: [&str; 10] = [
    "a.test",
    "*.a.test",
    "b.a.test:443",
    "*.example.test:80",
    "app.example.test",
    "localhost",
    "192.0.2.1",
    "192.0.2.1:443",
    "[2001:db8::1]",
    "10.0.0.5:80",
];

#[test]
fn the_proxies_give_the_verdicts_that_are_compared() {
    let Some(package) = reference() else {
        return;
    };
    let scratch = Scratch::new("reference-proxies");
    let mut draw = Draw::start("proxies");
    let entries = ENTRIES.map(str::to_owned);
    let mut cases: Vec<Lists> = (0..6).map(|_| hosts::draw(&mut draw, &entries)).collect();
    for lists in &mut cases {
        let sendable = |host: &str| host.bytes().all(|byte| byte.is_ascii_graphic());
        lists.requests.retain(|(host, _)| sendable(host));
    }
    let asked: Vec<Value> = cases.iter().map(Lists::asked_as_written).collect();
    let theirs = package.decide(&json!({ "allowed": asked }))["allowed"].take();

    for (number, lists) in cases.iter().enumerate() {
        let settings = ours::network(&lists.allowed, &lists.denied);
        let policy = ours::policy(&scratch, &settings).expect("both take the entries");
        let file = scratch.file("settings.json", settings.to_string());
        let ask = |mut command: Command| {
            command.arg("--settings").arg(&file);
            answers(&scratch, &command, lists)
        };
        let ran = match patiently(|| ask(package.srt())) {
            Ok(ran) => ran,
            Err(said) => return skip(&format!("the reference does not run here: {said}")),
        };
        let real = ask(Command::new(env!("CARGO_BIN_EXE_srt"))).expect("srt runs here");
        for (at, (host, port)) in lists.requests.iter().enumerate() {
            let at_stake = format!("{host}:{port} with {lists:?}");
            let ours = ours::allows(&policy, host, *port);
            assert_eq!(real[at], ours, "ours: {at_stake}");
            // What is no target never comes to the filter that was asked.
            if ours::target(host, *port).is_some() {
                assert_eq!(ran[at], theirs[number][at] == true, "theirs: {at_stake}");
            }
        }
    }
}

/// Runs `command` with a client that asks for every request of `lists`.
fn answers(scratch: &Scratch, command: &Command, lists: &Lists) -> Result<Vec<bool>, String> {
    let flags = if is_root() { "-n" } else { "-rn" };
    let mut alone = Command::new("unshare");
    alone
        .args([flags, "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(command.get_args())
        .args(["--", "python3", "-c", ASK])
        .args(
            lists
                .requests
                .iter()
                .map(|(host, port)| format!("{host}:{port}")),
        )
        .current_dir(scratch.dir("cwd"))
        .env("HOME", scratch.dir("home"))
        .env_remove("TMPDIR");
    let ran = run(&mut alone);
    let allowed: Vec<bool> = ran
        .stdout
        .lines()
        .map(|status| status != "403" && status != "400")
        .collect();
    match allowed.len() == lists.requests.len() {
        true => Ok(allowed),
        false => Err(ran.stderr),
    }
}
