//! What waits for a sink, so that nobody waits for it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::recorder::{Line, lost_line};
use super::sinks::Sink;

/// Most that waits for one sink, in bytes; what comes then is lost, and counted.
const MOST: usize = 4 << 20;

/// Longest that the end of a run waits for a sink.
const PATIENCE: Duration = Duration::from_secs(5);

/// A sink, and what it has yet to write.
#[derive(Debug)]
pub(super) struct Queue {
    shared: Arc<Shared>,
    paths: Vec<PathBuf>,
}

#[derive(Debug)]
struct Shared {
    run: Arc<str>,
    name: String,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The sink, until it has a thread of its own.
    idle: Option<Sink>,
    waiting: VecDeque<Arc<Line>>,
    bytes: usize,
    lost: Lost,
    is_closed: bool,
    is_done: bool,
}

/// Events that a sink did not get since it was last told so.
#[derive(Debug, Default, Clone, Copy)]
struct Lost {
    count: u64,
    last: u64,
}

impl Queue {
    pub(super) fn new(sink: Sink, run: Arc<str>) -> Self {
        Self {
            paths: sink.path().map(PathBuf::from).into_iter().collect(),
            shared: Arc::new(Shared {
                run,
                name: sink.to_string(),
                state: Mutex::new(State {
                    idle: Some(sink),
                    waiting: VecDeque::new(),
                    bytes: 0,
                    lost: Lost::default(),
                    is_closed: false,
                    is_done: false,
                }),
                changed: Condvar::new(),
            }),
        }
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.iter().cloned()
    }

    /// Has a thread write from here on.
    pub(super) fn start(&self) -> io::Result<()> {
        let Some(sink) = self.shared.state().idle.take() else {
            return Ok(());
        };
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("srt-sink".to_owned());
        thread.spawn(move || shared.work(sink))?;
        Ok(())
    }

    pub(super) fn push(&self, line: &Arc<Line>) {
        let mut state = self.shared.state();
        if let Some(mut sink) = state.idle.take() {
            self.shared
                .write(&mut sink, &[Arc::clone(line)], &mut state);
            state.idle = Some(sink);
            return;
        }
        if state.bytes + line.text.len() > MOST {
            state.lost.add(1, line.seq);
            return;
        }
        state.bytes += line.text.len();
        state.waiting.push_back(Arc::clone(line));
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Says that nothing more comes.
    pub(super) fn close(&self) {
        let mut state = self.shared.state();
        state.is_closed = true;
        if let Some(mut sink) = state.idle.take() {
            self.shared.end(&mut sink, &mut state);
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Waits until the sink has all it got.
    pub(super) fn wait(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.shared.state();
        while !state.is_done {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let count = state.waiting.len() as u64 + state.lost.count;
                return complain(format_args!(
                    "{} takes too long: at least {count} events did not reach it",
                    self.shared.name
                ));
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of a sink's thread.
    fn work(&self, mut sink: Sink) {
        let mut state = self.state();
        loop {
            let batch: Vec<_> = state.waiting.drain(..).collect();
            state.bytes = 0;
            if !batch.is_empty() {
                drop(state);
                // What is written meanwhile still counts as waiting: two batches at most.
                let written = sink.write(&batch);
                state = self.state();
                self.settle(written, &batch, &mut sink, &mut state);
            } else if state.is_closed {
                break;
            } else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        self.end(&mut sink, &mut state);
        drop(state);
        self.changed.notify_all();
    }

    fn write(&self, sink: &mut Sink, batch: &[Arc<Line>], state: &mut State) {
        let written = sink.write(batch);
        self.settle(written, batch, sink, state);
    }

    /// Says what went wrong, once, and tells the sink what it lost, once it writes again.
    fn settle(
        &self,
        written: io::Result<()>,
        batch: &[Arc<Line>],
        sink: &mut Sink,
        state: &mut State,
    ) {
        if let Err(error) = written {
            if state.lost.count == 0 {
                complain(format_args!(
                    "cannot write events to {}: {error}",
                    self.name
                ));
            }
            let last = batch.last().map_or(0, |line| line.seq);
            state.lost.add(batch.len() as u64, last);
        } else if state.lost.count > 0 {
            self.tell(sink, &mut state.lost);
        }
    }

    fn tell(&self, sink: &mut Sink, lost: &mut Lost) {
        let line = lost_line(&self.run, lost.last, lost.count, &self.name);
        let told = line.map(|line| sink.write(&[Arc::new(line)]));
        if matches!(told, Some(Ok(()))) {
            *lost = Lost::default();
        }
    }

    fn end(&self, sink: &mut Sink, state: &mut State) {
        if state.lost.count > 0 {
            self.tell(sink, &mut state.lost);
        }
        if state.lost.count > 0 {
            complain(format_args!(
                "{} events did not reach {}",
                state.lost.count, self.name
            ));
        }
        if let Err(error) = sink.finish() {
            complain(format_args!(
                "cannot write events to {}: {error}",
                self.name
            ));
        }
        state.is_done = true;
    }
}

impl Lost {
    fn add(&mut self, count: u64, last: u64) {
        self.count += count;
        self.last = self.last.max(last);
    }
}

fn complain(what: std::fmt::Arguments<'_>) {
    // A closed stderr must not end the run.
    drop(writeln!(io::stderr(), "srt: warning: {what}"));
}
