//! What was found by looking around, for people and for programs.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::policy::filesystem::{HardLink, Survey};
use crate::settings::shown;

/// Lines of one kind that are printed; a store of packages has thousands of hard links.
const MOST: usize = 20;

/// Says it in lines for people.
pub(super) fn lines(survey: &Survey) -> Vec<String> {
    let env_files = survey.env_files.iter();
    let env_files = env_files.map(|path| format!("stays readable: {}", shown(path)));
    let mut lines = some(env_files, "more files of variables stay readable");
    let hard_links = survey.hard_links.iter().map(sentence);
    lines.extend(some(hard_links, "more files have names with other rights"));
    lines.extend(survey.bound.map(|bound| {
        format!(
            "looked at {bound} names and no further: there may be more .env files and hard links"
        )
    }));
    lines
}

fn some(lines: impl ExactSizeIterator<Item = String>, more: &str) -> Vec<String> {
    let left = lines.len().saturating_sub(MOST);
    let mut lines: Vec<_> = lines.take(MOST).collect();
    lines.extend((left > 0).then(|| format!("{left} {more}")));
    lines
}

fn sentence(link: &HardLink) -> String {
    let path = shown(&link.path);
    let names = link.names;
    match (&link.denied, link.is_denied) {
        (Some(denied), _) => format!(
            "hard link: {path} is the same file as {}, which is denied: by this name it is not",
            shown(denied)
        ),
        (None, true) => {
            format!("hard link: {path} is denied and has {names} names, which are not all denied")
        }
        (None, false) => format!(
            "hard link: {path} has {names} names, some outside of what may be written: what is \
             written to it changes them too"
        ),
    }
}

/// Says it in one object.
pub(super) fn json(survey: &Survey) -> Json {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let env_files = survey.env_files.iter().map(|path| text(path));
    let hard_links = survey.hard_links.iter().map(|link| {
        json!({
            "path": text(&link.path),
            "names": link.names,
            "denied": link.is_denied,
            "deniedAs": link.denied.as_deref().map(text),
        })
    });
    json!({
        "envFiles": env_files.collect::<Json>(),
        "hardLinks": hard_links.collect::<Json>(),
        "stoppedAt": survey.bound,
    })
}
