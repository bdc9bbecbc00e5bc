//! What people's programs do: each client reaches what is listed, at once, and nothing else.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::harness::{Scratch, Srt, outside, run, skip, wrapped};
use super::world::{Answer, World, in_a_world};

#[test]
fn a_host_that_is_not_listed_is_refused_however_it_is_asked() {
    in_a_world(
        "cases::a_host_that_is_not_listed_is_refused_however_it_is_asked",
        |world| {
            let asks = [
                "http://evil.test:8080/a",
                "https://evil.test:8080/",
                "-p http://evil.test:8080/",
                "http://evil.test/",
                "http://evil.test:8081/",
                "-X POST -d x http://evil.test:8080/p",
                "-X DELETE http://evil.test:8080/",
                "-L http://app.test:8080/redirect=http://evil.test:8080/x",
            ];
            for ask in asks {
                let control = world.requests(|| drop(outside(&format!("curl -sS -m 5 {ask}"))));
                let evil = control
                    .iter()
                    .filter(|request| request.to.ip().to_string() == "192.0.2.11");
                assert_eq!(evil.count(), 1, "{ask}: {control:?}");
                let mut said = None;
                let requests = world.requests(|| {
                    let srt = world.srt(&["app.test", "*.app.test"], &[]);
                    said = Some(srt.sh(&format!(
                        "curl -sS -m 5 {ask} -w 'status %{{http_code}} %{{http_connect}}'"
                    )));
                });
                let said = said.expect("it ran").stdout;
                assert!(said.contains("403"), "{ask}: {said}");
                let elsewhere =
                    |request: &super::world::Request| request.to.ip().to_string() != "192.0.2.10";
                assert!(!requests.iter().any(elsewhere), "{ask}: {requests:?}");
            }
        },
    );
}

#[test]
fn every_client_reaches_a_listed_private_address_alike() {
    in_a_world(
        "cases::every_client_reaches_a_listed_private_address_alike",
        |world| {
            let clients = [
                "curl -sS -m 5 $1",
                "wget -q -T 5 -t 1 -O - $1",
                "/usr/bin/python3 -c 'import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())' $1",
                "/usr/bin/python3 -c 'import sys, requests; print(requests.get(sys.argv[1]).text)' $1",
                "perl -MHTTP::Tiny -e 'print HTTP::Tiny->new->get($ARGV[0])->{content}' $1",
                "GIT_CONFIG_GLOBAL=/dev/null git ls-remote $1/r.git",
            ];
            for client in clients {
                for address in ["10.99.0.1", "10.0.0.5"] {
                    let url = format!("http://{}", world.address(address));
                    let words = ["bash", "-c", client, "bash", &url];
                    let control = world
                        .hits(|| drop(run(std::process::Command::new(words[0]).args(&words[1..]))));
                    if control == 0 {
                        skip(&format!("`{client}` does not run here"));
                        continue;
                    }
                    for by_proxy in [true, false] {
                        let srt = world
                            .srt(&[address], &[])
                            .set("network.proxyEnv", by_proxy.into());
                        let requests = world.requests(|| drop(srt.run(&words)));
                        let to: Vec<String> = requests
                            .iter()
                            .map(|request| request.to.ip().to_string())
                            .collect();
                        assert!(
                            !to.is_empty() && to.iter().all(|to| to == address),
                            "{client}: {to:?}"
                        );
                    }
                    let requests =
                        world.requests(|| drop(world.srt(&["10.99.0.2"], &[]).run(&words)));
                    assert!(requests.is_empty(), "{client}: {requests:?}");
                }
            }
        },
    );
}

