//! Why a path may not be used as a program asks, as events say it.

use std::path::Path;

use super::rules::Rule;
use super::{Access, Filesystem, Right, in_private_tree, secrets};
use crate::audit::event::Code;
use crate::policy::change::Change;
use crate::policy::path;

/// What a program asks of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Use {
    /// To read what is there.
    Read,
    /// To change what is there.
    Content,
    /// To make, move or remove the name, which is to write its directory.
    Name,
}

/// A use that the rules refuse.
#[derive(Debug, Clone)]
pub struct Denial<'a> {
    /// Why.
    pub code: Code,
    /// The rule that refuses it; `None` for the lack of one.
    pub rule: Option<&'a Rule>,
    /// What would allow it, made together; nothing where nothing does.
    pub changes: Vec<Change>,
}

impl Use {
    fn right(self) -> Right {
        match self {
            Self::Read => Right::Read,
            Self::Content | Self::Name => Right::Write,
        }
    }
}

impl Filesystem {
    /// Tells whether there is a [`Filesystem::denial`].
    pub fn refuses(&self, path: &Path, wanted: Use) -> bool {
        !self.decide(path).grants(wanted.right()) && !in_private_tree(path)
    }

    /// Judges a use of `path`, which must be as for [`Filesystem::decide`]; `None` where it is
    /// granted, or where the path lies in a tree that every run replaces by its own.
    pub fn denial(&self, path: &Path, wanted: Use) -> Option<Denial<'_>> {
        if !self.refuses(path, wanted) {
            return None;
        }
        let right = wanted.right();
        let decision = self.decide(path);
        let is_hidden = decision.access == Access::Hidden;
        let rule = match is_hidden {
            true => decision.read_rule,
            false => decision.write_rule,
        };
        let code = match rule {
            Some(rule) if is_hidden && rule.origin.key == secrets::KEY => Code::ReadSecret,
            _ if is_hidden => Code::ReadDenied,
            Some(rule) if self.protecting(rule).is_some() => Code::WriteProtected,
            Some(_) => Code::WriteDenied,
            None => Code::WriteUnlisted,
        };
        let mut changes = self.changes(path, right);
        if let (Use::Name, Some(directory)) = (wanted, path.parent()) {
            grant_directory(&mut changes, path, directory);
        }
        Some(Denial {
            code,
            rule,
            changes,
        })
    }
}

/// A name that is not there cannot be granted, and one that is granted alone cannot be removed.
fn grant_directory(changes: &mut [Change], path: &Path, directory: &Path) {
    for change in changes {
        if let Change::Add {
            key: "filesystem.allowWrite",
            entry,
            literal,
        } = change
            && Path::new(entry) == path
            && let Some(text) = directory.to_str()
        {
            text.clone_into(entry);
            *literal = path::has_pattern(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(policy: &Filesystem, path: &str, wanted: Use) -> String {
        let denial = policy.denial(Path::new(path), wanted);
        let changes = denial.expect("it is refused").changes;
        let texts: Vec<_> = changes.iter().map(ToString::to_string).collect();
        texts.join("; ")
    }

    #[test]
    fn a_name_is_opened_by_its_directory_and_what_is_there_by_itself() {
        let policy = Filesystem::of_lists([&[], &[], &["/w"], &[]]);
        let name = changes(&policy, "/r/new", Use::Name);
        assert_eq!(name, "add `/r` to filesystem.allowWrite");
        let name = changes(&policy, "/r/[a]/new", Use::Name);
        assert_eq!(
            name,
            r#"add { "path": "/r/[a]", "literal": true } to filesystem.allowWrite"#
        );
        let content = changes(&policy, "/r/old", Use::Content);
        assert_eq!(content, "add `/r/old` to filesystem.allowWrite");
        assert!(policy.denial(Path::new("/w/new"), Use::Name).is_none());
        assert!(policy.denial(Path::new("/r/old"), Use::Read).is_none());
        assert!(
            policy
                .denial(Path::new("/proc/sys/x"), Use::Content)
                .is_none()
        );
    }
}
