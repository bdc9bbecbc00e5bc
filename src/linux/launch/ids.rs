//! The users and groups inside, and what they stand for.

use std::fs;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability};

use super::control::{Control, Order};
use super::failure::{At, Failure, Step};
use crate::error::{Error, Kind, Result};
use crate::linux::plan::Place;
use crate::linux::plan::ids::{Ids, Map, Range};
use crate::policy::Host;

/// Decides who is who inside: a caller of user 0 that may map others has all of its own there.
///
/// # Errors
/// The command is to be user 0 where no namespace can make it so.
pub(crate) fn plan(host: &Host, fake_root: bool, place: Place) -> Result<Ids> {
    let own = (host.uid, host.gid);
    let as_root = Ids {
        inside: (0, 0),
        map: Map::Own(own),
    };
    match (place, fake_root) {
        _ if host.uid == 0 => Ok(match all_of_caller(place) {
            Some(map) => Ids { inside: own, map },
            None => Ids::as_outside(own),
        }),
        (_, false) => Ok(Ids::as_outside(own)),
        (Place::Host, true) => Ok(as_root),
        (Place::Sandbox, true) => {
            let goal = "cannot be user 0 inside a sandbox: that takes a user namespace";
            Err(Error::new(Kind::Usage, goal).with_hint("give --fake-root to the srt outside"))
        }
    }
}

/// Returns all ids of the caller, where it may map them; see user_namespaces(7).
fn all_of_caller(place: Place) -> Option<Map> {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    let may = [Capability::CAP_SETUID, Capability::CAP_SETGID].map(has) == [true; 2];
    if place == Place::Sandbox || !may {
        return None;
    }
    let read = |file| Range::all(&fs::read_to_string(file).ok()?);
    Some(Map::All {
        users: read("/proc/self/uid_map")?,
        groups: read("/proc/self/gid_map")?,
    })
}

/// Writes the maps that init may not write itself, and tells it that they stand.
pub(super) fn write(ids: &Ids, init: u32, line: &Control) -> std::result::Result<(), Failure> {
    let Map::All { users, groups } = &ids.map else {
        return Ok(());
    };
    let of_init = PathBuf::from(format!("/proc/{init}"));
    let files = files(Range::one_to_one(users), Range::one_to_one(groups));
    for (file, text) in files {
        let path = of_init.join(file);
        write_once(&path, &text).at_path(Step::MapIds, &path)?;
    }
    // An init that is gone is noticed by the line.
    drop(line.send_order(Order::Mapped));
    Ok(())
}

/// Maps one user and one group, `inside` to `outside`, in the namespace of this process.
pub(super) fn map_own(inside: (u32, u32), outside: (u32, u32)) -> std::result::Result<(), Failure> {
    let line = |inside, outside| format!("{inside} {outside} 1\n");
    let files = files(line(inside.0, outside.0), line(inside.1, outside.1));
    for (file, text) in files {
        let path = Path::new("/proc/self").join(file);
        write_once(&path, &text).at_path(Step::MapIds, &path)?;
    }
    Ok(())
}

/// The files of a process in their order: setgroups must be denied before an unprivileged
/// gid_map is accepted.
fn files(users: String, groups: String) -> [(&'static str, String); 3] {
    [
        ("setgroups", "deny".to_owned()),
        ("gid_map", groups),
        ("uid_map", users),
    ]
}

/// Each file takes one write only; see user_namespaces(7).
fn write_once(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::File::options().write(true).open(path)?;
    std::io::Write::write_all(&mut file, text.as_bytes())
}
