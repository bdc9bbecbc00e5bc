//! Bytes and requests through the proxies of a sandbox, against a bare relay and no relay.
//!
//! The client is this program again: outside, or inside the sandbox as its command.

mod report;
mod world;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::header::HOST;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use report::{Limit, Line, median, publish};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use tokio::net::TcpStream as AsyncStream;

const GIB: usize = 1 << 30;
const PIPE: usize = 256 * 1024;
const CONNECTIONS: usize = 32;
const REQUESTS: usize = 2000;
const ROUNDS: usize = 5;

/// Where the proxies of a sandbox listen.
const PROXY: &str = "127.0.0.1:3128";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("download") => download(&args[2], args.get(3).map(String::as_str)),
        Some("requests") => requests(&args[2], args.get(3).map(String::as_str)),
        Some("hold") => hold(&args[2]),
        Some("relay") => serve_relay(&args[2]),
        Some("small") => serve_small(),
        Some("forwarder") => serve_forwarder(&args[2]),
        Some("compare") => return compare(),
        _ => return world::enter(&["compare"]),
    }
    ExitCode::SUCCESS
}

fn compare() -> ExitCode {
    let origin = serve(origin);
    let (answering, small) = start(&["small"]);
    let sandbox = Sandbox::new(&[&origin, &small]);
    let mut lines = bytes(&sandbox, &origin);
    lines.extend(rates(&sandbox, &small));
    lines.push(Line {
        what: "Pss of our processes, 32 tunnels open",
        value: sandbox.memory(&origin),
        unit: " MB",
        limit: Limit::AtMost(12.0),
    });
    sandbox.remove();
    drop(answering);
    match publish("Proxies", &lines) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn line(what: &'static str, value: f64, limit: Limit) -> Line {
    Line {
        what,
        value,
        unit: "",
        limit,
    }
}

/// Carries 1 GiB in each way there is.
fn bytes(sandbox: &Sandbox, origin: &str) -> Vec<Line> {
    let (relaying, relay) = start(&["relay", origin]);
    let (mut direct, mut bare, mut bare_cpu) = (vec![], vec![], vec![]);
    let (mut tunnelled, mut tunnelled_cpu) = (vec![], vec![]);
    let (mut captured, mut captured_cpu) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        direct.push(seconds(&mut this(&["download", origin])));
        let before = ticks(relaying.0.id()).unwrap_or(0.0);
        bare.push(seconds(&mut this(&["download", &relay])));
        bare_cpu.push(ticks(relaying.0.id()).unwrap_or(0.0) - before);
        let (taken, used) = sandbox.timed(&["download", PROXY, origin]);
        tunnelled.push(taken);
        tunnelled_cpu.push(used);
        let (taken, used) = sandbox.timed(&["download", origin]);
        captured.push(taken);
        captured_cpu.push(used);
    }
    drop(relaying);
    let [direct, bare, tunnelled, captured] = [direct, bare, tunnelled, captured].map(median);
    let [bare_cpu, tunnelled_cpu, captured_cpu] =
        [bare_cpu, tunnelled_cpu, captured_cpu].map(median);
    let speed = Limit::AtLeast(0.9);
    let cpu = |what, value| Line {
        what,
        value,
        unit: " s",
        limit: Limit::None,
    };
    vec![
        line(
            "1 GiB through CONNECT / bare splice relay, speed",
            bare / tunnelled,
            speed,
        ),
        line(
            "1 GiB captured / bare splice relay, speed",
            bare / captured,
            speed,
        ),
        line(
            "1 GiB through CONNECT / direct loopback, speed",
            direct / tunnelled,
            Limit::None,
        ),
        line(
            "1 GiB captured / direct loopback, speed",
            direct / captured,
            Limit::None,
        ),
        // Absolute seconds say how fast this machine's loopback is; the bare relay is the least
        // any relay can use on it.
        line(
            "CPU of the proxies for 1 GiB through CONNECT / bare splice relay",
            tunnelled_cpu / bare_cpu,
            Limit::AtMost(1.2),
        ),
        line(
            "CPU of the proxies for 1 GiB captured / bare splice relay",
            captured_cpu / bare_cpu,
            Limit::AtMost(1.2),
        ),
        cpu(
            "CPU of the proxies for 1 GiB through CONNECT",
            tunnelled_cpu,
        ),
        cpu("CPU of the bare relay for 1 GiB", bare_cpu),
    ]
}

