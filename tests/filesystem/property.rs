//! Random settings, trees and acts: what happens on the host is what the precedence says.
//!
//! Each act is done by a probe in the sandbox. Where the policy grants it, another probe does the
//! same to a copy of the tree, outside; where it does not, nothing may happen. After each act the
//! two trees have to be equal. SRT_TEST_SEED draws other rounds, SRT_TEST_ROUNDS sets how many, with
//! no limit of time.

mod draw;
mod judge;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sandbox_runtime::error::Result;
use sandbox_runtime::policy::filesystem::Access;
use sandbox_runtime::policy::{Host, Policy};
use sandbox_runtime::sandbox;
use sandbox_runtime::settings::Settings;

use super::harness::{self, Ran, Scratch, Srt, probe};
use draw::{Draw, Entry, LISTS, What};
use judge::{Due, Judge};
use world::{Probe, Tree, state};

const ROUNDS: u64 = 25;
const ACTS: usize = 60;

/// Longest that no new round starts after, unless their number is set.
const TIME: Duration = Duration::from_secs(8);

/// Where the tree stands below each root: links that lead upwards end in what is compared.
const BASE: &str = "p/q/t";

/// What came of it, by kind.
type Counts = BTreeMap<&'static str, usize>;

#[test]
fn what_happens_is_what_the_precedence_says() {
    let first = number("SRT_TEST_SEED").unwrap_or(1);
    let set = number("SRT_TEST_ROUNDS");
    let end = Instant::now() + TIME;
    let mut counts = Counts::new();
    let mut outside = outside();
    let mut rounds = 0;
    while rounds < set.unwrap_or(ROUNDS) && (set.is_some() || Instant::now() < end) {
        round(first + rounds, None, &mut outside, &mut counts);
        rounds += 1;
    }
    outside.end();
    harness::say(&format!("{rounds} rounds: {counts:?}"));
    let of = |what| counts.get(what).copied().unwrap_or(0);
    if rounds < 10 {
        return;
    }
    // Rounds in which little comes to pass would show little.
    for (what, of_each) in [("granted and done", 10), ("refused", 10), ("hidden", 1)] {
        let least = of_each * usize::try_from(rounds).expect("few");
        assert!(of(what) > least, "{what} is rare: {counts:?}");
    }
    assert!(of("either") * 5 < of("granted and done"), "{counts:?}");
}

#[test]
fn a_rule_that_is_not_kept_would_be_noticed() {
    for list in LISTS {
        let mut outside = outside();
        let mut counts = Counts::new();
        let noticed = (1..20).find_map(|seed| {
            let mut forgetful = || round(seed, Some(list), &mut outside, &mut counts);
            let panic = catch_unwind(AssertUnwindSafe(&mut forgetful)).err()?;
            panic.downcast::<String>().ok()
        });
        let said = noticed.unwrap_or_else(|| panic!("without {list} all is as before"));
        assert!(said.contains("SRT_TEST_SEED="), "{list}: {said}");
    }
}

fn outside() -> Probe {
    let [python, flags @ ..] = words();
    Probe::start(Command::new(python).args(flags))
}

#[allow(
    clippy::disallowed_methods,
    reason = "the test is the caller; it has no Host to read this from"
)]
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// The probe, with as little to start as there can be.
fn words() -> [String; 4] {
    let act = probe("act.py").display().to_string();
    ["python3".to_owned(), "-I".to_owned(), "-S".to_owned(), act]
}

/// One tree under one set of settings.
struct World<'a> {
    real: &'a Tree,
    copy: &'a Tree,
    home: PathBuf,
    /// A list that is not judged by.
    forgotten: Option<&'static str>,
    /// What to say of a failure.
    about: String,
}

fn round(seed: u64, forgotten: Option<&'static str>, outside: &mut Probe, counts: &mut Counts) {
    let mut draw = Draw::new(seed);
    let scratch = Scratch::new("property");
    let nodes = draw.tree(BASE);
    let real = Tree::make(&scratch.dir("real"), &nodes);
    let copy = Tree::make(&scratch.dir("copy"), &nodes);
    let base = real.place(BASE.as_bytes());
    let mut srt = Srt::new(&scratch)
        .current_dir(&base)
        .host_changes(scratch.path("copy"), "the same acts are done there outside");
    if nodes.iter().any(|node| matches!(node.what, What::Name(_))) {
        srt = srt.host_changes(
            real.root(),
            "files have several names: the copy is the judge",
        );
    }
    let mut about = format!("seed {seed}; SRT_TEST_SEED={seed} SRT_TEST_ROUNDS=1 repeats it\n");
    for list in LISTS {
        for Entry { text, literal } in draw.entries(list, &nodes, &base) {
            about += &format!(
                "{list}: {text:?}{}\n",
                if literal { " literal" } else { "" }
            );
            srt = match literal {
                true => srt.with_literal(list, text),
                false => srt.with(list, text),
            };
        }
    }
    let world = World {
        real: &real,
        copy: &copy,
        home: scratch.path("home"),
        forgotten,
        about,
    };
    srt.watched(&words(), |command| {
        world.play(command, outside, &mut draw, counts)
    });
}

