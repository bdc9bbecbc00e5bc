//! Connections through the proxies of a sandbox: how many a second, against the program whose
//! settings ours reads, and what those cost that only wait.
//!
//! The client is this program again, as the command of either sandbox.

mod report;
mod world;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use report::{Limit, Line, median, publish};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Clients that connect at the same time.
const CLIENTS: usize = 32;
const OURS: usize = 8000;
const REFERENCE: usize = 640;
const ROUNDS: usize = 3;

/// Tunnels that wait, and where descriptors are too few for them.
const IDLE: usize = 10_000;
const FEW_IDLE: usize = 4000;

/// The package of the other program, as npm names it.
const PACKAGE: &str = "@anthropic-ai/sandbox-runtime@0.0.83";

fn main() -> ExitCode {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("the kernel tells");
    // Only root may have more than its hard limit.
    let wanted = hard.max(4 * IDLE as u64);
    let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted);
    let hard = raised.map_or(hard, |()| wanted);
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("up to the hard limit it may be raised");
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("compare") => return compare(Path::new(&args[2]), descriptors(hard)),
        Some("echo") => echo(),
        Some("connect") => connect_often(&args[2], args[3].parse().expect("a number"), args.get(4)),
        Some("hold") => hold(&args[2], args[3].parse().expect("a number")),
        _ => match install() {
            Some(package) => {
                return world::enter(&["compare", &package.to_string_lossy()]);
            }
            None => return ExitCode::FAILURE,
        },
    }
    ExitCode::SUCCESS
}

/// Tells how many tunnels there can be: each takes a descriptor of client and server, two of
/// the proxies.
fn descriptors(limit: u64) -> usize {
    match limit > 2 * IDLE as u64 + 100 {
        true => IDLE,
        false => FEW_IDLE,
    }
}

/// Fetches the other program, once.
fn install() -> Option<PathBuf> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reference-bench");
    let modules = home.join("node_modules");
    if !modules.exists() {
        std::fs::create_dir_all(&home).expect("the target directory is writable");
        std::fs::write(home.join("package.json"), r#"{"private":true}"#).expect("it is writable");
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            PACKAGE,
            "node@24",
        ]);
        let fetched = npm.current_dir(&home).status();
        fetched.ok().filter(|status| status.success())?;
    }
    Some(modules)
}

fn compare(modules: &Path, idle: usize) -> ExitCode {
    let (serving, origin) = start_echo();
    let bound = format!(r#","limits":{{"connections":{}}}"#, idle + 100);
    let settings = Settings::new("ours", &origin, &bound);
    let plain = Settings::new("theirs", &origin, "");
    let ours = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
        command.arg("-s").arg(&settings.0).arg("--").arg(this());
        command.args(args);
        command
    };
    let theirs = |args: &[&str]| {
        let mut command = Command::new(modules.join(".bin/node"));
        let program = modules.join("@anthropic-ai/sandbox-runtime/dist/cli.js");
        command.arg(program).arg("--settings").arg(&plain.0);
        command.arg("--").arg(this()).args(args);
        command
    };
    let (count, few) = (OURS.to_string(), REFERENCE.to_string());
    let (mut through, mut captured, mut reference, mut direct) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        through.push(rate(ours(&["connect", &origin, &count, "proxy"])));
        captured.push(rate(ours(&["connect", &origin, &count])));
        let mut alone = Command::new(this());
        alone.args(["connect", &origin, &count]);
        direct.push(rate(alone));
        reference.push(rate(theirs(&["connect", &origin, &few, "proxy"])));
    }
    let [through, captured, reference, direct] = [through, captured, reference, direct].map(median);
    let memory = memory_of(ours(&["hold", &origin, &idle.to_string()]));
    let lines = [
        Line {
            what: "new connections by CONNECT / sandbox-runtime 0.0.83",
            value: through / reference,
            unit: "",
            limit: Limit::AtLeast(20.0),
        },
        Line {
            what: "new captured connections / sandbox-runtime 0.0.83 by CONNECT",
            value: captured / reference,
            unit: "",
            limit: Limit::None,
        },
        Line {
            what: "new connections by CONNECT / direct",
            value: through / direct,
            unit: "",
            limit: Limit::None,
        },
        Line {
            what: "new captured connections / direct",
            value: captured / direct,
            unit: "",
            limit: Limit::None,
        },
        Line {
            what: match idle {
                IDLE => "Pss of our processes, 10,000 tunnels that wait",
                _ => {
                    "Pss of our processes, 4,000 tunnels that wait (RLIMIT_NOFILE is too low for 10,000)"
                }
            },
            value: memory,
            unit: " MB",
            limit: Limit::AtMost(100.0),
        },
    ];
    settings.remove();
    plain.remove();
    drop(serving);
    match publish("Connections", &lines) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Settings that allow the origin alone.
struct Settings(PathBuf);

impl Settings {
    /// `bound` is a key of ours alone.
    fn new(name: &str, origin: &str, bound: &str) -> Self {
        let name = format!("srt-bench-{}-{name}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let host = world::ADDRESS;
        let text = format!(
            r#"{{"network":{{"allowedDomains":["{host}","{origin}"],"deniedDomains":[]{bound}}},
                "filesystem":{{"denyRead":[],"allowWrite":[],"denyWrite":[]}}}}"#
        );
        std::fs::write(&path, text).expect("the temporary directory is writable");
        Self(path)
    }

    fn remove(self) {
        std::fs::remove_file(self.0).expect("it is ours");
    }
}

