//! One denial of every kind, in turn: what is told of it, and that doing what it suggests makes
//! that act come through and no other.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::Scratch;
use crate::{server, srt};

const ACTS: &str = r#"
import os, socket, sys
port, other = sys.argv[1:3]
def tunnel(target):
    with socket.create_connection(('127.0.0.1', 3128)) as s:
        s.sendall(f'CONNECT {target} HTTP/1.1\r\n\r\n'.encode())
        if s.recv(4096).split()[1] != b'200': raise OSError
def unix():
    with socket.socket(socket.AF_UNIX) as s: s.connect('host.sock')
def raw(): socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
def packet(): socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
acts = {
    'host': lambda: tunnel(f'app.localhost:{port}'),
    'address': lambda: tunnel(f'127.0.0.1:{port}'),
    'port': lambda: tunnel(f'port.localhost:{other}'),
    'rule': lambda: tunnel(f'denied.localhost:{port}'),
    'name': lambda: socket.getaddrinfo('name.example', 443),
    'unix': unix,
    'raw': raw,
    'packet': packet,
    'read': lambda: open('hidden/file').read(1).encode()[0],
    'secret': lambda: open(os.environ['HOME'] + '/.ssh/id_test').read(1).encode()[0],
    'write': lambda: open('ro/file', 'a'),
    'kept': lambda: open('w/kept', 'a'),
    'create': lambda: open('new/file', 'x'),
    'rename': lambda: os.rename('to/from', 'to/file'),
    'protected': lambda: open('w/.envrc', 'a'),
}
for name, act in acts.items():
    try:
        act(); print(name)
    except (OSError, IndexError): pass
"#;

/// Everything that is denied, as the events tell of it: kind, operation, target, code, rule,
/// and what is suggested.
const TOLD: &str = "\
weakening start network.allowPrivateNetworks weakening.network.private - -
net connect app.localhost:PORT net.host.unlisted - +network.allowedDomains app.localhost:PORT
net connect 127.0.0.1:PORT net.host.unlisted - +network.allowedDomains 127.0.0.1:PORT
net connect port.localhost:OTHER net.host.unlisted - +network.allowedDomains port.localhost:OTHER
net connect denied.localhost:PORT net.host.denied network.deniedDomains:denied.localhost -network.deniedDomains denied.localhost
dns resolve name.example dns.name.unlisted - +network.allowedDomains name.example:443
socket connect CWD/host.sock socket.path.unlisted - +network.allowUnixSockets CWD/host.sock
socket socket AF_INET socket.raw.refused - -
socket socket AF_PACKET socket.packet.refused - -
file read CWD/hidden/file file.read.denied filesystem.denyRead:hidden +filesystem.allowRead CWD/hidden/file
file read HOME/.ssh/id_test file.read.secret filesystem.protectSecrets:HOME/.ssh +filesystem.allowRead HOME/.ssh/id_test
file open CWD/ro/file file.write.unlisted - +filesystem.allowWrite CWD/ro/file
file open CWD/w/kept file.write.denied filesystem.denyWrite:w/kept -filesystem.denyWrite w/kept
file create CWD/new/file file.write.unlisted - +filesystem.allowWrite CWD/new
file rename CWD/to/from file.write.unlisted - +filesystem.allowWrite CWD/to
file rename CWD/to/file file.write.unlisted - +filesystem.allowWrite CWD/to
file open CWD/w/.envrc file.write.protected filesystem.allowProtected:.envrc +filesystem.allowProtected .envrc
";

/// What each suggestion of [`TOLD`] makes come through; nothing suggests raw sockets.
const ACHIEVED: [&str; 14] = [
    "host",
    "address",
    "port",
    "rule",
    "name",
    "unix",
    "read",
    "secret",
    "write",
    "kept",
    "create",
    "rename",
    "rename",
    "protected",
];

struct Series {
    scratch: Scratch,
    ports: [String; 2],
    _host: UnixListener,
}

impl Series {
    fn new() -> Self {
        let scratch = Scratch::new("series");
        let files = [
            "cwd/hidden/file",
            "cwd/ro/file",
            "cwd/w/kept",
            "cwd/to/from",
            "cwd/w/.envrc",
            "home/.ssh/id_test",
        ];
        for file in files {
            scratch.file(file, "x");
        }
        scratch.dir("cwd/new");
        let port = |target: String| target.rsplit(':').next().expect("a port").to_owned();
        let host = UnixListener::bind(scratch.path("cwd/host.sock"));
        Self {
            ports: [port(server()), port(server())],
            _host: host.expect("the scratch directory is writable"),
            scratch,
        }
    }

