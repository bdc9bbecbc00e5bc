use super::*;
use crate::policy::generator::Generator;
use crate::policy::hostname::Target;
use crate::policy::network::Network;
use crate::settings::{self, Layer, Origin};

fn entries(key: &'static str, file: &str, texts: &[&str]) -> Vec<Entry> {
    let entry = |(index, text): (usize, &&str)| {
        Entry::new(
            *text,
            Origin {
                key,
                file: Some(Path::new(file).into()),
                line: u32::try_from(index).unwrap() + 2,
                column: 5,
                layer: Layer::Explicit,
            },
        )
    };
    texts.iter().enumerate().map(entry).collect()
}

fn domains(file: &str, texts: &[&str]) -> Vec<Entry> {
    entries("network.allowedDomains", file, texts)
}

fn writes(file: &str, texts: &[&str]) -> Vec<Entry> {
    entries("filesystem.allowWrite", file, texts)
}

fn reads(file: &str, texts: &[&str]) -> Vec<Entry> {
    entries("filesystem.allowRead", file, texts)
}

/// A host whose directories do not exist: paths are compared as far as they go.
fn host() -> Host {
    let mut host = Host::read().unwrap();
    host.cwd = "/srt-none/cwd".into();
    host.home = Some("/srt-none/home".into());
    host
}

fn unbounded() -> Ceiling<'static> {
    Ceiling {
        file: Path::new("top.json"),
        allowed_domains: None,
        allow_read: None,
        allow_write: None,
        allow_unix_sockets: None,
        deny_read: &[],
    }
}

fn texts(narrowed: &Narrowed) -> Vec<&str> {
    narrowed
        .entries
        .iter()
        .map(|entry| entry.text.as_str())
        .collect()
}

#[test]
fn an_absent_key_bounds_nothing_and_an_empty_list_everything() {
    let below = domains("user.json", &["a.test"]);
    let grants = Grants {
        allowed_domains: &below,
        ..Grants::default()
    };
    assert!(check(&unbounded(), &grants, &host()).is_ok());
    let empty = Ceiling {
        allowed_domains: Some(&[]),
        ..unbounded()
    };
    let error = check(&empty, &grants, &host()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "user.json:2:5: network.allowedDomains `a.test`: goes beyond network.allowedDomains of \
         top.json, which is empty"
    );
    assert_eq!(error.kind(), Kind::Settings);
    assert!(check(&empty, &Grants::default(), &host()).is_ok());
}

