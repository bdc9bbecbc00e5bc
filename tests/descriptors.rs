//! Which descriptors the command gets, and what it can do with them.

mod harness;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::{Scratch, Srt, outside, run, run_with_input, skip, wrapped};

#[test]
fn only_the_standard_descriptors_reach_the_command() {
    let scratch = Scratch::new("descriptors");
    let open = "
import os, socket, sys
kept = [os.open('/', os.O_RDONLY), os.open('/etc/passwd', os.O_RDONLY), *os.pipe()]
kept += [socket.socket().detach(), socket.socket(socket.AF_UNIX).detach(), os.memfd_create('x')]
kept.append(os.dup2(kept[0], 251))
[os.set_inheritable(fd, True) for fd in kept]
os.execvp(sys.argv[1], sys.argv[1:])
";
    // The shell globs before it opens anything.
    let words = ["sh", "-c", "echo /proc/self/fd/*"];
    let native = run(Command::new("python3").args(["-c", open]).args(words)).succeeds();
    assert!(native.shows("/proc/self/fd/251"), "{}", native.stdout);
    let srt = Srt::new(&scratch).into_command(&words);
    let ran = run(&mut wrapped(&["python3", "-c", open], &srt)).succeeds();
    assert_eq!(
        ran.stdout,
        "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n"
    );
}

/// Adds flags to a run, which come before its command.
fn with_flags(flags: &[&str], srt: &Command) -> Command {
    let mut command = Command::new(srt.get_program());
    command.args(flags).args(srt.get_args());
    if let Some(directory) = srt.get_current_dir() {
        command.current_dir(directory);
    }
    for (name, value) in srt
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)))
    {
        command.env(name, value);
    }
    command
}

#[test]
fn a_passed_descriptor_reaches_the_command_and_no_other() {
    let scratch = Scratch::new("pass-fd");
    let file = scratch.file("cwd/file", "content\n");
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", "cat <&7; echo /proc/self/fd/[4-9]"]);
    let srt = with_flags(&["--pass-fd", "7"], &srt);
    let open = format!("exec \"$0\" \"$@\" 6<{0} 7<{0}", file.display());
    let ran = run(&mut wrapped(&["sh", "-c", &open], &srt)).succeeds();
    assert_eq!(ran.stdout, "content\n/proc/self/fd/7\n");
}

#[test]
fn a_descriptor_that_is_not_open_cannot_name_a_file_of_ours() {
    let scratch = Scratch::new("pass-ours");
    let events = scratch.path("events");
    let srt = Srt::new(&scratch).into_command(&["true"]);
    let events = events.to_str().expect("ASCII");
    for number in ["3", "4", "5", "6", "7", "8"] {
        let ran = run(&mut with_flags(
            &["--events", events, "--pass-fd", number],
            &srt,
        ));
        ran.is_refused(&format!("descriptor {number} is not open"));
    }
}

#[test]
fn make_shares_its_job_slots_with_a_make_inside() {
    let scratch = Scratch::new("make");
    scratch.file(
        "cwd/Makefile",
        "all:\n\t+@$(SRT) make -f sub --no-print-directory\n",
    );
    scratch.file("cwd/sub", "all: a b\na b:\n\t@echo $@ $(MAKEFLAGS)\n");
    let srt = Srt::new(&scratch).into_command(&["true"]);
    let words: Vec<_> = [srt.get_program()]
        .into_iter()
        .chain(srt.get_args())
        .collect();
    let line = words[..words.len() - 1].join(OsStr::new(" "));
    let mut make = Command::new("make");
    make.arg("-j2")
        .arg([OsStr::new("SRT="), &line].concat_words())
        .current_dir(scratch.path("cwd"));
    let ran = run(&mut make).succeeds();
    assert!(ran.shows("jobserver-auth="), "{}", ran.stdout);
    assert!(!ran.shows("jobserver unavailable"), "{}", ran.stderr);
}

trait ConcatWords {
    fn concat_words(&self) -> OsString;
}

impl ConcatWords for [&OsStr; 2] {
    fn concat_words(&self) -> OsString {
        let mut joined = self[0].to_owned();
        joined.push(self[1]);
        joined
    }
}

