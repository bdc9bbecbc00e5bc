//! Who the command is: ids, owners, root callers, `--fake-root`.

mod harness;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use harness::{Ran, Scratch, Srt, is_root, outside, probe, run, skip, wrapped};
use serde_json::json;

/// An owner that is nobody's account.
const OTHER: u32 = 54_321;

const NO_CAPABILITY: &str = "0000000000000000";

fn owner(path: &Path) -> (u32, u32) {
    let meta = fs::symlink_metadata(path).expect("it is there");
    (meta.uid(), meta.gid())
}

fn caller() -> (u32, u32) {
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    (uid.as_raw(), gid.as_raw())
}

/// Tells whether set-id bits are on any file below.
fn has_set_id_file(tree: &Path) -> bool {
    !outside(&format!("find {} -perm /6000", tree.display()))
        .stdout
        .is_empty()
}

#[test]
fn ids_names_and_owners_are_those_of_outside() {
    let scratch = Scratch::new("same");
    let cwd = scratch.dir("cwd");
    scratch.file("cwd/mine", "");
    let script = "id -u; id -g; id -un; whoami; stat -c %u:%g mine; stat -c %U mine";
    let native = run(Command::new("sh").args(["-c", script]).current_dir(&cwd)).succeeds();
    let ran = Srt::new(&scratch)
        .allow_write(&cwd)
        .sh(&format!("{script}; echo > made"))
        .succeeds();
    assert_eq!(ran.stdout, native.stdout);
    assert_eq!(owner(&cwd.join("made")), caller());
}

#[test]
fn a_user_without_an_account_works_without_a_home_too() {
    let scratch = Scratch::new("nobody");
    let user = format!("--map-user={OTHER}");
    let group = format!("--map-group={OTHER}");
    let words = ["unshare", &user, &group, "env", "-u", "HOME", "-u", "USER"];
    let script = "id; whoami 2>&1; cd \"$TMPDIR\" && echo > f && stat -c %u:%g f";
    let mut native = wrapped(&words, Command::new("sh").args(["-c", script]));
    let native = run(native.env("TMPDIR", scratch.dir("cwd")));
    if !native.stdout.contains("cannot find name") {
        return skip("no user namespace can be made here");
    }
    for flags in [&[][..], &["--fake-root"]] {
        let srt = Srt::new(&scratch)
            .flags(flags)
            .into_command(&["sh", "-c", script]);
        let ran = run(&mut wrapped(&words, &srt)).succeeds();
        assert_eq!(ran.stderr, "");
        if flags.is_empty() {
            assert_eq!(ran.stdout, native.stdout);
        } else {
            assert!(ran.stdout.ends_with("root\n0:0\n"), "{}", ran.stdout);
        }
    }
}

#[test]
fn owners_that_a_caller_may_not_have_are_shown_as_nobody() {
    let scratch = Scratch::new("owners");
    let file = scratch.file("cwd/theirs", "");
    let shown = |path: &Path| {
        let ran = Srt::new(&scratch).run(&["stat", "-c", "%u:%g", path.to_str().expect("ASCII")]);
        ran.succeeds().stdout
    };
    if is_root() {
        chown(&file, Some(OTHER), Some(OTHER + 1)).expect("root may");
        assert_eq!(shown(&file), format!("{OTHER}:{}\n", OTHER + 1));
    } else {
        assert_eq!(owner(Path::new("/etc/passwd")).0, 0);
        assert_eq!(shown(Path::new("/etc/passwd")), "65534:65534\n");
    }
}

/// A checkout of another user, closed to all others.
fn checkout(scratch: &Scratch) -> std::path::PathBuf {
    let tree = scratch.dir("checkout");
    for name in ["source", "secret", "sub/deeper"] {
        scratch.file(&format!("checkout/{name}"), name);
    }
    outside(&format!(
        "chmod -R go= {0} && chown -R {OTHER}:{OTHER} {0}",
        tree.display()
    ))
    .succeeds();
    tree
}

