//! Raw and packet sockets, and datagrams beyond the loopback.

use std::net::UdpSocket;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Scratch, Srt, is_root, run, skip};
use crate::{events, of_kind};

const ASK: &str = r"
import socket
for kind in ((17, 3, 0), (2, 3, 1), (10, 3, 58)):
    try:
        socket.socket(*kind); print('opened', flush=True)
    except OSError as error:
        print(error.errno, flush=True)
socket.socket(2, 2); socket.socket(10, 1); socket.socket(16, 3, 0)
";

#[test]
fn raw_and_packet_sockets_are_told_of_and_refused() {
    let scratch = Scratch::new("raw");
    let words = ["python3", "-ISc", ASK];
    if is_root() {
        let control = run(std::process::Command::new(words[0]).args(&words[1..]));
        assert_eq!(control.stdout, "opened\nopened\nopened\n", "{control:?}");
    } else {
        skip("an ordinary user opens none outside either");
    }
    let refused = "1\n1\n1\n";
    assert_eq!(Srt::new(&scratch).run(&words).stdout, refused, "unobserved");
    let file = scratch.path("events");
    let ran = Srt::new(&scratch).events(&file).run(&words).succeeds();
    assert_eq!(ran.stdout, refused);
    let told = of_kind(&events(&file), "socket");
    let told: Vec<_> = told
        .iter()
        .map(|event| (&event["target"], &event["code"], event["predicted"] == true))
        .collect();
    let row = |target: &str, code: &str| (json!(target), json!(code));
    let rows = [
        row("AF_PACKET", "socket.packet.refused"),
        row("AF_INET", "socket.raw.refused"),
        row("AF_INET6", "socket.raw.refused"),
    ];
    // The first is refused by the broker itself.
    let expected = rows.iter().zip([false, true, true]);
    let expected: Vec<_> = expected
        .map(|((target, code), predicted)| (target, code, predicted))
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn a_root_in_namespaces_of_the_commands_own_opens_raw_sockets_as_before() {
    let scratch = Scratch::new("own");
    let words = ["unshare", "-rn", "python3", "-ISc", ASK];
    let nested = || Srt::new(&scratch).top("allowNestedUserNamespaces", json!("userns"));
    let before = nested().run(&words);
    assert_eq!(before.stdout, "1\nopened\nopened\n", "{before:?}");
    let file = scratch.path("events");
    let ran = nested().events(&file).run(&words).succeeds();
    assert_eq!(ran.stdout, before.stdout);
    let told = of_kind(&events(&file), "socket");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["target"], "AF_PACKET");
}

#[test]
fn datagrams_that_reach_nobody_are_told_of_once_and_counted() {
    let scratch = Scratch::new("datagrams");
    let script = r"
import socket
four, six = socket.socket(2, 2), socket.socket(10, 2)
server = socket.socket(2, 2); server.bind(('127.0.0.1', 0))
four.sendto(b'x', server.getsockname()); assert server.recv(1) == b'x'
try: four.sendto(bytes(40), ('192.0.2.9', 53))
except OSError: pass
for _ in range(5):
    try: four.sendto(b'x', ('192.0.2.1', 123))
    except OSError: pass
try: six.sendto(b'x', ('2001:db8::1', 443))
except OSError: pass
connected = socket.socket(2, 2)
try: connected.connect(('192.0.2.2', 5000)); connected.send(b'x')
except OSError: pass
import time; time.sleep(0.2)
";
    let file = scratch.path("events");
    let words = ["python3", "-ISc", script];
    Srt::new(&scratch).events(&file).run(&words).succeeds();
    let told = of_kind(&events(&file), "socket");
    let times = |target: &str| -> u64 {
        let of_target = told.iter().filter(|event| event["target"] == target);
        let of_target = of_target.map(|event| event["count"].as_u64().unwrap_or(1));
        of_target.sum()
    };
    assert_eq!(times("192.0.2.1:123"), 5, "{told:?}");
    assert_eq!(times("192.0.2.2:5000"), 1, "{told:?}");
    assert_eq!(times("[2001:db8::1]:443"), 1, "{told:?}");
    let all: u64 = told
        .iter()
        .map(|event| event["count"].as_u64().unwrap_or(1))
        .sum();
    assert_eq!(all, 7, "{told:?}");
    for event in &told {
        assert_eq!(event["code"], "socket.udp.refused");
        assert_eq!(event["verdict"], "denied");
        assert_eq!(event["suggest"], Value::Null);
    }
    let first = told.iter().find(|event| event["target"] == "192.0.2.1:123");
    let exe = first.and_then(|event| event["process"]["exe"].as_str());
    assert!(exe.is_some_and(|exe| exe.contains("python3")), "{told:?}");
}

#[test]
fn no_datagram_leaves_whether_or_not_somebody_records() {
    let scratch = Scratch::new("stays");
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let address = server.local_addr().expect("it is bound");
    let limit = Some(Duration::from_millis(300));
    server.set_read_timeout(limit).expect("not zero");
    let script = format!(
        "import socket\nsocket.socket(2, 2).sendto(b'x', ('127.0.0.1', {}))",
        address.port()
    );
    run(std::process::Command::new("python3").args(["-ISc", &script])).succeeds();
    server.recv(&mut [0; 1]).expect("the control arrives");
    let file = scratch.path("events");
    drop(
        Srt::new(&scratch)
            .events(&file)
            .run(&["python3", "-ISc", &script]),
    );
    assert!(server.recv(&mut [0; 1]).is_err());
}
