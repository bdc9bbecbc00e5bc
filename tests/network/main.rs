//! What a sandboxed program can reach, judged by what servers saw.
//!
//! Each test runs in a network of its own, with servers at every address at the other end of a
//! cable and at this host's own addresses.

#[path = "../harness/mod.rs"]
mod harness;

#[path = "../world/mod.rs"]
mod world;

mod attribution;
mod cases;
mod direct;
mod failures;
mod names;
mod proxies;
mod resolver;

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::{run, skip};
use world::in_a_world;

#[test]
fn nw_06_without_an_allow_list_nothing_is_reached() {
    in_a_world("nw_06_without_an_allow_list_nothing_is_reached", |world| {
        world.is_reached(&["app.test", "192.0.2.10"], "http://app.test:PORT/");
        let url = format!("http://{}/", world.address("app.test"));
        for text in [
            "{}",
            r#"{"network":{}}"#,
            r#"{"network":{"allowedDomains":[]}}"#,
        ] {
            let settings = world.scratch.file("empty.json", text);
            let hits = world.hits(|| {
                let mut srt = Command::new(env!("CARGO_BIN_EXE_srt"));
                srt.arg("-s")
                    .arg(&settings)
                    .args(["curl", "-sS", "-i", &url]);
                let ran = run(&mut srt);
                assert!(ran.stdout.contains("403"), "{text}: {ran:?}");
                assert!(
                    ran.stdout.contains("blocked-by-allowlist"),
                    "{text}: {ran:?}"
                );
            });
            assert_eq!(hits, 0, "{text}");
        }
    });
}

#[test]
fn names_lead_into_private_networks_only_where_that_is_set() {
    in_a_world(
        "names_lead_into_private_networks_only_where_that_is_set",
        |world| {
            let curl = |srt: harness::Srt, host: &str| {
                let url = format!("http://{}/", world.address(host));
                srt.run(&["curl", "-sS", "-m", "5", "--noproxy", "", &url])
            };
            let hosts = ["lan.test", "carrier.test", "ula-lan.test"];
            let guarded = ["metadata.test", "loop.test", "private.test"];
            for host in hosts.iter().chain(&guarded) {
                let srt = world.srt(&[host], &[]);
                assert_eq!(world.hits(|| drop(curl(srt, host))), 0, "{host}");
            }
            let open = |host: &str| {
                let key = "network.allowPrivateNetworks";
                world.srt(&[host], &[]).set(key, true.into())
            };
            for host in hosts {
                let mut stderr = String::new();
                let hits = world.hits(|| stderr = curl(open(host), host).succeeds().stderr);
                assert_eq!(hits, 1, "{host}");
                assert!(
                    stderr.contains("`network.allowPrivateNetworks`"),
                    "{stderr}"
                );
            }
            for host in guarded {
                assert_eq!(world.hits(|| drop(curl(open(host), host))), 0, "{host}");
            }
        },
    );
}

#[test]
fn no_name_leads_where_resolved_addresses_are_denied() {
    in_a_world(
        "no_name_leads_where_resolved_addresses_are_denied",
        |world| {
            let curl = |denied: &str, host: &str| {
                let srt = world.srt(&["app.test", "192.0.2.10"], &[]);
                let srt = srt.set(
                    "network.deniedResolvedAddresses",
                    [denied].as_slice().into(),
                );
                let url = format!("http://{}/", world.address(host));
                srt.run(&["curl", "-sS", "-m", "5", "--noproxy", "", &url])
            };
            for (denied, host, expected) in [
                ("192.0.2.11", "app.test", 1),
                ("192.0.2.10", "app.test", 0),
                ("192.0.2.0/24", "app.test", 0),
                ("192.0.2.0/24", "192.0.2.10", 1),
            ] {
                let mut body = String::new();
                let hits = world.hits(|| body = curl(denied, host).stdout);
                assert_eq!(hits, expected, "{denied} {host}");
                let names_it = body.contains("network.deniedResolvedAddresses");
                assert_eq!(names_it, expected == 0, "{body}");
            }
        },
    );
}

