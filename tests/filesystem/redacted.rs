//! Files that mix settings and secrets, in every odd form: what is shown holds no secret, and the
//! program whose file it is still reads it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::harness::{Ran, Scratch, Srt, canary, outside, skip};
use super::state;

const NPM: &str = ".npmrc";
const PIP: &str = ".config/pip/pip.conf";
const DOCKER: &str = ".docker/config.json";
const CARGO: &str = ".cargo/config.toml";

/// A file of the home whose `CANARY` is a secret, and a word of it that is none.
const ODD: [(&str, &[u8], &str); 32] = [
    (
        NPM,
        b"\xef\xbb\xbf_auth=CANARY\r\nfund=false\r\n",
        "fund=false",
    ),
    (
        NPM,
        b"fund=false\r//r.example/:_authToken=CANARY\r",
        "fund=false",
    ),
    (
        NPM,
        b"//r.example/:_authToken = \"CANARY\" ; mine\nfund=false\n",
        "fund=false",
    ),
    (
        NPM,
        b"_auth[]=CANARY\n_auth[]=CANARY\nfund=false\n",
        "fund=false",
    ),
    (NPM, b"\"\\u005fauth\" = CANARY\nfund=false\n", "fund=false"),
    (
        NPM,
        b"[//r.example/]\n_password=CANARY\nfund=false\n",
        "fund=false",
    ),
    (
        NPM,
        b"; it was CANARY before\n_auth=x\nfund=false\n",
        "fund=false",
    ),
    (
        NPM,
        b"# https://me:CANARY@r.example/\nfund=false\n",
        "fund=false",
    ),
    (
        NPM,
        b"registry=https://me:a'CANARY@r.example/\nfund=false\n",
        "fund=false",
    ),
    (
        NPM,
        b"proxy=me:a,CANARY@p.example:1\nfund=false\n",
        "proxy=p.example:1",
    ),
    (
        NPM,
        b"key=\"-----BEGIN KEY-----\\nCANARY\"\nfund=false\n",
        "fund=false",
    ),
    (
        PIP,
        b"[global]\nindex-url =\n\n    https://me:CANARY@p.example/s\ntimeout = 7\n",
        "timeout",
    ),
    (
        PIP,
        b"[global]\nextra-index-url =\n  https://CANARY@p.example/s\n  https://q.example/\n",
        "q.example",
    ),
    (
        PIP,
        b"[global]\npassword =\n\n  # of me\n  CANARY\ntimeout = 7\n",
        "timeout",
    ),
    (
        PIP,
        b"[global]\npassword = a\n  CANARY\ntimeout = 7\n",
        "timeout",
    ),
    (
        PIP,
        b"[global]\nproxy: me:a(CANARY)@p.example:1\ntimeout: 7\n",
        "timeout",
    ),
    (
        PIP,
        b"[global]\nindex-url = https://me:a CANARY@p.example/s\ntimeout = 7\n",
        "timeout",
    ),
    (
        PIP,
        b"\xef\xbb\xbf[global]\r\nindex-url=https://CANARY@p.example/s\r\ntimeout=7\r\n",
        "timeout",
    ),
    (
        DOCKER,
        br#"{"auths":{"r":{"auth":"CANARY"}},"auths":{},"detachKeys":"ctrl-e"}"#,
        "detachKeys",
    ),
    (
        DOCKER,
        br#"{"auths":{"https://me:CANARY@r/":{}},"detachKeys":"ctrl-e"}"#,
        "detachKeys",
    ),
    (
        DOCKER,
        br#"{"HttpHeaders":{"X-Own":"CANARY"},"detachKeys":"ctrl-e"}"#,
        "detachKeys",
    ),
    (
        DOCKER,
        br#"{"auths":{"r":{"\u0061uth":"CANARY"}},"detachKeys":"ctrl-e"}"#,
        "detachKeys",
    ),
    (
        DOCKER,
        br#"{"auths":{"r":{"auth":{"x":["CANARY"]}}},"detachKeys":"ctrl-e"}"#,
        "detachKeys",
    ),
    (
        DOCKER,
        br#"{"proxies":{"d":{"httpProxy":"http://me:CANARY@h:1"}}}"#,
        "http://h:1",
    ),
    (
        CARGO,
        b"[registries.my]\nindex = \"sparse+https://r.example/\"\ntoken\t=\t'CANARY'\n",
        "r.example",
    ),
    (
        CARGO,
        b"registries.my = { index = \"i\" , token\t= \"CANARY\" }\n[net]\nretry = 9\n",
        "retry",
    ),
    (
        CARGO,
        b"registries.my.token = \"CANARY\"\nnet.retry = 9\n",
        "retry",
    ),
    (
        CARGO,
        b"\"registries\".\"my\".\"to\\u006ben\" = \"CANARY\"\nnet.retry = 9\n",
        "retry",
    ),
    (
        CARGO,
        b"[registry]\r\ntoken = \"CANARY\"\r\n[net]\r\nretry = 9\r\n",
        "retry",
    ),
    (CARGO, b"# token = \"CANARY\"\n[net]\nretry = 9\n", "retry"),
    (
        CARGO,
        b"[env]\nDATABASE = \"postgres://me:CANARY@h/d\"\n[net]\nretry = 9\n",
        "retry",
    ),
    (
        CARGO,
        b"[http]\nproxy = \"me:CANARY@h:1\"\n[net]\nretry = 9\n",
        "retry",
    ),
];

