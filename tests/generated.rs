//! What `srt` makes from its own definitions is what shells, `man` and editors read.

mod harness;

use std::process::Command;

use harness::{Ran, Scratch, run, skip};

/// Returns what a word of `srt ctl` prints.
fn made(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_srt"));
    let ran = run(command.arg("ctl").args(words)).succeeds();
    assert_eq!(ran.stderr, "");
    ran.stdout
}

fn is_there(program: &str) -> bool {
    let found = run(Command::new("sh").args(["-c", &format!("command -v {program}")]));
    found.status == 0
}

/// Completes the last of these words in bash, in which a stand-in completes other commands.
fn completed(scratch: &Scratch, words: &[&str]) -> Vec<String> {
    const SCRIPT: &str = r#"
. "$1"
_command_offset() { COMPREPLY=("from word $1"); }
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_srt_or_command srt "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;
    let script = scratch.file("srt.bash", made(&["completions", "bash"]));
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", SCRIPT, "bash"]).arg(script);
    let ran = run(bash.args(words)).succeeds();
    assert_eq!(ran.stderr, "", "{words:?}");
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_flags_and_words_of_srt_and_leaves_a_command_to_its_own() {
    let scratch = Scratch::new("bash");
    let table: [(&[&str], &[&str]); 12] = [
        (&["srt", "--allow-w"], &["--allow-write"]),
        (&["srt", "-q", "--no-n"], &["--no-network"]),
        (&["srt", "ct"], &["ctl"]),
        (&["srt", "ctl", "sch"], &["schema"]),
        (&["srt", "ctl", "completions", ""], &["bash", "zsh", "fish"]),
        (&["srt", "ctl", "profile", "s"], &["show"]),
        (&["srt", "make", "--"], &["from word 1"]),
        (&["srt", "make", "ctl", ""], &["from word 1"]),
        (&["srt", "--cwd", "/x", "make", ""], &["from word 3"]),
        (
            &["srt", "--settings", "=", "x", "make", ""],
            &["from word 4"],
        ),
        (&["srt", "-q", "--", "ctl", "s"], &["from word 3"]),
        (&["srt", "--rw", "x", "make", "-"], &["from word 3"]),
    ];
    for (words, expected) in table {
        let found = completed(&scratch, words);
        let all = expected
            .iter()
            .all(|word| found.iter().any(|found| found == word));
        assert!(all, "{words:?}: {found:?}");
        let is_own = |word: &str| word.starts_with("--") || word == "schema";
        let for_command = expected[0].starts_with("from");
        assert!(
            !for_command || !found.iter().any(|word| is_own(word)),
            "{words:?}: {found:?}"
        );
    }
    // A program in the position of the command, where no flag may stand.
    let found = completed(&scratch, &["srt", "--", "prin"]);
    assert!(found.iter().any(|word| word == "printf"), "{found:?}");
    let found = completed(&scratch, &["srt", "--", "ct"]);
    assert!(!found.iter().any(|word| word == "ctl"), "{found:?}");
}

/// Lets a shell parse its script, and one that it cannot parse.
fn parses(shell: &str, broken: &str) {
    if !is_there(shell) {
        return skip(&format!("{shell} is not installed"));
    }
    let scratch = Scratch::new(shell);
    let parse = |text: &str| {
        let file = scratch.file("script", text);
        run(Command::new(shell)
            .arg("-n")
            .arg(file)
            .env("HOME", scratch.dir("home")))
    };
    assert_ne!(parse(broken).status, 0);
    parse(&made(&["completions", shell])).succeeds();
}

#[test]
fn bash_parses_its_script() {
    parses("bash", "if then\n");
}

#[test]
fn zsh_parses_its_script() {
    parses("zsh", "if then\n");
}

#[test]
fn zsh_leaves_a_command_to_its_own_completion() {
    const SCRIPT: &str = r#"
compdef() { }
source $1
shift
_srt() { print srt }
_normal() { print from $words[1] at $CURRENT }
_command_names() { print commands }
compadd() { print $@ }
words=("$@")
CURRENT=$#words
_srt_or_command
"#;
    if !is_there("zsh") {
        return skip("zsh is not installed");
    }
    let scratch = Scratch::new("zsh-command");
    let script = scratch.file("_srt", made(&["completions", "zsh"]));
    let table: [(&[&str], &str); 8] = [
        (&["srt", "-"], "srt\n"),
        (&["srt", "--cwd", ""], "srt\n"),
        (&["srt", "ctl", ""], "srt\n"),
        (&["srt", "m"], "ctl\ncommands\n"),
        (&["srt", "--", "m"], "commands\n"),
        (&["srt", "make", "-"], "from make at 2\n"),
        (
            &["srt", "-q", "--rw", "x", "make", "a", ""],
            "from make at 3\n",
        ),
        (&["srt", "--", "ctl", ""], "from ctl at 2\n"),
    ];
    for (words, expected) in table {
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-c", SCRIPT, "zsh"])
            .arg(&script)
            .args(words);
        let ran = run(&mut zsh).succeeds();
        assert_eq!(
            (ran.stdout.as_str(), ran.stderr.as_str()),
            (expected, ""),
            "{words:?}"
        );
    }
}

#[test]
fn fish_parses_its_script() {
    parses("fish", "if true\n");
}

#[test]
fn fish_completes_words_of_srt_and_leaves_a_command_to_its_own() {
    if !is_there("fish") {
        return skip("fish is not installed");
    }
    let scratch = Scratch::new("fish");
    let file = scratch.file("srt.fish", made(&["completions", "fish"]));
    let complete = |line: &str| {
        let script = format!(
            "source {}; complete -c probe -f -a own; complete -C '{line}'",
            file.display()
        );
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", &script])
            .env("HOME", scratch.dir("home"));
        run(&mut fish).succeeds().stdout
    };
    assert!(complete("srt ctl sch").starts_with("schema\t"));
    assert!(complete("srt --allow-w").starts_with("--allow-write"));
    for line in ["srt probe ", "srt -q --cwd /tmp probe ", "srt -s x probe "] {
        assert_eq!(complete(line), "own\n", "{line}");
    }
}

/// Shows a page to a reader of manual pages and returns what it finds wrong.
fn warnings(scratch: &Scratch, page: &str) -> Option<Ran> {
    let file = scratch.file("page", page);
    let mut reader = if is_there("mandoc") {
        let mut mandoc = Command::new("mandoc");
        mandoc.args(["-T", "lint", "-W", "error"]);
        mandoc
    } else if is_there("man") && is_there("groff") {
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l"]);
        man
    } else {
        return None;
    };
    reader.arg(file).env("HOME", scratch.dir("home"));
    Some(run(&mut reader))
}

#[test]
fn readers_of_manual_pages_find_nothing_wrong() {
    let scratch = Scratch::new("man");
    let Some(bad) = warnings(&scratch, ".TH X 1\n.SH NAME\nx\n.XYZ\n") else {
        return skip("neither mandoc nor man with groff is installed");
    };
    assert!(bad.shows("XYZ"), "{bad:?}");
    for page in ["srt", "srt-settings"] {
        let ran = warnings(&scratch, &made(&["man", page])).expect("it was there before");
        let found = ran.stdout.lines().chain(ran.stderr.lines());
        let found: Vec<_> = found.filter(|line| line.contains("page:")).collect();
        assert!(found.is_empty() && ran.status == 0, "{page}: {found:?}");
    }
    assert_eq!(made(&["man"]), made(&["man", "srt"]));
}

#[test]
fn the_schema_is_json_of_the_draft_it_names() {
    let schema: serde_json::Value =
        serde_json::from_str(&made(&["schema"])).expect("a schema is JSON");
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    let hosts = &schema["properties"]["network"]["properties"]["allowedDomains"];
    assert_eq!(hosts["type"], "array");
}

#[test]
fn the_pictures_of_the_guide_show_what_is_said_today() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pictures/render");
    let mut render = Command::new("python3");
    render.args([script, "--check", env!("CARGO_BIN_EXE_srt")]);
    run(&mut render).succeeds();
}
