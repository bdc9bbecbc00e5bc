//! Which variables the command gets, as `docs/environment.md` says.

#[path = "../harness/mod.rs"]
mod harness;

mod odd;
mod rules;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use harness::{Scratch, Srt, canary};
use sandbox_runtime::policy::environment::Names;
use sandbox_runtime::policy::environment::table::{self, Class, Row};

/// Runs `env -0` and returns what it prints, by name.
fn variables(mut command: Command) -> BTreeMap<String, OsString> {
    let output = command.output().expect("the program exists");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let entries = output.stdout.split(|&byte| byte == 0);
    let pairs = entries.filter(|entry| !entry.is_empty()).map(|entry| {
        let equals = entry.iter().position(|&byte| byte == b'=');
        let (name, value) = entry.split_at(equals.expect("env prints NAME=value"));
        let name = String::from_utf8_lossy(name).into_owned();
        (name, OsString::from_vec(value[1..].to_vec()))
    });
    pairs.collect()
}

fn inside(srt: Srt) -> BTreeMap<String, OsString> {
    variables(srt.into_command(&["env", "-0"]))
}

#[test]
fn the_document_shows_the_table_of_the_code() {
    let document = fs::read_to_string("docs/environment.md").expect("it is UTF-8");
    let (_, shown) = document.split_once("## The table").expect("it has a table");
    let shown: Vec<&str> = shown
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let rows: Vec<String> = table::TABLE
        .iter()
        .copied()
        .flatten()
        .map(printed)
        .collect();
    assert!(shown == rows, "it should show\n{}", rows.join("\n"));
}

fn printed(row: &Row) -> String {
    format!("| `{}` | {} | {} |", row.pattern, row.class, row.reason)
}

/// A value with which the variable of a row leads to a socket that nobody granted.
fn leads_out(names: Names) -> &'static str {
    match names {
        Names::X11 => ":77",
        Names::DBus => "unix:path=/no/such/bus",
        Names::Xsmp => "local/host:@/no/such/session,unix/host:/no/such/session",
        Names::Server => "unix:///no/such/server",
        Names::Descriptor => "9",
        _ => "/no/such/socket",
    }
}

#[test]
fn what_leads_to_a_service_of_the_host_is_dropped() {
    let scratch = Scratch::new("environment");
    let services: Vec<(String, &str)> = table::SERVICES
        .iter()
        .filter_map(|row| match row.class {
            Class::Service(names) => Some((row.pattern.replace('*', "X"), leads_out(names))),
            _ => None,
        })
        .collect();
    assert!(services.len() > 50, "the table is not where it was");
    let mut control = Command::new("env");
    control
        .arg("-0")
        .envs(services.iter().map(|(name, value)| (name, value)));
    let control = variables(control);
    let start = services
        .iter()
        .fold(Srt::new(&scratch), |srt, (name, value)| {
            srt.env(name, value)
        });
    let found = inside(start);
    for (name, value) in &services {
        assert_eq!(
            control.get(name).map(OsString::as_os_str),
            Some(OsStr::new(value))
        );
        assert_eq!(found.get(name), None, "{name}");
    }
}

#[test]
fn what_names_no_local_socket_is_passed() {
    let scratch = Scratch::new("environment");
    let passed = [
        ("DOCKER_HOST", "tcp://192.0.2.1:2375"),
        ("CONTAINER_HOST", "ssh://ada@host.test/run/podman.sock"),
        ("DISPLAY", "localhost:10.0"),
        ("XAUTHORITY", "/no/such/file"),
        ("PULSE_SERVER", "host.test"),
        ("NVIM", "192.0.2.1:6666"),
        ("DBUS_SESSION_BUS_ADDRESS", "tcp:host=192.0.2.1,port=1"),
        ("GIT_ASKPASS", "/bin/true"),
        ("SSH_AUTH_SOCK", ""),
    ];
    let start = passed
        .iter()
        .fold(Srt::new(&scratch), |srt, (name, value)| {
            srt.env(name, value)
        });
    let found = inside(start.env("SSH_AGENT_PID", "1"));
    for (name, value) in passed {
        assert_eq!(
            found.get(name).map(OsString::as_os_str),
            Some(OsStr::new(value)),
            "{name}"
        );
    }
    assert!(found.contains_key("SSH_AGENT_PID"));
}

#[test]
fn variables_of_tools_and_of_the_loader_stay_the_callers() {
    let scratch = Scratch::new("environment");
    let rows = table::PASSED
        .iter()
        .map(|row| row.pattern.replace('*', "X"));
    let others = ["PYTHONHOME", "LESSOPEN", "VISUAL", "CC"].map(str::to_owned);
    // The loader complains about a library that is not there, and about unknown tunables.
    let names: Vec<String> = rows
        .chain(others)
        .filter(|name| name != "MAKEFLAGS")
        .collect();
    assert!(names.len() > 30, "the table is not where it was");
    let value = |name: &str| match name {
        "LD_PRELOAD" | "LD_AUDIT" => "/no/such/library.so".to_owned(),
        _ => format!("mark of {name}"),
    };
    let start = names
        .iter()
        .fold(Srt::new(&scratch), |srt, name| srt.env(name, value(name)));
    let found = inside(start);
    for name in &names {
        let expected = OsString::from(value(name));
        assert_eq!(found.get(name), Some(&expected), "{name}");
    }
}

#[test]
fn what_a_program_finds_without_any_variable_of_the_caller_is_what_the_table_says() {
    let scratch = Scratch::new("environment");
    let mut command = Srt::new(&scratch).into_command(&["/usr/bin/env", "-0"]);
    command.env_clear();
    let mut listed: Vec<&str> = table::OURS.iter().map(|row| row.pattern).collect();
    listed.sort_unstable();
    let found = variables(command);
    assert_eq!(found.keys().collect::<Vec<_>>(), listed);
    assert_eq!(found["SANDBOX_RUNTIME"], "1");
}

#[test]
fn a_proxy_of_the_callers_network_is_not_named_inside() {
    let scratch = Scratch::new("environment");
    let mark = canary();
    let names = table::OTHER_PROXIES.iter().chain(table::OURS);
    let names = names.filter(|row| matches!(row.class, Class::OtherProxy | Class::Proxy));
    let names = names.map(|row| row.pattern.replace('*', "X"));
    let no_proxy = |name: &str| name.eq_ignore_ascii_case("NO_PROXY");
    let names: Vec<String> = names.filter(|name| !no_proxy(name)).collect();
    let start = names.iter().fold(Srt::new(&scratch), |srt, name| {
        srt.env(name, format!("http://{mark}@proxy.test:8080"))
    });
    for (name, value) in inside(start) {
        assert!(!value.to_string_lossy().contains(&mark), "{name}");
    }
}
