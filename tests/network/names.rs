//! Which questions leave for a name, and what becomes of the answers.

use super::harness::Srt;
use super::world::{Answer, Kind, World, in_a_world};

/// Ways to ask for a name, as scripts with the URL as `$1`.
const WAYS: [&str; 4] = [
    "curl -sS -i -m 8 --noproxy '' $1",
    "curl -sS -i -m 8 --noproxy '' -p $1",
    "case $FTP_PROXY in socks*) ;; *) unset FTP_PROXY; env -i curl -sS -m 8 $1; exit;; esac
        curl -sS -m 8 --noproxy '' -x $FTP_PROXY $1",
    "env -i curl -sS -m 8 $1",
];

fn ask(world: &World, srt: Srt, way: &str, host: &str) -> String {
    let url = format!("http://{}/", world.address(host));
    let ran = srt.run(&["bash", "-c", way, "bash", &url]);
    format!("{}{}", ran.stdout, ran.stderr)
}

#[test]
fn nw_27_no_name_is_looked_up_before_it_is_allowed() {
    in_a_world(
        "names::nw_27_no_name_is_looked_up_before_it_is_allowed",
        |world| {
            for way in WAYS {
                let before = world.dns.all_asked().len();
                let hits =
                    world.hits(|| drop(ask(world, world.srt(&["app.test"], &[]), way, "app.test")));
                assert_eq!(hits, 1, "{way}");
                let asked = world.dns.all_asked().split_off(before);
                let kinds: Vec<Kind> = asked.iter().map(|(_, kind)| *kind).collect();
                assert!(
                    asked.iter().all(|(name, _)| name == "app.test"),
                    "{asked:?}"
                );
                // One look-up of each kind, whatever the program inside asked for.
                assert_eq!(kinds.len(), 2, "{way}: {asked:?}");
                assert!(kinds.contains(&Kind::A) && kinds.contains(&Kind::AAAA));

                let table: [(&[&str], &[&str], &str); 5] = [
                    (&["app.test"], &[], "evil.test"),
                    (&["app.test"], &[], "secret-in-a-name.evil.test"),
                    (&["*.test"], &["evil.test"], "evil.test"),
                    // Another port of the name is listed.
                    (&["evil.test:443"], &[], "evil.test"),
                    (&["*.evil.test"], &[], "evil.test"),
                ];
                for (allowed, denied, host) in table {
                    let allowed: &[&str] = if allowed == ["*.test"] {
                        &["*.app.test", "evil.test"]
                    } else {
                        allowed
                    };
                    let before = world.dns.all_asked().len();
                    let hits =
                        world.hits(|| drop(ask(world, world.srt(allowed, denied), way, host)));
                    assert_eq!(hits, 0, "{way} {host}");
                    let asked = world.dns.all_asked().split_off(before);
                    assert!(asked.is_empty(), "{way} {host}: {asked:?}");
                }
            }
        },
    );
}

#[test]
fn nw_27_look_ups_inside_leave_nothing_outside() {
    in_a_world(
        "names::nw_27_look_ups_inside_leave_nothing_outside",
        |world| {
            let script =
                "getent ahosts app.test; getent ahosts evil.test; getent ahosts x.evil.test
            for server in 192.0.2.53 8.8.8.8 2001:db8::53; do
                python3 -c \"$QUERY\" $server evil.test; python3 -c \"$QUERY\" $server app.test
            done; exit 0";
            let srt = world.srt(&["app.test"], &[]).env("QUERY", QUERY);
            let before = world.dns.all_asked().len();
            let mut said = String::new();
            let sent = world.wire.sent(|| said = srt.sh(script).succeeds().stdout);
            assert_eq!(world.dns.all_asked().len(), before, "{said}");
            assert_eq!(sent, [""; 0]);
            assert!(
                !said.contains("192.0.2.10"),
                "the address is not told: {said}"
            );
            // TXT, which carries most in a tunnel, of names that are allowed as well.
            assert!(!said.contains("16:0"), "{said}");
        },
    );
}

