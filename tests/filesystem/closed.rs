//! With `/` hidden: what is granted and what programs need has a name, and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::harness::{Scratch, Srt, canary, is_root, outside, run, skip, wrapped};
use super::{content, listing, python, python_outside};

/// Closes reading but for the working directory, as the issue of every such tool has it.
pub(super) fn closed(scratch: &Scratch) -> Srt {
    Srt::new(scratch).deny_read("/").allow_read(".")
}

#[test]
fn nothing_but_what_is_shown_has_a_name() {
    let scratch = Scratch::new("closed");
    let canary = canary();
    scratch.file("cwd/mine", "mine\n");
    let other = scratch.file("other/file", &canary);
    let script = format!(
        "cat mine {0}; stat -c found {0} /etc/shadow /root /home; ls -A ..; grep -rs canary- {1}; true",
        other.display(),
        scratch.marker()
    );
    let found = Srt::new(&scratch).sh(&script).stdout;
    assert!(found.contains(&canary) && found.contains("found\n") && found.contains("other"));
    let ran = closed(&scratch).sh(&script).succeeds();
    assert_eq!(ran.stdout, "mine\ncwd\n", "{}", ran.stderr);

    let may = [
        "bin", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "proc", "run",
        "sbin", "sys", "tmp", "usr", "var",
    ];
    let must = ["dev", "etc", "proc", "tmp", "usr"];
    let names = closed(&scratch).sh("ls -A /").succeeds().stdout;
    let names: Vec<_> = names.lines().collect();
    assert!(names.iter().all(|name| may.contains(name)), "{names:?}");
    assert!(must.iter().all(|name| names.contains(name)), "{names:?}");
    for hidden in [
        "/etc/shadow",
        "/etc/ssh",
        "/etc/sudoers",
        "/root",
        "/home",
        "/var/log",
    ] {
        let ran = closed(&scratch).run(&["ls", "-d", hidden]).fails();
        assert!(ran.shows("No such file"), "{hidden}: {}", ran.stderr);
    }
}

/// Programs with what they print, in a directory they may write.
const PROGRAMS: [&[&str]; 14] = [
    &["/bin/sh", "-c", "echo $0 $((1 + 1))"],
    &["bash", "-lc", "echo ${BASH_VERSINFO[0]}"],
    &["perl", "-MData::Dumper", "-e", "print Dumper([1])"],
    &[
        "/usr/bin/python3",
        "-c",
        "import ctypes, json, sqlite3; print(json.dumps([1]))",
    ],
    &[
        "/usr/bin/python3",
        "-c",
        "import ssl; print(len(ssl.create_default_context().get_ca_certs()))",
    ],
    &[
        "/usr/bin/python3",
        "-c",
        "import zoneinfo; print(zoneinfo.ZoneInfo('Asia/Tokyo').key)",
    ],
    &["sh", "-c", "TZ=Asia/Tokyo date -d @0 +%H; date -d @0 +%Z"],
    &[
        "sh",
        "-c",
        "id -un 0; getent services ssh; getent hosts localhost | wc -l",
    ],
    &[
        "node",
        "-e",
        "console.log(require('os').EOL.length, require('crypto').randomBytes(2).length)",
    ],
    &["npm", "--version"],
    &["git", "--version"],
    &["sh", "-c", "ssh -V 2>&1; openssl version"],
    &["sh", "-c", "curl -V | head -1; locale -a | head -2"],
    &[
        "sh",
        "-c",
        "echo 'int main(void) { return 7; }' > a.c; cc a.c -o a && ./a; echo $?; make -v | head -1",
    ],
];

