//! What waits for a sink, so that nobody waits for it.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::complain;
use super::recorder::{Line, lost_line};
use super::sinks::{Sink, Written};

/// Most that waits for one sink, in bytes; what comes then is lost, and counted.
const MOST: usize = 4 << 20;

/// Longest that the end of a run waits for its sinks.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

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
    /// How far the sink is with what it was given.
    written: Written,
}

#[derive(Debug)]
struct State {
    /// The sink, until it has a thread of its own.
    idle: Option<Sink>,
    waiting: VecDeque<Arc<Line>>,
    bytes: usize,
    /// What the sink was given last, in events.
    given: u64,
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
            paths: sink.paths(),
            shared: Arc::new(Shared {
                run,
                name: sink.to_string(),
                state: Mutex::new(State {
                    idle: Some(sink),
                    waiting: VecDeque::new(),
                    bytes: 0,
                    given: 0,
                    lost: Lost::default(),
                    is_closed: false,
                    is_done: false,
                }),
                changed: Condvar::new(),
                written: Written::default(),
            }),
        }
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.paths.iter().cloned()
    }

    /// Has a thread write from here on.
    pub(super) fn start(&self) -> io::Result<()> {
        match self.shared.state().idle.take() {
            Some(sink) => self.spawn(sink),
            None => Ok(()),
        }
    }

    fn spawn(&self, sink: Sink) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name("srt-sink".to_owned());
        thread.spawn(move || shared.work(sink))?;
        Ok(())
    }

    pub(super) fn push(&self, line: &Arc<Line>) {
        let mut state = self.shared.state();
        if let Some(mut sink) = state.idle.take_if(|sink| sink.is_prompt()) {
            let batch = [Arc::clone(line)];
            state = self.shared.hand_over(&mut sink, &batch, state);
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
        let idle = state.idle.take();
        drop(state);
        // Nothing forks any more, so that a thread can do what may take long.
        if let Some(sink) = idle
            && let Err(error) = self.spawn(sink)
        {
            self.shared.state().is_done = true;
            self.shared.complain(&error);
        }
        self.shared.changed.notify_all();
    }

    /// Waits until the sink has all it got, or it is too late.
    pub(super) fn wait(&self, deadline: Instant) {
        let mut state = self.shared.state();
        while !state.is_done {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let given = state.given - self.shared.written.count();
                let count = given + state.waiting.len() as u64 + state.lost.count;
                return complain(format_args!(
                    "{} takes too long: {count} events did not reach it",
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

    /// The life of a sink's thread. It holds the lock for moments alone: whoever records, and
    /// the end of the run, want it too.
    fn work(&self, mut sink: Sink) {
        let mut state = self.state();
        loop {
            let batch: Vec<_> = state.waiting.drain(..).collect();
            state.bytes = 0;
            if !batch.is_empty() {
                state = self.hand_over(&mut sink, &batch, state);
            } else if state.is_closed {
                break;
            } else {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        let state = self.tell_loss(&mut sink, state);
        let lost = state.lost.count;
        drop(state);
        if lost > 0 {
            complain(format_args!("{lost} events did not reach {}", self.name));
        }
        if let Err(error) = sink.finish() {
            self.complain(&error);
        }
        self.state().is_done = true;
        self.changed.notify_all();
    }

    /// Has the sink write a batch. What is recorded meanwhile still waits: two batches at most.
    fn hand_over<'a>(
        &'a self,
        sink: &mut Sink,
        batch: &[Arc<Line>],
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        self.written.restart();
        state.given = batch.len() as u64;
        drop(state);
        let result = sink.write(batch, &self.written);
        let mut state = self.state();
        let lost = state.given - self.written.count();
        state.given = self.written.count();
        let Err(error) = result else {
            return self.tell_loss(sink, state);
        };
        // Once, until it writes again.
        if state.lost.count == 0 {
            self.complain(&error);
        }
        let last = batch.last().map_or(0, |line| line.seq);
        state.lost.add(lost, last);
        state
    }

    /// Tells the sink what it lost, where it did.
    fn tell_loss<'a>(
        &'a self,
        sink: &mut Sink,
        state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let Lost { count, last } = state.lost;
        if count == 0 {
            return state;
        }
        drop(state);
        let line = lost_line(&self.run, last, count, &self.name);
        let told = line.map(|line| sink.write(&[Arc::new(line)], &Written::default()));
        let mut state = self.state();
        if matches!(told, Some(Ok(()))) {
            state.lost.count -= count;
        }
        state
    }

    fn complain(&self, error: &io::Error) {
        complain(format_args!(
            "cannot write events to {}: {error}",
            self.name
        ));
    }
}

impl Lost {
    fn add(&mut self, count: u64, last: u64) {
        self.count += count;
        self.last = self.last.max(last);
    }
}