#[test]
fn rules_about_tmp_leave_the_proxies_reachable_and_nothing_of_theirs() {
    in_a_world(
        "rules_about_tmp_leave_the_proxies_reachable_and_nothing_of_theirs",
        |world| {
            let url = format!("http://{}/", world.address("app.test"));
            let ask = format!(
                "curl -sS -m 5 --noproxy '' {url} >/dev/null && ls -A /tmp; find /tmp -type s 2>/dev/null"
            );
            let seen = |srt: fn(harness::Srt) -> harness::Srt| {
                let mut stdout = String::new();
                let hits = world.hits(|| {
                    let ran = srt(world.srt(&["app.test", "192.0.2.10"], &[])).sh(&ask);
                    stdout = ran.stdout;
                });
                assert_eq!(hits, 1, "{stdout}");
                stdout
            };
            let name = world.scratch.path("");
            let name = name.file_name().expect("it has one").to_string_lossy();
            assert!(seen(|srt| srt).contains(&*name), "/tmp is the host's");
            let hidden = seen(|srt| srt.current_dir("/").deny_read("/tmp"));
            assert!(hidden.lines().count() <= 1, "TMPDIR at most: {hidden}");
            let granted = seen(|srt| srt.allow_write("/tmp"));
            assert!(!granted.contains(".sock"), "{granted}");
        },
    );
}

#[test]
fn nw_04_an_inherited_connection_cannot_be_used() {
    in_a_world("nw_04_an_inherited_connection_cannot_be_used", |world| {
        let through = |runner: &str| {
            let port = world.server.port;
            let script = format!("exec 5<>/dev/tcp/192.0.2.10/{port}; {runner} sh -c 'echo x >&5'");
            let requests = world.requests(|| {
                run(Command::new("bash").args(["-c", &script]));
                std::thread::sleep(Duration::from_millis(200));
            });
            assert_eq!(requests.len(), 1, "bash connects, and its connection ends");
            requests[0].head.len()
        };
        assert_eq!(through(""), 2);
        assert_eq!(through(&format!("{} --", env!("CARGO_BIN_EXE_srt"))), 0);
    });
}

#[test]
fn nw_07_the_environment_opens_no_way_out() {
    in_a_world("nw_07_the_environment_opens_no_way_out", |world| {
        world.is_reached(&["app.test", "192.0.2.10"], "http://app.test:PORT/");
        let url = format!("http://{}/", world.address("evil.test"));
        for set in [
            "env -u http_proxy -u HTTP_PROXY NO_PROXY='*'",
            "env no_proxy=.test",
            "env http_proxy=",
        ] {
            let script = format!("{set} curl -sS -m 5 {url}");
            let hits = world.hits(|| drop(world.srt(&["app.test"], &[]).sh(&script)));
            assert_eq!(hits, 0, "{set}");
        }
        let hits = world.hits(|| {
            let srt = world
                .srt(&["app.test"], &[])
                .env("NO_PROXY", "*")
                .env("no_proxy", "*");
            drop(srt.run(&["curl", "-sS", "-m", "5", &url]));
        });
        assert_eq!(hits, 0, "the caller's NO_PROXY");
    });
}

#[test]
fn nw_09_loopback_inside_works_and_is_not_the_hosts() {
    in_a_world(
        "nw_09_loopback_inside_works_and_is_not_the_hosts",
        |world| {
            let script = "import http.server, threading, urllib.request as r\n\
            for host in ['127.0.0.1', '::1', '0.0.0.0']:\n\
            \x20   class S(http.server.ThreadingHTTPServer):\n\
            \x20       address_family = 10 if ':' in host else 2\n\
            \x20   s = S((host, 0), http.server.SimpleHTTPRequestHandler)\n\
            \x20   threading.Thread(target=s.serve_forever, daemon=True).start()\n\
            \x20   name = {'::1': '[::1]', '0.0.0.0': 'localhost'}.get(host, host)\n\
            \x20   print(r.urlopen(f'http://{name}:{s.server_port}/').status)\n";
            let inside = world
                .srt(&[], &[])
                .run(&["/usr/bin/python3", "-c", script])
                .succeeds();
            assert_eq!(inside.stdout, "200\n200\n200\n");

            let port = world.server.port;
            let direct = format!("curl -sS -m 5 --noproxy '*' http://127.0.0.1:{port}/");
            assert_eq!(world.hits(|| drop(harness::outside(&direct).succeeds())), 1);
            assert_eq!(
                world.hits(|| drop(world.srt(&[], &[]).sh(&direct).fails())),
                0
            );
            let ran = world.is_not_reached(&["loop.test"], "http://loop.test:PORT/");
            assert!(ran.stdout.contains("resolves to"), "{ran:?}");
        },
    );
}