#[test]
fn programs_find_what_they_need() {
    let scratch = Scratch::new("programs");
    let (mut ran, mut missing) = (0, Vec::new());
    for words in PROGRAMS {
        let mut plain = Command::new(words[0]);
        plain.args(&words[1..]).env("HOME", scratch.dir("home"));
        plain.current_dir(scratch.dir("outside"));
        let Ok(expected) = plain.output() else {
            missing.push(words[0]);
            continue;
        };
        if !expected.status.success() || is_in_home(words[0]) {
            missing.push(words[0]);
            continue;
        }
        let inside = closed(&scratch).allow_write(".").run(words).succeeds();
        let expected = String::from_utf8_lossy(&expected.stdout);
        assert_eq!(inside.stdout, expected, "{words:?}: {}", inside.stderr);
        ran += 1;
    }
    assert!(ran >= 5, "only {ran} of the programs are here");
    if !missing.is_empty() {
        skip(&format!("not here, or in a home: {missing:?}"));
    }
}

/// A program that a version manager keeps is for profiles to show.
fn is_in_home(program: &str) -> bool {
    let found = outside(&format!("realpath \"$(command -v {program})\"")).stdout;
    !["/usr/", "/bin/", "/nix/", "/gnu/"]
        .iter()
        .any(|place| found.starts_with(place))
}

#[test]
fn git_works_on_a_project_that_may_be_written() {
    let scratch = Scratch::new("git");
    let script = "set -e; git init -q .; git config user.email a@b; git config user.name a
        echo 1 > f; git add -A; git commit -qm one; git status --short; git log --format=%s";
    let ran = closed(&scratch).allow_write(".").sh(script).succeeds();
    assert_eq!(ran.stdout, "one\n", "{}", ran.stderr);
    let log = format!("git -C {} log --format=%s", scratch.path("cwd").display());
    let safe = format!("-c safe.directory={}", scratch.path("cwd").display());
    let log = log.replacen("git ", &format!("git {safe} "), 1);
    assert_eq!(outside(&log).stdout, "one\n");
}

#[test]
fn a_crate_is_built_with_a_toolchain_that_is_shown() {
    let scratch = Scratch::new("cargo");
    let homes = outside("echo ${CARGO_HOME:-$HOME/.cargo}; echo ${RUSTUP_HOME:-$HOME/.rustup}");
    let (cargo, rustup) = homes.stdout.trim().split_once('\n').expect("two lines");
    if run(Command::new("sh").args(["-c", "cargo --version"])).status != 0 {
        return skip("cargo does not run here");
    }
    scratch.file(
        "cwd/Cargo.toml",
        "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
    );
    scratch.file("cwd/src/main.rs", "fn main() { println!(\"built\") }");
    let srt = || {
        let srt = closed(&scratch).allow_write(".").env("CARGO_HOME", cargo);
        srt.env("RUSTUP_HOME", rustup)
            .env("CARGO_TARGET_DIR", "target")
            .env("CARGO_NET_OFFLINE", "true")
    };
    let words = ["sh", "-c", "cargo build -q && target/debug/tiny"];
    if Path::new(cargo).join("bin/cargo").exists() {
        let ran = srt().run(&words).fails();
        assert!(!ran.shows("built"), "{}", ran.stdout);
    }
    let srt = srt().allow_read(cargo).allow_read(rustup);
    let ran = srt.run(&words).succeeds();
    assert_eq!(ran.stdout, "built\n", "{}", ran.stderr);
}

