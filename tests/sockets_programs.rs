//! Programs whose processes speak to each other by Unix sockets of their own.

mod harness;

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use harness::{Killed, Scratch, Srt, is_root, outside, run, skip};

const PYTHON: &str = "/usr/bin/python3";

fn start(scratch: &Scratch) -> Srt {
    Srt::new(scratch).allow_write(scratch.dir("cwd"))
}

#[test]
fn asyncio_serves_and_connects_by_path_and_by_abstract_name() {
    let scratch = Scratch::new("asyncio");
    let script = r"
import asyncio
async def echo(reader, writer):
    writer.write(await reader.readline()); await writer.drain(); writer.close()
async def main():
    for path in ('here.sock', '\0abstract'):
        server = await asyncio.start_unix_server(echo, path)
        for _ in range(20):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b'hello\n'); answer = await reader.readline(); writer.close()
        print(repr(path), answer, server.sockets[0].getsockname())
        server.close()
asyncio.run(asyncio.wait_for(main(), 30))
";
    let ran = start(&scratch).run(&[PYTHON, "-c", script]);
    assert_eq!(
        ran.succeeds().stdout,
        "'here.sock' b'hello\\n' here.sock\n'\\x00abstract' b'hello\\n' b'\\x00abstract'\n"
    );
}

#[test]
fn every_kind_of_process_pool_of_python_works() {
    let scratch = Scratch::new("multiprocessing");
    scratch.file(
        "cwd/pools.py",
        r"
import multiprocessing as m
from multiprocessing import shared_memory
def f(x): return x + 1
if __name__ == '__main__':
    s = shared_memory.SharedMemory(create=True, size=64); s.close(); s.unlink()
    for kind in ('fork', 'spawn', 'forkserver'):
        with m.get_context(kind).Pool(2) as pool: print(kind, pool.map(f, [1, 2]))
    with m.Manager() as manager: print('manager', list(manager.list([1])))
",
    );
    let ran = start(&scratch).run(&[PYTHON, "pools.py"]);
    assert_eq!(
        ran.succeeds().stdout,
        "fork [2, 3]\nspawn [2, 3]\nforkserver [2, 3]\nmanager [1]\n"
    );
}

#[test]
fn node_serves_and_connects_by_path() {
    let scratch = Scratch::new("node");
    if outside("node --version").status != 0 {
        return skip("node is not installed");
    }
    let script = "
const net = require('net');
const server = net.createServer(s => s.end('served')).listen('node.sock', () =>
  net.connect('node.sock').on('data', d => console.log(String(d))).on('end', () => server.close()));";
    let ran = start(&scratch).run(&["node", "-e", script]);
    assert_eq!(ran.succeeds().stdout, "served\n");
}

#[test]
fn ssh_replaces_a_control_socket_whose_master_is_gone() {
    let scratch = Scratch::new("ssh");
    if outside("ssh -V").status != 0 {
        return skip("ssh is not installed");
    }
    let script = r"
import os, socket, subprocess
dead = socket.socket(socket.AF_UNIX); dead.bind('control'); dead.listen(1); dead.close()
ran = subprocess.run(['ssh', '-F', 'none', '-o', 'ControlMaster=auto', '-o', 'ControlPath=control',
                      '-o', 'ProxyCommand=false', 'nowhere', 'true'], capture_output=True, text=True)
print(ran.returncode, os.path.exists('control'))
";
    let ran = start(&scratch).run(&[PYTHON, "-c", script]);
    assert_eq!(ran.succeeds().stdout, "255 False\n");
}

#[test]
fn ssh_shares_the_connection_of_a_master_by_its_control_socket() {
    let scratch = Scratch::new("control");
    let server = match SshServer::start(&scratch) {
        Ok(server) => server,
        Err(reason) => return skip(&reason),
    };
    // Only the master can connect; what comes after it has no way but the control socket.
    let script = r#"set -e
call() { ssh -F none -o ControlPath=control -o IdentityFile=../key -o BatchMode=yes \
    -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -o LogLevel=ERROR "$@"; }
relay='import socket, sys
service = socket.socket(socket.AF_UNIX); service.connect("../sshd")
socket.send_fds(socket.socket(fileno=1), [b"x"], [service.fileno()])'
call -M -N -f -o ProxyUseFdpass=yes -o ProxyCommand="python3 -c '$relay'" nowhere
shared() { call -o ProxyCommand=false nowhere "$@"; }
test -S control
echo input | shared 'cat; echo output'
shared 'exit 7' || echo "status $?"
call -O exit nowhere 2>/dev/null
while [ -e control ]; do sleep 0.01; done
shared 'echo output' 2>/dev/null || echo "status $?"
"#;
    let expected = "input\noutput\nstatus 7\nstatus 255\n";
    let mut outside = Command::new("sh");
    outside
        .args(["-c", script])
        .current_dir(scratch.dir("outside"));
    assert_eq!(run(&mut outside).succeeds().stdout, expected);
    assert_eq!(server.sessions(), 1);

    let ran = start(&scratch)
        .allow_socket(scratch.path("sshd"))
        .sh(script);
    assert_eq!(ran.succeeds().stdout, expected);
    assert_eq!(server.sessions(), 2);

    // The server is the host's: without the grant there is no master.
    let ran = start(&scratch).sh(script).fails();
    assert!(ran.stderr.contains("Permission denied"), "{}", ran.stderr);
    assert_eq!(server.sessions(), 2);
}

