//! Programs that sandbox themselves.

use std::path::Path;

use super::graded;
use super::harness::{Scratch, Srt, canary, outside, skip};

fn is_there(program: &str) -> bool {
    outside(&format!("command -v {program}")).status == 0
}

#[test]
fn bubblewrap_runs_a_command_in_a_view_of_its_own() {
    if !is_there("bwrap") {
        return skip("bwrap is not installed");
    }
    let scratch = Scratch::new("bwrap");
    // As root it makes no user namespace unless asked to.
    let plain = "bwrap --unshare-user --ro-bind / / true";
    let whole = "bwrap --unshare-user --unshare-pid --unshare-net --unshare-ipc --unshare-uts \
                 --ro-bind / / --tmpfs /tmp --dev /dev true";
    for script in [plain, whole] {
        outside(script).succeeds();
        Srt::new(&scratch).sh(script).fails();
        graded(&scratch, "userns").sh(script).fails();
        graded(&scratch, "mounts").sh(script).succeeds();
    }
}

#[test]
fn what_bubblewrap_binds_is_what_the_sandbox_shows() {
    if !is_there("bwrap") {
        return skip("bwrap is not installed");
    }
    let scratch = Scratch::new("bwrap-view");
    let cwd = scratch.dir("cwd");
    let secret = canary();
    let hidden = scratch.file("cwd/hidden/key", &secret);
    let kept = scratch.file("cwd/kept", "kept");
    let script = format!(
        "bwrap --unshare-user --bind / / --dev /dev sh -c 'cat {}; echo changed > {}; echo made > new'",
        hidden.display(),
        kept.display()
    );
    let ran = outside(&format!("cd {} && {script}", cwd.display()));
    assert!(ran.stdout.contains(&secret), "{}", ran.stderr);
    std::fs::write(&kept, "kept").expect("it is ours");
    std::fs::remove_file(cwd.join("new")).expect("the control made it");
    let srt = graded(&scratch, "mounts").allow_write(&cwd);
    let ran = srt
        .deny_read(scratch.path("cwd/hidden"))
        .deny_write(&kept)
        .sh(&script);
    assert!(!ran.shows(&secret), "{}", ran.stdout);
    let content = |path: &Path| std::fs::read_to_string(path).expect("it is there");
    assert_eq!(content(&kept), "kept");
    assert_eq!(content(&cwd.join("new")), "made\n");
}

#[test]
fn a_browser_runs_in_its_own_sandbox() {
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| is_there(name))
    else {
        return skip("no chromium is installed");
    };
    if super::harness::is_root() {
        return skip("chromium does not use its sandbox as root");
    }
    let scratch = Scratch::new("browser");
    let home = scratch.dir("home");
    let page = "data:text/html,<p>hello-from-a-page</p>";
    let script =
        format!("{browser} --headless --disable-gpu --user-data-dir=$HOME/p --dump-dom '{page}'");
    let srt = |grade: &str| {
        let srt = match grade {
            "" => Srt::new(&scratch),
            grade => graded(&scratch, grade),
        };
        srt.allow_write(&home).sh(&script)
    };
    let refused = srt("");
    assert!(!refused.stdout.contains("<p>hello-from-a-page</p>"));
    let ran = srt("userns");
    assert!(
        ran.stdout.contains("<p>hello-from-a-page</p>"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
}

/// Builds an image of one file. What maps the ids is `unshare`: a builder that finds itself in a
/// namespace already takes over its map, which has no user 0.
const BUILD: &str = "
export HOME=$PWD/home XDG_RUNTIME_DIR=$PWD/home/run BUILDAH_ISOLATION=chroot
export _CONTAINERS_USERNS_CONFIGURED=done _CONTAINERS_ROOTLESS_UID=1000
mkdir -p $XDG_RUNTIME_DIR
buildah() { unshare -rm buildah --storage-driver vfs --root $HOME/storage --runroot $HOME/state \"$@\"; }
container=$(buildah from scratch) && echo content > file && buildah copy $container file /file \\
    && buildah commit $container image && buildah images
";

#[test]
fn an_image_is_built_from_scratch() {
    if !is_there("buildah") {
        return skip("buildah is not installed");
    }
    let scratch = Scratch::new("image");
    let cwd = scratch.dir("cwd/home");
    let control = outside(&format!(
        "cd {}/.. && {BUILD}",
        scratch.dir("control/home").display()
    ));
    if !control.shows("localhost/image") {
        return skip("buildah builds nothing outside a sandbox either");
    }
    let cwd = cwd.parent().expect("it has one").to_owned();
    let srt = graded(&scratch, "mounts").allow_write(&cwd);
    let ran = srt.current_dir(&cwd).sh(BUILD).succeeds();
    assert!(
        ran.shows("localhost/image"),
        "{} {}",
        ran.stdout,
        ran.stderr
    );
    let refused = Srt::new(&scratch).allow_write(&cwd).current_dir(&cwd);
    assert!(!refused.sh(BUILD).shows("localhost/image"));
}