/// Acts on a tree of directories, files and a link; each that is done says so. None is tried where
/// `/` is the host's.
const CHANGES: &str = r#"
cd "$1/" && [ ! -e etc/shadow ] || exit 9
try() { "$@" 2>/dev/null && echo "done $*"; }
look() { stat -c '%N %f %u %g' -- * etc/*; }
before=$(look)
try mkdir "$2"; try touch "$2-f"; try ln -s a "$2-l"
try mkdir "etc/$2"; try touch "etc/$2-f"; try ln -s a "etc/$2-l"
try mv bin "$2-b"; try cp -P etc/hosts "etc/$2-h"; try mv etc/hosts "etc/$2-m"
try ln -sfn elsewhere bin; try rm -f bin; try rm -f etc/hosts
try chmod 700 etc; try touch -d @0 etc; try mv etc "$2-e"; try rm -rf etc
after=$(look 2>&1); [ "$before" = "$after" ] || { echo "done all"; echo "$before$after" >&2; }
"#;

#[test]
fn nothing_can_be_made_moved_or_changed_in_what_is_hidden() {
    let scratch = Scratch::new("skeleton");
    let name = canary();
    scratch.file("cwd/root/etc/hosts", "x");
    symlink("usr/bin", scratch.path("cwd/root/bin")).expect("the name is free");
    let words = |root| ["sh", "-c", CHANGES, "sh", root, &name];

    let control = closed(&scratch).allow_write(".").run(&words("root"));
    assert_eq!(control.stdout.lines().count(), 17, "{}", control.stdout);
    let srt = closed(&scratch).allow_write(".");
    let ran = srt.run(&words("/"));
    assert_eq!(ran.stdout, "", "{}", ran.stderr);
    let made = ["/", "/etc"].iter().flat_map(|dir| listing(Path::new(dir)));
    assert!(!made.into_iter().any(|made| made.starts_with(&name)));
}

#[test]
fn links_of_proc_and_handles_lead_to_nothing_hidden() {
    let scratch = Scratch::new("proc");
    let canary = canary();
    let other = scratch.file("other/file", &canary);
    let script = format!(
        "for root in /proc/self/root /proc/1/root /proc/[0-9]*/root /proc/self/cwd/../../.. /proc/thread-self/root
        do cat $root{0}; ls -A $root/root $root/home; done 2>/dev/null
        for fd in /proc/[0-9]*/fd/*; do cat $fd/..{0} $fd{0}; done 2>/dev/null; cat /proc/self/mountinfo; true",
        other.display()
    );
    assert!(Srt::new(&scratch).sh(&script).shows(&canary));
    let ran = closed(&scratch).sh(&script);
    assert!(!ran.shows(&canary), "{}", ran.stdout);
    assert!(!ran.stdout.contains("/other"), "{}", ran.stdout);

    // A handle names a file of a file system that is mounted, by whatever mount.
    let handle = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
handle = ctypes.create_string_buffer(bytes.fromhex(sys.argv[2]) if len(sys.argv) > 2 else (128).to_bytes(4, 'little') + bytes(132))
mount = ctypes.c_int()
if len(sys.argv) == 2:
    libc.name_to_handle_at(-100, sys.argv[1].encode(), handle, ctypes.byref(mount), 0)
    print(handle.raw.hex())
else:
    place = os.open(sys.argv[1], os.O_RDONLY)
    found = libc.open_by_handle_at(place, handle, os.O_RDONLY)
    print(os.read(found, 99).decode() if found >= 0 else os.strerror(ctypes.get_errno()))
";
    let told = python_outside(handle, &[&other]).succeeds().stdout;
    let cwd = scratch.path("cwd");
    let words = [cwd.as_path(), Path::new(told.trim())];
    let control = python_outside(handle, &words);
    match is_root() {
        true => assert!(
            control.shows(&canary),
            "{} {}",
            control.stdout,
            control.stderr
        ),
        false => skip("only root opens files by handle: no control"),
    }
    let ran = python(closed(&scratch), handle, &words);
    assert!(!ran.shows(&canary), "{}", ran.stdout);
}

#[test]
fn the_table_of_mounts_names_nothing_that_is_hidden() {
    let scratch = Scratch::new("table");
    scratch.dir("other");
    let namespace = if is_root() { "-m" } else { "-rm" };
    let script = "mount -t tmpfs t $0/other && exec \"$@\"";
    let words = ["unshare", namespace, "sh", "-c", script, scratch.marker()];
    let table = |srt: Srt| {
        let look = ["cat", "/proc/self/mountinfo", "/proc/self/mounts"];
        let ran = srt.watched(&look, |command| run(&mut wrapped(&words, command)));
        ran.succeeds().stdout
    };
    let hidden = format!("{}/other ", scratch.marker());
    assert!(table(Srt::new(&scratch)).contains(&hidden));
    let closed = table(closed(&scratch));
    assert!(!closed.contains(&hidden), "{closed}");
    // What is not below a tree of the kernel, the base set or a grant.
    let places = closed.lines().filter(|line| line.contains(" - "));
    let places = places.filter_map(|line| line.split(' ').nth(4));
    let own = [
        scratch.marker(),
        "/dev",
        "/etc/",
        "/proc",
        "/sys",
        "/tmp/srt-",
        "/usr",
    ];
    let places: Vec<_> = places
        .filter(|at| !own.iter().any(|own| at.starts_with(own)))
        .collect();
    let odd = places
        .iter()
        .filter(|at| !["/", "/bin", "/lib", "/sbin"].contains(at));
    assert_eq!(odd.collect::<Vec<_>>(), [&""; 0], "{closed}");
}

#[test]
fn entries_may_lead_over_links_which_are_there_too() {
    let scratch = Scratch::new("over-links");
    scratch.file("real/deep/file", "shown\n");
    scratch.file("real/beside", "hidden\n");
    symlink("real", scratch.path("link")).expect("the name is free");
    symlink("../real/deep/file", scratch.dir("x").join("to-file")).expect("the name is free");
    let granted = [scratch.path("link/deep"), scratch.path("x/to-file")];
    let script = "cat ../link/deep/file ../x/to-file ../real/deep/file; cat ../link/beside; ls ../real; readlink ../link";
    let [deep, file] = granted;
    let ran = closed(&scratch)
        .allow_read(deep)
        .allow_read(file)
        .sh(script);
    assert_eq!(
        ran.stdout, "shown\nshown\nshown\ndeep\nreal\n",
        "{}",
        ran.stderr
    );
}

#[test]
fn depth_decides_below_a_hidden_root_as_anywhere() {
    let scratch = Scratch::new("depth");
    for name in ["a/f", "a/b/f", "a/b/c/f", "a/b/c/d/f"] {
        scratch.file(name, "x");
    }
    let at = |name: &str| scratch.path(name);
    let script = "for d in a a/b a/b/c a/b/c/d; do cat ../$d/f >/dev/null 2>&1 && echo read $d
        (echo w > ../$d/f) 2>/dev/null && echo write $d; done; true";
    let table: [(&[(&str, &str)], &str); 5] = [
        (
            &[("allowRead", "a/b")],
            "read a/b\nread a/b/c\nread a/b/c/d\n",
        ),
        (
            &[
                ("allowRead", "a"),
                ("denyRead", "a/b"),
                ("allowRead", "a/b/c"),
            ],
            "read a\nread a/b/c\nread a/b/c/d\n",
        ),
        (
            &[("allowRead", "a"), ("allowWrite", "a/b/c")],
            "read a\nread a/b\nread a/b/c\nwrite a/b/c\nread a/b/c/d\nwrite a/b/c/d\n",
        ),
        (
            &[
                ("denyRead", "a/b"),
                ("allowRead", "a/b/c"),
                ("allowWrite", "a/b/c/d"),
            ],
            "read a/b/c\nread a/b/c/d\nwrite a/b/c/d\n",
        ),
        (
            &[
                ("allowWrite", "a/b"),
                ("denyWrite", "a/b/c"),
                ("denyRead", "a/b/c/d"),
            ],
            "read a/b\nwrite a/b\nread a/b/c\n",
        ),
    ];
    for (rules, expected) in table {
        let srt = rules.iter().fold(closed(&scratch), |srt, (list, name)| {
            srt.with(&format!("filesystem.{list}"), at(name))
        });
        let ran = srt.sh(script).succeeds();
        assert_eq!(ran.stdout, expected, "{rules:?}: {}", ran.stderr);
    }
    for name in ["a/b/f", "a/b/c/f", "a/b/c/d/f"] {
        assert!(
            content(&at(name)).starts_with('w') || name == "a/b/f",
            "{name}"
        );
    }
}

#[test]
fn a_deeper_rule_takes_from_the_base_set() {
    let scratch = Scratch::new("base");
    let script = "cat /etc/passwd >/dev/null 2>&1 && echo passwd; ls /usr/share/ | wc -l";
    let all = closed(&scratch).sh(script).stdout;
    assert!(
        all.starts_with("passwd\n") && !all.ends_with("\n0\n"),
        "{all}"
    );
    let srt = closed(&scratch)
        .deny_read("/usr/share")
        .deny_read("/etc/passwd");
    assert_eq!(srt.sh(script).stdout, "0\n");
    // A grant of the whole directory shows what the set leaves out.
    let own = outside("cat /etc/fstab").stdout;
    assert!(!own.is_empty(), "the host has none");
    closed(&scratch).run(&["cat", "/etc/fstab"]).fails();
    let srt = closed(&scratch).allow_read("/etc");
    assert_eq!(srt.run(&["cat", "/etc/fstab"]).stdout, own);
}

#[test]
fn a_grant_that_shows_all_that_is_hidden_is_said() {
    let scratch = Scratch::new("void");
    let warning = |srt: Srt| srt.run(&["true"]).succeeds().stderr;
    let said = warning(closed(&scratch).current_dir("/"));
    let line = "filesystem.allowRead `.` shows all of /, which filesystem.denyRead `/` hides";
    assert!(said.contains(line), "{said}");
    let home = scratch.path("home");
    let srt = Srt::new(&scratch).deny_read("~").allow_read(".");
    assert!(warning(srt.current_dir(&home)).contains("`~` hides"));
    assert_eq!(warning(closed(&scratch)), "");
    assert_eq!(
        warning(Srt::new(&scratch).deny_read("~").allow_read(".")),
        ""
    );
}

#[test]
fn a_working_directory_that_is_not_granted_is_refused_with_the_reason() {
    let scratch = Scratch::new("cwd");
    let srt = Srt::new(&scratch).deny_read("/");
    let ran = srt.run(&["pwd"]).is_refused("is hidden by");
    assert!(
        ran.stderr.contains("filesystem.allowRead"),
        "{}",
        ran.stderr
    );
    let cwd = scratch.path("cwd");
    let ran = Srt::new(&scratch)
        .deny_read("/")
        .allow_read(&cwd)
        .run(&["pwd"]);
    assert_eq!(
        ran.stdout.trim(),
        cwd.to_str().expect("ASCII"),
        "{}",
        ran.stderr
    );
}

#[test]
fn on_a_root_that_cannot_be_written_a_run_needs_a_tmpdir_and_no_more() {
    let scratch = Scratch::new("read-only");
    let script =
        "mount --rbind / /mnt && mount -o remount,bind,ro /mnt && mount --bind $0 /mnt$0 &&
        cd /mnt && pivot_root . . && umount -l . && cd $0/cwd || exit 9
        (: > /usr/written-by-a-test) 2>/dev/null && exit 9; exec \"$@\"";
    let namespace = if is_root() { "-m" } else { "-rm" };
    let words = ["unshare", namespace, "sh", "-c", script, scratch.marker()];
    let ran = |srt: Srt| {
        srt.allow_write(".")
            .watched(&["sh", "-c", "echo x > made; ls made"], |command| {
                run(wrapped(&words, command).current_dir("/"))
            })
    };
    for srt in [Srt::new, closed] {
        ran(srt(&scratch)).is_refused("set TMPDIR to a directory you can write");
        assert!(!scratch.path("cwd/made").exists());
        let ran = ran(srt(&scratch).env("TMPDIR", scratch.dir("tmp"))).succeeds();
        assert_eq!(ran.stdout, "made\n", "{}", ran.stderr);
        fs::remove_file(scratch.path("cwd/made")).expect("the command made it");
    }
}
