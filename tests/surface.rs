//! Which system calls a command does without, by profile, and what ends a 32-bit program.

mod harness;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use harness::{Ran, Scratch, Srt, run, skip};
use sandbox_runtime as _;
use serde_json::{Value, json};

/// An i386 program that exits with status 7 by `int 0x80`: header, program header, code.
fn program_of_32_bits(scratch: &Scratch) -> PathBuf {
    const BASE: u32 = 0x0804_8000;
    const CODE: u32 = 52 + 32;
    // mov eax, 1 (exit); mov ebx, 7; int 0x80.
    let code = [0xb8, 1, 0, 0, 0, 0xbb, 7, 0, 0, 0, 0xcd, 0x80];
    let size = CODE + 12;
    let mut bytes = Vec::from(*b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0");
    // Executable, for the 80386, version 1.
    bytes.extend([2, 0, 3, 0, 1, 0, 0, 0]);
    for word in [BASE + CODE, 52, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    // Sizes of the two headers, one program header, no sections.
    bytes.extend([52, 0, 32, 0, 1, 0, 40, 0, 0, 0, 0, 0]);
    // PT_LOAD from the start of the file, readable and executable.
    for word in [1, 0, BASE, BASE, size, size, 5, 0x1000] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(code);
    let file = scratch.file("old", bytes);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("we made it");
    file
}

/// Returns the program where this machine runs it without a sandbox.
fn running_program_of_32_bits(scratch: &Scratch) -> Option<PathBuf> {
    let file = program_of_32_bits(scratch);
    match Command::new(&file).status() {
        Ok(status) if status.code() == Some(7) => Some(file),
        _ => {
            skip("this machine runs no i386 programs");
            None
        }
    }
}

const MESSAGE: &str = "srt: warning: a program was ended by SIGSYS: 32-bit programs are not \
                       supported, their first system call ends them; use a 64-bit build\n";

#[test]
fn a_32_bit_program_ends_at_once_with_one_clear_message() {
    let scratch = Scratch::new("old");
    let Some(program) = running_program_of_32_bits(&scratch) else {
        return;
    };
    let ran = Srt::new(&scratch).run(&[&program]);
    assert_eq!(ran.status, 128 + 31, "{ran:?}");
    assert_eq!(ran.stderr, MESSAGE);
}

#[test]
fn a_32_bit_program_of_a_script_is_told_of_once_too() {
    let scratch = Scratch::new("old-script");
    let Some(program) = running_program_of_32_bits(&scratch) else {
        return;
    };
    let events = scratch.path("events");
    let script = format!("{}; exit $?", program.display());
    let ran = Srt::new(&scratch).events(&events).sh(&script);
    assert_eq!(ran.status, 128 + 31, "{ran:?}");
    assert_eq!(ran.stderr.matches(MESSAGE).count(), 1, "{}", ran.stderr);
    let text = fs::read_to_string(&events).expect("srt wrote it");
    let last = text.lines().last().expect("the end is recorded");
    let end: Value = serde_json::from_str(last).expect("a line is JSON");
    let reason = end["reason"].as_str().unwrap_or_default();
    assert!(
        reason.contains("32-bit programs are not supported"),
        "{end}"
    );
}

#[test]
fn a_command_that_ends_otherwise_is_told_nothing_of() {
    let scratch = Scratch::new("silent");
    assert_eq!(Srt::new(&scratch).sh("kill -TERM $$").stderr, "");
    assert_eq!(Srt::new(&scratch).sh("exit 158").stderr, "");
}

/// Makes each call and prints its errno, or 0.
const CALLS: &str = "
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
column = {'x86_64': 0, 'aarch64': 1}[os.uname().machine]
def call(name, numbers, *args):
    ctypes.set_errno(0)
    libc.syscall(numbers[column], *args)
    print(name, ctypes.get_errno())
def attempt(name, act):
    try: act(); print(name, 0)
    except OSError as error: print(name, error.errno)
call('process_vm_readv', (310, 270), os.getpid(), 0, 0, 0, 0, 0)
call('get_mempolicy', (239, 236), 0, 0, 0, 0, 0)
call('mq_unlink', (241, 181), b'/no-such-queue')
call('io_destroy', (207, 1), 0)
stream = socket.socketpair()[0]
call('oob', (44, 206), stream.fileno(), b'x', 1, 1, 0, 0)
attempt('sctp', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132))
attempt('tcp', lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 6))
attempt('filter', lambda: stream.setsockopt(socket.SOL_SOCKET, 26, b'x' * 16))
# Last: from here on the parent is the tracer.
call('ptrace', (101, 117), 0, 0, 0, 0)
sys.stdout.flush()
os._exit(0)
";

