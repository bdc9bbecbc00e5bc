//! Writing is closed but for `allowWrite`, and `denyWrite` beats it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::harness::{self, Scratch, Srt, is_root, skip};
use super::{content, listing, python, python_outside, state};

#[test]
fn nothing_is_written_outside_the_granted_paths() {
    let scratch = Scratch::new("outside");
    let (work, victim) = (scratch.dir("work"), scratch.file("x/f", "original"));
    let directory = scratch.path("x");
    let acts = [
        "echo new > X/f",
        "echo new >> X/f",
        "echo new | tee -a X/f",
        "dd if=W/a of=X/f 2>&1",
        "mkdir X/d",
        "touch X/n",
        "cp W/a X/copy",
        "install W/a X/installed",
        "ln W/a X/hard",
        "ln -s W/a X/soft",
        "mv W/a X/moved",
        "mkfifo X/fifo",
        "mv X/f W/f",
        "rm X/f",
        "rm -r X",
    ];
    for act in acts {
        let act = act.replace('X', directory.to_str().expect("ASCII"));
        let act = act.replace('W', work.to_str().expect("ASCII"));
        let before = (listing(&directory), content(&victim));

        scratch.file("work/a", "a");
        Srt::new(&scratch).allow_write(&work).sh(&act).fails();
        assert_eq!((listing(&directory), content(&victim)), before, "{act}");

        scratch.file("work/a", "a");
        Srt::new(&scratch)
            .allow_write(scratch.path(""))
            .sh(&act)
            .succeeds();
        let after = directory
            .exists()
            .then(|| (listing(&directory), fs::read_to_string(&victim).ok()));
        assert_ne!(
            after,
            Some((before.0, Some(before.1))),
            "{act} changes nothing: no control"
        );
        drop(fs::remove_dir_all(&directory));
        drop(fs::remove_dir_all(&work));
        scratch.dir("work");
        scratch.file("x/f", "original");
    }
}

#[test]
fn metadata_outside_the_granted_paths_cannot_be_changed() {
    let scratch = Scratch::new("metadata");
    let victim = scratch.file("x/f", "original");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).expect("the file is ours");
    let script = "
import os, sys
path = sys.argv[1]
for act in (lambda: os.chmod(path, 0o600), lambda: os.utime(path, (1, 1)), lambda: os.chown(path, os.getuid(), os.getgid()),
            lambda: os.setxattr(path, 'user.a', b'1'), lambda: os.truncate(path, 3)):
    try:
        act()
        print('done')
    except OSError as error:
        print(error.strerror)
";
    let before = state(&victim);
    let ran = python(Srt::new(&scratch), script, &[&victim]).succeeds();
    assert_eq!(ran.stdout, "Read-only file system\n".repeat(5));
    assert_eq!(state(&victim), before);

    let granted = python(Srt::new(&scratch).allow_write(&victim), script, &[&victim]).succeeds();
    assert!(
        granted.stdout.matches("done").count() >= 4,
        "{}",
        granted.stdout
    );
    assert_ne!(state(&victim), before);
}

#[test]
fn files_outside_the_granted_paths_cannot_be_truncated() {
    let scratch = Scratch::new("truncate");
    let victim = scratch.file("x/f", "original");
    let script = "
import os, sys
path = sys.argv[1]
for act in (lambda: os.truncate(path, 0), lambda: os.open(path, os.O_RDONLY | os.O_TRUNC)):
    try:
        act()
        print('done')
    except OSError:
        print('refused')
";
    let ran = python(Srt::new(&scratch), script, &[&victim]).succeeds();
    assert_eq!(
        (ran.stdout.as_str(), content(&victim).as_str()),
        ("refused\nrefused\n", "original")
    );
    let granted = python(Srt::new(&scratch).allow_write(&victim), script, &[&victim]).succeeds();
    assert_eq!(
        (granted.stdout.as_str(), content(&victim).as_str()),
        ("done\ndone\n", "")
    );
}

