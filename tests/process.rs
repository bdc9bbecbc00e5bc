//! What the command gets and gives: its status, arguments and environment.

mod harness;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use harness::{Scratch, Srt, run, run_with_input, skip, wrapped};

#[test]
fn every_exit_status_is_passed_through() {
    let scratch = Scratch::new("status");
    for status in [
        0, 1, 2, 63, 64, 90, 124, 125, 126, 127, 128, 137, 200, 254, 255,
    ] {
        let ran = Srt::new(&scratch).sh(&format!("exit {status}"));
        assert_eq!(ran.status, status);
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn a_command_ended_by_signal_n_gives_128_and_n() {
    let scratch = Scratch::new("signal");
    for signal in [1, 2, 3, 6, 9, 11, 13, 14, 15, 31, 34, 64] {
        let ran = Srt::new(&scratch).sh(&format!("kill -{signal} $$; sleep 5"));
        assert_eq!(ran.status, 128 + signal, "{}", ran.stderr);
    }
}

#[test]
fn what_cannot_be_executed_has_the_status_a_shell_gives_it() {
    let scratch = Scratch::new("exec");
    let cwd = scratch.dir("cwd");
    let file = |name: &str, content: &str, mode| {
        let path = scratch.file(&format!("cwd/{name}"), content);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
        path
    };
    file("plain", "echo plain\n", 0o644);
    file("no-line", "echo no line; exit 3\n", 0o755);
    file("bad-line", "#!/nonexistent/interpreter\n", 0o755);
    file("binary", "\x7fELF garbage\0\0\0", 0o755);
    fs::create_dir(cwd.join("directory")).expect("free");
    fs::copy("/bin/true", cwd.join("busy")).expect("true is there");
    let _writer = File::options()
        .append(true)
        .open(cwd.join("busy"))
        .expect("it is ours");

    let words = [
        "./missing",
        "missing-on-path",
        "./directory",
        "./plain",
        "./bad-line",
        "./no-line",
        "",
        "./plain/below",
    ];
    for word in words {
        let native = run(Command::new("sh")
            .args(["-c", "\"$0\""])
            .arg(word)
            .current_dir(&cwd));
        let ran = Srt::new(&scratch).current_dir(&cwd).run(&[word]);
        assert_eq!(
            ran.status, native.status,
            "{word:?}: {} {}",
            ran.stderr, native.stderr
        );
        if native.status >= 126 {
            assert!(ran.stderr.starts_with("srt: "), "{word:?}: {}", ran.stderr);
        }
    }
    // The writer is a process of ours that a shell would wait for as well.
    let busy = Srt::new(&scratch).current_dir(&cwd).run(&["./busy"]);
    assert_eq!(
        (busy.status, busy.stderr.contains("ETXTBSY")),
        (126, true),
        "{}",
        busy.stderr
    );
}

#[test]
fn a_program_on_a_noexec_mount_is_found_but_not_executed() {
    let scratch = Scratch::new("noexec");
    let mount = scratch.dir("noexec");
    let mounted = |then: &str| {
        format!(
            "mount -t tmpfs -o noexec,mode=0777 none {0} && cp /bin/true {0}/true && {then}",
            mount.display()
        )
    };
    let program = mount.join("true");
    let in_namespace =
        |then: &str| run(Command::new("unshare").args(["-rm", "sh", "-c", &mounted(then)]));
    let native = in_namespace(&format!("sh -c {}", program.display()));
    if native.status != 126 {
        return skip("no mount namespace can be made here");
    }
    let srt = Srt::new(&scratch).into_command(&[&program]);
    let words: Vec<_> = ["unshare", "-rm", "sh", "-c"].map(str::to_owned).into();
    let then = mounted("exec \"$0\" \"$@\"");
    let ran = run(&mut wrapped(&[words, vec![then]].concat(), &srt));
    assert_eq!(ran.status, 126, "{}", ran.stderr);
}

#[test]
fn arguments_arrive_byte_for_byte() {
    let scratch = Scratch::new("arguments");
    let mut seed = 0x5eed_u64;
    let mut random = |below: u64| {
        // Knuth's MMIX generator: a failure can be repeated.
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..200 {
        let words: Vec<OsString> = (0..random(6))
            .map(|_| {
                let bytes =
                    (0..random(12)).map(|_| u8::try_from(random(255) + 1).expect("1..=255"));
                OsString::from_vec(bytes.collect())
            })
            .collect();
        let mut line: Vec<OsString> = ["sh", "-c", "printf '<%s>' \"$@\"", "sh"]
            .map(OsString::from)
            .into();
        line.extend(words.iter().cloned());
        let output = Srt::new(&scratch)
            .into_command(&line)
            .output()
            .expect("srt is built");
        let native = Command::new(&line[0])
            .args(&line[1..])
            .output()
            .expect("sh is there");
        assert_eq!(output.stdout, native.stdout, "{words:?}");
    }
}

#[test]
fn special_words_are_not_interpreted() {
    let scratch = Scratch::new("words");
    let words = [
        "printf", "<%s>", "a; b", "$(id)", "`id`", "*", "-h", "--", "a\nb", "'\"\\", "", "ä",
    ];
    let ran = Srt::new(&scratch).run(&words).succeeds();
    assert_eq!(
        ran.stdout,
        "<a; b><$(id)><`id`><*><-h><--><a\nb><'\"\\><><ä>"
    );
}

#[test]
fn the_longest_argument_works_and_one_byte_more_fails_as_exec_does() {
    let scratch = Scratch::new("longest");
    let with = |length| ["printf".to_owned(), "%s".to_owned(), "x".repeat(length)];
    let ran = Srt::new(&scratch).run(&with(131_071)).succeeds();
    assert_eq!(ran.stdout.len(), 131_071);
    let error = Srt::new(&scratch)
        .into_command(&with(131_072))
        .output()
        .expect_err("too long");
    assert_eq!(error.kind(), std::io::ErrorKind::ArgumentListTooLong);
}

#[test]
fn more_than_two_megabytes_of_arguments_work() {
    let scratch = Scratch::new("megabytes");
    let script = "
import os, resource, sys
_, hard = resource.getrlimit(resource.RLIMIT_STACK)
resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))
try: os.execvp(sys.argv[1], sys.argv[1:] + ['x' * 110000] * 20)
except OSError: print('too long')
";
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", "echo $# ${#20}", "sh"]);
    let ran = run(&mut wrapped(&["python3", "-c", script], &srt)).succeeds();
    if ran.shows("too long") {
        return skip("the hard limit on the stack is too low");
    }
    assert_eq!(ran.stdout, "20 110000\n");
}

#[test]
fn arguments_that_fit_srt_but_not_the_command_are_a_clear_126() {
    let scratch = Scratch::new("e2big");
    // The proxy variables make what the command gets longer than what srt got: somewhere just
    // below the limit on one, the other fails.
    let script = "
import os, sys
low, high = 0, 4000000
while high - low > 1:
    middle = (low + high) // 2
    padding = ['x' * 100000] * (middle // 100000) + ['x' * (middle % 100000)]
    child = os.fork()
    if child == 0:
        try: os.execvp(sys.argv[1], sys.argv[1:] + padding)
        except OSError: os._exit(99)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, 99): sys.exit(status)
    low, high = (middle, high) if status == 0 else (low, middle)
print('never')
";
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", "true"]);
    let ran = run(&mut wrapped(&["python3", "-c", script], &srt));
    assert_eq!(ran.status, 126, "{} {}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("E2BIG"), "{}", ran.stderr);
    assert!(ran.stderr.len() < 10_000, "the message is short");
}

#[test]
fn a_run_that_a_thread_has_started_goes_on_when_the_thread_has_ended() {
    let scratch = Scratch::new("thread");
    let script = "
import subprocess, sys, threading
started = []
start = lambda: started.append(subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(started[0].communicate(b'word\\n')[0].decode(), started[0].returncode)
";
    let srt = Srt::new(&scratch).into_command(&["sh", "-c", "sleep 0.2; read x; echo got-$x"]);
    let ran = run(&mut wrapped(&["python3", "-c", script], &srt)).succeeds();
    assert_eq!(ran.stdout, "got-word\n 0\n");
}

#[test]
fn proc_shows_the_processes_that_the_command_knows_by_the_same_numbers() {
    let scratch = Scratch::new("proc");
    let script = "
cat /proc/$$/comm; sleep 100 & p=$!
until [ \"$(cat /proc/$p/comm)\" = sleep ]; do :; done
test \"$(pgrep -x sleep)\" = $p && echo same
ps ax -o comm= | grep -c -x sleep
kill $(pgrep -x sleep); wait $p; echo $?
echo $$ >own; kill -0 $(cat stale) 2>/dev/null && cat /proc/$(cat stale)/comm || echo gone
";
    // A number that is taken outside, as of a server that left its file.
    scratch.file("cwd/stale", std::process::id().to_string());
    let srt = Srt::new(&scratch).allow_write(scratch.path("cwd"));
    let ran = srt.sh(script).succeeds();
    assert_eq!(ran.stdout, "sh\nsame\n1\n143\ngone\n");
    let own = fs::read_to_string(scratch.path("cwd/own")).expect("it was written");
    assert!(
        own.trim().parse::<u32>().is_ok_and(|own| own < 100),
        "{own}"
    );
}

#[test]
fn standard_input_is_read_to_the_byte_and_left_as_it_was() {
    let scratch = Scratch::new("input");
    let srt = |words: &[&str]| Srt::new(&scratch).into_command(words);
    let ran = run_with_input(&mut srt(&["wc", "-c"]), &vec![0; 3_000_000]);
    assert_eq!(ran.stdout.trim(), "3000000");
    assert_eq!(run(&mut srt(&["wc", "-c"])).stdout.trim(), "0");
    let ran = run_with_input(&mut srt(&["od", "-An", "-tx1"]), b"\0\xff");
    assert_eq!(ran.stdout.trim(), "00 ff");
    // The rest is the caller's, and so is how the pipe is read.
    let rest = wrapped(
        &[
            "sh",
            "-c",
            "\"$@\"; cat; python3 -c 'import os; print(os.get_blocking(0))'",
            "sh",
        ],
        &srt(&["sh", "-c", "read x; echo in:$x"]),
    );
    let ran = run_with_input(&mut { rest }, b"a\nb\nc\n");
    assert_eq!(ran.stdout, "in:a\nb\nc\nTrue\n");
}

#[test]
fn twenty_thousand_arguments_arrive_and_no_shell_of_ours_reads_a_start_file() {
    let scratch = Scratch::new("many");
    let start = scratch.file("start", format!("echo S >>{}/log", scratch.marker()));
    let names = (0..20_000).map(|number| format!("some/long/source/path/file_{number:06}.c"));
    let words: Vec<String> = ["bash", "-c", "echo $#", "bash"].map(str::to_owned).into();
    let words: Vec<String> = words.into_iter().chain(names).collect();
    let srt = || Srt::new(&scratch).allow_write(scratch.path(""));
    let ran = srt().run(&words).succeeds();
    assert_eq!(ran.stdout, "20000\n");
    let with_start = srt().env("BASH_ENV", &start);
    with_start.run(&["bash", "-c", "true"]).succeeds();
    let log = fs::read_to_string(scratch.path("log"));
    assert_eq!(log.ok().as_deref(), Some("S\n"), "by the command alone");
}

#[test]
fn no_argv_at_all_is_a_usage_error() {
    let scratch = Scratch::new("argc");
    let script = "
import ctypes, os, sys
libc = ctypes.CDLL(None)
empty = (ctypes.c_char_p * 1)(None)
libc.execve(sys.argv[1].encode(), empty, empty)
";
    let srt = env!("CARGO_BIN_EXE_srt");
    let ran = run(Command::new("python3")
        .args(["-c", script, srt])
        .current_dir(scratch.dir("cwd")));
    assert_eq!(ran.status, 125, "{} {}", ran.stdout, ran.stderr);
    assert!(!ran.shows("panicked"), "{}", ran.stderr);
}

#[test]
fn the_environment_arrives_byte_for_byte() {
    let scratch = Scratch::new("environment");
    let values = [
        ("LINES_OF_TEXT", b"one\ntwo\n\n".as_slice()),
        ("NOT_UTF_8", b"\xff\xfe\x80 tail"),
        ("EMPTY", b""),
        ("EQUALS", b"a=b=c"),
        ("BASH_FUNC_greet%%", b"() {  echo hello $1\n}"),
    ];
    let start = || {
        values
            .into_iter()
            .fold(Srt::new(&scratch), |srt, (name, value)| {
                srt.env(name, OsStr::from_bytes(value))
            })
    };
    let output = start()
        .into_command(&["env", "-0"])
        .output()
        .expect("srt is built");
    for (name, value) in values {
        let line = [name.as_bytes(), b"=", value].concat();
        assert!(
            output
                .stdout
                .split(|&byte| byte == 0)
                .any(|found| found == line),
            "{name}"
        );
    }
    let ran = start().run(&["bash", "-c", "greet you"]).succeeds();
    assert_eq!(ran.stdout, "hello you\n");
}
