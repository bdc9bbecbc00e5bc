//! A collector of OpenTelemetry: logs over OTLP/HTTP, as JSON.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::super::recorder::Line;
use super::said::{Said, Severity};
use super::syslog::has_port;
use super::{Written, cannot};
use crate::error::Result;

/// Longest that a request takes, with the connection it needs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a request is sent that the collector has no room for.
const TRIES: u32 = 4;

/// Longest that it may ask us to wait in between.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Most of a request, in events and bytes of their lines.
const MOST: (usize, usize) = (512, 256 << 10);

const MAX_ANSWER: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Otlp {
    name: String,
    host: String,
    path: String,
    resource: Value,
    runtime: Option<Runtime>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

/// What came of a request.
enum Answer {
    /// Taken, but for so many.
    Taken(u64),
    /// To be sent again, after so long if the collector says.
    Later(Option<Duration>),
    Refused(u16),
}

impl Otlp {
    pub(super) fn new(address: &str) -> Result<Self> {
        let name = format!("the collector at {address}");
        let rest = address.strip_prefix("http://");
        let parts = rest.map(|rest| match rest.find('/') {
            Some(at) if at + 1 < rest.len() => rest.split_at(at),
            Some(at) => (&rest[..at], "/v1/logs"),
            None => (rest, "/v1/logs"),
        });
        let found = parts.filter(|(host, path)| {
            has_port(host)
                && path.bytes().all(|byte| byte.is_ascii_graphic())
                && !path.contains('#')
        });
        let Some((host, path)) = found else {
            return Err(cannot(name).with_hint(
                "an address is http://host:port, mostly of port 4318; for https:// run a \
                 collector on this host that passes events on",
            ));
        };
        let hostname = nix::unistd::gethostname().unwrap_or_default();
        let attributes = [
            ("service.name", "srt".into()),
            ("service.version", env!("CARGO_PKG_VERSION").into()),
            ("host.name", hostname.to_string_lossy()),
        ];
        let attributes = attributes.map(|(key, value): (_, std::borrow::Cow<'_, str>)| {
            json!({ "key": key, "value": { "stringValue": value } })
        });
        Ok(Self {
            host: host.to_owned(),
            path: path.to_owned(),
            name,
            resource: json!({ "attributes": attributes }),
            runtime: None,
            connection: None,
        })
    }

    pub(super) fn write(&mut self, lines: &[Arc<Line>], written: &Written) -> io::Result<()> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => Builder::new_current_thread().enable_all().build()?,
        };
        let result = runtime.block_on(self.send(lines, written));
        self.runtime = Some(runtime);
        result
    }

    async fn send(&mut self, mut lines: &[Arc<Line>], written: &Written) -> io::Result<()> {
        let mut result = Ok(());
        while !lines.is_empty() {
            let (now, later) = lines.split_at(portion(lines));
            lines = later;
            let rejected = self.deliver(self.body(now)?).await?;
            written.add((now.len() as u64).saturating_sub(rejected));
            if rejected > 0 {
                let what = format!("the collector rejected {rejected} events");
                result = Err(io::Error::other(what));
            }
        }
        result
    }

    /// Sends a request until it is taken; returns how many events of it were not.
    async fn deliver(&mut self, body: Bytes) -> io::Result<u64> {
        let mut pause = Duration::from_millis(200);
        for _ in 0..TRIES {
            let was_kept = self.connection.as_ref().is_some_and(SendRequest::is_ready);
            let sent = match timeout(PATIENCE, self.post(body.clone())).await {
                Ok(sent) => sent,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            match sent {
                Ok(Answer::Taken(rejected)) => return Ok(rejected),
                Ok(Answer::Refused(status)) => {
                    let what = format!("the collector answered {status}");
                    return Err(io::Error::other(what));
                }
                Ok(Answer::Later(asked)) => {
                    sleep(asked.unwrap_or(pause).min(LONGEST_WAIT)).await;
                    pause *= 2;
                }
                Err(error) => {
                    self.connection = None;
                    // A connection that was kept may have been closed meanwhile.
                    if !was_kept {
                        return Err(error);
                    }
                }
            }
        }
        Err(io::Error::other("the collector has no room for events"))
    }

    async fn post(&mut self, body: Bytes) -> io::Result<Answer> {
        let mut connection = match self.connection.take_if(|kept| kept.is_ready()) {
            Some(kept) => kept,
            None => connect(&self.host).await?,
        };
        let request = Request::post(&self.path)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(io::Error::other)?;
        let response = connection.send_request(request).await;
        let answer = read(response.map_err(io::Error::other)?).await?;
        self.connection = Some(connection);
        Ok(answer)
    }

    fn body(&self, lines: &[Arc<Line>]) -> io::Result<Bytes> {
        let records: io::Result<Vec<Value>> = lines.iter().map(|line| record(line)).collect();
        let logs = json!({ "resourceLogs": [{
            "resource": self.resource,
            "scopeLogs": [{ "scope": { "name": "srt" }, "logRecords": records? }],
        }] });
        Ok(logs.to_string().into())
    }
}

