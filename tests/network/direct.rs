//! Programs that know no proxy: they reach what is listed, and nothing else leaves.

use std::process::Command;

use super::harness::{outside, run, with_fault};
use super::world::{Answer, Place, in_a_world};

#[test]
fn nw_01_a_program_without_a_proxy_reaches_what_is_listed_only() {
    in_a_world(
        "direct::nw_01_a_program_without_a_proxy_reaches_what_is_listed_only",
        |world| {
            let direct = |host: &str| {
                let url = world.address(host);
                format!("env -i curl -sS -m 5 -o /dev/null -w '%{{time_total}}' http://{url}/")
            };
            let listed = ["app.test", "192.0.2.12", "[2001:db8:2::12]"];
            let table = [
                ("app.test", true),
                ("192.0.2.12", true),
                ("[2001:db8:2::12]", true),
                ("evil.test", false),
                ("192.0.2.11", false),
                ("[2001:db8:2::11]", false),
                // The address of a name that is listed is not.
                ("192.0.2.10", false),
                ("10.7.0.5", false),
                ("169.254.169.254", false),
                ("100.100.100.200", false),
            ];
            for (host, is_listed) in table {
                let control = world.hits(|| drop(outside(&direct(host)).succeeds()));
                assert_eq!(control, 1, "{host}");
                for transparent in [true, false] {
                    let srt = world.srt(&listed, &[]);
                    let srt = srt.set("network.transparent", transparent.into());
                    let mut took = 0.0;
                    let hits = world.hits(|| {
                        let ran = srt.sh(&direct(host));
                        took = ran
                            .stdout
                            .parse()
                            .unwrap_or_else(|_| panic!("{host}: {ran:?}"));
                    });
                    let expected = usize::from(is_listed && transparent);
                    assert_eq!(hits, expected, "{host}, transparent: {transparent}");
                    assert!(took < 2.0, "{host} took {took} s");
                }
            }
        },
    );
}

#[test]
fn nw_02_nothing_of_any_protocol_leaves() {
    in_a_world("direct::nw_02_nothing_of_any_protocol_leaves", |world| {
        let python = |script: &str| [PYTHON, "-c", script].map(str::to_owned);
        for transparent in [true, false] {
            let mut took = String::new();
            let sent = world.wire.sent(|| {
                let srt = world.srt(&["app.test"], &[]);
                let srt = srt.set("network.transparent", transparent.into());
                took = srt.run(&python(EVERY_PROTOCOL)).succeeds().stdout;
            });
            assert_eq!(sent, [""; 0], "transparent: {transparent}");
            assert!(
                took.trim().parse::<f64>().is_ok_and(|took| took < 2.0),
                "{took}"
            );
        }
        // The control comes last: what is said about groups is said again later.
        let [program, flag, script] = python(EVERY_PROTOCOL);
        let sent = world.wire.sent(|| {
            drop(run(Command::new(&program).args([&flag, &script])).succeeds());
        });
        // TCP, UDP, SCTP, ICMP and IGMP, to hosts, groups and everybody.
        for expected in [
            "6 to 192.0.2.10",
            "17 to 192.0.2.10",
            "132 to 192.0.2.10",
            "1 to 192.0.2.10",
            "253 to 192.0.2.10",
            "17 to 239.1.2.3",
            "17 to 255.255.255.255",
            "2 to 224.0.0.22",
            "6 to 2001:db8:2::10",
            "17 to 2001:db8:2::10",
            "17 to ff05::1234",
        ] {
            assert!(sent.contains(&expected.to_owned()), "{expected}: {sent:?}");
        }
    });
}

const PYTHON: &str = "/usr/bin/python3";

/// Sends by every protocol there is, without waiting; prints how long all of it took.
const EVERY_PROTOCOL: &str = r"
import socket as s, struct, time
start = time.time()
def send(family, kind, protocol, to, *options):
    try:
        with s.socket(family, kind, protocol) as socket:
            socket.setblocking(False)
            for option in options: socket.setsockopt(*option)
            try: socket.connect(to)
            except BlockingIOError: time.sleep(0.02)
            socket.send(b'\x08\0\xf7\xff\0\0\0\0')
    except OSError: pass
V4, V6 = ('192.0.2.10', 53), ('2001:db8:2::10', 53)
for protocol in (0, 132, 262): send(s.AF_INET, s.SOCK_STREAM, protocol, V4)
send(s.AF_INET6, s.SOCK_STREAM, 0, V6)
for port in (53, 123, 443, 5353):
    send(s.AF_INET, s.SOCK_DGRAM, 0, (V4[0], port))
    send(s.AF_INET6, s.SOCK_DGRAM, 0, (V6[0], port))
