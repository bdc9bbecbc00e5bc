//! Where directories are: most calls are about names in few of them, and to have the kernel
//! follow each path takes as long as all the rest.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A path leads elsewhere once a link takes the place of a name in it, or one in it is replaced.
/// The command's calls that do so are seen; what others do to it counts a moment later.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By their texts: to compare paths is to take them apart.
    places: HashMap<OsString, Place>,
    /// A call that is about to change names is let go on before it has done so.
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct Place {
    since: Instant,
    /// Where it is, for a path over links or one that is written otherwise.
    elsewhere: Option<PathBuf>,
}

/// How long a directory is believed to be where it was.
const BELIEVED: Duration = Duration::from_millis(500);

/// How long nothing new is believed after such a call: another thread may look meanwhile.
const UNSETTLED: Duration = Duration::from_millis(5);

/// Most that are remembered.
const MAX_KNOWN: usize = 256;

impl Known {
    /// Returns where a directory is, free of links, as far as it is remembered.
    pub(super) fn place_of(&self, directory: &Path) -> Option<PathBuf> {
        let state = self.state();
        let place = state.places.get(directory.as_os_str())?;
        let elsewhere = place.elsewhere.as_deref();
        let is_fresh = place.since.elapsed() < BELIEVED;
        is_fresh.then(|| elsewhere.unwrap_or(directory).to_owned())
    }

    /// Remembers where a directory was found.
    pub(super) fn learn(&self, directory: &Path, found: &Path) {
        let mut state = self.state();
        let since = Instant::now();
        if state.not_before.is_some_and(|settled| since < settled) {
            return;
        }
        if state.places.len() >= MAX_KNOWN {
            state.places.clear();
        }
        let is_there = found.as_os_str() == directory.as_os_str();
        let place = Place {
            since,
            elsewhere: (!is_there).then(|| found.to_owned()),
        };
        state.places.insert(directory.into(), place);
    }

    /// Forgets what leads through `path`, in whose place a link may come, and all links.
    pub(super) fn forget(&self, path: &Path) {
        let mut state = self.state();
        state.places.retain(|directory, place| {
            place.elsewhere.is_none() && !Path::new(directory).starts_with(path)
        });
        state.not_before = Some(Instant::now() + UNSETTLED);
    }

    /// Forgets what leads over links, in the place of one of which a directory may come.
    pub(super) fn forget_links(&self) {
        let mut state = self.state();
        state.places.retain(|_, place| place.elsewhere.is_none());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(known: &Known, paths: [&str; 4]) -> [Option<PathBuf>; 4] {
        paths.map(|path| known.place_of(Path::new(path)))
    }

    #[test]
    fn what_a_link_takes_the_place_of_is_forgotten_with_all_below_and_all_links() {
        let all = Known::default();
        for (directory, found) in [
            ("/w", "/w"),
            ("/w/a/b", "/w/a/b"),
            ("/w/ab", "/w/ab"),
            ("/l", "/w/ab"),
        ] {
            all.learn(Path::new(directory), Path::new(found));
        }
        let [w, below, beside, link] = known(&all, ["/w", "/w/a/b", "/w/ab", "/l"]);
        assert_eq!((w, below), (Some("/w".into()), Some("/w/a/b".into())));
        assert_eq!((&beside, &link), (&Some("/w/ab".into()), &beside));
        all.forget_links();
        assert_eq!(known(&all, ["/w", "/w/a/b", "/w/ab", "/l"])[3], None);
        all.forget(Path::new("/w/a"));
        let left = known(&all, ["/w", "/w/a/b", "/w/ab", "/l"]);
        assert_eq!(
            left.map(|place| place.is_some()),
            [true, false, true, false]
        );
        all.learn(Path::new("/w/a"), Path::new("/w/a"));
        assert_eq!(
            all.place_of(Path::new("/w/a")),
            None,
            "it is not settled yet"
        );
        std::thread::sleep(UNSETTLED);
        all.learn(Path::new("/w/a"), Path::new("/w/a"));
        assert!(all.place_of(Path::new("/w/a")).is_some());
    }
}
