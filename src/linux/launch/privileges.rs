//! Gives up every privilege, for good: capabilities, later gains, the caller's keys.

use std::fs::File;
use std::io::Read;

use caps::{CapSet, Capability, CapsHashSet};
use nix::errno::Errno;
use rustix::thread::CapabilitiesSecureBits;

use super::control::Confined;
use super::failure::{At, Failure, Step};
use crate::linux::plan::Plan;
use crate::linux::plan::filter::Filter;
use crate::linux::sys;

/// The capability that a command of user 0 keeps to make namespaces with a user 0 of their own:
/// without it the kernel takes no such id map.
const SETFCAP: Capability = Capability::CAP_SETFCAP;
/// Those by which a root caller writes files of others, and gives them away.
const FILE_CAPABILITIES: [Capability; 3] = [
    Capability::CAP_CHOWN,
    Capability::CAP_DAC_OVERRIDE,
    Capability::CAP_FOWNER,
];

/// Empties all five capability sets, but for what `plan` says the command keeps, and locks the
/// securebits that could refill them.
pub(super) fn drop_capabilities_for(plan: &Plan) -> Result<(), Failure> {
    drop_all_but(kept(plan))
}

/// Empties all five capability sets and locks the securebits that could refill them.
pub(super) fn drop_capabilities() -> Result<(), Failure> {
    drop_all_but(CapsHashSet::new())
}

fn kept(plan: &Plan) -> CapsHashSet {
    let setfcap = plan.keeps_setfcap().then_some(SETFCAP);
    let of_files = plan.keeps_file_capabilities.then_some(FILE_CAPABILITIES);
    setfcap
        .into_iter()
        .chain(of_files.into_iter().flatten())
        .collect()
}

fn drop_all_but(kept: CapsHashSet) -> Result<(), Failure> {
    let failed = |step| Failure::new(step, Errno::last());
    let clear = |set, step| caps::clear(None, set).map_err(|_| failed(step));
    let set = |set, to: &CapsHashSet| {
        caps::set(None, set, to).map_err(|_| failed(Step::DropCapabilities))
    };
    set(CapSet::Inheritable, &kept)?;
    // The only set that outlives an exec of user 0 under the bits below.
    clear(CapSet::Ambient, Step::DropAmbient)?;
    for capability in &kept {
        let raised = caps::raise(None, CapSet::Ambient, *capability);
        raised.map_err(|_| failed(Step::DropAmbient))?;
    }
    let locked = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    // While CAP_SETPCAP is still there: the securebits and the bounding set need it. A process
    // of a sandbox has both as they are to be.
    if rustix::thread::capabilities_secure_bits().at(Step::LockCapabilities)? != locked {
        rustix::thread::set_capabilities_secure_bits(locked).at(Step::LockCapabilities)?;
    }
    clear(CapSet::Bounding, Step::DropBounding)?;
    set(CapSet::Effective, &kept)?;
    set(CapSet::Permitted, &kept)
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
pub(super) fn verify(plan: &Plan, confined: &mut Confined) -> Result<(), Failure> {
    // The file has no size to be read by, and a kilobyte or two.
    let mut status = Vec::with_capacity(4096);
    File::open("/proc/self/status")
        .and_then(|mut file| file.read_to_end(&mut status))
        .at(Step::VerifyPrivileges)?;
    let status = String::from_utf8_lossy(&status);
    let kept: u64 = kept(plan).iter().map(Capability::bitmask).sum();
    let sets = ["CapInh", "CapPrm", "CapEff", "CapAmb"].map(|name| number(&status, name));
    let is_as_asked = sets == [Some(kept); 4]
        && number(&status, "CapBnd") == Some(0)
        && number(&status, "NoNewPrivs") == Some(1)
        // SECCOMP_MODE_FILTER.
        && number(&status, "Seccomp") == Some(2);
    if !is_as_asked {
        return Err(Failure::new(Step::VerifyPrivileges, Errno::EPERM));
    }
    confined.no_capabilities = kept == 0;
    confined.no_new_privs = true;
    Ok(())
}

/// Finds one number in the text of proc_pid_status(5). Procfs would take every line apart, which
/// is a hundredth of a launch. Hexadecimal, as which a single digit reads the same.
fn number(status: &str, name: &str) -> Option<u64> {
    let mut lines = status.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(found, _)| *found == name)?;
    u64::from_str_radix(value.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_whole_name_and_read_as_the_kernel_writes_it() {
        let status = "CapPrm:\t0000000080000000\nSeccomp:\t2\nSeccomp_filters:\t5\nCapBnd:\t-\n";
        assert_eq!(number(status, "CapPrm"), Some(0x8000_0000));
        assert_eq!(number(status, "Seccomp"), Some(2));
        assert_eq!(number(status, "Seccomp_filters"), Some(5));
        for unreadable in ["CapBnd", "Cap", "NoNewPrivs"] {
            assert_eq!(number(status, unreadable), None);
        }
    }
}
