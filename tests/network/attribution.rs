//! Each event names the process that asked.

use std::fs;

use serde_json::Value;

use super::world::{World, in_a_world};

/// Runs a script and returns the events about the network, or about names.
fn events_of(world: &World, script: &str) -> Vec<Value> {
    let events = world.scratch.path("attributed");
    drop(fs::remove_file(&events));
    world.srt(&["app.test"], &[]).events(&events).sh(script);
    let text = fs::read_to_string(&events).expect("srt made it");
    let events = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("it is JSON"));
    events
        .filter(|event: &Value| event["kind"] == "net" || event["kind"] == "dns")
        .collect()
}

#[test]
fn every_way_in_names_program_and_first_argument() {
    in_a_world(
        "attribution::every_way_in_names_program_and_first_argument",
        |world| {
            let table = [
                ("curl -sS -m 5 --noproxy '' http://evil.test/", "net", "-sS"),
                (
                    "curl -sS -m 5 --noproxy '' http://app.test:8080/",
                    "net",
                    "-sS",
                ),
                (
                    "curl -s -m 5 --noproxy '' -p http://evil.test/",
                    "net",
                    "-s",
                ),
                (
                    "curl -s -m 5 --noproxy '' -x $FTP_PROXY http://evil.test/",
                    "net",
                    "-s",
                ),
                ("env -i curl -s -m 5 http://192.0.2.11/", "net", "-s"),
                (
                    "env -i curl -s -m 5 'http://[2001:db8:2::11]/'",
                    "net",
                    "-s",
                ),
                ("env -i curl -s -m 5 http://evil.test/", "dns", "-s"),
            ];
            for (script, kind, arg1) in table {
                let events = events_of(world, &format!("{script} >/dev/null 2>&1; echo $!"));
                assert_eq!(events.len(), 1, "{script}: {events:?}");
                let event = &events[0];
                assert_eq!(event["kind"], kind, "{script}: {event}");
                let process = &event["process"];
                assert_eq!(process["exe"], "/usr/bin/curl", "{script}: {event}");
                assert_eq!(process["arg1"], arg1, "{script}: {event}");
            }
        },
    );
}

#[test]
fn the_process_is_named_as_the_sandbox_counts_and_without_secrets() {
    in_a_world(
        "attribution::the_process_is_named_as_the_sandbox_counts_and_without_secrets",
        |world| {
            let script = "python3 -c 'import os, socket, sys
print(os.getpid(), file=open(\"pid\", \"w\"))
try: socket.create_connection((\"192.0.2.11\", 80), 3).recv(1)
except OSError: pass' --token=hunter2; exit 0";
            let events = world.scratch.path("attributed");
            drop(fs::remove_file(&events));
            let place = world.scratch.path("");
            let srt = world.srt(&[], &[]).events(&events).allow_write(&place);
            srt.current_dir(&place).sh(script);
            let text = fs::read_to_string(&events).expect("srt made it");
            let event = text.lines().find(|line| line.contains("192.0.2.11"));
            let event: Value = serde_json::from_str(event.expect("it is recorded")).expect("JSON");
            let pid = fs::read_to_string(place.join("pid")).expect("the script wrote it");
            assert_eq!(event["process"]["pid"].to_string(), pid.trim());
            assert_eq!(event["process"]["arg1"], "-c");
            let events = events_of(world, "curl --user=a:hunter2 -sS http://evil.test/");
            assert!(!format!("{events:?}").contains("hunter2"), "{events:?}");
        },
    );
}