#[test]
fn a_root_caller_writes_a_granted_checkout_of_another_user_as_that_user() {
    if !is_root() {
        return skip("needs root");
    }
    let scratch = Scratch::new("checkout");
    let tree = checkout(&scratch);
    let start = || Srt::new(&scratch).current_dir(&tree).allow_write(&tree);
    let ran = start()
        .deny_read(tree.join("secret"))
        .deny_write(tree.join("sub"))
        .sh(
            "cat source; echo new > new; mkdir -p d/e; echo more >> source; chmod 640 source; \
             cat secret; cat sub/deeper; echo no >> sub/deeper; chmod u+s new; chown 1:1 new; true",
        );
    if ran.stderr.contains("cannot be mapped") {
        return skip("the file system of /tmp cannot be mounted with other owners");
    }
    assert_eq!(ran.stdout, "sourcesub/deeper", "{}", ran.stderr);
    for name in ["new", "d", "d/e", "source", "secret", "sub/deeper"] {
        assert_eq!(owner(&tree.join(name)), (OTHER, OTHER), "{name}");
    }
    let content = |name: &str| fs::read_to_string(tree.join(name)).expect("it is there");
    assert_eq!(content("new"), "new\n");
    assert_eq!(content("source"), "sourcemore\n");
    assert_eq!(content("sub/deeper"), "sub/deeper");
    assert!(!has_set_id_file(&tree));
    // The control: what is not granted stays the other's.
    let ran = Srt::new(&scratch).sh(&format!("cat {}/source", tree.display()));
    assert!(ran.fails().stderr.contains("Permission denied"));
}

/// Runs `then` where the scratch directory has `merged`, the checkout on an overlay.
fn on_overlay(scratch: &Scratch, tree: &Path, srt: &Command) -> Option<Ran> {
    for name in ["upper", "work", "merged"] {
        scratch.dir(&format!("layers/{name}"));
    }
    let layers = scratch.path("layers");
    let layers = layers.display();
    let mount = format!(
        "mount -t tmpfs none {layers} && mkdir -m 755 {layers}/upper {layers}/work {layers}/merged && \
         chown {OTHER}:{OTHER} {layers}/upper && \
         mount -t overlay -o lowerdir={},upperdir={layers}/upper,workdir={layers}/work \
         none {layers}/merged && cd {layers}/merged || exit 99; \"$@\"; status=$?; \
         echo; stat -c '%n %u %a' {layers}/merged/*; exit $status",
        tree.display()
    );
    let words = ["unshare", "-m", "sh", "-c", &mount, "sh"];
    let ran = run(&mut wrapped(&words, srt));
    (ran.status != 99).then_some(ran)
}

/// Acts of installers in somebody else's tree.
const INSTALL: &str = "
echo new > new; echo more >> source; chown 1:1 source
cp -a sub copied; chmod u+s new
grep -h CapEff /proc/self/status
echo no > denied; cat hidden
true";

