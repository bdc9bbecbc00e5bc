//! Runs the built `srt` on throw-away files, and looks at the host afterwards.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test file uses a part of the harness"
)]

mod files;
mod live;
mod processes;
mod snapshot;
mod surroundings;
mod watch;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use files::{content, listing};
pub use live::Live;
pub use processes::{Killed, nothing_runs_in, processes_with, wait_until};
pub use snapshot::{Allowance, Snapshot};
pub use surroundings::Surroundings;

/// Longest any sandboxed command of a test may take; a hang is a failure of its own.
pub const TIME_LIMIT: Duration = Duration::from_secs(120);

/// A directory of one test, removed with everything in it.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the directory; `name` tells whose it is when something is left behind.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!(
            "/tmp/srt-test-{}-{number}-{name}",
            std::process::id()
        ));
        fs::create_dir(&path).expect("a name with our pid and a counter is free");
        Self(path)
    }

    /// Returns the path of something in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Returns its own path, which marks the processes of its runs.
    pub fn marker(&self) -> &str {
        self.0.to_str().expect("the name is ASCII")
    }

    /// Makes a directory in it, with its parents.
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).expect("the scratch directory is writable");
        path
    }

    /// Makes a file in it, with its parents.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a file has a parent"))
            .and_then(|()| fs::write(&path, content))
            .expect("the scratch directory is writable");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// One launch: settings, surroundings, then [`Srt::run`].
#[derive(Debug)]
pub struct Srt {
    settings: Value,
    file: PathBuf,
    command: Command,
    /// What is compared before and after a run.
    root: PathBuf,
    /// What the test lets change besides.
    excused: Vec<PathBuf>,
}

impl Srt {
    /// Starts from empty lists and an empty directory as HOME, in `scratch`.
    pub fn new(scratch: &Scratch) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
        command.current_dir(scratch.dir("cwd"));
        command
            .env("HOME", scratch.dir("home"))
            .env_remove("TMPDIR");
        let settings = json!({
            "network": { "allowedDomains": [], "deniedDomains": [] },
            "filesystem": { "denyRead": [], "allowRead": [], "allowWrite": [], "denyWrite": [] },
        });
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            settings,
            file: scratch.path(&format!("settings-{number}.json")),
            command,
            root: scratch.path(""),
            excused: Vec::new(),
        }
    }

    /// Adds an entry to one of the lists: `filesystem.allowWrite`.
    #[must_use]
    pub fn with(mut self, key: &str, entry: impl AsRef<OsStr>) -> Self {
        let (section, list) = key.split_once('.').expect("a key is `section.list`");
        let entry = entry.as_ref().to_str().expect("test paths are UTF-8");
        let list = &mut self.settings[section][list];
        if list.is_null() {
            *list = json!([]);
        }
        list.as_array_mut()
            .expect("the key is a list")
            .push(entry.into());
        self
    }

    /// Sets a key of a section: `network.allowAllUnixSockets`.
    #[must_use]
    pub fn set(mut self, key: &str, value: Value) -> Self {
        let (section, name) = key.split_once('.').expect("a key is `section.name`");
        self.settings[section][name] = value;
        self
    }

    /// Allows a Unix socket of the host, or a directory of such.
    #[must_use]
    pub fn allow_socket(self, path: impl AsRef<Path>) -> Self {
        self.with("network.allowUnixSockets", path.as_ref())
    }

    /// Adds an entry whose pattern characters mean themselves.
    #[must_use]
    pub fn with_literal(mut self, key: &str, path: impl AsRef<Path>) -> Self {
        let (section, list) = key.split_once('.').expect("a key is `section.list`");
        let path = path.as_ref().to_str().expect("test paths are UTF-8");
        let list = self.settings[section][list]
            .as_array_mut()
            .expect("the key is a list");
        list.push(json!({ "path": path, "literal": true }));
        self
    }

    /// Sets a key that stands in no section: `seccompProfile`.
    #[must_use]
    pub fn top(mut self, key: &str, value: Value) -> Self {
        self.settings[key] = value;
        self
    }

    /// Adds flags of `srt`.
    #[must_use]
    pub fn flags(mut self, flags: &[impl AsRef<OsStr>]) -> Self {
        self.command.args(flags);
        self
    }

    /// Grants writing below `path`.
    #[must_use]
    pub fn allow_write(self, path: impl AsRef<Path>) -> Self {
        self.with("filesystem.allowWrite", path.as_ref())
    }

    /// Denies reading below `path`.
    #[must_use]
    pub fn deny_read(self, path: impl AsRef<Path>) -> Self {
        self.with("filesystem.denyRead", path.as_ref())
    }

    /// Denies writing below `path`.
    #[must_use]
    pub fn deny_write(self, path: impl AsRef<Path>) -> Self {
        self.with("filesystem.denyWrite", path.as_ref())
    }

    /// Shows `path` again below a hidden one.
    #[must_use]
    pub fn allow_read(self, path: impl AsRef<Path>) -> Self {
        self.with("filesystem.allowRead", path.as_ref())
    }

    /// Allows a host.
    #[must_use]
    pub fn allow_host(self, host: &str) -> Self {
        self.with("network.allowedDomains", host)
    }

    /// Starts the command in `path`.
    #[must_use]
    pub fn current_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.command.current_dir(path);
        self
    }

    /// Sets a variable of the caller.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Has `srt` append its events to `path`.
    #[must_use]
    pub fn events(mut self, path: impl AsRef<Path>) -> Self {
        self.command.arg("--events").arg(path.as_ref());
        self.excused.push(path.as_ref().to_path_buf());
        self
    }

    /// Switches one file layer off, in builds with the feature `test-hooks`.
    #[cfg(feature = "test-hooks")]
    #[must_use]
    pub fn layers(self, layers: &str) -> Self {
        self.env("SRT_TEST_LAYERS", layers)
    }

    /// Returns the process to be, for tests that set more of it; settings are written. Tests of
    /// files use [`Srt::watched`], so that none of them leaves the comparison out.
    pub fn into_command(mut self, words: &[impl AsRef<OsStr>]) -> Command {
        assert!(!Surroundings::count(), "not compared: use `watched`");
        self.prepare(words);
        self.command
    }

    fn prepare(&mut self, words: &[impl AsRef<OsStr>]) {
        fs::write(&self.file, self.settings.to_string())
            .expect("the scratch directory is writable");
        self.command
            .arg("--settings")
            .arg(&self.file)
            .arg("--")
            .args(words);
    }

    /// Runs the words and returns what came of it; what the settings do not let it write is the
    /// same afterwards.
    #[track_caller]
    pub fn run(self, words: &[impl AsRef<OsStr>]) -> Ran {
        self.watched(words, run)
    }

    /// Runs a string with `sh -c`.
    #[track_caller]
    pub fn sh(self, script: &str) -> Ran {
        self.run(&["sh", "-c", script])
    }
}

