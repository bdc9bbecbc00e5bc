//! Who may use whom: the table of the architecture, held against every path in the source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A unit of the design, and the paths of other units that it may name.
type Row = (&'static str, &'static [&'static str]);

const TABLE: [Row; 22] = [
    ("error", &[]),
    ("settings", &["error"]),
    ("audit", &["error", "settings::Origin"]),
    ("linux::sys", &["error"]),
    ("linux::passing", &[]),
    ("linux::unix_diag", &[]),
    ("linux::netlink", &[]),
    ("linux::inet_diag", &["linux::unix_diag"]),
    ("linux::datagrams", &["linux::sys"]),
    ("linux::processes", &["audit::event", "policy::secrets"]),
    ("linux::executor", &["linux::sys", "linux::passing"]),
    // A denial carries the code, rule and remedy that its event reports; see ARCHITECTURE.md.
    ("policy", &["error", "settings", "audit::event"]),
    ("egress", &["error", "policy", "audit"]),
    ("backend", &["error", "policy"]),
    (
        "linux::support",
        &["error", "linux::sys", "linux::unix_diag", "linux::netlink"],
    ),
    (
        "linux::plan",
        &["error", "policy", "backend", "linux::support"],
    ),
    (
        "linux::launch",
        &[
            "error",
            "policy",
            "backend",
            "linux::support",
            "linux::sys",
            "linux::passing",
            "linux::unix_diag",
            "linux::netlink",
            "linux::datagrams",
            "linux::executor",
            "linux::plan",
        ],
    ),
    (
        "linux::broker",
        &[
            "error",
            "policy",
            "audit",
            "linux::sys",
            "linux::passing",
            "linux::unix_diag",
            "linux::executor",
            "linux::netlink",
            "linux::inet_diag",
            "linux::datagrams",
            "linux::processes",
        ],
    ),
    (
        "linux",
        &[
            "error",
            "policy",
            "backend",
            "linux::support",
            "linux::sys",
            "linux::passing",
            "linux::plan",
            "linux::launch",
            "linux::broker",
        ],
    ),
    (
        "sandbox",
        &[
            "error",
            "settings",
            "audit",
            "policy",
            "egress",
            "backend",
            "linux",
            "linux::support",
            "linux::sys",
            "linux::passing",
            "linux::inet_diag",
            "linux::netlink",
            "linux::processes",
            "linux::plan",
            "linux::launch",
            "linux::broker",
        ],
    ),
    (
        "cli",
        &[
            "error",
            "settings",
            "audit",
            "policy",
            "backend",
            "linux::support",
            "sandbox",
        ],
    ),
    ("main", &["error", "cli"]),
];

const LONGEST_FILE: usize = 500;

#[test]
fn arrows_between_modules_go_down_only() {
    let sources = sources();
    let violations: Vec<String> = sources
        .iter()
        .flat_map(|source| {
            let uses = uses(source);
            uses.into_iter()
                .filter_map(|used| violation(&source.module, &used))
        })
        .collect();
    assert!(sources.len() > 20, "the sources are not where they were");
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn every_unit_of_the_table_is_a_module() {
    let units: BTreeSet<&str> = TABLE.iter().map(|(unit, _)| *unit).collect();
    for unit in &units {
        let file = Path::new("src").join(unit.replace("::", "/"));
        assert!(file.with_extension("rs").is_file(), "{unit} is no module");
    }
    for (unit, allowed) in TABLE {
        for entry in allowed {
            let is_known = units.iter().any(|unit| is_below(entry, unit));
            assert!(is_known, "{unit} may use {entry}, which is in no unit");
        }
    }
}

#[test]
fn top_modules_form_no_cycle() {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources() {
        let from = first(&source.module).to_owned();
        let to = uses(&source)
            .into_iter()
            .map(|used| first(&used).to_owned());
        let to: Vec<String> = to.filter(|to| *to != from).collect();
        graph.entry(from).or_default().extend(to);
    }
    // `audit` names `settings::Origin` and settings name nothing of `audit`: that is no cycle.
    assert_eq!(cycle(&graph), None);
}

#[test]
fn unsafe_code_lives_in_one_file() {
    let offenders = files_with("unsafe");
    assert_eq!(offenders, [Path::new("src/linux/sys.rs")]);
}

#[test]
fn at_most_three_files_ask_for_the_operating_system() {
    let files = files_with("target_os");
    assert!(files.len() <= 3, "{files:?}");
}

#[test]
fn no_file_is_longer_than_five_hundred_lines() {
    let mut files = rust_files(Path::new("src"));
    files.extend(rust_files(Path::new("tests")));
    let long: Vec<String> = files
        .into_iter()
        .map(|path| (read(&path).lines().count(), path))
        .filter(|(lines, _)| *lines > LONGEST_FILE)
        .map(|(lines, path)| format!("{}: {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn an_upward_arrow_is_found() {
    let source = Source::made_up(
        "policy::host",
        "use crate::{error::Kind, sandbox::run as go};",
    );
    assert_eq!(uses(&source), ["error::Kind", "sandbox::run"]);
    assert_eq!(violation("policy::host", "error::Kind"), None);
    assert_eq!(
        violation("policy::host", "sandbox::run").as_deref(),
        Some("policy::host uses sandbox::run: policy may not use sandbox")
    );
    let only_origin = violation("audit::recorder", "settings::Settings");
    assert!(only_origin.is_some());
}

#[test]
fn paths_outside_use_lines_and_through_super_are_found() {
    let text = r##"
        // crate::egress in a comment, and "crate::egress" in a string, are no use.
        const TEXT: (&str, char) = (r#"crate::egress " "#, '"');
        fn plan(command: crate::backend::Command) { super::super::cli::parse(); }
        /* /* nested */ crate::cli */
        mod tests { use super::*; use super::super::launch; fn f<'a>(_: &'a str) {} }
        use super::{Layers, sys::{self, Forked}};
    "##;
    let source = Source::made_up("linux::plan", text);
    let expected = [
        "backend::Command",
        "cli::parse",
        "linux::Layers",
        "linux::launch",
        "linux::plan",
        "linux::sys",
        "linux::sys::Forked",
    ];
    assert_eq!(uses(&source), expected);
    assert!(violation("linux::plan", "linux::launch").is_some());
}

#[test]
fn a_cycle_is_found() {
    let edge = |to: &str| BTreeSet::from([to.to_owned()]);
    let mut graph = BTreeMap::from([("a".to_owned(), edge("b")), ("b".to_owned(), edge("c"))]);
    assert_eq!(cycle(&graph), None);
    graph.insert("c".to_owned(), edge("a"));
    assert!(cycle(&graph).is_some());
}

/// One file: the module it is, and its tokens.
struct Source {
    path: PathBuf,
    module: String,
    tokens: Vec<String>,
}

impl Source {
    fn read(path: PathBuf) -> Self {
        let inner = path.strip_prefix("src").expect("listed below src");
        let module = inner.with_extension("").display().to_string();
        Self {
            module: module.replace('/', "::"),
            tokens: tokens(&read(&path)),
            path,
        }
    }

    fn made_up(module: &str, text: &str) -> Self {
        Self {
            path: PathBuf::new(),
            module: module.to_owned(),
            tokens: tokens(text),
        }
    }
}

/// Returns every source but the crate page, which names all modules.
fn sources() -> Vec<Source> {
    let mut paths = rust_files(Path::new("src"));
    paths.retain(|path| path != Path::new("src/lib.rs"));
    paths.into_iter().map(Source::read).collect()
}

/// Says what is wrong with module `from` naming path `to`, if anything is.
fn violation(from: &str, to: &str) -> Option<String> {
    // The crate page re-exports this one.
    let to = if to == "Audit" { "audit::Audit" } else { to };
    let (from_unit, allowed) = TABLE
        .iter()
        .filter(|(unit, _)| is_below(from, unit))
        .max_by_key(|(unit, _)| unit.len())?;
    let unit_of = |path: &str| {
        let units = TABLE.iter().map(|(unit, _)| *unit);
        let units = units.filter(|unit| is_below(path, unit));
        units
            .max_by_key(|unit| unit.len())
            .unwrap_or("no known unit")
    };
    let to_unit = unit_of(to);
    let may = *from_unit == to_unit
        || allowed
            .iter()
            .any(|entry| is_below(to, entry) && unit_of(entry) == to_unit);
    (!may).then(|| format!("{from} uses {to}: {from_unit} may not use {to_unit}"))
}

fn is_below(path: &str, prefix: &str) -> bool {
    let rest = path.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn first(path: &str) -> &str {
    path.split("::").next().unwrap_or(path)
}

/// Returns the paths from the crate root that a source names, sorted.
fn uses(source: &Source) -> Vec<String> {
    let tokens = &source.tokens;
    let mut found = BTreeSet::new();
    let mut scope: Vec<String> = source.module.split("::").map(str::to_owned).collect();
    // For each open brace: whether it is the body of a module.
    let mut braces = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let starts_path = at == 0 || tokens[at - 1] != "::";
        match tokens[at].as_str() {
            "{" => {
                let is_module = at >= 2 && tokens[at - 2] == "mod";
                if is_module {
                    scope.push(tokens[at - 1].clone());
                }
                braces.push(is_module);
            }
            "}" if braces.pop() == Some(true) => drop(scope.pop()),
            "crate" | "sandbox_runtime" | "super" if starts_path => {
                let next = tokens.get(at + 1).map(String::as_str);
                if next == Some("::") {
                    at = expand(tokens, at, &scope, &mut found);
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    found.into_iter().filter(|path| !path.is_empty()).collect()
}

/// Adds the paths of the tree that starts at `at`, and returns where it ends.
fn expand(
    tokens: &[String],
    mut at: usize,
    prefix: &[String],
    found: &mut BTreeSet<String>,
) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        match token.as_str() {
            "crate" | "sandbox_runtime" => path.clear(),
            "super" => drop(path.pop()),
            "self" | "*" | "::" => {}
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    if is_name(&tokens[at]) {
                        at = expand(tokens, at, &path, found);
                    } else {
                        at += 1;
                    }
                }
                return at + 1;
            }
            name if is_name(name) => path.push(name.to_owned()),
            _ => break,
        }
        at += 1;
        let goes_on = tokens[at - 1] == "::" || tokens.get(at).is_some_and(|token| token == "::");
        if !goes_on {
            break;
        }
    }
    found.insert(path.join("::"));
    // `as name` is no path.
    match tokens.get(at) {
        Some(token) if token == "as" => at + 2,
        _ => at,
    }
}

fn is_name(token: &str) -> bool {
    token == "*" || token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Splits Rust into names, `::` and single characters, without comments and literals.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            block_comment(rest)
        } else if let Some(len) = literal(rest) {
            len
        } else if c.is_alphanumeric() || c == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let len = len.unwrap_or(rest.len());
            tokens.push(rest[..len].to_owned());
            len
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            c.len_utf8()
        };
        rest = &rest[len..];
    }
    tokens
}

fn block_comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Returns the length of the string or character literal that `text` starts with.
fn literal(text: &str) -> Option<usize> {
    let body = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - body.len();
    if prefix > 1 {
        return None;
    }
    if let Some(raw) = body.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let inner = raw[hashes..].strip_prefix('"')?;
        let end = inner.find(&format!("\"{}", "#".repeat(hashes)))?;
        return Some(prefix + 1 + hashes + 1 + end + 1 + hashes);
    }
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut escaped = false;
    let mut chars = body.char_indices().skip(1);
    // `'a` is a lifetime: a character literal holds one character or an escape.
    if quote == '\'' && !body.starts_with("'\\") && body.chars().nth(2) != Some('\'') {
        return None;
    }
    let end = chars.find(|(_, c)| {
        let ends = !escaped && *c == quote;
        escaped = !escaped && *c == '\\';
        ends
    });
    end.map(|(at, _)| prefix + at + 1)
}

/// Returns a module that lies on a cycle, if there is one.
fn cycle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let mut left = graph.clone();
    loop {
        let free = left
            .iter()
            .find(|(_, to)| !to.iter().any(|to| left.contains_key(to)))
            .map(|(module, _)| module.clone());
        match free {
            Some(module) => drop(left.remove(&module)),
            None => return left.into_keys().next(),
        }
    }
}

fn files_with(name: &str) -> Vec<PathBuf> {
    let paths = rust_files(Path::new("src"));
    let sources = paths.into_iter().map(Source::read);
    let with = sources.filter(|source| source.tokens.iter().any(|token| token == name));
    with.map(|source| source.path).collect()
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).expect("tests run in the package directory") {
        let path = entry.expect("the directory is readable").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("sources are readable UTF-8")
}
