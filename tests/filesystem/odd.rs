//! Grants, commands and hosts that are no everyday ones: single files, everything, what runs a
//! command hidden, servers that are gone, names that no text holds.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use super::closed::closed;
use super::harness::{Ran, Scratch, Srt, is_root, outside, probe, run, skip, wrapped};
use super::{content, listing, python};

#[test]
fn a_granted_file_is_written_in_place_and_not_replaced() {
    let scratch = Scratch::new("one-file");
    let granted = scratch.file("dir/granted", "old\n");
    let inode = || fs::metadata(&granted).expect("it stays").ino();
    let before = inode();
    let script = format!(
        "cd {} && echo new > granted; echo more >> granted; truncate -s 9 granted; chmod 600 granted
        echo x > $TMPDIR/prepared; mv $TMPDIR/prepared granted 2>/dev/null; mv granted moved; rm granted; ln granted other; echo x > beside",
        scratch.path("dir").display()
    );
    let ran = Srt::new(&scratch).allow_write(&granted).sh(&script).fails();
    assert_eq!(content(&granted), "new\nmore\n", "{}", ran.stderr);
    assert_eq!(inode(), before);
    assert_eq!(listing(&scratch.path("dir")), ["granted"]);

    // The control: with its directory granted it is replaced.
    let srt = Srt::new(&scratch).allow_write(scratch.path("dir"));
    let script = format!(
        "cd {} && echo x > new && mv new granted",
        scratch.path("dir").display()
    );
    srt.sh(&script).succeeds();
    assert_ne!(inode(), before);
}

#[test]
fn a_granted_file_is_replaced_by_no_rename_whoever_prepares_it() {
    let scratch = Scratch::new("over-file");
    let granted = scratch.file("dir/granted", "old");
    scratch.file("work/prepared", "new");
    let script = "
import errno, os, sys
for act in (os.rename, os.replace, os.link):
    try:
        act('prepared', sys.argv[1])
        print('done')
    except OSError as error:
        print(errno.errorcode[error.errno])
";
    let srt = Srt::new(&scratch)
        .allow_write(&granted)
        .allow_write(scratch.path("work"));
    let srt = srt.current_dir(scratch.path("work"));
    let ran = python(srt, script, &[&granted]).succeeds();
    assert!(!ran.stdout.contains("done"), "{}", ran.stdout);
    assert_eq!(ran.stdout.lines().count(), 3);
    assert_eq!(content(&granted), "old");
}

#[test]
fn a_command_that_is_hidden_is_told_of_with_the_rule() {
    let scratch = Scratch::new("hidden-command");
    let script = "#!/bin/sh\necho runs\n";
    let tool = scratch.file("bin/tool", script);
    let through = scratch.file("bin/through", format!("#!{}\n", tool.display()));
    let copy = scratch.path("bin/own-sh");
    fs::copy("/bin/sh", &copy).expect("there is a shell");
    let by_copy = scratch.file(
        "cwd/by-copy",
        format!("#!{} -e\necho runs\n", copy.display()),
    );
    outside(&format!(
        "chmod 755 {0}/bin/* {0}/cwd/by-copy",
        scratch.marker()
    ))
    .succeeds();
    let text = |path: &Path| path.to_str().expect("ASCII").to_owned();

    for path in [&tool, &by_copy] {
        assert_eq!(Srt::new(&scratch).run(&[path]).stdout, "runs\n");
    }
    let ran = closed(&scratch).run(&[&tool]);
    assert_eq!(ran.status, 127, "{}", ran.stderr);
    let message = format!("{} is hidden by filesystem.denyRead `/`", text(&tool));
    assert!(
        ran.shows(&message) && ran.shows("filesystem.allowRead"),
        "{}",
        ran.stderr
    );

    let ran = closed(&scratch).run(&[&by_copy]);
    let message = format!("{} is hidden by", text(&copy));
    assert!(ran.status == 127 && ran.shows(&message), "{}", ran.stderr);
    assert!(ran.shows("is run by what is hidden"), "{}", ran.stderr);
    let srt = closed(&scratch).allow_read(&copy);
    assert_eq!(srt.run(&[&by_copy]).stdout, "runs\n");

    // What runs the script is shown, what runs that is not.
    let srt = closed(&scratch).allow_read(&through).deny_read(&tool);
    let ran = srt.run(&[&through]);
    assert!(
        ran.status == 127 && ran.shows("is run by what is hidden"),
        "{}",
        ran.stderr
    );

    // Without a rule for `/`: the command, and the loader of everything.
    let ran = Srt::new(&scratch).deny_read(&tool).run(&[&tool]);
    assert!(
        ran.status == 126 && ran.shows("is hidden by filesystem.denyRead"),
        "{}",
        ran.stderr
    );
    let loader = outside(
        "realpath /lib64/ld-linux-*.so.* /lib/ld-linux-*.so.* /lib/ld-musl-*.so.* 2>/dev/null",
    );
    let loaders: Vec<_> = loader
        .stdout
        .lines()
        .filter(|name| Path::new(name).exists())
        .collect();
    if loaders.is_empty() {
        return skip("no loader found");
    }
    let srt = loaders
        .iter()
        .fold(Srt::new(&scratch), |srt, path| srt.deny_read(path));
    let ran = srt.run(&["/bin/true"]);
    let is_named = loaders
        .iter()
        .any(|path| ran.shows(&format!("{path} is hidden by")));
    assert!(
        matches!(ran.status, 126 | 127) && is_named,
        "{} {}",
        ran.status,
        ran.stderr
    );
}