#[test]
fn a_named_job_server_can_be_used_where_nothing_else_is_writable() {
    let scratch = Scratch::new("fifo");
    let fifo = scratch.path("jobs");
    outside(&format!("mkfifo {}", fifo.display())).succeeds();
    let reader = File::options()
        .read(true)
        .write(true)
        .open(&fifo)
        .expect("it is ours");
    let write = format!("printf + > {}", fifo.display());
    Srt::new(&scratch)
        .sh(&format!("timeout 1 sh -c '{write}'"))
        .fails();
    let link = scratch.path("link");
    std::os::unix::fs::symlink(&fifo, &link).expect("the scratch directory is writable");
    for name in [&fifo, &link] {
        let flags = format!(" -j2 --jobserver-auth=fifo:{}", name.display());
        let srt = Srt::new(&scratch).env("MAKEFLAGS", flags);
        srt.sh(&write).succeeds();
        let mut token = [0; 1];
        std::io::Read::read_exact(&mut &reader, &mut token).expect("a token came");
        assert_eq!(&token, b"+");
    }
}

#[test]
fn a_job_server_that_cannot_be_used_keeps_no_command_from_running() {
    let scratch = Scratch::new("stale");
    let hidden = scratch.dir("hidden");
    let file = scratch.file("file", "kept");
    outside(&format!("mkfifo {}/jobs", hidden.display())).succeeds();
    let named = [scratch.path("missing"), hidden.join("jobs"), file.clone()];
    for path in named {
        let flags = format!(" -j2 --jobserver-auth=fifo:{}", path.display());
        let script = format!("echo ran; echo x >>{}", path.display());
        let srt = Srt::new(&scratch).deny_read(&hidden);
        let ran = srt.env("MAKEFLAGS", flags).sh(&script).fails();
        assert_eq!(ran.stdout, "ran\n", "{}", path.display());
    }
    assert_eq!(fs::read_to_string(&file).ok().as_deref(), Some("kept"));
}

#[test]
fn sockets_and_directories_as_standard_descriptors_are_refused() {
    let scratch = Scratch::new("standard");
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", ": > /dev/null"]);
    let open = "
import os, socket, sys
kind, number = sys.argv[1], int(sys.argv[2])
if kind == 'directory': fd = os.open('/', os.O_RDONLY)
elif kind == 'path': fd = os.open('/etc/passwd', os.O_PATH)
elif kind == 'dgram-pair': fd = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].detach()
elif kind == 'eventfd': fd = os.eventfd(0)
elif kind == 'stream-pair':
    ours, theirs = socket.socketpair()
    fd = theirs.detach()
    os.set_inheritable(ours.fileno(), True)
else:
    family, type = kind.split('/')
    fd = socket.socket(getattr(socket, family), getattr(socket, type)).detach()
os.dup2(fd, number)
os.execvp(sys.argv[3], sys.argv[3:])
";
    let refused = [
        "directory",
        "path",
        "dgram-pair",
        "eventfd",
        "AF_INET/SOCK_STREAM",
        "AF_INET/SOCK_DGRAM",
        "AF_INET6/SOCK_STREAM",
        "AF_NETLINK/SOCK_RAW",
        "AF_UNIX/SOCK_DGRAM",
        "AF_UNIX/SOCK_SEQPACKET",
        "AF_UNIX/SOCK_STREAM",
    ];
    for kind in refused {
        for number in ["0", "1"] {
            let ran = run(&mut wrapped(&["python3", "-c", open, kind, number], &srt));
            ran.is_refused("which the sandbox could not confine");
        }
        let ran = run(&mut wrapped(&["python3", "-c", open, kind, "2"], &srt));
        assert_eq!(ran.status, 125, "{kind}");
    }
    for number in ["0", "1", "2"] {
        run(&mut wrapped(
            &["python3", "-c", open, "stream-pair", number],
            &srt,
        ))
        .succeeds();
    }
}

#[test]
fn a_block_device_as_a_standard_descriptor_is_refused() {
    let scratch = Scratch::new("block");
    let find = "for name in /dev/* /dev/*/*; do test -b \"$name\" && echo \"$name\"; done";
    let Some(device) = outside(find).stdout.lines().next().map(str::to_owned) else {
        return skip("there is no block device");
    };
    // Named only, which needs no right to read it, and does not matter to what it is.
    let open = "
import os, sys
os.dup2(os.open(sys.argv[1], os.O_PATH), int(sys.argv[2]))
os.execvp(sys.argv[3], sys.argv[3:])
";
    let srt = Srt::new(&scratch).into_command(&["true"]);
    for (number, name) in [("0", "input"), ("1", "output")] {
        let ran = run(&mut wrapped(
            &["python3", "-c", open, &device, number],
            &srt,
        ));
        let ran = ran.is_refused(&format!("standard {name} is a block device"));
        assert!(ran.shows("redirect it to a file, a pipe or /dev/null"));
    }
}

