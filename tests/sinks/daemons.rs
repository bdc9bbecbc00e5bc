//! journald and syslog: what they get, and what becomes of it while they are gone.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::{Value, json};

use super::harness::{Scratch, run, wait_until};
use super::{accounted, denied, hosts, srt, unreached};

/// Takes datagrams until one holds the end of a run, or `most` have come.
fn collected(socket: UnixDatagram, most: usize) -> JoinHandle<Vec<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut buffer = vec![0; 1 << 16];
        socket
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("it is a socket");
        while let Ok(len) = socket.recv(&mut buffer) {
            all.push(buffer[..len].to_vec());
            let text = String::from_utf8_lossy(&buffer[..len]);
            if all.len() == most || text.contains("lifecycle.run.end") {
                break;
            }
        }
        all
    })
}

/// Reads an entry of the journal's protocol.
fn fields(mut entry: &[u8]) -> HashMap<String, String> {
    let mut fields = HashMap::new();
    while !entry.is_empty() {
        let end = entry
            .iter()
            .position(|&byte| byte == b'\n')
            .expect("a line end");
        let line = String::from_utf8_lossy(&entry[..end]).into_owned();
        entry = &entry[end + 1..];
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name.to_owned(), value.to_owned()),
            None => {
                let (len, rest) = entry.split_at(8);
                let len = u64::from_le_bytes(len.try_into().expect("eight bytes"));
                let len = usize::try_from(len).expect("it is small");
                entry = &rest[len + 1..];
                (line, String::from_utf8_lossy(&rest[..len]).into_owned())
            }
        };
        assert!(fields.insert(name.clone(), value).is_none(), "{name} twice");
    }
    fields
}

#[test]
fn the_journal_gets_fields_and_a_name_adds_none() {
    let scratch = Scratch::new("journal");
    let socket = scratch.path("journal");
    let reader = collected(UnixDatagram::bind(&socket).expect("ours"), usize::MAX);
    // A name of a socket of the host that would be fields of its own.
    let name = "x\nPRIORITY=0\nSRT_VERDICT=allowed";
    let cwd = scratch.dir("cwd");
    let _host = std::os::unix::net::UnixListener::bind(cwd.join(name)).expect("ours");
    let script = "import socket,sys\n\
                  try: socket.socket(socket.AF_UNIX).connect(sys.argv[1])\n\
                  except PermissionError: pass";
    let listed = json!([{ "type": "journald", "path": socket }]);
    let srt = srt(&scratch, &listed).into_command(&["python3", "-c", script, name]);
    run(&mut { srt }).succeeds();
    let entries: Vec<_> = reader
        .join()
        .expect("no panic")
        .iter()
        .map(|entry| fields(entry))
        .collect();
    let denied = entries.iter().find(|entry| entry["SRT_KIND"] == "socket");
    let denied = denied.expect("the socket was refused");
    assert_eq!(denied["SRT_VERDICT"], "denied");
    assert_eq!(denied["PRIORITY"], "4");
    assert_eq!(denied["SYSLOG_IDENTIFIER"], "srt");
    assert_eq!(denied["SRT_CODE"], "socket.path.unlisted");
    assert!(denied["SRT_TARGET"].contains("SRT_VERDICT"), "{denied:?}");
    assert!(
        denied["MESSAGE"].starts_with("denied: socket connect "),
        "{denied:?}"
    );
    assert!(!denied["MESSAGE"].contains('\n'));
    let event: Value = serde_json::from_str(&denied["SRT_EVENT"]).expect("JSON");
    assert_eq!(event["run"], denied["SRT_RUN"].as_str());
    assert_eq!(
        entries.first().expect("start")["SRT_CODE"],
        "lifecycle.run.start"
    );
}

/// Reads a message of RFC 5424 that `srt` made, whose text is the event.
fn event(message: &str) -> Value {
    let rest = message.strip_prefix('<').expect("a priority");
    let (priority, rest) = rest.split_once('>').expect("a priority");
    let words: Vec<_> = rest.splitn(8, ' ').collect();
    let [version, time, _host, app, _pid, id, data, text] = words[..] else {
        panic!("{message}")
    };
    assert_eq!((version, app, data), ("1", "srt", "-"), "{message}");
    let event: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(event["time"], time);
    assert_eq!(event["code"], id);
    let severity = if event["verdict"] == "denied" { 12 } else { 14 };
    assert_eq!(priority.parse(), Ok(severity), "{message}");
    event
}

