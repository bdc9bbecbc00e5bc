//! Hosts and callers that are not as usual: a run has all it promises, or says what it lacks.

mod harness;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Ran, Scratch, Srt, canary, is_root, nothing_runs_in, outside, run, skip, wrapped};

/// Runs `command` as user 0 of a user namespace, or as root, without some capabilities.
fn as_root_without(capabilities: &str, command: &Command) -> Ran {
    let bounding = format!("--bounding-set={capabilities}");
    let inheritable = format!("--inh-caps={capabilities}");
    let mut words = vec!["unshare", "-r"];
    if is_root() {
        words.clear();
    }
    if capabilities.starts_with('-') {
        words.extend(["setpriv", &bounding, &inheritable]);
    }
    words.push("env");
    run(&mut wrapped(&words, command))
}

#[test]
fn root_without_some_capability_works_or_is_told_which() {
    let scratch = Scratch::new("capabilities");
    let secret = scratch.file("hidden/secret", "secret");
    let script = format!("grep ^CapEff /proc/self/status; cat {}", secret.display());
    let srt = Srt::new(&scratch)
        .deny_read(scratch.path("hidden"))
        .into_command(&["sh", "-c", &script]);
    let whole = "CapEff:\t0000000000000000\n";
    let all = "chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap \
               net_bind_service net_admin net_raw ipc_lock sys_chroot sys_ptrace sys_admin \
               sys_resource mknod audit_write setfcap";
    let control = as_root_without("", &srt);
    if control.stderr.contains("unshare") {
        return skip("no user namespace can be made here");
    }
    assert_eq!(control.stdout, whole, "{}", control.stderr);
    for name in all.split_whitespace() {
        let ran = as_root_without(&format!("-{name}"), &srt);
        match name {
            // The kernel lets nobody else map a user 0; see user_namespaces(7).
            "setfcap" => {
                let ran = ran.is_refused("CAP_SETFCAP");
                assert_eq!(ran.stdout, "");
            }
            _ => assert_eq!(ran.stdout, whole, "{name}: {}", ran.stderr),
        }
    }
    let none = as_root_without("-all", &srt).is_refused("CAP_SETFCAP");
    assert_eq!(none.stdout, "");
    nothing_runs_in(&scratch);
}

#[test]
fn mounts_that_come_and_go_meanwhile_uncover_nothing() {
    let scratch = Scratch::new("mounts");
    let secret = canary();
    let file = scratch.file("p/hidden/secret", &secret);
    for name in ["p/w", "p/other", "p/alias"] {
        scratch.dir(name);
    }
    let parent = scratch.path("p");
    // By each name that the secret has for a moment.
    let read = format!(
        "cat {0} {1}/alias/secret {1}/other/secret 2>/dev/null; echo ran",
        file.display(),
        parent.display()
    );
    let srt = Srt::new(&scratch)
        .deny_read(parent.join("hidden"))
        .allow_write(parent.join("w"))
        .into_command(&["sh", "-c", &read]);
    let script = format!(
        "cd {0} || exit 99; mount -t tmpfs none other && umount other || exit 99
         mount --bind hidden alias; cat alias/secret; umount alias; echo
         (while [ ! -e w/stop ]; do
            mount --bind hidden alias; mount -t tmpfs none other; umount other; umount alias
          done) &
         i=0; while [ $i -lt 60 ]; do i=$((i + 1)); \"$@\"; echo \"= $?\"; done
         touch w/stop; wait",
        parent.display()
    );
    let words = ["unshare", "-rm", "sh", "-c", &script, "sh"];
    let ran = run(&mut wrapped(&words, &srt));
    if ran.status == 99 || ran.stdout.is_empty() {
        return skip("no mount namespace can be made here");
    }
    let (control, runs) = ran.stdout.split_once('\n').expect("lines");
    assert_eq!(control, secret, "the control");
    assert!(!runs.contains(&secret), "{runs}");
    let ended = |how: &str| runs.matches(how).count();
    assert_eq!(ended("= 0") + ended("= 125"), 60, "{runs}");
    assert_eq!(ended("ran\n"), ended("= 0"), "{runs}");
    assert!(ended("= 0") > 0, "{}", ran.stderr);
    let said = "hint: start again";
    assert_eq!(
        ran.stderr.matches(said).count(),
        ended("= 125"),
        "{}",
        ran.stderr
    );
}

