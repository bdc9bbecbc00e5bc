use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::policy::environment::table::{self, Class};
use crate::policy::environment::{Granted, Inherit, Rules};

const TMPDIR: &str = "/tmp/private";

fn rules(proxies: Proxies) -> Rules {
    Rules {
        inherit: Inherit::All,
        allow: Vec::new(),
        deny: Vec::new(),
        firm_secrets: false,
        credentials: Vec::new(),
        set: Vec::new(),
        proxies,
        sockets: Granted::Below(Vec::new()),
        safe_directories: Vec::new(),
    }
}

fn planned(rules: Rules, env: &[(&str, &[u8])]) -> Vec<Vec<u8>> {
    let pair =
        |(name, value): &(&str, &[u8])| (OsString::from(name), OsString::from_vec(value.to_vec()));
    let caller: Vec<_> = env.iter().map(pair).collect();
    let environment = Environment::new(rules, &caller, Path::new("/")).expect("the rules are fine");
    let env = plan(&environment, Path::new(TMPDIR)).expect("no NUL byte");
    env.into_iter().map(CString::into_bytes).collect()
}

/// The values of `name`, in order.
fn values(env: &[Vec<u8>], name: &str) -> Vec<String> {
    let prefix = format!("{name}=").into_bytes();
    let found = env
        .iter()
        .filter_map(|entry| entry.strip_prefix(prefix.as_slice()));
    found
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .collect()
}

fn with_directories(directories: &[&str], env: &[(&str, &[u8])]) -> Vec<Vec<u8>> {
    let safe_directories = directories.iter().map(Into::into).collect();
    planned(
        Rules {
            safe_directories,
            ..rules(Proxies::Ours)
        },
        env,
    )
}

#[test]
fn variables_of_the_caller_pass_byte_for_byte() {
    let env = planned(
        rules(Proxies::Ours),
        &[("A", b"\xff\n="), ("EMPTY", b""), ("A", b"again")],
    );
    assert_eq!(
        env[..3],
        [
            b"A=\xff\n=".to_vec(),
            b"EMPTY=".to_vec(),
            b"A=again".to_vec()
        ]
    );
}

#[test]
fn tmpdir_and_proxies_are_ours_and_stand_once() {
    let env = planned(
        rules(Proxies::Ours),
        &[
            ("TMPDIR", b"/elsewhere"),
            ("HTTPS_PROXY", b"http://other"),
            ("HTTPS_PROXY", b"http://another"),
        ],
    );
    assert_eq!(values(&env, "TMPDIR"), [TMPDIR]);
    assert_eq!(values(&env, "HTTPS_PROXY"), ["http://127.0.0.1:3128"]);
    assert_eq!(values(&env, "SANDBOX_RUNTIME"), ["1"]);
}

#[test]
fn what_we_set_is_what_the_table_says() {
    let set = |proxies| -> BTreeSet<String> {
        let names = planned(rules(proxies), &[]).into_iter().map(|entry| {
            let text = String::from_utf8(entry).expect("ours are ASCII");
            text.split_once('=').expect("NAME=value").0.to_owned()
        });
        names.collect()
    };
    let listed = |with_proxies: bool| -> BTreeSet<String> {
        let rows = table::OURS.iter();
        let rows = rows.filter(|row| with_proxies || row.class == Class::Set);
        rows.map(|row| row.pattern.to_owned()).collect()
    };
    assert_eq!(set(Proxies::Ours), listed(true));
    assert_eq!(set(Proxies::Nobodys), listed(false));
    assert_eq!(set(Proxies::Callers), listed(false));
}

#[test]
fn entries_of_the_callers_no_proxy_follow_the_loopback() {
    let env = planned(rules(Proxies::Ours), &[("no_proxy", b"intranet")]);
    for name in ["NO_PROXY", "no_proxy"] {
        assert_eq!(
            values(&env, name),
            ["localhost,127.0.0.1,::1,[::1],intranet"]
        );
    }
}