#[test]
fn a_write_deny_beats_a_grant_at_any_depth_and_in_any_order() {
    let scratch = Scratch::new("precedence");
    let root = scratch.dir("");
    // Grants, denies, and what can be written then: a/f, a/b/f, a/b/c/f.
    let table: [(&[&str], &[&str], &str); 9] = [
        (&["a"], &[], "a/f a/b/f a/b/c/f"),
        (&["a"], &["a/b"], "a/f"),
        (&["a/b"], &["a"], ""),
        (&["a/b"], &["a/b"], ""),
        (&["a", "a/b/c"], &["a/b"], "a/f"),
        (&["a/b/c", "a"], &["a/b"], "a/f"),
        (&["a", "a", "a/"], &["a/b/", "a/b"], "a/f"),
        (&["a/b/../b/c/.."], &["a/b/c/../c//"], "a/b/f"),
        (&["./a", "a/b/c"], &["a/b/c", "a/x/../b/c/"], "a/f a/b/f"),
    ];
    for (grants, denies, expected) in table {
        for name in ["a/f", "a/b/f", "a/b/c/f", "a/x/f"] {
            scratch.file(name, "");
        }
        let mut srt = Srt::new(&scratch).current_dir(&root);
        for grant in grants {
            srt = srt.allow_write(grant);
        }
        for deny in denies {
            srt = srt.deny_write(deny);
        }
        let ran = srt.sh("for f in a/f a/b/f a/b/c/f; do echo w > $f; done 2>/dev/null; true");
        ran.succeeds();
        let all = ["a/f", "a/b/f", "a/b/c/f"];
        let written: Vec<_> = all
            .into_iter()
            .filter(|name| !content(&root.join(name)).is_empty())
            .collect();
        assert_eq!(written.join(" "), expected, "{grants:?} {denies:?}");
    }
}

#[test]
fn denies_hold_when_everything_is_granted() {
    let scratch = Scratch::new("everything");
    let canary = harness::canary();
    let (work, denied) = (scratch.dir("work"), scratch.file("denied/f", "original"));
    scratch.file("hidden/f", &canary);
    let script = format!(
        "echo w > {0}/f; echo w > {1}; rm -rf {2}; mv {2} {0}/; cat {3}/f; true",
        work.display(),
        denied.display(),
        scratch.path("denied").display(),
        scratch.path("hidden").display()
    );
    let srt = || Srt::new(&scratch).allow_write("/");

    let ran = srt()
        .deny_write(scratch.path("denied"))
        .deny_read(scratch.path("hidden"))
        .sh(&script);
    assert!(!ran.succeeds().shows(&canary));
    assert_eq!(content(&denied), "original");
    assert_eq!(content(&work.join("f")), "w\n", "the rest is granted");

    assert!(srt().sh(&script).succeeds().shows(&canary));
    assert!(!denied.exists(), "without the rule the same act succeeds");
}

#[test]
fn writing_through_a_link_is_judged_where_it_lands() {
    let scratch = Scratch::new("through-link");
    let (work, victim) = (scratch.dir("work"), scratch.file("x/f", "original"));
    let script = format!(
        "ln -s {} l && (echo new > l); rm l && echo removed",
        victim.display()
    );
    let srt = || Srt::new(&scratch).allow_write(&work).current_dir(&work);

    assert_eq!(srt().sh(&script).stdout, "removed\n");
    assert_eq!(
        (content(&victim).as_str(), listing(&work).len()),
        ("original", 0)
    );
    assert_eq!(srt().allow_write(&victim).sh(&script).stdout, "removed\n");
    assert_eq!(content(&victim), "new\n");
}

#[test]
fn a_link_to_a_file_outside_cannot_be_made_by_a_hard_link() {
    let scratch = Scratch::new("hard-link-out");
    let (work, victim) = (scratch.dir("work"), scratch.file("x/f", "original"));
    let script = format!("ln {} {}/h", victim.display(), work.display());

    Srt::new(&scratch).allow_write(&work).sh(&script).fails();
    assert!(listing(&work).is_empty());
    Srt::new(&scratch)
        .allow_write(scratch.path(""))
        .sh(&script)
        .succeeds();
    assert_eq!(listing(&work), ["h"]);
}