    fn settings(&self) -> Value {
        let [port, _] = &self.ports;
        json!({
            "network": {
                "allowedDomains": [format!("port.localhost:{port}"), "denied.localhost"],
                "deniedDomains": ["denied.localhost"],
                "allowPrivateNetworks": true,
            },
            "filesystem": {
                "denyRead": ["hidden"],
                "allowWrite": ["w"],
                "denyWrite": ["w/kept"],
            },
        })
    }

    /// Performs the acts and returns which came through, and what is told.
    fn run(&self, settings: &Value) -> (Vec<String>, Vec<Value>) {
        fs::write(self.scratch.path("cwd/to/from"), "x").expect("it is ours");
        for made in ["cwd/new/file", "cwd/to/file"] {
            drop(fs::remove_file(self.scratch.path(made)));
        }
        let file = self.scratch.file("s.json", settings.to_string());
        let events = self.scratch.path("events");
        drop(fs::remove_file(&events));
        let text = |path: &Path| path.to_str().expect("test paths are UTF-8").to_owned();
        let [settings, to] = [text(&file), text(&events)];
        let [port, other] = &self.ports;
        let words = [
            "-q",
            "--monitor",
            "--events",
            &to,
            "-s",
            &settings,
            "python3",
            "-ISc",
            ACTS,
            port,
            other,
        ];
        let ran = srt(&self.scratch, &words).succeeds();
        let text = fs::read_to_string(&events).expect("it was written");
        let told = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("an object"))
            .filter(|event| event["verdict"] == "denied" || event["kind"] == "weakening");
        (
            ran.stdout.lines().map(str::to_owned).collect(),
            told.collect(),
        )
    }

    fn line(&self, event: &Value) -> String {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let rule = match &event["rule"] {
            Value::Null => "-".to_owned(),
            rule => format!("{}:{}", text(&rule["key"]), text(&rule["entry"])),
        };
        let suggest = &event["suggest"];
        let suggest = match (suggest["add"].as_str(), suggest["remove"].as_str()) {
            (Some(entry), _) => format!("+{} {entry}", text(&suggest["key"])),
            (_, Some(entry)) => format!("-{} {entry}", text(&suggest["key"])),
            _ => "-".to_owned(),
        };
        let line = format!(
            "{} {} {} {} {rule} {suggest}\n",
            text(&event["kind"]),
            text(&event["op"]),
            text(&event["target"]),
            text(&event["code"]),
        );
        let [port, other] = &self.ports;
        let place = |name: &str| {
            let real = self.scratch.dir(name).canonicalize().expect("it is there");
            real.to_str().expect("test paths are UTF-8").to_owned()
        };
        line.replace(&place("cwd"), "CWD")
            .replace(&place("home"), "HOME")
            .replace(&format!(":{port}"), ":PORT")
            .replace(&format!(":{other}"), ":OTHER")
    }
}

/// Does what an event suggests.
fn change(settings: &mut Value, suggest: &Value) {
    let key = suggest["key"].as_str().expect("a key");
    let (section, name) = key.split_once('.').expect("a key of a section");
    let list = &mut settings[section][name];
    if list.is_null() {
        *list = json!([]);
    }
    let list = list.as_array_mut().expect("a list");
    if let Some(entry) = suggest["add"].as_str() {
        list.push(entry.into());
    }
    if let Some(entry) = suggest["remove"].as_str() {
        list.retain(|other| other != entry);
    }
}

#[test]
fn each_denial_is_told_and_what_it_suggests_makes_that_act_succeed_and_no_other() {
    let series = Series::new();
    let (done, told) = series.run(&series.settings());
    assert_eq!(done, [""; 0]);
    let lines: String = told.iter().map(|event| series.line(event)).collect();
    assert_eq!(lines, TOLD);

    let suggests = told.iter().map(|event| &event["suggest"]);
    let suggests: Vec<_> = suggests.filter(|suggest| !suggest.is_null()).collect();
    assert_eq!(suggests.len(), ACHIEVED.len());
    for (suggest, achieved) in suggests.into_iter().zip(ACHIEVED) {
        let mut settings = series.settings();
        change(&mut settings, suggest);
        let (done, _) = series.run(&settings);
        assert_eq!(done, [achieved], "{suggest}");
    }
}
