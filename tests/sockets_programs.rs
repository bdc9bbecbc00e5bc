//! Programs whose processes speak to each other by Unix sockets of their own.

mod harness;

use std::path::PathBuf;

use harness::{Scratch, Srt, outside, skip};

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
fn a_database_authenticates_its_peer_on_a_socket_in_the_project() {
    let scratch = Scratch::new("postgres");
    let Some(programs) = postgres() else {
        return skip("postgres is not installed");
    };
    if harness::is_root() {
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

fn postgres() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut programs = versions.flatten().map(|entry| entry.path().join("bin"));
    programs.find(|path| path.join("initdb").exists())
}