/// Makes small requests, each an answer of its own.
fn rates(sandbox: &Sandbox, small: &str) -> Vec<Line> {
    let (forwarding, forwarder) = start(&["forwarder", small]);
    let (mut direct, mut bare, mut proxied) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        direct.push(seconds(&mut this(&["requests", small])));
        bare.push(seconds(&mut this(&["requests", &forwarder])));
        proxied.push(sandbox.timed(&["requests", PROXY, small]).0);
    }
    drop(forwarding);
    let [direct, bare, proxied] = [direct, bare, proxied].map(median);
    vec![
        line(
            "small requests on 32 connections / direct, rate",
            direct / proxied,
            Limit::AtLeast(0.5),
        ),
        line("bare forwarder / direct, rate", direct / bare, Limit::None),
        line(
            "small requests / bare forwarder, rate",
            bare / proxied,
            Limit::AtLeast(0.7),
        ),
    ]
}

/// Starts this program as a server in a process of its own; returns that and its address.
fn start(args: &[&str]) -> (Server, String) {
    let mut serving = this(args)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it is this");
    let mut address = String::new();
    let stdout = serving.stdout.take().expect("piped");
    BufReader::new(stdout)
        .read_line(&mut address)
        .expect("it prints its address");
    (Server(serving), address.trim().to_owned())
}

/// A server in a process of its own, which ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let ended = self.0.kill().and_then(|()| self.0.wait());
        ended.expect("it is our child");
    }
}

/// Accepts on a free port and serves each connection on a thread; returns the address.
fn serve(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind((world::ADDRESS, 0)).expect("the world has it");
    let address = listener.local_addr().expect("it is bound").to_string();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let serve = serve.clone();
            client.set_nodelay(true).expect("it is TCP");
            thread::spawn(move || serve(client));
        }
    });
    address
}

/// Answers `GET /large` with 1 GiB and every other request with two bytes.
fn origin(client: TcpStream) {
    let mut writer = client.try_clone().expect("descriptors are left");
    let mut reader = BufReader::new(client);
    let block = vec![b'x'; 1 << 20];
    while let Some(path) = read_head(&mut reader) {
        let answered = if path.ends_with("/large") {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {GIB}\r\n\r\n");
            writer
                .write_all(head.as_bytes())
                .and_then(|()| (0..GIB / block.len()).try_for_each(|_| writer.write_all(&block)))
        } else {
            writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        };
        if answered.is_err() {
            return;
        }
    }
}

/// Reads one request head and returns its target.
fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut first = String::new();
    reader
        .read_line(&mut first)
        .ok()
        .filter(|count| *count > 0)?;
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 2 {
        line.clear();
    }
    first.split(' ').nth(1).map(str::to_owned)
}

/// Relays to `origin` from a free port, and prints its address.
fn serve_relay(origin: &str) {
    let origin = origin.to_owned();
    let address = serve(move |client| relay(&client, &origin));
    print_line(&address);
    loop {
        thread::park();
    }
}

/// The least a relay can do: two blocking threads that splice through a pipe of 256 KiB.
fn relay(client: &TcpStream, origin: &str) {
    let upstream = TcpStream::connect(origin).expect("the origin listens");
    let (from, to) = (client.try_clone(), upstream.try_clone());
    let (from, to) = (
        from.expect("descriptors are left"),
        to.expect("descriptors are left"),
    );
    let forward = thread::spawn(move || pump(&from, &to));
    pump(&upstream, client);
    forward.join().expect("the pump does not panic");
}

fn pump(from: &TcpStream, to: &TcpStream) {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).expect("descriptors are left");
    fcntl_setpipe_size(&write, PIPE).expect("the size is below the limit");
    while let Ok(mut left @ 1..) = splice(from, None, &write, None, PIPE, SpliceFlags::MOVE) {
        while left > 0 {
            match splice(&read, None, to, None, left, SpliceFlags::MOVE) {
                Ok(moved) => left -= moved,
                Err(_) => return,
            }
        }
    }
    drop(to.shutdown(Shutdown::Write));
}

