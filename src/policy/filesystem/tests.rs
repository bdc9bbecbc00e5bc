//! The precedence of the four lists, by generation: every way to put each list's one entry at
//! none or one of three depths.

use super::*;
use crate::policy::change::Change;
use crate::policy::generator::Generator;
use crate::settings::{Layer, Origin};

const PLACES: [&str; 3] = ["/a", "/a/b", "/a/b/c"];

/// `None`, or an index into [`PLACES`].
type Place = Option<usize>;

impl Filesystem {
    /// Takes `denyRead`, `allowRead`, `allowWrite` and `denyWrite` without looking at the disk.
    pub(crate) fn of_lists(lists: [&[&str]; 4]) -> Self {
        let keys = [
            List::DenyRead,
            List::AllowRead,
            List::AllowWrite,
            List::DenyWrite,
        ];
        let mut policy = Self::default();
        for (list, entries) in keys.into_iter().zip(lists) {
            for entry in entries {
                let mut rule = Rule::built_in("filesystem.test", RealPath::unchecked(entry));
                rule.origin.layer = Layer::Explicit;
                policy.rules.push(list, rule);
            }
        }
        let names = policy.pinned_names();
        let paths = names.iter().filter_map(|path| path.to_str());
        policy.pins = OnceLock::from(paths.map(RealPath::unchecked).collect::<Vec<_>>());
        policy
    }

