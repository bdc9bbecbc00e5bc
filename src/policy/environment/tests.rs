use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::settings::Origin;

fn entry(key: &'static str, text: &str) -> Entry {
    Entry::new(text.to_owned(), Origin::flag(key))
}

fn entries(key: &'static str, texts: &[&str]) -> Vec<Entry> {
    texts.iter().map(|text| entry(key, text)).collect()
}

/// Allow, deny and credential entries, and nothing else out of the ordinary.
fn rules(allow: &[&str], deny: &[&str], credentials: &[&str]) -> Rules {
    Rules {
        inherit: Inherit::All,
        allow: entries("env.allow", allow),
        deny: entries("env.deny", deny),
        firm_secrets: false,
        credentials: entries("credentials.envVars", credentials),
        set: Vec::new(),
        proxies: Proxies::Ours,
        sockets: Granted::Below(Vec::new()),
        safe_directories: Vec::new(),
    }
}

fn judged(rules: Rules, caller: &[(&str, &str)]) -> Environment {
    let caller: Vec<_> = caller
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .collect();
    Environment::new(rules, &caller, Path::new("/work")).expect("the rules are fine")
}

fn kept(rules: Rules, caller: &[(&str, &str)]) -> Vec<String> {
    let environment = judged(rules, caller);
    let names = environment.kept.into_iter().map(|(name, _)| name);
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

fn reason(rules: Rules, name: &str) -> Option<String> {
    let environment = judged(rules, &[(name, "value")]);
    environment
        .dropped()
        .first()
        .map(|dropped| dropped.reason.to_string())
}

#[test]
fn without_rules_all_but_what_leads_out_is_passed_in_order() {
    let caller = [
        ("Z", "1"),
        ("A", ""),
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("Z", "2"),
    ];
    assert_eq!(kept(rules(&[], &[], &[]), &caller), ["Z", "A", "Z"]);
}

#[test]
fn the_first_rule_that_matches_decides() {
    // A deny beats an allow, whichever is the more specific one.
    assert!(reason(rules(&["A"], &["*"], &[]), "A").is_some());
    assert!(reason(rules(&["*"], &["A"], &[]), "A").is_some());
    assert!(reason(rules(&["A"], &[], &["A"]), "A").is_some());
    // An allow beats the preset and the table.
    assert!(reason(rules(&[], &["@secrets"], &[]), "NPM_TOKEN").is_some());
    assert!(reason(rules(&["NPM_*"], &["@secrets"], &[]), "NPM_TOKEN").is_none());
    assert!(reason(rules(&[], &[], &[]), "SSH_AUTH_SOCK").is_some());
    assert!(reason(rules(&["SSH_AUTH_SOCK"], &[], &[]), "SSH_AUTH_SOCK").is_none());
    assert!(reason(rules(&[], &[], &[]), "PIP_PROXY").is_some());
    assert!(reason(rules(&["PIP_PROXY"], &[], &[]), "PIP_PROXY").is_none());
}

#[test]
fn a_variable_that_is_set_counts_before_every_rule() {
    let set = vec![
        (entry("env.set", "A"), entry("env.set", "first")),
        (entry("env.set", "A"), entry("env.set", "last=")),
        (entry("env.set", "NEW"), entry("env.set", "")),
    ];
    let environment = judged(
        Rules {
            set,
            ..rules(&[], &["*"], &["A"])
        },
        &[("A", "callers"), ("A", "again"), ("B", "callers")],
    );
    let expected = [("A", "last="), ("NEW", "")].map(|(a, b)| (a.into(), b.into()));
    assert_eq!(environment.set, expected);
    assert!(environment.kept.is_empty());
    assert_eq!(environment.dropped().len(), 1);
    assert_eq!(environment.var("A"), Some(OsStr::new("last=")));
    assert_eq!(environment.var("B"), None);
}

#[test]
fn without_inheritance_the_base_and_what_is_allowed_is_passed() {
    let caller = [
        "PATH",
        "LC_ALL",
        "LC",
        "NODE_OPTIONS",
        "MINE",
        "CI",
        "GIT_DIR",
    ];
    let found = kept(
        Rules {
            inherit: Inherit::Base,
            ..rules(&["MINE"], &["CI"], &[])
        },
        &caller.map(|name| (name, "value")),
    );
    assert_eq!(found, ["PATH", "LC_ALL", "MINE"]);
}

#[test]
fn a_reason_names_the_entry_and_its_place_and_never_the_value() {
    let environment = judged(
        rules(&[], &["A*", "@secrets"], &["CRED"]),
        &[
            ("AB", "hidden"),
            ("CRED", "hidden"),
            ("MY_PASSWORD", "hidden"),
            ("DISPLAY", ":hidden"),
            ("PIP_PROXY", "hidden"),
            ("E\u{1b}[2J\n", "hidden"),
        ],
    );
    let said: Vec<String> = environment
        .dropped()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        said[..2],
        [
            "variable `AB` is not passed: entry `A*` of `env.deny`, command line",
            "variable `CRED` is not passed: entry `CRED` of `credentials.envVars`, command line",
        ]
    );
    assert!(said[2].contains("*PASSWORD"), "{}", said[2]);
    assert_eq!(said.len(), 5);
    assert!(!said.concat().contains("hidden"));
    assert!(!format!("{:?}", environment.dropped()).contains("hidden"));
    let odd = judged(rules(&[], &["E*"], &[]), &[("E\u{1b}[2J\n", "hidden")]);
    assert!(
        odd.dropped()[0]
            .to_string()
            .starts_with("variable `E\\u{1b}[2J\\n` is")
    );
}

