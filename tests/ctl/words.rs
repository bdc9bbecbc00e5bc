//! The command position belongs to the user's programs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::harness::{Scratch, run};
use super::srt;

/// Words of `srt ctl`, and such as are none yet.
const WORDS: [&str; 8] = [
    "config", "diff", "explain", "init", "profile", "ps", "run", "trust",
];

/// Makes programs of these names that say how they were called and try to write.
fn programs(scratch: &Scratch, names: &[&str]) -> std::ffi::OsString {
    let mark = scratch.path("mark");
    for name in names {
        let script = format!(
            "#!/bin/sh\necho \"program ${{0##*/}} $*\"\necho x 2>/dev/null >'{}'\n:\n",
            mark.display()
        );
        let program = scratch.file(&format!("bin/{name}"), script);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }
    let mut path = scratch.dir("bin").into_os_string();
    path.push(":/usr/bin:/bin");
    path
}

#[test]
fn programs_with_the_names_of_our_words_run_sandboxed() {
    let scratch = Scratch::new("words");
    let path = programs(&scratch, &WORDS);
    let mark = scratch.path("mark");
    for word in WORDS {
        // Outside, the program does write: it is the sandbox that keeps it from that.
        run(std::process::Command::new(scratch.path("bin").join(word)).arg("a")).succeeds();
        assert!(mark.exists());
        fs::remove_file(&mark).expect("it was made just now");

        let ran = run(srt(&scratch, &[word, "ax", "--json"]).env("PATH", &path)).succeeds();
        assert_eq!(ran.stdout, format!("program {word} ax --json\n"));
        assert!(!mark.exists(), "{word} ran outside");
    }
}

#[test]
fn two_words_alone_are_reserved_and_dashes_free_them() {
    let scratch = Scratch::new("reserved");
    let path = programs(&scratch, &["ctl", "proxy"]);
    for word in ["ctl", "proxy"] {
        let ran = run(srt(&scratch, &[word, "ax"]).env("PATH", &path));
        assert_eq!(ran.stdout, "", "{ran:?}");
        assert!(ran.status == 2 || ran.status == 125, "{ran:?}");
        let ran = run(srt(&scratch, &["--", word, "ax"]).env("PATH", &path)).succeeds();
        assert_eq!(ran.stdout, format!("program {word} ax\n"));
    }
}

#[test]
fn a_program_that_is_not_there_leads_to_the_word_of_its_name() {
    let scratch = Scratch::new("missing");
    let empty = scratch.dir("empty");
    for word in ["config", "explain", "init", "profile", "trust"] {
        let ran = run(srt(&scratch, &[word, "path:/x"]).env("PATH", &empty));
        assert_eq!(ran.status, 127, "{ran:?}");
        let hint = format!("`srt ctl {word}`");
        assert!(ran.stderr.contains(&hint), "{ran:?}");
    }
    for words in [["no-such-word", "x"], ["./explain", "x"], ["-c", "explain"]] {
        let ran = run(srt(&scratch, &words).env("PATH", "/usr/bin:/bin"));
        assert_eq!(ran.status, 127, "{ran:?}");
        assert!(!ran.stderr.contains("srt ctl"), "{ran:?}");
    }
}