/// Makes a root of `srt` and a few programs, with what they load, and no /dev, /proc or /sys.
fn image(scratch: &Scratch) -> Option<PathBuf> {
    let root = scratch.dir("image");
    let programs = [
        env!("CARGO_BIN_EXE_srt"),
        "/bin/sh",
        "/bin/cat",
        "/bin/mount",
        "/bin/umount",
    ];
    let script = format!(
        "set -e; cd {}; mkdir bin tmp etc work old; chmod 1777 tmp
         for program in {}; do
           cp -L $program bin/
           for library in $(ldd $program | grep -o '/[^ ]*'); do
             mkdir -p .${{library%/*}}; cp -Ln $library .$library
           done
         done",
        root.display(),
        programs.join(" ")
    );
    (outside(&script).status == 0).then_some(root)
}

/// Runs a script in an image that `prepare` fills, with the host's root at `/old`.
fn in_image(root: &Path, prepare: &str) -> Ran {
    let inside = format!(
        "{prepare}
         srt -q --allow-write /work sh -c '
           echo ran; (echo x > /etc/no) 2>/dev/null || echo kept out
           echo y > /work/f; cat /work/f /proc/self/comm; echo z > /dev/null'"
    );
    let script = format!(
        "mount --bind {0} {0} && cd {0} && pivot_root . old && cd / || exit 99; exec sh -c \"$1\"",
        root.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-rmpf", "sh", "-c", &script, "sh", &inside]);
    command.env("PATH", "/bin:/usr/bin:/usr/sbin:/sbin");
    run(command
        .env("HOME", "/")
        .env_remove("TMPDIR")
        .current_dir("/"))
}

#[test]
fn on_a_host_without_proc_or_devices_a_run_is_refused_by_their_names() {
    let scratch = Scratch::new("image");
    let Some(root) = image(&scratch) else {
        return skip("no image can be made of this machine's programs");
    };
    let proc = "[ -e /proc ] || mkdir /proc; mount -t proc none /proc";
    let mkdir = proc.replace("mkdir", "/old/bin/mkdir");
    let null = ": > /dev/null; mount --bind /old/dev/null /dev/null";
    for name in ["proc", "dev"] {
        fs::create_dir(root.join(name)).expect("it is ours");
    }
    let whole = in_image(&root, &format!("{mkdir}; {null}"));
    if whole.status == 99 {
        return skip("no mount namespace can be made here");
    }
    assert_eq!(whole.stdout, "ran\nkept out\ny\ncat\n", "{}", whole.stderr);
    // No /sys in that one.
    let no_proc = in_image(&root, null).is_refused("/proc/self/exe");
    assert!(
        no_proc.stderr.contains("hint: mount /proc"),
        "{}",
        no_proc.stderr
    );
    fs::remove_file(root.join("dev/null")).expect("it was made");
    in_image(&root, &mkdir).is_refused("/dev/null");
    fs::remove_dir(root.join("dev")).expect("it is empty");
    in_image(&root, &mkdir).is_refused("/dev");
    fs::create_dir(root.join("dev")).expect("it is ours");
    for options in ["hidepid=2", "subset=pid", "hidepid=2,subset=pid"] {
        let proc = format!("mount -t proc -o {options} none /proc; {null}");
        let ran = in_image(&root, &proc);
        assert_eq!(
            ran.stdout, "ran\nkept out\ny\ncat\n",
            "{options}: {}",
            ran.stderr
        );
    }
    fs::create_dir(root.join("sys")).expect("it is ours");
    let ran = in_image(&root, &format!("{mkdir}; {null}"));
    assert_eq!(
        ran.stdout, "ran\nkept out\ny\ncat\n",
        "an empty /sys: {}",
        ran.stderr
    );
    nothing_runs_in(&scratch);
}

/// What a process inherits, a line each.
const STATE: &str = "umask; nice; cat /proc/self/oom_score_adj; ulimit -a; chrt -p $$ | cut -d: -f2
grep -E 'Cpus_allowed:|Mems_allowed:|SigIgn' /proc/self/status; ionice";

#[test]
fn what_the_caller_set_for_its_processes_holds_for_the_command() {
    let scratch = Scratch::new("state");
    let tmp = scratch.dir("tmp");
    let callers = [
        "umask 000",
        "umask 077",
        "umask 777",
        "ulimit -n 200; ulimit -c 0; ulimit -f 4000",
        "ulimit -S -s 1024; ulimit -t 500",
        "nice -n 7 true",
        "echo 500 > /proc/self/oom_score_adj",
    ];
    for caller in callers {
        let set = match caller.split_once(" true") {
            Some((words, _)) => format!("exec {words} \"$@\""),
            None => format!("{caller}; exec \"$@\""),
        };
        let words = ["bash", "-c", &set, "bash"];
        let native = run(&mut wrapped(
            &words,
            Command::new("bash").args(["-c", STATE]),
        ));
        let srt = Srt::new(&scratch)
            .env("TMPDIR", &tmp)
            .into_command(&["bash", "-c", STATE]);
        let ran = run(&mut wrapped(&words, &srt));
        assert_eq!(ran.stdout, native.stdout, "{caller}: {}", ran.stderr);
        assert!(native.stdout.lines().count() > 15, "{}", native.stdout);
    }
    let words = ["taskset", "-c", "0"];
    let allowed = ["grep", "Cpus_allowed_list", "/proc/self/status"];
    let srt = Srt::new(&scratch).into_command(&allowed);
    assert_eq!(
        run(&mut wrapped(&words, &srt)).stdout,
        "Cpus_allowed_list:\t0\n"
    );
}

#[test]
fn whatever_the_umask_what_srt_makes_for_itself_is_closed_to_others() {
    let scratch = Scratch::new("umask");
    let tmp = scratch.dir("tmp");
    let uid = nix::unistd::geteuid();
    for mask in ["000", "077", "777"] {
        let events = scratch.path(&format!("events-{mask}"));
        // The command looks at its own; the host's side is seen through what it may read.
        let script = "cd \"$TMPDIR\" && stat -c %a . && touch f && stat -c %a f; chmod 600 f";
        let srt = Srt::new(&scratch)
            .env("TMPDIR", &tmp)
            .events(&events)
            .into_command(&["sh", "-c", script]);
        let set = format!("umask {mask}; exec \"$@\"");
        let ran = run(&mut wrapped(&["sh", "-c", &set, "sh"], &srt)).succeeds();
        let own = match mask {
            "000" => "666",
            "077" => "600",
            _ => "0",
        };
        assert_eq!(
            ran.stdout,
            format!("700\n{own}\n"),
            "{mask}: {}",
            ran.stderr
        );
        let modes = outside(&format!("stat -c %a {}", events.display())).stdout;
        assert_eq!(modes, if mask == "777" { "0\n" } else { "600\n" }, "{mask}");
        // The directory of runs is there while one is.
        let srt = Srt::new(&scratch)
            .env("TMPDIR", &tmp)
            .into_command(&["sleep", "100"]);
        let mut held = wrapped(&["sh", "-c", &set, "sh"], &srt);
        let held = harness::Killed(held.spawn().expect("srt is built"));
        let runs = tmp.join(format!("srt-{uid}"));
        let open = format!("find {} ! -type l -perm /077", runs.display());
        assert!(harness::wait_until(
            || fs::read_dir(&runs).is_ok_and(|found| found.count() > 0)
        ));
        assert_eq!(outside(&open).stdout, "", "{mask}");
        drop(held);
        assert!(harness::wait_until(|| harness::processes_with(
            scratch.marker()
        )
        .is_empty()));
    }
}
