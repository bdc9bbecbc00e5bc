//! Environments that no shell makes, and variables that act on the loader.

use std::fs;
use std::process::Command;

use sandbox_runtime::policy::environment::table;

use super::harness::{Scratch, Srt, compiled, run, skip};

/// Starts its arguments with an environment of its own making, which no shell would pass on,
/// and prints what comes out as the environment of the last of them.
const MAKES_AN_ENVIRONMENT: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
big = [b"BIG_%d=" % n + b"x" * 100_000 for n in range(10)]
many = [b"MANY_%d=%d" % (n, n) for n in range(5_000)]
odd = [b"TWICE=1", b"TWICE=2", b"\xff\x01 name=\xfe\n\x7f", b"EQUALS==a=b=", b"EMPTY=", b"*=?",
       b"no equals sign", b"", b"=", b"=nothing before", b"=C:=both"]
path = b"PATH=" + os.environb[b"PATH"]
envp = (ctypes.c_char_p * (len(big) + len(many) + len(odd) + 2))(*odd, *big, *many, path, None)
argv = (ctypes.c_char_p * len(sys.argv))(*[a.encode() for a in sys.argv[1:]], None)
libc.execve(sys.argv[1].encode(), argv, envp)
sys.exit(f"execve: {os.strerror(ctypes.get_errno())}")
"#;

#[test]
fn an_environment_no_shell_would_make_arrives_byte_for_byte() {
    let scratch = Scratch::new("environment");
    let environment_of = |words: Command| {
        let mut python = Command::new("python3");
        python
            .args(["-c", MAKES_AN_ENVIRONMENT])
            .arg(words.get_program())
            .args(words.get_args());
        python.current_dir(scratch.dir("cwd"));
        let output = python.output().expect("python3 exists");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        let entries = output.stdout.split(|&byte| byte == 0).map(<[u8]>::to_vec);
        entries.collect::<Vec<_>>()
    };
    let cat = ["/bin/cat", "/proc/self/environ"];
    let mut direct = Command::new(cat[0]);
    direct.arg(cat[1]);
    let given = environment_of(direct);
    assert!(given.len() > 5_000 && given.contains(&b"no equals sign".to_vec()));
    let found = environment_of(Srt::new(&scratch).into_command(&cat));
    let is_variable = |entry: &&Vec<u8>| entry.iter().skip(1).any(|&byte| byte == b'=');
    let is_named = |entry: &&Vec<u8>| entry.first() != Some(&b'=');
    let expected: Vec<_> = given.iter().filter(is_variable).filter(is_named).collect();
    // Ours follow what the caller has.
    assert!(
        found
            .iter()
            .zip(&expected)
            .all(|(found, expected)| found == *expected)
    );
    let ours = &found[expected.len()..];
    assert_eq!(
        ours.iter().filter(|entry| !entry.is_empty()).count(),
        table::OURS.len()
    );
}

#[test]
fn a_variable_too_long_to_be_added_to_ends_the_run_with_the_reason() {
    let scratch = Scratch::new("environment");
    // The longest that Linux passes, MAX_ARG_STRLEN of linux/binfmts.h with its NUL.
    let longest = "x".repeat(128 * 1024 - "NO_PROXY=".len() - 1);
    let control = run(Command::new("true").env("NO_PROXY", &longest));
    assert_eq!(control.status, 0);
    let ran = Srt::new(&scratch)
        .env("NO_PROXY", &longest)
        .run(&["/bin/true"]);
    assert!((125..=126).contains(&ran.status), "{}", ran.status);
    assert!(
        ran.stderr.contains("E2BIG") || ran.stderr.contains("too long"),
        "{}",
        ran.stderr
    );
    assert!(!ran.shows("xxxxxxxxxx"));
}

/// Writes the name of the program it is loaded into to `srt-preload.log` below `PRELOAD_LOG`.
const LOGS_WHERE_IT_IS_LOADED: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void log_program(void) {
    char exe[4096];
    ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
    const char *log = getenv("PRELOAD_LOG");
    int fd = log ? open(log, O_WRONLY | O_APPEND) : -1;
    if (fd < 0 || length < 0) return;
    exe[length++] = '\n';
    if (write(fd, exe, length) < 0) _exit(99);
    close(fd);
}
"#;

#[test]
fn a_library_set_for_the_command_is_loaded_in_the_command_alone() {
    let scratch = Scratch::new("environment");
    let source = scratch.file("log.c", LOGS_WHERE_IT_IS_LOADED);
    let Some(library) = compiled(&scratch, &source, &["-shared", "-fPIC"]) else {
        return skip("there is no C compiler");
    };
    let log = scratch.file("log", "");
    let programs = || fs::read_to_string(&log).expect("programs have UTF-8 names");
    let start = || {
        Srt::new(&scratch)
            .allow_write(&log)
            .env("PRELOAD_LOG", &log)
    };
    let library = library.to_str().expect("ASCII");

    start()
        .env("LD_PRELOAD", library)
        .run(&["/bin/true"])
        .succeeds();
    let by_the_caller = programs();
    fs::write(&log, "").expect("it is ours");
    start()
        .flags(&["--env", &format!("LD_PRELOAD={library}")])
        .run(&["/bin/true"])
        .succeeds();
    let of_the_command = programs();

    // Linked dynamically, `srt` is a program like any other to the loader.
    let expected = if cfg!(target_feature = "crt-static") {
        1
    } else {
        2
    };
    assert_eq!(by_the_caller.lines().count(), expected, "{by_the_caller}");
    assert_eq!(by_the_caller.matches("/srt\n").count(), expected - 1);
    assert_eq!(of_the_command.lines().count(), 1, "{of_the_command}");
    assert!(!of_the_command.contains("/srt"), "{of_the_command}");
}
