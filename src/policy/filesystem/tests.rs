//! The precedence of the four lists, by generation: every way to put each list's one entry at
//! none or one of three depths.

use super::*;

const PLACES: [&str; 3] = ["/a", "/a/b", "/a/b/c"];

/// `None`, or an index into [`PLACES`].
type Place = Option<usize>;

impl Filesystem {
    /// Takes `denyRead`, `allowRead`, `allowWrite` and `denyWrite` without looking at the disk.
    pub(crate) fn of_lists(lists: [&[&str]; 4]) -> Self {
        let [deny_read, allow_read, allow_write, deny_write] = lists.map(|list| {
            let mut rules = Rules::default();
            for entry in list {
                rules.push(Rule {
                    path: RealPath::unchecked(entry),
                    entry: (*entry).to_owned(),
                    origin: Origin::built_in("filesystem.test"),
                });
            }
            rules
        });
        let mut policy = Self {
            deny_read,
            allow_read,
            allow_write,
            deny_write,
            ..Self::default()
        };
        let names = policy.pinned_names();
        policy.pins = names
            .iter()
            .filter_map(|path| path.to_str())
            .map(RealPath::unchecked)
            .collect();
        policy
    }
}

fn entry(place: Place) -> &'static [&'static str] {
    place.map_or(&[], |index| &PLACES[index..=index])
}

/// The rules of the manual page, said once more without depths of paths: `at` is the index of
/// the path asked about, and an entry covers it from its own index on.
fn expected(
    at: usize,
    deny_read: Place,
    allow_read: Place,
    allow_write: Place,
    deny_write: Place,
) -> Access {
    let covers = |place: Place| place.filter(|&place| place <= at);
    let shown_from = covers(allow_read).max(covers(allow_write));
    match (covers(deny_read), shown_from) {
        (Some(_), None) => return Access::Hidden,
        (Some(hidden), Some(shown)) if hidden > shown => return Access::Hidden,
        _ => {}
    }
    if covers(deny_write).is_some() || covers(allow_write).is_none() {
        return Access::Read;
    }
    Access::Write
}

#[test]
fn every_combination_of_the_four_lists_at_three_depths_is_decided_as_documented() {
    let choices = [None, Some(0), Some(1), Some(2)];
    let mut decided = [0; 3];
    for (deny_read, allow_read) in pairs(choices) {
        for (allow_write, deny_write) in pairs(choices) {
            let lists = [deny_read, allow_read, allow_write, deny_write].map(entry);
            let policy = Filesystem::of_lists(lists);
            for (at, place) in PLACES.into_iter().enumerate() {
                let access = policy.access(Path::new(place));
                let wanted = expected(at, deny_read, allow_read, allow_write, deny_write);
                assert_eq!(access, wanted, "{place}: {policy:?}");
                decided[access as usize] += 1;
            }
            assert_eq!(
                policy.access(Path::new("/ab")),
                Access::Read,
                "a name is no prefix"
            );
            assert_eq!(policy.access(Path::new("/")), Access::Read);
        }
    }
    // 4⁴ policies at three depths, and no answer that is never given.
    assert_eq!(decided.iter().sum::<i32>(), 768);
    assert!(decided.iter().all(|&count| count > 100), "{decided:?}");
}

fn pairs(choices: [Place; 4]) -> impl Iterator<Item = (Place, Place)> {
    choices
        .into_iter()
        .flat_map(move |one| choices.into_iter().map(move |two| (one, two)))
}

#[test]
fn a_grant_at_the_depth_of_a_deny_shows_the_path() {
    let policy = Filesystem::of_lists([&["/a/b"], &["/a/b"], &[], &[]]);
    assert_eq!(policy.access(Path::new("/a/b/c")), Access::Read);
}

#[test]
fn directories_between_a_grant_and_a_deny_are_pinned() {
    let policy = Filesystem::of_lists([&[], &[], &["/a"], &["/a/b/c"]]);
    assert_eq!(policy.pinned_names(), ["/a", "/a/b"].map(PathBuf::from));
    let closed = Filesystem::of_lists([&[], &[], &["/a"], &["/a"]]);
    assert!(closed.pinned_names().is_empty());
}