#[test]
fn descriptors_of_the_caller_are_closed() {
    let scratch = Scratch::new("inherited");
    let victim = scratch.file("x/f", "original");
    let script = "
import os
for act in (lambda: os.close(os.open('new', os.O_CREAT | os.O_WRONLY, dir_fd=7)), lambda: os.ftruncate(8, 0)):
    try:
        act()
        print('done')
    except OSError as error:
        print(error.strerror)
";
    let open = |command: &std::process::Command| {
        let words: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(ToOwned::to_owned)
            .collect();
        let shell = format!(
            "exec 7<{} 8<>{}; exec \"$@\"",
            scratch.path("x").display(),
            victim.display()
        );
        harness::run(
            std::process::Command::new("sh")
                .args(["-c", &shell, "sh"])
                .args(words),
        )
    };

    let ran = Srt::new(&scratch).watched(&["/usr/bin/python3", "-c", script], |srt| open(srt));
    assert_eq!(
        ran.stdout,
        "Bad file descriptor\n".repeat(2),
        "{}",
        ran.stderr
    );
    assert_eq!(
        (listing(&scratch.path("x")), content(&victim).as_str()),
        (vec!["f".to_owned()], "original")
    );

    let mut outside = std::process::Command::new("/usr/bin/python3");
    outside.args(["-c", script]);
    assert_eq!(open(&outside).stdout, "done\ndone\n");
}

#[test]
fn a_host_fifo_outside_the_granted_paths_cannot_be_written() {
    let scratch = Scratch::new("fifo");
    let fifo = scratch.path("fifo");
    harness::outside(&format!("mkfifo {}", fifo.display())).succeeds();
    // Open for reading, so that a writer would find somebody there.
    let script = "
import os, sys
reader = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK), b'x')
";
    python_outside(script, &[&fifo]).succeeds();
    python(Srt::new(&scratch).allow_write(&fifo), script, &[&fifo]).succeeds();
    python(Srt::new(&scratch), script, &[&fifo]).fails();
}

#[test]
fn moving_between_two_grants_loses_nothing() {
    let scratch = Scratch::new("between");
    let (one, two) = (scratch.dir("one"), scratch.dir("two"));
    scratch.file("one/f", "d");
    let script = format!("mv {}/f {}/f", one.display(), two.display());

    Srt::new(&scratch)
        .allow_write(&one)
        .allow_write(&two)
        .sh(&script)
        .succeeds();
    assert_eq!(
        (listing(&one).len(), content(&two.join("f")).as_str()),
        (0, "d")
    );
}

#[test]
fn what_builds_do_works_in_a_granted_directory() {
    let scratch = Scratch::new("builds");
    let work = scratch.dir("work");
    let script = "
import fcntl, mmap, os, sqlite3, tarfile
os.makedirs('a/b'); os.makedirs('c')
open('a/f', 'w').write('x'); os.link('a/f', 'c/hard'); os.rename('a/f', 'c/f'); os.rename('a/b', 'c/b')
fd = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o644); os.write(fd, b'tmp')
os.link(f'/proc/self/fd/{fd}', 'linked', src_dir_fd=fd)
m = open('m', 'w+b'); m.truncate(8192); mapped = mmap.mmap(m.fileno(), 8192); mapped[0:2] = b'mm'; mapped.flush(); os.fsync(m.fileno())
fcntl.flock(m, fcntl.LOCK_EX); fcntl.lockf(m, fcntl.LOCK_EX)
s = open('sparse', 'wb'); s.seek(1 << 30); s.write(b'e'); s.close()
os.chmod('c/f', 0o755); os.utime('c/f', (1, 1)); os.mkfifo('fifo'); os.symlink('c/f', 'soft')
t = tarfile.open('t.tar', 'w'); t.add('c'); t.close(); tarfile.open('t.tar').extractall('out')
db = sqlite3.connect('db'); db.execute('pragma journal_mode=wal'); db.execute('create table t(x)'); db.commit(); db.close()
";
    let srt = Srt::new(&scratch).allow_write(&work).current_dir(&work);
    python(srt, script, &[]).succeeds();
    let made = [
        "a", "c", "db", "fifo", "linked", "m", "out", "soft", "sparse", "t.tar",
    ];
    assert_eq!(listing(&work), made);
    assert_eq!(listing(&work.join("c")), ["b", "f", "hard"]);
}

