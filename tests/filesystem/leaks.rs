//! What tells of the host besides its files: tables of mounts, `/proc`, `/sys`, terminals, command
//! lines, core dumps, messages.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use super::during;
use super::harness::{Killed, Scratch, Srt, canary, outside, processes_with, run, skip, wrapped};
use super::{content, listing};

#[test]
fn the_mount_table_tells_of_no_other_run() {
    let (scratch, others) = (Scratch::new("table"), Scratch::new("table-of-others"));
    let tables =
        "cat /proc/self/mountinfo /proc/self/mounts /proc/1/mountinfo /proc/self/mountstats";
    let run_of = |tmpdir: &str| {
        let run = Path::new(tmpdir).file_name();
        run.expect("TMPDIR is the directory of the run")
            .to_string_lossy()
            .into_owned()
    };
    let own = Srt::new(&others)
        .sh(&format!("echo $TMPDIR; {tables}"))
        .succeeds();
    let (tmpdir, table) = own.stdout.split_once('\n').expect("it was printed");
    assert!(table.contains(&run_of(tmpdir)), "its own is no secret");

    during(Srt::new(&scratch), "echo $TMPDIR", |tmpdir| {
        let run = run_of(tmpdir);
        assert!(outside(&format!("ls {tmpdir}/..")).shows(&run));
        let seen = Srt::new(&others).sh(tables).succeeds();
        assert!(seen.shows("/proc") && !seen.shows(&run), "{run}");
    });
}

#[test]
fn no_command_line_tells_what_the_settings_say() {
    let scratch = Scratch::new("command-lines");
    let canary = canary();
    let srt = || Srt::new(&scratch).deny_read(scratch.dir(&canary));
    during(srt(), &format!(": {canary}; echo started"), |_| {
        assert!(!processes_with(&canary).is_empty(), "words are to be seen");
    });
    during(srt(), "echo started", |_| {
        assert!(processes_with(scratch.marker()).len() > 1);
        let telling = processes_with(&canary);
        assert!(telling.is_empty(), "{telling:?}");
    });
}

/// Files and directories of the kernel that tell of the machine and of other users.
const TELLING: [&str; 15] = [
    "/proc/acpi",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
    "/sys/firmware/dmi/tables/DMI",
    "/sys/firmware/efi/efivars",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
];

#[test]
fn files_of_the_kernel_that_tell_of_the_machine_are_empty() {
    let scratch = Scratch::new("telling");
    let script = format!(
        "for f in {}; do if test -d $f; then ls -A $f; else head -c 99 $f; fi 2>/dev/null | head -c 9; done; true",
        TELLING.join(" ")
    );
    assert_ne!(outside(&script).stdout, "");
    for srt in [Srt::new(&scratch), Srt::new(&scratch).allow_write("/")] {
        assert_eq!(srt.sh(&script).succeeds().stdout, "");
    }

    // Not read outside, where that takes messages away from others.
    let open = "dd if=/proc/kmsg iflag=nonblock bs=99 count=1 2>/dev/null | wc -c; \
        grep -vc '^0* ' /proc/kallsyms; tail -n +3 /proc/net/dev | sed 's/:.*//'";
    let ran = Srt::new(&scratch).sh(open);
    assert_eq!(
        ran.stdout.split_whitespace().collect::<Vec<_>>(),
        ["0", "0", "lo"]
    );
}

#[test]
fn terminals_of_others_cannot_be_opened() {
    let scratch = Scratch::new("terminals");
    let open = "import os; m, s = os.openpty(); print(os.ttyname(s), flush=True); input()";
    let holder = Command::new("python3")
        .args(["-c", open])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut holder = Killed(holder.expect("python3 is installed"));
    let mut name = String::new();
    BufReader::new(holder.0.stdout.as_mut().expect("piped"))
        .read_line(&mut name)
        .expect("a name is ASCII");
    let script = format!(
        "for tty in {} /dev/tty; do (exec 3<>$tty) 2>/dev/null && echo open $tty; done; ls -A /dev/pts; true",
        name.trim()
    );
    assert!(outside(&script).stdout.starts_with("open /dev/pts/"));

    let setsid = ["setsid", "--wait"];
    for srt in [Srt::new(&scratch), Srt::new(&scratch).allow_write("/")] {
        let ran = srt.watched(&["sh", "-c", &script], |srt| {
            run(&mut wrapped(&setsid, srt))
        });
        assert_eq!(ran.stdout, "ptmx\n", "{}", ran.stderr);
    }
}

#[test]
fn a_core_file_lands_where_the_command_may_write_and_tells_nothing_of_the_settings() {
    let scratch = Scratch::new("core");
    let pattern = content(Path::new("/proc/sys/kernel/core_pattern"));
    if pattern.starts_with(['|', '@', '/']) {
        return skip("core files go elsewhere on this machine");
    }
    let canary = canary();
    let crash = "sh -c 'kill -SEGV $$'; true";
    let unlimited = "ulimit -c unlimited && exec \"$@\"";
    let words = ["sh", "-c", unlimited, "sh"];
    let dirs = ["outside", "kept", "granted"].map(|name| scratch.dir(name));
    let mut control = Command::new("sh");
    control.args(["-c", crash]).current_dir(&dirs[0]);
    run(&mut wrapped(&words, &control)).succeeds();
    if listing(&dirs[0]).is_empty() {
        return skip("a crash leaves no core file outside either");
    }

    for dir in &dirs[1..] {
        let srt = Srt::new(&scratch)
            .deny_read(scratch.dir(&canary))
            .allow_write(&dirs[2])
            .current_dir(dir);
        srt.watched(&["sh", "-c", crash], |srt| run(&mut wrapped(&words, srt)));
    }
    assert!(listing(&dirs[1]).is_empty());
    let cores = listing(&dirs[2]);
    assert_eq!(cores.len(), 1, "{cores:?}");
    let core = fs::read(dirs[2].join(&cores[0])).expect("it is ours");
    let tells = |text: &str| core.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(tells("kill -SEGV"), "it is the memory of the command");
    assert!(!tells(&canary));
}

#[test]
fn messages_and_events_tell_no_content() {
    let scratch = Scratch::new("messages");
    let [hidden, variable] = [canary(), canary()];
    let file = scratch.file("secret", &hidden);
    let events = scratch.path("events");
    let script = format!(
        "cat {0}; echo x >{0}; curl -sS http://denied.test/",
        file.display()
    );
    let srt = |flags: &[&str]| {
        Srt::new(&scratch)
            .deny_read(&file)
            .env("SOME_API_TOKEN", &variable)
            .events(&events)
            .flags(flags)
    };
    assert!(
        srt(&[]).sh("echo $SOME_API_TOKEN").shows(&variable),
        "it is passed on"
    );
    for flags in [&["--debug"][..], &["--verbose"], &["--dry-run"]] {
        let ran = srt(flags).sh(&script);
        assert!(
            ran.stderr.len() + ran.stdout.len() > 100,
            "{flags:?} says much: {ran:?}"
        );
        for canary in [&hidden, &variable] {
            assert!(!ran.shows(canary), "{flags:?}: {}", ran.stderr);
            assert!(!content(&events).contains(canary), "{flags:?}");
        }
    }
    assert_eq!(content(&file), hidden);
}
