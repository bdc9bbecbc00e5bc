//! What the command may not do, whoever called.

mod harness;

use std::ffi::OsStr;
use std::fs::{self};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

use harness::{Scratch, Srt, canary, is_root, outside, probe, run, skip, wrapped};

#[test]
fn the_command_has_no_capability_and_cannot_gain_one() {
    let scratch = Scratch::new("capabilities");
    let script = "
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for line in open('/proc/self/status'):
    if line.startswith(('Cap', 'NoNewPrivs', 'Seccomp:')): print(line.split()[0], line.split()[1])
print('securebits', hex(libc.prctl(27, 0, 0, 0, 0)), libc.prctl(28, 0, 0, 0, 0))
";
    let ran = Srt::new(&scratch)
        .run(&["python3", "-c", script])
        .succeeds();
    let none = "0000000000000000";
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
        .map(|set| format!("{set}: {none}\n"))
        .concat();
    // NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE and all locks; see capabilities(7).
    assert_eq!(
        ran.stdout,
        format!("{sets}NoNewPrivs: 1\nSeccomp: 2\nsecurebits 0xef -1\n")
    );
}

#[test]
fn a_set_uid_program_gains_nothing() {
    let scratch = Scratch::new("setuid");
    let found = outside("find /usr/bin /bin -perm -4000 -user root 2>/dev/null | head -1");
    let Some(program) = found.stdout.lines().next() else {
        return skip("this host has no set-uid program");
    };
    let ran = Srt::new(&scratch).sh(&format!(
        "{program} --version >/dev/null 2>&1 </dev/null; grep -h ^CapEff /proc/self/status; id -u"
    ));
    let uid = nix::unistd::geteuid();
    assert_eq!(ran.stdout, format!("CapEff:\t0000000000000000\n{uid}\n"));
}

#[test]
fn ids_the_caller_has_are_mapped_to_themselves_and_no_others() {
    let scratch = Scratch::new("ids");
    let ran = Srt::new(&scratch)
        .sh("cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups")
        .succeeds();
    let words: Vec<_> = ran.stdout.split_whitespace().collect();
    if is_root() {
        // All that the caller has, one to one, and no capability to become one of them.
        let own = |file| fs::read_to_string(file).expect("/proc is mounted");
        let own = own("/proc/self/uid_map") + &own("/proc/self/gid_map");
        let ranges = own.lines().flat_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            [fields[0], fields[0], fields[2]]
        });
        assert_eq!(words, ranges.chain(["deny"]).collect::<Vec<_>>());
        return;
    }
    let (uid, gid) = (
        nix::unistd::geteuid().to_string(),
        nix::unistd::getegid().to_string(),
    );
    assert_eq!(words, [&uid, &uid, "1", &gid, &gid, "1", "deny"]);
}

/// Acts that all need an outer process or open kernel code; see tests/probe/probe.py.
const REFUSED_ACTS: [&str; 29] = [
    "add_key",
    "bpf",
    "clone-user",
    "clone3",
    "fanotify_init",
    "fsopen",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "kcmp",
    "keyctl",
    "mount",
    "move_mount",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "request_key",
    "sethostname",
    "setns",
    "socket-unix-raw",
    "socket-vsock",
    "socket-vsock-dgram",
    "socket-vsock-seqpacket",
    "unshare-mount",
    "unshare-user",
    "unshare-user-high-bits",
    "userfaultfd",
    "vmsplice",
];