/// Makes a root of its own for the run: system directories of the host, and `/one`, `/two`,
/// `/kept` that are empty. What is after `$0` is run there.
const OWN_ROOT: &str = r#"
set -e; root=$0/root; mount -t tmpfs t "$root"; cd "$root"
for dir in usr etc proc dev sys; do mkdir $dir; mount --rbind /$dir $dir; done
for link in bin lib lib64 sbin; do [ ! -L /$link ] || ln -s "$(readlink /$link)" $link; done
mkdir one two kept tmp old; mkdir kept/denied; echo moved > one/file; cp "$1" srt
mkdir -p "./$0"; mount --bind "$0" "./$0"; shift
pivot_root . old; umount -l /old; cd "$0/cwd"; exec /srt "$@"
"#;

#[test]
fn with_everything_granted_moves_between_top_level_directories_work_but_over_what_is_pinned() {
    let scratch = Scratch::new("everything");
    scratch.dir("root");
    scratch.dir("cwd");
    let script = "
import errno, os
def move(one, two):
    try:
        os.rename(one, two)
        print(one, two)
    except OSError as error:
        print(errno.errorcode[error.errno])
move('/one/file', '/two/file'); move('/two/file', '/file'); move('/file', '/one/file')
move('/one', '/two/one'); move('/two/one', '/one'); move('/two', '/2')
move('/one/file', '/kept/file'); move('/kept', '/elsewhere')
os.system('mv /one/file /kept/file && cat /kept/file; ls /one')
";
    let namespace = if is_root() { "-m" } else { "-rm" };
    let words = ["unshare", namespace, "sh", "-c", OWN_ROOT, scratch.marker()];
    let srt = Srt::new(&scratch)
        .allow_write("/")
        .deny_write("/kept/denied");
    let ran = srt.watched(&["/usr/bin/python3", "-c", script], |command| {
        run(wrapped(&words, command).current_dir("/"))
    });
    let moves = "/one/file /two/file\n/two/file /file\n/file /one/file\n/one /two/one\n/two/one /one\n/two /2\n";
    let expected = format!("{moves}EXDEV\nEBUSY\nmoved\n");
    assert_eq!(ran.stdout, expected, "{}", ran.stderr);
}

#[test]
fn a_link_that_a_command_could_have_planted_leads_the_base_set_nowhere() {
    let scratch = Scratch::new("planted");
    scratch.dir("root");
    scratch.dir("cwd");
    let etc = "mkdir etc; cp /etc/ld.so.cache /etc/passwd etc; ln -s /one/file etc/localtime\nfor dir in usr proc";
    let own_root = OWN_ROOT.replace("for dir in usr etc proc", etc);
    assert_ne!(own_root, OWN_ROOT);
    let namespace = if is_root() { "-m" } else { "-rm" };
    let words = [
        "unshare",
        namespace,
        "sh",
        "-c",
        &own_root,
        scratch.marker(),
    ];
    let closed = || {
        Srt::new(&scratch)
            .deny_read("/")
            .allow_read(".")
            .flags(&["-v"])
    };
    let script = "cat /etc/localtime; cat /one/file; head -c 4 /etc/passwd";
    let ran = |srt: Srt| {
        srt.watched(&["sh", "-c", script], |command| {
            run(wrapped(&words, command).current_dir("/"))
        })
    };
    let control = ran(closed());
    assert_eq!(control.stdout, "moved\nmoved\nroot", "{}", control.stderr);
    let ran = ran(closed().allow_write("/etc"));
    assert_eq!(ran.stdout, "root", "{}", ran.stderr);
    assert!(
        ran.shows("/etc/localtime is not shown with the base set"),
        "{}",
        ran.stderr
    );
}

