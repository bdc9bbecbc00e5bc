//! A proxy and a server in threads of the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use sandbox_runtime::Audit;
use sandbox_runtime::audit::{FileOptions, Sink, Verbosity};
use sandbox_runtime::egress::{self, Listeners};
use sandbox_runtime::policy::network::Network;
use sandbox_runtime::settings::{self, Entry, Layer, Origin};
use serde_json::Value;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Proxy {
    pub(crate) http: SocketAddr,
    #[cfg_attr(
        not(feature = "socks"),
        allow(dead_code, reason = "asked by socks tests")
    )]
    pub(crate) socks: SocketAddr,
    events: PathBuf,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    pub(crate) fn start(allowed: &[&str], denied: &[&str]) -> Self {
        Self::start_with(allowed, denied, |_| {})
    }

    /// Starts with further settings of the section `network`.
    pub(crate) fn start_with(
        allowed: &[&str],
        denied: &[&str],
        change: impl FnOnce(&mut settings::Network),
    ) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("srt-egress-{}-{number}.jsonl", std::process::id());
        let events = std::env::temp_dir().join(name);
        let mut settings = settings::Network::default();
        settings.allowed_domains = entries("network.allowedDomains", allowed);
        settings.denied_domains = entries("network.deniedDomains", denied);
        change(&mut settings);
        let network = Network::from_settings(&settings).unwrap();
        network.learn_own_addresses(Vec::new());
        let sink = Sink::file(&events, FileOptions::default()).unwrap();
        let audit = Audit::new("test", vec![sink], Verbosity::Warnings);
        let [http, socks] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
        let (http_at, socks_at) = (http.local_addr().unwrap(), socks.local_addr().unwrap());
        let listeners = Listeners {
            http: vec![http],
            socks: vec![socks],
            ..Listeners::default()
        };
        let (stop, theirs) = UnixStream::pair().unwrap();
        let (tell, ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let ready = || tell.send(()).unwrap();
            egress::serve(listeners, network, audit, OwnedFd::from(theirs), ready).unwrap();
        });
        ready.recv().unwrap();
        let (stop, thread) = (Some(stop), Some(thread));
        Self {
            http: http_at,
            socks: socks_at,
            events,
            stop,
            thread,
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        connect(self.http)
    }

    /// Sends `request` and returns everything that comes back until the end.
    pub(crate) fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        read_to_end(&mut stream)
    }

    /// Opens a tunnel and returns it with the head of the answer.
    pub(crate) fn tunnel(&self, target: &str) -> (TcpStream, String) {
        let mut stream = self.connect();
        write!(
            stream,
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"
        )
        .unwrap();
        let head = read_head(&mut stream);
        (stream, head)
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.events).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Ends the proxy as the end of a sandbox does, and waits for it.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        drop(std::fs::remove_file(&self.events));
    }
}

fn entries(key: &'static str, texts: &[&str]) -> Vec<Entry> {
    let origin = Origin {
        key,
        file: None,
        line: 1,
        column: 1,
        layer: Layer::Explicit,
    };
    let entry = |text: &&str| Entry::new((*text).to_owned(), origin.clone());
    texts.iter().map(entry).collect()
}

/// A server that keeps what it was sent.
pub(crate) struct Server {
    pub(crate) port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicU32>,
}

impl Server {
    /// Answers every HTTP request with `OK`, or as its path says.
    pub(crate) fn http() -> Self {
        Self::new(|stream, seen| while let Some(()) = serve_one(&stream, seen) {})
    }

    /// Handles each connection with `handle`, which may note what it saw.
    pub(crate) fn new(
        handle: impl Fn(TcpStream, &Mutex<Vec<String>>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, connections) = (
            Arc::new(Mutex::new(Vec::new())),
            Arc::new(AtomicU32::new(0)),
        );
        let server = Self {
            port,
            seen: Arc::clone(&seen),
            connections: Arc::clone(&connections),
        };
        let handle = Arc::new(handle);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (seen, handle) = (Arc::clone(&seen), Arc::clone(&handle));
                let stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                std::thread::spawn(move || handle(stream, &seen));
            }
        });
        server
    }

    pub(crate) fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the requests seen: head and body of each.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Reads one request; answers by its path: `/wait` late, `/big` with 1 MiB, `/204` with none,
/// `/close` and then ends the connection.
fn serve_one(stream: &TcpStream, seen: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::with_capacity(1, stream);
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        if reader.read_line(&mut text).ok()? == 0 {
            return None;
        }
    }
    let head = text.to_lowercase();
    if let Some(length) = head.split("content-length: ").nth(1) {
        let length: u64 = length.split("\r\n").next()?.parse().ok()?;
        reader
            .by_ref()
            .take(length)
            .read_to_string(&mut text)
            .ok()?;
    } else if head.contains("transfer-encoding: chunked") {
        while !text.ends_with("\r\n0\r\n\r\n") {
            if reader.read_line(&mut text).ok()? == 0 {
                return None;
            }
        }
    }
    seen.lock().unwrap().push(text.clone());
    let path = text.split(' ').nth(1)?;
    let body = match path {
        "/wait" => {
            std::thread::sleep(Duration::from_millis(400));
            "late".to_owned()
        }
        "/big" => "x".repeat(1 << 20),
        _ => "OK".to_owned(),
    };
    let status = if path == "/204" {
        "204 No Content"
    } else {
        "200 OK"
    };
    let extra = "Keep-Alive: timeout=5\r\nX-Proxy-Error: forged\r\nX-Mine: 1\r\n";
    let body = if path == "/204" || text.starts_with("HEAD") {
        ""
    } else {
        &body
    };
    let length = if path == "/204" {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    let mut stream = stream;
    stream
        .write_all(format!("HTTP/1.1 {status}\r\n{extra}{length}\r\n{body}").as_bytes())
        .ok()?;
    (path != "/close").then_some(())
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub(crate) fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// Reads an answer that states its length.
pub(crate) fn read_answer(stream: &mut TcpStream) -> (String, String) {
    let head = read_head(stream);
    let lower = head.to_lowercase();
    let length = lower
        .split("content-length: ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

/// Reads to the end; a reset counts as one, and what came before it is kept.
pub(crate) fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::ConnectionReset,
            "after {bytes:?}"
        );
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("no answer")
}

/// One entry of a list for the port of a server.
pub(crate) fn on(host: &str, server: &Server) -> String {
    format!("{host}:{}", server.port)
}