/// Opens the file on a standard descriptor again, by every name and in every mode.
const REOPEN: &str = "
import os, sys
number = int(sys.argv[1])
standard = '/dev/' + ('stdin', 'stdout', 'stderr')[number]
names = [f'/proc/self/fd/{number}', f'/dev/fd/{number}', standard, f'/proc/{os.getpid()}/fd/{number}',
         f'/proc/thread-self/fd/{number}', f'/proc/self/task/{os.getpid()}/fd/{number}']
modes = {'r': os.O_RDONLY, 'w': os.O_WRONLY, 'rw': os.O_RDWR, 'trunc': os.O_WRONLY | os.O_TRUNC,
         'rtrunc': os.O_RDONLY | os.O_TRUNC, 'append': os.O_WRONLY | os.O_APPEND}
found = set()
for name in names:
    for mode, flags in modes.items():
        try: os.close(os.open(name, flags)); found.add(mode)
        except OSError: pass
    try: os.truncate(name, 0); found.add('truncate')
    except OSError: pass
os.write(int(sys.argv[2]), (' '.join(sorted(found)) + '\\n').encode())
";

#[test]
fn a_file_on_a_standard_descriptor_is_opened_again_as_it_was_and_no_other_way() {
    let scratch = Scratch::new("reopen");
    let all = "append r rtrunc rw trunc truncate w\n";
    let modes = [
        ("read", "r\n", "kept"),
        // Reading is open to it by its name.
        ("append", all, ""),
        ("read-write", all, ""),
    ];
    for (mode, expected, left) in modes {
        for number in 0..=2 {
            let file = scratch.file("file", "kept");
            let open = || {
                let mut options = File::options();
                options.read(mode != "append").append(mode == "append");
                options.write(mode == "read-write").open(&file)
            };
            // Told on a descriptor that is not the file.
            let told = if number == 1 { "2" } else { "1" };
            let words = ["python3", "-c", REOPEN, &number.to_string(), told];
            let say = |command: &mut Command| {
                let open = || Stdio::from(open().expect("it is ours"));
                match number {
                    0 => command.stdin(open()),
                    1 => command.stdout(open()),
                    _ => command.stderr(open()),
                };
                let output = command.output().expect("it can be started");
                String::from_utf8([output.stdout, output.stderr].concat())
            };
            let mut native = Command::new(words[0]);
            let native = say(native.args(&words[1..])).expect("it is ASCII");
            assert_eq!(native, all, "{mode} {number}: the control");
            fs::write(&file, "kept").expect("it is ours");
            let inside = say(&mut Srt::new(&scratch).into_command(&words));
            assert_eq!(inside.as_deref(), Ok(expected), "{mode} {number}");
            assert_eq!(fs::read_to_string(&file).ok().as_deref(), Some(left));
        }
    }
}

/// The links of /proc lead around the mounts that keep a deny below a grant.
#[test]
fn a_file_that_could_be_opened_again_against_the_rules_is_refused() {
    let scratch = Scratch::new("reopen-denied");
    let denied = scratch.file("cwd/denied", "kept\n");
    let (free, hidden) = (
        scratch.file("cwd/free", "in\n"),
        scratch.file("hidden", "secret\n"),
    );
    let srt = || {
        let srt = Srt::new(&scratch).allow_write(scratch.path("cwd"));
        srt.deny_write(&denied).deny_read(&hidden)
    };
    let reopen = "cat >&2; (echo more >>/proc/self/fd/0) 2>/dev/null; true";
    let end = |flags: &[&str], input: &Path, append: Option<&Path>| {
        let mut command = srt().flags(flags).into_command(&["sh", "-c", reopen]);
        command.stdin(File::open(input).expect("it is ours"));
        if let Some(append) = append {
            let output = File::options().append(true).open(append);
            command.stdout(output.expect("it is ours"));
        }
        harness::Ran::from(command.output().expect("srt is built"))
    };
    // What may be written may be opened again.
    end(&[], &free, None);
    assert_eq!(
        fs::read_to_string(&free).ok().as_deref(),
        Some("in\nmore\n")
    );
    end(&[], &denied, None).is_refused("could be opened again for writing");
    end(&[], &free, Some(&hidden)).is_refused("could be opened again for reading");
    // Given on purpose, and to be read alone.
    assert!(end(&[], &hidden, None).succeeds().shows("secret"));
    assert_eq!(fs::read_to_string(&denied).ok().as_deref(), Some("kept\n"));
    // A descriptor that a flag keeps is one as well.
    let kept = srt().flags(&["--pass-fd", "7"]).into_command(&["true"]);
    let open = format!("exec \"$0\" \"$@\" 7<{}", denied.display());
    run(&mut wrapped(&["sh", "-c", &open], &kept)).is_refused("descriptor 7 is");
    // Through a pipe nothing of it can be reached.
    let piped = format!("cat {} | \"$0\" \"$@\"", denied.display());
    let cat = srt().into_command(&["cat"]);
    assert_eq!(
        run(&mut wrapped(&["sh", "-c", &piped], &cat)).stdout,
        "kept\n"
    );
    // Where Landlock has no rules, to let mounts be made, nothing but the mode is left.
    let srt = srt().top("allowNestedUserNamespaces", "mounts".into());
    let mut nested = srt.into_command(&["cat"]);
    let other = scratch.file("elsewhere", "kept\n");
    let output = nested
        .stdin(File::open(other).expect("it is ours"))
        .output();
    harness::Ran::from(output.expect("srt is built")).is_refused("for writing");
}

