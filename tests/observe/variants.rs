//! Where there is no broker otherwise, where nobody records, and a run inside a run.

use serde_json::json;

use crate::harness::{Scratch, Srt};
use crate::{events, inside, of_kind, told, tree};

#[test]
fn where_nobody_records_nothing_more_is_asked_of_the_kernel() {
    let scratch = Scratch::new("plan");
    let file = scratch.path("events");
    let path = file.to_str().expect("UTF-8");
    let plan = |flags: &[&str]| {
        let srt = Srt::new(&scratch).flags(&["--dry-run"]).flags(flags);
        srt.run(&["true"]).succeeds().stdout
    };
    let filters = |plan: &str| -> Vec<String> {
        let lines = plan
            .lines()
            .filter_map(|line| line.strip_prefix("seccomp: "));
        let names = lines.filter_map(|line| line.split(',').next());
        names.map(str::to_owned).collect()
    };
    let unobserved = filters(&plan(&[]));
    assert!(
        unobserved.contains(&"performed".to_owned()),
        "{unobserved:?}"
    );
    assert!(unobserved.contains(&"refuse".to_owned()), "{unobserved:?}");
    let expected = |name: &str| -> Vec<String> {
        let renamed = unobserved.iter().map(|filter| match filter.as_str() {
            "performed" => name.to_owned(),
            "refuse" => "refuse-seen".to_owned(),
            other => other.to_owned(),
        });
        renamed.collect()
    };
    let writes = filters(&plan(&["--events", path]));
    assert_eq!(writes, expected("performed-writes"));
    assert_eq!(filters(&plan(&["--monitor"])), expected("performed-all"));
    assert!(!file.exists(), "a dry run writes no event");
}

#[test]
fn denials_are_told_of_where_no_connection_is_performed() {
    let scratch = Scratch::new("open");
    for (key, value) in [
        ("network.allowAllUnixSockets", json!(true)),
        ("network.mode", json!("open")),
    ] {
        let tree = tree(&scratch, key);
        let srt = || {
            Srt::new(&scratch)
                .set(key, value.clone())
                .allow_write(tree.join("w"))
        };
        let file = scratch.path(&format!("events-{key}"));
        let ran = inside(srt().events(&file), &tree, &["mkdir", "fine-write"]).succeeds();
        assert_eq!(ran.stdout, "mkdir errno 30\nfine-write done\n", "{key}");
        let all = events(&file);
        let targets: Vec<_> = told(&all)
            .into_iter()
            .map(|(_, target, _)| target)
            .collect();
        assert_eq!(
            targets,
            [tree.join("ro/new").display().to_string()],
            "{key}"
        );
        // A socket to another program connects as it did.
        let script = "import socket; a = socket.socket(2, 1); a.bind(('127.0.0.1', 0)); \
                      a.listen(); socket.create_connection(a.getsockname())";
        let file = scratch.path(&format!("again-{key}"));
        srt()
            .events(&file)
            .run(&["python3", "-ISc", script])
            .succeeds();
    }
}

#[test]
fn a_run_inside_a_run_says_once_that_it_sees_no_denial_of_files() {
    let scratch = Scratch::new("inner");
    let tree = tree(&scratch, "tree");
    let (outer, inner) = (scratch.path("events"), tree.join("w/inner"));
    let program = env!("CARGO_BIN_EXE_srt");
    let settings = scratch.file("inner.json", r#"{"nested": "inner"}"#);
    let script = format!(
        "{program} -s {} --events {} mkdir ro/new",
        settings.display(),
        inner.display()
    );
    let srt = Srt::new(&scratch)
        .allow_write(tree.join("w"))
        .events(&outer);
    let ran = srt.current_dir(&tree).sh(&script).fails();
    let said = ran
        .stderr
        .matches("denials of files are not observed")
        .count();
    assert_eq!(said, 1, "{}", ran.stderr);
    assert_eq!(told(&events(&inner)), []);
    let path = tree.join("ro/new").display().to_string();
    let found = of_kind(&events(&outer), "file");
    assert!(
        found.iter().any(|event| event["target"] == path.as_str()),
        "{found:?}"
    );
}

#[test]
fn a_root_of_the_commands_own_is_where_its_paths_start() {
    let scratch = Scratch::new("root");
    let tree = tree(&scratch, "tree");
    let file = scratch.path("events");
    let script = "
import os, sys
os.chroot(sys.argv[1]); os.chdir('/')
try: os.mkdir('/ro/new')
except OSError as error: print(error.errno)
os.mkdir('/w/new')
";
    let root = tree.to_str().expect("UTF-8");
    let words = ["unshare", "-r", "python3", "-ISc", script, root];
    let srt = Srt::new(&scratch).allow_write(tree.join("w")).events(&file);
    let nested = srt.top("allowNestedUserNamespaces", json!("userns"));
    let ran = nested.run(&words).succeeds();
    assert_eq!(ran.stdout, "30\n");
    let path = tree.join("ro/new").display().to_string();
    let expected = ("mkdir".to_owned(), path, "file.write.unlisted".to_owned());
    assert_eq!(told(&events(&file)), [expected]);
}