fn with_canary(text: &[u8], canary: &str) -> Vec<u8> {
    let text: Vec<_> = text.iter().map(|byte| char::from(*byte)).collect();
    let text = text.into_iter().collect::<String>();
    text.replace("CANARY", canary)
        .chars()
        .map(|character| u8::try_from(character).expect("each was a byte"))
        .collect()
}

#[test]
fn odd_syntax_gives_no_secret_away_and_no_setting_up() {
    for (name, text, kept) in ODD {
        let scratch = Scratch::new("odd");
        let canary = canary();
        let file = scratch.file(&format!("home/{name}"), with_canary(text, &canary));
        let before = state(&file);
        let cat = format!("cat $HOME/{name}");
        let open = Srt::new(&scratch).allow_read(format!("~/{name}"));
        let shown = String::from_utf8_lossy(text);
        assert!(open.sh(&cat).shows(&canary), "no control: {shown}");

        let ran = Srt::new(&scratch).sh(&cat).succeeds();
        assert!(!ran.shows(&canary), "{shown}\n{}", ran.stdout);
        assert!(ran.stdout.contains(kept), "{shown}\n{}", ran.stdout);
        assert_eq!(ran.stderr, "", "{shown}");
        assert_eq!(state(&file), before);
    }
}

/// Runs a program on a file of the home outside and, without its secrets, inside.
fn read_by(scratch: &Scratch, words: &[&str]) -> Option<[Ran; 2]> {
    let home = scratch.path("home");
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!("{} 2>&1", quoted.join(" "));
    // A version manager may keep its programs below the caller's home.
    let program = words
        .iter()
        .find(|word| **word != "env" && !word.contains('='));
    let program = program.expect("a program is named");
    let version = format!("export HOME={}; {program} --version", home.display());
    if outside(&version).status != 0 {
        skip(&format!("{program} does not run here"));
        return None;
    }
    let control = outside(&format!("export HOME={}; cd /; {script}", home.display()));
    let srt = Srt::new(scratch).allow_write(home.join("cache"));
    Some([control, srt.current_dir("/").sh(&script)])
}

#[test]
fn npm_reads_its_settings_without_the_token() {
    let scratch = Scratch::new("npm-reads");
    let canary = canary();
    let npmrc = format!(
        "registry=https://r.example/npm/\ncache=${{HOME}}/cache\n; {canary}\n\
         //r.example/npm/:_authToken={canary}\n//r.example/npm/:certfile=/c.pem\nfetch-retries=9\n"
    );
    scratch.dir("home/cache");
    scratch.file("home/.npmrc", npmrc);
    for (key, value) in [
        ("registry", "https://r.example/npm/"),
        ("fetch-retries", "9"),
    ] {
        let words = [
            "npm",
            "config",
            "get",
            key,
            "--offline",
            "--no-update-notifier",
        ];
        let Some([control, ran]) = read_by(&scratch, &words) else {
            return;
        };
        assert_eq!(control.stdout.trim(), value, "{}", control.stderr);
        assert_eq!(ran.stdout.trim(), value, "{}", ran.stderr);
    }
}

#[test]
fn pip_reads_its_settings_without_the_password() {
    let scratch = Scratch::new("pip-reads");
    let canary = canary();
    let conf = format!(
        "[global]\n# {canary}\nindex-url = https://me:{canary}@p.example/simple\ntimeout = 7\n\
         extra-index-url =\n    https://{canary}@q.example/a\n\n    https://r.example/b\n[install]\nno-compile = true\n"
    );
    scratch.file("home/.config/pip/pip.conf", conf);
    let words = ["pip", "config", "list"];
    let Some([control, ran]) = read_by(&scratch, &words) else {
        return;
    };
    assert!(control.shows(&canary), "{}", control.stdout);
    for line in [
        "global.index-url='https://p.example/simple'",
        "global.timeout='7'",
        "q.example/a",
        "r.example/b",
        "install.no-compile='true'",
    ] {
        assert!(ran.stdout.contains(line), "{line} is not in {}", ran.stdout);
    }
    assert!(!ran.shows(&canary));
}

