//! Refused reads and programs that start, which `--monitor` tells of besides.

use std::fs;

use serde_json::Value;

use crate::harness::{Scratch, Srt, canary};
use crate::{events, of_kind, told};

#[test]
fn a_refused_read_is_told_and_what_the_event_says_shows_the_file() {
    let scratch = Scratch::new("reads");
    let (canary, secret) = (canary(), canary());
    let hidden = scratch.dir("hidden/below");
    fs::write(hidden.join("file"), &canary).expect("just made");
    let key = scratch.file("home/.ssh/id_rsa", &secret);
    let srt = || Srt::new(&scratch).deny_read(scratch.path("hidden"));
    let path = hidden.join("file");
    let script = format!(
        "cat {}; cat {}; cat {}/missing; ls {}; cd /; cat .{}",
        path.display(),
        key.display(),
        hidden.display(),
        scratch.path("hidden").display(),
        path.display()
    );
    let control = crate::harness::outside(&script);
    assert!(control.shows(&canary) && control.shows(&secret));

    let file = scratch.path("writes");
    srt().events(&file).sh(&script).fails();
    assert_eq!(told(&events(&file)), [], "without --monitor");

    let file = scratch.path("events");
    let ran = srt()
        .flags(&["--monitor"])
        .events(&file)
        .sh(&script)
        .fails();
    assert!(!ran.shows(&canary) && !ran.shows(&secret));
    let read = |path: &std::path::Path, code: &str| {
        (
            "read".to_owned(),
            path.display().to_string(),
            code.to_owned(),
        )
    };
    let denied = "file.read.denied";
    let expected = [
        read(&path, denied),
        read(&key, "file.read.secret"),
        read(&scratch.path("hidden"), denied),
        read(&path, denied),
    ];
    assert_eq!(told(&events(&file)), expected);
    let text = fs::read_to_string(&file).expect("it is there");
    assert!(!text.contains(&canary) && !text.contains(&secret));
    for event in of_kind(&events(&file), "file") {
        let suggest = &event["suggest"];
        assert_eq!(suggest["key"], "filesystem.allowRead", "{event}");
        let add = suggest["add"].as_str().expect("there is one");
        let shown = srt().allow_read(add).sh(&script);
        let is_key = event["code"] == "file.read.secret";
        assert!(shown.shows(if is_key { &secret } else { &canary }), "{add}");
    }
}

#[test]
fn programs_that_start_are_told_without_their_arguments() {
    let scratch = Scratch::new("programs");
    let file = scratch.path("events");
    let secret = canary();
    let script = scratch.file("script", "#!/bin/sh\nexec /bin/echo through\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).expect("it is ours");
    let words = format!(
        "true & /bin/echo --password={secret} {secret}; {}; /nosuch; nosuch; wait",
        script.display()
    );
    let srt = || Srt::new(&scratch);
    let plain = scratch.path("plain");
    srt().events(&plain).sh(&words).succeeds();
    assert_eq!(of_kind(&events(&plain), "exec"), [] as [Value; 0]);

    srt()
        .flags(&["--monitor"])
        .events(&file)
        .sh(&words)
        .succeeds();
    let programs = of_kind(&events(&file), "exec");
    let mut targets: Vec<_> = programs
        .iter()
        .map(|event| event["target"].as_str().expect("a path"))
        .map(|target| target.rsplit('/').next().unwrap_or_default())
        .collect();
    // The shell's own name differs: dash, bash.
    assert!(targets.remove(0).ends_with("sh"));
    targets.sort_unstable();
    assert_eq!(targets, ["echo", "echo", "script"]);
    for event in &programs {
        assert_eq!(event["verdict"], Value::Null, "{event}");
        assert_eq!(event["process"]["exe"], event["target"], "{event}");
        assert!(event["process"]["pid"].as_u64() > Some(1), "{event}");
    }
    let text = fs::read_to_string(&file).expect("it is there");
    assert!(!text.contains(&secret));
    assert!(
        programs
            .iter()
            .any(|event| event["process"]["arg1"] == "--password=…")
    );
}
