//! Entries that no mount can keep, which are refused rather than kept in part.

use std::path::Path;

use super::{Access, Filesystem, Named};
use crate::error::Result;
use crate::policy::path::{self, Resolver};
use crate::settings::Entry;

impl Filesystem {
    pub(super) fn refuse_hidden_root(&self, entries: &[Entry]) -> Result<()> {
        if self.access(Path::new("/")) != Access::Hidden {
            return Ok(());
        }
        let root = self.decide(Path::new("/")).read_rule;
        let entry = entries
            .iter()
            .find(|entry| root.is_some_and(|root| root.entry == entry.text));
        match entry {
            Some(entry) => Err(path::entry_error(
                entry,
                "hiding / is not supported by this version",
            )
            .with_hint("name the directories to hide")),
            None => Ok(()),
        }
    }

    /// Refuses what a mount cannot keep: a link that could be replaced, since a mount covers
    /// only what it leads to, and a name that could be made, since there is nothing to cover.
    pub(super) fn refuse_unprotected_names(
        &self,
        named: &[Named<'_>],
        resolver: &mut Resolver,
    ) -> Result<()> {
        for Named { entry, way } in named {
            let mut links = way.links.iter();
            let replaceable = links.find(|link| self.is_in_writable(link, resolver));
            if let Some(link) = replaceable {
                let what = format!(
                    "{} is a link in a writable directory: it could be replaced",
                    link.display()
                );
                return Err(path::entry_error(entry, &what).with_hint(
                    "name the path it leads to, and deny writing to the directory of the link",
                ));
            }
            if way.found.is_err() && self.is_in_writable(&way.end, resolver) {
                return Err(path::entry_error(
                    entry,
                    "does not exist in a writable directory, where nothing keeps it from being made",
                )
                .with_hint("create the path first, or take the entry out"));
            }
        }
        Ok(())
    }

    /// Refuses a grant that a command could make lead anywhere, for the next run to open.
    pub(super) fn refuse_replaceable_grants(
        &self,
        named: &[Named<'_>],
        resolver: &mut Resolver,
    ) -> Result<()> {
        for Named { entry, way } in named {
            let mut links = way.links.iter();
            let replaceable = links.find(|link| self.is_in_writable(link, resolver));
            if let Some(link) = replaceable
                && !self.is_in_writable(&way.end, resolver)
            {
                let what = format!(
                    "{} is a link in a writable directory: a command could make the next run grant anything",
                    link.display()
                );
                let hint = format!("name the path it leads to: {}", way.end.display());
                return Err(path::entry_error(entry, &what).with_hint(hint));
            }
        }
        Ok(())
    }
}