#[test]
fn a_socket_on_standard_input_cannot_be_connected_to_a_server_of_the_host() {
    let scratch = Scratch::new("unconnected");
    let path = scratch.path("server");
    let server = UnixListener::bind(&path).expect("the scratch directory is writable");
    server.set_nonblocking(true).expect("it is a socket");
    let script = format!(
        "import socket; socket.socket(fileno=0).connect({:?})",
        path.display().to_string()
    );
    let words = ["python3", "-c", &script];
    let open = "
import os, socket, sys
os.dup2(socket.socket(socket.AF_UNIX).detach(), 0)
os.execvp(sys.argv[1], sys.argv[1:])
";
    run(Command::new("python3").args(["-c", open]).args(words)).succeeds();
    assert!(server.accept().is_ok(), "the control came through");
    let srt = Srt::new(&scratch).into_command(&words);
    let ran = run(&mut wrapped(&["python3", "-c", open], &srt));
    ran.is_refused("standard input is a socket that is not connected");
    assert!(server.accept().is_err());
}

#[test]
fn standard_descriptors_can_be_opened_again_by_name() {
    let scratch = Scratch::new("dev-stdout");
    let script =
        "cat /dev/stdin; echo out >/dev/stdout; echo err >/dev/stderr; echo fd >/proc/self/fd/1";
    let pipes = run_with_input(
        &mut Srt::new(&scratch).into_command(&["sh", "-c", script]),
        b"in\n",
    )
    .succeeds();
    assert_eq!(
        (pipes.stdout.as_str(), pipes.stderr.as_str()),
        ("in\nout\nfd\n", "err\n")
    );

    let (input, output) = (scratch.file("input", "in\n"), scratch.file("output", ""));
    let script = "cat /dev/stdin; echo out >>/dev/stdout; ( : >/dev/stdin ) 2>/dev/null && echo reopened for writing";
    let append = File::options()
        .append(true)
        .open(&output)
        .expect("it is ours");
    let mut command = Srt::new(&scratch).into_command(&["sh", "-c", script]);
    let status = command
        .stdin(File::open(&input).expect("just made"))
        .stdout(append)
        .status();
    assert!(status.is_ok());
    assert_eq!(
        fs::read_to_string(&output).ok().as_deref(),
        Some("in\nout\n")
    );
    assert_eq!(
        fs::read_to_string(&input).ok().as_deref(),
        Some("in\n"),
        "opened for reading only"
    );
}

#[test]
fn output_to_a_closed_pipe_ends_the_command() {
    let scratch = Scratch::new("yes");
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", "yes; echo status $? >&2"]);
    let ran = run(&mut wrapped(&["sh", "-c", "\"$0\" \"$@\" | head -1"], &srt)).succeeds();
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("y\n", "status 141\n")
    );
}

#[test]
fn output_to_a_full_device_fails_as_without_a_sandbox() {
    let scratch = Scratch::new("full");
    let end = |command: &mut Command| {
        let full = File::options().write(true).open("/dev/full");
        let output = command.stdout(full.expect("it is there")).output();
        let output = output.expect("it can be started");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let words = ["sh", "-c", "echo x"];
    let native = end(Command::new(words[0]).args(&words[1..]));
    assert_ne!(native.0, Some(0));
    assert_eq!(end(&mut Srt::new(&scratch).into_command(&words)), native);
}
