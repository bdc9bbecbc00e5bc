//! Stores of secrets are hidden without being named, and only what opens one opens it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use super::harness::{Ran, Scratch, Srt, canary, outside, run, wrapped};
use super::state;

/// A home with a secret in each of `files`.
fn home_with(scratch: &Scratch, files: &[&str]) -> String {
    let canary = canary();
    for file in files {
        scratch.file(&format!("home/{file}"), format!("{canary}\n"));
    }
    canary
}

fn sees(ran: &Ran, name: &str) -> bool {
    ran.stdout.lines().any(|line| line == name)
}

/// Names each file whose content can be read.
fn readable(files: &[&str]) -> String {
    let all = files.join(" ");
    format!(
        "for f in {all}; do cat $HOME/$f >/dev/null 2>&1 && [ -s $HOME/$f ] && echo $f; done; true"
    )
}

const STORES: [&str; 8] = [
    ".aws/credentials",
    ".bash_history",
    ".cargo/credentials.toml",
    ".config/gh/hosts.yml",
    ".gnupg/private-keys-v1.d/key",
    ".kube/config",
    ".netrc",
    ".ssh/id_ed25519",
];

#[test]
fn stores_are_hidden_unless_the_setting_says_no() {
    let scratch = Scratch::new("stores");
    let canary = home_with(&scratch, &STORES);
    let script = readable(&STORES);
    let home = scratch.path("home");
    let control = outside(&format!("HOME={}; {script}", home.display()));
    assert_eq!(control.stdout.lines().count(), STORES.len());

    let ran = Srt::new(&scratch).sh(&script).succeeds();
    assert_eq!(ran.stdout, "", "{}", ran.stderr);
    let find = "grep -rs . $HOME; find $HOME -type f -size +0";
    assert!(!Srt::new(&scratch).sh(find).shows(&canary));

    let events = scratch.path("events");
    let open = Srt::new(&scratch).set("filesystem.protectSecrets", json!(false));
    let ran = open.events(&events).sh(&script).succeeds();
    assert_eq!(ran.stdout.lines().count(), STORES.len());
    assert!(ran.stderr.contains("protectSecrets"), "{}", ran.stderr);
    let events = fs::read_to_string(events).expect("it was asked for");
    assert!(events.contains("weakening.filesystem.secrets"), "{events}");
}

#[test]
fn an_entry_of_allow_read_opens_one_store_and_no_other() {
    let scratch = Scratch::new("opened");
    home_with(&scratch, &STORES);
    let script = readable(&STORES);

    let ran = Srt::new(&scratch).allow_read("~/.aws").sh(&script);
    assert_eq!(ran.stdout, ".aws/credentials\n");
    let ran = Srt::new(&scratch).allow_read("~/.netrc").sh(&script);
    assert_eq!(ran.stdout, ".netrc\n");
    // What holds the store says nothing of it.
    let ran = Srt::new(&scratch).allow_read("~").sh(&script);
    assert_eq!(ran.stdout, "");
}

#[test]
fn ssh_shows_what_is_no_key() {
    let scratch = Scratch::new("ssh");
    let names = [
        ".ssh/config",
        ".ssh/known_hosts",
        ".ssh/known_hosts.old",
        ".ssh/id_ed25519.pub",
        ".ssh/allowed_signers",
    ];
    let keys = [
        ".ssh/id_ed25519",
        ".ssh/work",
        ".ssh/config.pem",
        ".ssh/agent/key",
    ];
    let all = [&names[..], &keys[..]].concat();
    home_with(&scratch, &all);
    let script = readable(&all);

    let ran = Srt::new(&scratch).sh(&script).succeeds();
    assert!(names.iter().all(|name| sees(&ran, name)), "{}", ran.stdout);
    assert!(!keys.iter().any(|key| sees(&ran, key)), "{}", ran.stdout);
    // What the settings hide stays hidden.
    let ran = Srt::new(&scratch).deny_read("~/.ssh").sh(&script);
    assert_eq!(ran.stdout, "");
    let ran = Srt::new(&scratch).deny_read("~/.ssh/config").sh(&script);
    assert!(!sees(&ran, ".ssh/config") && sees(&ran, ".ssh/known_hosts"));
}

#[test]
fn a_writable_home_gives_no_way_to_a_store() {
    let scratch = Scratch::new("writable");
    let canary = home_with(&scratch, &STORES);
    let before = state(&scratch.path("home/.aws/credentials"));
    let script = "cd $HOME; mv .aws aws2; mv .netrc n; ln .netrc m; rm -rf .aws .netrc; \
        echo x >.aws/credentials; echo x >.netrc; mkdir .aws/new; mv .config c2; cat aws2/* c2/gh/* n m .aws/* .netrc; true";
    let ran = Srt::new(&scratch).allow_write("~").sh(script);
    assert!(!ran.shows(&canary), "{}", ran.stdout);
    assert_eq!(state(&scratch.path("home/.aws/credentials")), before);
    assert!(scratch.path("home/.config/gh/hosts.yml").exists());

    let open = Srt::new(&scratch).allow_write("~/.aws");
    open.sh("echo changed >$HOME/.aws/credentials").succeeds();
    let changed = fs::read_to_string(scratch.path("home/.aws/credentials"));
    assert_eq!(changed.ok().as_deref(), Some("changed\n"));
}

