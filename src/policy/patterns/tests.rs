use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::glob::{Names, Step};
use super::*;

fn steps(text: &str) -> Vec<Vec<Step>> {
    let alternatives = glob::alternatives(text).expect(text);
    let globs = alternatives
        .iter()
        .map(|text| Glob::parse(text).expect(text));
    globs.map(|Glob(steps)| steps).collect()
}

#[test]
fn a_pattern_is_read_step_by_step() {
    let name = |name: &str| Step::Name(name.into());
    let fitting = |name: &str| Step::Fitting(Names::parse(name).expect(name));
    let table = [
        ("/a/*.pem", vec![vec![name("a"), fitting("*.pem")]]),
        (
            "/a/**/b",
            vec![vec![name("a"), Step::Directories, name("b")]],
        ),
        (
            "/a/**/**/b",
            vec![vec![name("a"), Step::Directories, name("b")]],
        ),
        ("/a/**", vec![vec![name("a")]]),
        ("/**/", vec![vec![]]),
        (
            "/{a,b}/c",
            vec![vec![name("a"), name("c")], vec![name("b"), name("c")]],
        ),
        (
            "/{a/x,b}",
            vec![vec![name("a"), name("x")], vec![name("b")]],
        ),
        (
            "/{a,{b,c}}",
            vec![vec![name("a")], vec![name("b")], vec![name("c")]],
        ),
        ("/[a-c]", vec![vec![fitting("[a-c]")]]),
    ];
    for (text, expected) in table {
        assert_eq!(steps(text), expected, "{text}");
    }
}

#[test]
fn what_would_match_nothing_is_an_error() {
    let wrong = [
        "/a/[", "/a/]", "/a/[]", "/a/[!]", "/a/[z-a]", "/a/[[a]", "/{a", "/a}", "/{a}", "/{}",
        "/a**", "/**a/b", "/a/../*", "/a\\*",
    ];
    for text in wrong {
        let globs =
            glob::alternatives(text).map(|all| all.iter().all(|text| Glob::parse(text).is_ok()));
        assert_ne!(globs, Ok(true), "{text}");
    }
    let many = "{a,b}".repeat(11);
    assert!(glob::alternatives(&format!("/{many}")).is_err());
}

#[test]
fn names_fit_as_they_do_in_a_shell_but_for_the_dot() {
    let table = [
        ("*", ".env", true),
        ("*.pem", "a.pem", true),
        ("*.pem", "a.pem2", false),
        ("?", "ä", true),
        ("?", "ab", false),
        ("[a-c]x", "bx", true),
        ("[!a-c]x", "bx", false),
        ("[!a-c]x", "dx", true),
        ("a*b*c", "aXbYc", true),
        ("*\n*", "a\nb", true),
    ];
    for (pattern, name, expected) in table {
        let names = Names::parse(pattern).expect(pattern);
        // In a directory that is not there nothing is found in another case.
        let fit = |name: &OsStr| names.fit(Path::new("/missing"), name);
        assert_eq!(fit(name.as_ref()), expected, "{pattern} {name}");
    }
    let names = Names::parse("*.key").expect("a pattern");
    assert!(names.fit(Path::new("/missing"), OsStr::from_bytes(b"\xff.key")));
}

#[test]
fn a_pattern_fits_in_any_case_where_a_directory_finds_names_so() {
    for (pattern, name, expected) in [
        ("*.env", "A.ENV", true),
        ("*.ENV", "a.env", true),
        ("[a-c]x", "BX", true),
        ("[!A-C]x", "bX", false),
        ("*\u{e9}", "a\u{c9}", true),
        ("*.env", "a\u{200d}.en\u{200d}v", true),
        ("*.env", "a.envy", false),
    ] {
        let names = Names::parse(pattern).expect(pattern);
        assert_eq!(names.fit_in_any_case(name), expected, "{pattern} {name}");
    }
}

#[test]
fn a_tree_is_searched_where_it_can_match() {
    let dir = std::env::temp_dir().join(format!("srt-patterns-{}", std::process::id()));
    let files = [
        ".env",
        "a/.env",
        "a/b/c/d/e/f/g/h/i/j/k/.env",
        ".hidden/.env",
        "a/x.pem",
        "b/x.pem",
        "a/new\nline/.env",
        "only/[id].tsx",
    ];
    for file in files {
        let file = dir.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "").unwrap();
    }
    symlink(".", dir.join("a/loop")).unwrap();
    symlink("../a", dir.join("b/to-a")).unwrap();
    let found = |pattern: &str| {
        let mut found: Vec<PathBuf> = Vec::new();
        for text in glob::alternatives(pattern).expect(pattern) {
            let glob = Glob::parse(&text).expect(pattern);
            found.extend(walk::find(&dir, &glob, Closed::Matches).expect(pattern));
        }
        found.sort();
        let below = found.iter().map(|path| path.strip_prefix(&dir).unwrap());
        below
            .map(|path| path.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("**/.env"),
        [
            ".env",
            ".hidden/.env",
            "a/.env",
            "a/b/c/d/e/f/g/h/i/j/k/.env",
            "a/new\nline/.env"
        ]
    );
    assert_eq!(found("{a,b}/*.pem"), ["a/x.pem", "b/x.pem"]);
    assert_eq!(found("*/to-a/*.pem"), ["b/to-a/x.pem"]);
    assert_eq!(found("a/**"), ["a"]);
    assert_eq!(found("missing/**/x"), [""; 0]);
    assert_eq!(found("**/**/x.pem"), ["a/x.pem", "b/x.pem"]);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_search_of_everything_ends() {
    let glob = Glob::parse("usr/**/no-file-has-this-name").unwrap();
    let found = walk::find(Path::new("/"), &glob, Closed::Passes);
    // Either it looks everywhere and finds nothing, or it says that this is too much.
    assert!(found.map_or(true, |found| found.is_empty()));
}
