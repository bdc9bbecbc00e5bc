//! The tree of groups is one of plain directories here: what the kernel does with the files is
//! shown by the tests of whole runs.

use super::*;

/// A directory of this test's own, removed at its end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("srt-groups-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the directory is ours");
        Self(path)
    }

    /// Makes a group that hands `controllers` down.
    fn group(&self, path: &str, controllers: &str) -> PathBuf {
        let group = self.0.join(path);
        fs::create_dir_all(&group).expect("the directory is ours");
        let write = |file, text| fs::write(group.join(file), text).expect("the directory is ours");
        write("cgroup.subtree_control", controllers);
        write("cgroup.procs", "");
        write("memory.max", "max\n");
        write("pids.max", "max\n");
        group
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

const BOTH: [Limit; 2] = [Limit::Memory, Limit::Processes];

#[test]
fn the_nearest_group_that_hands_all_controllers_down_is_taken() {
    let tree = Tree::new("nearest");
    let root = tree.group("", "cpu memory pids\n");
    let slice = tree.group("app.slice", "memory pids\n");
    let scope = tree.group("app.slice/shell.scope", "\n");
    assert_eq!(delegated(&root, &scope, &BOTH), Some(slice.clone()));
    assert_eq!(delegated(&root, &slice, &BOTH), Some(slice));
    // One of them will do for what needs one.
    let half = tree.group("half", "pids\n");
    assert_eq!(
        delegated(&root, &half, &[Limit::Processes]),
        Some(half.clone())
    );
    assert_eq!(delegated(&root, &half, &BOTH), Some(root.clone()));
    // What lies above the tree is none of its groups.
    fs::write(root.join("cgroup.subtree_control"), "\n").expect("the directory is ours");
    assert_eq!(delegated(&root, &half, &BOTH), None);
}

#[test]
fn a_group_with_bounds_of_its_own_is_not_left() {
    let tree = Tree::new("bounded");
    let root = tree.group("", "memory pids\n");
    let scope = tree.group("scope", "\n");
    assert_eq!(delegated(&root, &scope, &BOTH), Some(root.clone()));
    for file in ["memory.max", "pids.max", "memory.high"] {
        let before = fs::read_to_string(scope.join(file)).unwrap_or("max".to_owned());
        fs::write(scope.join(file), "1000\n").expect("the directory is ours");
        assert_eq!(delegated(&root, &scope, &BOTH), None, "{file}");
        fs::write(scope.join(file), before).expect("the directory is ours");
    }
}

#[test]
fn each_version_is_asked_in_its_own_files() {
    let files = |means, limit| {
        let group = Group::new("/g".into(), means, limit, 5).expect("groups keep it");
        let files = group.files.iter();
        let files: Vec<_> = files
            .map(|set| (set.file, set.value, set.may_lack))
            .collect();
        (files, group.counters[0].file)
    };
    assert_eq!(
        files(Means::Group2, Limit::Memory),
        (
            vec![
                ("memory.max", 5, false),
                ("memory.swap.max", 0, true),
                ("memory.oom.group", 1, true)
            ],
            "memory.events"
        )
    );
    assert_eq!(
        files(Means::Group1, Limit::Memory),
        (
            vec![
                ("memory.limit_in_bytes", 5, false),
                ("memory.memsw.limit_in_bytes", 5, true)
            ],
            "memory.oom_control"
        )
    );
    for means in [Means::Group1, Means::Group2] {
        let expected = (vec![("pids.max", 5, false)], "pids.events");
        assert_eq!(files(means, Limit::Processes), expected);
    }
    assert_eq!(
        Group::new("/g".into(), Means::Group2, Limit::Files, 5),
        None
    );
}

#[test]
fn what_a_group_refused_is_counted_by_the_word_of_its_bound() {
    let tree = Tree::new("counts");
    fs::write(
        tree.0.join("memory.events"),
        "low 0\nmax 7\noom 3\noom_kill 2\n",
    )
    .expect("the directory is ours");
    fs::write(tree.0.join("pids.events"), "max 0\n").expect("the directory is ours");
    let file = File::open(&tree.0).expect("it is there");
    let counter = |limit, file, word| Counter { limit, file, word };
    let made = Made {
        path: tree.0.clone(),
        _lock: file.try_clone().expect("it is open"),
        members: file,
        counters: vec![
            counter(Limit::Memory, "memory.events", "oom_kill"),
            counter(Limit::Processes, "pids.events", "max"),
        ],
    };
    assert_eq!(made.count(Limit::Memory), 2);
    assert_eq!(made.count(Limit::Processes), 0);
    assert_eq!(made.count(Limit::Files), 0);
}

#[test]
fn a_group_that_is_left_behind_is_swept_and_one_in_use_is_not() {
    let tree = Tree::new("swept");
    let path = |name: &str| tree.0.join(name);
    let left = path(&format!("{}0", prefix()));
    let used = path(&format!("{}1", prefix()));
    let others = path("srt-4294967294-0");
    for group in [&left, &used, &others] {
        fs::create_dir(group).expect("the directory is ours");
    }
    let lock = File::open(&used).expect("it is there");
    lock.lock().expect("nobody else knows it");
    sweep(&tree.0);
    assert_eq!(
        [&left, &used, &others].map(|group| group.exists()),
        [false, true, true]
    );
    drop(lock);
    sweep(&tree.0);
    assert!(!used.exists());
}

#[test]
fn a_group_that_does_not_take_its_bound_is_an_error_and_is_removed() {
    let tree = Tree::new("refused");
    let group = Group::new(tree.0.clone(), Means::Group2, Limit::Processes, 5);
    // A plain directory has no cgroup.procs.
    assert!(Groups::make(&[group.expect("groups keep it")]).is_err());
    assert_eq!(fs::read_dir(&tree.0).expect("it is there").count(), 0);
}

#[test]
fn memberships_of_version_1_are_found_by_controller() {
    let mounts = super::super::mountinfo::read().expect("/proc is mounted");
    // No hierarchy has this name.
    assert_eq!(
        version1(&mounts, "3:cpuset:/\n2:cpu,cpuacct:/\n", Limit::Memory),
        None
    );
    assert_eq!(version2(&[], "0::/\n", &BOTH), None);
}