#[test]
fn syslog_gets_messages_over_its_socket_and_udp_and_tcp() {
    let scratch = Scratch::new("syslog");
    let socket = scratch.path("log");
    let local = collected(UnixDatagram::bind(&socket).expect("ours"), usize::MAX);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let listed = json!([
        { "type": "syslog", "path": socket },
        { "type": "syslog", "address": format!("udp://{}", udp.local_addr().expect("bound")) },
        { "type": "syslog", "address": format!("tcp://{}", tcp.local_addr().expect("bound")) },
    ]);
    let framed = std::thread::spawn(move || {
        let mut all = String::new();
        tcp.accept()
            .and_then(|(mut stream, _)| stream.read_to_string(&mut all))
            .expect("it ends");
        all
    });
    denied(srt(&scratch, &listed), 20).succeeds();
    let of_local: Vec<_> = local.join().expect("no panic");
    let of_local: Vec<_> = of_local
        .iter()
        .map(|message| event(&String::from_utf8_lossy(message)))
        .collect();
    assert_eq!(hosts(&of_local), 20);
    udp.set_nonblocking(true).expect("it is a socket");
    let mut buffer = vec![0; 1 << 16];
    let mut of_udp = Vec::new();
    while let Ok(len) = udp.recv(&mut buffer) {
        of_udp.push(event(&String::from_utf8_lossy(&buffer[..len])));
    }
    assert_eq!(of_udp, of_local);
    let framed = framed.join().expect("no panic");
    let mut rest = framed.as_str();
    let mut of_tcp = Vec::new();
    while let Some((len, after)) = rest.split_once(' ') {
        let (message, after) = after.split_at(len.parse().expect("a length"));
        of_tcp.push(event(message));
        rest = after;
    }
    assert_eq!(of_tcp, of_local);
}