#[test]
fn slow_and_streaming_answers_and_long_bodies_pass() {
    in_a_world(
        "cases::slow_and_streaming_answers_and_long_bodies_pass",
        |world| {
            // The first answer takes longer than a head may, while the others are asked for.
            let script = r#"ask() { curl -sS -m 40 "$@"; }
base=http://app.test:8080
ask $base/slow=$1 >slow &
ask -N $base/events | while read -r line; do [ -z "$line" ] || date +%s%N; done |
    awk 'NR > 1 && $1 - last > 200000000 { apart++ } { last = $1 } END { print NR, apart }'
head -c 5000000 /dev/zero >up
ask --data-binary @up $base/p
ask -H 'Transfer-Encoding: chunked' --data-binary @up $base/p
ask -T up -H 'Expect: 100-continue' $base/p
ask -I $base/h | head -1 | tr -d '\r'
ask $base/204 $base/k -w '%{num_connects}\n'
ask $base/big=3000000 | wc -c
wait; cat slow"#;
            let expected = "3 2\ngot 5000000\ngot 5000000\ngot 5000000\nHTTP/1.1 200 OK\n\
            1\nreached\n0\n3000000\nslow\n";
            let words = |seconds| ["bash", "-c", script, "bash", seconds];
            let mut control = std::process::Command::new("bash");
            control
                .args(&words("1")[1..])
                .current_dir(world.scratch.dir("streams"));
            assert_eq!(run(&mut control).succeeds().stdout, expected);
            let runs = [true, false].map(|by_proxy| {
                std::thread::spawn(move || {
                    let scratch = Scratch::new("streams");
                    let srt = Srt::new(&scratch).allow_host("app.test");
                    let srt = srt.set("network.proxyEnv", by_proxy.into());
                    let srt = srt.allow_write(scratch.path("cwd"));
                    srt.run(&words("11")).succeeds().stdout
                })
            });
            for run in runs {
                assert_eq!(run.join().expect("it works"), expected);
            }
        },
    );
}

#[test]
fn servers_inside_may_have_the_ports_of_the_hosts_outside() {
    in_a_world(
        "cases::servers_inside_may_have_the_ports_of_the_hosts_outside",
        |world| {
            let script = "import socket, threading, urllib.request as u\n\
        def serve(host, port):\n\
        \x20   s = socket.create_server((host, port))\n\
        \x20   def answer():\n\
        \x20       c, _ = s.accept(); c.recv(999); c.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\ninside'); c.close()\n\
        \x20   threading.Thread(target=answer, daemon=True).start()\n\
        for port in (22, 443, 5432): serve('127.0.0.1', port)\n\
        serve('0.0.0.0', 80)\n\
        open = u.build_opener(u.ProxyHandler({})).open\n\
        print(open('http://127.0.0.1/').read(), open('http://app.test/').read())\n";
            let hits = world.hits(|| {
                let ran = world
                    .srt(&["app.test"], &[])
                    .run(&["/usr/bin/python3", "-c", script]);
                assert_eq!(ran.succeeds().stdout, "b'inside' b'reached\\n'\n");
            });
            assert_eq!(hits, 1);
        },
    );
}

#[test]
fn denying_all_is_said_at_the_start_and_by_each_refusal() {
    in_a_world(
        "cases::denying_all_is_said_at_the_start_and_by_each_refusal",
        |world| {
            world.is_reached(&["app.test"], "http://app.test:PORT/");
            let url = format!("http://{}/", world.address("app.test"));
            let hits = world.hits(|| {
                let ran = world
                    .srt(&["app.test"], &["*"])
                    .run(&["curl", "-sS", "-i", &url]);
                assert!(
                    ran.stdout.contains("403") && ran.stdout.contains("`*`"),
                    "{ran:?}"
                );
                assert!(ran.stderr.contains("deniedDomains"), "{ran:?}");
            });
            assert_eq!(hits, 0);
        },
    );
}

#[test]
fn socks_is_named_by_the_variables_and_refuses_with_its_code() {
    in_a_world(
        "cases::socks_is_named_by_the_variables_and_refuses_with_its_code",
        |world| {
            if cfg!(not(feature = "socks")) {
                return skip("this build has no SOCKS proxy");
            }
            let script = r#"base=http://app.test:8080
curl -sS -m 5 --noproxy '' -x "$FTP_PROXY" $base/s
curl -sS -m 5 --noproxy '' -x "$ALL_PROXY" $base/a
curl -sS -m 5 -x "$FTP_PROXY" http://evil.test:8080/s 2>&1"#;
            let requests = world.requests(|| {
                let ran = world.srt(&["app.test", "*.app.test"], &[]).sh(script);
                assert!(ran.stdout.starts_with("reached\nreached\n"), "{ran:?}");
                assert!(ran.stdout.contains("(2)"), "{ran:?}");
            });
            assert!(
                requests.len() == 2 && requests.iter().all(|request| request.is_for("app.test"))
            );
        },
    );
}

