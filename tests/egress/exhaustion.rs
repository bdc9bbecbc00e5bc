//! What happens when this host has no local port left.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::fixture::{Proxy, Server, on, status};

/// Ports that connections to one server may come from.
const PORTS: usize = 100;

#[test]
fn without_a_free_local_port_a_client_gets_502_with_the_reason_and_later_its_tunnel() {
    let own = std::env::current_exe().unwrap();
    let script = "ip link set lo up && \
                  echo '50000 50099' >/proc/sys/net/ipv4/ip_local_port_range && exec \"$@\"";
    let name = "exhaustion::in_a_namespace_with_a_hundred_ports";
    let ran = Command::new("unshare")
        .args([
            "--user",
            "--map-root-user",
            "--net",
            "sh",
            "-c",
            script,
            "sh",
        ])
        .arg(own)
        .args(["--exact", name, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "the test above runs it in a network namespace of its own"]
fn in_a_namespace_with_a_hundred_ports() {
    let server = Server::new(|mut stream, _| {
        let _ended = std::io::Read::read(&mut stream, &mut [0]);
    });
    let target = on("app.localhost", &server);
    // Clients connect to four addresses, so that their own ports suffice.
    let proxies: Vec<_> = (0..4).map(|_| Proxy::start(&[&target], &[])).collect();
    let tunnels: Vec<_> = (0..300).map(|n| proxies[n % 4].tunnel(&target)).collect();
    let refused: Vec<_> = tunnels
        .iter()
        .filter(|(_, head)| status(head) != "200")
        .collect();
    assert!(
        refused.len() >= 300 - PORTS && refused.len() < 300,
        "{}",
        refused.len()
    );
    for (_, head) in &refused {
        let first = head.lines().next().unwrap();
        assert!(first.starts_with("HTTP/1.1 502 "), "{first}");
        assert!(first.contains("no local port is free"), "{first}");
    }
    let failed = proxies[0]
        .events()
        .into_iter()
        .find(|event| event["verdict"] == "failed");
    assert_eq!(failed.unwrap()["code"], "net.upstream.failed");
    drop(tunnels);
    let begun = Instant::now();
    while status(&proxies[0].tunnel(&target).1) != "200" {
        assert!(
            begun.elapsed() < Duration::from_secs(40),
            "no tunnel after all were closed"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}