    /// Adds links that the ways of denied paths take, without looking at the disk.
    pub(crate) fn over_links(mut self, paths: &[&str]) -> Self {
        for path in paths {
            let link = Link::unchecked(path, "target");
            self.links.insert(link.path.clone(), link);
        }
        self
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

/// Patterns that fit one path of the tree each, by index; every name below `/` is a letter.
const FITTING: [&str; 3] = ["/[a]", "/?/{b,x}", "/a/*/[!x]"];

#[test]
fn an_entry_decides_alike_as_a_path_and_as_a_pattern_that_fits_it() {
    let own = Path::new("/tmp").join(format!("srt-alike-{}", std::process::id()));
    std::fs::create_dir_all(own.join("root/a/b/c")).unwrap();
    let root = RealPath::resolve(&own.join("root")).unwrap();
    let root = root.as_path().to_str().unwrap().to_owned();
    let host = Host::read().unwrap();
    let choices = [None, Some(0), Some(1), Some(2)];
    let keys = ["denyRead", "allowRead", "allowWrite", "denyWrite"];
    let (mut decided, mut generator) = ([0; 3], Generator(5));
    for (deny_read, allow_read) in pairs(choices) {
        for (allow_write, deny_write) in pairs(choices) {
            let places = [deny_read, allow_read, allow_write, deny_write];
            // Each list as paths, as patterns, and drawn.
            for mask in [0, 15, generator.below(16)] {
                let text = |list: usize, place: usize| match mask >> list & 1 {
                    0 => format!("{root}{}", PLACES[place]),
                    _ => format!("{root}{}", FITTING[place]),
                };
                let entries = places.iter().enumerate().map(|(list, place)| {
                    let texts: Vec<_> = place.iter().map(|place| text(list, *place)).collect();
                    (keys[list].to_owned(), texts)
                });
                let entries: BTreeMap<_, _> = entries.collect();
                let file = own.join("settings.json");
                let text = serde_json::json!({ "filesystem": entries }).to_string();
                std::fs::write(&file, &text).unwrap();
                let settings = settings::Settings::read(&file).unwrap();
                let policy = crate::policy::Policy::from_settings(&settings, &host).unwrap();
                for (at, place) in PLACES.iter().enumerate() {
                    let access = policy
                        .filesystem
                        .access(Path::new(&format!("{root}{place}")));
                    let wanted = expected(at, deny_read, allow_read, allow_write, deny_write);
                    assert_eq!(access, wanted, "{place} under {text}");
                    decided[access as usize] += 1;
                }
            }
        }
    }
    std::fs::remove_dir_all(&own).unwrap();
    assert_eq!(decided.iter().sum::<i32>(), 3 * 768);
    assert!(decided.iter().all(|&count| count > 300), "{decided:?}");
}

#[test]
fn the_base_set_shows_what_a_rule_for_the_root_hides_and_no_more() {
    let lists: [(&[&str], &[&str], Access); 6] = [
        (&["/"], &[], Access::Read),
        (&["/", "/a"], &[], Access::Hidden),
        (&["/", "/a/b"], &[], Access::Hidden),
        (&["/", "/a/b/c"], &[], Access::Read),
        (&["/", "/a"], &["/a/b"], Access::Read),
        (&["/a"], &[], Access::Hidden),
    ];
    for (deny_read, allow_read, wanted) in lists {
        let mut policy = Filesystem::of_lists([deny_read, allow_read, &[], &[]]);
        let base = Rule::built_in("filesystem.allowRead", RealPath::unchecked("/a/b"));
        policy.rules.push(List::Base, base);
        let decision = policy.decide(Path::new("/a/b"));
        assert_eq!(decision.access, wanted, "{deny_read:?} {allow_read:?}");
        assert!(decision.read_rule.is_some());
        let around = policy.access(Path::new("/a"));
        let is_closed = deny_read.contains(&"/") || deny_read == ["/a"];
        assert_eq!(around == Access::Hidden, is_closed, "{deny_read:?}");
        // A change turns it round as anywhere.
        let changes = policy.changes(Path::new("/a/b"), Right::Read);
        assert_eq!(
            changes.len(),
            1 + allow_read.len(),
            "{deny_read:?}: {changes:?}"
        );
    }
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

#[test]
fn links_are_held_where_a_command_could_replace_them() {
    let policy = Filesystem::of_lists([&["/w/h"], &[], &["/w", "/x"], &["/w/k"]]);
    let links = ["/w/a/l", "/w/h/l", "/w/k/l", "/x/l", "/l"];
    let policy = policy.over_links(&links);
    let held: Vec<_> = policy.held().map(|link| link.path.as_path()).collect();
    assert_eq!(held, ["/w/a/l", "/x/l"].map(Path::new));
    let pinned = ["/w", "/w/a", "/x"].map(PathBuf::from);
    assert_eq!(policy.pinned_names(), pinned);
}

/// Draws lists at places that often cover one another.
fn draw(generator: &mut Generator) -> [Vec<&'static str>; 4] {
    let places = ["/a", "/a/b", "/a/b/c", "/ab", "/x/y"];
    [(); 4].map(|()| generator.some(&places, 2))
}

fn of(lists: &[Vec<&str>; 4]) -> Filesystem {
    let [one, two, three, four] = lists;
    Filesystem::of_lists([one, two, three, four])
}

#[test]
fn a_decision_names_the_rules_that_make_it() {
    let policy = Filesystem::of_lists([
        &["/a", "/a/b", "/w/h"],
        &["/a/b", "/a/c"],
        &["/w", "/a/c/d"],
        &["/w/k", "/w", "/w/k/l", "/r"],
    ]);
    let table = [
        ("/x", Access::Read, None, None),
        ("/a/x", Access::Hidden, Some("/a"), Some("/a")),
        ("/a/b/x", Access::Read, Some("/a/b"), None),
        ("/a/c", Access::Read, Some("/a/c"), None),
        ("/a/c/d/x", Access::Write, Some("/a/c/d"), Some("/a/c/d")),
        ("/w/x", Access::Read, None, Some("/w")),
        ("/w/k/l/m", Access::Read, None, Some("/w/k/l")),
        ("/w/h", Access::Hidden, Some("/w/h"), Some("/w/h")),
        ("/r/x", Access::Read, None, Some("/r")),
    ];
    for (path, access, read_rule, write_rule) in table {
        let decision = policy.decide(Path::new(path));
        let entry = |rule: Option<&Rule>| rule.map(|rule| rule.entry.clone());
        let found = (entry(decision.read_rule), entry(decision.write_rule));
        let expected = (read_rule.map(str::to_owned), write_rule.map(str::to_owned));
        assert_eq!((decision.access, found), (access, expected), "{path}");
    }
}

#[test]
fn the_changes_turn_the_decision_round() {
    let mut generator = Generator(9);
    let mut removals = 0;
    for _ in 0..2_000 {
        let mut lists = draw(&mut generator);
        let path =
            Path::new(generator.pick(&["/a", "/a/b", "/a/b/c", "/a/b/c/d", "/ab", "/x/y/z"]));
        let right = [Right::Read, Right::Write][generator.below(2)];
        let before = of(&lists).decide(path).grants(right);
        let policy = of(&lists);
        let changes = policy.changes(path, right);
        assert!(!changes.is_empty());
        for change in &changes {
            match change {
                Change::Add { key, .. } => {
                    let keys = ["denyRead", "allowRead", "allowWrite", "denyWrite"];
                    let list = keys.iter().position(|name| key.ends_with(name)).unwrap();
                    lists[list].push(path.to_str().unwrap());
                }
                Change::Remove { entry, .. } if before => {
                    lists[1].retain(|other| other != entry);
                    lists[2].retain(|other| other != entry);
                    removals += 1;
                }
                Change::Remove { entry, .. } => {
                    lists[3].retain(|other| other != entry);
                    removals += 1;
                }
            }
        }
        let after = of(&lists).decide(path).grants(right);
        assert_ne!(before, after, "{path:?} {right:?}: {changes:?}");
    }
    assert!(removals > 100, "{removals}");
}

#[test]
fn what_credentials_hide_is_shown_by_taking_the_entry_out() {
    let mut policy = Filesystem::of_lists([&["/h"], &[], &["/w"], &[]]);
    for path in ["/w/key", "/h/key", "/x/key"] {
        let mut rule = Rule::built_in("credentials.files", RealPath::unchecked(path));
        rule.origin.layer = Layer::Explicit;
        policy.rules.push(List::Credentials, rule);
    }
    let table = [
        ("/w/key", Right::Write, 1),
        ("/w/key", Right::Read, 1),
        ("/x/key/y", Right::Read, 1),
        ("/x/key", Right::Write, 2),
        ("/h/key", Right::Read, 2),
    ];
    for (path, right, steps) in table {
        let changes = policy.changes(Path::new(path), right);
        assert_eq!(changes.len(), steps, "{path} {right:?}: {changes:?}");
        assert!(matches!(changes[0], Change::Remove { .. }));
    }
}

#[test]
fn no_change_is_offered_where_none_helps() {
    let mut policy = Filesystem::of_lists([&[], &[], &["/"], &[]]);
    policy.close_kernel_trees().unwrap();
    for (path, right) in [
        ("/proc/1/status", Right::Read),
        ("/dev/null", Right::Write),
        ("/sys/x", Right::Write),
    ] {
        assert!(policy.changes(Path::new(path), right).is_empty(), "{path}");
    }
    let pattern = policy.changes(Path::new("/a[1]"), Right::Read);
    assert_eq!(
        pattern[0].to_string(),
        r#"add { "path": "/a[1]", "literal": true } to filesystem.denyRead"#
    );
}

#[test]
fn a_path_that_does_not_exist_is_decided_by_where_it_would_be() {
    let dir = Path::new("/tmp").join(format!("srt-decide-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("hidden")).unwrap();
    let dir = RealPath::resolve(&dir).unwrap().as_path().to_owned();
    std::os::unix::fs::symlink("hidden", dir.join("link")).unwrap();
    let settings = settings::Filesystem {
        deny_read: vec![Entry::literal(
            dir.join("hidden").to_str().unwrap().to_owned(),
            Origin::built_in("filesystem.denyRead"),
        )],
        ..settings::Filesystem::default()
    };
    let policy = Filesystem::from_lists(
        &Lists {
            entries: settings,
            ..Lists::default()
        },
        &Host::read().unwrap(),
    )
    .unwrap();
    let access = |name: &str| policy.access(&path::way(&dir.join(name)).end);
    assert_eq!(access("link/new/deep"), Access::Hidden);
    assert_eq!(access("new/../hidden/new"), Access::Hidden);
    assert_eq!(access("new"), Access::Read);
    std::fs::remove_dir_all(&dir).unwrap();
}