#[test]
fn watchman_starts_its_service_and_answers_its_clients() {
    let scratch = Scratch::new("watchman");
    if outside("watchman --version").status != 0 {
        return skip("watchman is not installed");
    }
    let script = r#"set -e
watch() { watchman --no-pretty --sockname="$PWD/socket" --logfile="$PWD/log" \
    --statefile="$PWD/state" --pidfile="$PWD/pid" "$@"; }
trap 'watch shutdown-server >/dev/null' EXIT
mkdir project
watch watch "$PWD/project" >/dev/null
test -S socket
clock=$(watch clock "$PWD/project" | sed 's/.*"clock":"\([^"]*\)".*/\1/')
echo changed >project/file
watch since "$PWD/project" "$clock" | grep -o '"name":"file"'
"#;
    let mut outside = Command::new("sh");
    outside
        .args(["-c", script])
        .current_dir(scratch.dir("outside"));
    assert_eq!(run(&mut outside).succeeds().stdout, "\"name\":\"file\"\n");
    let ran = start(&scratch)
        .host_changes(scratch.path("outside"), "the service there ends meanwhile")
        .sh(script);
    assert_eq!(ran.succeeds().stdout, "\"name\":\"file\"\n");
}

#[test]
fn a_database_authenticates_its_peer_on_a_socket_in_the_project() {
    let scratch = Scratch::new("postgres");
    let Some(programs) = postgres() else {
        return skip("postgres is not installed");
    };
    if is_root() {
        return skip("postgres does not run as root");
    }
    // As an ordinary user that exists: `peer` asks SO_PEERCRED for its name.
    let script = format!(
        r#"set -e
PATH=$PATH:{}
initdb -D pg -A peer >/dev/null
pg_ctl -D pg -o "-c listen_addresses='' -k $PWD" -l log -w start >/dev/null
psql -h "$PWD" -d postgres -Atc 'select current_user = session_user'
pg_ctl -D pg -m fast stop >/dev/null"#,
        programs.display()
    );
    let ran = start(&scratch).sh(&script);
    assert_eq!(ran.succeeds().stdout, "t\n");
}

/// A server of the host for secure shells, at the Unix socket `sshd` of a scratch directory,
/// that lets in whoever has `key`.
struct SshServer {
    sessions: Arc<Mutex<Vec<Killed>>>,
}

/// Where Debian has it, which is no directory of ordinary users' PATH.
const SSHD: &str = "/usr/sbin/sshd";

impl SshServer {
    fn start(scratch: &Scratch) -> Result<Self, String> {
        if !Path::new(SSHD).exists() {
            return Err(format!("{SSHD} is not installed"));
        }
        for name in ["key", "host-key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            run(keygen.arg(scratch.path(name))).succeeds();
        }
        let root = scratch.marker();
        let config = format!(
            "HostKey {root}/host-key\nAuthorizedKeysFile {root}/key.pub\n\
             StrictModes no\nUsePAM no\nPidFile none\n"
        );
        let config = scratch.file("config", config);
        let listener = UnixListener::bind(scratch.path("sshd")).expect("the name is free");
        let sessions = Arc::new(Mutex::new(Vec::new()));
        let server = Self {
            sessions: Arc::clone(&sessions),
        };
        // It ends with the process of the tests.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let session = session(&config, &OwnedFd::from(stream));
                sessions.lock().expect("no test panics in it").push(session);
            }
        });
        Ok(server)
    }

    /// Returns how many connections there were.
    fn sessions(&self) -> usize {
        self.sessions.lock().expect("no test panics in it").len()
    }
}

/// Serves one connection.
fn session(config: &Path, stream: &OwnedFd) -> Killed {
    // As root it wants a directory in /run, which is made in a mount namespace of its own.
    let script = "mount -t tmpfs none /run && mkdir /run/sshd && exec \"$@\"";
    let mut command = Command::new(if is_root() { "unshare" } else { SSHD });
    if is_root() {
        command.args(["-m", "sh", "-c", script, "sh", SSHD]);
    }
    let end = || Stdio::from(stream.try_clone().expect("there is room"));
    command.args(["-i", "-e", "-f"]).arg(config);
    command.stdin(end()).stdout(end()).stderr(Stdio::null());
    Killed(command.spawn().expect("it is installed"))
}

fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut programs = versions.flatten().map(|entry| entry.path().join("bin"));
    programs.find(|path| path.join("initdb").exists())
}