#[test]
fn every_entry_beyond_the_ceiling_is_named_with_both_places() {
    let bound = domains("top.json", &["*.a.test:443", "10.0.0.0/8"]);
    let roots = writes("top.json", &["~/work", "/srt-none/out"]);
    let ceiling = Ceiling {
        allowed_domains: Some(&bound),
        allow_write: Some(&roots),
        ..unbounded()
    };
    let hosts = domains(
        "user.json",
        &[
            "b.a.test:443",
            "a.test:443",
            "*.B.a.test.:443",
            "b.a.test",
            "0xa.1",
            "10.0.0.0/7",
        ],
    );
    let paths = writes(
        "user.json",
        &["~/work/x", "../out", "~/worker", ".", "~/work/../home"],
    );
    let grants = Grants {
        allowed_domains: &hosts,
        allow_read: &[],
        allow_write: &paths,
        allow_unix_sockets: &[],
    };
    let error = check(&ceiling, &grants, &host()).unwrap_err().to_string();
    let bound = "goes beyond network.allowedDomains at top.json:2";
    let root = "goes beyond filesystem.allowWrite at top.json:2";
    let expected = [
        format!("user.json:3:5: network.allowedDomains `a.test:443`: {bound}"),
        format!("user.json:5:5: network.allowedDomains `b.a.test`: {bound}"),
        format!("user.json:7:5: network.allowedDomains `10.0.0.0/7`: {bound}"),
        format!("user.json:4:5: filesystem.allowWrite `~/worker`: {root}"),
        format!("user.json:5:5: filesystem.allowWrite `.`: {root}"),
        format!("user.json:6:5: filesystem.allowWrite `~/work/../home`: {root}"),
    ];
    assert_eq!(error.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_the_ceiling_hides_is_shown_again_by_the_ceiling_alone() {
    let hidden = entries("filesystem.denyRead", "top.json", &["/srt-none/s"]);
    let shown = reads("top.json", &["/srt-none/s/shown"]);
    let refused = |allow_read: Option<&[Entry]>, grants: Grants<'_>| {
        let ceiling = Ceiling {
            allow_read,
            allow_unix_sockets: None,
            deny_read: &hidden,
            ..unbounded()
        };
        check(&ceiling, &grants, &host()).map_err(|error| error.to_string())
    };
    for (path, reopens) in [
        ("/srt-none/s", true),
        ("/srt-none/s/x", true),
        ("/srt-none", false),
        ("/srt-none/st", false),
    ] {
        let read = reads("user.json", &[path]);
        let write = writes("user.json", &[path]);
        let by_read = Grants {
            allow_read: &read,
            ..Grants::default()
        };
        let by_write = Grants {
            allow_write: &write,
            ..Grants::default()
        };
        for grants in [by_read, by_write] {
            let result = refused(None, grants);
            assert_eq!(result.is_err(), reopens, "{path}: {result:?}");
            let named = "would show what filesystem.denyRead `/srt-none/s` (top.json:2) hides";
            assert!(
                result.is_ok() || result.unwrap_err().ends_with(named),
                "{path}"
            );
        }
    }
    let below = writes("user.json", &["/srt-none/s/shown/x"]);
    let grants = Grants {
        allow_write: &below,
        ..Grants::default()
    };
    assert!(refused(None, grants).is_err());
    assert!(refused(Some(&shown), grants).is_ok());
}

#[test]
fn links_are_followed_before_paths_are_compared() {
    let dir = std::env::temp_dir().join(format!("srt-ceiling-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("inside/x")).unwrap();
    std::fs::create_dir_all(dir.join("outside")).unwrap();
    std::os::unix::fs::symlink("../outside", dir.join("inside/out")).unwrap();
    std::os::unix::fs::symlink("inside", dir.join("also-inside")).unwrap();
    let at = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let bound = writes("top.json", &[&at("inside")]);
    let ceiling = Ceiling {
        allow_write: Some(&bound),
        ..unbounded()
    };
    let accepted = |name: &str| {
        let below = writes("user.json", &[&at(name)]);
        let grants = Grants {
            allow_write: &below,
            ..Grants::default()
        };
        check(&ceiling, &grants, &host()).is_ok()
    };
    for (name, inside) in [
        ("inside/x", true),
        ("also-inside/x", true),
        ("also-inside/new/deep", true),
        ("outside/../inside", true),
        ("inside/out", false),
        ("also-inside/out/new", false),
        ("inside/x/../../outside", false),
    ] {
        assert_eq!(accepted(name), inside, "{name}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_untrusted_list_narrows_and_says_what() {
    let outer = domains("user.json", &["*.a.test", "b.test", "c.test:443", "d.test"]);
    let by = domains(
        "p.json",
        &[
            "x.a.test",
            "*.y.a.test:443",
            "b.test:80",
            "b.test:443",
            "c.test",
            "evil.test",
        ],
    );
    let narrowed = narrow_domains(&outer, &by).unwrap();
    assert_eq!(
        texts(&narrowed),
        [
            "x.a.test",
            "*.y.a.test:443",
            "b.test:80",
            "b.test:443",
            "c.test:443"
        ]
    );
    let lines: Vec<_> = narrowed
        .entries
        .iter()
        .map(|entry| entry.origin.line)
        .collect();
    assert_eq!(lines, [2, 2, 3, 3, 4]);
    assert_eq!(
        narrowed.all_notes(),
        [
            "network.allowedDomains `*.a.test` (user.json:2) is narrowed to `x.a.test`, \
             `*.y.a.test:443`",
            "network.allowedDomains `b.test` (user.json:3) is narrowed to `b.test:80`, \
             `b.test:443`",
            "network.allowedDomains `d.test` (user.json:5) is narrowed to nothing",
            "network.allowedDomains `evil.test` (p.json:7) has no effect: it can only narrow, \
             and nothing else allows it",
        ]
    );
}

#[test]
fn paths_are_narrowed_by_what_they_resolve_to() {
    let outer = writes("user.json", &["~", "/srt-none/a", "/srt-none/b"]);
    let by = writes("p.json", &["~/x/../y", "/srt-none/a//", "/"]);
    let all = narrow_paths(&outer, &by, &[], &host()).unwrap();
    assert_eq!(
        (texts(&all), all.all_notes().len()),
        (vec!["~", "/srt-none/a", "/srt-none/b"], 0)
    );
    let narrowed = narrow_paths(&outer, &by[..2], &[], &host()).unwrap();
    assert_eq!(texts(&narrowed), ["/srt-none/home/y", "/srt-none/a"]);
    assert!(narrowed.entries[0].literal);
    assert_eq!(narrowed.entries[0].origin, outer[0].origin);
    assert_eq!(narrowed.all_notes().len(), 2);
}

const HOSTS: [&str; 12] = [
    "a.test",
    "*.a.test",
    "b.a.test",
    "*.b.a.test:443",
    "a.test:443",
    "a.test:80",
    "b.a.test:80",
    "10.0.0.0/8",
    "10.1.0.0/16:443",
    "10.1.2.3",
    "*.test.example",
    "localhost",
];

const ASKED: [&str; 9] = [
    "a.test:443",
    "a.test:80",
    "a.test:22",
    "b.a.test:80",
    "b.a.test:443",
    "c.b.a.test:443",
    "10.1.2.3:443",
    "10.9.9.9:80",
    "localhost:80",
];

fn permits(allowed: &[Entry], asked: &str) -> bool {
    let settings = settings::Network {
        allowed_domains: allowed.to_vec(),
        ..settings::Network::default()
    };
    let network = Network::from_settings(&settings).unwrap();
    network.check(Target::parse(asked, None).unwrap()).is_ok()
}

#[test]
fn hosts_below_a_ceiling_never_widen_it() {
    let mut generator = Generator(4);
    let mut accepted = 0;
    for _ in 0..1_000 {
        let bound = domains("top.json", &generator.some(&HOSTS, 6));
        let below = domains("user.json", &generator.some(&HOSTS, 3));
        let ceiling = Ceiling {
            allowed_domains: Some(&bound),
            ..unbounded()
        };
        let grants = Grants {
            allowed_domains: &below,
            ..Grants::default()
        };
        if check(&ceiling, &grants, &host()).is_err() {
            continue;
        }
        accepted += usize::from(!below.is_empty());
        for asked in ASKED {
            assert!(
                !permits(&below, asked) || permits(&bound, asked),
                "{below:?} {bound:?}"
            );
        }
    }
    assert!((100..900).contains(&accepted), "{accepted}");
}

#[test]
fn narrowed_hosts_are_exactly_those_of_both_lists_in_any_order() {
    let mut generator = Generator(5);
    let mut common = 0;
    for _ in 0..500 {
        let outer = domains("user.json", &generator.some(&HOSTS, 5));
        let mut by = domains("p.json", &generator.some(&HOSTS, 5));
        let narrowed = narrow_domains(&outer, &by).unwrap();
        for asked in ASKED {
            let both = permits(&outer, asked) && permits(&by, asked);
            assert_eq!(
                permits(&narrowed.entries, asked),
                both,
                "{outer:?} {by:?}: {asked}"
            );
            common += usize::from(both);
        }
        by.reverse();
        let mut again = narrow_domains(&outer, &by).unwrap().entries;
        let mut entries = narrowed.entries;
        let key = |entry: &Entry| (entry.origin.line, entry.text.clone());
        entries.sort_by_key(key);
        again.sort_by_key(key);
        assert_eq!(entries, again);
    }
    assert!(common > 300, "{common}");
}

#[test]
fn narrowed_paths_are_exactly_those_of_both_lists() {
    let roots = [
        "/n", "/n/a", "/n/a/b", "/n/a/b/c", "/n/ab", "/n/x", "/n/x/y",
    ];
    let host = host();
    let covers = |entries: &[Entry], path: &str| {
        let mut roots = entries.iter().map(|entry| resolve(entry, &host).unwrap());
        roots.any(|root| Path::new(path).starts_with(root))
    };
    let mut generator = Generator(6);
    let mut common = 0;
    for _ in 0..500 {
        let outer = writes("user.json", &generator.some(&roots, 4));
        let by = writes("p.json", &generator.some(&roots, 4));
        let narrowed = narrow_paths(&outer, &by, &[], &host).unwrap();
        for path in roots {
            let both = covers(&outer, path) && covers(&by, path);
            assert_eq!(
                covers(&narrowed.entries, path),
                both,
                "{outer:?} {by:?}: {path}"
            );
            common += usize::from(both);
        }
    }
    assert!(common > 300, "{common}");
}