impl World<'_> {
    /// Runs the probe inside and has it act.
    fn play(
        &self,
        command: &mut Command,
        outside: &mut Probe,
        draw: &mut Draw,
        counts: &mut Counts,
    ) -> Ran {
        let mut policy = self.policy(command, None);
        if let Ok(found) = &policy
            && found.filesystem.unmade().next().is_some()
        {
            // What an entry has made is judged anew, by the run itself too.
            let made: Vec<_> = found.filesystem.unmade().map(Path::to_path_buf).collect();
            harness::run(command);
            policy = self.policy(command, None);
            for path in made.iter().filter(|path| path.is_dir()) {
                self.copy.make_as_in(self.real, path);
            }
        }
        let cwd = self.real.place(BASE.as_bytes());
        match policy {
            Ok(policy) if policy.filesystem.access(&cwd) != Access::Hidden => {
                let known = self.policy(command, self.forgotten).unwrap_or(policy);
                let judge = Judge::new(&known.filesystem, self.real.root());
                let mut inside = Probe::start(command);
                inside.enter(self.real);
                outside.enter(self.copy);
                self.act(&judge, [&mut inside, outside], draw, counts);
                inside.end()
            }
            refused => {
                *counts.entry("runs refused").or_default() += 1;
                let ran = harness::run(command);
                assert_eq!(ran.status, 125, "{refused:?}\n{}{ran:?}", self.about);
                self.compare(&format!("a run that was refused\n{}", self.about));
                ran
            }
        }
    }

    /// What the library says of the settings that the run is given.
    fn policy(&self, command: &Command, forgotten: Option<&str>) -> Result<Policy> {
        let mut words = command.get_args().skip_while(|word| *word != "--settings");
        let file = words.nth(1).expect("the harness names them");
        let mut host = Host::read()?;
        host.cwd = self.real.place(BASE.as_bytes());
        host.home = Some(self.home.clone());
        let mut settings = Settings::read(Path::new(file))?;
        let files = &mut settings.filesystem;
        let lists = [
            &mut files.deny_read,
            &mut files.allow_read,
            &mut files.allow_write,
            &mut files.deny_write,
        ];
        for (name, list) in LISTS.into_iter().zip(lists) {
            if forgotten == Some(name) {
                list.clear();
            }
        }
        sandbox::policy(&settings, &host)
    }

    fn act(
        &self,
        judge: &Judge<'_>,
        [inside, outside]: [&mut Probe; 2],
        draw: &mut Draw,
        counts: &mut Counts,
    ) {
        let mut there = world::names(&state(self.real));
        for _ in 0..ACTS {
            let act = draw.act(&there);
            let due = judge.of(&act);
            let answer = inside.ask(&act);
            let about = || format!("{act:?} is {due:?}: {answer:?}\n{}", self.about);
            let done = answer.starts_with("ok");
            let kind = match (due, done) {
                (Due::Granted, _) => {
                    let expected = outside.ask(&act);
                    let same = expected == answer || !(done || expected.starts_with("ok"));
                    assert!(same, "outside {expected:?}, {}", about());
                    ["granted and failed", "granted and done"][usize::from(done)]
                }
                (Due::Hidden, _) => {
                    assert!(judge.tells_nothing(&act, &answer), "{}", about());
                    "hidden"
                }
                (Due::Refused, _) => {
                    assert!(!done, "{}", about());
                    "refused"
                }
                (Due::Either, true) => {
                    assert_eq!(outside.ask(&act), answer, "{}", about());
                    "either"
                }
                (Due::Either, false) => "either",
            };
            *counts.entry(kind).or_default() += 1;
            if !act.reads() {
                there = self.compare(&about());
            }
        }
    }

    /// Returns the names that are there.
    fn compare(&self, about: &str) -> draw::Names {
        let (real, copy) = (state(self.real), state(self.copy));
        let names = real.keys().chain(copy.keys());
        let differing = names.filter(|name| real.get(*name) != copy.get(*name));
        let lines: Vec<_> = differing
            .map(|name| {
                let shown = name.escape_ascii();
                format!("{shown}: {:?}, due {:?}", real.get(name), copy.get(name))
            })
            .collect();
        let shown = lines.join("\n");
        assert!(lines.is_empty(), "the host after {about}\n{shown}");
        world::names(&real)
    }
}
