//! A web server that can be reached from one network namespace of the test's own, alone.

#![allow(unreachable_pub, reason = "the test file is the crate")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::harness::{Ran, Scratch, Srt, canary, is_root, run};

/// Addresses of RFC 5737, in a network that exists for this test alone.
const CLIENT: &str = "198.51.100.1";
/// Where the server is.
pub const SERVER: &str = "198.51.100.2";

/// A git repository that the server offers as plain files.
#[derive(Debug)]
pub struct Served<'s> {
    scratch: &'s Scratch,
    network: Network,
    /// What its only file holds.
    content: String,
}

impl<'s> Served<'s> {
    /// Makes the repository and serves it, or says why it cannot.
    pub fn start(scratch: &'s Scratch) -> Result<Self, String> {
        let content = canary();
        scratch.file("work/file", &content);
        scratch.dir("www");
        let script = "git init -q && git add file &&
            git -c user.name=t -c user.email=t@example.org commit -q -m t &&
            git clone -q --bare . ../www/repo.git && git -C ../www/repo.git update-server-info";
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command.current_dir(scratch.path("work"));
        command.env("HOME", scratch.dir("home"));
        let ran = run(&mut command);
        if ran.status != 0 {
            return Err(format!("git does not run here: {}", ran.stderr.trim()));
        }
        let network = Network::start(scratch)?;
        Ok(Self {
            scratch,
            network,
            content,
        })
    }

    /// Clones it outside, into a new directory.
    pub fn clone_outside(&self, name: &str) -> Ran {
        let [git, args @ ..] = self.words(name);
        run(&mut self.network.inside(Command::new(git).args(args)))
    }

    /// Clones it in a sandbox that may write into the new directory.
    pub fn clone_inside(&self, name: &str, srt: Srt) -> Ran {
        let words = self.words(name);
        let srt = srt.allow_write(self.scratch.path(name));
        run(&mut self.network.inside(&mut srt.into_command(&words)))
    }

    fn words(&self, name: &str) -> [String; 5] {
        let url = format!("http://{SERVER}:8080/repo.git");
        let target = self.scratch.dir(name).join("clone");
        ["git", "clone", "-q", &url, target.to_str().expect("UTF-8")].map(str::to_owned)
    }

    /// Tells whether a clone into this directory has what was committed.
    pub fn is_cloned(&self, name: &str) -> bool {
        let file = self.scratch.path(name).join("clone/file");
        fs::read_to_string(file).is_ok_and(|content| content == self.content)
    }

    /// Returns how many requests the server has seen.
    pub fn hits(&self) -> usize {
        self.network.hits()
    }
}

/// Two network namespaces with a cable between them, and a server in the farther one.
#[derive(Debug)]
struct Network {
    holder: Child,
    pid: String,
    log: PathBuf,
}

/// Runs in the nearer namespace until its input ends; `$1` is the directory to serve, `$2` the
/// log of requests, `$3` and `$4` the addresses.
const HOLDER: &str = r#"
set -e
unshare --net python3 -c "$SERVE" "$1" 2>"$2" &
server=$!
trap 'kill $server' EXIT
mine=$(readlink /proc/self/ns/net)
while [ "$(readlink /proc/$server/ns/net)" = "$mine" ]; do sleep 0.01; done
there() { nsenter --net=/proc/$server/ns/net "$@"; }
ip link set lo up
ip link add near type veth peer name far netns $server
ip address add "$3/24" dev near
ip link set near up
there ip address add "$4/24" dev far
there ip link set far up
until grep -q listening "$2"; do kill -0 $server; sleep 0.01; done
echo ready
read -r _ || :
"#;

const SERVE: &str = r#"
import http.server, functools, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("", 8080), handler)
print("listening", file=sys.stderr, flush=True)
server.serve_forever()
"#;

impl Network {
    /// Makes the network and starts the server, or says why it cannot.
    fn start(scratch: &Scratch) -> Result<Self, String> {
        let log = scratch.path("requests");
        let mut command = Command::new("unshare");
        if !is_root() {
            command.arg("--map-root-user");
        }
        let mut holder = command
            .args(["--net", "sh", "-c", HOLDER, "holder"])
            .args([&scratch.path("www"), &log])
            .args([CLIENT, SERVER])
            .env("SERVE", SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare does not run here: {error}"))?;
        let mut ready = [0; 5];
        let stdout = holder.stdout.as_mut().expect("piped above");
        if stdout.read_exact(&mut ready).is_err() {
            let said = Ran::from(holder.wait_with_output().expect("it is our child"));
            let said = said.stderr.trim().replace('\n', "; ");
            return Err(format!("no network of two namespaces can be made: {said}"));
        }
        let pid = holder.id().to_string();
        Ok(Self { holder, pid, log })
    }

    /// Returns `command` as one that runs in the nearer namespace.
    fn inside(&self, command: &mut Command) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &self.pid, "--net"]);
        if !is_root() {
            nsenter.args(["--user", "--preserve-credentials"]);
        }
        nsenter.arg("--").arg(command.get_program());
        nsenter.args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => nsenter.env(name, value),
                None => nsenter.env_remove(name),
            };
        }
        if let Some(dir) = command.get_current_dir() {
            nsenter.current_dir(dir);
        }
        nsenter
    }

    fn hits(&self) -> usize {
        let log = fs::read_to_string(&self.log).expect("the holder made it");
        log.matches("\"GET ").count()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The holder ends with its input, and the server with the holder.
        if let Some(mut stdin) = self.holder.stdin.take() {
            drop(stdin.write_all(b"\n"));
        }
        drop(self.holder.wait());
    }
}
