//! Every settings key there is: built, or known and refused unless it holds its default.
//!
//! A key that stands in no line of this table is an error, so nothing is ignored in silence.

use super::source::quoted;
use super::{Entry, Settings};

/// One key.
#[derive(Debug)]
pub(super) struct Key {
    /// Full name, with the sections it stands in: `network.allowedDomains`.
    pub(super) path: &'static str,
    /// What it may hold.
    pub(super) shape: Shape,
}

/// What a key may hold.
#[derive(Debug)]
pub(super) enum Shape {
    /// An object of further keys.
    Section,
    /// A string for editors, without meaning here.
    Note,
    /// An array of strings.
    Hosts(List),
    /// An array of strings and `{ "path": …, "literal": true }`.
    Paths(List),
    /// Not built: only this default is accepted, or nothing at all where there is none.
    Unbuilt(Option<&'static str>),
}

type List = fn(&mut Settings) -> &mut Vec<Entry>;

impl Key {
    /// The name without its sections.
    fn name(&self) -> &'static str {
        self.path
            .rsplit_once('.')
            .map_or(self.path, |(_, name)| name)
    }

    /// The sections, `""` for the top.
    fn section(&self) -> &'static str {
        self.path
            .rsplit_once('.')
            .map_or("", |(section, _)| section)
    }
}

/// Finds a key by its section (`""` for the top) and name.
pub(super) fn find(section: &str, name: &str) -> Option<&'static Key> {
    KEYS.iter()
        .find(|key| key.section() == section && key.name() == name)
}

/// Says what an unknown key may have been meant as.
pub(super) fn advice(section: &str, name: &str) -> String {
    if let Some(key) = KEYS.iter().find(|key| key.name() == name) {
        return match key.section() {
            "" => "; it belongs at the top level".to_owned(),
            home => format!("; it belongs in `{home}`"),
        };
    }
    if let Some(key) = KEYS.iter().find(|key| key.path == name) {
        return format!(
            "; write `{}` inside the object of `{}`",
            key.name(),
            key.section()
        );
    }
    let here = KEYS.iter().filter(|key| key.section() == section);
    if let Some(key) = nearest(here, name) {
        return format!("; did you mean {}?", quoted(key.name()));
    }
    match nearest(KEYS.iter(), name) {
        Some(key) => format!("; did you mean {}?", quoted(key.path)),
        None => String::new(),
    }
}