#[test]
fn nw_10_a_server_inside_is_not_seen_outside() {
    in_a_world("nw_10_a_server_inside_is_not_seen_outside", |world| {
        let script = "import socket, sys; s = socket.create_server(('0.0.0.0', 8123)); \
            print('up', flush=True); sys.stdin.read()";
        let try_it = |mut command: Command| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().expect("python3 is installed");
            let mut up = [0; 3];
            child
                .stdout
                .as_mut()
                .expect("piped")
                .read_exact(&mut up)
                .expect("it comes up");
            let reached = TcpStream::connect("127.0.0.1:8123").is_ok();
            let table = fs::read_to_string("/proc/net/tcp").expect("proc is mounted");
            drop(child.stdin.take());
            assert!(child.wait().expect("it is our child").success());
            // 8123 is 1FBB.
            (reached, table.contains(":1FBB "))
        };
        let mut outside = Command::new("/usr/bin/python3");
        outside.args(["-c", script]);
        assert_eq!(try_it(outside), (true, true));
        let inside = world
            .srt(&[], &[])
            .into_command(&["/usr/bin/python3", "-c", script]);
        assert_eq!(try_it(inside), (false, false));
    });
}

#[test]
fn nw_13_nw_14_deny_beats_allow_in_every_spelling() {
    in_a_world("nw_13_nw_14_deny_beats_allow_in_every_spelling", |world| {
        let allowed = ["evil.test", "*.app.test", "192.0.2.11"];
        world.is_reached(&allowed, "http://evil.test:PORT/");
        for denied in ["evil.test", "EVIL.test", "192.0.2.11", "192.0.2.0/24", "*"] {
            for host in ["evil.test", "EVIL.Test", "evil.test."] {
                let url = format!("http://{}/", world.address(host));
                let hits = world.hits(|| {
                    let srt = world.srt(&allowed, &[denied]);
                    drop(srt.run(&["curl", "-sS", "-m", "5", "--noproxy", "", &url]));
                });
                assert_eq!(hits, 0, "{host} with {denied} denied");
            }
        }
        world.is_reached(&allowed, "http://evil.app.test:PORT/");
        let url = format!("http://{}/", world.address("evil.app.test"));
        let hits = world.hits(|| {
            let srt = world.srt(&allowed, &["*.app.test"]);
            drop(srt.run(&["curl", "-sS", "-m", "5", "--noproxy", "", &url]));
        });
        assert_eq!(hits, 0, "a denied wildcard");
        for host in ["evil.test..", ".evil.test", "evil..test"] {
            world.is_not_reached(&allowed, &format!("http://{host}:PORT/"));
        }
    });
}

#[test]
fn nw_16_the_host_that_is_checked_is_the_one_that_is_asked() {
    in_a_world(
        "nw_16_the_host_that_is_checked_is_the_one_that_is_asked",
        |world| {
            let allowed = ["app.test", "192.0.2.10"];
            world.is_reached(&allowed, "http://app.test:PORT/");
            let port = world.server.port;
            let targets = [
                format!("http://app.test@evil.test:{port}/"),
                format!("http://evil.test:{port}\\@app.test/"),
                format!("http://app.test:{port}#@evil.test:{port}/"),
                format!("http://evil.test;app.test:{port}/"),
                format!("http://app.test,evil.test:{port}/"),
                format!("http://app.test%40evil.test:{port}/"),
                format!("http://evil.test:{port}/"),
            ];
            for target in targets {
                // curl would tidy the URL up first.
                let script = "import socket, sys\n\
                s = socket.create_connection(('127.0.0.1', 3128), 5)\n\
                s.sendall(f'GET {sys.argv[1]} HTTP/1.1\\r\\nHost: {sys.argv[2]}\\r\\n\\r\\n'.encode())\n\
                print(s.recv(400).decode().split('\\r\\n')[0])\n";
                let hits = world.hits(|| {
                    let host = format!("app.test:{port}");
                    let srt = world.srt(&allowed, &[]);
                    let ran = srt.run(&["/usr/bin/python3", "-c", script, &target, &host]);
                    let refused = ran.stdout.starts_with("HTTP/1.1 4");
                    assert!(refused, "{target}: {ran:?}");
                });
                assert_eq!(hits, 0, "{target}");
            }
        },
    );
}

