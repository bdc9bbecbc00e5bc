//! The launcher's own record of a run: numbers events, counts denials, gives all to the sinks.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use serde::Serialize;
use serde_json::value::RawValue;

use super::denials::Denials;
use super::event::{Code, Event, Kind, Process};
use super::ignored::Ignored;
use super::now;
use super::queue::{PATIENCE, Queue};
use super::sender::Record;
use super::sinks::Sink;

#[derive(Debug)]
pub(super) struct Recorder {
    run: Arc<str>,
    state: Mutex<State>,
    sinks: Vec<Queue>,
    ignored: OnceLock<Ignored>,
}

#[derive(Debug, Default)]
struct State {
    seq: u64,
    denials: Denials,
}

/// One event as sinks get it.
#[derive(Debug)]
pub(super) struct Line {
    /// Its place in the run.
    pub(super) seq: u64,
    /// One JSON object, without the end of the line.
    pub(super) text: String,
}

/// What stands before an event on its line.
#[derive(Serialize)]
struct Envelope<'a> {
    v: u32,
    time: &'a str,
    seq: u64,
    run: &'a str,
}

impl Recorder {
    pub(super) fn new(run: &str, sinks: Vec<Sink>) -> Self {
        let run = Arc::from(run);
        Self {
            sinks: sinks
                .into_iter()
                .map(|sink| Queue::new(sink, Arc::clone(&run)))
                .collect(),
            run,
            state: Mutex::default(),
            ignored: OnceLock::new(),
        }
    }

    /// Leaves denials out. The first word counts, which is that of the run's settings.
    pub(super) fn leave_out(&self, ignored: Ignored) {
        let _is_first = self.ignored.set(ignored);
    }

    pub(super) fn start(&self) -> io::Result<()> {
        self.sinks.iter().try_for_each(Queue::start)
    }

    pub(super) fn finish(&self) {
        self.sinks.iter().for_each(Queue::close);
        let deadline = Instant::now() + PATIENCE;
        self.sinks.iter().for_each(|sink| sink.wait(deadline));
    }

    pub(super) fn has_sinks(&self) -> bool {
        !self.sinks.is_empty()
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.sinks.iter().flat_map(Queue::paths).collect()
    }

    pub(super) fn denials(&self) -> Denials {
        self.state().denials.clone()
    }

    pub(super) fn record(&self, event: &Event<'_>) {
        if let Ok(body) = serde_json::value::to_raw_value(event) {
            self.write(&now(), &body, event.process.as_ref());
        }
    }

    pub(super) fn record_received(
        &self,
        datagram: &[u8],
        owner_of: &dyn Fn(u64) -> Option<Process>,
    ) -> Option<u32> {
        let record: Record = serde_json::from_slice(datagram).ok()?;
        if record.lost > 0 {
            self.record(&lost(record.lost, "the launcher"));
        }
        if record.event.get() == RawValue::NULL.get() {
            return None;
        }
        let owner = record.question.and_then(|asked| owner_of(asked.socket));
        let process = record.process.or(owner);
        self.write(&record.time, &record.event, process.as_ref());
        record.question.map(|asked| asked.number)
    }

    fn write(&self, time: &str, event: &RawValue, process: Option<&Process>) {
        if self
            .ignored
            .get()
            .is_some_and(|ignored| ignored.leaves_out(event.get()))
        {
            return;
        }
        let mut state = self.state();
        state.denials.count(event.get(), process);
        let seq = state.seq;
        state.seq += 1;
        if self.sinks.is_empty() {
            return;
        }
        let Some(text) = text(&self.run, time, seq, event, process) else {
            return;
        };
        // Under the lock, so that every sink has them in turn.
        let line = Arc::new(Line { seq, text });
        for sink in &self.sinks {
            sink.push(&line);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the event that says how many others were lost, and for whom.
fn lost(count: u64, whom: &str) -> Event<'_> {
    let detail = [("count".to_owned(), count.into())];
    Event {
        target: Some(whom),
        detail: Some(detail.into_iter().collect()),
        ..Event::new(Kind::Lifecycle, "record", Code::EventsDropped)
    }
}

/// Makes the line that tells a sink how many events before `seq`, and with it, it did not get.
pub(super) fn lost_line(run: &str, seq: u64, count: u64, sink: &str) -> Option<Line> {
    let event = serde_json::value::to_raw_value(&lost(count, sink)).ok()?;
    let text = text(run, &now(), seq, &event, None)?;
    Some(Line { seq, text })
}

fn text(
    run: &str,
    time: &str,
    seq: u64,
    event: &RawValue,
    process: Option<&Process>,
) -> Option<String> {
    let envelope = Envelope {
        v: 1,
        time,
        seq,
        run,
    };
    let envelope = serde_json::to_string(&envelope).ok()?;
    let process = serde_json::to_string(&process).ok()?;
    // Both are objects, and become one: the event as it was sent, the envelope before it.
    let head = envelope.strip_suffix('}')?;
    let event = event.get().strip_prefix('{')?.strip_suffix('}')?;
    Some(format!("{head},{event},\"process\":{process}}}"))
}
