//! Settings files are read whole and strictly, or refused with the place of what is wrong.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use sandbox_runtime::error::{Kind, Result};
use sandbox_runtime::settings::values::Values;
use sandbox_runtime::settings::{Entry, Search, Settings};

/// A new directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("settings_file-{name}"));
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        _ => fs::create_dir_all(&path).expect("the target directory is writable"),
    }
    path
}

fn write(directory: &Path, content: impl AsRef<[u8]>) -> PathBuf {
    let file = directory.join("s.json");
    fs::write(&file, content).expect("the directory is writable");
    file
}

/// The message for a file of this content, without the directory.
fn refusal(directory: &Path, content: impl AsRef<[u8]>) -> String {
    refusal_of(directory, &write(directory, content))
}

fn refusal_of(directory: &Path, file: &Path) -> String {
    let error = Settings::read(file).expect_err("must be refused");
    assert_eq!((error.kind(), error.exit_code()), (Kind::Settings, 125));
    let message = error
        .to_string()
        .replace(&format!("{}/", directory.display()), "");
    let is_excerpt = |line: &&str| {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        line.starts_with('|')
    };
    let lines = message.lines().filter(|line| !is_excerpt(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Reads what is found from this home alone.
fn found_from(home: Option<&Path>, explicit: Option<&Path>) -> Result<Settings> {
    let search = Search {
        cwd: Path::new("/"),
        home: home.filter(|home| home.is_absolute()),
        config_home: None,
        state_home: None,
        uid: nix::unistd::geteuid().as_raw(),
        system: Path::new("/none/settings.json"),
    };
    Settings::load(&search, explicit, Values::default())
}

fn texts(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.text.as_str()).collect()
}

#[test]
fn every_built_key_is_read_with_its_place() {
    let text = r#"{
  "$schema": "https://example.org/schema.json",
  "network": { "allowedDomains": ["é.example", "*.b.example:443"], "deniedDomains": ["c.example"] },
  "filesystem": {
    "denyRead": ["~/.ssh"], "allowRead": ["a", { "literal": true, "path": "[x]" }],
    "allowWrite": ["."],
    "denyWrite": [".env"]
  }
}"#;
    let file = write(&directory("built"), text);
    let settings = Settings::read(&file).expect("every key is built");
    assert_eq!(
        texts(&settings.network.allowed_domains),
        ["é.example", "*.b.example:443"]
    );
    assert_eq!(texts(&settings.network.denied_domains), ["c.example"]);
    assert_eq!(texts(&settings.filesystem.deny_read), ["~/.ssh"]);
    assert_eq!(texts(&settings.filesystem.allow_read), ["a", "[x]"]);
    assert_eq!(
        settings
            .filesystem
            .allow_read
            .iter()
            .map(|e| e.literal)
            .collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(texts(&settings.filesystem.allow_write), ["."]);
    assert_eq!(texts(&settings.filesystem.deny_write), [".env"]);
    assert_eq!(&*settings.files[0].path, file.as_path());

    let origin = &settings.network.allowed_domains[1].origin;
    assert_eq!(origin.key, "network.allowedDomains");
    assert_eq!(origin.file.as_deref(), Some(file.as_path()));
    assert_eq!((origin.line, origin.column), (3, 48));
    let origin = &settings.filesystem.deny_write[0].origin;
    assert_eq!(
        (origin.key, origin.line, origin.column),
        ("filesystem.denyWrite", 7, 19)
    );
}

#[test]
fn every_key_may_be_left_out() {
    let directory = directory("optional");
    for text in [
        "{}",
        " {\r\n} ",
        r#"{"network":{}}"#,
        r#"{"network":{},"filesystem":{}}"#,
    ] {
        let settings = Settings::read(&write(&directory, text)).expect(text);
        assert!(settings.network.allowed_domains.is_empty(), "{text}");
        assert!(settings.filesystem.allow_write.is_empty(), "{text}");
    }
}

const BAD: [(&str, &str); 26] = [
    ("null", "s.json:1:1: settings are one object, found null"),
    ("[]", "s.json:1:1: settings are one object, found an array"),
    (
        " \"x\"",
        "s.json:1:2: settings are one object, found a string",
    ),
    ("0", "s.json:1:1: settings are one object, found a number"),
    (
        "true",
        "s.json:1:1: settings are one object, found a boolean",
    ),
    (
        "{\"network\": null}",
        "s.json:1:13: `network` must be an object, found null",
    ),
    (
        "{\"network\": []}",
        "s.json:1:13: `network` must be an object, found an array",
    ),
    (
        "{\"$schema\": 1}",
        "s.json:1:13: `$schema` must be a string, found a number",
    ),
    (
        "{\"network\": {\"allowedDomains\": \"a.example\"}}",
        "s.json:1:32: `network.allowedDomains` must be an array of strings, found a string",
    ),
    (
        "{\"filesystem\": {\"denyRead\": null}}",
        "s.json:1:29: `filesystem.denyRead` must be an array of strings, found null",
    ),
    (
        "{\"network\": {\"deniedDomains\": [\"a.example\", 1]}}",
        "s.json:1:45: an entry of `network.deniedDomains` must be a string, found a number",
    ),
    (
        "{\"network\": {\"deniedDomains\": [{\"path\": \"a\", \"literal\": true}]}}",
        "s.json:1:32: an entry of `network.deniedDomains` must be a string, found an object",
    ),
    (
        "{\"filesystem\": {\"denyRead\": [\"\"]}}",
        "s.json:1:30: an entry of `filesystem.denyRead` must not be empty",
    ),
    (
        "{\"filesystem\": {\"denyRead\": [\"a\\u0000b\"]}}",
        "s.json:1:30: an entry of `filesystem.denyRead` holds a NUL character, which nothing here can",
    ),
    (
        "{\"filesystem\": {\"denyRead\": [{\"path\": \"\", \"literal\": true}]}}",
        "s.json:1:39: an entry of `filesystem.denyRead` must not be empty",
    ),
    (
        "{\"filesystem\": {\"denyRead\": [{\"path\": \"a\", \"literal\": false}]}}",
        "s.json:1:55: `literal` must be true",
    ),
    (
        "{\"filesystem\": {\"denyRead\": [{\"path\": \"a\"}]}}",
        "s.json:1:30: an entry of `filesystem.denyRead` must be a string or { \"path\": …, \"literal\": true }",
    ),
    (
        "{\"filesystem\": {\"denyRead\": [{\"path\": \"a\", \"literal\": true, \"x\": 1}]}}",
        "s.json:1:61: unknown key `x` in an entry of `filesystem.denyRead`",
    ),
    (
        "{\"filesystem\": {\"denyRead\": [{\"path\": \"a\", \"path\": \"b\", \"literal\": true}]}}",
        "s.json:1:44: duplicate key `path`, given first at 1:31",
    ),
    (
        "{\"filesystem\": {\"denyWrit\": []}}",
        "s.json:1:17: unknown key `denyWrit` in `filesystem`; did you mean `denyWrite`?",
    ),
    (
        "{\"denyRead\": []}",
        "s.json:1:2: unknown key `denyRead`; it belongs in `filesystem`",
    ),
    (
        "{\"é\": 1, \"\\n\": 2}",
        "s.json:1:2: unknown key `é`\ns.json:1:10: unknown key `\\n`",
    ),
    (
        "{\"network\": {},\n \"network\": {}}",
        "s.json:2:2: duplicate key `network`, given first at 1:2",
    ),
    (
        "{\"network\": {}, \"netw\\u006frk\": {}}",
        "s.json:1:17: duplicate key `network`, given first at 1:2",
    ),
    (
        "{\"filesystem\": {\"denyRead\": [\"a\"], \"denyRead\": [\"a\"]}}",
        "s.json:1:36: duplicate key `denyRead`, given first at 1:17",
    ),
    ("{\"network\": {}} {}", "s.json:1:17: trailing characters"),
];

#[test]
fn a_bad_file_is_refused_with_the_place_and_the_reason() {
    let directory = directory("bad");
    for (text, expected) in BAD {
        assert_eq!(refusal(&directory, text), expected, "{text}");
    }
}

#[test]
fn all_problems_of_a_file_are_told_at_once_in_its_order() {
    let text = r#"{
  "networks": {},
  "network": { "allowedDomains": ["a.example", ""], "strictAllowlist": 1 },
  "filesystem": { "allowRead": 1 }
}"#;
    assert_eq!(
        refusal(&directory("several"), text),
        "s.json:2:3: unknown key `networks`; did you mean `network`?\n\
         s.json:3:48: an entry of `network.allowedDomains` must not be empty\n\
         s.json:3:72: `network.strictAllowlist` must be true or false, found a number\n\
         s.json:4:32: `filesystem.allowRead` must be an array of strings, found a number"
    );
}

#[test]
fn bytes_that_are_not_plain_utf8_are_refused() {
    let directory = directory("bytes");
    let table: [(&[u8], &str); 6] = [
        (
            b"\xef\xbb\xbf{}",
            "s.json:1:1: starts with a byte order mark",
        ),
        (
            b"\xff\xfe{\0}\0",
            "s.json:1:1: starts with the byte order mark of UTF-16",
        ),
        (
            b"{\n \"\xc3\xa9\xff\": 1}",
            "s.json:2:4: this byte is not UTF-8",
        ),
        (
            b"{\"\xed\xa0\x80\": 1}",
            "s.json:1:3: this byte is not UTF-8",
        ),
        (b"{}\xc3", "s.json:1:3: this byte is not UTF-8"),
        (b"{}\0", "s.json:1:3: trailing characters"),
    ];
    for (content, expected) in table {
        assert_eq!(refusal(&directory, content), expected);
    }
    for blank in ["", " ", "\n\t\r\n"] {
        assert_eq!(
            refusal(&directory, blank),
            "settings file s.json is empty, and an empty file would mean running without its rules"
        );
    }
}

#[test]
fn what_is_no_regular_file_is_named_and_never_waited_for() {
    let directory = directory("kinds");
    let path = |name: &str| directory.join(name);
    nix::unistd::mkfifo(&path("fifo"), Mode::from_bits_truncate(0o600)).expect("a FIFO is made");
    let _listener = UnixListener::bind(path("socket")).expect("a socket is bound");
    symlink("fifo", path("link")).expect("a link is made");
    let table = [
        (
            path("fifo"),
            "settings file fifo is a FIFO, not a regular file",
        ),
        (
            path("link"),
            "settings file link is a FIFO, not a regular file",
        ),
        (
            path("socket"),
            "settings file socket is a socket, not a regular file",
        ),
        (
            "/dev/null".into(),
            "settings file /dev/null is a device, not a regular file",
        ),
        (
            "/".into(),
            "settings file / is a directory, not a regular file",
        ),
        (
            path("none"),
            "cannot read settings file none: open: ENOENT (No such file or directory)",
        ),
        (
            path("fifo/x"),
            "cannot read settings file fifo/x: open: ENOTDIR (Not a directory)",
        ),
    ];
    for (file, expected) in table {
        assert_eq!(refusal_of(&directory, &file), expected);
    }
}

#[test]
fn a_file_over_the_limit_is_refused_unread_and_one_at_the_limit_is_read() {
    let directory = directory("size");
    let file = fs::File::create(directory.join("s.json")).expect("the directory is writable");
    file.set_len(1 << 30)
        .expect("the file system has sparse files");
    let start = Instant::now();
    let message = refusal_of(&directory, &directory.join("s.json"));
    assert_eq!(message, "settings file s.json is larger than 1 MiB");
    assert!(start.elapsed() < Duration::from_secs(30));

    let blanks = " ".repeat((1 << 20) - 2);
    assert!(Settings::read(&write(&directory, format!("{{{blanks}}}"))).is_ok());
    assert_eq!(
        refusal(&directory, format!("{{{blanks} }}")),
        "settings file s.json is larger than 1 MiB"
    );
}

#[test]
fn each_of_the_largest_files_is_read_or_refused_in_bounded_time() {
    let directory = directory("large");
    let many = |one: &str| one.repeat(((1 << 20) - 64) / one.len());
    let mut start = Instant::now();
    let mut in_time = |what: &str| {
        let took = start.elapsed();
        // Far above what it takes: an algorithm that is quadratic takes minutes.
        assert!(took < Duration::from_secs(30), "{what}: {took:?}");
        start = Instant::now();
    };

    let hosts = format!(
        "{{\"network\":{{\"allowedDomains\":[{}\"é\"]}}}}",
        many("\"a\",")
    );
    let settings = Settings::read(&write(&directory, hosts)).expect("all are strings");
    let last = settings
        .network
        .allowed_domains
        .last()
        .expect("there are many");
    assert_eq!(
        last.origin.column as usize,
        31 + 4 * (settings.network.allowed_domains.len() - 1)
    );
    in_time("entries");

    let unknown = format!("{{{}\"x\":1}}", many("\"denyx\":1,"));
    assert_eq!(refusal(&directory, unknown).lines().count(), 21);
    in_time("unknown keys");

    let open = refusal(&directory, "[".repeat(1 << 20));
    assert_eq!(open, "s.json:1:65: nested deeper than 64 levels");
    in_time("nesting");

    let surrogates = format!("{{\"{}\":1}}", many("\\ud83d\\ude00"));
    assert!(refusal(&directory, surrogates).starts_with("s.json:1:2: unknown key `😀"));
    in_time("escapes");
}

#[test]
fn every_cut_of_a_good_file_is_refused_without_a_panic() {
    let directory = directory("cuts");
    let text = r#"{"network": {"allowedDomains": ["\ud83d\ude00é\n", "b"]}, "filesystem": {"denyRead": [{"path": "a", "literal": true}]}, "ripgrep": {"args": []}, "mandatoryDenySearchDepth": 3}"#;
    assert!(Settings::read(&write(&directory, text)).is_ok());
    for end in 1..text.len() {
        assert!(
            refusal(&directory, &text.as_bytes()[..end]).starts_with("s.json:"),
            "{end}"
        );
    }
    for at in 0..text.len() {
        for byte in [b'"', b'\\', b'{', b']', b',', 0xff, b'0'] {
            let mut changed = text.as_bytes().to_vec();
            changed[at] = byte;
            // Some changes keep the file valid; none may panic.
            let _ = Settings::read(&write(&directory, changed));
        }
    }
}

#[test]
fn the_home_file_is_read_only_where_home_is_absolute() {
    let home = directory("home");
    fs::write(
        home.join(".srt-settings.json"),
        r#"{"filesystem":{"denyRead":["x"]}}"#,
    )
    .expect("the directory is writable");
    let found = found_from(Some(&home), None).expect("the file is good");
    assert_eq!(texts(&found.filesystem.deny_read), ["x"]);
    for home in [
        None,
        Some(Path::new("")),
        Some(Path::new("relative")),
        Some(Path::new("/none")),
    ] {
        let found = found_from(home, None).expect("no file is looked up, or none is there");
        assert!(
            found.files.is_empty() && found.filesystem.deny_read.is_empty(),
            "{home:?}"
        );
    }
}

#[test]
fn an_explicit_file_goes_before_the_home_file_and_must_exist() {
    let home = directory("explicit");
    fs::write(home.join(".srt-settings.json"), "broken").expect("the directory is writable");
    let file = write(&home, r#"{"filesystem":{"denyRead":["y"]}}"#);
    let found = found_from(Some(&home), Some(&file)).expect("the file is good");
    assert_eq!(texts(&found.filesystem.deny_read), ["y"]);
    assert!(found_from(Some(&home), Some(&home.join("none"))).is_err());
    assert!(found_from(None, Some(Path::new(""))).is_err());
}

#[test]
fn a_home_file_that_is_there_but_odd_is_an_error() {
    let home = directory("odd");
    let file = home.join(".srt-settings.json");
    let message = |home: &Path| found_from(Some(home), None).expect_err("odd").to_string();

    symlink("none", &file).expect("a link is made");
    assert!(message(&home).ends_with("open: ENOENT (No such file or directory)"));
    fs::remove_file(&file).expect("the link is there");
    symlink(".srt-settings.json", &file).expect("a link is made");
    assert!(message(&home).contains("open: ELOOP"));
    fs::remove_file(&file).expect("the link is there");
    fs::create_dir(&file).expect("nothing is there");
    assert!(message(&home).ends_with("is a directory, not a regular file"));
    assert!(message(Path::new("/dev/null")).contains("open: ENOTDIR"));
}