/// Connects to `address`, and on to `target` by CONNECT where one is given.
fn connect(address: &str, target: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("it is TCP");
    if let Some(target) = target {
        let head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("the proxy reads");
        let mut answer = [0; 256];
        let count = stream.read(&mut answer).expect("the proxy answers");
        assert!(
            answer[..count].starts_with(b"HTTP/1.1 200"),
            "the proxy refuses"
        );
    }
    stream
}

/// Reads 1 GiB and prints how long that took.
fn download(address: &str, target: Option<&str>) {
    let mut stream = connect(address, target);
    let start = Instant::now();
    let host = target.unwrap_or(address);
    let head = format!("GET /large HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("the origin reads");
    let mut buffer = vec![0; 1 << 20];
    let mut count = 0;
    while count < GIB {
        match stream.read(&mut buffer).expect("the origin writes") {
            0 => panic!("{count} bytes of {GIB}"),
            read => count += read,
        }
    }
    report_seconds(start);
}

/// Makes small requests on 32 connections and prints how long that took.
///
/// Client and origin speak HTTP by the library that most programs here use, and one thread waits
/// for all connections: with a thread each, the scheduler would be measured.
fn requests(address: &str, target: Option<&str>) {
    let url = target.map_or("/".to_owned(), |target| format!("http://{target}/"));
    let host = target.unwrap_or(address).to_owned();
    on_one_thread(async {
        let mut senders = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream = AsyncStream::connect(address).await.expect("it listens");
            stream.set_nodelay(true).expect("it is TCP");
            let io = TokioIo::new(stream);
            let (sender, connection) = hyper::client::conn::http1::handshake(io)
                .await
                .expect("nothing is sent yet");
            tokio::task::spawn_local(connection);
            senders.push(sender);
        }
        let start = Instant::now();
        let clients = senders.into_iter().map(|sender| {
            let (url, host) = (url.clone(), host.clone());
            tokio::task::spawn_local(ask(sender, url, host))
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.expect("the client succeeds");
        }
        report_seconds(start);
    });
}

async fn ask(mut sender: SendRequest<Empty<Bytes>>, url: String, host: String) {
    for _ in 0..REQUESTS {
        let request = Request::get(&url)
            .header(HOST, &host)
            .body(Empty::new())
            .expect("the URL is one");
        let answer = sender.send_request(request).await;
        let answer = answer.expect("the server answers");
        assert_eq!(answer.status(), 200);
        let body = answer.into_body().collect().await;
        assert_eq!(body.expect("the body is whole").to_bytes(), "ok");
    }
}

/// Answers every request with two bytes, from a free port; prints its address.
fn serve_small() {
    on_one_thread(async {
        let listener = tokio::net::TcpListener::bind((world::ADDRESS, 0)).await;
        let listener = listener.expect("the world has it");
        print_line(&listener.local_addr().expect("it is bound").to_string());
        let answer = service_fn(async |_| {
            Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from_static(b"ok"))))
        });
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).expect("it is TCP");
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::task::spawn_local(connection.serve_connection(TokioIo::new(stream), answer));
        }
    });
}

