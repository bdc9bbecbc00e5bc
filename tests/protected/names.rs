//! Every name of the table, at several depths, as a file and as a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::json;

use super::harness::{Scratch, Srt};
use super::{change, names, snapshot};

/// Below the root: at it, nested, and deeper than any search that counts levels would go.
const DEPTHS: [&str; 3] = [".", "nested", "1/2/3/4/5/6/7/8/9/10/11"];

/// Makes every name at every depth, as files or as directories with a file.
fn make(scratch: &Scratch, root: &str, names: &[String], as_directories: bool) -> Vec<PathBuf> {
    let places = DEPTHS
        .iter()
        .flat_map(|depth| names.iter().map(move |name| (depth, name)));
    let made = places.map(|(depth, name)| match as_directories {
        true => {
            scratch.file(&format!("{root}/{depth}/{name}/file"), "kept");
            scratch.path(&format!("{root}/{depth}/{name}"))
        }
        false => scratch.file(&format!("{root}/{depth}/{name}"), "kept"),
    });
    made.collect()
}

#[test]
fn every_name_stays_as_it_is_at_any_depth_and_is_opened_by_name() {
    for as_directories in [false, true] {
        let scratch = Scratch::new("every-name");
        let names = names("anywhere");
        assert!(names.len() > 100);
        let paths = make(&scratch, "w", &names, as_directories);
        let root = scratch.path("w");
        // Nothing tells the search what to leave out.
        for file in [".ignore", ".gitignore", ".rgignore"] {
            scratch.file(&format!("w/{file}"), "*\n");
        }
        let before = snapshot(&root);
        for cwd in [root.join(DEPTHS[2]), scratch.dir("elsewhere")] {
            let srt = Srt::new(&scratch).allow_write(&root).current_dir(cwd);
            change(&scratch, srt, &paths).succeeds();
            assert_eq!(snapshot(&root), before);
        }

        let open = Srt::new(&scratch).allow_write(&root);
        let open = open.set("filesystem.allowProtected", json!(names));
        change(&scratch, open, &paths).succeeds();
        let after = snapshot(&root);
        let kept: Vec<_> = paths
            .iter()
            .filter(|path| after.get(*path) == before.get(*path))
            .collect();
        assert!(kept.is_empty(), "nothing would change {kept:?} anyhow");
    }
}

#[test]
fn one_name_opens_no_other() {
    let scratch = Scratch::new("one-name");
    let names = [".envrc", ".vscode", ".claude/commands"].map(str::to_owned);
    let paths = make(&scratch, "w", &names, false);
    let root = scratch.path("w");
    let before = snapshot(&root);
    let open = Srt::new(&scratch)
        .allow_write(&root)
        .with("filesystem.allowProtected", ".vscode");
    change(&scratch, open, &paths).succeeds();
    let after = snapshot(&root);
    for path in &paths {
        let same = after.get(path) == before.get(path);
        assert_eq!(same, !path.ends_with(".vscode"), "{}", path.display());
    }
}

#[test]
fn names_below_a_home_stay_as_they_are_when_all_of_it_is_granted() {
    let scratch = Scratch::new("home-names");
    let names = names("below");
    let below = names.iter().filter_map(|name| name.strip_prefix("~/"));
    let paths: Vec<_> = below
        .map(|name| scratch.file(&format!("home/{name}/file"), "kept"))
        .collect();
    assert!(paths.len() > 30);
    let shells = [
        ".bashrc",
        ".profile",
        ".zshenv",
        ".gitconfig",
        ".config/fish/config.fish",
    ];
    let shells = shells.map(|name| scratch.file(&format!("home/{name}"), "kept"));
    let paths = [&paths[..], &shells[..]].concat();
    // Made before a run where a command could make them; docs/denials.md says why.
    for own in [".config/srt", ".local/state/srt"] {
        scratch.dir(&format!("home/{own}"));
    }
    let before = snapshot(&scratch.path("home"));
    let project = scratch.dir("elsewhere");
    let granted = || {
        Srt::new(&scratch)
            .allow_write("~")
            .set("filesystem.protectSecrets", json!(false))
    };
    change(&scratch, granted().current_dir(&project), &paths).succeeds();
    assert_eq!(snapshot(&scratch.path("home")), before);

    let all = [names, super::names("anywhere")].concat();
    let open = granted().set("filesystem.allowProtected", json!(all));
    change(&scratch, open, &paths).succeeds();
    let after = snapshot(&scratch.path("home"));
    assert!(paths.iter().all(|path| after.get(path) != before.get(path)));
}

