//! The line on which the events of our own processes and threads reach the launcher.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::Audit;
use super::event::Process;

/// The launcher's end. The other one is for [`Audit::sent_over`].
#[derive(Debug)]
pub(crate) struct Line(OwnedFd);

/// Finds the process that holds the socket with an inode.
pub(crate) type OwnerOf<'a> = &'a dyn Fn(u64) -> Option<Process>;

const MAX_DATAGRAM: usize = 64 * 1024;

/// Longest of what is sent before any event; the rest of a longer one is lost.
const MAX_WORD: usize = 1024;

/// Events recorded before the launcher looks at its signals again: they must get their turn
/// beside a command that asks without pause.
const BATCH: usize = 64;

impl Line {
    /// Makes both ends.
    ///
    /// # Errors
    /// The process has too many descriptors.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Self(ours), theirs))
    }

    /// Returns the descriptor that is readable when something has come.
    pub(crate) fn descriptor(&self) -> &OwnedFd {
        &self.0
    }

    /// Waits for what is sent before any event; empty once the other end is closed.
    ///
    /// # Errors
    /// A signal came.
    pub(crate) fn receive(&self) -> io::Result<Vec<u8>> {
        let mut datagram = [0; MAX_WORD];
        let (len, _) = rustix::net::recv(&self.0, &mut datagram, RecvFlags::empty())?;
        Ok(datagram[..len].to_vec())
    }

    /// Records events that have come, without waiting for more, and not all of very many.
    /// `owner_of` finds the process that holds a socket.
    pub(crate) fn record(&self, audit: &Audit, owner_of: OwnerOf<'_>) {
        for _ in 0..BATCH {
            if !self.record_next(audit, owner_of) {
                return;
            }
        }
    }

    /// Records everything that is still to come until the other end is closed, for at most
    /// `patience`.
    pub(crate) fn record_rest(&self, audit: &Audit, patience: Duration) {
        // Denials alone came before the command had its answer.
        let patience = if audit.is_recording() {
            patience
        } else {
            Duration::ZERO
        };
        let deadline = Instant::now() + patience;
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
            match poll(&mut fds, left) {
                // The processes that asked are gone.
                Ok(1..) if self.record_next(audit, &|_| None) => {}
                Err(Errno::EINTR) => {}
                _ => return,
            }
        }
    }

    /// Records one event that has come; tells whether there was one.
    fn record_next(&self, audit: &Audit, owner_of: OwnerOf<'_>) -> bool {
        // The length first: most looks find nothing, and a buffer is a page to touch or sixteen.
        let peek = RecvFlags::DONTWAIT | RecvFlags::PEEK | RecvFlags::TRUNC;
        let Ok((_, len @ 1..)) = rustix::net::recv(&self.0, &mut [0; 1], peek) else {
            return false;
        };
        let mut datagram = vec![0; len.min(MAX_DATAGRAM)];
        let received = rustix::net::recv(&self.0, datagram.as_mut_slice(), RecvFlags::DONTWAIT);
        let Ok((len @ 1.., _)) = received else {
            return false;
        };
        if let Some(answer) = audit.record_received(&datagram[..len], owner_of) {
            // One that is gone waits for none.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _sent = rustix::net::send(&self.0, &answer.to_ne_bytes(), flags);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::audit::event::{Code, Event, Kind};
    use crate::audit::{FileOptions, Recorded, Sink, Verbosity};

    /// Records in a file of the test's own, which is removed when `look` is through.
    fn with_file(name: &str, look: impl FnOnce(&Audit, &dyn Fn() -> Vec<String>)) {
        let name = format!("srt-unit-{}-{name}", std::process::id());
        let path = Path::new("/tmp").join(name);
        let sink = Sink::file(&path, FileOptions::default()).unwrap();
        let audit = Audit::new("run", vec![sink], Verbosity::Quiet);
        let lines = || {
            let text = std::fs::read_to_string(&path).unwrap();
            text.lines().map(str::to_owned).collect()
        };
        look(&audit, &lines);
        std::fs::remove_file(&path).unwrap();
    }

    fn send(audit: &Audit, count: usize) {
        for number in 0..count {
            let target = number.to_string();
            audit.record(&Event {
                target: Some(&target),
                ..Event::new(Kind::Socket, "connect", Code::SocketUnlisted)
            });
        }
    }

    #[test]
    fn events_arrive_in_turn_a_batch_at_a_time() {
        with_file("batch", |audit, lines| {
            let (line, theirs) = Line::pair().unwrap();
            send(&audit.sent_over(theirs), BATCH + 3);
            line.record(audit, &|_| None);
            assert_eq!(lines().len(), BATCH);
            line.record(audit, &|_| None);
            line.record(audit, &|_| None);
            let lines = lines();
            assert_eq!(lines.len(), BATCH + 3);
            for (number, line) in lines.iter().enumerate() {
                assert!(line.contains(&format!(r#""target":"{number}""#)), "{line}");
            }
        });
    }

    #[test]
    fn the_rest_is_waited_for_until_the_other_end_is_closed_and_no_longer() {
        with_file("rest", |audit, lines| {
            let (line, theirs) = Line::pair().unwrap();
            let sender = audit.sent_over(theirs);
            let started = Instant::now();
            line.record_rest(audit, Duration::from_millis(100));
            assert!((90..5000).contains(&started.elapsed().as_millis()));

            let sending = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                send(&sender, 2000);
            });
            line.record_rest(audit, Duration::from_secs(60));
            sending.join().unwrap();
            // What found no room is counted.
            let (lost, told): (Vec<_>, Vec<_>) = lines()
                .iter()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
                .partition(|event| event["code"] == "lifecycle.events.dropped");
            let counts = lost.iter().map(|event| event["count"].as_u64().unwrap());
            assert_eq!(told.len() as u64 + counts.sum::<u64>(), 2000);
            assert_eq!(line.receive().unwrap(), b"");
        });
    }

    fn asked(audit: &Audit) -> Recorded {
        audit.record_attributed(&Event {
            socket: Some(7),
            ..Event::new(Kind::Net, "connect", Code::HostListed)
        })
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_wait_for_a_launcher_that_stands_still_wait_once_together() {
        let (_line, theirs) = Line::pair().unwrap();
        let audit = Audit::new("run", vec![null()], Verbosity::Quiet);
        let sender = audit.sent_over(theirs);
        let started = tokio::time::Instant::now();
        // Twice what may wait, so that recording itself would stand still if it could.
        let all: Vec<_> = (0..2048).map(|_| asked(&sender)).collect();
        assert!(all.iter().any(Recorded::is_attributed), "none was lost");
        let all = all.into_iter().map(|one| tokio::spawn(one.attributed()));
        for one in all.collect::<Vec<_>>() {
            one.await.unwrap();
        }
        let waited = started.elapsed();
        assert!(waited < Duration::from_millis(25), "{waited:?}");
    }

    #[tokio::test]
    async fn who_waits_goes_on_when_the_process_was_looked_for() {
        let (line, theirs) = Line::pair().unwrap();
        let audit = Audit::new("run", vec![null()], Verbosity::Quiet);
        let sender = audit.sent_over(theirs);
        let looked_for = AtomicU64::new(0);
        let recorded = asked(&sender);
        assert!(!recorded.is_attributed());
        let launcher = async {
            while looked_for.load(Ordering::Relaxed) == 0 {
                line.record(&audit, &|socket| {
                    looked_for.store(socket, Ordering::Relaxed);
                    None
                });
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(launcher, recorded.attributed());
        assert_eq!(looked_for.into_inner(), 7);
    }

    fn null() -> Sink {
        let null = std::fs::File::options().write(true).open("/dev/null");
        Sink::descriptor(3, null.unwrap().into())
    }

    #[test]
    fn nobody_sends_where_nobody_records() {
        let (line, theirs) = Line::pair().unwrap();
        let audit = Audit::none(Verbosity::Quiet);
        send(&audit.sent_over(theirs), 1);
        assert_eq!(line.receive().unwrap(), b"");
    }
}