send(s.AF_INET, s.SOCK_DGRAM, s.IPPROTO_ICMP, V4)
for protocol in (1, 47, 132, 253): send(s.AF_INET, s.SOCK_RAW, protocol, (V4[0], 0))
send(s.AF_INET6, s.SOCK_RAW, 253, (V6[0], 0))
send(s.AF_INET, s.SOCK_DGRAM, 0, ('255.255.255.255', 9), (s.SOL_SOCKET, s.SO_BROADCAST, 1))
group = s.inet_aton('239.1.2.3') + s.inet_aton('0.0.0.0')
send(s.AF_INET, s.SOCK_DGRAM, 0, ('239.1.2.3', 5353), (s.IPPROTO_IP, s.IP_ADD_MEMBERSHIP, group))
group = s.inet_pton(s.AF_INET6, 'ff05::1234') + struct.pack('i', 0)
send(s.AF_INET6, s.SOCK_DGRAM, 0, ('ff05::1234', 5353), (s.IPPROTO_IPV6, s.IPV6_JOIN_GROUP, group))
send(s.AF_INET6, s.SOCK_DGRAM, 0, ('fe80::1', 53))
print(time.time() - start)
";

#[test]
fn nw_74_quic_is_refused_at_once_and_tcp_is_what_clients_fall_back_to() {
    in_a_world(
        "direct::nw_74_quic_is_refused_at_once_and_tcp_is_what_clients_fall_back_to",
        |world| {
            let script = "import socket, time\n\
            start = time.time()\n\
            for family in (socket.AF_INET, socket.AF_INET6):\n\
            \x20   s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(5)\n\
            \x20   to = socket.getaddrinfo('app.test', 443, family, socket.SOCK_DGRAM)[0][4]\n\
            \x20   try: s.connect(to); s.send(b'initial'); s.recv(9); print('answered')\n\
            \x20   except OSError as error: print(error.strerror)\n\
            print(time.time() - start < 2)\n";
            let mut said = String::new();
            let sent = world.wire.sent(|| {
                let srt = world.srt(&["app.test"], &[]);
                said = srt.run(&[PYTHON, "-c", script]).succeeds().stdout;
            });
            assert_eq!(said, "Connection refused\nConnection refused\nTrue\n");
            assert_eq!(sent, [""; 0]);
            let hits = world.hits(|| {
                let url = format!("env -i curl -sS -m 5 http://{}/", world.address("app.test"));
                drop(world.srt(&["app.test"], &[]).sh(&url).succeeds());
            });
            assert_eq!(hits, 1);
        },
    );
}

#[test]
fn nw_23_no_name_leads_to_an_address_of_this_host() {
    in_a_world(
        "direct::nw_23_no_name_leads_to_an_address_of_this_host",
        |world| {
            let listed = outside("ip -o addr | awk '{ print $4 }' | cut -d/ -f1").succeeds();
            let mut addresses: Vec<&str> = listed.stdout.lines().collect();
            // Link-local addresses want an interface beside them; others that mean this host too.
            addresses.retain(|address| !address.starts_with("fe80"));
            addresses.extend([
                "0.0.0.0",
                "::",
                "127.0.0.53",
                "127.255.255.254",
                "::ffff:127.0.0.1",
            ]);
            assert!(addresses.len() > 12, "{addresses:?}");
            let mut names: Vec<String> = [
                "localhost",
                "x.localhost",
                "evil.localhost",
                "localhost.localdomain",
                "host.docker.internal",
            ]
            .map(str::to_owned)
            .to_vec();
            for (number, address) in addresses.iter().enumerate() {
                let name = format!("own-{number}.test");
                world.dns.add(&name, Answer::addresses(&[address]));
                names.push(name);
            }
            for name in ["localhost.localdomain", "host.docker.internal"] {
                world.dns.add(name, Answer::addresses(&["198.51.100.1"]));
            }
            // Those of RFC 6761 would be allowed by being listed, and are not.
            let listed = names.split_off(3);
            let allowed: Vec<&str> = listed.iter().map(String::as_str).collect();
            let control = world.hits(|| {
                for address in &addresses {
                    let bracketed = match address.contains(':') {
                        true => format!("[{address}]"),
                        false => (*address).to_owned(),
                    };
                    let url = world.address(&bracketed);
                    outside(&format!("curl -sS -m 5 --noproxy '*' http://{url}/")).succeeds();
                }
            });
            assert_eq!(control, addresses.len());
            let mut words = vec!["bash", "-c", ASK_ALL_WAYS, "bash"];
            words.extend(names.iter().chain(&listed).map(String::as_str));
            let requests = world.requests(|| {
                let ran = world.srt(&allowed, &[]).run(&words).succeeds();
                assert!(ran.stdout.contains("403 own-0.test"), "{ran:?}");
            });
            assert!(requests.is_empty(), "{requests:?}");
        },
    );
}

