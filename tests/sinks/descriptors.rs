//! `--events-fd`: a descriptor of the caller, which nothing else of the run has.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::harness::{
    Killed, Scratch, Srt, is_root, processes_with, run, skip, wait_until, wrapped,
};
use super::{DENIED, accounted, events, hosts, parsed};

/// Opens descriptor 7 as the shell says before the run.
fn opened(how: &str, srt: &Command) -> Command {
    wrapped(
        &["bash", "-c", &format!("exec 7{how}; exec \"$0\" \"$@\"")],
        srt,
    )
}

fn srt(scratch: &Scratch, words: &[&str]) -> Command {
    let flags = ["--events-fd", "7"];
    Srt::new(scratch).flags(&flags).into_command(words)
}

#[test]
fn events_go_to_a_descriptor_that_the_command_does_not_get() {
    let scratch = Scratch::new("fd");
    let file = scratch.path("events");
    let script = "python3 -c \"$0\" 20; echo forged >&7; ls /proc/self/fd";
    let srt = srt(&scratch, &["sh", "-c", script, DENIED]);
    let ran = run(&mut opened(&format!(">>{}", file.display()), &srt)).succeeds();
    assert_eq!(ran.stdout, "0\n1\n2\n3\n", "{}", ran.stderr);
    let all = events(&file);
    assert_eq!(hosts(&all), 20);
    assert_eq!(all.last().expect("there are some")["op"], "end");
}

#[test]
fn a_pipe_to_a_reader_gets_every_event() {
    let scratch = Scratch::new("fd-pipe");
    let file = scratch.path("events");
    let srt = srt(&scratch, &["python3", "-c", DENIED, "500"]);
    run(&mut opened(&format!("> >(cat >{})", file.display()), &srt)).succeeds();
    let has_end = || fs::read_to_string(&file).is_ok_and(|text| text.contains("\"op\":\"end\""));
    assert!(wait_until(has_end));
    assert_eq!(hosts(&events(&file)), 500);
}

#[test]
fn what_cannot_be_written_to_is_refused() {
    let scratch = Scratch::new("fd-bad");
    let table = [
        ("<&-", "descriptor 7 is not open"),
        ("</dev/null", "cannot be written to"),
    ];
    for (how, reason) in table {
        run(&mut opened(how, &srt(&scratch, &["true"]))).is_refused(reason);
    }
    let flags = ["--events-fd", "7", "--pass-fd", "7"];
    let srt = Srt::new(&scratch).flags(&flags).into_command(&["true"]);
    run(&mut opened(">/dev/null", &srt)).is_refused("is passed to the command too");
    let srt = Srt::new(&scratch)
        .flags(&["--events-fd", "2"])
        .into_command(&["true"]);
    run(&mut opened(">/dev/null", &srt)).is_refused("2");
}

#[test]
fn a_reader_that_is_gone_neither_ends_nor_delays_a_run() {
    let scratch = Scratch::new("fd-gone");
    let srt = srt(
        &scratch,
        &["sh", "-c", "python3 -c \"$0\" 50; exit 3", DENIED],
    );
    let ran = run(&mut opened("> >(exec true); sleep 0.2", &srt));
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    assert_eq!(accounted(&[], &ran), 52, "{}", ran.stderr);
    assert_eq!(
        ran.stderr
            .matches("cannot write events to descriptor 7")
            .count(),
        1
    );
}

#[test]
fn a_reader_that_stands_still_holds_nothing_up_and_what_it_missed_is_counted() {
    let scratch = Scratch::new("fd-still");
    let file = scratch.path("events");
    let fifo = scratch.path("fifo");
    // Held open by the shell, and read when the run is over.
    let script = format!(
        "mkfifo {fifo}; exec 8<>{fifo} 7>{fifo}; \"$0\" \"$@\"; s=$?; exec 7>&-; \
         timeout 1 cat <&8 >{file}; exit $s",
        fifo = fifo.display(),
        file = file.display()
    );
    let srt = srt(&scratch, &["python3", "-c", DENIED, "2000"]);
    let started = Instant::now();
    let ran = run(&mut wrapped(&["bash", "-c", &script], &srt)).succeeds();
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(ran.stderr.contains("takes too long"), "{}", ran.stderr);
    let text = fs::read_to_string(&file).expect("the shell made it");
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let kept = parsed(&text[..whole]);
    assert!(kept.len() > 50);
    assert_eq!(accounted(&kept, &ran), 2002, "{}", ran.stderr);
}

#[test]
fn no_other_process_of_a_run_holds_a_sink() {
    if !is_root() {
        return skip("an ordinary user cannot list what init and the proxies hold");
    }
    let scratch = Scratch::new("fd-held");
    let log = scratch.path("log");
    let journal = std::os::unix::net::UnixDatagram::bind(&log).expect("the directory is ours");
    let listed = serde_json::json!([
        { "type": "journald", "path": log }, { "type": "file", "path": scratch.path("events") },
    ]);
    let piped = scratch.path("piped");
    let srt = super::srt(&scratch, &listed).flags(&["--events-fd", "7"]);
    let words = ["sh", "-c", "echo started; sleep 60"];
    let mut command = opened(&format!(">{}", piped.display()), &srt.into_command(&words));
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut launcher = Killed(command.spawn().expect("bash is there"));
    let stdout = launcher.0.stdout.as_mut().expect("piped above");
    std::io::Read::read_exact(stdout, &mut [0; 8]).expect("it starts");
    let holds = |pid: i32| -> BTreeSet<PathBuf> {
        let fds = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        let links = fds.flatten().filter_map(|fd| fs::read_link(fd.path()).ok());
        links
            .filter(|link| {
                link.starts_with(scratch.marker()) || link.to_string_lossy().starts_with("socket:")
            })
            .collect()
    };
    let ours = i32::try_from(launcher.0.id()).expect("a pid is small");
    let sinks = holds(ours);
    assert!(
        sinks.contains(&piped) && sinks.contains(&scratch.path("events")),
        "{sinks:?}"
    );
    let is_socket = |path: &PathBuf| path.to_string_lossy().starts_with("socket:");
    assert!(sinks.iter().any(is_socket), "{sinks:?}");
    let others: Vec<_> = processes_with(scratch.marker());
    let others: Vec<_> = others.into_iter().filter(|pid| *pid != ours).collect();
    assert!(others.len() > 2, "{others:?}");
    for pid in others {
        let shared: Vec<_> = holds(pid).intersection(&sinks).cloned().collect();
        assert!(shared.is_empty(), "process {pid}: {shared:?}");
    }
    drop(journal);
}
