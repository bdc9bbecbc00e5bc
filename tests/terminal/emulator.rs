//! A terminal of a test: what it shows, what is typed, how it is set.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, tcgetpgrp};

use crate::harness::{Killed, wrapped};

/// Longest that is waited for anything; a hang is a failure of its own.
const PATIENCE: Duration = Duration::from_secs(60);

/// A pseudo-terminal of 24 rows and 80 columns, with a program in a session on it.
pub(crate) struct Emulator {
    /// `None` once it is closed.
    sides: Option<(File, File)>,
    parser: vt100::Parser,
    child: Killed,
    first: State,
}

/// How a terminal is set, and whom its keys reach.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct State {
    modes: Termios,
    foreground: Pid,
}

impl State {
    pub(crate) fn group(&self) -> Pid {
        self.foreground
    }

    pub(crate) fn modes(&self) -> &Termios {
        &self.modes
    }
}

impl Emulator {
    /// Starts a command on it, as the leader of a session.
    pub(crate) fn start(command: &Command) -> Self {
        // Another test's child that held it would keep it from being closed.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let near = posix_openpt(flags).expect("a pseudo-terminal is free");
        grantpt(&near)
            .and_then(|()| unlockpt(&near))
            .expect("it is ours");
        let name = ptsname_r(&near).expect("it has a far side");
        let near = File::from(OwnedFd::from(near));
        let mut options = File::options();
        options.read(true).write(true);
        let far = options.custom_flags(libc::O_NOCTTY).open(name);
        let far = far.expect("it is unlocked");
        let mut session = wrapped(&["setsid", "--ctty"], command);
        let standard = || Stdio::from(far.try_clone().expect("descriptors are free"));
        session
            .stdin(standard())
            .stdout(standard())
            .stderr(standard());
        session.env("TERM", "xterm").env("LC_ALL", "C.UTF-8");
        set_size(&far, 24, 80);
        let modes = tcgetattr(&near).expect("it is a terminal");
        let child = session.spawn().expect("setsid is there");
        let foreground = Pid::from_raw(child.id().cast_signed());
        Self {
            first: State { modes, foreground },
            sides: Some((near, far)),
            parser: vt100::Parser::new(rows(24), rows(80), 0),
            child: Killed(child),
        }
    }