/// Runs `echo ran` with an entry for a name below `dead`, whose server takes questions and answers
/// none; a silent one takes none.
fn with_dead_server(list: &str, name: &str, silent: bool) -> (Scratch, Ran) {
    let scratch = Scratch::new("dead-mount");
    let dead = scratch.dir("dead");
    let dead_mount = probe("dead_mount.py");
    let mut words: Vec<&OsStr> = ["unshare", "-m", "/usr/bin/python3"]
        .map(OsStr::new)
        .to_vec();
    words.extend([dead_mount.as_os_str(), dead.as_os_str()]);
    words.extend(silent.then_some(OsStr::new("silent")));
    let srt = Srt::new(&scratch).with(list, scratch.path(name));
    let ran = srt.watched(&["echo", "ran"], |command| {
        run(&mut wrapped(&words, command))
    });
    (scratch, ran)
}

#[test]
fn a_path_whose_server_is_gone_is_refused_in_time_and_one_elsewhere_is_not() {
    if !is_root() || outside("test -w /dev/fuse").status != 0 {
        return skip("only root opens /dev/fuse here");
    }
    let refused = |list: &str, silent| {
        let (scratch, ran) = with_dead_server(list, "dead/x", silent);
        let ran = ran.is_refused("could not be looked at within 5 s");
        let named = format!("{}/dead (fuse)", scratch.marker());
        assert!(ran.shows(&named) && !ran.shows("ran\n"), "{}", ran.stderr);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| refused("filesystem.denyRead", true));
        scope.spawn(|| refused("filesystem.denyRead", false));
        scope.spawn(|| refused("filesystem.allowWrite", false));
    });
    let (_scratch, ran) = with_dead_server("filesystem.allowRead", "other", false);
    assert_eq!(ran.succeeds().stdout, "ran\n");
}

#[test]
fn names_that_no_text_holds_are_shown_below_a_hidden_root_by_patterns() {
    let scratch = Scratch::new("odd-names");
    for name in [&b"shown-\xff"[..], b"shown-\n", b"shown-*", b"other-\xff"] {
        let dir = scratch.path("odd").join(OsStr::from_bytes(name));
        fs::create_dir_all(&dir).expect("the name is free");
        fs::write(dir.join("file"), "odd\n").expect("just made");
    }
    let srt = || closed(&scratch);
    let script = "cat ../odd/*/file | grep -c odd; ls -b ../odd";
    let ran = srt().allow_read(scratch.path("odd/shown-*")).sh(script);
    assert_eq!(
        ran.stdout, "3\nshown-\\n\nshown-*\nshown-\\377\n",
        "{}",
        ran.stderr
    );
    let ran = srt().with_literal("filesystem.allowWrite", scratch.path("odd/shown-\n"));
    let ran = ran.sh(&format!(
        "{script}; for file in ../odd/*/file; do echo w > \"$file\"; done"
    ));
    assert_eq!(ran.stdout, "1\nshown-\\n\n", "{}", ran.stderr);
    assert_eq!(content(&scratch.path("odd/shown-\n/file")), "w\n");
}

#[test]
fn a_path_that_is_too_long_is_refused_in_a_few_words() {
    let scratch = Scratch::new("too-long");
    let lists = ["denyRead", "allowRead", "allowWrite", "denyWrite"];
    for list in lists.map(|list| format!("filesystem.{list}")) {
        for path in [
            format!("/{}", "a/".repeat(2500)),
            format!("/tmp/{}", "n".repeat(300)),
            "x".repeat(5000),
        ] {
            let ran = Srt::new(&scratch).with(&list, &path).run(&["true"]);
            let ran = ran.is_refused("is too long: a name has 255 bytes at most, a path 4095");
            assert!(ran.stderr.len() < 700, "{list}: {}", ran.stderr);
        }
        // As long as it is written, and short as it is meant.
        let path = format!("/usr/{}share", "bin/../".repeat(1000));
        Srt::new(&scratch)
            .with(&list, &path)
            .run(&["true"])
            .succeeds();
    }
}

#[test]
fn a_home_in_an_entry_needs_one_also_where_all_is_hidden() {
    let scratch = Scratch::new("no-home");
    for words in [
        &[
            "--deny-read",
            "/",
            "--allow-read",
            ".",
            "--allow-read",
            "~/x",
        ][..],
        &["-t", "agent"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
        command.env_remove("HOME").current_dir(scratch.dir("cwd"));
        let ran = run(command.args(words).args(["--", "echo", "ran"]));
        let ran = ran.is_refused("`~` needs HOME to be an absolute path");
        assert!(
            ran.shows("set HOME, or write the path out"),
            "{}",
            ran.stderr
        );
    }
}