/// Asks a server for a text and prints `KIND:CODE`.
const QUERY: &str = r"
import socket, struct, sys
server, name = sys.argv[1:]
for kind in (1, 16, 255, 65):
    s = socket.socket(socket.AF_INET6 if ':' in server else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(2)
    labels = b''.join(bytes([len(word)]) + word.encode() for word in name.split('.'))
    s.connect((server, 53))
    try:
        s.send(struct.pack('>6H', 7, 256, 1, 0, 0, 0) + labels + b'\0' + struct.pack('>2H', kind, 1))
        answer = s.recv(999)
        found = answer[6:8] != b'\0\0'
        print(f'{kind}:{answer[3] & 15}:{found}' if found else f'{kind}:none')
    except OSError as error: print(error)
";

#[test]
fn nw_28_a_name_that_changes_its_address_is_looked_up_once_a_connection() {
    in_a_world(
        "names::nw_28_a_name_that_changes_its_address_is_looked_up_once_a_connection",
        |world| {
            let [good, bad] = ["192.0.2.10", "10.0.0.5"].map(|text| Answer::addresses(&[text]));
            for (number, way) in WAYS.iter().enumerate() {
                // First an ordinary address, ever after this host's own.
                let name = format!("rebind-{number}.test");
                world
                    .dns
                    .add_in_turn(&name, vec![good.clone(), bad.clone()]);
                let requests = world.requests(|| {
                    for _ in 0..3 {
                        ask(world, world.srt(&[&name], &[]), way, &name);
                    }
                });
                let places: Vec<_> = requests.iter().map(|request| request.to.ip()).collect();
                assert_eq!(
                    places,
                    ["192.0.2.10".parse::<std::net::IpAddr>().expect("one")],
                    "{way}"
                );
                let asked = world.dns.asked(&name);
                let of_kind = |kind| asked.iter().filter(|asked| **asked == kind).count();
                assert_eq!((of_kind(Kind::A), of_kind(Kind::AAAA)), (3, 3), "{way}");

                let name = format!("turn-{number}.test");
                world
                    .dns
                    .add_in_turn(&name, vec![bad.clone(), good.clone()]);
                let hits = world.hits(|| drop(ask(world, world.srt(&[&name], &[]), way, &name)));
                assert_eq!(hits, 0, "{way}");
            }
        },
    );
}

#[test]
fn nw_26_however_a_name_leads_inwards_it_is_refused_without_the_address() {
    in_a_world(
        "names::nw_26_however_a_name_leads_inwards_it_is_refused_without_the_address",
        |world| {
            world
                .dns
                .add("chain.test", Answer::Alias("link.test".to_owned()));
            world
                .dns
                .add("link.test", Answer::Alias("private.test".to_owned()));
            world
                .dns
                .add("six-in.test", Answer::addresses(&["fd00::5"]));
            world
                .dns
                .add("mapped.test", Answer::addresses(&["::ffff:10.0.0.5"]));
            world
                .dns
                .add("nat64.test", Answer::addresses(&["64:ff9b::10.0.0.5"]));
            let inwards = [
                "chain.test",
                "six-in.test",
                "mapped.test",
                "nat64.test",
                "metadata.test",
            ];
            for host in inwards {
                for way in WAYS {
                    let mut said = String::new();
                    let requests = world.requests(|| {
                        said = ask(world, world.srt(&[host], &[]), way, host);
                    });
                    assert!(requests.is_empty(), "{host} {way}: {requests:?}");
                    for address in ["10.0.0.5", "fd00::5", "64:ff9b", "169.254", "private.test"] {
                        assert!(!said.contains(address), "{host} {way}: {said}");
                    }
                }
                let said = ask(world, world.srt(&[host], &[]), WAYS[0], host);
                assert!(
                    said.contains("403") && said.contains("resolves to"),
                    "{said}"
                );
            }
            // A chain that leads to an ordinary address is followed.
            world
                .dns
                .add("alias.test", Answer::Alias("app.test".to_owned()));
            world.is_reached(&["alias.test"], "http://alias.test:PORT/");
            // One inward address among several: only the others are dialled.
            world
                .dns
                .add("mixed.test", Answer::addresses(&["10.0.0.5", "192.0.2.10"]));
            let requests = world.requests(|| {
                drop(
                    world
                        .curl(&["mixed.test"], "http://mixed.test:PORT/")
                        .succeeds(),
                );
            });
            assert_eq!(requests[0].to.ip().to_string(), "192.0.2.10");
        },
    );
}

#[test]
fn nw_29_each_fault_of_a_name_server_is_a_fault_and_ends_in_time() {
    in_a_world(
        "names::nw_29_each_fault_of_a_name_server_is_a_fault_and_ends_in_time",
        |world| {
            let faults = [
                ("missing.test", Answer::Missing),
                ("fails.test", Answer::Fails),
                ("silent.test", Answer::Silent),
                ("empty.test", Answer::Addresses(Vec::new())),
                ("garbage.test", Answer::Garbage(vec![0xff; 40])),
                ("text.test", Answer::Text("192.0.2.10".to_owned())),
            ];
            for (name, answer) in faults {
                world.dns.add(name, answer);
                for way in [WAYS[0], WAYS[3]] {
                    let mut said = String::new();
                    let start = std::time::Instant::now();
                    let hits = world.hits(|| {
                        said = ask(world, world.srt(&[name], &[]), way, name);
                    });
                    assert_eq!(hits, 0, "{name}");
                    assert!(!world.dns.asked(name).is_empty(), "{name}");
                    assert!(
                        start.elapsed().as_secs() < 40,
                        "{name}: {:?}",
                        start.elapsed()
                    );
                    let by_proxy = way == WAYS[0];
                    assert_eq!(said.contains("502"), by_proxy, "{name}: {said}");
                }
            }
        },
    );
}

#[test]
fn nw_30_what_the_file_of_hosts_says_is_judged_as_any_answer() {
    in_a_world(
        "names::nw_30_what_the_file_of_hosts_says_is_judged_as_any_answer",
        |world| {
            let hosts = "127.0.0.1 localhost in.test\n192.0.2.10 out.test\n10.0.0.5 lan-in.test\n";
            let hosts = world.scratch.file("more-hosts", hosts);
            let table = [("out.test", 1), ("in.test", 0), ("lan-in.test", 0)];
            for (host, expected) in table {
                for way in WAYS {
                    let url = format!("http://{}/", world.address(host));
                    let command = world
                        .srt(&[host], &[])
                        .into_command(&["bash", "-c", way, "bash", &url]);
                    let bind =
                        format!("mount --bind {} /etc/hosts && exec \"$@\"", hosts.display());
                    let words = ["unshare", "-m", "sh", "-c", &bind, "sh"];
                    let mut ran = None;
                    let hits = world.hits(|| {
                        ran = Some(super::run(&mut super::harness::wrapped(&words, &command)));
                    });
                    assert_eq!(hits, expected, "{host} {way}: {ran:?}");
                }
            }
        },
    );
}

#[test]
fn nw_32_names_are_as_long_as_names_can_be_and_no_longer() {
    in_a_world(
        "names::nw_32_names_are_as_long_as_names_can_be_and_no_longer",
        |world| {
            // 253 characters: three labels of 63, one of 52 and what follows.
            let label = "a".repeat(63);
            let longest = format!("{label}.{label}.{label}.{}.app.test", "b".repeat(52));
            assert_eq!(longest.len(), 253);
            let longer = longest.replace("b.app", "bb.app");
            let label = format!("{}.app.test", "a".repeat(64));
            world.dns.add(&longest, Answer::addresses(&["192.0.2.10"]));
            for (host, expected) in [(&longest, 1), (&longer, 0), (&label, 0)] {
                let before = world.dns.all_asked().len();
                let hits = world.hits(|| {
                    let said = ask(world, world.srt(&["*.app.test"], &[]), WAYS[0], host);
                    assert_eq!(said.contains(" 400 "), expected == 0, "{host}: {said}");
                });
                assert_eq!(hits, expected, "{host}");
                let asked = world.dns.all_asked().len() - before;
                assert_eq!(asked > 0, expected == 1, "{host}");
            }
        },
    );
}
