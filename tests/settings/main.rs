//! Settings from where they lie on the host to what the command may do, judged by the host.

#[path = "../harness/mod.rs"]
mod harness;

mod bad;
mod base;
mod ceiling;
mod forms;
mod fuzz;
mod grants;
mod guarded;
mod layers;
mod surroundings;
mod trust;

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{Ran, Scratch, run};

/// A user with a home and a project in a repository, and no settings yet.
struct User(Scratch);

impl User {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        for dir in ["home", "project/.git", "project/sub"] {
            scratch.dir(dir);
        }
        Self(scratch)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        self.0.file(name, text)
    }

    /// Writes the user's settings.
    fn settings(&self, text: &str) -> PathBuf {
        self.write("home/.srt-settings.json", text)
    }

    /// Writes the project's settings.
    fn project(&self, text: &str) -> PathBuf {
        self.write("project/.srt.json", text)
    }

    /// Starts `srt` in the project, as this user alone.
    fn srt(&self, words: &[impl AsRef<OsStr>]) -> Command {
        self.srt_in("project", words)
    }

    fn srt_in(&self, dir: &str, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
        command.args(words).current_dir(self.path(dir));
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "TMPDIR", "SRT_DEBUG"] {
            command.env_remove(name);
        }
        command.env("HOME", self.path("home"));
        command
    }

    fn run(&self, words: &[impl AsRef<OsStr>]) -> Ran {
        run(&mut self.srt(words))
    }

    fn trust(&self) -> Ran {
        self.run(&["ctl", "trust", "--yes"]).succeeds()
    }

    /// Tells whether a command run with these flags can write `name`; it is gone afterwards.
    fn writes(&self, flags: &[&str], name: &str) -> bool {
        let script = format!("echo written > '{}'", self.path(name).display());
        let ran = self.run(&[flags, &["sh", "-c", &script]].concat());
        assert_ne!(ran.status, 125, "{}", ran.stderr);
        fs::remove_file(self.path(name)).is_ok()
    }

    /// Tells whether a command run with these flags can read `name`, which holds something.
    fn reads(&self, flags: &[&str], name: &str) -> bool {
        let path = self.path(name);
        let content = fs::read_to_string(&path).expect("it is there, outside");
        assert!(!content.is_empty());
        let path = path.to_str().expect("UTF-8");
        let ran = self.run(&[flags, &["cat", path]].concat());
        assert_ne!(ran.status, 125, "{}", ran.stderr);
        ran.stdout == content
    }

    /// Expects that `srt` refuses to run anything, for this reason, with these flags.
    #[track_caller]
    fn is_refused(&self, flags: &[&str], reason: &str) -> Ran {
        let mark = self.path("home/ran");
        let script = format!("echo > {}", mark.display());
        let ran = self.run(&[flags, &["--allow-write", "~", "sh", "-c", &script]].concat());
        assert!(!mark.exists());
        ran.is_refused(reason)
    }

    /// Expects that commands run: what [`User::is_refused`] is to be seen against.
    #[track_caller]
    fn runs(&self, flags: &[&str]) -> Ran {
        let mark = self.path("home/ran");
        let script = format!("echo > {}", mark.display());
        let ran = self.run(&[flags, &["--allow-write", "~", "sh", "-c", &script]].concat());
        assert!(fs::remove_file(&mark).is_ok(), "{}", ran.stderr);
        ran.succeeds()
    }
}

/// A server on the host's loopback that counts the requests it gets.
struct Server {
    port: u16,
    requests: Arc<AtomicUsize>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a loopback");
        let port = listener.local_addr().expect("it is bound").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&requests);
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                let mut head = [0; 4096];
                if client.read(&mut head).is_ok_and(|count| count > 0) {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                drop(client.write_all(answer));
            }
        });
        Self { port, requests }
    }

    fn hits(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }

    /// Tells whether a command of this user, run with these flags, reaches the server.
    fn is_reached(&self, user: &User, flags: &[&str]) -> bool {
        let before = self.hits();
        let url = format!("http://127.0.0.1:{}/", self.port);
        let curl = ["curl", "-sS", "-m", "10", "--noproxy", "", &url];
        let ran = user.run(&[flags, &curl].concat());
        assert_ne!(ran.status, 125, "{}", ran.stderr);
        self.hits() > before
    }
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}