#[test]
fn a_daemon_that_is_not_there_ends_the_launch_and_one_beyond_the_network_is_said_once() {
    let scratch = Scratch::new("absent");
    for kind in ["journald", "syslog"] {
        let listed = json!([{ "type": kind, "path": scratch.path("gone") }]);
        let ran = run(&mut srt(&scratch, &listed).into_command(&["true"])).is_refused("ENOENT");
        assert!(
            ran.stderr.contains("hint: name the socket"),
            "{}",
            ran.stderr
        );
    }
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = free.local_addr().expect("bound").to_string();
    drop(free);
    for (kind, scheme) in [("syslog", "tcp"), ("syslog", "udp"), ("otlp", "http")] {
        if kind == "otlp" && !cfg!(feature = "otlp") {
            continue;
        }
        let listed = json!([{ "type": kind, "address": format!("{scheme}://{address}") }]);
        let ran = denied(srt(&scratch, &listed), 20).succeeds();
        let said = ran.stderr.matches("cannot write events to").count();
        assert_eq!(said, 1, "{scheme}: {}", ran.stderr);
        // Of a datagram alone nobody says what became of it.
        let expected = if scheme == "udp" { 10..=22 } else { 22..=22 };
        assert!(
            expected.contains(&unreached(&ran.stderr)),
            "{scheme}: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_daemon_that_reads_nothing_holds_nothing_up_and_what_it_missed_is_counted() {
    let scratch = Scratch::new("stopped");
    let socket = scratch.path("journal");
    let daemon = UnixDatagram::bind(&socket).expect("ours");
    let listed = json!([{ "type": "syslog", "path": socket }]);
    let started = Instant::now();
    let ran = denied(srt(&scratch, &listed), 1500).succeeds();
    assert!(started.elapsed() < Duration::from_secs(30));
    daemon.set_nonblocking(true).expect("it is a socket");
    let mut buffer = vec![0; 1 << 16];
    let mut kept = Vec::new();
    while let Ok(len) = daemon.recv(&mut buffer) {
        kept.push(event_of_any(&buffer[..len]));
    }
    assert!(!kept.is_empty());
    assert_eq!(
        accounted(&kept, &ran),
        1502,
        "{} {}",
        kept.len(),
        ran.stderr
    );
}

fn event_of_any(message: &[u8]) -> Value {
    let text = String::from_utf8_lossy(message);
    let at = text.find('{').expect("an event");
    serde_json::from_str(&text[at..]).expect("JSON")
}

/// A run that is denied one host, waits for `go`, and is denied another.
struct Paused {
    child: Child,
    work: std::path::PathBuf,
}

impl Paused {
    fn start(scratch: &Scratch, listed: &Value) -> Self {
        let work = scratch.dir("work");
        let script = "curl -s http://before.test/; touch ready; \
                      until test -e go; do sleep 0.02; done; curl -s http://after.test/; true";
        let srt = srt(scratch, listed).allow_write(&work).current_dir(&work);
        let mut command = srt.into_command(&["sh", "-c", script]);
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().expect("srt is built");
        assert!(wait_until(|| work.join("ready").exists()));
        Self { child, work }
    }

    fn go_on(mut self) {
        fs::write(self.work.join("go"), "").expect("it is ours");
        assert!(self.child.wait().expect("it is our child").success());
    }
}

fn holds(messages: &[Vec<u8>], text: &str) -> bool {
    let mut texts = messages
        .iter()
        .map(|message| String::from_utf8_lossy(message));
    texts.any(|message| message.contains(text))
}

#[test]
fn a_daemon_that_was_started_again_gets_what_comes_after() {
    let scratch = Scratch::new("restart");
    for kind in ["journald", "syslog"] {
        let _removed = fs::remove_dir_all(scratch.path("work"));
        let socket = scratch.path(kind);
        let first = collected(UnixDatagram::bind(&socket).expect("ours"), 2);
        let run = Paused::start(&scratch, &json!([{ "type": kind, "path": socket }]));
        assert!(holds(&first.join().expect("no panic"), "before.test:80"));
        fs::remove_file(&socket).expect("it is ours");
        let second = collected(UnixDatagram::bind(&socket).expect("ours"), usize::MAX);
        run.go_on();
        let second = second.join().expect("no panic");
        assert!(holds(&second, "after.test:80") && !holds(&second, "before.test:80"));
    }
}

#[test]
fn a_connection_that_was_closed_is_made_again() {
    let scratch = Scratch::new("reconnect");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("tcp://{}", listener.local_addr().expect("bound"));
    let listed = json!([{ "type": "syslog", "address": address }]);
    let first = std::thread::spawn({
        let listener = listener.try_clone().expect("one more descriptor");
        move || read_until(&listener, "before.test:80")
    });
    let run = Paused::start(&scratch, &listed);
    first.join().expect("no panic").expect("it came");
    let second = std::thread::spawn(move || read_until(&listener, "lifecycle.run.end"));
    run.go_on();
    let second = second.join().expect("no panic").expect("it came");
    assert!(second.contains("after.test:80") && !second.contains("before.test:80"));
}

/// Reads a connection until it holds `text`, and closes it.
fn read_until(listener: &TcpListener, text: &str) -> io::Result<String> {
    let (mut stream, _) = listener.accept()?;
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => all.extend_from_slice(&buffer[..len]),
        }
        let so_far = String::from_utf8_lossy(&all);
        if so_far.contains(text) {
            stream.flush()?;
            return Ok(so_far.into_owned());
        }
    }
}

#[test]
fn settings_name_what_a_sink_needs_and_takes() {
    let scratch = Scratch::new("checked");
    let table = [
        (json!({ "type": "file" }), "lacks `path`"),
        (json!({ "type": "otlp" }), "lacks `address`"),
        (
            json!({ "type": "otlp", "address": "http://x:1", "path": "/x" }),
            "takes no `path`",
        ),
        (
            json!({ "type": "file", "path": "x", "address": "y" }),
            "takes no `address`",
        ),
        (
            json!({ "type": "syslog", "path": "/x", "address": "udp://x:1" }),
            "takes no `address`",
        ),
        (
            json!({ "type": "journald", "chain": true }),
            "takes no `chain`",
        ),
        (
            json!({ "type": "syslog", "address": "x:1" }),
            "udp://host:port",
        ),
        (
            json!({ "type": "otlp", "address": "https://x:1" }),
            "http://host:port",
        ),
        (
            json!({ "type": "otlp", "address": "http://u:p@x:1" }),
            "http://host:port",
        ),
    ];
    for (sink, reason) in table {
        let reason = match reason {
            "http://host:port" if !cfg!(feature = "otlp") => "this build has no OTLP",
            reason => reason,
        };
        let ran = run(&mut srt(&scratch, &json!([sink])).into_command(&["true"]));
        ran.is_refused(reason);
        assert!(!Path::new("x").exists());
    }
}