#[test]
fn where_owners_cannot_be_mapped_it_is_said_and_a_setting_keeps_three_capabilities() {
    if !is_root() {
        return skip("needs root");
    }
    let scratch = Scratch::new("overlay");
    let tree = checkout(&scratch);
    scratch.file("checkout/denied", "denied");
    scratch.file("checkout/hidden", "hidden");
    let merged = scratch.path("layers/merged");
    let start = || {
        Srt::new(&scratch)
            .allow_write(&merged)
            .deny_write(merged.join("denied"))
            .deny_read(merged.join("hidden"))
    };
    let events = scratch.path("events");
    let plain = start().into_command(&["sh", "-c", INSTALL]);
    let keeping = start()
        .set("filesystem.keepFileCapabilities", json!(true))
        .events(&events)
        .into_command(&["sh", "-c", INSTALL]);

    let Some(ran) = on_overlay(&scratch, &tree, &plain) else {
        return skip("no overlay can be mounted here");
    };
    let said = format!("{} belongs to user {OTHER}", merged.display());
    assert_eq!(ran.stderr.matches(&said).count(), 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("keepFileCapabilities"),
        "{}",
        ran.stderr
    );
    assert!(!ran.stdout.contains("new "), "{}", ran.stdout);

    let ran = on_overlay(&scratch, &tree, &keeping).expect("it was mounted before");
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER.
    assert!(ran.shows("CapEff:\t000000000000000b\n"), "{}", ran.stdout);
    let line = |name: &str| format!("{}/{name} ", merged.display());
    for (name, owner_and_mode) in [
        ("new", "0 644"),
        ("source", "1 600"),
        ("copied", &format!("{OTHER} 700")),
        ("denied", "0 644"),
    ] {
        assert!(
            ran.shows(&(line(name) + owner_and_mode)),
            "{name}: {}",
            ran.stdout
        );
    }
    assert!(!ran.stdout.contains("hidden\n\n"), "{}", ran.stdout);
    assert!(
        ran.stderr.contains("denied: Read-only file system"),
        "{}",
        ran.stderr
    );
    let events = fs::read_to_string(&events).expect("they were written");
    assert!(events.contains("weakening.filesystem.owners"), "{events}");
}

#[test]
fn the_setting_is_nothing_to_an_ordinary_user() {
    let scratch = Scratch::new("ordinary");
    if is_root() {
        return skip("needs an ordinary user");
    }
    let ran = Srt::new(&scratch)
        .set("filesystem.keepFileCapabilities", json!(true))
        .run(&["grep", "CapEff", "/proc/self/status"])
        .succeeds();
    assert_eq!(ran.stdout, format!("CapEff:\t{NO_CAPABILITY}\n"));
    assert_eq!(ran.stderr, "");
}

/// Makes an archive whose files belong to others, and one of them set-uid.
fn archive(scratch: &Scratch) -> std::path::PathBuf {
    let archive = scratch.path("archive.tar");
    let script = format!(
        "
import io, tarfile
with tarfile.open({archive:?}, 'w') as made:
    for name, mode in (('plain', 0o644), ('program', 0o755)):
        entry = tarfile.TarInfo(name)
        entry.uid, entry.gid, entry.mode, entry.size = {OTHER}, {OTHER}, mode, 4
        made.addfile(entry, io.BytesIO(b'text'))
"
    );
    run(Command::new("python3").args(["-c", &script])).succeeds();
    archive
}

/// What installers do as root: unpack with owners, copy with owners, set them.
const UNPACK: &str = "
set -e
tar xf \"$1\" --same-owner
cp -a plain copied
cp -a /etc/hostname copied-of-root
chown 1:1 plain; chown -h 1:1 plain; chgrp 1 program
install -o 1 -g 1 plain installed
python3 -c 'import os; os.fchown(os.open(\"plain\", os.O_RDONLY), 7, 7)'
id -u; id -g; whoami
stat -c %u plain";

#[test]
fn fake_root_unpacks_and_copies_with_owners_that_stay_the_callers() {
    let scratch = Scratch::new("fake");
    let archive = archive(&scratch);
    let archive = archive.to_str().expect("ASCII");
    let cwd = scratch.dir("cwd");
    let words = ["sh", "-c", UNPACK, "sh", archive];
    // The control: as it is, owners cannot be given.
    Srt::new(&scratch).allow_write(&cwd).run(&words).fails();
    let ran = Srt::new(&scratch)
        .flags(&["--fake-root"])
        .allow_write(&cwd)
        .run(&words)
        .succeeds();
    assert_eq!(ran.stdout, "0\n0\nroot\n0\n");
    assert_eq!(ran.stderr, "");
    for entry in fs::read_dir(&cwd).expect("it is ours").flatten() {
        assert_eq!(owner(&entry.path()), caller(), "{:?}", entry.file_name());
    }
    assert_eq!(fs::read_dir(&cwd).expect("it is ours").count(), 5);
}

