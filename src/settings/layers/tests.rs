//! Promises of layers: what each may do to those below it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::Flags;
use super::*;

/// A home, a project in a repository and a place for the system's file.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("srt-layers-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&root));
        for dir in ["home", "project/.git", "project/sub/deep", "etc"] {
            fs::create_dir_all(root.join(dir)).expect("the name is ours");
        }
        Self(root.canonicalize().expect("just made"))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("below the root")).expect("ours");
        fs::write(&path, text).expect("ours");
        path
    }

    fn system(&self, text: &str) {
        self.write("etc/settings.json", text);
    }

    fn user(&self, text: &str) {
        self.write("home/.srt-settings.json", text);
    }

    fn project(&self, text: &str) -> PathBuf {
        self.write("project/.srt.json", text)
    }

    fn load_with(&self, explicit: Option<&Path>, flags: Flags) -> Result<Settings> {
        let (cwd, home) = (self.0.join("project/sub"), self.0.join("home"));
        let system = self.0.join("etc/settings.json");
        let search = search(&cwd, &home, &system);
        load(&search, explicit, flags.into_values())
    }

    fn load(&self) -> Result<Settings> {
        self.load_with(None, Flags::default())
    }

    fn loaded(&self) -> Settings {
        self.load().expect("the layers agree")
    }

    fn refusal(&self) -> String {
        let message = self.load().expect_err("must be refused").to_string();
        message.replace(&self.0.display().to_string(), "")
    }

    fn trust(&self, file: &Path) {
        let (cwd, home) = (self.0.join("project/sub"), self.0.join("home"));
        let mut trust = Trust::read(&search(&cwd, &home, Path::new("/nowhere"))).expect("none yet");
        let text = fs::read_to_string(file).expect("just written");
        trust.add(file, &text).expect("the home is writable");
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn search<'a>(cwd: &'a Path, home: &'a Path, system: &'a Path) -> Search<'a> {
    Search {
        cwd,
        home: Some(home),
        config_home: None,
        state_home: None,
        uid: nix::unistd::geteuid().as_raw(),
        system,
    }
}

fn texts(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.text.as_str()).collect()
}

