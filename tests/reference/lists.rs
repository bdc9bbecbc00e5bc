//! Lists of paths: drawn ones, those that show a difference, and what explains one.

use std::fmt;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::draw::Draw;
use crate::harness::Scratch;
use crate::ours;

/// The directories of the tree.
const TREE: [&str; 11] = [
    "t", "t/a", "t/b", "t/a/c", "t/a/d", "t/b/c", "t/b/d", "t/a/c/e", "t/a/d/e", "t/b/c/e",
    "t/b/d/e",
];

/// Directories of a project that the reference protects, and the project's own.
const PROJECT: [&str; 4] = ["cwd", "cwd/.vscode", "cwd/.git/hooks", "cwd/src"];

/// The same where no command starts.
const ELSEWHERE: [&str; 2] = ["other", "other/.vscode"];

/// The four lists of one settings file, and where they are tried out.
#[derive(Debug)]
pub(crate) struct Lists {
    deny_read: Vec<Entry>,
    allow_read: Vec<Entry>,
    allow_write: Vec<Entry>,
    deny_write: Vec<Entry>,
    /// The directories of the attempts, in the scratch directory.
    pub(crate) dirs: &'static [&'static str],
}

/// One entry.
#[derive(Debug, Clone)]
struct Entry {
    /// What it names, in the scratch directory; for an entry of another kind, the text.
    name: String,
    value: Value,
}

impl Lists {
    /// Returns lists that forbid nothing in the tree.
    pub(crate) fn open(scratch: &Scratch) -> Self {
        Self::new(scratch, [&[], &[], &["t"], &[]])
    }

    /// Names paths of the scratch directory in the four lists, read before write, deny before
    /// allow for reading, the other way round for writing.
    fn new(scratch: &Scratch, lists: [&[&str]; 4]) -> Self {
        let named = |list: &[&str]| {
            list.iter()
                .map(|name| Entry::named(scratch, name))
                .collect()
        };
        let [deny_read, allow_read, allow_write, deny_write] = lists.map(named);
        Self {
            deny_read,
            allow_read,
            allow_write,
            deny_write,
            dirs: &TREE,
        }
    }

    /// Returns the settings file's content.
    pub(crate) fn settings(&self) -> Value {
        let values = |list: &[Entry]| list.iter().map(|entry| entry.value.clone()).collect();
        let values = |list| -> Vec<Value> { values(list) };
        json!({
            "network": { "allowedDomains": [], "deniedDomains": [] },
            "filesystem": {
                "denyRead": values(&self.deny_read),
                "allowRead": values(&self.allow_read),
                "allowWrite": values(&self.allow_write),
                "denyWrite": values(&self.deny_write),
            },
        })
    }

    /// Says why one program does an act and the other does not.
    pub(crate) fn class(&self, act: &str, path: &str, ours: bool) -> Option<&'static str> {
        let writes = matches!(act, "write" | "create");
        let protected = path.starts_with(ELSEWHERE[1]);
        let any = |list: &[Entry], text: &str| list.iter().any(|entry| entry.name.contains(text));
        let named = |list: &[Entry]| list.iter().any(|entry| entry.name == path);
        let reopened = covers(&self.deny_read, path) && covers(&self.allow_read, path);
        match ours {
            false if writes && protected => Some("path-protected"),
            true if writes && reopened => Some("path-reopened-stays-writable"),
            true if named(&self.deny_read) && named(&self.allow_write) => Some("path-named-twice"),
            true if any(&self.allow_write, "link-") => Some("path-grant-by-link"),
            true if writes && self.allow_write.iter().any(Entry::is_pattern) => {
                Some("path-write-pattern")
            }
            _ => None,
        }
    }

    /// Says why one program starts with these lists and the other does not.
    pub(crate) fn start_class(&self) -> Option<&'static str> {
        let lists = [
            &self.deny_read,
            &self.allow_read,
            &self.allow_write,
            &self.deny_write,
        ];
        let any = |what: fn(&Entry) -> bool| lists.iter().any(|list| list.iter().any(what));
        match () {
            () if any(Entry::is_pattern) => Some("start-pattern"),
            () if self.deny_read.iter().any(|entry| entry.name == "/") => Some("start-hidden-root"),
            () if self.deny_read.iter().any(|entry| entry.name == "cwd") => {
                Some("start-hidden-directory")
            }
            () if any(|entry| entry.name.contains("link-")) => Some("start-replaceable-link"),
            () if self
                .deny_write
                .iter()
                .any(|entry| entry.name.contains("missing")) =>
            {
                Some("start-missing-deny")
            }
            () => None,
        }
    }
}