#[test]
fn cargo_reads_its_settings_without_the_token() {
    let scratch = Scratch::new("cargo-reads");
    let canary = canary();
    let config = format!(
        "[registries]\nmy = {{ index = \"sparse+https://r.example/\", token = \"{canary}\" }}\n\
         [registries.other]\nindex = \"sparse+https://o.example/\" # {canary}\ntoken = '''{canary}'''\n\
         [alias]\nfrom-home = \"version\"\n"
    );
    scratch.file("home/.cargo/config.toml", &config);
    let home = scratch.path("home/.cargo");
    let words = [
        "env",
        &format!("CARGO_HOME={}", home.display()),
        "cargo",
        "from-home",
    ];
    let Some([control, hidden]) = read_by(&scratch, &words) else {
        return;
    };
    assert!(control.stdout.starts_with("cargo "), "{}", control.stdout);
    // A string over several lines cannot be told from what follows.
    assert!(
        hidden.shows("is hidden: its secrets cannot be told"),
        "{}",
        hidden.stderr
    );
    scratch.file("home/.cargo/config.toml", config.replace("'''", "'"));
    let Some([_, ran]) = read_by(&scratch, &words) else {
        return;
    };
    assert_eq!(ran.stdout, control.stdout, "{}", ran.stderr);
    let cat = Srt::new(&scratch)
        .sh("cat $HOME/.cargo/config.toml")
        .succeeds();
    assert!(!cat.shows(&canary), "{}", cat.stdout);
}

#[test]
fn a_token_that_only_a_variable_holds_stays_named() {
    let scratch = Scratch::new("by-variable");
    let text = "//r.example/:_authToken=${NODE_AUTH_TOKEN}\nfund=false\n";
    let file = scratch.file("home/.npmrc", text);
    let ran = Srt::new(&scratch).sh("cat $HOME/.npmrc").succeeds();
    assert_eq!(ran.stdout, text);
    fs::write(&file, text.replace('}', "-abc}")).expect("the test made it");
    let ran = Srt::new(&scratch).sh("cat $HOME/.npmrc").succeeds();
    assert_eq!(
        ran.stdout, "fund=false\n",
        "what stands for an unset one is a secret"
    );
}

/// A kind of file, and how it is made.
type Make<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn what_cannot_be_read_or_taken_apart_is_hidden_with_a_warning() {
    let canary = canary();
    let make: [Make<'_>; 6] = [
        ("closed", &|path| {
            fs::write(path, format!("_auth={canary}\n")).expect("ours");
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("ours");
        }),
        ("directory", &|path| {
            fs::create_dir(path).expect("ours");
            fs::write(path.join("f"), &canary).expect("ours");
        }),
        ("huge", &|path| {
            let line = format!("# {}\n", "x".repeat(1000));
            let text = format!("fund=false\n{}_auth={canary}\n", line.repeat(1100));
            fs::write(path, text).expect("ours");
        }),
        ("bytes", &|path| {
            let text = [canary.as_bytes(), b"\xff\n_auth=x\n"].concat();
            fs::write(path, text).expect("ours");
        }),
        ("wide", &|path| {
            let text = format!("_auth={canary}\n");
            let units = text.encode_utf16().flat_map(u16::to_le_bytes);
            fs::write(path, units.collect::<Vec<_>>()).expect("ours");
        }),
        ("unclosed", &|path| {
            fs::write(path, format!("_auth=\"a\n{canary}\n")).expect("ours");
        }),
    ];
    for (kind, make) in make {
        let scratch = Scratch::new(&format!("apart-{kind}"));
        let file = scratch.dir("home").join(".npmrc");
        make(&file);
        let script = "chmod u+rwX $HOME/.npmrc; cat $HOME/.npmrc $HOME/.npmrc/f | tr -d '\\0'; \
                      echo new >> $HOME/.npmrc";
        let ran = Srt::new(&scratch).allow_write("~").sh(script);
        assert!(!ran.stdout.contains(&canary), "{kind}: {}", ran.stdout);
        // Root reads a closed file, and takes it apart.
        let is_said = ran.shows(".npmrc is hidden: its secrets cannot be told");
        assert!(is_said || kind == "closed", "{kind}: {}", ran.stderr);
        let open = Srt::new(&scratch).allow_write("~").allow_write("~/.npmrc");
        let open = open.with("filesystem.allowProtected", ".npmrc");
        let ran = open.sh(script);
        assert!(
            ran.stdout.contains(&canary),
            "{kind}: no control: {}",
            ran.stderr
        );
    }
}

#[test]
fn a_fifo_in_the_place_of_a_file_of_settings_holds_nobody_up() {
    let scratch = Scratch::new("fifo");
    let file = scratch.dir("home").join(".npmrc");
    outside(&format!("mkfifo {}", file.display())).succeeds();
    let ran = Srt::new(&scratch)
        .sh("timeout 5 cat $HOME/.npmrc")
        .succeeds();
    assert_eq!(ran.stdout, "", "{}", ran.stderr);
}
