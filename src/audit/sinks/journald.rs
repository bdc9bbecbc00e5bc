//! The journal of systemd, over its native protocol; see JOURNAL_NATIVE_PROTOCOL of systemd.

use std::fmt;
use std::io::{self, IoSlice, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::super::recorder::Line;
use super::said::Said;
use super::{Written, cannot, local};
use crate::error::Result;

const SOCKET: &str = "/run/systemd/journal/socket";

#[derive(Debug)]
pub(super) struct Journald {
    path: PathBuf,
    socket: UnixDatagram,
}

impl Journald {
    pub(super) fn connect(path: Option<&Path>) -> Result<Self> {
        let path = path.unwrap_or(Path::new(SOCKET)).to_owned();
        let socket = local::connected(&path).map_err(|error| {
            cannot(format_args!("the journal at {}", path.display()))
                .call("connect", error)
                .with_hint(local::REMEDY)
        })?;
        Ok(Self { path, socket })
    }

    pub(super) fn write(&mut self, lines: &[Arc<Line>], written: &Written) -> io::Result<()> {
        local::each(lines, written, |line| {
            let entry = entry(&Said::of(line)?, &line.text)?;
            local::send(&mut self.socket, &self.path, |socket| send(socket, &entry))?;
            Ok(())
        })
    }
}

impl fmt::Display for Journald {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the journal at {}", self.path.display())
    }
}

/// Makes the datagram of one event.
fn entry(said: &Said<'_>, json: &str) -> io::Result<Vec<u8>> {
    let mut entry = Vec::new();
    let mut field = |name: &str, value: &str| -> io::Result<()> {
        // A line end would end the field, and what follows be another one: it is sent by length.
        if value.contains('\n') {
            writeln!(entry, "{name}")?;
            entry.extend((value.len() as u64).to_le_bytes());
            writeln!(entry, "{value}")
        } else {
            writeln!(entry, "{name}={value}")
        }
    };
    field("MESSAGE", &said.message())?;
    field("PRIORITY", &(said.severity() as u8).to_string())?;
    field("SYSLOG_IDENTIFIER", "srt")?;
    field("SRT_RUN", &said.run)?;
    field("SRT_SEQ", &said.seq.to_string())?;
    field("SRT_KIND", &said.kind)?;
    field("SRT_OP", &said.op)?;
    field("SRT_CODE", &said.code)?;
    for (name, value) in [("SRT_TARGET", &said.target), ("SRT_VERDICT", &said.verdict)] {
        if let Some(value) = value {
            field(name, value)?;
        }
    }
    field("SRT_EVENT", json)?;
    Ok(entry)
}

fn send(socket: &UnixDatagram, entry: &[u8]) -> io::Result<()> {
    match socket.send(entry) {
        Err(error) if is_too_long(&error) => send_in_memory(socket, entry),
        result => result.map(drop),
    }
}

fn is_too_long(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMSGSIZE | libc::ENOBUFS))
}

/// Sends what is too long for a datagram as a sealed file of memory.
fn send_in_memory(socket: &UnixDatagram, entry: &[u8]) -> io::Result<()> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut memory = std::fs::File::from(memfd_create("srt-event", flags)?);
    memory.write_all(entry)?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&memory, seals)?;
    let fds = [memory.as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&fds)];
    let nothing = [IoSlice::new(&[])];
    let flags = MsgFlags::MSG_NOSIGNAL;
    sendmsg::<()>(socket.as_raw_fd(), &nothing, &rights, flags, None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(target: &str) -> Line {
        let event = serde_json::json!({
            "v": 1, "time": "2026-11-30T12:00:00.000001Z", "seq": 7, "run": "r", "kind": "net",
            "op": "connect", "target": target, "verdict": "denied", "code": "net.host.unlisted",
            "rule": null, "suggest": null, "process": null,
        });
        Line {
            seq: 7,
            text: event.to_string(),
        }
    }

    #[test]
    fn a_line_end_in_a_name_makes_no_field() {
        let line = line("x\nPRIORITY=0\nSRT_VERDICT=allowed");
        let entry = entry(&Said::of(&line).unwrap(), &line.text).unwrap();
        let text = String::from_utf8_lossy(&entry);
        assert!(text.contains("MESSAGE=denied: net connect x\\nPRIORITY=0\\nSRT_"));
        let binary = b"SRT_TARGET\n\x20\0\0\0\0\0\0\0x\nPRIORITY=0\nSRT_VERDICT=allowed\nSRT_";
        assert!(
            entry.windows(binary.len()).any(|part| part == binary),
            "{text:?}"
        );
    }
}
