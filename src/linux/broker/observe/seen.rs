//! What was told already: a program that asks the same again and again is counted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Told;
use super::acts::Deed;

/// Who did what to what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    thread: i32,
    deed: Deed,
    path: PathBuf,
}

#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<HashMap<Key, Entry>>);

#[derive(Debug)]
struct Entry {
    told: Option<Told>,
    since: Instant,
    /// How often it came since it was told.
    times: u64,
}

/// Whether something came before.
#[derive(Debug)]
pub(super) enum Again {
    /// It did not, as far as is remembered.
    New,
    /// It did, and was counted.
    Counted,
    /// It did, as often as said, and is to be told again.
    Due(Told, u64),
}

/// How long a thing that goes on is counted before it is told again. A path may lead elsewhere
/// by then.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most that is remembered; then all is told and forgotten.
const MAX_SEEN: usize = 4096;

impl Key {
    pub(super) fn new(thread: i32, deed: Deed, path: &Path) -> Self {
        Self {
            thread,
            deed,
            path: path.to_owned(),
        }
    }
}

impl Seen {
    /// Counts what came before.
    pub(super) fn again(&self, key: &Key) -> Again {
        let mut seen = self.entries();
        let Some(entry) = seen.get_mut(key) else {
            return Again::New;
        };
        if entry.since.elapsed() < PATIENCE {
            entry.times += 1;
            return Again::Counted;
        }
        let entry = seen.remove(key);
        match entry.map(|entry| (entry.told, entry.times)) {
            Some((Some(told), times @ 1..)) => Again::Due(told, times + 1),
            _ => Again::New,
        }
    }

    /// Remembers what is told now; returns what was counted and has to make room.
    pub(super) fn remember(&self, key: Key, told: Told) -> Vec<(Told, u64)> {
        let mut seen = self.entries();
        let rest = match seen.len() < MAX_SEEN {
            true => Vec::new(),
            false => counted(&mut seen),
        };
        seen.insert(key, Entry::new(Some(told)));
        rest
    }

    /// Remembers a thing that is told once; tells whether it is new.
    pub(super) fn is_new(&self, key: Key) -> bool {
        let mut seen = self.entries();
        seen.len() < MAX_SEEN && seen.insert(key, Entry::new(None)).is_none()
    }

    /// Returns and forgets what was counted and not told.
    pub(super) fn rest(&self) -> Vec<(Told, u64)> {
        counted(&mut self.entries())
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Key, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new(told: Option<Told>) -> Self {
        Self {
            told,
            since: Instant::now(),
            times: 0,
        }
    }
}

fn counted(seen: &mut HashMap<Key, Entry>) -> Vec<(Told, u64)> {
    let entries = seen.drain().map(|(_, entry)| entry);
    let counted = entries.filter(|entry| entry.times > 0);
    counted
        .filter_map(|entry| Some((entry.told?, entry.times)))
        .collect()
}
