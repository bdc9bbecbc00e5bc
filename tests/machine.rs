//! What belongs to the whole machine: objects shared by name, and its clock.

mod harness;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use harness::{Ran, Scratch, Srt, is_root, nothing_runs_in, probe, run};
use sandbox_runtime as _;

/// Makes a message queue and a shared memory file, with the words as their names, or looks
/// them up; a queue answers with the first byte of its message.
const OBJECTS: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
act, queue, shared = sys.argv[1], sys.argv[2].encode(), '/dev/shm' + sys.argv[2]
if act == 'make':
    attributes = (ctypes.c_long * 8)(0, 1, 8)
    made = libc.mq_open(queue, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600, attributes)
    print('queue', made >= 0 and libc.mq_send(made, b'q', 1, 0) == 0)
    open(shared, 'x').write('s')
    print('shared', open(shared).read() == 's', flush=True)
    sys.stdin.read()
if act == 'find':
    found = libc.mq_open(queue, os.O_RDONLY)
    print('queue', found >= 0)
    print('shared', os.path.exists(shared), os.path.basename(shared) in os.listdir('/dev/shm'))
if act == 'remove':
    libc.mq_unlink(queue)
    os.unlink(shared)
";

fn objects(act: &str, name: &str) -> [String; 5] {
    ["python3", "-c", OBJECTS, act, name].map(str::to_owned)
}

fn objects_outside(act: &str, name: &str) -> Ran {
    let words = objects(act, name);
    run(Command::new(&words[0]).args(&words[1..])).succeeds()
}

/// A name for objects of the machine that is nobody else's.
fn name_of(scratch: &Scratch) -> String {
    let own = Path::new(scratch.marker()).file_name();
    format!("/{}", own.expect("it has a name").display())
}

#[test]
fn message_queues_and_shared_memory_of_the_host_are_invisible() {
    let scratch = Scratch::new("posix-host");
    let name = name_of(&scratch);
    let made = objects_outside("make", &name);
    let native = objects_outside("find", &name);
    let plain = Srt::new(&scratch).run(&objects("find", &name));
    let granted = Srt::new(&scratch)
        .allow_write("/")
        .allow_write("/dev/shm")
        .run(&objects("find", &name));
    objects_outside("remove", &name);
    assert_eq!(made.stdout, "queue True\nshared True\n");
    assert_eq!(native.stdout, "queue True\nshared True True\n");
    for ran in [plain, granted] {
        assert_eq!(ran.succeeds().stdout, "queue False\nshared False False\n");
    }
}

#[test]
fn message_queues_and_shared_memory_of_the_command_stay_inside_and_end_with_it() {
    let scratch = Scratch::new("posix-inside");
    let name = name_of(&scratch);
    let mut inside = Srt::new(&scratch)
        .into_command(&objects("make", &name))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("srt is built");
    let mut made = [0; 23];
    let mut output = inside.stdout.take().expect("piped above");
    output.read_exact(&mut made).expect("both are made");
    let during = objects_outside("find", &name);
    let other = Srt::new(&scratch).run(&objects("find", &name));
    drop(inside.stdin.take());
    assert!(inside.wait().expect("it is our child").success());
    assert_eq!(&made, b"queue True\nshared True\n");
    for ran in [during, other.succeeds(), objects_outside("find", &name)] {
        assert_eq!(ran.stdout, "queue False\nshared False False\n");
    }
}

/// Acts that would set the clock, with arguments that no kernel takes.
const CLOCK_ACTS: [&str; 4] = [
    "adjtimex-bad-tick",
    "clock_adjtime-bad-tick",
    "clock_settime",
    "settimeofday",
];

#[test]
fn the_clock_of_the_machine_cannot_be_set() {
    let scratch = Scratch::new("clock");
    let program = probe("probe.py");
    let mut words = vec!["python3", program.to_str().expect("ASCII")];
    words.extend(CLOCK_ACTS);
    words.push("adjtimex-read");
    let native = run(Command::new(words[0]).args(&words[1..])).succeeds();
    let ran = Srt::new(&scratch).run(&words).succeeds();
    // The tick is looked at behind the capability only.
    let tick = if is_root() { "EINVAL" } else { "EPERM" };
    let reached = format!(
        "adjtimex-bad-tick {tick}\nclock_adjtime-bad-tick {tick}\n\
         clock_settime EINVAL\nsettimeofday EFAULT\nadjtimex-read ok\n"
    );
    let refused = CLOCK_ACTS.map(|act| format!("{act} EPERM\n")).concat();
    assert_eq!(native.stdout, reached);
    assert_eq!(ran.stdout, format!("{refused}adjtimex-read ok\n"));
    let clocks = "ls /dev/rtc* /dev/ptp* 2>/dev/null; cat /proc/self/timens_offsets";
    let inside = Srt::new(&scratch).sh(clocks).stdout;
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    assert_eq!(inside, offsets);
}

/// The most memory that processes of a run have had at once, by the kernel's own account.
fn peak_kib(scratch: &Scratch) -> u64 {
    let peak = |pid: i32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.contains("Name:\tsrt\n").then_some(())?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let pids = harness::processes_with(scratch.marker());
    pids.into_iter().filter_map(peak).sum()
}

#[test]
fn gigabytes_of_output_reach_a_slow_reader_whole_and_stay_out_of_memory() {
    let scratch = Scratch::new("output");
    let size: u64 = 3 << 30;
    let script = format!("head -c {size} /dev/zero; read line");
    let mut command = Srt::new(&scratch).into_command(&["sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut srt = command.spawn().expect("srt is built");
    let mut output = srt.stdout.take().expect("piped above");
    let (mut buffer, zeros) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    let (mut read, mut slow) = (0, 0);
    while read < size {
        // A reader that takes its time now and then, so that the pipe is full for a while.
        if read / (256 << 20) > slow {
            slow += 1;
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let count = output.read(&mut buffer).expect("it is a pipe");
        assert!(count > 0, "{read} of {size} bytes came");
        assert!(buffer[..count] == zeros[..count], "at {read}");
        read += count as u64;
    }
    let peak = peak_kib(&scratch);
    drop(srt.stdin.take().expect("piped above").write_all(b"\n"));
    let more = output.read(&mut buffer).expect("it is a pipe");
    assert!(srt.wait().expect("it is our child").success());
    assert_eq!((read, more), (size, 0));
    // Of four processes in a debug build, whatever they share counted for each.
    assert!((1..48 << 10).contains(&peak), "{peak} KiB");
    nothing_runs_in(&scratch);
}