#[test]
fn lists_add_up_and_of_single_values_the_later_counts() {
    let tree = Tree::new("merge");
    tree.user(r#"{"filesystem":{"allowWrite":["a"]},"network":{"mode":"open","proxyEnv":false}}"#);
    let project = tree.project(
        r#"{"filesystem":{"allowWrite":["b"],"denyRead":["c"]},"network":{"mode":"filtered"}}"#,
    );
    tree.trust(&project);
    let mut flags = Flags::default();
    flags
        .add("filesystem.allowWrite", "d".to_owned())
        .expect("a path");
    let settings = tree.load_with(None, flags).expect("the layers agree");
    assert_eq!(texts(&settings.filesystem.allow_write), ["a", "b", "d"]);
    assert_eq!(texts(&settings.filesystem.deny_read), ["c"]);
    assert_eq!(settings.network.mode, super::super::NetworkMode::Filtered);
    assert!(!settings.network.sets_proxy_env);
    let origin = |index: usize| &settings.filesystem.allow_write[index].origin;
    assert_eq!(origin(0).layer, Layer::User);
    assert_eq!(origin(1).base(), Some(tree.0.join("project").as_path()));
    assert_eq!(origin(2).to_string(), "command line");
}

#[test]
fn an_explicit_file_replaces_user_and_project() {
    let tree = Tree::new("explicit");
    tree.user(r#"{"filesystem":{"allowWrite":["a"]}}"#);
    tree.project("not even JSON");
    let file = tree.write("ci.json", r#"{"filesystem":{"allowWrite":["e"]}}"#);
    let settings = tree
        .load_with(Some(&file), Flags::default())
        .expect("it is good");
    assert_eq!(texts(&settings.filesystem.allow_write), ["e"]);
    assert_eq!(settings.files.len(), 1);
}

#[test]
fn of_two_user_files_the_first_counts_and_that_is_said() {
    let tree = Tree::new("two");
    tree.user(r#"{"filesystem":{"allowWrite":["second"]}}"#);
    tree.write(
        "home/.config/srt/settings.json",
        r#"{"filesystem":{"allowWrite":["first"]}}"#,
    );
    let settings = tree.loaded();
    assert_eq!(texts(&settings.filesystem.allow_write), ["first"]);
    assert_eq!(settings.warnings.len(), 1);
    assert!(settings.warnings[0].contains(".srt-settings.json is not read"));
}

#[test]
fn the_project_is_looked_for_up_to_the_root_of_its_repository() {
    let tree = Tree::new("upward");
    tree.write(".srt.json", r#"{"filesystem":{"denyRead":["outside"]}}"#);
    assert!(tree.loaded().files.is_empty());
    tree.project(r#"{"filesystem":{"denyRead":["root"]}}"#);
    assert_eq!(texts(&tree.loaded().filesystem.deny_read), ["root"]);
    tree.write(
        "project/sub/.srt.json",
        r#"{"filesystem":{"denyRead":["nearest"]}}"#,
    );
    assert_eq!(texts(&tree.loaded().filesystem.deny_read), ["nearest"]);
    fs::remove_dir_all(tree.0.join("project/.git")).expect("ours");
    fs::remove_file(tree.0.join("project/sub/.srt.json")).expect("ours");
    assert!(
        tree.loaded().files.is_empty(),
        "no repository: the working directory alone"
    );
}

#[test]
fn a_project_file_that_is_not_trusted_narrows_and_says_what_it_would_widen() {
    let tree = Tree::new("untrusted");
    tree.user(r#"{"filesystem":{"allowWrite":["~/a"]}}"#);
    tree.project(
        r#"{"filesystem":{"allowWrite":["x"],"denyWrite":["y"],"privateTmp":true},
            "network":{"strictAllowlist":true,"limits":{"connections":10}}}"#,
    );
    let settings = tree.loaded();
    assert!(settings.files.iter().any(|file| file.narrows));
    assert_eq!(texts(&settings.filesystem.allow_write), ["~/a"]);
    assert_eq!(
        texts(settings.narrowing.list("filesystem.allowWrite")),
        ["x"]
    );
    assert_eq!(texts(&settings.filesystem.deny_write), ["y"]);
    assert!(settings.values.bool_or("network.strictAllowlist", false));
    assert!(settings.values.get("network.limits.connections").is_some());
    let widening = [
        ("filesystem", r#"{"disabled":true}"#, "filesystem.disabled"),
        ("network", r#"{"mode":"open"}"#, "network.mode"),
        (
            "network",
            r#"{"allowAllUnixSockets":true}"#,
            "network.allowAllUnixSockets",
        ),
        (
            "network",
            r#"{"limits":{"connections":2000}}"#,
            "network.limits.connections",
        ),
        (
            "network",
            r#"{"parentProxy":{"http":"http://x"}}"#,
            "network.parentProxy.http",
        ),
        ("env", r#"{"inherit":true,"set":{"A":"1"}}"#, "env.set"),
        (
            "allowNestedUserNamespaces",
            "true",
            "allowNestedUserNamespaces",
        ),
        ("minIsolation", "3", "minIsolation"),
    ];
    for (section, value, key) in widening {
        tree.project(&format!("{{\"{section}\":{value}}}"));
        let message = tree.refusal();
        assert!(message.contains(&format!("`{key}` widens")), "{message}");
        assert!(message.contains("srt ctl trust"), "{message}");
    }
}

#[test]
fn trust_ends_when_the_file_changes() {
    let tree = Tree::new("trust");
    let file = tree.project(r#"{"filesystem":{"allowWrite":["x"]}}"#);
    assert!(tree.loaded().filesystem.allow_write.is_empty());
    tree.trust(&file);
    assert_eq!(texts(&tree.loaded().filesystem.allow_write), ["x"]);
    tree.project(r#"{"filesystem":{"allowWrite":["x" ]}}"#);
    assert!(tree.loaded().filesystem.allow_write.is_empty());
}

#[test]
fn a_damaged_or_foreign_trust_file_is_an_error() {
    let tree = Tree::new("damaged");
    tree.project("{}");
    let file = tree.write("home/.local/state/srt/trust.json", "{\"projects\":3}");
    assert!(tree.refusal().contains("is damaged"));
    fs::write(&file, "{\"projects\":{}}").expect("ours");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("ours");
    assert!(tree.refusal().contains("can be written by every user"));
}

#[test]
fn strict_switches_and_limits_of_the_system_cannot_be_undone() {
    let tree = Tree::new("ceiling");
    tree.system(
        r#"{"network":{"mode":"filtered","strictAllowlist":true,"limits":{"connections":10}},
            "filesystem":{"disabled":false,"denyRead":["/x"]},"caches":["npm"]}"#,
    );
    let table = [
        (
            r#"{"network":{"mode":"open"}}"#,
            "`network.mode` is \"open\"",
        ),
        (
            r#"{"network":{"strictAllowlist":false}}"#,
            "`network.strictAllowlist` is false",
        ),
        (
            r#"{"network":{"limits":{"connections":11}}}"#,
            "`network.limits.connections` is 11",
        ),
        (
            r#"{"filesystem":{"disabled":true}}"#,
            "`filesystem.disabled` is true",
        ),
        (r#"{"caches":["npm","pip"]}"#, "caches `pip` goes beyond"),
    ];
    for (text, what) in table {
        tree.user(text);
        let message = tree.refusal();
        assert!(message.contains(what), "{message}");
        assert!(message.contains("/home/.srt-settings.json:1:"), "{message}");
        assert!(message.contains("/etc/settings.json:"), "{message}");
    }
    tree.user(r#"{"network":{"mode":"filtered","limits":{"connections":9}},"caches":["npm"]}"#);
    let settings = tree.loaded();
    assert_eq!(texts(&settings.filesystem.deny_read), ["/x"]);
    assert_eq!(texts(settings.ceiling.list("caches")), ["npm"]);
}

#[test]
fn a_switch_of_several_words_is_bound_word_by_word() {
    let tree = Tree::new("grades");
    let grade = |word: &str| format!(r#"{{"allowNestedUserNamespaces":{word}}}"#);
    tree.system(&grade("\"userns\""));
    for narrower in ["false", "true", "\"userns\""] {
        tree.user(&grade(narrower));
        tree.loaded();
    }
    tree.user(&grade("\"mounts\""));
    let message = tree.refusal();
    assert!(message.contains("keeps it at \"userns\""), "{message}");

    let tree = Tree::new("project-grades");
    tree.user(&grade("\"mounts\""));
    for narrower in ["false", "\"userns\"", "\"mounts\""] {
        tree.project(&grade(narrower));
        tree.loaded();
    }
    tree.user(&grade("true"));
    tree.project(&grade("\"mounts\""));
    assert!(
        tree.refusal()
            .contains("`allowNestedUserNamespaces` widens")
    );
}

#[test]
fn no_switch_makes_the_lists_of_the_system_void() {
    let tree = Tree::new("void");
    tree.system(
        r#"{"network":{"allowedDomains":[],"allowUnixSockets":[]},"filesystem":{"allowWrite":[]}}"#,
    );
    let table = [
        r#"{"network":{"mode":"open"}}"#,
        r#"{"network":{"allowAllUnixSockets":true}}"#,
        r#"{"filesystem":{"disabled":true}}"#,
    ];
    for text in table {
        tree.user(text);
        let message = tree.refusal();
        assert!(
            message.contains("would end the bounds of /etc/settings.json:1:"),
            "{message}"
        );
    }
}

#[test]
fn weak_values_of_the_system_are_defaults() {
    let tree = Tree::new("default");
    tree.system(r#"{"network":{"mode":"open"},"git":{"safeDirectories":["/srv"]}}"#);
    assert_eq!(tree.loaded().network.mode, super::super::NetworkMode::Open);
    tree.user(r#"{"network":{"mode":"filtered"}}"#);
    assert_eq!(
        tree.loaded().network.mode,
        super::super::NetworkMode::Filtered
    );
}

#[test]
fn lists_of_the_system_bound_and_do_not_grant() {
    let tree = Tree::new("bound");
    tree.system(r#"{"filesystem":{"allowWrite":["/srv"]},"network":{"allowedDomains":[]}}"#);
    let settings = tree.loaded();
    assert!(settings.filesystem.allow_write.is_empty());
    assert_eq!(
        texts(settings.ceiling.list("filesystem.allowWrite")),
        ["/srv"]
    );
    assert!(settings.ceiling.get("network.allowedDomains").is_some());
    assert!(settings.ceiling.get("filesystem.allowRead").is_none());
}

#[test]
fn paths_of_the_system_are_absolute() {
    let tree = Tree::new("absolute");
    tree.system(r#"{"filesystem":{"denyRead":["x"],"allowWrite":["./y"]}}"#);
    let message = tree.refusal();
    assert!(
        message.contains("filesystem.denyRead `x` must be absolute"),
        "{message}"
    );
    assert!(
        message.contains("filesystem.allowWrite `./y` must be absolute"),
        "{message}"
    );
}

#[test]
fn a_variable_nobody_expanded_is_a_warning_and_in_a_deny_list_an_error() {
    let tree = Tree::new("variable");
    tree.user(r#"{"filesystem":{"allowWrite":["$HOME/x"],"allowRead":["a$","$1"]}}"#);
    assert_eq!(tree.loaded().warnings.len(), 1);
    for text in ["$HOME/x", "${X}", "/a/$B"] {
        tree.user(&format!("{{\"filesystem\":{{\"denyRead\":[\"{text}\"]}}}}"));
        assert!(
            tree.refusal().contains("variables are not expanded"),
            "{text}"
        );
    }
    tree.user(r#"{"filesystem":{"denyRead":[{"path":"$HOME","literal":true}]}}"#);
    assert!(tree.load().is_ok());
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let tree = Tree::new("modes");
    tree.user("{}");
    let file = tree.0.join("home/.srt-settings.json");
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    };
    set(&file, 0o602);
    assert!(tree.refusal().contains("can be written by every user"));
    set(&file, 0o644);
    set(&tree.0.join("home"), 0o777);
    assert!(
        tree.refusal()
            .contains("lies in a directory that every user can write")
    );
    set(&tree.0.join("home"), 0o1777);
    assert!(tree.load().is_ok());
}

#[test]
fn extends_reads_profiles_first_and_refuses_what_leads_nowhere() {
    let tree = Tree::new("extends");
    let profile = |name: &str, text: &str| {
        tree.write(&format!("home/.config/srt/profiles/{name}.json"), text)
    };
    profile(
        "low",
        r#"{"filesystem":{"allowWrite":["/low"]},"network":{"mode":"open"}}"#,
    );
    profile(
        "mid",
        r#"{"extends":["low"],"network":{"mode":"filtered"}}"#,
    );
    tree.user(r#"{"extends":["mid"],"filesystem":{"allowWrite":["/own"]}}"#);
    let settings = tree.loaded();
    assert_eq!(texts(&settings.filesystem.allow_write), ["/low", "/own"]);
    assert_eq!(settings.network.mode, super::super::NetworkMode::Filtered);

    tree.user(r#"{"extends":["nod"]}"#);
    let message = tree.refusal();
    assert!(
        message.contains("s.json") || message.contains(":1:13: there is no profile `nod`"),
        "{message}"
    );
    profile("low", r#"{"extends":["mid"]}"#);
    tree.user(r#"{"extends":["mid"]}"#);
    assert!(tree.refusal().contains("extends itself: mid -> low -> mid"));
    profile("low", "[]");
    assert!(
        tree.refusal()
            .contains("settings are one object, found an array")
    );
    profile("low", r#"{"filesystem":{"allowWrite":["rel"]}}"#);
    assert!(tree.refusal().contains("is relative"));
    profile("node", "{}");
    tree.user(r#"{"extends":["node"]}"#);
    assert!(
        tree.refusal()
            .contains("has the name of a profile that is built in")
    );
}

#[test]
fn flags_are_checked_as_a_file_is() {
    let mut flags = Flags::default();
    let error = flags
        .add("filesystem.allowWrite", String::new())
        .expect_err("empty");
    assert_eq!(
        error.to_string(),
        "the value of --allow-write must not be empty"
    );
    assert!(flags.set_variable("A-B".to_owned(), String::new()).is_err());
    assert!(flags.set_variable("A".to_owned(), String::new()).is_ok());
}

#[test]
fn trust_can_be_taken_back() {
    let tree = Tree::new("revoke");
    let file = tree.project(r#"{"filesystem":{"allowWrite":["x"]}}"#);
    tree.trust(&file);
    let (cwd, home) = (tree.0.join("project"), tree.0.join("home"));
    let mut trust = Trust::read(&search(&cwd, &home, Path::new("/nowhere"))).expect("good");
    assert!(trust.remove(&file).expect("writable"));
    assert!(!trust.remove(&file).expect("writable"));
    assert!(tree.loaded().filesystem.allow_write.is_empty());
}

#[test]
fn the_systems_file_extends_no_profile_of_a_user() {
    let tree = Tree::new("system-extends");
    let own = r#"{"filesystem":{"allowWrite":["/"]}}"#;
    tree.write("home/.config/srt/profiles/corp.json", own);
    tree.user(r#"{"extends":["corp"]}"#);
    assert!(tree.load().is_ok(), "the user's own file may");
    tree.system(r#"{"extends":["corp"]}"#);
    assert!(tree.refusal().contains("there is no profile `corp`"));
    tree.system(r#"{"extends":["git"]}"#);
    tree.user("{}");
    assert!(tree.load().is_ok());
}