#[test]
fn a_file_of_settings_is_shown_without_its_secrets() {
    let scratch = Scratch::new("filtered");
    let canary = canary();
    let npmrc =
        format!("registry=https://r.example/\n//r.example/:_authToken={canary}\nfund=false\n");
    let pip = format!("[global]\nindex-url = https://me:{canary}@p.example/simple\n");
    let docker =
        format!(r#"{{"auths":{{"r.example":{{"auth":"{canary}"}}}},"credsStore":"pass"}}"#);
    let cargo = format!("[registries.my]\nindex = \"i\"\ntoken = \"{canary}\"\n");
    let files = [
        (".npmrc", npmrc, "registry=https://r.example/\nfund=false\n"),
        (
            ".config/pip/pip.conf",
            pip,
            "[global]\nindex-url = https://p.example/simple\n",
        ),
        (".docker/config.json", docker, "credsStore"),
        (
            ".cargo/config.toml",
            cargo,
            "[registries.my]\nindex = \"i\"\n",
        ),
    ];
    for (name, text, shown) in files {
        let file = scratch.file(&format!("home/{name}"), &text);
        let before = state(&file);
        let cat = format!("cat $HOME/{name}");
        let ran = Srt::new(&scratch).sh(&cat).succeeds();
        assert!(
            ran.stdout.contains(shown) && !ran.shows(&canary),
            "{}",
            ran.stdout
        );
        let write =
            format!("{cat}; echo x >>$HOME/{name}; rm $HOME/{name}; mv $HOME/{name} $HOME/n");
        let ran = Srt::new(&scratch).allow_write("~").sh(&write);
        assert!(!ran.shows(&canary), "{}", ran.stdout);
        assert_eq!(state(&file), before);
        let opened = Srt::new(&scratch).allow_read(format!("~/{name}"));
        assert_eq!(opened.sh(&cat).succeeds().stdout, text);
    }
}

#[test]
fn a_file_that_cannot_be_taken_apart_is_hidden() {
    let scratch = Scratch::new("apart");
    let canary = canary();
    scratch.file("home/.docker/config.json", format!("{{ {canary}"));
    scratch.file(
        "home/.cargo/config.toml",
        format!("token = \"\"\"\n{canary}\"\"\"\n"),
    );
    let mut bytes = canary.clone().into_bytes();
    bytes.push(0xff);
    scratch.file("home/.npmrc", &bytes);
    let ran = Srt::new(&scratch)
        .sh("cat $HOME/.docker/config.json $HOME/.cargo/config.toml $HOME/.npmrc");
    assert!(!ran.shows(&canary), "{}", ran.stdout);
}

#[test]
fn a_store_is_hidden_under_each_of_its_names_and_where_a_variable_moves_it() {
    let scratch = Scratch::new("moved");
    let canary = canary();
    let dotfiles = scratch.dir("home/dotfiles");
    scratch.file("home/dotfiles/aws/credentials", &canary);
    scratch.file(
        "home/dotfiles/npmrc",
        format!("_auth={canary}\nfund=false\n"),
    );
    symlink(dotfiles.join("aws"), scratch.path("home/.aws")).expect("the home is ours");
    symlink("dotfiles/npmrc", scratch.path("home/.npmrc")).expect("the home is ours");
    scratch.file("moved/gh/hosts.yml", &canary);
    scratch.file("elsewhere/kubeconfig", &canary);

    let script = format!(
        "cat $HOME/.aws/credentials $HOME/dotfiles/aws/credentials $HOME/.npmrc $HOME/dotfiles/npmrc {0}/moved/gh/hosts.yml {0}/elsewhere/kubeconfig",
        scratch.path("").display()
    );
    let srt = || {
        let srt = Srt::new(&scratch).env("XDG_CONFIG_HOME", scratch.path("moved"));
        srt.env(
            "KUBECONFIG",
            format!(
                "/missing:{}",
                scratch.path("elsewhere/kubeconfig").display()
            ),
        )
    };
    let ran = srt().sh(&script);
    assert!(
        !ran.shows(&canary) && ran.shows("fund=false"),
        "{}",
        ran.stdout
    );
    let open = srt().set("filesystem.protectSecrets", json!(false));
    assert!(open.sh(&script).shows(&canary));
}

#[test]
fn a_variable_that_leads_to_the_home_hides_no_home() {
    let scratch = Scratch::new("nonsense");
    scratch.file("home/file", "content");
    for path in [Path::new("/"), &scratch.path("home"), &scratch.path("")] {
        let srt = Srt::new(&scratch).env("GNUPGHOME", path);
        assert_eq!(srt.sh("cat $HOME/file").succeeds().stdout, "content");
    }
}

#[test]
fn a_command_does_not_run_in_a_hidden_store() {
    let scratch = Scratch::new("inside");
    home_with(&scratch, &[".aws/credentials"]);
    let srt = || Srt::new(&scratch).current_dir(scratch.path("home/.aws"));
    srt().sh("true").is_refused("filesystem.protectSecrets");
    srt().allow_read("~/.aws").sh("cat credentials").succeeds();
}

#[test]
fn a_project_that_is_not_trusted_opens_no_store() {
    let scratch = Scratch::new("untrusted");
    let canary = home_with(&scratch, &[".aws/credentials"]);
    scratch.dir("project/.git");
    let project = |text: &str| {
        scratch.file("project/.srt.json", text);
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_srt"));
        command
            .args(["sh", "-c", "cat $HOME/.aws/credentials"])
            .env("HOME", scratch.path("home"))
            .env_remove("XDG_CONFIG_HOME")
            .current_dir(scratch.path("project"));
        run(&mut command)
    };
    scratch.file(
        "home/.srt-settings.json",
        r#"{"filesystem":{"protectSecrets":false}}"#,
    );
    assert!(project("{}").shows(&canary), "the control");
    // Narrowing what the user grants to a store must not name the store.
    for wide in [
        r#"{"filesystem":{"allowWrite":["~"]}}"#,
        r#"{"filesystem":{"allowRead":["~"]}}"#,
    ] {
        scratch.file("home/.srt-settings.json", wide);
        let narrow = wide.replace('~', "~/.aws");
        assert!(!project(&narrow).shows(&canary), "{narrow}");
    }
    fs::remove_file(scratch.path("home/.srt-settings.json")).expect("it was made");
    for text in [
        r#"{"filesystem":{"allowRead":["~/.aws"]}}"#,
        r#"{"filesystem":{"allowRead":["~/.aws/credentials"]}}"#,
        r#"{"filesystem":{"allowWrite":["~/.aws"]}}"#,
        r#"{"filesystem":{"protectSecrets":false}}"#,
    ] {
        assert!(!project(text).shows(&canary), "{text}");
    }
}

#[test]
fn a_file_of_two_names_is_shown_under_both() {
    let scratch = Scratch::new("two-names");
    let canary = canary();
    let file = scratch.file(
        "home/.cargo/config.toml",
        format!("x = 1\ntoken = \"{canary}\"\n"),
    );
    fs::hard_link(file, scratch.path("home/.cargo/config")).expect("the name is free");
    let ran = Srt::new(&scratch).sh("cat $HOME/.cargo/config $HOME/.cargo/config.toml");
    assert_eq!(ran.succeeds().stdout, "x = 1\nx = 1\n");
}

#[test]
fn a_pattern_that_opens_a_store_is_said() {
    let scratch = Scratch::new("wide");
    let canary = home_with(&scratch, &[".aws/credentials"]);
    let read = "cat $HOME/.aws/credentials";
    let ran = Srt::new(&scratch).allow_read("~/*").sh(read);
    assert!(ran.shows(&canary));
    assert!(
        ran.stderr.contains("access keys of a cloud account"),
        "{}",
        ran.stderr
    );
    let named = Srt::new(&scratch).allow_read("~/.aws").sh(read).succeeds();
    assert_eq!(named.stderr, "");
}

#[test]
fn what_the_caller_could_make_readable_is_hidden_too() {
    let scratch = Scratch::new("closed");
    let canary = home_with(&scratch, &[".netrc", ".config/gh/hosts.yml"]);
    for closed in [".netrc", ".config/gh"] {
        let path = scratch.path(&format!("home/{closed}"));
        outside(&format!("chmod 000 {}", path.display())).succeeds();
    }
    let script = "cd $HOME; chmod 700 .netrc .config/gh; cat .netrc .config/gh/hosts.yml";
    let ran = Srt::new(&scratch).allow_write("~").sh(script);
    assert!(!ran.shows(&canary), "{}", ran.stdout);
    let open = Srt::new(&scratch).set("filesystem.protectSecrets", json!(false));
    assert!(open.allow_write("~").sh(script).shows(&canary));
}

#[test]
fn the_home_of_the_account_counts_where_home_is_another() {
    let scratch = Scratch::new("account");
    let canary = home_with(&scratch, &["real/.aws/credentials"]);
    let real = scratch.path("home/real");
    // Root of the namespace that mounts it, whoever runs this.
    let passwd = format!("x:x:0:0::{}:/bin/sh\n", real.display());
    let passwd = scratch.file("passwd", passwd);
    let read = format!("cat {}/.aws/credentials", real.display());
    let with_account = |srt: Srt| {
        let mount = format!(
            "mount --bind {} /etc/passwd && exec \"$0\" \"$@\"",
            passwd.display()
        );
        let namespace = if super::harness::is_root() {
            "-m"
        } else {
            "-rm"
        };
        let words = ["unshare", namespace, "sh", "-c", &mount];
        srt.watched(&["sh", "-c", &read], |srt| run(&mut wrapped(&words, srt)))
    };
    let open = Srt::new(&scratch).set("filesystem.protectSecrets", json!(false));
    let control = with_account(open);
    assert!(control.shows(&canary), "{}", control.stderr);
    assert!(!with_account(Srt::new(&scratch)).shows(&canary));
}
