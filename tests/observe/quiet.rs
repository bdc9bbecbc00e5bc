//! What succeeds, or fails without any rule too, is told by no event.

use std::fs;

use crate::harness::{Scratch, Srt, run};
use crate::{ACTS, events, inside, outside, told, tree};

/// Names of the acts of the script that begin so.
fn acts(start: &str) -> Vec<&str> {
    let lines = ACTS
        .lines()
        .filter_map(|line| line.trim().strip_prefix('\''));
    let names = lines.filter_map(|line| line.split_once('\'').map(|(name, _)| name));
    let names: Vec<_> = names.filter(|name| name.starts_with(start)).collect();
    assert!(names.len() > 5, "the script was understood");
    names
}

#[test]
fn what_fails_outside_too_is_no_denial() {
    let scratch = Scratch::new("fails");
    let acts = acts("none-");
    let free = tree(&scratch, "free");
    let control = outside(&free, &acts).succeeds();
    assert!(!control.shows("done"), "{control:?}");
    let tree = tree(&scratch, "tree");
    let file = scratch.path("events");
    let srt = Srt::new(&scratch).allow_write(tree.join("w")).events(&file);
    let ran = inside(srt.flags(&["--monitor"]), &tree, &acts).succeeds();
    assert_eq!(ran.stdout.lines().count(), acts.len());
    assert!(!ran.shows("done"), "{ran:?}");
    assert_eq!(told(&events(&file)), []);
}

#[test]
fn what_succeeds_is_no_denial() {
    let scratch = Scratch::new("fine");
    for act in acts("fine-") {
        let tree = tree(&scratch, act);
        let file = scratch.path(&format!("events-{act}"));
        let srt = Srt::new(&scratch).allow_write(tree.join("w")).events(&file);
        let ran = inside(srt.flags(&["--monitor"]), &tree, &[act]).succeeds();
        assert_eq!(ran.stdout, format!("{act} done\n"));
        assert_eq!(told(&events(&file)), [], "{act}");
    }
}

#[test]
fn ordinary_work_that_succeeds_tells_nothing() {
    let scratch = Scratch::new("work");
    let work = scratch.dir("work");
    let file = scratch.path("events");
    let script = r#"
        set -e
        mkdir -p a/b/c; mkdir -p a/b/c; mkdir -p "$PWD/a/b"
        git -c init.defaultBranch=main init -q repo; cd repo
        git config user.name x; git config user.email x@x.test
        echo one > one; git add -A; git commit -qm one
        git mv one two; git commit -qm two; git gc -q; cd ..
        git clone -q repo clone; git -C clone log --oneline
        tar cf t.tar repo; mkdir t; tar xf t.tar -C t; cp -a t u; rm -rf t; mv u v
        mktemp; mktemp -d; ln -s v w; ln v/repo/two x; touch x; chmod 600 x
        python3 -c 'import tempfile; tempfile.TemporaryFile().write(b"x")'
    "#;
    let srt = Srt::new(&scratch).allow_write(&work).events(&file);
    srt.current_dir(&work).sh(script).succeeds();
    assert!(work.join("clone/two").exists());
    assert_eq!(told(&events(&file)), []);
}

#[test]
fn a_full_tree_of_links_tells_where_a_write_would_have_gone() {
    let scratch = Scratch::new("links");
    let tree = tree(&scratch, "tree");
    let file = scratch.path("events");
    // What a name led to a moment before is not what it leads to now.
    let script = "
        mkdir w/turn; echo x > w/turn/x; rm -r w/turn
        ln -s ../ro w/turn; echo x > w/turn/x; rm w/turn
        mkdir w/turn; echo x > w/turn/x; mv w/turn w/moved; ln -s ../ro w/turn
        echo x > w/turn/y
        mkdir w/turned; echo x > w/turned/x; rm w/turned/x; rmdir w/dir; mv w/turned w/dir
        ln -s ../ro w/link; mv -T w/link w/turned; echo x > w/turned/z; true
    ";
    let free = crate::tree(&scratch, "free");
    run(std::process::Command::new("sh")
        .args(["-c", script])
        .current_dir(&free))
    .succeeds();
    assert!(free.join("ro/x").exists() && free.join("ro/y").exists());
    assert!(free.join("ro/z").exists());
    let srt = Srt::new(&scratch).allow_write(tree.join("w")).events(&file);
    srt.current_dir(&tree).sh(script).succeeds();
    let expected = ["x", "y", "z"].map(|name| {
        let path = tree.join("ro").join(name).display().to_string();
        ("create".to_owned(), path, "file.write.unlisted".to_owned())
    });
    assert_eq!(told(&events(&file)), expected);
    assert!(fs::read_dir(tree.join("ro")).is_ok_and(|found| found.count() == 4));
}