#[test]
fn the_kernels_wider_surface_is_refused() {
    let scratch = Scratch::new("surface");
    let mut victim = Command::new("sleep").arg("100").spawn();
    let victim = victim.as_mut().expect("sleep is there");
    let pid = victim.id().to_string();
    let program = probe("probe.py");
    let mut words = vec![
        "python3".as_ref(),
        program.as_os_str(),
        "--pid".as_ref(),
        pid.as_ref(),
    ];
    words.extend(REFUSED_ACTS.map(OsStr::new));
    // With the rights over a namespace of its own, so that the kernel itself refuses little.
    let native = run(Command::new("unshare").arg("-r").args(&words));
    let ran = Srt::new(&scratch).run(&words);
    drop(victim.kill());
    drop(victim.wait());
    let refused = |line: &&str| line.ends_with(" EPERM") || line.ends_with(" ENOSYS");
    let reached = native.stdout.lines().filter(|line| !refused(line)).count();
    assert!(reached >= 20, "{} {}", native.stdout, native.stderr);
    let ran = ran.succeeds();
    for line in ran.stdout.lines() {
        assert!(refused(&line), "{line}");
    }
    assert_eq!(ran.stdout.lines().count(), REFUSED_ACTS.len());
}

#[test]
fn code_of_another_architecture_ends_the_process() {
    if !cfg!(target_arch = "x86_64") {
        return skip("int 0x80 and x32 are those of x86_64");
    }
    let scratch = Scratch::new("int80");
    let program = probe("probe.py");
    let words = [
        "python3".as_ref(),
        program.as_os_str(),
        "int80".as_ref(),
        "x32".as_ref(),
    ];
    let native = run(Command::new(words[0]).args(&words[1..])).succeeds();
    assert!(
        native.shows("int80 ok") || native.shows("int80 signal SIGSEGV"),
        "{}",
        native.stdout
    );
    let ran = Srt::new(&scratch).run(&words).succeeds();
    assert_eq!(ran.stdout, "int80 signal SIGSYS\nx32 signal SIGSYS\n");
}

#[test]
fn no_socket_of_the_host_can_be_connected() {
    let scratch = Scratch::new("unix");
    let path = scratch.path("cwd/socket");
    scratch.dir("cwd");
    let named = UnixListener::bind(&path).expect("the scratch directory is writable");
    let name = scratch.marker().as_bytes();
    let address = SocketAddr::from_abstract_name(name).expect("short");
    let unnamed = UnixListener::bind_addr(&address).expect("the name is free");
    let script = format!(
        "
import socket
for address in ({:?}, '\\0' + {:?}):
    try:
        s = socket.socket(socket.AF_UNIX); s.connect(address); print('connected')
    except OSError as error: print(error.strerror)
",
        path.display().to_string(),
        scratch.marker()
    );
    let words = ["python3", "-c", &script];
    let native = run(Command::new(words[0]).args(&words[1..])).succeeds();
    assert_eq!(native.stdout, "connected\nconnected\n");
    for listener in [&named, &unnamed] {
        listener.accept().expect("the control came through");
        listener.set_nonblocking(true).expect("a socket");
    }
    let ran = Srt::new(&scratch)
        .allow_write(scratch.path("cwd"))
        .run(&words)
        .succeeds();
    assert!(!ran.shows("connected"), "{}", ran.stdout);
    assert!(named.accept().is_err() && unnamed.accept().is_err());
}

#[test]
fn processes_outside_can_be_neither_seen_nor_signalled() {
    let scratch = Scratch::new("outside");
    let mut victim = Command::new("sleep")
        .arg("100")
        .spawn()
        .expect("sleep is there");
    let pid = victim.id().to_string();
    let program = probe("probe.py");
    let acts = [
        "kill",
        "tgkill",
        "pidfd_open",
        "ptrace-seize",
        "prlimit64",
        "setpriority",
    ];
    let mut words: Vec<&OsStr> = vec![
        "python3".as_ref(),
        program.as_os_str(),
        "--pid".as_ref(),
        OsStr::new(&pid),
    ];
    words.extend(acts.map(OsStr::new));
    let native = run(Command::new(words[0]).args(&words[1..6])).succeeds();
    assert_eq!(native.stdout, "kill ok\ntgkill ok\n");
    let ran = Srt::new(&scratch).run(&words).succeeds();
    let everything = Srt::new(&scratch).sh("kill -KILL -1; ls -d /proc/[0-9]* | wc -l");
    let still_there = victim.try_wait();
    drop(victim.kill());
    drop(victim.wait());
    for line in ran.stdout.lines() {
        assert!(
            line.ends_with(" ESRCH") || line.ends_with(" EPERM"),
            "{line}"
        );
    }
    assert_eq!(ran.stdout.lines().count(), acts.len());
    assert!(
        matches!(still_there, Ok(None)),
        "{} {still_there:?}",
        everything.stdout
    );
}

