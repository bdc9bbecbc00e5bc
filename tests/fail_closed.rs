//! A protection that cannot be set up ends the launch: the command never runs.

mod harness;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{Ran, Scratch, Srt, canary, nothing_runs_in, outside, run, with_fault, wrapped};
use sandbox_runtime as _;

/// Runs a command that leaves a mark, on a kernel that answers `errno` to `calls`.
struct Refused {
    ran: Ran,
    mark: PathBuf,
}

fn on_a_kernel_that_answers(errno: &str, calls: &str) -> Refused {
    let scratch = Scratch::new("fault");
    let tmp = scratch.dir("tmp");
    let cwd = scratch.dir("cwd");
    let mark = cwd.join("mark");
    let srt = Srt::new(&scratch)
        .allow_write(&cwd)
        .env("TMPDIR", &tmp)
        .into_command(&["touch", "mark"]);
    let ran = with_fault(errno, calls, &srt);
    nothing_runs_in(&scratch);
    let left = fs::read_dir(&tmp).expect("we made it").count();
    assert_eq!(left, 0, "the run directory is gone");
    let mark = if mark.exists() { mark } else { PathBuf::new() };
    Refused { ran, mark }
}

/// Expects a refusal that names the step, the errno and a remedy.
#[track_caller]
fn refused(errno: &str, calls: &str, step: &str) {
    let Refused { ran, mark } = on_a_kernel_that_answers(errno, calls);
    assert_eq!(mark, PathBuf::new(), "{calls} {errno}: the command ran");
    let ran = ran.is_refused(step);
    assert!(
        ran.stderr.contains(errno),
        "{calls} {errno}: {}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("\nhint: "),
        "{calls} {errno}: {}",
        ran.stderr
    );
}

/// The errors by which kernels, limits and container profiles refuse a call.
const ERRNOS: [&str; 4] = ["EPERM", "EINVAL", "ENOSPC", "ENOSYS"];

/// Those of container profiles and of old kernels.
const COMMON: [&str; 2] = ["EPERM", "ENOSYS"];

#[test]
fn the_command_runs_where_nothing_is_refused() {
    let Refused { ran, mark } = on_a_kernel_that_answers("EPERM", "kexec_load");
    ran.succeeds();
    assert_ne!(mark, PathBuf::new());
}

#[test]
fn no_namespaces_no_command() {
    for errno in ERRNOS {
        refused(errno, "clone,clone3", "cannot create namespaces: clone3");
    }
}

#[test]
fn a_limit_on_user_namespaces_is_named_by_its_sysctl() {
    let Refused { ran, .. } = on_a_kernel_that_answers("ENOSPC", "clone,clone3");
    assert!(
        ran.stderr.contains("user.max_user_namespaces"),
        "{}",
        ran.stderr
    );
}

#[test]
fn refused_user_namespaces_are_named_by_their_settings() {
    let Refused { ran, .. } = on_a_kernel_that_answers("EPERM", "clone,clone3");
    assert!(
        ran.stderr.contains("kernel.unprivileged_userns_clone"),
        "{}",
        ran.stderr
    );
    let Refused { ran, .. } = on_a_kernel_that_answers("EINVAL", "clone,clone3");
    assert!(ran.stderr.contains("CONFIG_USER_NS"), "{}", ran.stderr);
}

#[test]
fn clone_does_where_a_container_hides_clone3() {
    let Refused { ran, mark } = on_a_kernel_that_answers("ENOSYS", "clone3");
    ran.succeeds();
    assert_ne!(mark, PathBuf::new());
}

#[test]
fn no_mount_calls_no_command() {
    for errno in COMMON {
        refused(errno, "mount", "cannot separate the sandbox's mounts");
        refused(errno, "open_tree", "cannot copy the view");
        refused(errno, "mount_setattr", "cannot make the path read-only");
        refused(errno, "move_mount", "cannot mount");
        refused(errno, "fsopen", "cannot make a private tmpfs");
        refused(errno, "fsconfig", "cannot make a private tmpfs");
        refused(errno, "fsmount", "cannot make a private tmpfs");
    }
    refused(
        "EPERM",
        "openat2",
        "cannot tell where else something denied is mounted: openat2",
    );
    refused("ENOSYS", "openat2", "cannot find the path");
}