impl fmt::Display for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Returns how many of the lines go into one request.
fn portion(lines: &[Arc<Line>]) -> usize {
    let (most, bytes) = MOST;
    let mut left = bytes;
    let fits = |line: &&Arc<Line>| {
        let fits = line.text.len() <= left;
        left = left.saturating_sub(line.text.len());
        fits
    };
    lines.iter().take(most).take_while(fits).count().max(1)
}

async fn connect(host: &str) -> io::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(host).await?;
    let (sender, connection) = handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    // Its errors reach whoever sends.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn read(response: Response<Incoming>) -> io::Result<Answer> {
    let status = response.status();
    let after = response.headers().get(RETRY_AFTER);
    let after = after.and_then(|value| value.to_str().ok()?.parse().ok());
    let body = Limited::new(response.into_body(), MAX_ANSWER)
        .collect()
        .await;
    let body = body.map_err(io::Error::other)?.to_bytes();
    Ok(match status.as_u16() {
        200..300 => Answer::Taken(rejected(&body)),
        429 | 502 | 503 | 504 => Answer::Later(after.map(Duration::from_secs)),
        status => Answer::Refused(status),
    })
}

/// Returns how many events a collector that took a request says it did not take.
fn rejected(body: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let count = &answer["partialSuccess"]["rejectedLogRecords"];
    // 64-bit numbers are text in the JSON of protocol buffers, and some write them as numbers.
    let text = count.as_str().and_then(|text| text.parse().ok());
    text.or(count.as_u64()).unwrap_or_default()
}

fn record(line: &Line) -> io::Result<Value> {
    let said = Said::of(line)?;
    let (number, name) = match said.severity() {
        Severity::Error => (17, "ERROR"),
        Severity::Warning => (13, "WARN"),
        Severity::Notice => (10, "INFO2"),
        Severity::Info => (9, "INFO"),
    };
    let time = OffsetDateTime::parse(&said.time, &Rfc3339).map_err(io::Error::other)?;
    let event: Map<String, Value> = serde_json::from_str(&line.text)?;
    let mut attributes = Vec::new();
    for (name, value) in &event {
        flatten(&format!("srt.{name}"), value, &mut attributes);
    }
    Ok(json!({
        "timeUnixNano": time.unix_timestamp_nanos().to_string(),
        "severityNumber": number,
        "severityText": name,
        "body": { "stringValue": said.message() },
        "attributes": attributes,
    }))
}

/// Adds the fields of an object one by one, each by its path.
fn flatten(name: &str, value: &Value, attributes: &mut Vec<Value>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            for (field, value) in fields {
                flatten(&format!("{name}.{field}"), value, attributes);
            }
        }
        value => attributes.push(json!({ "key": name, "value": any_value(value) })),
    }
}

fn any_value(value: &Value) -> Value {
    match value {
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        // Text, as 64-bit numbers are in the JSON of protocol buffers.
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        Value::Array(values) => {
            let values: Vec<_> = values.iter().map(any_value).collect();
            json!({ "arrayValue": { "values": values } })
        }
        other => json!({ "stringValue": other.to_string() }),
    }
}