    fn near(&self) -> &File {
        &self.sides.as_ref().expect("not closed yet").0
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.child.0.id().cast_signed())
    }

    /// Returns how it was set when the session began.
    pub(crate) fn first(&self) -> &State {
        &self.first
    }

    /// Returns the job that the session's leader waits for.
    pub(crate) fn job(&self) -> Pid {
        let children = format!("/proc/{0}/task/{0}/children", self.pid());
        let job = fs::read_to_string(children).expect("it is alive");
        Pid::from_raw(job.trim().parse().expect("it waits for one"))
    }

    /// Waits for the end of the job that the session's leader reports, and returns its group.
    #[track_caller]
    pub(crate) fn ended_job(&mut self) -> Pid {
        self.shows("\njob ");
        let said = |screen: &str| {
            let (_, job) = screen.rsplit_once("\njob ")?;
            let (job, _) = job.split_once('\n')?;
            job.parse().ok().map(Pid::from_raw)
        };
        said(&self.screen()).expect("its number comes with the word")
    }

    /// Returns its far side, for another program.
    pub(crate) fn far(&self) -> File {
        let far = &self.sides.as_ref().expect("not closed yet").1;
        far.try_clone().expect("descriptors are free")
    }

    /// Types, as keys do.
    pub(crate) fn types(&mut self, keys: &str) {
        self.near().write_all(keys.as_bytes()).expect("it is open");
    }

    /// Types a line to a shell that shows `outer>`, once it reads one.
    #[track_caller]
    pub(crate) fn tells(&mut self, line: &str) {
        let came = self.waits_until(|screen| screen.contains("outer>\n--"));
        assert!(came, "{line:?} is not asked for:\n{}", self.screen());
        self.types(line);
        self.types("\r");
    }

    /// Waits until keys reach another process group than the shell's.
    #[track_caller]
    pub(crate) fn leaves_the_shell(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while self.state().foreground == self.pid() {
            assert!(Instant::now() < deadline, "{}", self.screen());
            self.read();
        }
    }

    /// Changes its size, as a window does.
    pub(crate) fn resize(&mut self, height: u16, width: u16) {
        set_size(
            &self.sides.as_ref().expect("not closed yet").1,
            height,
            width,
        );
        self.parser.screen_mut().set_size(rows(height), rows(width));
    }

    /// Closes it, as a window does.
    pub(crate) fn close(&mut self) {
        self.sides = None;
    }

    /// Returns what it shows, and behind that where the cursor is.
    pub(crate) fn screen(&self) -> String {
        let screen = self.parser.screen();
        let (row, column) = screen.cursor_position();
        let contents = screen.contents();
        // What is blank to the eye may or may not have been written to.
        let lines: Vec<_> = contents.lines().map(str::trim_end).collect();
        format!("{}\n-- cursor: {row} {column}\n", lines.join("\n"))
    }

    /// Waits until `holds` of what it shows; tells whether it came.
    pub(crate) fn waits_until(&mut self, holds: impl Fn(&str) -> bool) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while !holds(&self.screen()) {
            if Instant::now() > deadline || !self.read() {
                return holds(&self.screen());
            }
        }
        true
    }

    /// Waits until it is set as it was; tells whether that came.
    pub(crate) fn comes_to(&mut self, before: &State) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.state() != *before {
            if Instant::now() > deadline || !self.read() {
                return false;
            }
        }
        true
    }

    /// Waits until it is set as when the session began; tells whether that came.
    pub(crate) fn comes_to_modes(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while self.state().modes != self.first.modes {
            if Instant::now() > deadline || !self.read() {
                return false;
            }
        }
        true
    }

    /// Waits until it shows `text`.
    #[track_caller]
    pub(crate) fn shows(&mut self, text: &str) {
        let came = self.waits_until(|screen| screen.contains(text));
        assert!(came, "{text:?} did not come:\n{}", self.screen());
    }

    /// Waits until it has shown nothing new for two seconds.
    pub(crate) fn settles(&mut self) {
        let mut quiet = Instant::now();
        while quiet.elapsed() < Duration::from_secs(2) {
            let before = self.screen();
            self.read();
            if self.screen() != before {
                quiet = Instant::now();
            }
        }
    }

    /// Takes what was written to it for a moment; tells whether more can come.
    fn read(&mut self) -> bool {
        let mut fds = [PollFd::new(self.near().as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(50_u16)) == Ok(0) {
            return true;
        }
        let mut buffer = [0; 4096];
        match self.near().read(&mut buffer) {
            Ok(read) if read > 0 => {
                self.parser.process(&buffer[..read]);
                true
            }
            _ => false,
        }
    }

    /// Returns how it is set.
    pub(crate) fn state(&self) -> State {
        State {
            modes: tcgetattr(self.near()).expect("it is open"),
            foreground: tcgetpgrp(self.near()).expect("it has a session"),
        }
    }

    /// Waits for the end of the session's leader and returns its status.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.sides.is_some() {
                self.read();
            } else {
                std::thread::sleep(Duration::from_millis(5));
            }
            if let Some(status) = ended(&mut self.child.0) {
                return status;
            }
        }
        panic!("no end:\n{}", self.screen());
    }
}

fn ended(child: &mut Child) -> Option<Option<i32>> {
    let status = child.try_wait().expect("it is our child");
    status.map(|status| status.code())
}

fn rows(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).expect("a terminal has some")
}

/// Sets both at once: each change is a signal.
fn set_size(far: &File, height: u16, width: u16) {
    let size = rustix::termios::Winsize {
        ws_row: height,
        ws_col: width,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(far, size).expect("it is a terminal");
}
