//! Every way to change a file, as it is told of, and what the event says would allow it.

use std::fs;

use serde_json::Value;

use crate::harness::{Scratch, Srt, is_root, run, skip};
use crate::{events, inside, of_kind, outside, told, tree};

/// An act, what is told of it, on which path, and what is to be granted.
type Row = (&'static str, &'static str, &'static str, &'static str);

const TABLE: [Row; 40] = [
    ("open", "open", "ro/file", "ro/file"),
    ("open-update", "open", "ro/file", "ro/file"),
    ("open-trunc", "open", "ro/file", "ro/file"),
    ("open-link", "open", "ro/file", "ro/file"),
    ("open-dirlink", "open", "ro/file", "ro/file"),
    ("open-at", "open", "ro/file", "ro/file"),
    ("open-create", "open", "ro/file", "ro/file"),
    ("open-absolute", "open", "ro/file", "ro/file"),
    ("openat2", "open", "ro/file", "ro/file"),
    ("openat2-create", "create", "ro/new", "ro"),
    ("creat", "create", "ro/new", "ro"),
    ("legacy-open", "create", "ro/new", "ro"),
    ("legacy-mkdir", "mkdir", "ro/new", "ro"),
    ("create", "create", "ro/new", "ro"),
    ("create-read", "create", "ro/new", "ro"),
    ("create-new", "create", "ro/new", "ro"),
    ("create-dangling", "create", "ro/missing", "ro"),
    ("create-unnamed", "create", "ro", "ro"),
    ("mkdir", "mkdir", "ro/new", "ro"),
    ("mkdir-at", "mkdir", "ro/new", "ro"),
    ("mkdir-dots", "mkdir", "ro/new", "ro"),
    ("mkdir-slash", "mkdir", "ro/new", "ro"),
    ("mkdir-thread", "mkdir", "ro/dir/new", "ro/dir"),
    ("mkdir-page", "mkdir", "ro/new", "ro"),
    ("mkdir-pages", "mkdir", "ro/new", "ro"),
    ("mkdir-garbage", "mkdir", "ro/new", "ro"),
    ("mknod", "mknod", "ro/new", "ro"),
    ("unlink", "unlink", "ro/file", "ro"),
    ("unlink-at", "unlink", "ro/file", "ro"),
    ("unlink-link", "unlink", "ro/link", "ro"),
    ("rmdir", "unlink", "ro/empty", "ro"),
    ("link", "link", "ro/new", "ro"),
    ("symlink", "symlink", "ro/new", "ro"),
    ("truncate", "truncate", "ro/file", "ro/file"),
    ("chmod", "chmod", "ro/file", "ro/file"),
    ("chown", "chown", "ro/file", "ro/file"),
    ("chown-link", "chown", "ro/link", "ro"),
    ("chown-empty", "chown", "ro/file", "ro/file"),
    ("utimes", "utimes", "ro/file", "ro/file"),
    ("setxattr", "setxattr", "ro/file", "ro/file"),
];

/// Tells whether an act has nothing to show here, and says why.
fn is_skipped(act: &str) -> bool {
    let needs_x86 = act == "creat" || act.starts_with("legacy");
    if needs_x86 && !cfg!(target_arch = "x86_64") {
        skip(&format!("{act}: no such call on this architecture"));
        return true;
    }
    if act.starts_with("openat2") && is_root() {
        skip(&format!("{act}: root has no openat2"));
        return true;
    }
    false
}

#[test]
fn each_way_to_write_is_told_and_what_the_event_says_makes_it_succeed() {
    let scratch = Scratch::new("ways");
    for (number, (act, op, target, grant)) in TABLE.into_iter().enumerate() {
        if is_skipped(act) {
            continue;
        }
        let done = format!("{act} done\n");
        let free = tree(&scratch, &format!("free-{number}"));
        assert_eq!(outside(&free, &[act]).stdout, done, "the control");

        let tree = tree(&scratch, &format!("tree-{number}"));
        let file = scratch.path(&format!("events-{number}"));
        let srt = || Srt::new(&scratch).allow_write(tree.join("w"));
        let ran = inside(srt().events(&file), &tree, &[act]).succeeds();
        assert!(
            ran.shows("errno 30") || ran.shows("errno 13"),
            "{act}: {ran:?}"
        );
        let all = events(&file);
        let target = tree.join(target).display().to_string();
        let expected = (op.to_owned(), target, "file.write.unlisted".to_owned());
        assert_eq!(told(&all), [expected], "{act}");
        let event = &of_kind(&all, "file")[0];
        let said = (&event["verdict"], &event["predicted"], &event["rule"]);
        assert_eq!(
            said,
            (&"denied".into(), &true.into(), &Value::Null),
            "{act}"
        );
        let exe = event["process"]["exe"].as_str().unwrap_or_default();
        assert!(exe.contains("python3"), "{act}: {event}");
        assert_eq!(event["suggest"]["key"], "filesystem.allowWrite", "{act}");
        let add = event["suggest"]["add"].as_str().expect("there is one");
        assert_eq!(add, tree.join(grant).to_str().expect("UTF-8"), "{act}");

        let file = scratch.path(&format!("again-{number}"));
        let granted = srt().allow_write(add).events(&file);
        let ran = inside(granted, &tree, &[act]).succeeds();
        assert_eq!(ran.stdout, done, "{act} with {add}");
        assert_eq!(told(&events(&file)), [], "{act}");
    }
}