#[test]
fn secret_names_are_found_in_either_case_and_ordinary_ones_are_not() {
    let deny = || rules(&[], &["@secrets"], &[]);
    for name in [
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "npm_config_//registry.example/:_authToken",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "PGPASSWORD",
        "db_password",
        "OPENAI_API_KEY",
        "CLIENT_SECRET",
        "SECRET_KEY_BASE",
        "DATABASE_URL",
        "TOKEN",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "REDISCLI_AUTH",
    ] {
        assert!(
            reason(deny(), name).is_some_and(|reason| reason.contains("@secrets")),
            "{name}"
        );
        assert_eq!(reason(rules(&[], &[], &[]), name), None, "{name}");
    }
    for name in [
        "PATH",
        "HOME",
        "PWD",
        "OLDPWD",
        "AWS_REGION",
        "AWS_PROFILE",
        "KEYBOARD",
        "AUTHOR",
        "MONKEY",
        "GIT_AUTHOR_NAME",
        "TOKENIZERS_PARALLELISM",
        "COMPASS",
        "BYPASS",
        "npm_config_cache",
        "CARGO_HOME",
    ] {
        assert_eq!(reason(deny(), name), None, "{name}");
    }
}

#[test]
fn a_variable_that_leads_to_a_granted_socket_is_passed() {
    let caller = [
        ("SSH_AUTH_SOCK", "/no/such/agent"),
        ("SSH_AGENT_PID", "12"),
        ("XDG_RUNTIME_DIR", "/no/such"),
        ("WAYLAND_DISPLAY", "wayland-0"),
        ("DOCKER_HOST", "unix:///no/such/docker.sock"),
        ("STY", "12.tty"),
        ("LISTEN_FDS", "1"),
    ];
    let with = |sockets| Rules {
        sockets,
        ..rules(&[], &[], &[])
    };
    assert!(kept(with(Granted::Below(Vec::new())), &caller).is_empty());
    let agent = Granted::Below(vec!["/no/such/agent".into()]);
    let expected = ["SSH_AUTH_SOCK", "SSH_AGENT_PID", "XDG_RUNTIME_DIR"];
    assert_eq!(kept(with(agent), &caller), expected);
    let wayland = Granted::Below(vec!["/no/such/wayland-0".into()]);
    assert_eq!(
        kept(with(wayland), &caller),
        ["XDG_RUNTIME_DIR", "WAYLAND_DISPLAY"]
    );
    // A descriptor is not inherited, whatever may be connected to.
    let all = kept(with(Granted::All), &caller);
    assert_eq!(all.len(), caller.len() - 1);
    assert!(!all.contains(&"LISTEN_FDS".to_owned()));
}

