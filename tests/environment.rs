//! Which variables the command gets, as `docs/environment.md` says.

mod harness;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use harness::{Scratch, Srt, canary, run};
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

/// Starts its arguments with an environment of its own making, which no shell would pass on,
/// and prints what comes out as the environment of the last of them.
const MAKES_AN_ENVIRONMENT: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
big = [b"BIG_%d=" % n + b"x" * 100_000 for n in range(10)]
many = [b"MANY_%d=%d" % (n, n) for n in range(5_000)]
odd = [b"TWICE=1", b"TWICE=2", b"\xff\x01 name=\xfe\n\x7f", b"EQUALS==a=b=", b"EMPTY=", b"*=?",
       b"no equals sign", b"", b"=", b"=nothing before", b"=C:=both"]
path = b"PATH=" + os.environb[b"PATH"]
envp = (ctypes.c_char_p * (len(big) + len(many) + len(odd) + 2))(*odd, *big, *many, path, None)
argv = (ctypes.c_char_p * len(sys.argv))(*[a.encode() for a in sys.argv[1:]], None)
libc.execve(sys.argv[1].encode(), argv, envp)
sys.exit(f"execve: {os.strerror(ctypes.get_errno())}")
"#;

#[test]
fn an_environment_no_shell_would_make_arrives_byte_for_byte() {
    let scratch = Scratch::new("environment");
    let environment_of = |words: Command| {
        let mut python = Command::new("python3");
        python
            .args(["-c", MAKES_AN_ENVIRONMENT])
            .arg(words.get_program())
            .args(words.get_args());
        python.current_dir(scratch.dir("cwd"));
        let output = python.output().expect("python3 exists");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        let entries = output.stdout.split(|&byte| byte == 0).map(<[u8]>::to_vec);
        entries.collect::<Vec<_>>()
    };
    let cat = ["/bin/cat", "/proc/self/environ"];
    let mut direct = Command::new(cat[0]);
    direct.arg(cat[1]);
    let given = environment_of(direct);
    assert!(given.len() > 5_000 && given.contains(&b"no equals sign".to_vec()));
    let found = environment_of(Srt::new(&scratch).into_command(&cat));
    let is_variable = |entry: &&Vec<u8>| entry.iter().skip(1).any(|&byte| byte == b'=');
    let is_named = |entry: &&Vec<u8>| entry.first() != Some(&b'=');
    let expected: Vec<_> = given.iter().filter(is_variable).filter(is_named).collect();
    // Ours follow what the caller has.
    assert!(
        found
            .iter()
            .zip(&expected)
            .all(|(found, expected)| found == *expected)
    );
    let ours = &found[expected.len()..];
    assert_eq!(
        ours.iter().filter(|entry| !entry.is_empty()).count(),
        table::OURS.len()
    );
}

#[test]
fn values_are_shown_nowhere() {
    let scratch = Scratch::new("environment");
    let mark = canary();
    let mut command = Srt::new(&scratch)
        .env("SSH_AUTH_SOCK", format!("/no/{mark}"))
        .env("PIP_PROXY", format!("http://{mark}"))
        .env("ORDINARY", &mark)
        .events(scratch.path("events"))
        .into_command(&["true"]);
    let mut debug = Command::new(command.get_program());
    let words: Vec<_> = command.get_args().map(OsStr::to_owned).collect();
    debug
        .arg("--debug")
        .args(words)
        .envs(command.get_envs().filter_map(|(a, b)| Some((a, b?))));
    debug.current_dir(command.get_current_dir().expect("the harness sets it"));
    let ran = run(&mut debug).succeeds();
    assert!(
        ran.stderr
            .contains("variable `SSH_AUTH_SOCK` is not passed"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("variable `PIP_PROXY` is not passed"),
        "{}",
        ran.stderr
    );
    assert!(!ran.shows(&mark), "{}", ran.stderr);
    run(&mut command).succeeds();
    let events = fs::read_to_string(scratch.path("events")).expect("they are text");
    assert!(!events.is_empty() && !events.contains(&mark), "{events}");
}

#[test]
fn a_variable_too_long_to_be_added_to_ends_the_run_with_the_reason() {
    let scratch = Scratch::new("environment");
    // The longest that Linux passes, MAX_ARG_STRLEN of linux/binfmts.h with its NUL.
    let longest = "x".repeat(128 * 1024 - "NO_PROXY=".len() - 1);
    let control = run(Command::new("true").env("NO_PROXY", &longest));
    assert_eq!(control.status, 0);
    let ran = Srt::new(&scratch)
        .env("NO_PROXY", &longest)
        .run(&["/bin/true"]);
    assert!((125..=126).contains(&ran.status), "{}", ran.status);
    assert!(
        ran.stderr.contains("E2BIG") || ran.stderr.contains("too long"),
        "{}",
        ran.stderr
    );
    assert!(!ran.shows("xxxxxxxxxx"));
}