/// Reads memory of the process named, and sets where it may run.
const READ_MEMORY: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
pid = int(sys.argv[1])
address = int(sys.argv[2], 16)
buffer = ctypes.create_string_buffer(8)
class Iov(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
ours, theirs = Iov(ctypes.addressof(buffer), 8), Iov(address, 8)
print(libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0))
try: os.sched_setaffinity(pid, os.sched_getaffinity(0)); print('set')
except OSError: print('refused')
print(os.path.exists(f'/proc/{pid}'))
";

#[test]
fn memory_of_processes_outside_cannot_be_read() {
    let scratch = Scratch::new("memory");
    let mut victim = Command::new("sleep").arg("100").spawn();
    let victim = victim.as_mut().expect("sleep is there");
    let pid = victim.id().to_string();
    let maps = || outside(&format!("head -1 /proc/{pid}/maps")).stdout;
    assert!(harness::wait_until(|| maps().contains("sleep")));
    let address = maps().split('-').next().unwrap_or_default().to_owned();
    let words = ["python3", "-c", READ_MEMORY, &pid, &address];
    let native = run(Command::new(words[0]).args(&words[1..]));
    let ran = Srt::new(&scratch).run(&words);
    drop(victim.kill());
    drop(victim.wait());
    if native.stdout != "8\nset\nTrue\n" {
        return skip("a sibling's memory cannot be read here: see kernel.yama.ptrace_scope");
    }
    assert_eq!(ran.succeeds().stdout, "-1\nrefused\nFalse\n");
}

#[test]
fn system_v_objects_of_the_host_are_invisible_and_none_is_left() {
    let scratch = Scratch::new("ipc");
    let made = outside("ipcmk -M 64");
    let Some(id) = made.stdout.split_whitespace().last().map(str::to_owned) else {
        return skip("ipcmk is missing");
    };
    let list = "tail -qn +2 /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg";
    let native = outside(list).stdout;
    let ran = Srt::new(&scratch)
        .sh(&format!("{list}; ipcmk -M 128 -Q >/dev/null"))
        .succeeds();
    let after = outside(list).stdout;
    outside(&format!("ipcrm -m {id}")).succeeds();
    assert!(native.contains(&id), "{native}");
    assert_eq!(ran.stdout, "");
    assert_eq!(after, native);
}

#[test]
fn the_host_name_is_local() {
    let scratch = Scratch::new("hostname");
    let name = || fs::read_to_string("/proc/sys/kernel/hostname").expect("/proc is mounted");
    let before = name();
    let ran = Srt::new(&scratch)
        .sh("uname -n; hostname other 2>&1; readlink /proc/self/ns/uts; cat /proc/self/cgroup");
    assert_eq!(name(), before);
    assert!(
        !ran.shows(
            &fs::read_link("/proc/self/ns/uts")
                .expect("a link")
                .display()
                .to_string()
        )
    );
    let groups = ran
        .stdout
        .lines()
        .filter(|line| line.matches(':').count() == 2);
    assert!(
        groups.clone().all(|line| line.ends_with(":/")),
        "{}",
        ran.stdout
    );
}

#[test]
fn keys_of_the_caller_are_out_of_reach() {
    let scratch = Scratch::new("keys");
    let secret = canary();
    // A session keyring of the test's own, with one key in it.
    let script = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(250, 1, None) > 0 or sys.exit('SKIPPED')
name = sys.argv[1].encode()
assert libc.syscall(248, b'user', name, name, len(name), -3) > 0 or sys.exit('SKIPPED')
os.execvp(sys.argv[2], sys.argv[2:])
";
    if !cfg!(target_arch = "x86_64") {
        return skip("the numbers of the keyring calls are those of x86_64");
    }
    let words = ["cat", "/proc/keys"];
    let native = run(Command::new("python3")
        .args(["-c", script, &secret])
        .args(words));
    if !native.shows(&secret) {
        return skip("this kernel shows no keys");
    }
    let srt = Srt::new(&scratch).into_command(&words);
    let ran = run(&mut wrapped(&["python3", "-c", script, &secret], &srt));
    assert!(!ran.shows(&secret), "{}", ran.stdout);
}

