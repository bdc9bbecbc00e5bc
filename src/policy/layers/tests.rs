//! Promises of joined layers, over random ones: a grid of paths and hosts is asked each time.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::filesystem::Access;
use super::super::generator::Generator;
use super::super::hostname::Target;
use super::super::{Host, Policy};
use crate::error::Result;
use crate::settings::values::Values;
use crate::settings::{NetworkMode, Search, Settings};

/// A home with a project, and a place for the system's file.
struct Tree(PathBuf);

/// Directories of the project, deeper ones below others.
const PATHS: [&str; 9] = [
    "w", "w/a", "w/a/b", "w/a/b/c", "w/d", "w/d/e", "x", "x/y", "x/y/z",
];

const HOSTS: [&str; 9] = [
    "a.test",
    "*.a.test",
    "b.a.test",
    "b.a.test:443",
    "*.b.a.test:443",
    "a.test:80",
    "10.0.0.0/8",
    "10.1.0.0/16:443",
    "10.1.2.3",
];

const ASKED: [&str; 7] = [
    "a.test:443",
    "a.test:80",
    "b.a.test:80",
    "b.a.test:443",
    "c.b.a.test:443",
    "10.1.2.3:443",
    "10.9.9.9:80",
];

const VARIABLES: [&str; 5] = ["EDITOR", "APP_TOKEN", "APP_*", "*_TOKEN", "PLAIN"];

impl Tree {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("srt-joined-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&root));
        let root = {
            fs::create_dir_all(&root).expect("the name is ours");
            root.canonicalize().expect("just made")
        };
        for dir in PATHS.iter().chain(&["etc", "home", "w/.git"]) {
            fs::create_dir_all(root.join(dir)).expect("ours");
        }
        Self(root)
    }

    fn write(&self, name: &str, layer: Option<&Value>) {
        let file = self.0.join(name);
        match layer {
            Some(layer) => fs::write(file, layer.to_string()).expect("ours"),
            None => drop(fs::remove_file(file)),
        }
    }

    fn host(&self) -> Host {
        let mut host = Host::read().expect("the test has surroundings");
        host.cwd = self.0.join("w");
        host.home = Some(self.0.join("home"));
        let variables = ["EDITOR", "APP_TOKEN", "PLAIN", "OTHER"];
        host.env = variables.map(|name| (name.into(), "value".into())).to_vec();
        host
    }

    /// Reads layers as a run does: of the system, the user and a project nobody trusts.
    fn policy(&self, layers: [Option<&Value>; 3]) -> Result<Policy> {
        let files = [
            "etc/settings.json",
            "home/.srt-settings.json",
            "w/.srt.json",
        ];
        for (file, layer) in files.into_iter().zip(layers) {
            self.write(file, layer);
        }
        let host = self.host();
        let system = self.0.join(files[0]);
        let search = Search {
            cwd: &host.cwd,
            home: host.home.as_deref(),
            config_home: None,
            state_home: None,
            uid: host.uid,
            system: &system,
        };
        let settings = Settings::load(&search, None, Values::default())?;
        Policy::from_settings(&settings, &host)
    }

    /// Draws some absolute paths of the tree.
    fn paths(&self, generator: &mut Generator, most: usize) -> Value {
        let names = generator.some(&PATHS, most);
        let paths = names.into_iter().map(|name| self.0.join(name));
        paths.map(|path| json!(path)).collect()
    }

    fn layer(&self, generator: &mut Generator) -> Value {
        let mut files = Map::new();
        let lists = ["denyRead", "allowRead", "allowWrite", "denyWrite"];
        for list in lists {
            if generator.below(2) == 0 {
                files.insert(list.to_owned(), self.paths(generator, 3));
            }
        }
        let mut network = Map::new();
        for list in ["allowedDomains", "deniedDomains"] {
            if generator.below(2) == 0 {
                network.insert(list.to_owned(), json!(generator.some(&HOSTS, 4)));
            }
        }
        let mut env = Map::new();
        for list in ["allow", "deny"] {
            if generator.below(3) == 0 {
                env.insert(list.to_owned(), json!(generator.some(&VARIABLES, 2)));
            }
        }
        json!({ "filesystem": files, "network": network, "env": env })
    }

