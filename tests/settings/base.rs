//! Where relative entries start, and what `~`, `..` and variables mean in them.

use std::fs;
use std::os::unix::fs::symlink;

use super::User;
use super::harness::run;

/// Three directories, each with an `out` of its own.
const PLACES: [&str; 3] = ["project", "project/sub", "home"];

/// Which `out` a command can write that is started in `from`.
fn written(user: &User, from: &str, flags: &[&str]) -> Vec<&'static str> {
    let script = PLACES.map(|place| {
        let out = user.0.dir(&format!("{place}/out"));
        format!("echo > {}/x; ", out.display())
    });
    let script = script.concat();
    let words = [flags, &["sh", "-c", &script]].concat();
    let ran = run(&mut user.srt_in(from, &words));
    assert_ne!(ran.status, 125, "{}", ran.stderr);
    let is_written = |place: &&str| fs::remove_file(user.path(&format!("{place}/out/x"))).is_ok();
    PLACES.into_iter().filter(is_written).collect()
}

const OUT: &str = r#"{"filesystem":{"allowWrite":["out"]}}"#;

#[test]
fn a_file_of_the_user_or_one_that_is_named_starts_at_the_working_directory() {
    let user = User::new("base-cwd");
    for place in PLACES {
        assert_eq!(written(&user, place, &["--allow-write", "out"]), [place]);
    }
    user.settings(OUT);
    for place in PLACES {
        assert_eq!(written(&user, place, &[]), [place]);
    }
    user.settings("{}");
    let named = user.write("home/conf/ci.json", OUT);
    for place in PLACES {
        assert_eq!(
            written(&user, place, &["-s", named.to_str().expect("UTF-8")]),
            [place]
        );
    }
}

#[test]
fn a_file_of_the_project_starts_where_it_lies() {
    let user = User::new("base-project");
    user.project(OUT);
    user.trust();
    assert_eq!(written(&user, "project", &[]), ["project"]);
    assert_eq!(written(&user, "project/sub", &[]), ["project"]);
    assert!(written(&user, "home", &[]).is_empty());
}

#[test]
fn with_cwd_everything_but_the_settings_flag_starts_there() {
    let user = User::new("base-flag");
    user.write("home/ci.json", OUT);
    user.write("home/ci/deep.json", OUT);
    let sub = user.path("project/sub");
    let cwd = ["--cwd", sub.to_str().expect("UTF-8")];
    let with = |flags: &[&str]| written(&user, "home", &[&cwd[..], flags].concat());
    assert_eq!(with(&["--allow-write", "out"]), ["project/sub"]);
    assert_eq!(with(&["-s", "ci.json"]), ["project/sub"]);
    assert_eq!(with(&["-s", "ci/deep.json"]), ["project/sub"]);
    user.project(OUT);
    user.trust();
    assert_eq!(
        with(&[]),
        ["project"],
        "the project is that of the directory"
    );
    let ran = run(&mut user.srt_in("home", &[&cwd[..], &["pwd"]].concat())).succeeds();
    assert_eq!(ran.stdout, format!("{}\n", sub.display()));
    let gone = run(&mut user.srt_in("home", &["--cwd", "/no/such", "true"]));
    gone.is_refused("cannot work in /no/such: chdir: ENOENT");
}

#[test]
fn dots_lead_where_the_directories_lead() {
    let user = User::new("dots");
    symlink(user.0.dir("elsewhere/deep"), user.path("project/link")).expect("free");
    let granting = |path: &str| {
        user.settings(&format!(r#"{{"filesystem":{{"allowWrite":["{path}"]}}}}"#));
        let script = "for p in . sub .. ../elsewhere; do (echo > $p/x) 2>/dev/null && echo $p; rm -f $p/x; done";
        user.run(&["sh", "-c", script]).stdout.replace('\n', " ")
    };
    assert_eq!(granting("none"), "");
    assert_eq!(granting("."), ". sub ");
    assert_eq!(granting("sub"), "sub ");
    assert_eq!(granting("sub/.."), ". sub ");
    assert_eq!(granting(".."), ". sub .. ../elsewhere ");
    assert_eq!(granting("sub/../.."), ". sub .. ../elsewhere ");
    assert_eq!(granting("link/.."), "../elsewhere ");
    user.settings(r#"{"filesystem":{"allowWrite":[""]}}"#);
    user.is_refused(&[], "must not be empty");
    user.settings(r#"{"filesystem":{"denyRead":[""]}}"#);
    user.is_refused(&[], "must not be empty");
}

/// The case ST07 of the catalogue.
#[test]
fn slashes_tildes_and_variables_mean_what_is_documented() {
    let user = User::new("tilde");
    for dir in [
        "project/sub/out",
        "project/sub/o2",
        "project/out",
        "home/o3",
        "home/o4",
    ] {
        user.0.dir(dir);
    }
    user.write(
        "project/s.json",
        r#"{"filesystem":{"allowWrite":["out/","./o2","~/o3","$HOME/o4"]}}"#,
    );
    let script =
        "for p in out o2 ~/o3 ~/o4 ../out; do (echo 1 > $p/x) 2>/dev/null && echo $p; done";
    let ran = run(&mut user.srt_in("project/sub", &["-s", "../s.json", "sh", "-c", script]));
    let home = user.path("home");
    assert_eq!(ran.stdout, format!("out\no2\n{}/o3\n", home.display()));
    assert!(
        ran.stderr.contains("`$HOME/o4` holds a variable"),
        "{}",
        ran.stderr
    );
    assert!(user.path("project/sub/out/x").exists() && !user.path("project/out/x").exists());
    user.settings(r#"{"filesystem":{"allowWrite":["~nobody/x"]}}"#);
    user.is_refused(&[], "`~name` is not supported");
}

#[test]
fn a_variable_in_a_deny_is_an_error_and_a_name_like_one_can_be_written() {
    let user = User::new("variables");
    user.write("project/$HOME/key", "key");
    user.write("home/key", "key");
    assert!(user.reads(&[], "project/$HOME/key"));
    for text in ["$HOME", "${HOME}/key", "$UNSET/x", "a/$X"] {
        user.settings(&format!(r#"{{"filesystem":{{"denyRead":["{text}"]}}}}"#));
        user.is_refused(&[], "variables are not expanded");
    }
    user.settings(r#"{"filesystem":{"denyRead":[{"path":"$HOME","literal":true}]}}"#);
    assert!(!user.reads(&[], "project/$HOME/key"));
    assert!(user.reads(&[], "home/key"));
    user.settings(r#"{"filesystem":{"denyRead":["%h","a$","100%"]}}"#);
    user.runs(&[]);
}
