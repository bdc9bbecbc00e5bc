//! Gives up every privilege, for good: capabilities, later gains, the caller's keys.

use caps::CapSet;
use nix::errno::Errno;
use procfs::FromRead;
use procfs::process::Status;
use rustix::thread::CapabilitiesSecureBits;

use super::failure::{At, Failure, Step};
use crate::linux::plan::filter::Filter;
use crate::linux::sys;

/// Empties all five capability sets and locks the securebits that could refill them.
pub(super) fn drop_capabilities() -> Result<(), Failure> {
    // While CAP_SETPCAP is still there: the bounding set and the securebits need it.
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    rustix::thread::set_capabilities_secure_bits(locked).at(Step::DropCapabilities)?;
    for set in [
        CapSet::Bounding,
        CapSet::Ambient,
        CapSet::Inheritable,
        CapSet::Effective,
        CapSet::Permitted,
    ] {
        caps::clear(None, set).map_err(|_| Failure::new(Step::DropCapabilities, Errno::last()))?;
    }
    Ok(())
}

/// Empties the capability sets of a process on the host's side, which may lack the right to
/// change its bounding set; no_new_privs makes that set moot.
pub(crate) fn drop_capabilities_of_helper() -> std::io::Result<()> {
    for set in [
        CapSet::Ambient,
        CapSet::Inheritable,
        CapSet::Effective,
        CapSet::Permitted,
    ] {
        caps::clear(None, set).map_err(std::io::Error::other)?;
    }
    Ok(())
}

/// Makes sure that no program gains rights by being executed.
pub(super) fn set_no_new_privs() -> Result<(), Failure> {
    rustix::thread::set_no_new_privs(true).at(Step::NoNewPrivs)
}

/// Installs the programs in order; irreversible. Returns how many are in force.
pub(super) fn install(filters: &[Filter]) -> Result<u8, Failure> {
    for filter in filters {
        sys::install_seccomp(&filter.program()).at(Step::Seccomp)?;
    }
    u8::try_from(filters.len()).map_err(|_| Failure::new(Step::Seccomp, Errno::E2BIG))
}

/// Reads back what this process may still do: the calls answered well, but it is the state
/// that counts.
pub(super) fn verify() -> Result<(), Failure> {
    let wrong = |errno| Failure::new(Step::VerifyPrivileges, errno);
    let status = Status::from_file("/proc/self/status").map_err(|_| wrong(Errno::EIO))?;
    let capabilities = [
        Some(status.capinh),
        Some(status.capprm),
        Some(status.capeff),
        status.capbnd,
        status.capamb,
    ];
    if capabilities.iter().any(|set| *set != Some(0)) {
        return Err(wrong(Errno::EPERM));
    }
    // 2 is SECCOMP_MODE_FILTER; see proc_pid_status(5).
    if status.nonewprivs != Some(1) || status.seccomp != Some(2) {
        return Err(wrong(Errno::EPERM));
    }
    Ok(())
}