/// Asks for each name by the HTTP proxy, by SOCKS where there is one, and by itself.
const ASK_ALL_WAYS: &str = r#"for name; do
    url=http://$name:8080/
    curl -sS -m 5 --noproxy '' -o /dev/null -w "%{http_code} $name\n" $url
    curl -sS -m 5 --noproxy '' -p -o /dev/null $url
    case $FTP_PROXY in socks*) curl -sS -m 5 --noproxy '' -x "$FTP_PROXY" -o /dev/null $url;; esac
    case $name in *localhost) ;; *) env -i curl -sS -m 5 -o /dev/null $url;; esac
done 2>/dev/null
:"#;

#[test]
fn nw_25_no_packet_goes_to_a_guarded_range_for_a_name_that_leads_there() {
    in_a_world(
        "direct::nw_25_no_packet_goes_to_a_guarded_range_for_a_name_that_leads_there",
        |world| {
            let ranges = [
                "10.0.0.1",
                "10.255.255.254",
                "172.16.0.1",
                "172.31.255.254",
                "192.168.0.1",
                "192.168.255.254",
                "100.64.0.2",
                "100.127.255.254",
                "198.18.0.1",
                "198.19.255.254",
                "192.0.0.1",
                "192.0.0.254",
                "240.0.0.1",
                "255.255.255.254",
                "255.255.255.255",
                "224.0.0.1",
                "239.255.255.255",
                "fc00::1",
                "fdff::1",
                "fe80::1",
                "fec0::1",
                "ff02::1",
                "64:ff9b::10.0.0.1",
                "2002:a00:1::1",
                "::ffff:10.0.0.1",
                "169.254.1.1",
                "168.63.129.16",
            ];
            let mut names = Vec::new();
            for (number, address) in ranges.iter().enumerate() {
                let name = format!("range-{number}.test");
                world.dns.add(&name, Answer::addresses(&[address]));
                names.push(name);
            }
            names.push("app.test".to_owned());
            let allowed: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut words = vec!["bash", "-c", ASK_ALL_WAYS, "bash"];
            words.extend(&allowed);
            let mut sent = Vec::new();
            let requests = world.requests(|| {
                sent = world.wire.sent(|| {
                    drop(world.srt(&allowed, &[]).run(&words).succeeds());
                });
            });
            // The control: the last name leads to an ordinary address.
            assert!(requests.len() >= 3, "{requests:?}");
            for request in requests {
                assert_eq!(request.to.ip().to_string(), "192.0.2.10");
                assert_eq!(request.place, Place::Far);
            }
            let elsewhere = |packet: &&String| {
                !packet.ends_with(" to 192.0.2.10") && !packet.ends_with(" to 198.51.100.53")
            };
            let elsewhere: Vec<_> = sent.iter().filter(elsewhere).collect();
            assert!(elsewhere.is_empty(), "{elsewhere:?}");
        },
    );
}

/// socket(AF_NETLINK, …, NETLINK_NETFILTER), without which there is no nf_tables.
const TABLES: &str = "socket:2=12";

