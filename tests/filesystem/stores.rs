//! Stores of secrets wherever variables, links and mounts put them, and what appears in them while
//! a command runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::json;

use super::harness::{Ran, Scratch, Srt, canary, wait_until};

fn opened(srt: Srt) -> Srt {
    srt.set("filesystem.protectSecrets", json!(false))
}

/// Variables that move a store, and the file in what they name that holds a secret.
const VARIABLES: [(&str, &str); 36] = [
    ("ANSIBLE_VAULT_PASSWORD_FILE", ""),
    ("AWS_CONFIG_FILE", ""),
    ("AWS_SHARED_CREDENTIALS_FILE", ""),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", ""),
    ("AZURE_CONFIG_DIR", "msal_token_cache.json"),
    ("BUNDLE_USER_CONFIG", ""),
    ("BUNDLE_USER_HOME", "config"),
    ("CARGO_HOME", "credentials.toml"),
    ("CLOUDSDK_CONFIG", "credentials.db"),
    ("CODEX_HOME", "auth.json"),
    ("COMPOSER_HOME", "auth.json"),
    ("CURL_HOME", ".curlrc"),
    ("DOCKER_CERT_PATH", "key.pem"),
    ("DOCKER_CONFIG", "config.json"),
    ("GH_CONFIG_DIR", "hosts.yml"),
    ("GIT_CONFIG_GLOBAL", ""),
    ("GNUPGHOME", "private-keys-v1.d/key"),
    ("GOOGLE_APPLICATION_CREDENTIALS", ""),
    ("GRADLE_USER_HOME", "gradle.properties"),
    ("HF_TOKEN_PATH", ""),
    ("HISTFILE", ""),
    ("KRB5CCNAME", ""),
    ("KUBECONFIG", ""),
    ("NETRC", ""),
    ("NPM_CONFIG_USERCONFIG", ""),
    ("Npm_Config_GlobalConfig", ""),
    ("PASSWORD_STORE_DIR", "mail.gpg"),
    ("PGPASSFILE", ""),
    ("PIP_CONFIG_FILE", ""),
    ("PSQL_HISTORY", ""),
    ("REGISTRY_AUTH_FILE", ""),
    ("TF_CLI_CONFIG_FILE", ""),
    ("XDG_CACHE_HOME", "huggingface/token"),
    ("XDG_CONFIG_HOME", "gh/hosts.yml"),
    ("XDG_DATA_HOME", "keyrings/login.keyring"),
    ("XDG_STATE_HOME", "bash/history"),
];

#[test]
fn a_store_is_hidden_where_a_variable_puts_it() {
    let scratch = Scratch::new("variables");
    let mut files = Vec::new();
    for (name, below) in VARIABLES {
        let canary = canary();
        let file = match below {
            "" => format!("moved/{name}"),
            below => format!("moved/{name}/{below}"),
        };
        // What is a setting with a secret in each form of file.
        let text = match below {
            "config.json" => format!("{{\"auth\":\"{canary}\"}}"),
            _ => format!("password = {canary}\n"),
        };
        files.push((name, scratch.file(&file, text), canary));
    }
    let cat: Vec<_> = files
        .iter()
        .map(|(_, file, _)| file.display().to_string())
        .collect();
    let script = format!("cat {}", cat.join(" "));
    let srt = || {
        VARIABLES.iter().fold(Srt::new(&scratch), |srt, (name, _)| {
            srt.env(name, scratch.path("moved").join(name))
        })
    };
    let control = opened(srt()).sh(&script).succeeds();
    let ran = srt().sh(&script);
    for (name, _, canary) in &files {
        assert!(control.shows(canary), "{name}: no control");
        assert!(!ran.shows(canary), "{name}: {}", ran.stdout);
    }
}

#[test]
fn a_variable_may_hold_a_list_a_relative_path_a_tilde_or_a_colon() {
    let scratch = Scratch::new("values");
    let secret = canary();
    let cwd = scratch.dir("cwd");
    for file in ["a", "b", "cwd/c", "home/d", "with:colon"] {
        scratch.file(file, &secret);
    }
    let [a, b, colon] =
        ["a", "b", "with:colon"].map(|name| scratch.path(name).display().to_string());
    let values = [
        format!("/missing:{a}::{b}"),
        "c".to_owned(),
        "./../cwd/c".to_owned(),
        "~/d".to_owned(),
        format!("~/d:c:{a}"),
        colon,
        format!("FILE:{a}"),
    ];
    for value in values {
        let named = value.strip_prefix("FILE:").unwrap_or(&value);
        let parts: Vec<_> = match named.ends_with(":colon") {
            true => vec![named],
            false => named
                .split(':')
                .filter(|part| !part.is_empty() && *part != "/missing")
                .collect(),
        };
        for part in parts {
            let script = format!("cat {part}");
            let srt = || {
                Srt::new(&scratch)
                    .current_dir(&cwd)
                    .env("KUBECONFIG", &value)
            };
            assert!(
                opened(srt()).sh(&script).shows(&secret),
                "{value} {part}: no control"
            );
            assert!(!srt().sh(&script).shows(&secret), "{value} {part}");
        }
    }
}

