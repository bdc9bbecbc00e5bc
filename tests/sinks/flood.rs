//! As many denials as one thread can make, and a sink that reads nothing.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use sandbox_runtime::Audit;
use sandbox_runtime::audit::event::{Code, Event, Kind, Verdict};
use sandbox_runtime::audit::{FileOptions, Sink, Verbosity};

use super::harness::{Scratch, outside, run, say};
use super::{parsed, unreached};

const SENT: u64 = 150_000;

/// Where the producer is to write; the test is one process, and the producer another.
const PLACE: &str = "SRT_TEST_FLOOD";

#[test]
fn a_flood_against_a_sink_that_reads_nothing_is_counted_in_little_memory() {
    let scratch = Scratch::new("flood");
    let fifo = scratch.path("fifo");
    outside(&format!("mkfifo {}", fifo.display())).succeeds();
    let mut options = File::options();
    let reader = options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&fifo);
    let mut reader = reader.expect("it is ours");
    let this = std::env::current_exe().expect("it runs");
    let mut producer = Command::new(this);
    producer.args([
        "--exact",
        "flood::produces_where_it_is_told_to",
        "--nocapture",
    ]);
    let ran = run(producer.env(PLACE, &fifo)).succeeds();
    let mut kept = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    while let Ok(len @ 1..) = reader.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..len]);
    }
    let text = String::from_utf8_lossy(&kept);
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let kept = parsed(&text[..whole]).len() as u64;
    let lost = unreached(&ran.stderr);
    let told = |what: &str| -> u64 {
        let line = ran.stderr.lines().find_map(|line| line.strip_prefix(what));
        line.unwrap_or_else(|| panic!("{}", ran.stderr))
            .trim()
            .parse()
            .expect("a number")
    };
    let (grown, rate) = (told("grown KiB: "), told("per second: "));
    say(&format!(
        "flood: {rate} events a second, {grown} KiB, {kept} kept, {lost} lost"
    ));
    assert!(kept > 50 && lost > SENT / 2);
    assert_eq!(kept + lost, SENT, "{}", ran.stderr);
    assert!(grown < 16 << 10, "{grown} KiB");
}

#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "a test has no Host to read this from"
)]
fn produces_where_it_is_told_to() {
    let Some(place) = std::env::var_os(PLACE) else {
        return;
    };
    let sink = Sink::file(Path::new(&place), FileOptions::default()).expect("it has a reader");
    let audit = Audit::new("run", vec![sink], Verbosity::Warnings);
    audit.start().expect("a thread can be had");
    let before = resident("VmRSS:");
    let started = Instant::now();
    for number in 0..SENT {
        let target = format!("host{number}.test:443");
        audit.record(&Event {
            target: Some(&target),
            verdict: Some(Verdict::Denied),
            ..Event::new(Kind::Net, "connect", Code::HostUnlisted)
        });
    }
    let rate =
        f64::from(u32::try_from(SENT).expect("it is small")) / started.elapsed().as_secs_f64();
    audit.finish();
    say(&format!("per second: {rate:.0}"));
    say(&format!("grown KiB: {}", resident("VmHWM:") - before));
}

fn resident(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.expect("it is there").parse().expect("a number")
}