    /// Every directory, and a name below it that nothing has.
    fn grid(&self) -> Vec<PathBuf> {
        let paths = PATHS.iter().map(|name| self.0.join(name));
        let grid = paths.flat_map(|path| [path.join("none"), path]);
        grid.collect()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn rank(access: Access) -> u8 {
    match access {
        Access::Hidden => 0,
        Access::Read => 1,
        Access::Write => 2,
    }
}

fn reaches(policy: &Policy, asked: &str) -> bool {
    let target = Target::parse(asked, None).expect("the grid is well formed");
    policy.network_mode == NetworkMode::Open || policy.network.check(target).is_ok()
}

fn passes(policy: &Policy) -> Vec<&std::ffi::OsStr> {
    let kept = policy.environment.kept.iter();
    kept.map(|(name, _)| name.as_os_str()).collect()
}

/// Says where `policy` allows more than `bound`.
fn wider(tree: &Tree, policy: &Policy, bound: &Policy) -> Option<String> {
    let rank_of = |policy: &Policy, path: &Path| rank(policy.filesystem.access(path));
    let path = tree
        .grid()
        .into_iter()
        .find(|path| rank_of(policy, path) > rank_of(bound, path));
    let host = ASKED
        .into_iter()
        .find(|asked| reaches(policy, asked) && !reaches(bound, asked));
    let bound_passes = passes(bound);
    let variable = passes(policy)
        .into_iter()
        .find(|name| !bound_passes.contains(name));
    path.map(|path| path.display().to_string())
        .or(host.map(str::to_owned))
        .or(variable.map(|name| name.to_string_lossy().into_owned()))
}

#[test]
fn a_project_file_that_nobody_trusts_never_widens() {
    let tree = Tree::new("untrusted");
    let mut generator = Generator(11);
    let (mut compared, mut narrowed) = (0, 0);
    for _ in 0..250 {
        let user = tree.layer(&mut generator);
        let project = tree.layer(&mut generator);
        let Ok(without) = tree.policy([None, Some(&user), None]) else {
            continue;
        };
        let Ok(with) = tree.policy([None, Some(&user), Some(&project)]) else {
            continue;
        };
        assert_eq!(
            wider(&tree, &with, &without),
            None,
            "user {user}\nproject {project}"
        );
        compared += 1;
        narrowed += usize::from(wider(&tree, &without, &with).is_some());
    }
    assert!(compared > 150 && narrowed > 50, "{compared} {narrowed}");
}

/// What the system's file allows to others: its lists as grants, all of the rest granted.
fn as_bound(tree: &Tree, system: &Value) -> Value {
    let mut bound = system.clone();
    let all_hosts: Vec<&str> = ASKED.to_vec();
    for (section, list, all) in [
        ("network", "allowedDomains", json!(all_hosts)),
        ("filesystem", "allowWrite", json!([tree.0])),
        ("env", "allow", json!([])),
    ] {
        let lists = bound[section].as_object_mut().expect("a section");
        lists.entry(list).or_insert(all);
    }
    bound
}

#[test]
fn no_layer_goes_beyond_the_ceiling_of_the_system() {
    let tree = Tree::new("ceiling");
    let mut generator = Generator(12);
    let (mut compared, mut refused) = (0, 0);
    for _ in 0..500 {
        let system = tree.layer(&mut generator);
        let mut user = tree.layer(&mut generator);
        let project = Some(tree.layer(&mut generator)).filter(|_| generator.below(2) == 0);
        if generator.below(4) == 0 {
            user["filesystem"]["disabled"] = json!(true);
        }
        if generator.below(4) == 0 {
            user["network"]["mode"] = json!("open");
        }
        if generator.below(4) == 0 {
            user["env"]["deny"] = json!(["@secrets"]);
        }
        let Ok(bound) = tree.policy([None, Some(&as_bound(&tree, &system)), None]) else {
            continue;
        };
        match tree.policy([Some(&system), Some(&user), project.as_ref()]) {
            Err(_) => refused += 1,
            Ok(policy) => {
                let wider = wider(&tree, &policy, &bound);
                assert_eq!(wider, None, "system {system}\nuser {user}\n{project:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 40 && refused > 100, "{compared} {refused}");
}

#[test]
fn what_opens_everything_goes_beyond_any_bound_of_the_system() {
    let tree = Tree::new("open");
    let disabled = json!({ "filesystem": { "disabled": true } });
    let open = json!({ "network": { "mode": "open" } });
    let table = [
        (
            json!({ "filesystem": { "allowWrite": ["/srv"] } }),
            &disabled,
            true,
        ),
        (
            json!({ "network": { "allowedDomains": ["a.test"] } }),
            &disabled,
            false,
        ),
        (json!({ "network": { "allowedDomains": [] } }), &open, true),
        (
            json!({ "network": { "deniedDomains": ["a.test"] } }),
            &open,
            true,
        ),
        (
            json!({ "network": { "strictAllowlist": true } }),
            &open,
            true,
        ),
        (json!({ "filesystem": { "allowWrite": [] } }), &open, false),
        (
            json!({ "network": { "mode": "open", "deniedDomains": ["a.test"] } }),
            &open,
            false,
        ),
    ];
    for (system, user, is_refused) in table {
        let error = tree.policy([Some(&system), Some(user), None]).err();
        let message = error.map(|error| error.to_string());
        assert_eq!(
            message.is_some(),
            is_refused,
            "{system} {user}: {message:?}"
        );
        let names_both = |message: &str| {
            message.contains("etc/settings.json:1:") && message.contains(".srt-settings.json:1:")
        };
        assert!(
            message.is_none_or(|message| names_both(&message)),
            "{system} {user}"
        );
    }
}

#[test]
fn secrets_the_system_denies_are_passed_by_its_own_list_alone() {
    let tree = Tree::new("secrets");
    let user = json!({ "env": { "allow": ["APP_TOKEN"] } });
    let table = [
        (json!({ "env": { "deny": ["OTHER"] } }), true),
        (json!({ "env": { "deny": ["@secrets"] } }), false),
        (
            json!({ "env": { "deny": ["@secrets"], "allow": ["APP_TOKEN"] } }),
            true,
        ),
    ];
    for (system, is_passed) in table {
        let policy = tree
            .policy([Some(&system), Some(&user), None])
            .expect("it is fine");
        let passed = passes(&policy).iter().any(|name| *name == "APP_TOKEN");
        assert_eq!(passed, is_passed, "{system}");
    }
}

#[test]
fn the_order_of_entries_in_a_list_does_not_matter() {
    let tree = Tree::new("order");
    let mut generator = Generator(13);
    let mut compared = 0;
    for _ in 0..150 {
        let layers = [(); 3].map(|()| tree.layer(&mut generator));
        let reversed = layers.clone().map(|mut layer| {
            let sections = layer.as_object_mut().expect("an object").values_mut();
            let lists = sections.flat_map(|section| section.as_object_mut().expect("one"));
            lists.for_each(|(_, list)| list.as_array_mut().expect("a list").reverse());
            layer
        });
        let [system, user, project] = layers.each_ref().map(Some);
        let system = system.filter(|_| generator.below(3) == 0);
        let policy = tree.policy([system, user, project]);
        let again = reversed.each_ref().map(Some);
        let again = tree.policy([again[0].filter(|_| system.is_some()), again[1], again[2]]);
        match (policy, again) {
            (Ok(policy), Ok(again)) => {
                assert_eq!(wider(&tree, &policy, &again), None, "{layers:?}");
                assert_eq!(wider(&tree, &again, &policy), None, "{layers:?}");
                compared += 1;
            }
            (policy, again) => assert_eq!(policy.is_ok(), again.is_ok(), "{layers:?}"),
        }
    }
    assert!(compared > 40, "{compared}");
}