#[test]
fn fake_root_has_no_power_of_root() {
    let scratch = Scratch::new("power");
    let cwd = scratch.dir("cwd");
    let kept = scratch.file("kept", "kept");
    let outer = fs::read_to_string("/proc/sys/vm/swappiness").expect("/proc is mounted");
    let script = format!(
        "grep -h ^Cap /proc/self/status /proc/self/status
cd {cwd}
touch f; chmod u+s f; chmod g+s f; install -m 4755 f g; mknod d c 1 3
python3 -c 'import os; os.close(os.open(\"h\", os.O_CREAT | os.O_WRONLY, 0o4755))'
chown 1:1 {kept}; echo no > {kept}; rm -f {kept}
for f in vm/swappiness kernel/core_pattern kernel/hostname net/ipv4/ip_forward; do
  (echo 1 > /proc/sys/$f) && echo \"wrote $f\"
done
hostname other && echo renamed; mount -t tmpfs none /mnt && echo mounted
unshare -U true && echo unshared; chroot / true && echo chrooted
date -s @0 >/dev/null && echo dated; nice -n -5 true; kill -9 1
python3 -c 'import os; os.setuid(1)' && echo became
python3 -c 'import os; os.setgroups([1])' && echo joined; true",
        cwd = cwd.display(),
        kept = kept.display()
    );
    let ran = Srt::new(&scratch)
        .flags(&["--fake-root"])
        .allow_write(&cwd)
        .sh(&script);
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let sets: String = sets
        .map(|set| format!("{set}:\t{NO_CAPABILITY}\n"))
        .concat();
    assert_eq!(ran.stdout, sets.repeat(2), "{}", ran.stderr);
    assert!(!has_set_id_file(&cwd));
    assert!(!cwd.join("d").exists());
    assert_eq!(fs::read_to_string(&kept).ok().as_deref(), Some("kept"));
    assert_eq!(owner(&kept), caller());
    let after = fs::read_to_string("/proc/sys/vm/swappiness").expect("/proc is mounted");
    assert_eq!(after, outer);
}

#[test]
fn fake_root_reaches_no_more_of_the_kernel() {
    let scratch = Scratch::new("fake-surface");
    let acts = [
        "add_key",
        "bpf",
        "clone-user",
        "clone3",
        "fsopen",
        "io_uring_setup",
        "keyctl",
        "mount",
        "move_mount",
        "open_tree",
        "perf_event_open",
        "pivot_root",
        "sethostname",
        "setns",
        "socket-vsock",
        "unshare-mount",
        "unshare-user",
        "userfaultfd",
    ];
    let program = probe("probe.py");
    let mut words = vec!["python3", program.to_str().expect("ASCII")];
    words.extend(acts);
    let ran = Srt::new(&scratch)
        .flags(&["--fake-root"])
        .run(&words)
        .succeeds();
    let refused = |line: &&str| line.ends_with(" EPERM") || line.ends_with(" ENOSYS");
    assert_eq!(
        ran.stdout.lines().filter(refused).count(),
        acts.len(),
        "{}",
        ran.stdout
    );
    // The control: with the rights over a namespace of its own, most of them come through.
    let native = run(Command::new("unshare").arg("-r").args(&words));
    assert!(
        native.stdout.lines().filter(|line| !refused(line)).count() > 9,
        "{}",
        native.stdout
    );
}

