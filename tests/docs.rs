//! Every example of the documents, run as printed.
//!
//! A block fenced as `console` is one session of `sh` in a directory of its own with `srt` on
//! PATH: lines that begin with `$ ` are commands, `> ` continues one, all others are the output
//! that must follow; `…` stands for anything, on a line of its own for any number of lines.
//! A block fenced as `json NAME` is a file of that name in the directories of the blocks after
//! it. A block fenced as `sh` is only parsed. A block after the line `<!-- shown only -->` is
//! left alone: what needs another machine.

mod harness;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Scratch, canary};

#[test]
fn every_example_of_the_documents_does_what_it_says() {
    let mut sessions = 0;
    let mut wrong = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("documents are UTF-8");
        let mut files = Vec::new();
        for block in blocks(&text) {
            let problem = match block.kind.split_once(' ') {
                None if block.kind == "console" => {
                    sessions += 1;
                    run_session(&block.text, &files)
                }
                None if block.kind == "sh" => parses(&block.text),
                Some(("json", name)) => {
                    files.push((name.to_owned(), block.text));
                    None
                }
                _ => None,
            };
            if let Some(problem) = problem {
                wrong.push(format!("{}:{}: {problem}", document.display(), block.line));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(
        sessions > 0 || !Path::new("README.md").exists(),
        "README.md shows no session"
    );
}

/// What no rule can keep is said where users look for it.
#[test]
fn what_is_not_promised_of_the_network_is_written_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("SECURITY.md")).expect("documents are UTF-8");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        // NW-32, NW-36 and NW-47, NW-78.
        "A name below an allowed wildcard carries data",
        "domain fronting; one HTTP/2 connection for several names",
        "a published package takes data from anybody",
    ] {
        assert!(text.contains(said), "{said}");
    }
}

#[test]
fn a_session_that_differs_from_what_is_printed_is_found() {
    let files = [("a.json".to_owned(), "{}\n".to_owned())];
    assert_eq!(run_session("$ cat a.json\n{}\n", &files), None);
    assert_eq!(run_session("$ false\n$ echo $?\n1\n", &[]), None);
    assert_eq!(
        run_session("$ cat <<E\n> one\n> two\n> E\none\ntwo\n", &[]),
        None
    );
    assert_eq!(run_session("$ printf 'a\\nb\\nc'\n…\nc\n", &[]), None);
    assert_eq!(run_session("$ exit 0\n", &[]), None);

    let problem = run_session("$ echo one\ntwo\n", &[]).expect("one is not two");
    assert!(problem.contains("`echo one`"), "{problem}");
    assert!(run_session("$ echo one\n", &[]).is_some());
    assert!(run_session("$ true\none\n", &[]).is_some());
    assert!(run_session("$ echo 'one\n", &[]).is_some());
    assert!(run_session("$ exit 1\n$ echo one\none\n", &[]).is_some());
    assert!(run_session("one\n", &[]).is_some());
    assert!(parses("if then").is_some());
    assert_eq!(parses("if true; then false; fi"), None);
}

#[test]
fn blocks_and_wildcards_are_read_as_described() {
    let text = "a\n```json s.json\n{}\n```\n- b\n  ```console\n  $ true\n  ```\n\
                <!-- shown only -->\n```sh\nreboot\n```\n";
    let found = blocks(text);
    let kinds: Vec<_> = found.iter().map(|b| (b.kind.as_str(), b.line)).collect();
    assert_eq!(kinds, [("json s.json", 2), ("console", 6)]);
    assert_eq!(found[1].text, "$ true\n");

    assert!(matches(&["pid … ended"], &["pid 12 ended"]));
    assert!(matches(&["a", "…", "d"], &["a", "b", "c", "d"]));
    assert!(matches(&["a", "…", "d"], &["a", "d"]));
    assert!(!matches(&["a", "…", "d"], &["a", "b"]));
    assert!(!matches(&["pid … ended"], &["pid 12 ended early"]));
    assert!(!matches(&["a…a"], &["a"]));
}

/// One fenced block: its info string, the line of its fence, its content.
struct Block {
    kind: String,
    line: usize,
    text: String,
}

fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for dir in [".", "docs"] {
        let Ok(entries) = fs::read_dir(dir) else {
            continue;
        };
        found.extend(entries.map(|entry| entry.expect("the directory is readable").path()));
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.sort();
    found
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut shown_only = false;
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let Some(kind) = line.trim_start().strip_prefix("```") else {
            shown_only =
                line.trim() == "<!-- shown only -->" || shown_only && line.trim().is_empty();
            continue;
        };
        let body = lines.by_ref().map(|(_, line)| line);
        let body: String = body
            .take_while(|line| line.trim() != "```")
            .map(|line| format!("{}\n", line.get(indent..).unwrap_or_default()))
            .collect();
        if !std::mem::take(&mut shown_only) {
            found.push(Block {
                kind: kind.trim().to_owned(),
                line: number + 1,
                text: body,
            });
        }
    }
    found
}

/// A command of a session, and the lines that must follow it.
#[derive(Default)]
struct Step<'a> {
    command: String,
    output: Vec<&'a str>,
}

fn steps(text: &str) -> Option<Vec<Step<'_>>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for line in text.trim_end().lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                command: command.to_owned(),
                output: Vec::new(),
            });
            continue;
        }
        let step = steps.last_mut()?;
        match line.strip_prefix("> ").or((line == ">").then_some("")) {
            Some(more) if step.output.is_empty() => step.command += &format!("\n{more}"),
            _ => step.output.push(line),
        }
    }
    Some(steps)
}

/// Runs a session and says at which command it went otherwise.
fn run_session(text: &str, files: &[(String, String)]) -> Option<String> {
    let Some(steps) = steps(text) else {
        return Some("a session begins with a command".to_owned());
    };
    let scratch = Scratch::new("docs");
    let cwd = scratch.dir("session");
    for (name, content) in files {
        scratch.file(&format!("session/{name}"), content);
    }
    let bin = scratch.dir("bin");
    symlink(env!("CARGO_BIN_EXE_srt"), bin.join("srt")).expect("the directory is new");
    let mark = canary();
    let mut script = "exec 2>&1\n".to_owned();
    for step in &steps {
        // The mark keeps `$?` for the next command.
        let after = format!("set -- $?; printf '%s\\n' {mark}; (exit $1)");
        script += &format!("{}\n{after}\n", step.command);
    }
    let path =
        std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&search_path())));
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .current_dir(&cwd)
        .env("PATH", path.expect("PATH was joined before"))
        .env("HOME", scratch.dir("home"))
        .env_remove("TMPDIR");
    let ran = harness::run(&mut command);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    let mark = format!("{mark}\n");
    let mut outputs = said.split(&mark);
    for step in &steps {
        let output: Vec<&str> = outputs.next().unwrap_or("(no end)").lines().collect();
        if !matches(&step.output, &output) {
            return Some(format!(
                "`{}` printed\n{}\ninstead of\n{}",
                step.command,
                output.join("\n"),
                step.output.join("\n")
            ));
        }
    }
    None
}

#[allow(
    clippy::disallowed_methods,
    reason = "the test is the caller; it has no Host to read this from"
)]
fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Compares lines; `…` stands for any text in a line, or for any lines.
fn matches(expected: &[&str], found: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((&"…", rest)) => (0..=found.len()).any(|skipped| matches(rest, &found[skipped..])),
        Some((line, rest)) => found
            .split_first()
            .is_some_and(|(first, found)| line_matches(line, first) && matches(rest, found)),
    }
}

fn line_matches(expected: &str, found: &str) -> bool {
    match expected.split_once('…') {
        None => expected == found,
        Some((start, rest)) => found.strip_prefix(start).is_some_and(|found| {
            let ends = (0..=found.len()).filter(|&at| found.is_char_boundary(at));
            ends.into_iter().any(|at| line_matches(rest, &found[at..]))
        }),
    }
}

/// Says what `sh` finds wrong with a script, without running it.
fn parses(script: &str) -> Option<String> {
    let ran = harness::run(Command::new("sh").args(["-n", "-c", script]));
    (ran.status != 0).then_some(ran.stderr)
}