impl fmt::Display for Lists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.settings()["filesystem"])
    }
}

impl Entry {
    /// Names a path of the scratch directory, or one that starts with `/`.
    fn named(scratch: &Scratch, name: &str) -> Self {
        let path = scratch.path(name);
        Self {
            name: name.to_owned(),
            value: json!(ours::text(&path)),
        }
    }

    fn is_pattern(&self) -> bool {
        let text = self.value.as_str();
        text.is_some_and(|text| text.contains(['*', '?', '[', '{']))
    }
}

fn covers(list: &[Entry], path: &str) -> bool {
    let path = Path::new(path);
    list.iter()
        .any(|entry| entry.name == "/" || path.starts_with(&entry.name))
}

/// Returns lists that show each class of differences, and some where both must agree.
pub(crate) fn witnesses(scratch: &Scratch, package: &Path) -> Vec<Lists> {
    scratch.dir("t/a/c");
    scratch.dir("t/b");
    scratch.dir("t/[x]");
    for link in ["link-out", "t/b/link-in"] {
        symlink(scratch.path("t/a/c"), scratch.path(link)).expect("the names are free");
    }
    let new = |lists| Lists::new(scratch, lists);
    let package = ours::text(package);
    let project = |lists| Lists {
        dirs: &PROJECT,
        ..new(lists)
    };
    vec![
        project([&[], &[], &["cwd"], &[]]),
        Lists {
            dirs: &ELSEWHERE,
            ..new([&[], &[], &["other"], &[]])
        },
        // The deeper of two rules for reading, and the denial of writing, hold in both.
        new([&["t/a"], &["t/a/c"], &["t/b", "t/a/c/e"], &["t/b/c"]]),
        new([&["t"], &["t/b"], &["t/b/c"], &[]]),
        new([&["t/a/note"], &["t/a/note"], &[], &[]]),
        new([&["t/b/note"], &[], &["t/b", "t/b/note"], &[]]),
        new([&[], &[], &["link-out"], &[]]),
        new([&["link-out"], &[], &["t"], &[]]),
        new([&[], &[], &["missing/../t/a"], &[]]),
        new([&["missing"], &["missing"], &["missing"], &["missing"]]),
        new([&[], &[], &["t"], &["t/missing"]]),
        new([&[], &[], &["t"], &["t/b/link-in"]]),
        new([&[], &[], &["t/b", "t/b/link-in"], &[]]),
        new([&[], &[], &["t/*"], &[]]),
        new([&["t/a/**"], &[], &[], &[]]),
        new([&["t/a/none/../*"], &[], &["t"], &[]]),
        new([&["t/[x]"], &[], &[], &[]]),
        new([&["t/note/"], &[], &["t"], &["t/a/note/"]]),
        // With what programs need named, both start; without, one does.
        new([
            &["/"],
            &[
                "/usr", "/bin", "/lib", "/lib64", "/etc", package, "t/a", "cwd",
            ],
            &["t/a/c"],
            &[],
        ]),
        new([&["/"], &["t/a", "cwd"], &[], &[]]),
        new([&["cwd"], &[], &[], &[]]),
        new([&[], &[], &["/"], &["t/a"]]),
    ]
}

/// Draws lists of paths of the tree.
pub(crate) fn draw(draw: &mut Draw, scratch: &Scratch) -> Lists {
    let mut many = |most: usize| {
        let count = draw.below(most + 1);
        (0..count).map(|_| entry(draw, scratch)).collect()
    };
    Lists {
        deny_read: many(3),
        allow_read: many(2),
        allow_write: many(4),
        deny_write: many(2),
        dirs: &TREE,
    }
}

/// Draws a path of the tree in one of the forms an entry may have.
fn entry(draw: &mut Draw, scratch: &Scratch) -> Entry {
    let dir = *draw.pick(&TREE);
    let is_file = draw.chance(20);
    let name = match is_file {
        true => format!("{dir}/note"),
        false => dir.to_owned(),
    };
    let path = scratch.path(&name);
    let path = ours::text(&path);
    let value = match draw.below(10) {
        0 => json!(format!("../{name}")),
        1 => json!(format!("~/../{name}")),
        2 => json!({ "path": path, "literal": true }),
        3 => json!(path.replace("/t/", "/t/./a/../")),
        4 if !is_file => json!(format!("{path}/")),
        _ => json!(path),
    };
    Entry { name, value }
}
