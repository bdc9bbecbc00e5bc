//! Entries that no mount can keep, which are refused rather than kept in part.

use super::{Filesystem, Named};
use crate::error::Result;
use crate::policy::host::Host;
use crate::policy::path::{self, Resolver, Way};
use crate::settings::{Entry, shown};

impl Filesystem {
    /// Refuses to hide what nothing may show again and no program starts without.
    pub(super) fn refuse_hidden_base(&self, credentials: &[Named<'_>]) -> Result<()> {
        let root = |named: &&Named<'_>| named.way.end.parent().is_none();
        match credentials.iter().find(root) {
            Some(Named { entry, .. }) => Err(path::entry_error(
                entry,
                "would hide every program, and nothing shows again what it hides",
            )
            .with_hint("name the files to hide, or add / to `filesystem.denyRead`")),
            None => Ok(()),
        }
    }

    /// Refuses what a mount cannot keep: a name that could be made, since there is nothing to
    /// cover.
    pub(super) fn refuse_unprotected_names(
        &self,
        named: &[Named<'_>],
        resolver: &mut Resolver,
    ) -> Result<()> {
        for Named { entry, way } in named {
            let mut crossed = way.crossed.iter();
            let lost = crossed
                .find(|path| !resolver.is_there(path) && self.is_in_writable(path, resolver));
            if let Some(path) = lost {
                let what = format!(
                    "a link on its way leads through {}, which does not exist in a writable \
                     directory, where nothing keeps it from being made",
                    shown(path)
                );
                return Err(path::entry_error(entry, &what)
                    .with_hint("name the path it leads to, or make that directory"));
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

    /// Refuses a grant that a command could make lead anywhere, for the next run to open. To
    /// hold the link helps no more where an earlier run has planted it. What is relative leads
    /// through the links by which the caller came to the working directory, too.
    pub(super) fn refuse_replaceable_grants(
        &self,
        named: &[Named<'_>],
        host: &Host,
        resolver: &mut Resolver,
    ) -> Result<()> {
        let cwd = host.named_cwd().map(|cwd| resolver.way(cwd).links);
        for Named { entry, way } in named {
            let before = cwd.iter().flatten().filter(|_| is_relative(entry));
            let mut links = before.chain(&way.links);
            let replaceable = links.find(|link| self.is_replaceable(&link.path));
            if let Some(link) = replaceable
                && !self.is_in_writable(&way.end, resolver)
            {
                let what = format!(
                    "{link} is a link in a writable directory: a command could make the next run grant anything"
                );
                let hint = format!("name the path it leads to: {}", way.end.display());
                return Err(path::entry_error(entry, &what).with_hint(hint));
            }
        }
        Ok(())
    }

    /// A pattern of a deny list fits links too, and one that an earlier run has planted leads
    /// where its maker wants something to be missed.
    pub(super) fn warn_of_planted_links<'a>(
        &mut self,
        denied: impl Iterator<Item = &'a Named<'a>>,
        resolver: &mut Resolver,
    ) {
        for Named { entry, way } in denied.filter(|named| named.entry.found.is_some()) {
            let mut links = way.links.iter();
            if let Some(link) = links.find(|link| self.is_replaceable(&link.path))
                && !self.is_in_writable(&way.end, resolver)
            {
                self.warnings.push(format!(
                    "{} `{}` fits a link that a command could have made: what {link} leads to is \
                     denied too, {}",
                    entry.origin.key,
                    entry.text,
                    shown(&way.end)
                ));
            }
        }
    }
}

/// Tells whether an entry starts at the working directory.
fn is_relative(entry: &Entry) -> bool {
    !entry.text.starts_with(['/', '~']) && entry.origin.base().is_none()
}

/// Refuses a deny that another case of a name would get around.
pub(super) fn refuse_uncovered(entry: &Entry, way: &Way) -> Result<()> {
    let Some(dir) = way.uncovered.as_ref().filter(|_| way.found.is_ok()) else {
        return Ok(());
    };
    let what = format!(
        "cannot be denied: a server finds names in {} in any case, and the kernel knows one alone",
        shown(dir)
    );
    Err(path::entry_error(entry, &what)
        .with_hint("deny the whole directory that this file system is mounted on"))
}