#[test]
fn a_variable_goes_with_the_one_that_leads() {
    let caller = [
        ("VSCODE_GIT_IPC_HANDLE", "/no/such/git.sock"),
        ("GIT_ASKPASS", "/opt/editor/askpass.sh"),
    ];
    assert!(kept(rules(&[], &[], &[]), &caller).is_empty());
    assert_eq!(kept(rules(&[], &[], &[]), &caller[1..]), ["GIT_ASKPASS"]);
    assert_eq!(
        kept(rules(&["VSCODE_GIT_IPC_HANDLE"], &[], &[]), &caller).len(),
        2
    );
    assert!(kept(rules(&["GIT_ASKPASS"], &["VSCODE*"], &[]), &caller) == ["GIT_ASKPASS"]);
}

#[test]
fn a_variable_without_a_name_is_dropped_whatever_is_allowed() {
    let caller: Vec<(OsString, OsString)> = vec![
        ("".into(), "a".into()),
        ("=C:".into(), "b".into()),
        (
            OsString::from_vec(b"\xff\x01".to_vec()),
            OsString::from_vec(b"\xfe".to_vec()),
        ),
    ];
    let environment = Environment::new(rules(&["*"], &[], &[]), &caller, Path::new("/"));
    let environment = environment.expect("the rules are fine");
    assert_eq!(environment.kept, caller[2..]);
    assert!(
        environment
            .dropped()
            .iter()
            .all(|dropped| dropped.reason == Reason::NoName)
    );
}

#[test]
fn an_entry_that_can_match_nothing_is_an_error_with_its_place() {
    for (rules, key) in [
        (rules(&["A=B"], &[], &[]), "env.allow"),
        (rules(&["@secrets"], &[], &[]), "env.allow"),
        (rules(&[], &[""], &[]), "env.deny"),
        (rules(&[], &["@all"], &[]), "env.deny"),
        (rules(&[], &[], &["A*"]), "credentials.envVars"),
        (
            Rules {
                set: vec![(entry("env.set", "A"), entry("env.set", "secret\0"))],
                ..rules(&[], &[], &[])
            },
            "env.set",
        ),
    ] {
        let error = Environment::new(rules, &[], Path::new("/")).expect_err(key);
        assert_eq!(error.exit_code(), 125);
        let text = error.to_string();
        assert!(text.starts_with(entry(key, "").origin.name()), "{text}");
        assert!(!text.contains("secret\0"), "{text}");
    }
}

#[test]
fn the_table_is_consistent() {
    let rows: Vec<&Row> = table::TABLE.iter().copied().flatten().collect();
    let mut patterns = HashSet::new();
    for row in &rows {
        assert!(patterns.insert(row.pattern), "{} stands twice", row.pattern);
        assert!(
            !row.reason.is_empty() && !row.reason.contains('|'),
            "{}",
            row.pattern
        );
        assert_eq!(check_name_pattern(row.pattern), Ok(()), "{}", row.pattern);
        if let Class::Service(Names::With(leader)) = row.class {
            let leads = find(table::SERVICES, OsStr::new(leader)).map(|row| row.class);
            let follows = matches!(leads, None | Some(Class::Service(Names::With(_))));
            assert!(!follows, "{} follows {leader}, which follows", row.pattern);
        }
    }
    for row in rows
        .iter()
        .filter(|row| matches!(row.class, Class::Base | Class::Passed))
    {
        let name = row.pattern.replace('*', "X");
        assert_eq!(
            kept(rules(&[], &[], &[]), &[(&name, "value")]),
            [name.as_str()]
        );
    }
    let upper = |row: &&&Row| row.pattern == row.pattern.to_ascii_uppercase();
    assert!(
        table::SECRETS
            .iter()
            .collect::<Vec<_>>()
            .iter()
            .all(|row| upper(&row))
    );
}

#[test]
fn each_of_ten_thousand_variables_is_kept_or_dropped() {
    let caller: Vec<(OsString, OsString)> = (0..10_000)
        .map(|number| {
            let name = ["SSH_AGENT_PID", "SSH_AUTH_SOCK", "A"][number % 3];
            (OsString::from(name), OsString::from(number.to_string()))
        })
        .collect();
    let environment = Environment::new(rules(&[], &["@secrets"], &[]), &caller, Path::new("/"));
    let environment = environment.expect("the rules are fine");
    assert_eq!(
        environment.kept.len() + environment.dropped().len(),
        caller.len()
    );
}
