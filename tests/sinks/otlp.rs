//! OTLP over HTTP, held against a small collector.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::harness::{Ran, Scratch};
use super::{denied, srt, unreached};

/// What the collector answers to its requests in turn: a status, a header, a body; the last one
/// to all further ones.
type Answers = &'static [(&'static str, &'static str, &'static str)];

/// A collector, and the path and body of every request that it got.
struct Collector {
    address: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Collector {
    fn start(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.expect("a client came");
                while let Some(request) = request(&stream) {
                    let mut seen = seen.lock().expect("no panic");
                    let answer = answers[seen.len().min(answers.len() - 1)];
                    seen.push(request);
                    drop(seen);
                    answer_with(&stream, answer);
                }
            }
        });
        Self { address, requests }
    }

    fn run(&self, count: usize) -> Ran {
        let scratch = Scratch::new("otlp");
        let listed = json!([{ "type": "otlp", "address": self.address }]);
        denied(srt(&scratch, &listed), count).succeeds()
    }

    /// Returns the records of the requests from one on.
    fn records(&self, from: usize) -> Vec<Value> {
        let requests = self.requests.lock().expect("no panic");
        let bodies = requests.iter().skip(from).map(|(_, body)| body);
        let logs = bodies.map(|body| &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]);
        logs.flat_map(|records| records.as_array().expect("records").clone())
            .collect()
    }
}

fn request(stream: &TcpStream) -> Option<(String, Value)> {
    let mut reader = BufReader::new(stream);
    let (mut path, mut len) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            len = value.parse().expect("a length");
        }
        path.get_or_insert(line);
    }
    let mut body = vec![0; len];
    reader.read_exact(&mut body).ok()?;
    Some((path?, serde_json::from_slice(&body).expect("JSON")))
}

fn answer_with(mut stream: &TcpStream, (status, header, body): (&str, &str, &str)) {
    let header = if header.is_empty() {
        String::new()
    } else {
        format!("{header}\r\n")
    };
    let len = body.len();
    let answer = format!("HTTP/1.1 {status}\r\n{header}content-length: {len}\r\n\r\n{body}");
    drop(stream.write_all(answer.as_bytes()));
}

const OK: (&str, &str, &str) = ("200 OK", "content-type: application/json", "{}");

fn attribute<'a>(attributes: &'a Value, key: &str) -> &'a Value {
    let all = attributes.as_array().expect("attributes");
    let found = all.iter().find(|attribute| attribute["key"] == key);
    &found.unwrap_or_else(|| panic!("{key} is not in {attributes}"))["value"]
}

#[test]
fn a_collector_gets_every_event_with_its_fields() {
    let collector = Collector::start(&[OK]);
    let ran = collector.run(600);
    assert_eq!(unreached(&ran.stderr), 0, "{}", ran.stderr);
    let records = collector.records(0);
    assert_eq!(records.len(), 602);
    let requests = collector.requests.lock().expect("no panic");
    assert!(
        requests
            .iter()
            .all(|(path, _)| path == "post /v1/logs http/1.1")
    );
    let resource = &requests[0].1["resourceLogs"][0]["resource"];
    let name = attribute(&resource["attributes"], "service.name");
    assert_eq!(name["stringValue"], "srt");
    let denied = records
        .iter()
        .find(|record| record["severityText"] == "WARN")
        .expect("hosts were denied");
    assert_eq!(denied["severityNumber"], 13);
    let body = denied["body"]["stringValue"].as_str().expect("text");
    assert!(body.starts_with("denied: net "), "{body}");
    let of = |key| attribute(&denied["attributes"], key);
    assert_eq!(of("srt.verdict")["stringValue"], "denied");
    assert_eq!(of("srt.code")["stringValue"], "net.host.unlisted");
    assert_eq!(
        of("srt.suggest.key")["stringValue"],
        "network.allowedDomains"
    );
    assert_eq!(of("srt.v")["intValue"], "1");
    let nanos: u64 = denied["timeUnixNano"]
        .as_str()
        .expect("text")
        .parse()
        .expect("a number");
    assert!(nanos > 1_600_000_000_000_000_000);
}

#[test]
fn a_collector_that_asks_for_patience_gets_it() {
    let busy = ("429 Too Many Requests", "retry-after: 0", "");
    let down = ("503 Service Unavailable", "retry-after: 1", "");
    let collector = Box::leak(Box::new([busy, down, OK]));
    let collector = Collector::start(collector);
    let started = Instant::now();
    let ran = collector.run(20);
    assert!(started.elapsed() > Duration::from_secs(1));
    assert_eq!(unreached(&ran.stderr), 0, "{}", ran.stderr);
    assert_eq!(collector.records(2).len(), 22);
    let requests = collector.requests.lock().expect("no panic");
    assert_eq!(requests[0], requests[2]);
}

#[test]
fn what_a_collector_refuses_is_said_once_and_counted() {
    let collector = Collector::start(&[("400 Bad Request", "", "no")]);
    let ran = collector.run(20);
    assert_eq!(
        ran.stderr.matches("the collector answered 400").count(),
        1,
        "{}",
        ran.stderr
    );
    assert_eq!(unreached(&ran.stderr), 22, "{}", ran.stderr);

    let some = (
        "200 OK",
        "",
        r#"{"partialSuccess":{"rejectedLogRecords":"1"}}"#,
    );
    let collector = Collector::start(Box::leak(Box::new([some])));
    let ran = collector.run(20);
    let requests = collector.requests.lock().expect("no panic").len();
    assert!(ran.stderr.contains("rejected 1 events"), "{}", ran.stderr);
    // One of each request, also of those that tell of it.
    assert!(
        (1..=requests as u64).contains(&unreached(&ran.stderr)),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_collector_that_never_answers_holds_nothing_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = format!("http://{}", listener.local_addr().expect("bound"));
    let collector = Collector {
        address,
        requests: Arc::default(),
    };
    let started = Instant::now();
    let ran = collector.run(20);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(unreached(&ran.stderr), 22, "{}", ran.stderr);
}