#[test]
fn a_root_command_owns_nothing_of_root_but_files() {
    if !is_root() {
        return skip("needs root");
    }
    let scratch = Scratch::new("root");
    let file = scratch.file("file", "x");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o0)).expect("it is ours");
    assert!(fs::read(&file).is_ok(), "root reads it outside");
    let words = ["cat", file.to_str().expect("ASCII")];
    Srt::new(&scratch).run(&words).fails();
}

#[test]
fn a_program_in_memory_or_behind_its_loader_is_confined_like_any() {
    let scratch = Scratch::new("memory");
    scratch.dir("closed");
    let script = "
import os, subprocess, sys
program = os.memfd_create('program', 0)
os.write(program, open('/usr/bin/touch', 'rb').read())
name = lambda way: os.path.join(sys.argv[1], way)
subprocess.run([f'/proc/self/fd/{program}', name('memory')], pass_fds=[program])
subprocess.run(['/lib64/ld-linux-x86-64.so.2', '/usr/bin/touch', name('loader')])
subprocess.run(['sh', '-c', 'touch \"$0\"', name('script')])
print('done')
";
    let closed = scratch.path("closed");
    let closed = closed.to_str().expect("UTF-8");
    let made = || fs::read_dir(closed).expect("it was made").count();
    if !std::path::Path::new("/lib64/ld-linux-x86-64.so.2").exists() {
        return skip("the loader of this architecture has another name");
    }
    let ran = Srt::new(&scratch).run(&["python3", "-c", script, closed]);
    assert_eq!(ran.succeeds().stdout, "done\n");
    assert_eq!(made(), 0);
    let mut control = Command::new("python3");
    run(control.args(["-c", script, closed])).succeeds();
    assert_eq!(made(), 3, "the control");
}

#[test]
fn no_signal_reaches_the_caller_by_way_of_a_shared_descriptor() {
    let scratch = Scratch::new("setown");
    let mut victim = Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep is there");
    let script = format!(
        "import fcntl; fcntl.fcntl(1, fcntl.F_SETOWN, {}); print('set')",
        victim.id()
    );
    assert!(run(Command::new("python3").args(["-c", &script])).shows("set"));
    let ran = Srt::new(&scratch).run(&["python3", "-c", &script]);
    assert!(ran.stderr.contains("ProcessLookupError"), "{}", ran.stderr);
    assert!(matches!(victim.try_wait(), Ok(None)), "it still runs");
    victim.kill().expect("our child");
    victim.wait().expect("our child");
}

#[test]
fn nothing_runs_before_others_on_a_processor_or_disk() {
    let scratch = Scratch::new("scheduling");
    if !is_root() {
        return skip("an ordinary user may do none of it outside");
    }
    for act in [
        "chrt -f 1 true",
        "b=$(nice); nice -n -5 sh -c \"[ \\$(nice) -lt $b ]\"",
        "ionice -c1 true",
    ] {
        outside(act).succeeds();
        assert_ne!(Srt::new(&scratch).sh(act).status, 0, "{act}");
    }
}

#[test]
fn a_debugger_works_among_the_commands_own_processes() {
    let scratch = Scratch::new("debugger");
    if outside("strace -V").status != 0 {
        return skip("strace is not installed");
    }
    let ran = Srt::new(&scratch)
        .sh("strace -f -o /dev/stdout sh -c 'true; /bin/true' | grep -c 'execve.* = 0'");
    assert_eq!(ran.succeeds().stdout, "2\n");
}