#[test]
fn both_ends_of_a_rename_are_told() {
    let scratch = Scratch::new("rename");
    for act in ["rename", "rename-over"] {
        let free = tree(&scratch, &format!("free-{act}"));
        assert_eq!(outside(&free, &[act]).stdout, format!("{act} done\n"));
        let tree = tree(&scratch, act);
        let file = scratch.path(&format!("events-{act}"));
        let srt = Srt::new(&scratch).allow_write(tree.join("w"));
        inside(srt.events(&file), &tree, &[act]).succeeds();
        let end = match act {
            "rename" => "ro/new",
            _ => "ro/dir/file",
        };
        let expected = ["ro/file", end].map(|path| {
            let path = tree.join(path).display().to_string();
            ("rename".to_owned(), path, "file.write.unlisted".to_owned())
        });
        assert_eq!(told(&events(&file)), expected, "{act}");
        let granted = Srt::new(&scratch).allow_write(tree.join("ro"));
        let ran = inside(granted, &tree, &[act]).succeeds();
        assert_eq!(ran.stdout, format!("{act} done\n"));
    }
}

#[test]
fn a_deny_and_a_protected_name_say_which_entry_and_how_to_open_it() {
    let scratch = Scratch::new("rules");
    let tree = tree(&scratch, "tree");
    fs::write(tree.join("ro/.bashrc"), "before").expect("just made");
    let file = scratch.path("events");
    let srt = || Srt::new(&scratch).allow_write(&tree);
    let script = "echo after > ro/file; echo after > ro/.bashrc";
    let denied = srt().deny_write(tree.join("ro/file")).events(&file);
    denied.current_dir(&tree).sh(script).fails();
    let all = events(&file);
    let files = of_kind(&all, "file");
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(files[0]["code"], "file.write.denied");
    assert_eq!(files[0]["rule"]["key"], "filesystem.denyWrite");
    let entry = tree.join("ro/file");
    assert_eq!(files[0]["rule"]["entry"], entry.to_str().expect("UTF-8"));
    assert_eq!(files[0]["suggest"]["remove"], files[0]["rule"]["entry"]);
    assert_eq!(files[1]["code"], "file.write.protected");
    assert_eq!(files[1]["suggest"]["key"], "filesystem.allowProtected");
    let name = files[1]["suggest"]["add"].as_str().expect("there is one");

    let file = scratch.path("again");
    let opened = srt().with("filesystem.allowProtected", name).events(&file);
    opened.current_dir(&tree).sh(script).succeeds();
    assert_eq!(told(&events(&file)), []);
    for name in ["ro/file", "ro/.bashrc"] {
        let content = fs::read_to_string(tree.join(name)).expect("it is there");
        assert_eq!(content, "after\n", "{name}");
    }
}

#[test]
fn what_comes_again_and_again_is_counted() {
    let scratch = Scratch::new("counted");
    let tree = tree(&scratch, "tree");
    let file = scratch.path("events");
    let srt = Srt::new(&scratch).allow_write(tree.join("w")).events(&file);
    inside(srt, &tree, &["many"]).succeeds();
    let files = of_kind(&events(&file), "file");
    let times = files
        .iter()
        .map(|event| event["count"].as_u64().unwrap_or(1));
    assert_eq!(times.sum::<u64>(), 1000);
    assert!(files.len() < 20, "{} events", files.len());
}

#[test]
fn threads_that_ask_at_once_lose_nothing_and_callers_may_be_killed() {
    let scratch = Scratch::new("flood");
    let tree = tree(&scratch, "tree");
    let file = scratch.path("events");
    let srt = Srt::new(&scratch).allow_write(tree.join("w")).events(&file);
    let ran = inside(srt, &tree, &["killed", "flood", "mkdir"]).succeeds();
    assert!(
        ran.shows("killed done") && ran.shows("flood done"),
        "{ran:?}"
    );
    let files = of_kind(&events(&file), "file");
    let of_flood = files.iter().filter(|event| {
        let target = event["target"].as_str().unwrap_or_default();
        let name = target.rsplit('/').next().unwrap_or_default();
        name.contains('-') && event["op"] == "mkdir"
    });
    let times = of_flood.map(|event| event["count"].as_u64().unwrap_or(1));
    assert_eq!(times.sum::<u64>(), 8 * 2000);
    let last = tree.join("ro/new").display().to_string();
    assert!(files.iter().any(|event| event["target"] == last.as_str()));
}

#[test]
fn a_write_that_modes_refuse_outside_too_is_no_denial() {
    let scratch = Scratch::new("modes");
    let file = scratch.path("events");
    let script = "echo x >> /etc/passwd";
    let outcome = run(std::process::Command::new("test").args(["-w", "/etc/passwd"]));
    Srt::new(&scratch).events(&file).sh(script).fails();
    let is_told = !told(&events(&file)).is_empty();
    assert_eq!(is_told, outcome.status == 0);
}
