//! What each grade of `allowNestedUserNamespaces` lets a command do, and what not.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::harness::{Scratch, Srt, is_root, outside, skip};
use super::{GRADES, events, graded, python, python_in};

const USER: &str = "unshare -r true";
const CHROOT: &str = "unshare -r chroot / true";
const MOUNT: &str = "unshare -rm mount -t tmpfs none /mnt";

#[test]
fn without_the_setting_no_namespace_is_made() {
    let scratch = Scratch::new("off");
    for script in [USER, CHROOT, MOUNT] {
        outside(script).succeeds();
        Srt::new(&scratch).sh(script).fails();
    }
}

#[test]
fn userns_gives_user_namespaces_and_no_mounts() {
    let scratch = Scratch::new("userns");
    for script in [USER, CHROOT, "unshare -rnp --fork true", "unshare -ri true"] {
        graded(&scratch, "userns").sh(script).succeeds();
    }
    outside(MOUNT).succeeds();
    graded(&scratch, "userns").sh(MOUNT).fails();
    // By system calls that no filter of this grade looks at, Landlock refuses.
    let layers = "import uncover as u; u.enter(u.NEWUSER); u.call(u.UNSHARE, u.NEWNS)";
    python(layers, &[]).succeeds();
    python_in(graded(&scratch, "userns"), layers, &[]).fails();
}

#[test]
fn true_is_the_first_grade() {
    let scratch = Scratch::new("true");
    let srt = || Srt::new(&scratch).top("allowNestedUserNamespaces", true.into());
    srt().sh(USER).succeeds();
    srt().sh(MOUNT).fails();
}

#[test]
fn mounts_gives_mounts_of_every_sort_in_namespaces_of_the_command() {
    let scratch = Scratch::new("mounts");
    let scripts = [
        USER,
        CHROOT,
        MOUNT,
        "unshare -rm mount --bind /usr /mnt",
        "unshare -rm sh -c 'mount -t tmpfs none /mnt && cd /mnt && mkdir old && pivot_root . old'",
        "unshare -ru hostname other",
        "unshare -rm unshare -rm mount -t tmpfs none /mnt",
    ];
    for script in scripts {
        outside(script).succeeds();
        graded(&scratch, "mounts").sh(script).succeeds();
    }
}

#[test]
fn control_groups_of_the_caller_cannot_be_mounted() {
    let scratch = Scratch::new("cgroup");
    let mount = "mount -t cgroup2 none /mnt && ls /mnt/cgroup.controllers";
    let script = format!("unshare -rmC sh -c '{mount}'");
    if outside(&script).status != 0 {
        return skip("control groups cannot be mounted here in any namespace");
    }
    for grade in GRADES {
        graded(&scratch, grade).sh(&script).fails();
        let script = format!("unshare -rm sh -c '{mount}'");
        graded(&scratch, grade).sh(&script).fails();
    }
}

#[test]
fn names_can_be_moved_between_directories_where_landlock_leaves_files_alone() {
    let scratch = Scratch::new("refer");
    let cwd = scratch.dir("cwd");
    for name in ["a", "b"] {
        scratch.dir(&format!("cwd/{name}"));
    }
    for grade in GRADES {
        let script = "echo x > a/f && mv a/f b/f && ln b/f a/g && rm a/g b/f";
        let srt = graded(&scratch, grade).allow_write(&cwd);
        srt.sh(script).succeeds();
    }
}

#[test]
fn the_mounts_of_the_host_stay_as_they_are() {
    let scratch = Scratch::new("host");
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let before = mounts();
    let script = "unshare -rm sh -c 'mount --make-rshared / ; mount -t tmpfs none /mnt'";
    graded(&scratch, "mounts").sh(script).succeeds();
    assert_eq!(mounts(), before);
}

/// The capability that a command of user 0 keeps, CAP_SETFCAP, as a mask.
const SETFCAP: &str = "0000000080000000";

#[test]
fn the_command_starts_without_capabilities_or_with_the_one_for_id_maps_of_root() {
    let scratch = Scratch::new("caps");
    let none = "0000000000000000";
    for grade in GRADES {
        let ran = graded(&scratch, grade).sh("grep -E '^(Cap|NoNewPrivs)' /proc/self/status");
        let ran = ran.succeeds();
        let expected = |name: &str| match (is_root(), name) {
            (_, "NoNewPrivs:") => "1",
            (true, name) if name != "CapBnd:" => SETFCAP,
            _ => none,
        };
        assert_eq!(ran.stdout.lines().count(), 6);
        for line in ran.stdout.lines() {
            let (name, value) = line.split_once('\t').expect("a field");
            assert_eq!(value, expected(name), "{grade}: {line}");
        }
    }
}