#[test]
fn without_nf_tables_the_usual_ports_and_those_of_entries_are_served() {
    in_a_world(
        "direct::without_nf_tables_the_usual_ports_and_those_of_entries_are_served",
        |world| {
            let script = "for port in 80 8080 8081; do
                env -i curl -s -m 5 -o /dev/null http://app.test:$port/; echo $port $?
            done
            python3 -c 'import socket
for port in (80, 8080, 8081):
    for host in (\"127.0.0.1\", \"0.0.0.0\"):
        try: socket.create_server((host, port)); print(port, host, \"bound\")
        except OSError as error: print(port, host, error.errno)'";
            let srt = || world.srt(&["app.test:80", "app.test:8080", "app.test:8000-8999"], &[]);
            let bound = "80 127.0.0.1 bound\n80 0.0.0.0 bound\n";
            let ran = srt().sh(script).succeeds();
            assert!(ran.stdout.starts_with("80 0\n8080 0\n8081 0\n"), "{ran:?}");
            assert!(ran.stdout.contains(bound), "{ran:?}");
            let command = srt().into_command(&["sh", "-c", script]);
            let mut stdout = String::new();
            let hits = world.hits(|| stdout = with_fault("EPERM", TABLES, &command).stdout);
            assert_eq!(hits, 2, "{stdout}");
            // 7 is a connection that is refused, 98 a port that is taken.
            let expected = "80 0\n8080 0\n8081 7\n80 127.0.0.1 98\n80 0.0.0.0 98\n\
                8080 127.0.0.1 98\n8080 0.0.0.0 98\n8081 127.0.0.1 bound\n8081 0.0.0.0 bound\n";
            assert_eq!(stdout, expected);
            // What is not listed is not reached by that way either.
            let command = world
                .srt(&["app.test:8080"], &[])
                .into_command(&["sh", "-c", script]);
            let hits = world.hits(|| drop(with_fault("EPERM", TABLES, &command)));
            assert_eq!(hits, 1);
        },
    );
}

#[test]
fn a_plain_request_inside_must_name_the_host_it_was_allowed_for() {
    in_a_world(
        "direct::a_plain_request_inside_must_name_the_host_it_was_allowed_for",
        |world| {
            let listed = ["app.test:8080", "192.0.2.12:8080"];
            let ways = [
                "env -i curl -sS -m 5 -i -H \"Host: $2\" http://$1:8080/",
                "curl -sS -m 5 -i -p --noproxy '' -H \"Host: $2\" http://$1:8080/",
            ];
            let table = [
                ("app.test", "app.test:8080", true),
                ("app.test", "APP.test.", true),
                ("192.0.2.12", "192.0.2.12:8080", true),
                ("app.test", "evil.test", false),
                ("app.test", "evil.test:8080", false),
                ("app.test", "app.test@evil.test", false),
                ("192.0.2.12", "evil.test", false),
            ];
            for (way, (to, host, agrees)) in ways
                .iter()
                .flat_map(|way| table.iter().map(move |row| (way, *row)))
            {
                for required in [true, false] {
                    let srt = world.srt(&listed, &[]);
                    let srt = srt.set("network.requireHostMatch", required.into());
                    let mut stdout = String::new();
                    let requests = world.requests(|| {
                        stdout = srt.run(&["sh", "-c", way, "sh", to, host]).stdout;
                    });
                    let passes = agrees || !required;
                    // The connection is made before the client says anything.
                    let asked = requests.iter().filter(|request| !request.head.is_empty());
                    assert_eq!(
                        asked.count(),
                        usize::from(passes),
                        "{way} {to} {host} {required}"
                    );
                    let is_told =
                        stdout.contains("421 ") && stdout.contains("network.requireHostMatch");
                    assert_eq!(is_told, !passes, "{way} {to} {host}: {stdout}");
                }
            }
        },
    );
}

#[test]
fn the_sandboxs_own_addresses_lead_to_its_own_servers() {
    in_a_world(
        "direct::the_sandboxs_own_addresses_lead_to_its_own_servers",
        |world| {
            let script = "import socket, threading
def serve(family, host):
    s = socket.create_server((host, 7777), family=family)
    def answer():
        while True: c, _ = s.accept(); c.sendall(b'own'); c.close()
    threading.Thread(target=answer, daemon=True).start()
serve(socket.AF_INET, '0.0.0.0'); serve(socket.AF_INET6, '::1')
print(socket.create_connection(('192.0.2.10', 8080), 3).getpeername())
def ask(to, source=None):
    c = socket.create_connection(to, 3, source_address=source)
    return c.recv(3)
print(ask(('198.18.0.1', 7777)), ask(('127.0.0.1', 7777)), ask(('::1', 7777)))
print(ask(('127.0.0.1', 7777), ('198.18.0.1', 0)), ask(('198.18.0.1', 7777), ('127.0.0.1', 0)))
for to in (('198.18.0.1', 7778), ('fd00:7372:7400::1', 7778)):
    try: print(ask(to))
    except OSError as error: print(error.errno)
c = socket.create_connection(('192.0.2.10', 8080), 3, source_address=('127.0.0.1', 0))
c.sendall(b'GET / HTTP/1.0\\r\\nHost: 192.0.2.10:8080\\r\\n\\r\\n'); print(c.recv(15))";
            let srt = world.srt(&["192.0.2.10:8080"], &[]);
            let ran = srt.run(&["/usr/bin/python3", "-c", &script.replace("\\\\", "\\")]);
            let expected = "('192.0.2.10', 8080)\nb'own' b'own' b'own'\nb'own' b'own'\n111\n111\n\
                b'HTTP/1.1 200 OK'\n";
            assert_eq!(ran.succeeds().stdout, expected);
        },
    );
}

#[test]
fn a_half_closed_connection_is_remembered_as_long_as_an_open_one() {
    in_a_world(
        "direct::a_half_closed_connection_is_remembered_as_long_as_an_open_one",
        |world| {
            let times = "cd /proc/sys/net/netfilter && cat nf_conntrack_tcp_timeout_close_wait \
                nf_conntrack_tcp_timeout_fin_wait";
            let control = outside(times).succeeds().stdout;
            assert_ne!(control, "432000\n432000\n");
            assert_eq!(world.srt(&[], &[]).sh(times).stdout, "432000\n432000\n");
        },
    );
}