/// A server that says what it is to everybody who connects.
fn banner(world: &World) {
    let listener = world.there(|| TcpListener::bind("[::]:5555").expect("the port is free"));
    std::thread::spawn(move || {
        let greet = |mut client: TcpStream| {
            drop(client.write_all(b"SSH-2.0-bench\r\n"));
            std::thread::sleep(Duration::from_millis(200));
        };
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || greet(client));
        }
    });
    world.dns.add("pg.test", Answer::addresses(&["192.0.2.15"]));
}

#[test]
fn shells_and_what_speaks_no_http_connect_to_what_is_listed() {
    in_a_world(
        "cases::shells_and_what_speaks_no_http_connect_to_what_is_listed",
        |world| {
            banner(world);
            let ssh =
                "ssh -F none -v -o BatchMode=yes -o ConnectTimeout=5 -p 5555 app.test true 2>&1 |
            grep -o 'software version bench'";
            let git =
                "GIT_SSH_COMMAND='ssh -F none -v' git ls-remote ssh://git@app.test:5555/x 2>&1 |
            grep -o 'software version bench'";
            let raw = "timeout 5 bash -c 'exec 3<>/dev/tcp/pg.test/5555; head -1 <&3'";
            let table = [
                (ssh, "software version bench\n"),
                (git, "software version bench\n"),
                (raw, "SSH-2.0-bench\r\n"),
            ];
            let events = world.scratch.path("events");
            for (script, expected) in table {
                assert_eq!(outside(script).stdout, expected, "the control: {script}");
                for by_proxy in [true, false] {
                    let srt = |allowed: &[&str]| {
                        world
                            .srt(allowed, &[])
                            .set("network.proxyEnv", by_proxy.into())
                    };
                    let ran = srt(&["app.test:5555", "pg.test:5555"]).sh(script);
                    assert_eq!(ran.stdout, expected, "{script}: {}", ran.stderr);
                    for allowed in [&["app.test:443", "pg.test:80"][..], &[]] {
                        let start = Instant::now();
                        let mut stdout = String::new();
                        let sent = world.wire.sent(|| {
                            stdout = srt(allowed).events(&events).sh(script).stdout;
                        });
                        assert_eq!(stdout, "", "{script} with {allowed:?}");
                        assert_eq!(sent, [""; 0], "{script} with {allowed:?}");
                        assert!(start.elapsed() < Duration::from_secs(40));
                    }
                }
            }
            let events = std::fs::read_to_string(events).expect("srt made it");
            for host in ["app.test", "pg.test"] {
                let named = events.lines().any(|line| {
                    line.contains(host)
                        && line.contains("denied")
                        && line.contains("allowedDomains")
                });
                assert!(named, "{host}: {events}");
            }
        },
    );
}

#[test]
fn loopback_needs_no_grant_for_any_protocol() {
    in_a_world("cases::loopback_needs_no_grant_for_any_protocol", |world| {
        let script = "import socket as s\n\
        a = s.socket(s.AF_INET, s.SOCK_DGRAM); a.bind(('127.0.0.1', 0)); a.settimeout(2)\n\
        b = s.socket(s.AF_INET, s.SOCK_DGRAM); b.sendto(b'hi', a.getsockname()); print(a.recv(9))\n\
        c = s.socket(s.AF_INET6); c.bind(('::', 0)); c.listen()\n\
        d = s.create_connection(('127.0.0.1', c.getsockname()[1]), 2); print('dual')\n\
        print([name for _, name in s.if_nameindex()])\n";
        for transparent in [true, false] {
            let srt = world
                .srt(&[], &[])
                .set("network.transparent", transparent.into());
            let ran = srt.run(&["/usr/bin/python3", "-c", script]).succeeds();
            assert_eq!(ran.stdout, "b'hi'\ndual\n['lo']\n");
        }
    });
}