fn nearest(keys: impl Iterator<Item = &'static Key>, name: &str) -> Option<&'static Key> {
    // A longer name cannot be near any, and is not worth the time.
    if name.len() > 64 {
        return None;
    }
    let far = |key: &&Key| distance(&key.name().to_lowercase(), &name.to_lowercase());
    keys.map(|key| (far(&key), key))
        .filter(|(far, key)| *far <= 1 + key.name().len() / 5)
        .min_by_key(|(far, _)| *far)
        .map(|(_, key)| key)
}

/// Counts the insertions, deletions and replacements between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

const fn section(path: &'static str) -> Key {
    Key {
        path,
        shape: Shape::Section,
    }
}

const fn unbuilt(path: &'static str, default: &'static str) -> Key {
    Key {
        path,
        shape: Shape::Unbuilt(Some(default)),
    }
}

const fn unbuilt_without_default(path: &'static str) -> Key {
    Key {
        path,
        shape: Shape::Unbuilt(None),
    }
}

const fn hosts(path: &'static str, list: List) -> Key {
    Key {
        path,
        shape: Shape::Hosts(list),
    }
}

const fn paths(path: &'static str, list: List) -> Key {
    Key {
        path,
        shape: Shape::Paths(list),
    }
}

static KEYS: &[Key] = &[
    Key {
        path: "$schema",
        shape: Shape::Note,
    },
    section("network"),
    hosts("network.allowedDomains", |settings| {
        &mut settings.network.allowed_domains
    }),
    hosts("network.deniedDomains", |settings| {
        &mut settings.network.denied_domains
    }),
    unbuilt("network.deniedDomainReasons", "{}"),
    unbuilt("network.strictAllowlist", "false"),
    unbuilt("network.deniedResolvedAddresses", "[]"),
    unbuilt("network.allowUnixSockets", "[]"),
    unbuilt("network.allowAllUnixSockets", "false"),
    unbuilt("network.allowLocalBinding", "false"),
    unbuilt("network.allowMachLookup", "[]"),
    unbuilt_without_default("network.httpProxyPort"),
    unbuilt_without_default("network.socksProxyPort"),
    unbuilt_without_default("network.mitmProxy"),
    section("network.parentProxy"),
    unbuilt_without_default("network.parentProxy.http"),
    unbuilt_without_default("network.parentProxy.https"),
    unbuilt_without_default("network.parentProxy.noProxy"),
    // No section: an empty object already asks for TLS to be terminated.
    unbuilt_without_default("network.tlsTerminate"),
    unbuilt_without_default("network.filterRequest"),
    unbuilt("network.allowPlaintextHeaderSet", "false"),
    unbuilt("network.stripResponseHeaders", "[]"),
    unbuilt("network.refuseOpaqueTunnels", "false"),
    unbuilt("network.requireHostMatch", "false"),
    unbuilt("network.ambiguousRequestTarget", "\"refuse\""),
    section("filesystem"),
    unbuilt("filesystem.disabled", "false"),
    paths("filesystem.denyRead", |settings| {
        &mut settings.filesystem.deny_read
    }),
    paths("filesystem.allowRead", |settings| {
        &mut settings.filesystem.allow_read
    }),
    paths("filesystem.allowWrite", |settings| {
        &mut settings.filesystem.allow_write
    }),
    paths("filesystem.denyWrite", |settings| {
        &mut settings.filesystem.deny_write
    }),
    unbuilt("filesystem.allowGitConfig", "false"),
    section("credentials"),
    unbuilt("credentials.files", "[]"),
    unbuilt("credentials.envVars", "[]"),
    unbuilt("credentials.allowPlaintextInject", "false"),
    unbuilt("credentials.awsPairs", "[]"),
    section("credentials.sigv4"),
    unbuilt("credentials.sigv4.streaming", "\"deny\""),
    unbuilt("credentials.sigv4.presigned", "\"deny\""),
    unbuilt("credentials.sigv4.sigv4a", "\"deny\""),
    unbuilt("ignoreViolations", "{}"),
    unbuilt("enableWeakerNestedSandbox", "false"),
    unbuilt("allowNestedUserNamespaces", "false"),
    unbuilt("enableWeakerNetworkIsolation", "false"),
    unbuilt("allowAppleEvents", "false"),
    unbuilt("allowPty", "false"),
    section("ripgrep"),
    unbuilt("ripgrep.command", "\"rg\""),
    unbuilt("ripgrep.args", "[]"),
    unbuilt_without_default("ripgrep.argv0"),
    unbuilt("mandatoryDenySearchDepth", "3"),
    section("seccomp"),
    unbuilt_without_default("seccomp.applyPath"),
    unbuilt_without_default("seccomp.argv0"),
    unbuilt_without_default("bwrapPath"),
    unbuilt_without_default("socatPath"),
    unbuilt_without_default("javaAgentJarPath"),
    section("git"),
    unbuilt("git.safeDirectories", "[]"),
    unbuilt("windows", "{}"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_stands_once_in_a_section_of_the_table() {
        for (index, key) in KEYS.iter().enumerate() {
            assert!(
                !KEYS[..index].iter().any(|other| other.path == key.path),
                "{}",
                key.path
            );
            let home = key.section();
            let known = KEYS
                .iter()
                .any(|other| other.path == home && matches!(other.shape, Shape::Section));
            assert!(home.is_empty() || known, "{}", key.path);
        }
    }

    #[test]
    fn every_default_is_json() {
        for key in KEYS {
            if let Shape::Unbuilt(Some(default)) = key.shape {
                assert!(
                    serde_json::from_str::<serde_json::Value>(default).is_ok(),
                    "{default}"
                );
            }
        }
    }

    #[test]
    fn a_dotted_name_is_no_key() {
        assert!(find("", "network.allowedDomains").is_none());
        assert!(find("network", "allowedDomains").is_some());
    }

    #[test]
    fn unknown_keys_are_answered_with_the_one_that_was_meant() {
        let table = [
            ("filesystem", "denyWrit", "; did you mean `denyWrite`?"),
            ("filesystem", "DenyWrite", "; did you mean `denyWrite`?"),
            ("filesystem", "allowWrites", "; did you mean `allowWrite`?"),
            ("", "denyRead", "; it belongs in `filesystem`"),
            ("network", "denyRead", "; it belongs in `filesystem`"),
            ("filesystem", "network", "; it belongs at the top level"),
            ("", "denyReed", "; did you mean `filesystem.denyRead`?"),
            ("", "newtork", "; did you mean `network`?"),
            (
                "network",
                "allowDomains",
                "; did you mean `allowedDomains`?",
            ),
            (
                "",
                "network.allowedDomains",
                "; write `allowedDomains` inside the object of `network`",
            ),
            ("", "zzz", ""),
        ];
        for (section, name, expected) in table {
            assert_eq!(advice(section, name), expected, "{section} {name}");
        }
    }

    #[test]
    fn distance_counts_single_edits() {
        assert_eq!(distance("denyread", "denyread"), 0);
        assert_eq!(distance("denyread", "denyreed"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
