//! `docs/events.schema.json`: every event of runs of many kinds is as it says.

#[path = "../../src/settings/json_schema/tests/validator.rs"]
mod validator;

use std::os::unix::net::UnixListener;
use std::process::Command;

use sandbox_runtime::audit::schema::json_schema;
use serde_json::{Value, json};

use super::events;
use super::harness::{Scratch, Srt, run};

const ACTS: &str = r"
import os, socket
def attempt(act):
    try: act()
    except OSError: pass
def get(request):
    with socket.create_connection(('127.0.0.1', 3128)) as s:
        s.sendall(request + b'\r\n\r\n'); s.recv(4096)
get(b'GET http://no.test/ HTTP/1.1')
get(b'GET http://denied.test/ HTTP/1.1')
get(b'CONNECT 10.1.2.3:443 HTTP/1.1')
get(b'CONNECT listed.test:1 HTTP/1.1')
get(b'GET http://u@x y/ HTTP/1.1')
attempt(lambda: socket.getaddrinfo('asked.test', 80))
attempt(lambda: socket.getaddrinfo('denied.test', 80))
attempt(lambda: socket.socket(socket.AF_UNIX).connect('host'))
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
s = socket.socket(type=socket.SOCK_DGRAM)
for _ in range(20): attempt(lambda: s.sendto(b'x', ('192.0.2.1', 9)))
attempt(lambda: open('written', 'w'))
attempt(lambda: os.mkdir('made'))
os.kill(os.getpid(), 9)
";

#[test]
fn every_event_is_as_the_schema_says() {
    let scratch = Scratch::new("shape");
    let file = scratch.path("events");
    let _host = UnixListener::bind(scratch.dir("cwd").join("host")).expect("ours");
    let srt = Srt::new(&scratch)
        .events(&file)
        .flags(&["--events-chain"])
        .allow_host("listed.test:1")
        .with("network.deniedDomains", "denied.test")
        .set("filesystem.protectSecrets", json!(false))
        .set("network.allowPrivateNetworks", json!(true));
    let ran = run(&mut srt.into_command(&["python3", "-c", ACTS]));
    assert_eq!(ran.status, 137, "{}", ran.stderr);
    let refused = Srt::new(&scratch).events(&file);
    run(&mut refused.top("nework", json!({})).into_command(&["true"])).is_refused("nework");
    let limited = Srt::new(&scratch).events(&file);
    run(&mut limited.into_command(&["sh", "-c", "exit 7"]));

    let (all, schema) = (events(&file), json_schema());
    for event in &all {
        let problem = validator::problem(&schema, event);
        assert_eq!(problem, None, "{event}");
        let code = event["code"].as_str().expect("text");
        let kind = event["kind"].as_str().expect("text");
        assert!(code.starts_with(&format!("{kind}.")), "{event}");
    }
    let counted = all.iter().any(|event| event["count"].as_u64() > Some(1));
    assert!(counted, "{all:#?}");
    let has = |code: &str| all.iter().any(|event| event["code"] == code);
    for code in [
        "lifecycle.run.start",
        "lifecycle.run.end",
        "lifecycle.run.refused",
        "net.host.unlisted",
        "net.host.denied",
        "net.upstream.failed",
        "net.request.malformed",
        "dns.name.unlisted",
        "dns.name.denied",
        "socket.path.unlisted",
        "socket.raw.refused",
        "socket.udp.refused",
        "file.write.unlisted",
        "weakening.filesystem.secrets",
        "weakening.network.private",
    ] {
        assert!(has(code), "{code} is not among {all:#?}");
    }
}

#[test]
fn what_is_no_event_is_found() {
    let schema = json_schema();
    let event = json!({
        "v": 1, "time": "2026-11-30T12:00:00.000001Z", "seq": 0, "run": "r", "kind": "net",
        "op": "connect", "target": null, "verdict": "denied", "code": "net.host.unlisted",
        "rule": null, "suggest": { "key": "k", "add": "a" }, "process": null,
    });
    assert_eq!(validator::problem(&schema, &event), None);
    let changes: [(&str, Value); 8] = [
        ("v", json!(2)),
        ("time", json!("2026-11-30 12:00")),
        ("seq", json!(-1)),
        ("kind", json!("nets")),
        ("verdict", json!("maybe")),
        ("code", json!("net.host.unknown")),
        ("suggest", json!({ "add": "a" })),
        ("extra", json!(1)),
    ];
    for (name, value) in changes {
        let mut event = event.clone();
        event[name] = value;
        assert!(validator::problem(&schema, &event).is_some(), "{name}");
    }
    let mut event = event;
    event.as_object_mut().expect("an object").remove("rule");
    assert!(validator::problem(&schema, &event).is_some());
}

#[test]
fn the_schema_is_printed_and_is_the_one_in_the_documents() {
    let mut srt = Command::new(env!("CARGO_BIN_EXE_srt"));
    let printed = run(srt.args(["ctl", "schema", "events"])).succeeds().stdout;
    let document = std::fs::read_to_string("docs/events.schema.json").expect("it is there");
    assert_eq!(printed, document);
}
