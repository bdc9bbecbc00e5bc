//! The servers of the clients, and what reached them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::harness::{Killed, Ran, Srt, run, run_within};
use super::world::{Answer, World};

/// Names of the servers, all at one address.
const NAMES: [&str; 10] = [
    "web.test",
    "npm.test",
    "pypi.test",
    "crates.test",
    "go.test",
    "maven.test",
    "git.test",
    "pg.test",
    "redis.test",
    "rpc.test",
];

const ADDRESS: &str = "192.0.2.20";

/// Variables of the caller that would come before what a script says.
const CALLERS: &str = "CURL_CA_BUNDLE GIT_SSL_CAINFO GRPC_DEFAULT_SSL_ROOTS_FILE_PATH \
    NODE_EXTRA_CA_CERTS PIP_CERT PIP_FIND_LINKS REQUESTS_CA_BUNDLE SSL_CERT_DIR SSL_CERT_FILE";

/// Longest a client may take.
const LIMIT: Duration = Duration::from_secs(100);

/// Servers in the farther namespace, with certificates of a CA of the test.
pub(crate) struct Site<'w> {
    pub(crate) world: &'w World,
    root: PathBuf,
    _server: Killed,
}

impl<'w> Site<'w> {
    pub(crate) fn start(world: &'w World) -> Self {
        let root = world.scratch.dir("site");
        certify(&root);
        repository(&root);
        for name in NAMES {
            world.dns.add(name, Answer::addresses(&[ADDRESS]));
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/site.py");
        let mut command = Command::new("/usr/bin/python3");
        command.arg(script).arg(&root);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.env("HOME", world.scratch.dir("server"));
        let mut server = world.there(move || command.spawn().expect("python3 is installed"));
        wait_for_a_line(&mut server);
        Self {
            world,
            root,
            _server: Killed(server),
        }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.root.join("ca.pem")
    }

    /// Returns a directory for what a client writes, with the script's variables in `common`.
    fn prepared(&self, name: &str, script: &str) -> (PathBuf, String) {
        let dir = self.world.scratch.dir(name);
        let common = format!(
            "set -e\nexport LC_ALL=C\nunset {CALLERS}\nCA={}\nTOOLS={}\n",
            self.ca().display(),
            super::tools().display()
        );
        (dir, format!("{common}{script}"))
    }

    /// Runs a script outside, in a directory of its own.
    pub(crate) fn outside(&self, name: &str, script: &str) -> Ran {
        let (dir, script) = self.prepared(name, script);
        let mut command = Command::new("bash");
        command.args(["-c", &script]).current_dir(&dir);
        command.env("HOME", self.world.scratch.dir("home"));
        run_within(&mut command, b"", LIMIT)
    }

    /// Runs a script in a sandbox that may write a directory of its own.
    pub(crate) fn inside(&self, name: &str, srt: Srt, script: &str) -> Ran {
        let (dir, script) = self.prepared(name, script);
        let srt = srt.allow_write(&dir).current_dir(&dir);
        run_within(&mut srt.into_command(&["bash", "-c", &script]), b"", LIMIT)
    }

    /// Returns what reached the servers under a name while `act` runs.
    pub(crate) fn seen(&self, name: &str, act: impl FnOnce()) -> usize {
        let count = || {
            let log = fs::read_to_string(self.root.join("log")).unwrap_or_default();
            let start = format!("{name} ");
            let logged = log.lines().filter(|line| line.starts_with(&start));
            let requests = self.world.requests_so_far().into_iter();
            let of_name = requests.filter(|request| request.is_for(name));
            logged.count() + of_name.count()
        };
        let before = count();
        act();
        count() - before
    }

    /// Returns where the repository is that can be pushed to.
    pub(crate) fn repository(&self) -> PathBuf {
        self.root.join("repo.git")
    }
}

fn wait_for_a_line(server: &mut Child) {
    let stdout = server.stdout.take().expect("it is piped");
    let mut line = String::new();
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("it can be read");
    assert_eq!(line, "ready\n", "the servers do not come up");
}

/// Makes a CA and a certificate by it for all names.
fn certify(root: &Path) {
    let names = NAMES.map(|name| format!("DNS:{name}")).join(",");
    let script = format!(
        "set -e
key() {{ openssl ecparam -genkey -name prime256v1 -noout -out $1; }}
key ca.key; key site.key
openssl req -x509 -key ca.key -out ca.pem -subj '/CN=Test CA' -days 2 \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
openssl req -new -key site.key -subj /CN=site -out site.csr
printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' '{names}' >extensions
openssl x509 -req -in site.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
    -extfile extensions -out site.pem 2>/dev/null
"
    );
    let mut command = Command::new("sh");
    run(command.args(["-c", &script]).current_dir(root)).succeeds();
}

/// Makes a repository that can be pushed to.
fn repository(root: &Path) {
    let script = "set -e
git init -q --bare -b main repo.git
git -C repo.git config http.receivepack true
git init -q -b main work && cd work
echo 'word of git' >file
git add file
git -c user.name=t -c user.email=t@example.org commit -q -m first
git push -q ../repo.git main
";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(root);
    run(command.env("HOME", root)).succeeds();
}
