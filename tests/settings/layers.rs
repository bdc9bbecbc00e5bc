//! Which files count, and what each may do to those below it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::harness::{is_root, run, skip};
use super::{Server, User, quoted};

#[test]
fn user_project_and_flags_add_up() {
    let user = User::new("add-up");
    for dir in ["home/a", "project/b", "project/c"] {
        user.0.dir(dir);
    }
    user.settings(r#"{"filesystem":{"allowWrite":["~/a"]}}"#);
    user.project(r#"{"filesystem":{"allowWrite":["b"]}}"#);
    user.trust();
    let flags = ["--allow-write", "c"];
    assert!(user.writes(&[], "home/a/x") && user.writes(&[], "project/b/x"));
    assert!(!user.writes(&[], "project/c/x") && user.writes(&flags, "project/c/x"));
    assert!(user.writes(&flags, "home/a/x") && user.writes(&flags, "project/b/x"));
    assert!(!user.writes(&["--deny-write", "~/a"], "home/a/x"));
}

#[test]
fn the_file_that_is_named_replaces_user_and_project() {
    let user = User::new("replaces");
    for dir in ["home/a", "project/b", "project/c"] {
        user.0.dir(dir);
    }
    user.settings(r#"{"filesystem":{"allowWrite":["~/a"]}}"#);
    user.project("this is no JSON");
    let named = user.write("ci.json", r#"{"filesystem":{"allowWrite":["c"]}}"#);
    let flags = ["-s", named.to_str().expect("UTF-8")];
    assert!(user.writes(&flags, "project/c/x"));
    assert!(!user.writes(&flags, "home/a/x"));
    user.is_refused(&[], ".srt.json:1:");
    user.project("{}");
    assert!(user.writes(&[], "home/a/x"));
}

#[test]
fn of_two_user_files_the_one_of_xdg_counts_and_that_is_said() {
    let user = User::new("two-files");
    for dir in ["home/a", "home/b", "home/c"] {
        user.0.dir(dir);
    }
    let granting = |dir: &str| format!(r#"{{"filesystem":{{"allowWrite":["~/{dir}"]}}}}"#);
    user.settings(&granting("a"));
    assert!(user.writes(&[], "home/a/x"));
    user.write("home/.config/srt/settings.json", &granting("b"));
    assert!(user.writes(&[], "home/b/x") && !user.writes(&[], "home/a/x"));
    let said = user.run(&["true"]).succeeds().stderr;
    assert!(said.contains(".config/srt/settings.json counts"), "{said}");
    assert!(said.contains(".srt-settings.json is not read"), "{said}");
    assert_eq!(user.run(&["-q", "true"]).succeeds().stderr, "");

    user.write("elsewhere/srt/settings.json", &granting("c"));
    let with = |config: &str| {
        let script = "for d in a b c; do echo > ~/$d/x && echo $d; done 2>/dev/null";
        let mut srt = user.srt(&["sh", "-c", script]);
        run(srt.env("XDG_CONFIG_HOME", config)).stdout
    };
    let elsewhere = user.path("elsewhere");
    assert_eq!(with(elsewhere.to_str().expect("UTF-8")), "c\n");
    assert_eq!(with("relative"), "b\n", "as if it were not set");
    assert_eq!(with(""), "b\n");
}

#[test]
fn a_project_that_is_not_trusted_narrows_and_one_that_is_adds() {
    let user = User::new("narrows");
    for dir in ["project/a", "project/b", "home/c"] {
        user.0.dir(dir);
    }
    user.write("project/secret/shown/key", "key");
    user.write("project/secret/other/key", "key");
    let server = Server::start();
    user.settings(
        r#"{"filesystem":{"allowWrite":["."],"denyRead":["secret"],"allowRead":["secret/shown","secret/other"]},
            "network":{"allowedDomains":["127.0.0.1"]}}"#,
    );
    let (shown, other) = ("project/secret/shown/key", "project/secret/other/key");
    assert!(user.writes(&[], "project/a/x") && user.writes(&[], "project/b/x"));
    assert!(user.reads(&[], shown) && user.reads(&[], other));
    assert!(server.is_reached(&user, &[]));

    user.project(r#"{"filesystem":{"allowWrite":["a","~/c"],"allowRead":["secret/shown"]}}"#);
    assert!(user.writes(&[], "project/a/x") && !user.writes(&[], "project/b/x"));
    assert!(!user.writes(&[], "home/c/x"));
    assert!(user.reads(&[], shown) && !user.reads(&[], other));
    assert!(server.is_reached(&user, &[]), "no word about it");

    user.project(
        r#"{"filesystem":{"allowWrite":["~/c"]},"network":{"allowedDomains":["x.test"]}}"#,
    );
    assert!(!server.is_reached(&user, &[]));
    assert!(!user.writes(&[], "project/a/x"));
    assert!(
        user.writes(&["--allow-write", "a"], "project/a/x"),
        "flags are the caller's"
    );
    user.trust();
    assert!(server.is_reached(&user, &[]));
    assert!(user.writes(&[], "project/a/x") && user.writes(&[], "home/c/x"));
}

#[test]
fn a_project_that_is_not_trusted_cannot_show_what_the_user_hides() {
    let user = User::new("hidden-below");
    user.write("project/.env", "password");
    user.settings(r#"{"filesystem":{"allowWrite":["."],"denyRead":[".env"]}}"#);
    user.project(r#"{"filesystem":{"allowWrite":[".env"]}}"#);
    assert!(!user.reads(&[], "project/.env"));
    user.settings(r#"{"filesystem":{"allowWrite":["."],"denyRead":[]}}"#);
    assert!(user.reads(&[], "project/.env"));
}

#[test]
fn a_project_that_is_not_trusted_may_deny_and_not_widen() {
    let user = User::new("deny");
    user.0.dir("project/a");
    user.settings(r#"{"filesystem":{"allowWrite":["a"]}}"#);
    assert!(user.writes(&[], "project/a/x"));
    user.project(r#"{"filesystem":{"denyWrite":["a"]}}"#);
    assert!(!user.writes(&[], "project/a/x"));
    for widening in [
        r#"{"filesystem":{"disabled":true}}"#,
        r#"{"network":{"mode":"open"}}"#,
        r#"{"env":{"set":{"PATH":"/evil"}}}"#,
        r#"{"git":{"safeDirectories":["*"]}}"#,
    ] {
        user.project(widening);
        user.is_refused(&[], "may do only once it is trusted");
    }
    user.project(r#"{"filesystem":{"disabled":true}}"#);
    user.trust();
    assert!(user.writes(&[], "home/x"));
}

#[test]
fn the_project_file_is_the_nearest_up_to_the_root_of_the_repository() {
    let user = User::new("nearest");
    let hides = |name: &str| format!(r#"{{"filesystem":{{"denyRead":["{name}"]}}}}"#);
    user.write("project/sub/secret", "key");
    let read = || {
        let words = ["cat", "secret"];
        run(&mut user.srt_in("project/sub", &words)).stdout == "key"
    };
    assert!(read());
    user.write(".srt.json", &hides("project/sub/secret"));
    assert!(read(), "above the repository nothing is looked for");
    user.project(&hides("sub/secret"));
    assert!(!read());
    user.write("project/sub/.srt.json", "{}");
    assert!(read(), "the nearest counts");
    fs::remove_file(user.path("project/sub/.srt.json")).expect("ours");
    fs::remove_dir_all(user.path("project/.git")).expect("ours");
    assert!(
        read(),
        "without a repository only the working directory counts"
    );
    user.write("project/.git", "gitdir: elsewhere\n");
    assert!(!read(), "a worktree is one");
}

#[test]
fn a_layer_that_cannot_be_read_ends_the_run() {
    let user = User::new("unreadable");
    user.runs(&[]);
    for file in [
        "home/.srt-settings.json",
        "home/.config/srt/settings.json",
        "project/.srt.json",
    ] {
        user.0.dir(file);
        user.is_refused(&[], "is a directory");
        fs::remove_dir(user.path(file)).expect("empty");
        user.write(file, "{");
        user.is_refused(&[], ":1:2: ");
        fs::write(user.path(file), "{}").expect("ours");
        if !is_root() {
            let mode =
                |mode| fs::set_permissions(user.path(file), fs::Permissions::from_mode(mode));
            mode(0).expect("ours");
            user.is_refused(&[], "open: EACCES");
            mode(0o600).expect("ours");
        }
        user.runs(&[]);
        fs::remove_file(user.path(file)).expect("ours");
    }
    if is_root() {
        skip("root reads every file");
    }
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let user = User::new("modes");
    let file = user.settings("{}");
    let project = user.project("{}");
    let named = user.write("named/ci.json", "{}");
    let named_flags = ["-s", named.to_str().expect("UTF-8")];
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    };
    for (path, flags) in [(&file, &[][..]), (&project, &[]), (&named, &named_flags)] {
        let parent = path.parent().expect("it has one");
        user.runs(flags);
        mode(path, 0o606);
        user.is_refused(flags, "can be written by every user");
        mode(path, 0o664);
        user.runs(flags);
        mode(parent, 0o777);
        user.is_refused(flags, "lies in a directory that every user can write");
        mode(parent, 0o1777);
        user.runs(flags);
        mode(parent, 0o755);
    }
}

#[test]
fn a_link_to_where_others_can_write_is_refused() {
    let user = User::new("open-target");
    let open = user.0.dir("open");
    let target = user.write("open/settings.json", "{}");
    std::os::unix::fs::symlink(&target, user.path("home/.srt-settings.json")).expect("free");
    user.run(&["true"]).succeeds();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("ours");
    let ran = user.run(&["true"]);
    ran.is_refused("lies in a directory that every user can write");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("ours");
    user.run(&["true"]).succeeds();
}

#[test]
fn a_file_of_somebody_else_is_refused_unless_it_is_named() {
    if !is_root() {
        return skip("only root can give files away");
    }
    let user = User::new("foreign");
    user.0.dir("project/a");
    let text = format!(
        r#"{{"filesystem":{{"allowWrite":[{}]}}}}"#,
        quoted(&user.path("project/a"))
    );
    let files = [user.settings(&text), user.project("{}")];
    user.trust();
    assert!(user.writes(&[], "project/a/x"));
    for file in &files {
        std::os::unix::fs::chown(file, Some(65534), None).expect("root may");
        user.is_refused(&[], "belongs to uid 65534");
        std::os::unix::fs::chown(file, Some(0), None).expect("root may");
    }
    std::os::unix::fs::chown(&files[0], Some(65534), None).expect("root may");
    assert!(user.writes(&["-s", files[0].to_str().expect("UTF-8")], "project/a/x"));
    let home = user.path("home");
    std::os::unix::fs::chown(home, Some(65534), None).expect("root may");
    assert!(
        user.writes(&[], "project/a/x"),
        "who owns the directory may put any file there"
    );
}