#[test]
fn the_default_grants_open_what_the_caller_owns_and_nothing_around_it() {
    let scratch = Scratch::new("defaults");
    let logs = scratch.dir("home/.npm/_logs");
    let script = "echo w > ~/.npm/_logs/f; echo w > ~/.npm/f; echo w > ~/f; true";

    Srt::new(&scratch).sh(script).succeeds();
    assert_eq!(listing(&scratch.path("home/.npm")), ["_logs"]);
    assert_eq!(listing(&logs), ["f"]);

    fs::remove_dir_all(&logs).expect("the directory is ours");
    symlink(scratch.dir("elsewhere"), &logs).expect("the name is free");
    Srt::new(&scratch).sh(script).succeeds();
    assert!(
        listing(&scratch.path("elsewhere")).is_empty(),
        "a default grant follows no link"
    );
}

#[test]
fn mounts_cannot_be_removed_or_added_from_inside() {
    let scratch = Scratch::new("umount");
    let canary = harness::canary();
    let (work, denied) = (scratch.dir("work"), scratch.file("denied/f", &canary));
    let script = format!(
        "grep -E '^Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | grep -vc 0000000000000000
        umount {0}; umount -l {0}; mount -t tmpfs t {1}; mount --bind / {1}; mount -o remount,bind,rw /
        unshare -rm umount {0}; cat {0}/f; ls -A {1}",
        denied.parent().expect("it has one").display(),
        work.display()
    );
    // The same acts by one who has the rights, in namespaces of its own.
    let dir = denied.parent().expect("it has one").display();
    let control = harness::outside(&format!(
        "unshare -rm sh -c 'mount -t tmpfs t {dir} && ls -A {dir} && umount {dir} && cat {dir}/f'"
    ));
    assert_eq!(control.stdout, canary, "{}", control.stderr);

    let ran = Srt::new(&scratch)
        .allow_write(&work)
        .deny_read(Path::new(&dir.to_string()))
        .sh(&script);
    assert_eq!(ran.stdout, "0\n", "{}", ran.stderr);
}

#[test]
fn the_new_mount_calls_are_refused() {
    let scratch = Scratch::new("mount-api");
    let script = "
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
calls = {'open_tree': 428, 'move_mount': 429, 'fsopen': 430, 'fsconfig': 431, 'fsmount': 432, 'fspick': 433, 'mount_setattr': 442}
for name, number in calls.items():
    ctypes.set_errno(0)
    libc.syscall(number, -1, 1, -1, 1, 0)
    code = errno.errorcode.get(ctypes.get_errno())
    print(name, 'refused' if code in ('EPERM', 'ENOSYS', 'EACCES') else code)
";
    let control = harness::run(std::process::Command::new("unshare").args([
        "-rm",
        "/usr/bin/python3",
        "-c",
        script,
    ]));
    assert!(!control.succeeds().stdout.contains("refused"), "no control");
    let ran = python(Srt::new(&scratch), script, &[]).succeeds();
    assert_eq!(ran.stdout.matches("refused").count(), 7, "{}", ran.stdout);
}

#[test]
fn an_ordinary_user_gains_nothing_by_a_grant() {
    let scratch = Scratch::new("dac");
    let target = Path::new("/etc/srt-new");
    if is_root() {
        skip("root may write there without a sandbox");
        return;
    }
    drop(scratch.dir("work"));
    Srt::new(&scratch)
        .allow_write("/etc")
        .sh("echo x > /etc/srt-new")
        .fails();
    assert!(!target.exists());
}
