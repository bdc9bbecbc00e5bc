//! Directories that find a name in any case: rules hold in all of them, or the run is refused.

use std::path::Path;
use std::process::Command;

use super::harness::{Ran, Scratch, Srt, canary, is_root, outside, probe, run, skip, wrapped};

/// A scratch directory with a place `m`, in which a server finds names in any case.
struct Served {
    scratch: Scratch,
    canary: String,
}

impl Served {
    fn new(name: &str) -> Option<Self> {
        if !is_root() || outside("test -w /dev/fuse").status != 0 {
            skip("only root opens /dev/fuse here");
            return None;
        }
        let scratch = Scratch::new(name);
        scratch.dir("m");
        let canary = canary();
        Some(Self { scratch, canary })
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path(name).display().to_string()
    }

    fn srt(&self) -> Srt {
        Srt::new(&self.scratch)
    }

    /// Runs a command beside the server.
    fn beside(&self, command: &Command) -> Ran {
        let probe = probe("folding_mount.py");
        let words = [
            Path::new("unshare"),
            Path::new("-m"),
            Path::new("/usr/bin/python3"),
            &probe,
            &self.scratch.path("m"),
            Path::new(&self.canary),
        ];
        run(&mut wrapped(&words, command))
    }

    fn sh(&self, srt: Srt, script: &str) -> Ran {
        srt.watched(&["sh", "-c", script], |command| self.beside(command))
    }
}

#[test]
fn what_a_server_finds_in_any_case_is_denied_whole_or_not_run() {
    let Some(served) = Served::new("fold-deny") else {
        return;
    };
    let place = served.path("m");
    let script = format!("cd {place}; cat Secret.ENV secret.env; cat sub/KEY.PEM; true");
    let control = served.sh(served.srt(), &script).succeeds();
    assert_eq!(
        control.stdout,
        served.canary.repeat(3),
        "{}",
        control.stderr
    );
    for entry in [
        "m/secret.env",
        "m/Secret.ENV",
        "m/*.env",
        "m/**/*.pem",
        "m/SUB",
    ] {
        for key in ["filesystem.denyRead", "filesystem.denyWrite"] {
            let ran = served.sh(served.srt().with(key, served.path(entry)), &script);
            let ran = ran.is_refused("in any case, and the kernel knows one alone");
            assert!(!ran.shows(&served.canary), "{entry}: {}", ran.stdout);
        }
    }
    let ran = served.sh(served.srt().deny_read(&place), &script);
    assert!(!ran.shows(&served.canary), "{}", ran.stdout);
}

#[test]
fn a_grant_shows_what_a_server_finds_in_another_case() {
    let Some(served) = Served::new("fold-grant") else {
        return;
    };
    let closed = || served.srt().deny_read(served.path("m"));
    let script = format!(
        "cd {}; cat Secret.ENV; cat Sub/Key.Pem; true",
        served.path("m")
    );
    let none = served.sh(closed(), &script).succeeds();
    assert!(!none.shows(&served.canary), "{}", none.stdout);
    for entry in [
        "m/secret.env",
        "m/*.[d-f]nv",
        "m/SUB",
        "m/sub/*.pem",
        "m/S?B/key.pem",
    ] {
        let ran = served.sh(closed().allow_read(served.path(entry)), &script);
        assert_eq!(ran.succeeds().stdout, served.canary, "{entry}");
    }
}

#[test]
fn a_protected_name_that_a_server_finds_in_any_case_is_told_of() {
    let Some(served) = Served::new("fold-protected") else {
        return;
    };
    let told = ".mcp.json is protected as it is written here alone";
    let ran = served.sh(served.srt().allow_write(served.path("m")), "true");
    assert!(ran.succeeds().shows(told));
    let ran = served.sh(served.srt(), "true");
    assert!(!ran.succeeds().shows(told));
}

/// Makes a file system in memory or of an image whose directory `$0/w` folds case, and runs the
/// words of the command there.
const FOLDING: &str = r#"
    image=$(mktemp)
    mount -t tmpfs -o casefold none "$0" 2>/dev/null ||
        { truncate -s 32M $image && mkfs.ext4 -q -O casefold $image && mount -o loop $image "$0"; } 2>/dev/null
    mounted=$?; rm -f $image; [ $mounted = 0 ] || exit 98
    mkdir "$0/w" && chattr +F "$0/w" && cd "$0/w" && mkdir Sub && : >Sub/file || exit 98
    printf %s "$1" >Secret.ENV; shift; "$@"; cat Sub/file Secret.ENV
"#;

#[test]
fn rules_hold_in_every_case_where_the_kernel_folds_it() {
    let scratch = Scratch::new("fold-kernel");
    let (place, canary) = (scratch.dir("m"), canary());
    if !is_root() {
        return skip("only root mounts a file system that folds case");
    }
    let inside = |srt: Srt, script: &str| {
        let place = place.display().to_string();
        let words = ["unshare", "-m", "sh", "-c", FOLDING, &place, &canary];
        srt.watched(&["sh", "-c", script], |command| {
            run(&mut wrapped(&words, command))
        })
    };
    let work = format!("cd {}/w; ", place.display());
    let read = format!("{work} cat Secret.ENV secret.env SECRET.ENV | grep -c .");
    let control = inside(Srt::new(&scratch), &read);
    if control.status == 98 {
        return skip("no file system that folds case is mounted here");
    }
    assert!(control.stdout.starts_with("3\n"), "{control:?}");
    let at = |name: &str| format!("{}/w/{name}", place.display());
    for entry in ["secret.env", "*.env", "S*.[d-f]nv"] {
        let ran = inside(Srt::new(&scratch).deny_read(at(entry)), &read);
        assert!(ran.stdout.starts_with("0\n"), "{entry}: {ran:?}");
    }
    let write = format!("{work} echo evil >Sub/FILE; echo evil >sub/file; true");
    let open = || Srt::new(&scratch).allow_write(at(""));
    assert!(inside(open(), &write).stdout.contains("evil"));
    for entry in ["SUB", "sub/FILE", "s?b/f*"] {
        let srt = open().deny_write(at(entry)).allow_write(at("sub/file"));
        let ran = inside(srt, &write);
        assert!(!ran.stdout.contains("evil"), "{entry}: {ran:?}");
    }
}