fn this() -> PathBuf {
    std::env::current_exe().expect("it runs")
}

/// Runs a client and returns how many connections it made a second.
fn rate(mut command: Command) -> f64 {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.expect("it is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    let rate = text.trim().parse();
    rate.unwrap_or_else(|_| panic!("{command:?}: {} {text}", output.status))
}

/// Starts a server in a process of its own that sends back what it gets.
fn start_echo() -> (Server, String) {
    let mut command = Command::new(this());
    let serving = command.arg("echo").stdout(Stdio::piped()).spawn();
    let mut serving = serving.expect("it is this program");
    let line = line_of(&mut serving);
    (Server(serving), line)
}

/// A server in a process of its own, which ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.0.kill().and_then(|()| self.0.wait());
        ended.expect("it is our child");
    }
}

fn line_of(child: &mut Child) -> String {
    let mut line = String::new();
    let stdout = child.stdout.as_mut().expect("piped");
    BufReader::new(stdout)
        .read_line(&mut line)
        .expect("it prints a line");
    line.trim().to_owned()
}

fn echo() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    runtime.expect("descriptors are left").block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("descriptors are left");
        let address = format!("{}:0", world::ADDRESS).parse().expect("it is one");
        socket.bind(address).expect("the world has it");
        let listener = socket.listen(4096).expect("it is bound");
        print(&listener.local_addr().expect("it is bound").to_string());
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..count]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
}

/// Makes `count` connections, each for one exchange, and prints how many it made a second.
fn connect_often(target: &str, count: usize, by: Option<&String>) {
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                for _ in 0..count / CLIENTS {
                    exchange(&mut open(target, by.is_some()));
                }
            });
        }
    });
    let made = f64::from(u32::try_from(count).expect("a few thousand"));
    print(&(made / start.elapsed().as_secs_f64()).to_string());
}

fn exchange(stream: &mut TcpStream) {
    stream.write_all(b"ping").expect("the server reads");
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).expect("the server answers");
    assert_eq!(&answer, b"ping");
}

/// Connects to `target`, by the proxy that the environment names or as if there were none.
fn open(target: &str, by_proxy: bool) -> TcpStream {
    if !by_proxy {
        return TcpStream::connect(target).expect("it listens");
    }
    let proxy = proxy();
    let mut stream = TcpStream::connect(&proxy.address).expect("the proxy listens");
    let login = proxy.login.map_or(String::new(), |login| {
        format!("Proxy-Authorization: Basic {login}\r\n")
    });
    let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n");
    stream.write_all(head.as_bytes()).expect("the proxy reads");
    // The server says nothing before the client does: what comes is the answer alone.
    let (mut answer, mut len) = ([0; 1024], 0);
    while !answer[..len].ends_with(b"\r\n\r\n") {
        match stream.read(&mut answer[len..]).expect("the proxy answers") {
            0 => panic!("the proxy ends in its answer"),
            count => len += count,
        }
    }
    let answer = String::from_utf8_lossy(&answer[..len]);
    assert!(answer.contains(" 200 "), "{answer}");
    stream
}

struct Proxy {
    address: String,
    /// In base 64.
    login: Option<String>,
}

#[allow(
    clippy::disallowed_methods,
    reason = "the sandbox says so where its proxy is"
)]
fn proxy() -> Proxy {
    let url = std::env::var("HTTP_PROXY").expect("the sandbox sets it");
    let url = url.trim_start_matches("http://").trim_end_matches('/');
    match url.rsplit_once('@') {
        Some((login, address)) => Proxy {
            address: address.to_owned(),
            login: Some(base64(login.as_bytes())),
        },
        None => Proxy {
            address: url.to_owned(),
            login: None,
        },
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let part = [0, 1, 2].map(|at| u32::from(*chunk.get(at).unwrap_or(&0)));
        let number = part[0] << 16 | part[1] << 8 | part[2];
        for digit in 0..4_usize {
            let value = (number >> (18 - 6 * digit)) & 63;
            text.push(match digit > chunk.len() {
                true => '=',
                false => LETTERS[value as usize].into(),
            });
        }
    }
    text
}

/// Opens `count` tunnels and keeps them until standard input closes.
fn hold(target: &str, count: usize) {
    let tunnels: Vec<TcpStream> = (0..count).map(|_| open(target, true)).collect();
    print("held");
    let mut rest = Vec::new();
    std::io::stdin()
        .read_to_end(&mut rest)
        .expect("it is a pipe");
    drop(tunnels);
}

/// Returns the sum of Pss of launcher, init and proxies once the client holds its tunnels, in MB.
fn memory_of(mut command: Command) -> f64 {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("srt is built");
    let line = line_of(&mut child);
    assert_eq!(line, "held");
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    let children = std::fs::read_to_string(path).expect("it lives");
    let children = children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok());
    let ours = children.chain([child.id()]);
    let sum: f64 = ours.map(|pid| pss(pid).expect("run as root")).sum();
    drop(child.stdin.take());
    assert!(child.wait().expect("it is our child").success());
    sum / 1000.0
}

fn pss(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Pss:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn print(text: &str) {
    let written = std::io::stdout().write_all(format!("{text}\n").as_bytes());
    written.expect("the bench reads");
}