#[test]
fn proxy_variables_of_the_caller_pass_only_where_they_lead_somewhere() {
    let callers: [(&str, &[u8]); 2] = [("HTTP_PROXY", b"http://other"), ("PIP_PROXY", b"other")];
    let env = planned(rules(Proxies::Callers), &callers);
    assert_eq!(values(&env, "HTTP_PROXY"), ["http://other"]);
    assert_eq!(values(&env, "PIP_PROXY"), ["other"]);
    let env = planned(rules(Proxies::Ours), &callers);
    assert_eq!(values(&env, "HTTP_PROXY"), ["http://127.0.0.1:3128"]);
    assert!(values(&env, "PIP_PROXY").is_empty());
    let env = planned(rules(Proxies::Nobodys), &callers);
    assert!(values(&env, "HTTP_PROXY").is_empty());
    assert!(values(&env, "PIP_PROXY").is_empty());
}

#[test]
fn git_trusts_each_directory_and_what_lies_below() {
    let env = with_directories(&["/src/a", "/"], &[]);
    assert_eq!(values(&env, "GIT_CONFIG_COUNT"), ["4"]);
    for (number, value) in ["/src/a", "/src/a/*", "/", "/*"].iter().enumerate() {
        assert_eq!(
            values(&env, &format!("GIT_CONFIG_KEY_{number}")),
            ["safe.directory"]
        );
        assert_eq!(
            values(&env, &format!("GIT_CONFIG_VALUE_{number}")),
            [*value]
        );
    }
    assert!(values(&with_directories(&[], &[]), "GIT_CONFIG_COUNT").is_empty());
}

#[test]
fn more_than_eight_directories_become_one_star() {
    let eight = ["/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"];
    assert_eq!(
        values(&with_directories(&eight, &[]), "GIT_CONFIG_COUNT"),
        ["16"]
    );
    let nine = [eight.as_slice(), &["/9"]].concat();
    for directories in [nine.as_slice(), &["/1", "*"]] {
        let env = with_directories(directories, &[]);
        assert_eq!(values(&env, "GIT_CONFIG_COUNT"), ["1"]);
        assert_eq!(values(&env, "GIT_CONFIG_VALUE_0"), ["*"]);
    }
}

#[test]
fn the_callers_git_variables_are_numbered_on_from() {
    let caller: [(&str, &[u8]); 5] = [
        ("GIT_CONFIG_COUNT", b"1"),
        ("GIT_CONFIG_KEY_0", b"user.name"),
        ("GIT_CONFIG_VALUE_0", b"Ada"),
        ("GIT_CONFIG_KEY_1", b"left.over"),
        ("GIT_CONFIG_COUNT", b"7"),
    ];
    let env = with_directories(&["/src"], &caller);
    assert_eq!(values(&env, "GIT_CONFIG_COUNT"), ["3"]);
    assert_eq!(values(&env, "GIT_CONFIG_KEY_0"), ["user.name"]);
    assert_eq!(values(&env, "GIT_CONFIG_VALUE_0"), ["Ada"]);
    assert_eq!(values(&env, "GIT_CONFIG_KEY_1"), ["safe.directory"]);
    assert_eq!(values(&env, "GIT_CONFIG_VALUE_2"), ["/src/*"]);
}

#[test]
fn a_count_of_zero_and_one_that_git_refuses_stay_the_callers() {
    for count in ["0", "-1", "x", "99999999999", "1 "] {
        let env = with_directories(&["/src"], &[("GIT_CONFIG_COUNT", count.as_bytes())]);
        assert_eq!(values(&env, "GIT_CONFIG_COUNT"), [count]);
        assert!(values(&env, "GIT_CONFIG_KEY_0").is_empty(), "{count}");
    }
    let env = with_directories(&["/src"], &[("GIT_CONFIG_COUNT", b"")]);
    assert_eq!(values(&env, "GIT_CONFIG_COUNT"), ["2"]);
    let highest = i32::MAX.to_string();
    let env = with_directories(&["/src"], &[("GIT_CONFIG_COUNT", highest.as_bytes())]);
    assert_eq!(values(&env, "GIT_CONFIG_COUNT"), ["2147483649"]);
}
