//! A run that a test talks to.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use super::Ran;

/// A run that is talked to: lines out, and an end when its input is closed.
#[derive(Debug)]
pub struct Live {
    child: Child,
    /// Where it reads from, until that is taken.
    pub input: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Live {
    /// Starts it; a hang is ended.
    pub fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("srt is built");
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())
            .expect("not waited for yet");
        // A hang is a failure: a run that is killed closes its output.
        std::thread::spawn(move || {
            let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(45_000u16)) == Ok(0) {
                let _sent =
                    rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL);
            }
        });
        Self {
            input: child.stdin.take(),
            lines: BufReader::new(child.stdout.take().expect("piped above")),
            child,
        }
    }

    /// Returns its number.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().cast_signed())
    }

    /// Waits for the next line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("output is UTF-8");
        line.trim_end().to_owned()
    }

    /// Closes the input and returns the rest of the output with the status.
    pub fn end(mut self) -> Ran {
        drop(self.input.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.lines, &mut rest).expect("output is UTF-8");
        let mut ran = Ran::from(self.child.wait_with_output().expect("it is our child"));
        ran.stdout = rest;
        ran
    }
}