#[test]
fn a_home_that_is_a_link_hides_its_stores_and_stays_a_home() {
    let scratch = Scratch::new("linked-home");
    let secret = canary();
    scratch.file("disk/house/.aws/credentials", &secret);
    scratch.file("disk/house/.netrc", &secret);
    scratch.file("disk/house/.ssh/id", &secret);
    scratch.file("disk/house/file", "content");
    symlink("house", scratch.path("disk/one")).expect("free");
    symlink("disk/one", scratch.path("two")).expect("free");
    let script = "cat $HOME/file; cd -P $HOME; cat .aws/credentials .netrc .ssh/id; \
                  mv .aws a; mv .netrc n; cat a/credentials n";
    for home in ["two", "disk/one", "two/../one", "disk/house/.", "two/"] {
        let srt = || {
            let srt = Srt::new(&scratch).env("HOME", scratch.path(home));
            // Nor does a variable that leads there by another name hide all of it.
            srt.env("GNUPGHOME", scratch.path("disk/house"))
                .allow_write("~")
        };
        let ran = srt().sh(script);
        assert!(ran.stdout.starts_with("content"), "{home}: {}", ran.stderr);
        assert!(!ran.shows(&secret), "{home}: {}", ran.stdout);
    }
    let control = opened(Srt::new(&scratch).env("HOME", scratch.path("two")));
    assert!(control.allow_write("~").sh(script).shows(&secret));
}

#[test]
fn a_home_below_the_working_directory_keeps_its_stores_hidden() {
    let scratch = Scratch::new("home-below");
    let secret = canary();
    scratch.file("home/.aws/credentials", &secret);
    scratch.file("home/.npmrc", format!("_auth={secret}\nfund=false\n"));
    let script = "cat home/.aws/credentials home/.npmrc; mv home/.aws a; mv home h; mv home/.npmrc n; \
                  cat a/* h/.aws/* n";
    let srt = || {
        Srt::new(&scratch)
            .current_dir(scratch.path(""))
            .allow_write(".")
    };
    let ran = srt().sh(script);
    assert!(
        !ran.shows(&secret) && ran.shows("fund=false"),
        "{}",
        ran.stdout
    );
    assert!(opened(srt()).sh(script).shows(&secret));
}

#[test]
fn a_public_key_that_is_another_name_of_a_private_one_is_hidden() {
    let scratch = Scratch::new("pub");
    let (secret, open) = (canary(), canary());
    scratch.file("home/.ssh/id", &secret);
    scratch.file("home/.ssh/real.pub", &open);
    let ssh = scratch.path("home/.ssh");
    symlink("id", ssh.join("link.pub")).expect("free");
    fs::hard_link(ssh.join("id"), ssh.join("hard.pub")).expect("free");
    symlink(ssh.join("id"), ssh.join("config")).expect("free");
    scratch.file("home/.ssh/known_hosts.d/key", &secret);
    let script = "cd $HOME/.ssh; ls -A; cat real.pub link.pub hard.pub config known_hosts.d/key";
    let ran = Srt::new(&scratch).sh(script);
    assert!(ran.shows(&open) && !ran.shows(&secret), "{}", ran.stdout);
    assert!(opened(Srt::new(&scratch)).sh(script).shows(&secret));
}

/// Has `act` done on the home while a command runs, and returns what `script` finds then.
fn after_an_act(scratch: &Scratch, srt: Srt, act: impl FnOnce(), script: &str) -> Ran {
    let sync = scratch.dir("sync");
    let wait = format!(
        "cd {}; echo > ready; i=0; while [ ! -e go ] && [ $i -lt 1000 ]; do i=$((i+1)); sleep 0.01; done; {script}",
        sync.display()
    );
    let srt = srt.allow_write(&sync);
    let srt = srt.host_changes(scratch.path("home"), "the act is on the home");
    let ran = srt.watched(&["sh", "-c", &wait], |command| {
        let command = command.stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("it was built");
        assert!(
            wait_until(|| sync.join("ready").exists()),
            "it did not start"
        );
        act();
        scratch.file("sync/go", "");
        Ran::from(child.wait_with_output().expect("it is our child"))
    });
    fs::remove_dir_all(&sync).expect("it was made above");
    ran
}

#[test]
fn what_the_host_puts_into_a_store_during_the_run_stays_hidden() {
    let scratch = Scratch::new("late");
    let secret = canary();
    scratch.file("home/.ssh/config", "Host x\n");
    scratch.file("home/.ssh/old.pub", "old");
    // Empty when the run starts.
    for empty in [".netrc", ".bash_history"] {
        scratch.file(&format!("home/{empty}"), "");
    }
    scratch.dir("home/.aws");
    let script = "cd $HOME; cat .ssh/new .ssh/new.pub .ssh/config.d/key .ssh/replaced .netrc .bash_history \
                  .aws/credentials; cat .ssh/config";
    let act = || {
        for name in [
            ".ssh/new",
            ".ssh/new.pub",
            ".ssh/config.d/key",
            ".netrc",
            ".bash_history",
            ".aws/credentials",
        ] {
            scratch.file(&format!("home/{name}"), &secret);
        }
        let ssh = scratch.path("home/.ssh");
        fs::remove_file(ssh.join("old.pub")).expect("it was made");
        symlink("new", ssh.join("old.pub")).expect("free");
    };
    let ran = after_an_act(&scratch, Srt::new(&scratch), act, script);
    assert_eq!(ran.stdout, "Host x\n", "{}", ran.stderr);

    for name in [".ssh", ".netrc", ".bash_history", ".aws"] {
        let path = scratch.path("home").join(name);
        drop(fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)));
    }
    scratch.file("home/.ssh/config", "Host x\n");
    scratch.file("home/.ssh/old.pub", "old");
    let control = after_an_act(&scratch, opened(Srt::new(&scratch)), act, script);
    assert_eq!(
        control.stdout.matches(&secret).count(),
        6,
        "{}",
        control.stderr
    );
}
