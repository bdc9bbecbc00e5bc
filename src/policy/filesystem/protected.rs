//! Files of ours: settings in force and the events file, which no command may change.

use std::path::PathBuf;

use super::rules::Rule;
use super::{Filesystem, in_private_tree};
use crate::error::{Error, Kind, Result};
use crate::policy::host::Host;
use crate::policy::path::{FileKind, Resolver};
use crate::settings::shown;

impl Filesystem {
    /// Keeps files of ours from being written, replaced or moved.
    ///
    /// # Errors
    /// One is gone.
    pub fn protect_files(&mut self, paths: &[PathBuf], host: &Host) -> Result<()> {
        self.protect(paths, host, &mut Resolver::default())
    }

    /// Keeps files of ours from being written, and from being replaced by way of a link.
    pub(super) fn protect(
        &mut self,
        paths: &[PathBuf],
        host: &Host,
        resolver: &mut Resolver,
    ) -> Result<()> {
        for path in paths {
            let way = resolver.way_as_listed(&host.cwd.join(path));
            let cannot = |error| {
                Error::new(Kind::Settings, format!("cannot protect {}", shown(path)))
                    .call("realpath", error)
            };
            let real = way.real().map_err(cannot)?;
            if in_private_tree(real.as_path()) {
                self.hold(&way);
                continue;
            }
            if self.is_in_writable(real.as_path(), resolver) {
                self.notes.push(format!(
                    "{} lies in a writable path: it is not written during the run",
                    shown(path)
                ));
            }
            if real.id().kind == FileKind::File && way.names > 1 {
                self.warnings.push(format!(
                    "{} has {} names (hard links): only this one is kept from being written",
                    shown(path),
                    way.names
                ));
            }
            let rule = |real| Rule::built_in("filesystem.denyWrite", real);
            self.guard(&way, rule).map_err(cannot)?;
        }
        Ok(())
    }
}
