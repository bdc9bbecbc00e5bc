//! What programs need to start, which is shown where everything is hidden (`data/base.json`).

use std::path::{Path, PathBuf};

use super::rules::{List, Rule};
use super::{Access, Filesystem, Named, in_private_tree};
use crate::policy::host::Host;
use crate::policy::path::{Link, Resolver, Way};
use crate::policy::secrets;
use crate::settings::{Origin, shown};

/// A `*` in the last name stands for anything.
const BASE: &[&str] = include!(concat!(env!("OUT_DIR"), "/base.rs"));

impl Filesystem {
    /// Shows what of the base set is there, if a rule hides `/`.
    pub(super) fn show_base(&mut self, resolver: &mut Resolver) {
        if self.access(Path::new("/")) != Access::Hidden {
            return;
        }
        for place in BASE.iter().copied().map(PathBuf::from) {
            for place in secrets::expanded(place) {
                let way = resolver.way(&place);
                // A command of an earlier run could have made it lead to anything.
                if way.links.iter().any(|link| self.is_replaceable(&link.path)) {
                    self.notes.push(format!(
                        "{} is not shown with the base set: it leads over a link in a writable \
                         directory",
                        shown(&place)
                    ));
                    continue;
                }
                self.lead(&way);
                if let Ok(path) = way.real()
                    && !in_private_tree(path.as_path())
                {
                    let entry = place.to_string_lossy().into_owned();
                    let origin = Origin::built_in("filesystem.allowRead");
                    let rule = Rule {
                        path,
                        entry,
                        origin,
                    };
                    self.push(List::Base, rule);
                }
            }
        }
    }

    /// Says where a grant shows all that a rule for `/` or for the home hides, as one of the
    /// working directory does that is meant for a project.
    pub(super) fn warn_of_void_denies(&mut self, host: &Host, resolver: &mut Resolver) {
        let home = host.home.as_deref().map(|home| resolver.way(home).end);
        for top in [Some(PathBuf::from("/")), home].into_iter().flatten() {
            let hiding = self.at(&top, &[List::DenyRead]).into_iter().next();
            let lists = [List::AllowRead, List::AllowWrite];
            let showing = self.at(&top, &lists).into_iter().next();
            if let (Some(hiding), Some(showing)) = (hiding, showing) {
                let warning = format!(
                    "{} `{}` shows all of {}, which {} `{}` hides",
                    showing.origin.name(),
                    showing.entry,
                    shown(&top),
                    hiding.origin.name(),
                    hiding.entry
                );
                self.warnings.push(warning);
            }
        }
    }

    /// Notes the links that lead to what is granted, which may lie in what is hidden.
    pub(super) fn lead_to<'a>(&mut self, granted: impl Iterator<Item = &'a Named<'a>>) {
        for Named { way, .. } in granted {
            self.lead(way);
        }
    }

    fn lead(&mut self, way: &Way) {
        if way.found.is_err() {
            return;
        }
        let links = way.links.iter().filter(|link| !in_private_tree(&link.path));
        self.leading
            .extend(links.map(|link| (link.path.clone(), link.clone())));
    }

    /// Returns the hidden links that lead to what is shown: the names in the settings are those
    /// that programs use.
    pub fn hidden_links(&self) -> impl Iterator<Item = &Link> {
        let links = self.leading.values();
        links.filter(|link| self.access(&link.path) == Access::Hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_the_whole_set_with_reasons() {
        let data: serde_json::Value =
            serde_json::from_str(include_str!("../../../data/base.json")).unwrap();
        let mut places = Vec::new();
        let mut rows = String::new();
        for shown in data["shown"].as_array().unwrap() {
            let also = shown["also"].as_array().into_iter().flatten();
            let all = [&shown["path"]].into_iter().chain(also);
            let all: Vec<_> = all.map(|place| place.as_str().unwrap()).collect();
            let quoted: Vec<_> = all.iter().map(|place| format!("`{place}`")).collect();
            let reason = shown["reason"].as_str().unwrap();
            rows += &format!("| {} | {reason} |\n", quoted.join(", "));
            places.extend(all);
        }
        assert_eq!(places, BASE);
        let text = include_str!("../../../docs/read-closed.md");
        let found = text.lines().filter(|line| line.starts_with("| `/"));
        let found: String = found.map(|line| format!("{line}\n")).collect();
        assert_eq!(found, rows);
    }

    #[test]
    fn no_place_of_the_set_holds_a_store_of_secrets() {
        let closed = [
            "/etc/shadow",
            "/etc/gshadow",
            "/etc/sudoers",
            "/etc/sudoers.d",
            "/etc/ssh",
            "/etc/ssl/private",
            "/etc/pki/tls/private",
            "/etc/security",
            "/etc/krb5.keytab",
            "/etc/wireguard",
            "/etc/NetworkManager",
            "/etc/environment",
            "/etc/profile.d",
            "/home",
            "/root",
            "/srv",
            "/tmp",
            "/var/lib/docker",
            "/var/log",
            "/var/run",
        ];
        for place in BASE {
            let fixed = place.trim_end_matches('*');
            let holds = |closed: &&str| {
                let is_below = closed.strip_prefix(place);
                is_below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    || (fixed != *place && closed.starts_with(fixed))
            };
            assert_eq!(closed.iter().find(|path| holds(path)), None, "{place}");
        }
    }
}