#[test]
fn what_a_protected_link_leads_to_stays_as_it_is() {
    let scratch = Scratch::new("linked-names");
    let root = scratch.dir("w");
    let names: Vec<_> = names("anywhere")
        .into_iter()
        .filter(|name| !name.contains('/'))
        .collect();
    let mut targets = Vec::new();
    for (at, name) in names.iter().enumerate() {
        targets.push(scratch.file(&format!("w/store/{at}"), "kept"));
        symlink(format!("store/{at}"), root.join(name)).expect("the name is free");
    }
    let before = snapshot(&root);
    let links: Vec<_> = names.iter().map(|name| root.join(name)).collect();
    let srt = Srt::new(&scratch).allow_write(&root);
    change(&scratch, srt, &targets).succeeds();
    assert_eq!(snapshot(&root), before);
    let open = Srt::new(&scratch)
        .allow_write(&root)
        .set("filesystem.allowProtected", json!(names));
    change(&scratch, open, &links).succeeds();
    assert!(snapshot(&root) != before);
}

#[test]
fn what_links_in_a_protected_directory_lead_to_stays_as_it_is() {
    let scratch = Scratch::new("linked-inside");
    let script = scratch.file("w/scripts/check.sh", "kept");
    scratch.file("w/.git/HEAD", "ref: refs/heads/x\n");
    for dir in ["w/.git/hooks", "w/.husky"] {
        let dir = scratch.dir(dir);
        symlink(scratch.path("w/scripts/check.sh"), dir.join("pre-commit"))
            .expect("the name is free");
    }
    let granted = || Srt::new(&scratch).allow_write(scratch.path("w"));
    let part = Srt::new(&scratch).allow_write(scratch.path("w/scripts"));
    for srt in [granted(), part] {
        change(&scratch, srt, std::slice::from_ref(&script)).succeeds();
        assert_eq!(fs::read_to_string(&script).ok().as_deref(), Some("kept"));
    }
    let open = granted().set("filesystem.allowProtected", json!([".git/hooks", ".husky"]));
    change(&scratch, open, std::slice::from_ref(&script)).succeeds();
    assert!(fs::read_to_string(&script).ok().as_deref() != Some("kept"));
}

#[test]
fn a_program_of_a_project_is_built_although_a_directory_of_programs_links_to_it() {
    let scratch = Scratch::new("linked-program");
    let program = scratch.file("w/target/tool", "old");
    let bin = scratch.dir("home/.local/bin");
    symlink(&program, bin.join("tool")).expect("the name is free");
    let script = format!(
        "cd {} && echo new >tool.new && mv tool.new tool",
        scratch.path("w/target").display()
    );
    let srt = Srt::new(&scratch).allow_write(scratch.path("w"));
    srt.sh(&script).succeeds();
    assert_eq!(fs::read_to_string(&program).ok().as_deref(), Some("new\n"));
}

#[test]
fn a_protected_link_to_all_that_is_granted_is_told_of() {
    let scratch = Scratch::new("linked-root");
    symlink(".", scratch.dir("w").join(".vscode")).expect("the name is free");
    let srt = Srt::new(&scratch).allow_write(scratch.path("w"));
    let ran = srt
        .sh(&format!("echo x >{}/new", scratch.path("w").display()))
        .fails();
    assert!(
        ran.stderr
            .contains("filesystem.allowProtected `.vscode` opens it"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_name_in_capital_letters_or_with_what_is_not_seen_is_the_same_name() {
    let scratch = Scratch::new("case");
    let names = [
        ".GIT/hooks/pre-commit",
        ".Mcp.json",
        ".VSCode/tasks.json",
        ".mcp\u{200b}.json",
        ".gitcon\u{fb01}g",
        ".ba\u{17f}hrc",
    ];
    let paths: Vec<_> = names
        .iter()
        .map(|name| scratch.file(&format!("w/{name}"), "kept"))
        .collect();
    scratch.file("w/.GIT/HEAD", "ref: refs/heads/x\n");
    let before = snapshot(&scratch.path("w"));
    let srt = Srt::new(&scratch).allow_write(scratch.path("w"));
    change(&scratch, srt, &paths).succeeds();
    assert_eq!(snapshot(&scratch.path("w")), before);

    let other = scratch.file("w/.bashrc2", "kept");
    let srt = Srt::new(&scratch).allow_write(scratch.path("w"));
    change(&scratch, srt, std::slice::from_ref(&other)).succeeds();
    assert!(
        fs::read_to_string(other).is_ok_and(|text| text.contains("planted"))
            || !scratch.path("w/.bashrc2").exists()
    );
}