/// The least that a proxy of two HTTP libraries can do: each request is passed on over the one
/// connection to `origin` that goes with the client's, and nothing is looked at.
fn serve_forwarder(origin: &str) {
    on_one_thread(async {
        let listener = tokio::net::TcpListener::bind((world::ADDRESS, 0)).await;
        let listener = listener.expect("the world has it");
        print_line(&listener.local_addr().expect("it is bound").to_string());
        while let Ok((near, _)) = listener.accept().await {
            near.set_nodelay(true).expect("it is TCP");
            let far = AsyncStream::connect(origin).await.expect("it listens");
            far.set_nodelay(true).expect("it is TCP");
            let io = TokioIo::new(far);
            let shaken = hyper::client::conn::http1::handshake(io).await;
            let (sender, connection) = shaken.expect("nothing is sent yet");
            tokio::task::spawn_local(connection);
            let sender = std::rc::Rc::new(tokio::sync::Mutex::new(sender));
            let forward = service_fn(move |request: Request<hyper::body::Incoming>| {
                let sender = std::rc::Rc::clone(&sender);
                async move { sender.lock().await.send_request(request).await }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::task::spawn_local(connection.serve_connection(TokioIo::new(near), forward));
        }
    });
}

fn on_one_thread(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let runtime = runtime.expect("descriptors are left");
    runtime.block_on(tokio::task::LocalSet::new().run_until(work));
}

/// Opens 32 tunnels and keeps them until standard input closes.
fn hold(target: &str) {
    let tunnels: Vec<_> = (0..CONNECTIONS)
        .map(|_| connect(PROXY, Some(target)))
        .collect();
    drop(std::io::stdout().write_all(b"held\n"));
    let mut rest = Vec::new();
    std::io::stdin()
        .read_to_end(&mut rest)
        .expect("it is a pipe");
    drop(tunnels);
}

fn report_seconds(start: Instant) {
    print_line(&start.elapsed().as_secs_f64().to_string());
}

fn print_line(text: &str) {
    std::io::stdout()
        .write_all(format!("{text}\n").as_bytes())
        .expect("the bench reads");
}

fn this(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.args(args);
    command
}

fn seconds(command: &mut Command) -> f64 {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .expect("it is this program");
    assert!(output.status.success(), "{command:?}");
    String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .expect("it prints seconds")
}

/// Settings that allow the origin alone.
struct Sandbox(PathBuf);

impl Sandbox {
    fn new(origins: &[&str]) -> Self {
        let path = std::env::temp_dir().join(format!("srt-bench-{}.json", std::process::id()));
        let text = format!(r#"{{"network":{{"allowedDomains":{origins:?}}}}}"#);
        std::fs::write(&path, text).expect("the temporary directory is writable");
        Self(path)
    }

    fn remove(self) {
        std::fs::remove_file(self.0).expect("it is ours");
    }

    fn spawn(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
        command
            .arg("-s")
            .arg(&self.0)
            .arg("--")
            .arg(std::env::current_exe().expect("it runs"));
        command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command.spawn().expect("srt is built")
    }

    /// Runs this program inside and returns the seconds it prints, with those of CPU that the
    /// proxies used meanwhile.
    fn timed(&self, args: &[&str]) -> (f64, f64) {
        let mut child = self.spawn(args);
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().expect("piped"));
        let mut used = 0.0;
        thread::scope(|scope| {
            let reading = scope.spawn(|| reader.read_line(&mut line).expect("it prints seconds"));
            // Read while the processes live: the last look before the end is a few ms early.
            while !reading.is_finished() {
                used = cpu_seconds(child.id()).unwrap_or(used);
                thread::sleep(Duration::from_millis(5));
            }
        });
        let status = child.wait().expect("it is our child");
        assert!(status.success(), "{args:?}: {status}");
        (line.trim().parse().expect("it prints seconds"), used)
    }

    /// Returns the sum of Pss of launcher, init and proxies, in MB.
    fn memory(&self, origin: &str) -> f64 {
        let mut child = self.spawn(&["hold", origin]);
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it prints a line");
        let ours = children(child.id()).into_iter().chain([child.id()]);
        let pss = ours.map(|pid| pss(pid).expect("the bench may read it: run as root"));
        let sum: f64 = pss.sum();
        drop(child.stdin.take());
        assert!(child.wait().expect("it is our child").success());
        sum / 1000.0
    }
}

fn children(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// The proxies are the child of the launcher that is in no other pid namespace.
fn cpu_seconds(launcher: u32) -> Option<f64> {
    let outside = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status
            .lines()
            .find(|line| line.starts_with("NSpid:"))
            .unwrap_or_default();
        line.split_whitespace().count() == 2
    };
    ticks(children(launcher).into_iter().find(outside)?)
}

/// Returns the seconds of CPU a process has used.
fn ticks(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<_> = stat.rsplit(')').next()?.split_whitespace().collect();
    // utime and stime, in ticks of 10 ms; see proc_pid_stat(5).
    let ticks: f64 = fields
        .get(11..13)?
        .iter()
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    Some(ticks / 100.0)
}

fn pss(pid: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find(|line| line.starts_with("Pss:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
