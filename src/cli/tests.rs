//! Promises of the command line.

use std::os::unix::ffi::OsStringExt;

use super::*;

fn parse_words(words: &[&str]) -> Result<Invocation> {
    parse(
        std::iter::once("srt")
            .chain(words.iter().copied())
            .map(OsString::from),
    )
}

fn run(words: &[&str]) -> RunOptions {
    match parse_words(words) {
        Ok(Invocation::Run(options)) => *options,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn printed(words: &[&str]) -> String {
    match parse_words(words) {
        Ok(Invocation::Print(text)) => text,
        other => panic!("{words:?}: {other:?}"),
    }
}

fn argv(words: &[&str]) -> CommandLine {
    CommandLine::Argv(words.iter().map(OsString::from).collect())
}

fn shell(string: &str, args: &[&str]) -> CommandLine {
    CommandLine::Shell {
        string: string.into(),
        args: args.iter().map(OsString::from).collect(),
    }
}

#[test]
fn flags_behind_the_command_word_belong_to_the_command() {
    let commands: [&[&str]; 12] = [
        &["python3", "-c", "print(1)"],
        &["curl", "-s", "http://example.org"],
        &["git", "--version"],
        &["ls", "--help"],
        &["ls", "-d", "/etc"],
        &["ls", "--", "-x"],
        &["ls", "--", "--", "--settings", "x"],
        &["sh", "--pass-fd", "1", "--events=x", "--unknown"],
        &["echo", "ctl", "proxy", ""],
        &["-", "x"],
        &["", "x"],
        &["help"],
    ];
    for words in commands {
        let options = run(words);
        assert_eq!(options.command, argv(words));
        assert_eq!(
            (options.layers, options.verbosity, options.events),
            (LayerFlags::default(), Verbosity::Warnings, Vec::new())
        );
        assert!(options.pass_fds.is_empty());
    }
}

#[test]
fn two_dashes_end_the_flags() {
    assert_eq!(
        run(&["--", "-weird", "-d"]).command,
        argv(&["-weird", "-d"])
    );
    assert_eq!(
        run(&["-d", "--", "ls", "--", "x"]).command,
        argv(&["ls", "--", "x"])
    );
    assert_eq!(run(&["--", "--", "x"]).command, argv(&["--", "x"]));
}

#[test]
fn every_spelling_of_a_flag_is_read() {
    let spellings: [&[&str]; 5] = [
        &["-s", "f"],
        &["-sf"],
        &["--settings", "f"],
        &["--settings=f"],
        &["-s=f"],
    ];
    for words in spellings {
        let words = [words, &["true"]].concat();
        let options = run(&words);
        assert_eq!(
            options.layers.settings,
            Some(PathBuf::from("f")),
            "{words:?}"
        );
        assert_eq!(options.command, argv(&["true"]));
    }
    let words = [
        "-d",
        "--events",
        "e",
        "--pass-fd",
        "3",
        "--pass-fd=2147483647",
        "-sf",
        "--",
        "true",
    ];
    let options = run(&words);
    assert_eq!(options.verbosity, Verbosity::Debug);
    assert_eq!(options.events, [PathBuf::from("e")]);
    assert_eq!(options.pass_fds, [3, i32::MAX]);
}

#[test]
fn a_shell_string_takes_further_words_as_its_parameters() {
    assert_eq!(run(&["-c", "echo $1"]).command, shell("echo $1", &[]));
    assert_eq!(
        run(&["-c", "echo $1", "name", "-d"]).command,
        shell("echo $1", &["name", "-d"])
    );
    assert_eq!(run(&["-c", "s", "ctl"]).command, shell("s", &["ctl"]));
    assert_eq!(run(&["-c", "-x"]).command, shell("-x", &[]));
    assert_eq!(run(&["-d", "-c", "s"]).verbosity, Verbosity::Debug);
    assert_eq!(run(&["-c", "s", "-d"]).verbosity, Verbosity::Debug);
}

#[test]
fn what_cannot_be_understood_is_a_usage_error_that_says_why() {
    let table: [(&[&str], &str, &str); 18] = [
        (&[], "no command given", "srt --help"),
        (&["--"], "no command given", "srt --help"),
        (&["-d"], "no command given", "srt --help"),
        (&["-c", ""], "the string of -c is empty", "srt --help"),
        (
            &["--unknown", "echo"],
            "unknown flag `--unknown`",
            "srt -- --unknown …",
        ),
        (
            &["--unknown=3", "echo"],
            "unknown flag `--unknown`",
            "srt -- --unknown …",
        ),
        (&["-d", "-x", "echo"], "unknown flag `-x`", "srt -- -x …"),
        (
            &["--setting", "f", "echo"],
            "unknown flag `--setting`",
            "srt -- --setting …",
        ),
        (
            &["-d", "proxy"],
            "`proxy` is reserved for srt itself",
            "srt -- proxy …",
        ),
        (&["-s"], "--settings <file>", "srt --help"),
        (&["--settings=", "true"], "--settings <file>", "srt --help"),
        (
            &["-s", "a", "-s", "b", "true"],
            "cannot be used multiple times",
            "srt --help",
        ),
        (&["-c"], "-c <string>", "srt --help"),
        (&["--pass-fd", "2", "true"], "2 is not in 3..", "srt --help"),
        (
            &["--pass-fd", "x", "true"],
            "invalid value 'x'",
            "srt --help",
        ),
        (
            &["--pass-fd", "99999999999", "true"],
            "99999999999",
            "srt --help",
        ),
        (&["--pass-fd", "", "true"], "--pass-fd <n>", "srt --help"),
        (&["--debug=yes", "true"], "--debug", "srt --help"),
    ];
    for (words, goal, hint) in table {
        let error = parse_words(words).expect_err("must be refused");
        assert_eq!(
            (error.kind(), error.exit_code()),
            (Kind::Usage, 125),
            "{words:?}"
        );
        assert!(error.to_string().contains(goal), "{words:?}: {error}");
        assert!(!error.to_string().contains('\n'), "{words:?}: {error}");
        assert!(
            error.hint().is_some_and(|text| text.contains(hint)),
            "{words:?}: {error:?}"
        );
    }
}

#[test]
fn a_reserved_word_behind_two_dashes_is_a_program() {
    assert_eq!(run(&["--", "ctl", "x"]).command, argv(&["ctl", "x"]));
    assert_eq!(run(&["-d", "--", "proxy"]).command, argv(&["proxy"]));
}

#[test]
fn two_dashes_as_the_program_name_unlock_nothing() {
    assert!(parse(["--", "proxy"].map(OsString::from)).is_err());
}

#[test]
fn an_empty_argument_vector_is_no_command() {
    let error = parse(std::iter::empty()).expect_err("there is no command");
    assert_eq!(error.to_string(), "no command given");
}

#[test]
fn the_version_is_that_of_the_crate() {
    let expected = format!("srt {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(printed(&["-V"]), expected);
    assert_eq!(printed(&["--version"]), expected);
    assert_eq!(printed(&["--version", "ls"]), expected);
}

#[test]
fn help_is_plain_and_names_every_flag_and_exit_status() {
    let help = printed(&["-h"]);
    assert_eq!(help, printed(&["--help", "true"]));
    let names = [
        "-c",
        "-s, --settings",
        "-d, --debug",
        "--events",
        "--events-fd",
        "--pass-fd",
        "-V",
        "-h",
    ];
    for text in names
        .iter()
        .chain(&["125", "126", "127", "128+n", "srt npm test"])
    {
        assert!(help.contains(text), "{text} is not in:\n{help}");
    }
    assert!(!help.contains('\u{1b}'), "{help}");
    assert!(
        help.lines().all(|line| line.chars().count() <= 80),
        "{help}"
    );
    assert!(help.ends_with('\n') && !help.ends_with("\n\n"), "{help:?}");
}

#[test]
fn any_bytes_of_a_command_pass_unchanged() {
    let mut random = Random(0x5eed);
    for _ in 0..200 {
        let words = random.words();
        let line = |flags: &[&str]| {
            let flags = flags.iter().map(OsString::from);
            parse(flags.chain(words.iter().cloned())).expect("any words are a command")
        };
        for flags in [&["srt", "--"] as &[&str], &["srt", "-d", "-sf", "--"]] {
            let Invocation::Run(options) = line(flags) else {
                panic!("{words:?}")
            };
            assert_eq!(options.command, CommandLine::Argv(words.clone()));
        }
        let Invocation::Run(options) = line(&["srt", "-c", "s", "name"]) else {
            panic!("{words:?}")
        };
        let args = std::iter::once("name".into())
            .chain(words.iter().cloned())
            .collect();
        assert_eq!(
            options.command,
            CommandLine::Shell {
                string: "s".into(),
                args
            }
        );
    }
}

#[test]
fn values_of_flags_may_be_any_bytes_too() {
    let odd = OsString::from_vec(vec![b'f', 0xff, b'\n']);
    let args = [
        OsString::from("srt"),
        "-s".into(),
        odd.clone(),
        "-c".into(),
        odd.clone(),
    ];
    let Ok(Invocation::Run(options)) = parse(args) else {
        panic!("must be understood")
    };
    assert_eq!(options.layers.settings, Some(PathBuf::from(&odd)));
    assert_eq!(
        options.command,
        CommandLine::Shell {
            string: odd,
            args: vec![]
        }
    );
}

#[test]
fn one_argument_with_white_space_is_a_shell_string_unless_a_program_has_that_name() {
    let none = |_: &OsStr| false;
    let spaced = argv(&["cat README.md"]);
    assert_eq!(
        spaced.clone().or_shell_string(none),
        shell("cat README.md", &[])
    );
    assert_eq!(
        spaced
            .clone()
            .or_shell_string(|name| name == "cat README.md"),
        spaced
    );
    for words in [
        &["cat"] as &[&str],
        &["cat a", "b"],
        &[""],
        &[" \t\n"],
        &["cat\u{a0}a"],
    ] {
        assert_eq!(argv(words).or_shell_string(none), argv(words), "{words:?}");
    }
    assert_eq!(
        shell("a b", &["c"]).or_shell_string(none),
        shell("a b", &["c"])
    );
}

/// xorshift64: the same lists in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn words(&mut self) -> Vec<OsString> {
        let count = 1 + self.below(6);
        (0..count).map(|_| self.word()).collect()
    }

    fn word(&mut self) -> OsString {
        const PARTS: [&[u8]; 10] = [
            b"-", b"--", b"-c", b"=", b" ", b"\n", b"'$(x)", b"\xff", b"\xc3", b"a",
        ];
        let count = self.below(5);
        let parts = (0..count).map(|_| match self.below(10) {
            0 => vec![u8::try_from(1 + self.below(255)).expect("at most 255")],
            part => PARTS[usize::try_from(part).expect("below 10")].to_vec(),
        });
        OsString::from_vec(parts.collect::<Vec<_>>().concat())
    }
}