#[test]
fn look_ups_that_are_refused_end_at_once() {
    in_a_world("cases::look_ups_that_are_refused_end_at_once", |world| {
        let script = "timed() { local start=$(date +%s%N); \"$@\" >/dev/null 2>&1; local code=$?
            [ $(($(date +%s%N) - start)) -lt 2000000000 ] && echo $code; }
        timed getent hosts nosuch.example.com
        timed /usr/bin/python3 -c 'import socket; socket.getaddrinfo(\"nosuch.example.com\", 443)'
        timed getent hosts localhost";
        for transparent in [true, false] {
            let srt = world
                .srt(&[], &[])
                .set("network.transparent", transparent.into());
            let ran = srt.run(&["bash", "-c", script]);
            assert_eq!(
                ran.stdout, "2\n1\n0\n",
                "transparent: {transparent} {}",
                ran.stderr
            );
        }
        assert!(world.dns.asked("nosuch.example.com").is_empty());
    });
}

#[test]
fn look_ups_work_however_the_machine_is_set_up_for_them() {
    in_a_world(
        "cases::look_ups_work_however_the_machine_is_set_up_for_them",
        |world| {
            let setups = [
            // Where the file that says whom to ask is in /run, by a mount or by a link.
            "mount -t tmpfs none /run && cp /etc/resolv.conf /run/r && umount /etc/resolv.conf;
                mount --bind /run/r /etc/resolv.conf",
            "mount -t tmpfs none /mnt && cp -a /etc/. /mnt 2>/dev/null; mount -t tmpfs none /run &&
                cp /etc/resolv.conf /run/r && ln -sf /run/r /mnt/resolv.conf && mount --bind /mnt /etc",
            // Where a service that is out of reach comes before the servers.
            "echo 'hosts: files resolve [!UNAVAIL=return] dns' >/tmp/switch.$$ &&
                mount --bind /tmp/switch.$$ /etc/nsswitch.conf && rm /tmp/switch.$$",
            "mount --bind /dev/null /etc/hosts",
        ];
            let script = "cat /etc/resolv.conf >/dev/null && echo readable
            getent hosts localhost >/dev/null && echo localhost
            env -i curl -sS -m 5 http://app.test:8080/";
            for setup in setups {
                for hidden in [false, true] {
                    let srt = world.srt(&["app.test"], &[]);
                    // What a link leads to is hidden with the rest: that is what the rule says.
                    let srt = match hidden && !setup.contains("ln -sf") {
                        true => srt.deny_read("/run"),
                        false => srt,
                    };
                    let command = srt.into_command(&["sh", "-c", script]);
                    let setup = format!("{setup} && exec \"$@\"");
                    let words = ["unshare", "-m", "sh", "-c", &setup, "sh"];
                    let start = Instant::now();
                    let ran = run(&mut wrapped(&words, &command));
                    assert_eq!(
                        ran.stdout, "readable\nlocalhost\nreached\n",
                        "{setup}: {ran:?}"
                    );
                    assert!(start.elapsed() < Duration::from_secs(40), "{setup}");
                }
            }
        },
    );
}

#[test]
fn the_next_address_of_a_name_is_tried_when_one_is_dead() {
    in_a_world(
        "cases::the_next_address_of_a_name_is_tried_when_one_is_dead",
        |world| {
            let tables: [&[&str]; 3] = [
                &["2001:db8::1", "192.0.2.14"],
                &["203.0.113.1", "192.0.2.14"],
                &["::1", "192.0.2.14"],
            ];
            for addresses in tables {
                world.dns.add("dual.test", Answer::addresses(addresses));
                let start = Instant::now();
                world.is_reached(&["dual.test"], "http://dual.test:PORT/");
                assert!(start.elapsed() < Duration::from_secs(9), "{addresses:?}");
                let url = format!(
                    "env -i curl -sS -m 5 http://{}/",
                    world.address("dual.test")
                );
                let hits = world.hits(|| drop(world.srt(&["dual.test"], &[]).sh(&url).succeeds()));
                assert_eq!(hits, 1, "{addresses:?}");
            }
        },
    );
}
