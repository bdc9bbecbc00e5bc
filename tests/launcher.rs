//! The launcher itself: what hides it, who may look into it, what lies where it keeps its own.

mod harness;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::{
    Killed, Live, Scratch, Srt, is_root, nothing_runs_in, outside, run, skip, wait_until,
};

#[test]
fn a_hidden_launcher_and_shell_run_what_is_shown_or_say_what_is_hidden() {
    let scratch = Scratch::new("hidden");
    let program = Path::new(env!("CARGO_BIN_EXE_srt"));
    let own = program.parent().expect("it is in a directory");
    let hidden = || {
        Srt::new(&scratch)
            .deny_read(own)
            .deny_read("/usr/local")
            .allow_read(scratch.path("cwd"))
    };
    let look = format!("cat {} | wc -c", program.display());
    assert_ne!(outside(&look).stdout, "0\n", "the control");
    let ran = hidden().sh(&format!("echo ran; {look}")).succeeds();
    assert_eq!(ran.stdout, "ran\n0\n");
    // Connections go by the executor, which is the launcher too.
    let script = "import os, socket
s = socket.socket(socket.AF_UNIX); s.bind(os.environ['TMPDIR'] + '/s'); s.listen()
socket.socket(socket.AF_UNIX).connect(os.environ['TMPDIR'] + '/s'); print('connected')";
    let python = outside("readlink -f /usr/bin/python3").stdout;
    let ran = hidden().run(&[python.trim(), "-c", script]).succeeds();
    assert_eq!(ran.stdout, "connected\n");
    let shell = scratch.dir("shell");
    fs::copy("/bin/sh", shell.join("sh")).expect("sh is there");
    let mine = shell.join("sh");
    let ran = Srt::new(&scratch).deny_read(&shell).run(&[
        mine.to_str().expect("ASCII"),
        "-c",
        "echo ran",
    ]);
    assert!([126, 127].contains(&ran.status), "{}", ran.status);
    assert!(ran.stderr.contains("denyRead"), "{}", ran.stderr);
    assert_eq!(ran.stdout, "");
}

/// Tries to look into a process as another of the same user can.
const LOOK: &str = "
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for pid in sys.argv[1:]:
    found = []
    for name in ('environ', 'mem', 'maps', 'fd', 'exe', 'root', 'cwd', 'auxv'):
        path = f'/proc/{pid}/{name}'
        try:
            if name == 'fd': os.listdir(path)
            elif name in ('exe', 'root', 'cwd'): os.readlink(path)
            else:
                with open(path, 'rb') as file: name == 'mem' or file.read(1)
            found.append(name)
        except OSError: pass
    if libc.ptrace(16, int(pid), 0, 0) == 0:
        os.waitpid(int(pid), 0x40000000); libc.ptrace(17, int(pid), 0, 0)
        found.append('ptrace')
    print(*(found or ['nothing']))
";

#[test]
fn no_process_of_the_same_user_looks_into_launcher_init_or_proxies() {
    let scratch = Scratch::new("look");
    let mut live = Live::start(Srt::new(&scratch).into_command(&["sh", "-c", "echo ready; cat"]));
    assert_eq!(live.line(), "ready");
    let launcher = live.pid().to_string();
    let children = outside(&format!("cat /proc/{launcher}/task/{launcher}/children")).stdout;
    let mut pids: Vec<&str> = children.split_whitespace().collect();
    assert!(pids.len() >= 2, "init and the proxies: {children}");
    pids.push(&launcher);
    for pid in &pids {
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
        let core = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"));
        let soft = core.and_then(|line| line.split_whitespace().nth(4));
        assert_eq!(soft, Some("0"), "{limits}");
    }
    if is_root() {
        drop(live.end().succeeds());
        return skip("root looks into every process: files of /proc are the ordinary user's test");
    }
    let control = Killed(
        Command::new("sleep")
            .arg("100")
            .spawn()
            .expect("sleep is there"),
    );
    let of_control = control.0.id().to_string();
    let look = |pids: &[&str]| {
        let mut python = Command::new("python3");
        run(python.args(["-c", LOOK]).args(pids)).succeeds().stdout
    };
    let native = look(&[&of_control]);
    assert!(
        native.starts_with("environ mem maps fd exe root cwd auxv"),
        "{native}"
    );
    assert_eq!(look(&pids), "nothing\n".repeat(pids.len()));
    drop(live.end().succeeds());
}

#[test]
fn what_others_left_where_runs_are_kept_is_no_obstacle_and_nothing_is_killed_for_it() {
    let scratch = Scratch::new("stale");
    let tmp = scratch.dir("tmp");
    let uid = nix::unistd::geteuid();
    let runs = scratch.dir(&format!("tmp/srt-{uid}"));
    fs::set_permissions(&runs, fs::Permissions::from_mode(0o700)).expect("it is ours");
    let mut victim = Killed(
        Command::new("sleep")
            .arg("100")
            .spawn()
            .expect("sleep is there"),
    );
    let pid = victim.0.id();
    // A run of before whose number another process has now, with a socket nobody serves.
    let stale = scratch.dir(&format!("tmp/srt-{uid}/0123456789abcdef"));
    for name in ["pid", "lock", "srt.pid"] {
        fs::write(stale.join(name), format!("{pid}\n")).expect("it is ours");
        fs::write(runs.join(name), format!("{pid}\n")).expect("it is ours");
    }
    drop(UnixListener::bind(stale.join("egress.sock")).expect("the name is free"));
    // One that somebody holds, as a run that lives does.
    let held = scratch.dir(&format!("tmp/srt-{uid}/fedcba9876543210"));
    let hold = "import fcntl, os, sys, time
d = os.open(sys.argv[1], os.O_RDONLY); fcntl.flock(d, fcntl.LOCK_EX); print('held', flush=True)
time.sleep(100)";
    let mut holder = Command::new("python3");
    holder.args(["-c", hold]).arg(&held).stdout(Stdio::piped());
    let mut holder = Killed(holder.spawn().expect("python3 is there"));
    let mut line = String::new();
    let output = holder.0.stdout.take().expect("piped above");
    BufReader::new(output).read_line(&mut line).expect("UTF-8");
    assert_eq!(line, "held\n");
    if is_root() {
        let foreign = scratch.dir(&format!("tmp/srt-{uid}/aaaaaaaaaaaaaaaa"));
        chown(&foreign, Some(54_321), Some(54_321)).expect("root may");
    }
    for _ in 0..3 {
        let ran = Srt::new(&scratch)
            .env("TMPDIR", &tmp)
            .host_changes(&tmp, "it removes what killed runs left")
            .run(&["echo", "ran"])
            .succeeds();
        assert_eq!(ran.stdout, "ran\n");
    }
    assert!(matches!(victim.0.try_wait(), Ok(None)), "the victim lives");
    assert!(held.exists(), "what is held stays");
    assert!(!stale.exists(), "what nobody holds is removed");
    holder.end();
    nothing_runs_in(&scratch);
    assert!(wait_until(|| {
        let again = Srt::new(&scratch).env("TMPDIR", &tmp);
        let again = again.host_changes(&tmp, "it removes what killed runs left");
        again.run(&["true"]).succeeds();
        !held.exists()
    }));
}