#[test]
fn root_gives_no_file_a_way_up() {
    if !is_root() {
        return skip("needs root");
    }
    let scratch = Scratch::new("way-up");
    let cwd = scratch.dir("cwd");
    let file = scratch.file("cwd/program", "#!/bin/true\n");
    // VFS_CAP_REVISION_2 with CAP_NET_RAW, effective; see linux/capability.h.
    let script = "
import os, struct, sys, uncover
if len(sys.argv) > 2: uncover.enter(uncover.NEWUSER)
capabilities = struct.pack('<IIIII', 0x02000001, 1 << 13, 0, 0, 0)
for act in (lambda: os.setxattr(sys.argv[1], 'security.capability', capabilities),
            lambda: os.chmod(sys.argv[1], 0o4755)):
    try: act(); print('done')
    except OSError as error: print(os.strerror(error.errno))
";
    let native = python(script, &[&file, "nested".as_ref()]).succeeds();
    assert_eq!(native.stdout, "done\ndone\n");
    let has_capabilities = || {
        let read = "import os, sys; print('security.capability' in os.listxattr(sys.argv[1]))";
        python(read, &[&file]).succeeds().stdout == "True\n"
    };
    assert!(has_capabilities());
    for grade in GRADES {
        fs::remove_file(&file).expect("it is ours");
        fs::write(&file, "").expect("it is ours");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it is ours");
        for words in [vec![&*file], vec![&*file, "nested".as_ref()]] {
            let ran = python_in(graded(&scratch, grade).allow_write(&cwd), script, &words);
            let refused = "Operation not supported\nOperation not permitted\n";
            assert_eq!(ran.succeeds().stdout, refused, "{grade}");
        }
        let mode = fs::metadata(&file).expect("it is there").mode();
        assert_eq!((mode & 0o7777, has_capabilities()), (0o755, false));
    }
}

#[test]
fn of_proc_nothing_but_processes_can_be_written() {
    let scratch = Scratch::new("proc");
    let script = "
import os
def is_open(name):
    path = '/proc/' + name
    return not name.isdigit() and not os.path.islink(path) \\
        and not os.statvfs(path).f_flag & os.ST_RDONLY
print(sorted(filter(is_open, os.listdir('/proc'))))
print(bool(os.statvfs('/proc/self').f_flag & os.ST_RDONLY))
";
    let native = python(script, &[]).succeeds();
    assert!(native.stdout.contains("'sys'"), "{}", native.stdout);
    for (grade, processes) in [("userns", "False"), ("mounts", "False")] {
        let ran = python_in(graded(&scratch, grade), script, &[]).succeeds();
        assert_eq!(ran.stdout, format!("[]\n{processes}\n"), "{grade}");
    }
    let ran = python_in(Srt::new(&scratch), script, &[]).succeeds();
    assert_eq!(ran.stdout, "[]\nTrue\n");
}

#[test]
fn each_grade_is_said_and_stands_in_the_events() {
    let scratch = Scratch::new("events");
    for (grade, landlock, code) in [
        ("userns", true, "weakening.nesting.userns"),
        ("mounts", false, "weakening.nesting.mounts"),
    ] {
        let file = scratch.path(grade);
        let ran = graded(&scratch, grade).events(&file).run(&["true"]);
        let ran = ran.succeeds();
        assert!(
            ran.stderr
                .contains("`allowNestedUserNamespaces` lets the command make")
        );
        let events = events(&file);
        let weakening = events.iter().find(|event| event["kind"] == "weakening");
        assert_eq!(weakening.expect("one is recorded")["code"], code);
        let start = events
            .iter()
            .find(|event| event["code"] == "lifecycle.run.start")
            .expect("it started");
        for side in ["asked", "enforced"] {
            let held = &start[side];
            assert_eq!(held["nesting"], grade, "{side}");
            assert_eq!(held["landlock_files"], landlock, "{side}");
            assert_eq!(held["locked_mounts"], !landlock, "{side}");
            assert_eq!(held["no_capabilities"], !is_root(), "{side}");
            assert_eq!(held["no_new_privs"], true, "{side}");
        }
    }
    let file = scratch.path("off");
    Srt::new(&scratch).events(&file).run(&["true"]).succeeds();
    let events = events(&file);
    let start = &events[0]["enforced"];
    assert_eq!(start["nesting"], "refused");
    assert_eq!(start["landlock_files"], true);
    assert_eq!(start["no_capabilities"], true);
}

#[test]
fn processes_outside_stay_out_of_reach_of_a_root_of_its_own() {
    let scratch = Scratch::new("outside");
    let mut victim = super::harness::Killed(
        std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .expect("sleep is there"),
    );
    let pid = victim.0.id();
    outside(&format!("kill -0 {pid}")).succeeds();
    for grade in GRADES {
        let script = format!("unshare -r kill -0 {pid}; unshare -r kill -KILL -1; true");
        graded(&scratch, grade).sh(&script);
        let script = format!("unshare -r nsenter -t {pid} -U -n true");
        graded(&scratch, grade).sh(&script).fails();
    }
    assert!(matches!(victim.0.try_wait(), Ok(None)));
}