/// What came of a run.
#[derive(Debug)]
pub struct Ran {
    /// Exit status, or 128+n for signal n.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Expects success, and shows what was said where there is none.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        assert_eq!(
            self.status, 0,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        self
    }

    /// Expects that the command ran and failed: a launch that was refused proves nothing.
    #[track_caller]
    pub fn fails(self) -> Self {
        let ran = self.status != 0 && self.status != 125;
        assert!(
            ran,
            "status {}\nstdout: {}\nstderr: {}",
            self.status, self.stdout, self.stderr
        );
        self
    }

    /// Expects that `srt` refused to run the command, with `reason` in the message.
    #[track_caller]
    #[allow(
        clippy::wrong_self_convention,
        reason = "reads as the promise it is, and passes the run on"
    )]
    pub fn is_refused(self, reason: &str) -> Self {
        assert_eq!(
            self.status, 125,
            "stdout: {}\nstderr: {}",
            self.stdout, self.stderr
        );
        assert!(
            self.stderr.contains(reason),
            "{reason:?} is not in {:?}",
            self.stderr
        );
        self
    }

    /// Tells whether `text` was printed anywhere.
    pub fn shows(&self, text: &str) -> bool {
        self.stdout.contains(text) || self.stderr.contains(text)
    }
}

/// Runs a command to its end with empty input, within [`TIME_LIMIT`].
pub fn run(command: &mut Command) -> Ran {
    run_with_input(command, b"")
}

/// Runs a command to its end, writing `input` to it, within [`TIME_LIMIT`].
pub fn run_with_input(command: &mut Command, input: &[u8]) -> Ran {
    run_within(command, input, TIME_LIMIT)
}

/// Runs a command to its end, writing `input` to it, within a limit of its own.
pub fn run_within(command: &mut Command, input: &[u8], limit: Duration) -> Ran {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program exists");
    let pid = child.id();
    let mut stdin = child.stdin.take().expect("piped above");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let waiter = std::thread::spawn(move || child.wait_with_output());
    let deadline = Instant::now() + limit;
    while !waiter.is_finished() {
        if Instant::now() > deadline {
            // Our own child, not waited for yet, so the number is still its.
            let ended = Command::new("kill")
                .args(["-KILL", &pid.to_string()])
                .status();
            panic!("no end after {limit:?}: {command:?} (killed: {ended:?})");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output: Output = waiter
        .join()
        .expect("the waiter does not panic")
        .expect("it is our child");
    writer.join().expect("the writer does not panic");
    Ran::from(output)
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let status = output.status;
        Self {
            status: status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs a string with `sh -c` outside the sandbox: the positive control.
pub fn outside(script: &str) -> Ran {
    run(Command::new("sh").args(["-c", script]))
}

/// Tells whether the tests run as root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Tells whether a program is installed.
pub fn is_there(program: &str) -> bool {
    outside(&format!("command -v {program}")).status == 0
}

/// Prints why a test proves nothing here; the test command counts these lines.
pub fn skip(reason: &str) {
    say(&format!("SKIPPED: {reason}"));
}

/// Prints a line that is shown whether or not the test fails.
pub fn say(line: &str) {
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// Returns a string that appears nowhere else.
pub fn canary() -> String {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes).expect("the kernel has randomness");
    format!(
        "canary-{}",
        bytes.map(|byte| format!("{byte:02x}")).concat()
    )
}

/// Returns a program of `tests/probe`.
pub fn probe(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/probe")
        .join(name)
}

/// Compiles a program or library in C into `scratch`; `None` without a compiler.
pub fn compiled(scratch: &Scratch, source: &Path, flags: &[&str]) -> Option<PathBuf> {
    let built = scratch.path("compiled");
    let mut cc = Command::new("cc");
    cc.args(flags).arg("-o").arg(&built).arg(source);
    let status = cc.status().ok()?;
    assert!(status.success(), "{} is faulty", source.display());
    Some(built)
}

/// Puts words before a command: `env -i`.
pub fn wrapped(words: &[impl AsRef<OsStr>], command: &Command) -> Command {
    let mut wrapped = Command::new(&words[0]);
    wrapped.args(&words[1..]);
    wrapped.arg(command.get_program()).args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

/// Runs a command on a kernel that answers `errno` to `calls`, names with commas between.
pub fn with_fault(errno: &str, calls: &str, command: &Command) -> Ran {
    let faultwrap = probe("faultwrap.py");
    let faultwrap = faultwrap.to_str().expect("the source is in an ASCII path");
    run(&mut wrapped(
        &["python3", faultwrap, errno, calls, "--"],
        command,
    ))
}
