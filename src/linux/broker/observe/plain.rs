//! Directories that are known to be reached without a link: most calls are about names in few of
//! them, and to have the kernel follow each takes as long as all the rest.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Such a path leads elsewhere once a link takes the place of a name in it. The command's calls
/// that do so are seen; what others do to it counts a moment later.
#[derive(Debug, Default)]
pub(super) struct Plain(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By their texts: to compare paths is to take them apart.
    since: HashMap<OsString, Instant>,
    /// A call that is about to change names is let go on before it has done so.
    not_before: Option<Instant>,
}

/// How long a directory is believed to be what it was.
const BELIEVED: Duration = Duration::from_millis(500);

/// How long nothing new is believed after such a call: another thread may look meanwhile.
const UNSETTLED: Duration = Duration::from_millis(5);

/// Most that are remembered.
const MAX_PLAIN: usize = 256;

impl Plain {
    pub(super) fn is_known(&self, directory: &Path) -> bool {
        let state = self.state();
        let since = state.since.get(directory.as_os_str());
        since.is_some_and(|since| since.elapsed() < BELIEVED)
    }

    pub(super) fn learn(&self, directory: &Path) {
        let mut state = self.state();
        let now = Instant::now();
        if state.not_before.is_some_and(|settled| now < settled) {
            return;
        }
        if state.since.len() >= MAX_PLAIN {
            state.since.clear();
        }
        state.since.insert(directory.into(), now);
    }

    /// Forgets what leads through `path`, in whose place a link may come.
    pub(super) fn forget(&self, path: &Path) {
        let mut state = self.state();
        state
            .since
            .retain(|directory, _| !Path::new(directory).starts_with(path));
        state.not_before = Some(Instant::now() + UNSETTLED);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_takes_the_place_of_is_forgotten_with_all_below() {
        let plain = Plain::default();
        for directory in ["/w", "/w/a", "/w/a/b", "/w/ab"] {
            plain.learn(Path::new(directory));
        }
        plain.forget(Path::new("/w/a"));
        let known = ["/w", "/w/a", "/w/a/b", "/w/ab"].map(|path| plain.is_known(Path::new(path)));
        assert_eq!(known, [true, false, false, true]);
        plain.learn(Path::new("/w/a"));
        assert!(!plain.is_known(Path::new("/w/a")), "it is not settled yet");
        std::thread::sleep(UNSETTLED);
        plain.learn(Path::new("/w/a"));
        assert!(plain.is_known(Path::new("/w/a")));
    }
}