#[test]
fn fake_root_sees_others_as_nobody_and_opens_no_file_of_root() {
    let scratch = Scratch::new("fake-files");
    if is_root() {
        return skip("needs an ordinary user");
    }
    let ran = Srt::new(&scratch)
        .flags(&["--fake-root"])
        .sh("stat -c %u /etc/passwd; cat /etc/shadow");
    assert_eq!(
        (ran.status, ran.stdout.as_str()),
        (1, "65534\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn fake_root_is_served_by_the_broker_and_the_proxies() {
    let scratch = Scratch::new("fake-served");
    let script = "
import os, socket
name = os.environ['TMPDIR'] + '/socket'
server = socket.socket(socket.AF_UNIX); server.bind(name); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect(name)
peer = server.accept()[0].getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
print(int.from_bytes(peer[4:8], 'little'))
proxy = socket.create_connection(('127.0.0.1', 3128))
proxy.send(b'GET http://no.example.org/ HTTP/1.1\\r\\nHost: no.example.org\\r\\n\\r\\n')
print(proxy.recv(12))
";
    let ran = Srt::new(&scratch)
        .flags(&["--fake-root"])
        .run(&["python3", "-c", script])
        .succeeds();
    assert_eq!(ran.stdout, "0\nb'HTTP/1.1 403'\n");
}

#[test]
fn inside_a_sandbox_nobody_becomes_user_0() {
    let scratch = Scratch::new("fake-inner");
    let inner = scratch.file("inner.json", r#"{"nested": "inner"}"#);
    let srt = env!("CARGO_BIN_EXE_srt");
    let ran = Srt::new(&scratch).sh(&format!(
        "'{srt}' -q -s {} --fake-root id -u",
        inner.display()
    ));
    if is_root() {
        assert_eq!(ran.succeeds().stdout, "0\n");
    } else {
        ran.is_refused("--fake-root");
    }
}

#[test]
fn without_the_capability_to_map_others_root_is_alone_and_works() {
    if !is_root() {
        return skip("needs root");
    }
    let scratch = Scratch::new("alone");
    let tree = checkout(&scratch);
    let script = "cat /proc/self/uid_map; echo made > f; echo no > \"$0/f\"";
    let cwd = scratch.dir("cwd");
    let srt = Srt::new(&scratch)
        .allow_write(&cwd)
        .allow_write(&tree)
        .into_command(&["sh", "-c", script, tree.to_str().expect("ASCII")]);
    let dropped = [
        "setpriv",
        "--bounding-set=-setuid,-setgid",
        "--inh-caps=-setuid,-setgid",
    ];
    let ran = run(&mut wrapped(&dropped, &srt));
    let map: Vec<_> = ran.stdout.split_whitespace().collect();
    assert_eq!(map, ["0", "0", "1"], "{}", ran.stderr);
    assert!(cwd.join("f").exists() && !tree.join("f").exists());
    assert!(
        ran.stderr.contains(&format!("belongs to user {OTHER}")),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_a_group_of_the_caller_opens_stays_open_unless_it_is_hidden() {
    if !is_root() {
        return skip("needs root, to be in another group");
    }
    let scratch = Scratch::new("groups");
    let home = scratch.dir("home");
    let file = scratch.file("cwd/of-group", "of the group\n");
    chown(&file, Some(0), Some(OTHER)).expect("root may");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("it is ours");
    chown(&home, Some(OTHER), None).expect("root may");
    // A program that anybody may execute, wherever this one was built.
    let program = scratch.path("srt");
    fs::copy(env!("CARGO_BIN_EXE_srt"), &program).expect("it is built");
    let run_as = |groups: &str, hidden: &[&str]| {
        let mut words = vec!["setpriv", "--reuid=54321", "--regid=54322", groups];
        words.extend(["env", "TMPDIR=/tmp", program.to_str().expect("ASCII"), "-q"]);
        words.extend(hidden);
        words.extend(["cat", file.to_str().expect("ASCII")]);
        let mut command = Command::new(words[0]);
        run(command
            .args(&words[1..])
            .env("HOME", &home)
            .current_dir("/"))
    };
    assert_eq!(run_as("--clear-groups", &[]).status, 1, "the control");
    let ran = run_as("--groups=54321", &[]).succeeds();
    assert_eq!(ran.stdout, "of the group\n");
    let hidden = ["--deny-read", file.to_str().expect("ASCII")];
    assert_eq!(run_as("--groups=54321", &hidden).stdout, "");
}
