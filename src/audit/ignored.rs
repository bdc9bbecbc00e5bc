//! Denials that the settings leave out of reports (`ignoreViolations`). What is denied stays
//! denied.

use std::borrow::Cow;

use serde::Deserialize;

/// Texts that a denial which is left out holds.
#[derive(Debug, Clone, Default)]
pub struct Ignored(Vec<String>);

/// What is read of an event.
#[derive(Deserialize)]
struct Seen<'a> {
    #[serde(borrow)]
    op: Cow<'a, str>,
    #[serde(borrow)]
    target: Option<Cow<'a, str>>,
    #[serde(borrow)]
    verdict: Option<Cow<'a, str>>,
}

/// What is written for any command.
const ANY: &str = "*";

impl Ignored {
    /// Takes of each list, by a text of the command or `*`, what goes for `command`.
    pub fn of<'a, T: AsRef<str>>(lists: impl Iterator<Item = (&'a str, T)>, command: &str) -> Self {
        let own = lists.filter(|(part, _)| *part == ANY || command.contains(part));
        Self(own.map(|(_, text)| text.as_ref().to_owned()).collect())
    }

    /// Tells whether reports leave an event out.
    pub(super) fn leaves_out(&self, event: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let Ok(seen) = serde_json::from_str::<Seen<'_>>(event) else {
            return false;
        };
        let (Some("denied"), Some(target)) = (seen.verdict.as_deref(), seen.target) else {
            return false;
        };
        let line = format!("{} {target}", seen.op);
        self.0.iter().any(|text| line.contains(text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_for_their_command_and_for_denials_alone() {
        let lists = [("npm", "/cache"), ("*", "mkdir /srv"), ("cargo", "x.test")];
        let ignored = Ignored::of(lists.into_iter(), "npm install");
        let event = |verdict: &str, op: &str, target: &str| {
            format!(r#"{{"kind":"file","op":"{op}","target":"{target}","verdict":"{verdict}"}}"#)
        };
        assert!(ignored.leaves_out(&event("denied", "open", "/home/cache/x")));
        assert!(ignored.leaves_out(&event("denied", "mkdir", "/srv/a")));
        assert!(!ignored.leaves_out(&event("denied", "open", "/srv/a")));
        assert!(!ignored.leaves_out(&event("allowed", "mkdir", "/srv/a")));
        assert!(!ignored.leaves_out(&event("denied", "connect", "x.test:443")));
        let run = r#"{"op":"start","target":null,"verdict":"denied"}"#;
        assert!(!ignored.leaves_out(run));
        assert!(!Ignored::default().leaves_out(&event("denied", "open", "/cache")));
    }
}