fn under(profile: &str) -> Ran {
    let scratch = Scratch::new("profile");
    let mut srt = Srt::new(&scratch);
    srt = srt.top("seccompProfile", json!(profile));
    srt.run(&["python3", "-c", CALLS]).succeeds()
}

/// Returns the errno of each call by name.
fn errnos(ran: &Ran) -> Vec<(&str, i32)> {
    let words = ran.stdout.lines().filter_map(|line| line.split_once(' '));
    words
        .map(|(name, errno)| (name, errno.parse().expect("a number")))
        .collect()
}

#[test]
fn the_strict_profile_takes_calls_away_that_the_default_leaves() {
    const EPERM: i32 = 1;
    const ENOSYS: i32 = 38;
    let (loose, strict) = (under("default"), under("strict"));
    let strict = errnos(&strict);
    let expected = [
        ("process_vm_readv", EPERM),
        ("get_mempolicy", ENOSYS),
        ("mq_unlink", ENOSYS),
        ("io_destroy", ENOSYS),
        ("oob", EPERM),
        ("sctp", EPERM),
        ("tcp", 0),
        ("filter", EPERM),
        ("ptrace", EPERM),
    ];
    assert_eq!(strict, expected);
    // By default each is the kernel's to answer: what it lacks differs from what is refused.
    for ((name, errno), (_, refused)) in errnos(&loose).into_iter().zip(strict) {
        let lacks = errno == ENOSYS && ["get_mempolicy", "mq_unlink", "io_destroy"].contains(&name);
        assert!(errno != refused || name == "tcp" || lacks, "{name} {errno}");
    }
}

#[test]
fn builds_and_interpreters_do_without_what_the_strict_profile_takes() {
    let scratch = Scratch::new("strict-work");
    let work = scratch.dir("work");
    let srt = || {
        Srt::new(&scratch)
            .allow_write(&work)
            .current_dir(&work)
            .top("seccompProfile", json!("strict"))
    };
    let python = "
import asyncio, hashlib, multiprocessing, os, shutil, socket, sqlite3, subprocess, tempfile, threading
assert subprocess.run(['sh', '-c', 'exit 3']).returncode == 3
async def main():
    process = await asyncio.create_subprocess_exec('true')
    assert await process.wait() == 0
    server = await asyncio.start_server(lambda r, w: w.close(), '127.0.0.1', 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b''
asyncio.run(main())
with multiprocessing.get_context('fork').Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
database = sqlite3.connect('data.sqlite')
database.execute('pragma journal_mode=wal')
database.execute('create table t (a)')
database.commit()
shutil.copy('data.sqlite', 'copy.sqlite')
print('done')
";
    let ran = srt().run(&["python3", "-c", python]).succeeds();
    assert_eq!(ran.stdout, "done\n");
    let script = "set -e
printf 'int main(void) { return 4; }\\n' >a.c
printf 'a: a.c\\n\\tcc -o a a.c\\n' >Makefile
make -s -j2
status=0; ./a || status=$?
test $status = 4";
    let has_tools = run(Command::new("sh").args(["-c", "command -v cc && command -v make"]));
    match has_tools.status {
        0 => drop(srt().sh(script).succeeds()),
        _ => skip("there is no compiler or no make"),
    }
}

#[test]
fn an_unknown_profile_is_an_error_that_names_the_known_ones() {
    let scratch = Scratch::new("unknown");
    let srt = Srt::new(&scratch).top("seccompProfile", json!("paranoid"));
    let ran = srt.run(&["true"]).is_refused("seccompProfile");
    assert!(ran.shows("strict"), "{}", ran.stderr);
}