#[test]
fn nw_23_nw_26_a_listed_name_that_leads_inwards_is_refused() {
    in_a_world(
        "nw_23_nw_26_a_listed_name_that_leads_inwards_is_refused",
        |world| {
            let names = [
                ("loop.test", "127.0.0.1"),
                ("evil.localhost.test", "127.0.0.1"),
                ("private.test", "10.0.0.5"),
                ("shared.test", "100.64.0.1"),
                ("metadata.test", "169.254.169.254"),
                ("ula.test", "[fd00::5]"),
                // An ordinary address, but this host's own.
                ("own.test", "192.0.2.77"),
            ];
            for (name, address) in names {
                let url = format!("http://{name}:PORT/");
                world.is_reached(&[name, address], &url);
                let ran = world.is_not_reached(&[name], &url);
                assert!(ran.stdout.contains("resolves to"), "{name}: {ran:?}");
                assert!(
                    !ran.shows(address.trim_matches(['[', ']'])),
                    "{name}: {ran:?}"
                );
            }
            for literal in [
                "127.0.0.1",
                "0.0.0.0",
                "2130706433",
                "0x7f.1",
                "[::1]",
                "[::ffff:127.0.0.1]",
            ] {
                world.is_not_reached(&["app.test"], &format!("http://{literal}:PORT/"));
            }
        },
    );
}

#[test]
fn nw_33_a_literal_address_is_allowed_exactly() {
    in_a_world("nw_33_a_literal_address_is_allowed_exactly", |world| {
        world.is_reached(&["10.0.0.5"], "http://10.0.0.5:PORT/");
        // Of a service that gives out credentials, the address itself and no range with it.
        let metadata = "http://169.254.169.254:PORT/";
        world.is_reached(&["169.254.169.254"], metadata);
        world.is_not_reached(&["169.254.169.253"], metadata);
        world.is_reached(&["10.0.0.0/24"], "http://10.0.0.6:PORT/");
        let ran = world.is_not_reached(&["10.0.0.5"], "http://10.0.0.6:PORT/");
        assert!(ran.stdout.contains("10.0.0.6"), "{ran:?}");
        world
            .curl(&["*.0.0.5"], "http://10.0.0.5:PORT/")
            .is_refused("*.0.0.5");
    });
}

#[test]
fn socks_reaches_what_is_listed_and_refuses_the_rest_with_code_2() {
    in_a_world(
        "socks_reaches_what_is_listed_and_refuses_the_rest_with_code_2",
        |world| {
            if cfg!(not(feature = "socks")) {
                return skip("this build has no SOCKS proxy");
            }
            let ask = |host: &str| {
                let url = format!("http://{}/", world.address(host));
                let srt = world.srt(&["app.test", "192.0.2.10"], &[]);
                srt.run(&[
                    "curl",
                    "-sS",
                    "-m",
                    "5",
                    "--noproxy",
                    "",
                    "--socks5-hostname",
                    "127.0.0.1:1080",
                    &url,
                ])
            };
            assert_eq!(world.hits(|| drop(ask("app.test").succeeds())), 1);
            let mut refused = None;
            assert_eq!(world.hits(|| refused = Some(ask("evil.test"))), 0);
            let refused = refused.expect("it ran");
            assert!(refused.stderr.contains("(2)"), "{refused:?}");
        },
    );
}