#[test]
fn nothing_done_in_truth_no_command() {
    for (calls, step) in [
        ("mount_setattr", "a path that must be read-only is writable"),
        ("capset", "the command would keep rights it must not have"),
        ("prctl:24", "the command would keep rights it must not have"),
    ] {
        let Refused { ran, mark } = on_a_kernel_that_answers("DONE", calls);
        assert_eq!(mark, PathBuf::new(), "{calls}: the command ran");
        ran.is_refused(step);
    }
}

#[test]
fn no_switch_of_the_root_no_command() {
    for errno in COMMON {
        refused(errno, "pivot_root", "cannot switch to the sandbox's root");
        refused(errno, "umount2", "cannot leave the host's root: umount2");
    }
}

#[test]
fn no_second_file_layer_no_command() {
    let step = "with Landlock";
    for errno in ["EPERM", "EINVAL", "ENOSPC"] {
        refused(errno, "landlock_add_rule", step);
        refused(errno, "landlock_restrict_self", step);
    }
    // Where the kernel has no Landlock, or it is not started, only the version is asked for.
    for errno in ["ENOSYS", "EOPNOTSUPP"] {
        let Refused { ran, mark } = on_a_kernel_that_answers(errno, "landlock_create_ruleset");
        assert_eq!(mark, PathBuf::new());
        let ran = ran.is_refused(step);
        assert!(
            ran.stderr.contains("hint: srt needs Landlock"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn no_system_call_filter_no_command() {
    for errno in ["EPERM", "EINVAL", "ENOSYS", "EBUSY", "ENOMEM"] {
        refused(errno, "seccomp", "cannot install the system call filter");
    }
}

/// Installs seccomp filters that allow everything, then executes the words: `full` as many as
/// the kernel takes, `room` one, `listener` one whose calls another process could answer.
const WITH_FILTERS: &str = "
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
number = {'x86_64': 317, 'aarch64': 277}[os.uname().machine]
def install(length, flags):
    code = ctypes.create_string_buffer(struct.pack('=HBBI', 6, 0, 0, 0x7fff0000) * length)
    program = struct.pack('HP', length, ctypes.addressof(code))
    return libc.syscall(number, 1, flags, program)
kind = sys.argv[1]
if kind == 'listener':
    listener = install(1, 8)
    assert listener >= 0
    os.set_inheritable(listener, True)
if kind == 'room': assert install(4096, 0) == 0
if kind == 'full':
    for length in (4096, 64, 1):
        while install(length, 0) == 0: pass
os.execvp(sys.argv[2], sys.argv[2:])
";

fn under_filters(kind: &str, command: &Command) -> Ran {
    run(&mut wrapped(
        &["python3", "-c", WITH_FILTERS, kind],
        command,
    ))
}

#[test]
fn no_room_for_another_filter_no_command() {
    let scratch = Scratch::new("filters");
    let cwd = scratch.dir("cwd");
    let under = |kind: &str| {
        let srt = Srt::new(&scratch).allow_write(&cwd);
        under_filters(kind, &srt.into_command(&["touch", "mark"]))
    };
    under("full").is_refused("cannot install the system call filter: seccomp: ENOMEM");
    assert!(!cwd.join("mark").exists(), "the command ran");
    under("room").succeeds();
    assert!(cwd.join("mark").exists(), "one filter leaves room for ours");
}

#[test]
fn a_sandbox_that_judges_calls_itself_is_no_place_for_another() {
    let scratch = Scratch::new("judged");
    let cwd = scratch.dir("cwd");
    let srt = Srt::new(&scratch).allow_write(&cwd);
    let ran = under_filters("listener", &srt.into_command(&["touch", "mark"]));
    let ran = ran.is_refused("cannot have the command's calls judged");
    assert!(ran.stderr.contains("EBUSY"), "{}", ran.stderr);
    assert!(!cwd.join("mark").exists(), "the command ran");
}

#[test]
fn a_filter_of_the_callers_with_a_listener_takes_nothing_away() {
    let scratch = Scratch::new("listener");
    let file = scratch.file("file", "kept");
    let script = format!(
        "grep Seccomp_filters /proc/self/status; ls /proc/self/fd; echo x >{}",
        file.display()
    );
    let srt = Srt::new(&scratch)
        .set("network.allowAllUnixSockets", true.into())
        .into_command(&["sh", "-c", &script]);
    let alone = run(&mut wrapped(&["env"], &srt)).fails();
    let ran = under_filters("listener", &srt).fails();
    let filters = |ran: &Ran| {
        ran.stdout
            .lines()
            .next()
            .and_then(|line| line.split_whitespace().nth(1)?.parse::<u32>().ok())
    };
    assert_eq!(filters(&ran), filters(&alone).map(|own| own + 1));
    let descriptors = |ran: &Ran| {
        ran.stdout
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(descriptors(&ran), descriptors(&alone));
    assert_eq!(fs::read_to_string(&file).ok().as_deref(), Some("kept"));
}

#[test]
fn what_only_reports_is_left_out_where_the_caller_has_the_listener() {
    let scratch = Scratch::new("unheard");
    let file = scratch.file("file", "kept");
    let events = scratch.path("events");
    let script = format!("echo x >{}", file.display());
    let srt = Srt::new(&scratch)
        .set("network.mode", "open".into())
        .events(&events)
        .into_command(&["sh", "-c", &script]);
    let heard = |events: &std::path::Path| {
        let text = fs::read_to_string(events).expect("srt made it");
        text.contains("file.write.unlisted")
    };
    let alone = run(&mut wrapped(&["env"], &srt)).fails();
    assert!(heard(&events) && !alone.shows("not observed"));
    fs::remove_file(&events).expect("srt made it");
    let ran = under_filters("listener", &srt).fails();
    assert!(ran.shows("denials of files are not observed"), "{ran:?}");
    assert!(!heard(&events));
    assert_eq!(fs::read_to_string(&file).ok().as_deref(), Some("kept"));
}

#[test]
fn no_dropped_privileges_no_command() {
    for errno in ERRNOS {
        refused(errno, "capset", "cannot drop capabilities: capset");
        refused(
            errno,
            "prctl",
            "cannot start the sandbox: prctl(PR_SET_DUMPABLE)",
        );
    }
    refused("EPERM", "prctl:1", "prctl(PR_SET_PDEATHSIG)");
    refused("EPERM", "prctl:4", "prctl(PR_SET_DUMPABLE)");
    for (option, call) in [
        ("prctl:28", "for good: prctl(PR_SET_SECUREBITS"),
        ("prctl:24", "capabilities: prctl(PR_CAPBSET_DROP"),
        ("prctl:47", "capabilities: prctl(PR_CAP_AMBIENT"),
        ("prctl:38", "prctl(PR_SET_NO_NEW_PRIVS"),
    ] {
        refused("EPERM", option, call);
    }
}

#[test]
fn no_fresh_keyring_no_command() {
    for errno in ["EPERM", "EINVAL", "ENOSPC", "EDQUOT"] {
        refused(errno, "keyctl", "cannot join a new session keyring");
    }
}

#[test]
fn a_kernel_without_keyrings_has_no_keys_to_hide() {
    let Refused { ran, .. } = on_a_kernel_that_answers("ENOSYS", "keyctl");
    ran.succeeds();
}

#[test]
fn no_closed_descriptors_no_command() {
    for errno in COMMON {
        refused(errno, "close_range", "cannot close inherited descriptors");
    }
}

#[test]
fn no_hand_off_to_the_proxies_no_command() {
    for errno in COMMON {
        refused(errno, "sendmsg", "cannot hand the listeners to the proxies");
        refused(
            errno,
            "socket",
            "cannot make a private directory for the run: bind",
        );
        refused(errno, "socketpair", "cannot start the sandbox: socketpair");
        refused(
            errno,
            "bind",
            "cannot make a private directory for the run: bind",
        );
        refused(
            errno,
            "listen",
            "cannot make a private directory for the run: bind",
        );
    }
}

#[test]
fn no_network_of_its_own_no_command() {
    for errno in COMMON {
        // SIOCSIFFLAGS; NETLINK_SOCK_DIAG.
        refused(
            errno,
            "ioctl:1=35092",
            "cannot bring the sandbox's loopback up: ioctl(SIOCSIFFLAGS)",
        );
        refused(
            errno,
            "socket:2=4",
            "cannot ask for the sandbox's own Unix sockets: socket(NETLINK_SOCK_DIAG)",
        );
    }
}

#[test]
fn no_filled_file_system_no_command() {
    for errno in COMMON {
        refused(errno, "mkdirat", "cannot fill a private tmpfs");
    }
}

#[test]
fn no_limit_no_command() {
    let scratch = Scratch::new("limit");
    let cwd = scratch.dir("cwd");
    let srt = Srt::new(&scratch)
        .allow_write(&cwd)
        .flags(&["--max-files", "64"])
        .into_command(&["touch", "mark"]);
    // RLIMIT_NOFILE.
    for errno in ["EPERM", "EINVAL"] {
        let ran = with_fault(errno, "prlimit64:1=7", &srt);
        ran.is_refused("cannot set a limit for the command: setrlimit");
        assert!(!cwd.join("mark").exists(), "the command ran");
    }
    with_fault("EPERM", "kexec_load", &srt).succeeds();
    assert!(cwd.join("mark").exists(), "the control");
}

#[test]
fn no_watch_on_signals_no_command() {
    for errno in COMMON {
        refused(errno, "signalfd4", "signalfd");
    }
}

#[test]
fn no_working_directory_no_command() {
    for errno in COMMON {
        refused(errno, "chdir", "cannot leave the host's root");
    }
}

/// Prints one line when it may go on, tries to reach a server, and tells how it went.
const CONNECT: &str = "
import os, socket, sys, urllib.request
def direct():
    try: socket.create_connection(('127.0.0.1', int(sys.argv[1])), 2); return 'reached'
    except OSError as error: return error.strerror
def proxied():
    host, port = os.environ['http_proxy'].rsplit('@')[-1].removeprefix('http://').rstrip('/').split(':')
    try: socket.create_connection((host, int(port)), 2); return 'accepted'
    except OSError as error: return error.strerror
print(proxied(), flush=True)
sys.stdin.readline()
print(proxied(), direct(), flush=True)
";

#[test]
fn killed_proxies_close_the_network_and_nothing_else() {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Stdio;

    let scratch = Scratch::new("proxies");
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is up");
    let port = server.local_addr().expect("bound").port().to_string();
    let native = outside(&format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"
    ));
    native.succeeds();
    server.set_nonblocking(true).expect("a socket");
    server.accept().expect("the control came through");

    let mut command = Srt::new(&scratch).into_command(&["python3", "-c", CONNECT, &port]);
    let mut srt = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("srt is built");
    let mut lines = BufReader::new(srt.stdout.take().expect("piped above"));
    let mut line = String::new();
    lines.read_line(&mut line).expect("UTF-8");
    assert_eq!(line, "accepted\n");

    let children = |pid: u32| outside(&format!("cat /proc/{pid}/task/{pid}/children")).stdout;
    let proxies = children(srt.id())
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .find(|pid| children(*pid).trim().is_empty())
        .expect("the proxies are the child that is not init");
    let proxies = nix::unistd::Pid::from_raw(proxies.cast_signed());
    nix::sys::signal::kill(proxies, nix::sys::signal::Signal::SIGKILL).expect("our own");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let busy = outside(&format!(
        "cut -d' ' -f14,15 /proc/{}/stat; sleep 0.5; cut -d' ' -f14,15 /proc/{}/stat",
        srt.id(),
        srt.id()
    ))
    .stdout;
    let ticks: Vec<u32> = busy
        .split_whitespace()
        .filter_map(|tick| tick.parse().ok())
        .collect();
    assert!(
        ticks[2] + ticks[3] - ticks[0] - ticks[1] < 20,
        "srt spins: {busy}"
    );

    let mut stdin = srt.stdin.take().expect("piped above");
    stdin.write_all(b"go on\n").expect("it reads");
    line.clear();
    lines.read_line(&mut line).expect("UTF-8");
    assert_eq!(line, "Connection refused Connection refused\n");
    assert!(srt.wait().expect("our child").success());
    assert!(server.accept().is_err(), "nobody came past the proxies");
    nothing_runs_in(&scratch);
}

#[test]
fn the_denied_file_stays_hidden_when_a_layer_is_refused() {
    let scratch = Scratch::new("hidden");
    let secret = canary();
    let file = scratch.file("secret/file", &secret);
    let read = || {
        Srt::new(&scratch)
            .deny_read(scratch.path("secret"))
            .into_command(&["cat", file.to_str().expect("ASCII")])
    };
    assert!(run(Command::new("cat").arg(&file)).shows(&secret));
    for call in [
        "mount_setattr",
        "move_mount",
        "landlock_restrict_self",
        "seccomp",
        "fsopen",
    ] {
        let ran = with_fault("EPERM", call, &read());
        assert!(!ran.shows(&secret), "{call}");
        ran.is_refused("cannot");
    }
}
